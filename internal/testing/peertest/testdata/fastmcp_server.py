"""A FastMCP server as its documentation shows, with a tool for each feature that a
host relays."""
import anyio
from mcp.server.fastmcp import Context, FastMCP
from pydantic import BaseModel

mcp = FastMCP("fast", instructions="Be kind.")
wait_cancelled = anyio.Event()


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
        wait_cancelled.set()


@mcp.tool()
async def cancelled() -> str:
    """Returns once wait has been cancelled."""
    global wait_cancelled
    await wait_cancelled.wait()
    wait_cancelled = anyio.Event()
    return "cancelled"


@mcp.tool()
async def grow(name: str, ctx: Context) -> str:
    """Adds a tool."""
    mcp.add_tool(lambda: f"I am {name}", name=name, description="Was added.")
    await ctx.session.send_tool_list_changed()
    return "grown"


if __name__ == "__main__":
    mcp.run()
