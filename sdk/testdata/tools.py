"""The tools of loop.py, with the SDK."""
from exthost import run, tool


@tool
def echo(text: str) -> str:
    return text


@tool
def write(size: int, text: str) -> str:
    return "x" * size


run()
