from typing import Annotated

from exthost import Context, run, tool


@tool(read_only=True)
def hello(name: Annotated[str, "Whom to greet"] = "world") -> str:
    """Greet someone by name."""
    return f"Hello, {name}!"


@tool(read_only=True)
def count(seconds: Annotated[int, "How far to count", {"minimum": 1, "maximum": 600}], ctx: Context) -> str:
    """Count seconds: shows how a long call tells its progress and is cancelled."""
    for done in range(seconds):
        ctx.progress(done, seconds)
        ctx.wait(1)
    return f"{seconds} seconds have passed."


run("0.1.0")
