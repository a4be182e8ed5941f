"""A server by FastMCP as its documentation would have one write it, with a tool
for each thing that a host has to pass on."""
import anyio
from mcp.server.fastmcp import Context, FastMCP
from pydantic import BaseModel

mcp = FastMCP("fast", instructions="Be kind.")
given_up = anyio.Event()


class Person(BaseModel):
    name: str
    born: int


@mcp.tool()
def greet(name: str) -> str:
    """Grüßt jemanden."""
    return f"Hallo, {name}!"


@mcp.tool()
def person(name: str, born: int = 1970) -> Person:
    """Returns structured content."""
    return Person(name=name, born=born)


@mcp.tool()
async def count(to: int, ctx: Context) -> str:
    """Reports its progress."""
    for i in range(to):
        await ctx.report_progress(i + 1, to, f"step {i + 1}")
    return "counted"


@mcp.tool()
async def wait(ctx: Context) -> str:
    """Reports progress once, then waits until it is cancelled."""
    await ctx.report_progress(1)
    try:
        await anyio.sleep_forever()
    finally:
        given_up.set()


@mcp.tool()
async def cancelled() -> str:
    """Returns once wait has been cancelled, each time it was."""
    global given_up
    await given_up.wait()
    given_up = anyio.Event()
    return "cancelled"


@mcp.tool()
async def grow(name: str, ctx: Context) -> str:
    """Adds a tool."""
    mcp.add_tool(lambda: f"I am {name}", name=name, description="Was added.")
    await ctx.session.send_tool_list_changed()
    return "grown"


if __name__ == "__main__":
    mcp.run()
