"""A policy of kind mcp: an MCP server with the three tools of a plugin server and one
plugin. It denies arguments that contain a secret word, and masks e-mail addresses in
results. It requires the package mcp.
"""
import json
import re
from typing import Any

try:
    from mcp.server import MCPServer  # mcp 2
except ImportError:
    from mcp.server.fastmcp import FastMCP as MCPServer  # mcp 1

NAME = "masks"
PLUGIN = {"name": NAME, "kind": "external", "mode": "sequential", "hooks": ["tool_pre_invoke", "tool_post_invoke"]}
EMAIL = re.compile(r"[A-Za-z0-9._%+-]+@[A-Za-z0-9.-]+\.[A-Za-z]{2,}")

server = MCPServer(NAME)


@server.tool()
def get_plugin_configs() -> str:
    return json.dumps([PLUGIN])


@server.tool()
def get_plugin_config(name: str) -> str:
    return json.dumps(PLUGIN if name == NAME else {})


@server.tool()
def invoke_hook(hook_type: str, plugin_name: str, payload: dict[str, Any], context: dict[str, Any]) -> str:
    answer: dict[str, Any] = {"plugin_name": plugin_name}
    try:
        answer["result"] = HOOKS[hook_type](payload)
    except Exception as error:  # reported to the host; the server continues
        answer["error"] = {"message": f"{type(error).__name__}: {error}", "plugin_name": plugin_name}
    return json.dumps(answer)


def tool_pre_invoke(payload):
    if "hunter2" in json.dumps(payload["args"]):
        violation = {"reason": "a password", "description": "take it out of the arguments", "code": "SECRET"}
        return {"continue_processing": False, "violation": violation}
    return {"continue_processing": True}


def tool_post_invoke(payload):
    masked = json.loads(EMAIL.sub("***@***", json.dumps(payload["result"], ensure_ascii=False)))
    return {"continue_processing": True, "modified_payload": {"name": payload["name"], "result": masked}}


HOOKS = {"tool_pre_invoke": tool_pre_invoke, "tool_post_invoke": tool_post_invoke}

if __name__ == "__main__":
    server.run("stdio")
