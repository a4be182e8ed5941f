"""A policy of kind interceptor: an MCP server with two interceptors, as SEP-2624 proposes
them. passwords refuses arguments that hold a secret word; addresses masks e-mail addresses
in results. It requires Python only.

The host writes one JSON-RPC message per line to stdin and reads one per line from stdout;
logs go to stderr.
"""
import json
import re
import sys

EMAIL = re.compile(r"[A-Za-z0-9._%+-]+@[A-Za-z0-9.-]+\.[A-Za-z]{2,}")


def passwords(params):
    word = (params.get("config") or {}).get("word", "hunter2")
    if word not in json.dumps(params["payload"], ensure_ascii=False):
        return {"valid": True}
    found = {"path": "arguments", "message": "a password: take it out of the arguments", "severity": "error"}
    return {"valid": False, "severity": "error", "messages": [found]}


def addresses(params):
    text = json.dumps(params["payload"], ensure_ascii=False)
    masked = EMAIL.sub("***@***", text)
    if masked == text:
        return {"modified": False}  # the host goes on with its own text of the payload
    return {"modified": True, "payload": json.loads(masked)}


# By name: what the interceptor does, its type and the phase in which it is asked.
INTERCEPTORS = {
    "passwords": (passwords, "validation", "request"),
    "addresses": (addresses, "mutation", "response"),
}


def listed(params):
    return {"interceptors": [
        {"name": name, "type": kind, "hooks": [{"events": ["tools/call"], "phase": phase}]}
        for name, (_, kind, phase) in INTERCEPTORS.items()
    ]}


def invoke(params):
    function, kind, _ = INTERCEPTORS[params["name"]]
    return {"interceptor": params["name"], "type": kind, "phase": params["phase"], **function(params)}


METHODS = {
    "initialize": lambda params: {"protocolVersion": params["protocolVersion"], "capabilities": {},
                                  "serverInfo": {"name": "guard", "version": "0.1.0"}},
    "interceptors/list": listed,
    "interceptor/invoke": invoke,
    "ping": lambda params: {},
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
    except Exception as error:  # reported to the host; the server continues
        answer["error"] = {"code": -32603, "message": f"{type(error).__name__}: {error}"}
    print(json.dumps(answer), flush=True)
