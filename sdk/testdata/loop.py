"""The smallest loop that answers calls: what the SDK is compared with."""
import json
import os
import sys


def echo(text):
    return text


def write(size, text):
    return "x" * size


tools = {"echo": echo, "write": write}
for line in sys.stdin.buffer:
    request = json.loads(line)
    params = request["params"]
    text = tools[params["name"]](**params["arguments"])
    answer = {"jsonrpc": "2.0", "id": request["id"], "result": {"content": [{"type": "text", "text": text}]}}
    data = json.dumps(answer).encode() + b"\n"
    while data:
        data = data[os.write(1, data):]
