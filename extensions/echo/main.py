"""A lite extension: it reads one JSON object per line from stdin and answers on stdout.

The host sends {"method": tool, "params": arguments, "id": n} and waits for
{"id": n, "result": anything} or {"id": n, "error": {"code": n, "message": text}}.
Logs go to stderr. The script ends with its stdin.
"""
import json
import sys


def echo(params):
    return params["text"]


def ping(params):
    return "pong"


TOOLS = {"echo": echo, "ping": ping}

sys.stdin.reconfigure(encoding="utf-8")  # regardless of the locale
for line in sys.stdin:
    request = json.loads(line)
    answer = {"id": request["id"]}
    try:
        answer["result"] = TOOLS[request["method"]](request.get("params") or {})
    except Exception as error:  # reported to the caller; the script continues
        answer["error"] = {"code": 1, "message": f"{type(error).__name__}: {error}"}
    print(json.dumps(answer), flush=True)
