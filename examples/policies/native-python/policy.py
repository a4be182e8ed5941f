"""A policy of kind native that denies tools by name. It requires Python only.

The host writes one JSON-RPC request per line to stdin and reads one answer per line
from stdout; logs go to stderr. The policy ends with its stdin.
"""
import json
import sys
from fnmatch import fnmatchcase

config = {}


def initialize(params):
    config.update(params.get("config") or {})
    return {"server_version": "0.1.0"}


def decide(params):
    """Returns a decision: allow, deny, modify, respond or ask. An error, or no answer,
    ends the exchange if the policy is required."""
    tool = params.get("tool", "")
    for glob in config.get("deny", []):
        if params["flow"] == "request" and fnmatchcase(tool, glob):
            return {"decision": "deny", "code": "denied_tool", "reason": f"{tool} may not be called here; use another tool"}
    return {"decision": "allow"}


METHODS = {
    "initialize": initialize,
    "governance/decide": decide,
    "ping": lambda params: {},
    "shutdown": lambda params: {},
}

sys.stdin.reconfigure(encoding="utf-8")  # regardless of the locale
for line in sys.stdin:
    request = json.loads(line)
    if "id" not in request:
        continue  # a notification, such as notifications/cancelled
    answer = {"jsonrpc": "2.0", "id": request["id"]}
    try:
        method = METHODS.get(request["method"])
        if method is None:
            answer["error"] = {"code": -32601, "message": f"no method {request['method']}"}
        else:
            answer["result"] = method(request.get("params") or {})
    except Exception as error:  # reported to the host; the policy continues
        answer["error"] = {"code": -32000, "message": f"{type(error).__name__}: {error}"}
    print(json.dumps(answer), flush=True)
