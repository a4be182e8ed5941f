"""The Python client for legacy and modern versions: connects to the endpoint in argv[1],
lists the tools, makes the calls and prints a report."""

import asyncio
import json
import sys

from mcp import Client, MCPError, StdioServerParameters
from mcp.client.sse import sse_client
from mcp.types import ElicitResult


def server(endpoint):
    if endpoint["transport"] == "stdio":
        command, env = endpoint["command"], endpoint.get("env")
        return StdioServerParameters(command=command[0], args=command[1:], env=env)
    if endpoint["transport"] == "sse":
        return sse_client(endpoint["url"])
    return endpoint["url"]


async def call(client, wanted):
    try:
        result = await client.call_tool(wanted["name"], wanted["arguments"])
    except MCPError as error:
        return {"code": error.error.code, "message": error.error.message}
    return {"result": result.model_dump(mode="json", by_alias=True, exclude_none=True)}


def person(answer):
    async def ask(context, params):
        return ElicitResult(action=answer)

    return ask if answer else None


async def main():
    request = json.loads(sys.argv[1])
    endpoint = request["endpoint"]
    mode = {"legacy": "legacy", "modern": "2026-07-28", "auto": "auto"}[endpoint["versions"]]
    async with Client(server(endpoint), mode=mode, elicitation_callback=person(endpoint.get("answer"))) as client:
        tools = [tool.name for tool in (await client.list_tools()).tools]
        calls = [await call(client, wanted) for wanted in request["calls"]]
        version = client.protocol_version
    print(json.dumps({"version": version, "tools": tools, "calls": calls}, separators=(",", ":")))


asyncio.run(main())
