"""The Python client for legacy and modern versions: connects to the endpoint in argv[1],
lists the tools, makes the calls and prints a report."""

import asyncio
import json
import sys

from mcp import Client, MCPError, StdioServerParameters
from mcp.client.sse import sse_client
from mcp.client.streamable_http import create_mcp_http_client, streamable_http_client

from client_common import authorization, person, report


def server(endpoint, http):
    if endpoint["transport"] == "stdio":
        command, env = endpoint["command"], endpoint.get("env")
        return StdioServerParameters(command=command[0], args=command[1:], env=env)
    if endpoint["transport"] == "sse":
        return sse_client(endpoint["url"])
    return streamable_http_client(endpoint["url"], http_client=http)


async def call(client, wanted):
    try:
        result = await client.call_tool(wanted["name"], wanted["arguments"])
    except MCPError as error:
        return {"code": error.error.code, "message": error.error.message}
    return {"result": result.model_dump(mode="json", by_alias=True, exclude_none=True)}


async def main():
    request = json.loads(sys.argv[1])
    endpoint, seen = request["endpoint"], {"calls": []}
    mode = {"legacy": "legacy", "modern": "2026-07-28", "auto": "auto"}[endpoint["versions"]]
    ask = person(seen) if endpoint.get("asks") else None
    async with create_mcp_http_client(headers=authorization(endpoint)) as http:
        async with Client(server(endpoint, http), mode=mode, elicitation_callback=ask) as client:
            seen["tools"] = [tool.name for tool in (await client.list_tools()).tools]
            for wanted in request["calls"]:
                seen["calls"].append(await call(client, wanted))
            seen["version"] = client.protocol_version
    report(seen)


asyncio.run(main())
