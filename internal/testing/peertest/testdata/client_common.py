"""What the Python clients of both generations have in common."""

import asyncio
import json
import os
import sys

from mcp.types import ElicitResult


def authorization(endpoint):
    return {"Authorization": "Bearer " + endpoint["token"]} if "token" in endpoint else {}


def report(seen):
    print(json.dumps(seen, separators=(",", ":")), flush=True)


def person(seen):
    """The person is at stdin, and answers one form after the other, also one that was taken back."""
    one = asyncio.Lock()

    async def answer():
        async with one:
            return (await asyncio.to_thread(sys.stdin.readline)).strip()

    async def ask(context, params):
        report({"asked": params.message})
        action = await asyncio.shield(answer())
        if action == "gone":
            report(seen)
            os._exit(0)
        return ElicitResult(action=action)

    return ask
