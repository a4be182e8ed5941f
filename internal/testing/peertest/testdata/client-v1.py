"""The Python client of the first generation: connects to the endpoint in argv[1], lists the tools, makes
the calls and prints a report."""

import asyncio
import json
import sys

from mcp import ClientSession, McpError
from mcp.client.sse import sse_client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamablehttp_client

from client_common import authorization, person, report


def connect(endpoint):
    if endpoint["transport"] == "stdio":
        command, env = endpoint["command"], endpoint.get("env")
        return stdio_client(StdioServerParameters(command=command[0], args=command[1:], env=env))
    if endpoint["transport"] == "sse":
        return sse_client(endpoint["url"])
    return streamablehttp_client(endpoint["url"], headers=authorization(endpoint))


async def call(session, wanted):
    try:
        result = await session.call_tool(wanted["name"], wanted["arguments"])
    except McpError as error:
        return {"code": error.error.code, "message": error.error.message}
    return {"result": result.model_dump(mode="json", by_alias=True, exclude_none=True)}


async def main():
    request = json.loads(sys.argv[1])
    seen = {"calls": []}
    ask = person(seen) if request["endpoint"].get("asks") else None
    async with connect(request["endpoint"]) as streams:
        async with ClientSession(streams[0], streams[1], elicitation_callback=ask) as session:
            seen["version"] = (await session.initialize()).protocolVersion
            seen["tools"] = [tool.name for tool in (await session.list_tools()).tools]
            for wanted in request["calls"]:
                seen["calls"].append(await call(session, wanted))
    report(seen)


asyncio.run(main())
