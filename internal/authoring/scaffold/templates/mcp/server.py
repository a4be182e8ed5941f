"""An MCP server on stdin and stdout that requires Python only."""
import json
import sys

TOOLS = [{
    "name": "hello",
    "description": "Greet someone by name.",
    "inputSchema": {
        "type": "object",
        "properties": {"name": {"type": "string", "description": "Whom to greet", "default": "world"}},
        "additionalProperties": False,
    },
    "annotations": {"readOnlyHint": True},
}]


class Refused(Exception):
    """A JSON-RPC error with a code and a message."""


def hello(name="world"):
    return f"Hello, {name}!"


def initialize(params):
    return {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": {"name": "{{ID}}", "version": "0.1.0"}}


def call(params):
    if params.get("name") != "hello":
        raise Refused(-32602, f"there is no tool {params.get('name')}")
    try:
        text, failed = hello(**params.get("arguments") or {}), False
    except Exception as error:  # the model reads it and can correct its call
        text, failed = f"{type(error).__name__}: {error}", True
    return {"content": [{"type": "text", "text": text}], "isError": failed}


METHODS = {"initialize": initialize, "ping": lambda params: {}, "tools/list": lambda params: {"tools": TOOLS}, "tools/call": call}

for line in sys.stdin.buffer:  # JSON is UTF-8, regardless of the locale
    message = json.loads(line)
    if "id" not in message or "method" not in message:
        continue  # a notification or an answer
    answer = {"jsonrpc": "2.0", "id": message["id"]}
    try:
        if message["method"] not in METHODS:
            raise Refused(-32601, "method not found: " + message["method"])
        answer["result"] = METHODS[message["method"]](message.get("params") or {})
    except Refused as error:
        answer["error"] = dict(zip(("code", "message"), error.args))
    print(json.dumps(answer), flush=True)
