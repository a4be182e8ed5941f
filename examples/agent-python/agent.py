#!/usr/bin/env python3
"""An agent loop: it offers the tools of exthost to a model, makes the calls that the
model requests, and repeats until the model answers.

    python3 agent.py 'remember "buy milk" and say which kernel runs here'

It starts `exthost serve --stdio --own` with the extensions and the configuration of the
working directory, and uses MCP. A key in ANTHROPIC_API_KEY or OPENAI_API_KEY selects a
real model; without a key, a scripted model is used, which needs no network.
ANTHROPIC_BASE_URL and OPENAI_BASE_URL select other servers with the same API, EXTHOST
another program than the exthost on PATH.

Requires Python 3.9 and its standard library only.
"""

import argparse
import concurrent.futures
import http.client
import itertools
import json
import os
import re
import shutil
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request

INSTRUCTIONS = "Use the tools that you are offered. When one fails, read why: correct the call, or do without it and say so."


class Failure(Exception):
    """An error that ends the program, with a message for its user."""


def log(text):
    print(text, file=sys.stderr, flush=True)


class Host:
    """A child process of exthost that serves MCP on its stdin and stdout."""

    TIMEOUT = 600  # seconds for an answer; the host bounds tools more tightly

    def __init__(self):
        program = os.environ.get("EXTHOST") or shutil.which("exthost")
        if not program:
            raise Failure("there is no exthost on PATH: go install ./cmd/exthost, or set EXTHOST to the program")
        try:  # stderr is inherited: it shows the log
            self.process = subprocess.Popen([program, "serve", "--stdio", "--own", "--log-level", "warn"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        except OSError as e:
            raise Failure(f"{program}: {e.strerror}")
        self.lock = threading.Lock()  # guards pending, ids and stdin
        self.pending = {}
        self.ids = itertools.count(1)
        self.listed = None  # the cached tools; None after list_changed
        self.ended = False
        self.reader = threading.Thread(target=self._read)
        self.reader.start()

    def __enter__(self):
        try:
            hello = self.request("initialize", {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "agent-python", "version": "1"}})
            if "error" in hello:
                raise Failure("initialize: " + hello["error"]["message"])
            self._write({"method": "notifications/initialized"})
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        try:
            self.process.stdin.close()  # ends the host and its extensions
        except OSError:
            pass
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.reader.join()
        self.process.stdout.close()

    def request(self, method, params):
        """Returns the result of a request, or {"error": {"code", "message", "data"}}."""
        future = concurrent.futures.Future()
        with self.lock:
            number = next(self.ids)
            self.pending[number] = future
            if self.ended:
                future.set_exception(Failure("exthost has ended"))
        try:
            self._write({"id": number, "method": method, "params": params})
            return future.result(self.TIMEOUT)
        except concurrent.futures.TimeoutError:
            raise Failure(f"exthost does not answer {method}")
        except BrokenPipeError:
            raise Failure("exthost has ended; what it says is above")

    def _write(self, message):
        line = json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n"
        with self.lock:
            self.process.stdin.write(line)
            self.process.stdin.flush()

    def _read(self):
        try:
            for line in self.process.stdout:
                try:
                    message = json.loads(line)
                    self._handle(message)
                except (ValueError, KeyError, TypeError, AttributeError):
                    log(f"this is not exthost: it says {line[:80]}")
                    self.process.kill()
                    break
        except OSError:
            pass  # the host has ended
        finally:
            with self.lock:
                self.ended = True
                lost = [future for future in self.pending.values() if not future.done()]
            for future in lost:
                future.set_exception(Failure("exthost has ended; what it says is above"))

    def _handle(self, message):
        if "method" not in message:
            with self.lock:
                future = self.pending.pop(message.get("id"), None)
            if future:
                future.set_result(message if "error" in message else message["result"])
        elif message["method"] == "notifications/tools/list_changed":
            self.listed = None
        elif "id" in message:  # a request of the host: no capability was offered
            answer = {"result": {}} if message["method"] == "ping" else {"error": {"code": -32601, "message": "not here"}}
            self._write({"id": message["id"], **answer})

    def tools(self):
        """Returns the present tools as MCP descriptors."""
        tools, params = self.listed, {}
        if tools is not None:
            return tools
        tools = self.listed = []
        while True:
            page = self.request("tools/list", params)
            if "error" in page:
                raise Failure("tools/list: " + page["error"]["message"])
            tools.extend(page["tools"])
            if not page.get("nextCursor"):
                return tools
            params = {"cursor": page["nextCursor"]}

    def call(self, name, arguments):
        """Returns the text of a tool's result or error, and whether it failed."""
        result = self.request("tools/call", {"name": name, "arguments": arguments})
        error = result.get("error")
        if error:
            data = error.get("data") if isinstance(error.get("data"), dict) else {}
            text = error["message"]
            if data.get("outcome"):
                text += "; it may have been carried out nevertheless"
            if data.get("retry_after_ms"):
                text += "; try again in %d s" % max(1, data["retry_after_ms"] // 1000)
            return text, True
        text = "\n".join(block["text"] for block in result.get("content", []) if block.get("type") == "text")
        if not text:  # APIs refuse a failure without text
            text = json.dumps(result["structuredContent"]) if "structuredContent" in result else "(it answers with no text)"
        return text, result.get("isError", False)


class NoRedirect(urllib.request.HTTPRedirectHandler):
    """Does not follow redirects, so that the key stays with the vendor."""

    def redirect_request(self, *_):
        return None


OPENER = urllib.request.build_opener(NoRedirect)


class API:
    """The common part of the vendors' APIs."""

    TRIES = 4  # per request
    MAX_PAUSE = 60  # longest wait in seconds before a retry; a longer Retry-After is an error

    def __init__(self, vendor, url):
        self.variable = vendor + "_API_KEY"
        self.key = os.environ.get(self.variable, "").strip()
        if not self.key:
            raise Failure(f"{self.variable} is not set; --model scripted needs no key")
        self.url = (os.environ.get(vendor + "_BASE_URL") or url).rstrip("/")

    def post(self, path, headers, body):
        for attempt in itertools.count():
            try:
                request = urllib.request.Request(self.url + path, json.dumps(body).encode(), {"Content-Type": "application/json", **headers})
                with OPENER.open(request, timeout=600) as response:
                    return json.load(response)
            except urllib.error.HTTPError as e:
                with e:
                    reply = e.read().decode(errors="replace")
                if attempt == self.TRIES - 1 or e.code != 429 and e.code < 500:
                    raise self.refusal(e, reply)
                pause = e.headers.get("Retry-After", "")
                pause = int(pause) if pause.isdecimal() else 2**attempt
                if pause > self.MAX_PAUSE:
                    raise Failure(f"{self.refusal(e, reply)}; ask again in {pause} s")
                log(f"the model's API is busy ({e.code} {e.reason}); once more in {pause} s")
                time.sleep(pause)
            except json.JSONDecodeError:
                raise Failure(f"{self.url}{path} answers with no JSON") from None
            except ValueError:  # the text of e may contain the key
                raise Failure(f"{self.variable} or the base URL cannot be sent as it is") from None
            except (OSError, http.client.HTTPException) as e:
                raise Failure(f"{self.url}{path}: {e}")

    def refusal(self, e, reply):
        try:
            reply = json.loads(reply)["error"]["message"]
        except (ValueError, KeyError, TypeError):
            reply = reply[:512]
        hint = {401: "; the key is that of " + self.variable, 404: "; --model VENDOR:NAME names another model"}.get(e.code, "")
        return Failure(f"{e.url}: {e.code} {e.reason}: {reply}{hint}")


# A model object holds one conversation. tell(task, results, tools) sends the task, or the
# results, a list of (id, text, failed), and offers the tools. It returns a text and a list
# of calls, (id, tool, arguments); without calls the text is the answer to the task.
#
# The tools' schemas are sent unchanged. `exthost tools export -f anthropic` (or
# openai-chat) also rewrites schemas that a vendor would refuse.


class Anthropic(API):
    """The Messages API."""

    MAX_TOKENS = 8192

    def __init__(self, name):
        super().__init__("ANTHROPIC", "https://api.anthropic.com")
        self.name = name or "claude-sonnet-4-5"
        self.messages = []

    def tell(self, task, results, tools):
        content = task
        if results is not None:  # the API requires all results in one message
            content = [{"type": "tool_result", "tool_use_id": i, "content": text, "is_error": failed} for i, text, failed in results]
        self.messages.append({"role": "user", "content": content})
        definitions = [{"name": t["name"], "description": t.get("description", ""), "input_schema": t["inputSchema"]} for t in tools]
        answer = self.post("/v1/messages", {"X-Api-Key": self.key, "Anthropic-Version": "2023-06-01"}, {
            "model": self.name, "max_tokens": self.MAX_TOKENS, "system": INSTRUCTIONS, "messages": self.messages, "tools": definitions})
        if answer["stop_reason"] == "max_tokens":
            raise Failure(f"the model's answer is longer than {self.MAX_TOKENS} tokens")
        if answer["stop_reason"] == "model_context_window_exceeded":
            raise Failure("the model's answer is cut short: " + answer["stop_reason"])
        if answer["stop_reason"] == "refusal":
            raise Failure(f"{self.name} refuses the task")
        self.messages.append({"role": "assistant", "content": answer["content"]})  # with all members, including unknown ones
        text = "".join(b["text"] for b in answer["content"] if b["type"] == "text")
        return text, [(b["id"], b["name"], b["input"]) for b in answer["content"] if b["type"] == "tool_use"]


class OpenAI(API):
    """The Chat Completions API, which many other servers offer too."""

    def __init__(self, name):
        super().__init__("OPENAI", "https://api.openai.com/v1")
        self.name = name or "gpt-5-mini"
        self.messages = []

    def tell(self, task, results, tools):
        if results is None:
            self.messages += [{"role": "system", "content": INSTRUCTIONS}, {"role": "user", "content": task}]
        for i, text, failed in results or []:  # the API has no member for errors
            self.messages.append({"role": "tool", "tool_call_id": i, "content": "error: " + text if failed else text})
        body = {"model": self.name, "messages": self.messages}
        if tools:  # the API refuses an empty list
            body["tools"] = [{"type": "function", "function": {"name": t["name"], "description": t.get("description", ""), "parameters": t["inputSchema"]}} for t in tools]
        answer = self.post("/chat/completions", {"Authorization": "Bearer " + self.key}, body)
        if not answer.get("choices"):
            raise Failure("the model's API answers with no choices")
        answer = answer["choices"][0]
        message = answer["message"]
        if answer.get("finish_reason") in ("length", "content_filter"):
            raise Failure("the model's answer is cut short: " + answer["finish_reason"])
        if message.get("refusal"):
            raise Failure("the model refuses the task: " + message["refusal"])
        self.messages.append(message)  # with all members, including unknown ones
        calls = [(c["id"], c["function"]["name"], c["function"]["arguments"]) for c in message.get("tool_calls") or []]
        return message.get("content") or "", calls


class Scripted:
    """Replaces a model where there is no key. It does not understand language. It selects
    the tool that shares the most words with the task in its name and description, passes
    the quoted strings and the numbers of the task as arguments, and reports the results.
    "then" and ";" separate steps of a task, "and" joins calls of one step.
    """

    def __init__(self):
        self.steps, self.asked, self.report = [], [], []

    def tell(self, task, results, tools):
        if results is None:
            self.steps = [[w for w in map(self.subtask, re.split(r'\band\b(?=(?:[^"]*"[^"]*")*[^"]*$)', step)) if w[0]]
                          for step in re.split(r';(?=(?:[^"]*"[^"]*")*[^"]*$)|\bthen\b(?=(?:[^"]*"[^"]*")*[^"]*$)', task)]
        for name, (_, text, failed) in zip(self.asked, results or []):
            self.report.append(f"{name} {'fails' if failed else 'says'}: {text.strip()}")
        while self.steps:
            self.asked, calls = [], []
            for words, values in self.steps.pop(0):
                tool = self.choose(words, tools)
                if not tool:
                    self.report.append('no tool that I am offered does "%s"' % " ".join(words))
                    continue
                self.asked.append(tool["name"])
                calls.append((f"call_{len(self.asked)}", tool["name"], self.arguments(tool["inputSchema"], values)))
            if calls:
                return "", calls
        return "\n".join(self.report), []

    @staticmethod
    def subtask(part):
        texts = re.findall(r'"([^"]*)"', part)
        rest = re.sub(r'"[^"]*"', " ", part)
        numbers = [json.loads(n) for n in re.findall(r"-?(?:0|[1-9]\d*)(?:\.\d+)?", rest)]
        return re.findall(r"[^\W\d_]+", rest.lower()), {"string": texts, "number": numbers, "integer": numbers}

    @staticmethod
    def choose(words, tools):
        best, most = None, 0
        for t in tools:
            name, description = (re.findall(r"[^\W\d_]+", t.get(key, "").lower()) for key in ("name", "description"))
            score = sum(3 if w in name else 1 if len(w) > 3 and w in description else 0 for w in words)
            if score > most:
                best, most = t, score
        return best

    @staticmethod
    def arguments(schema, values):
        values = {kind: list(v) for kind, v in values.items()}
        properties, chosen = schema.get("properties", {}), {}
        for name in schema.get("required", []) + sorted(properties):
            kind = properties.get(name, {}).get("type")
            if name not in chosen and isinstance(kind, str) and values.get(kind):
                chosen[name] = values[kind].pop(0)
        return chosen


def pick(named):
    vendor, _, name = named.partition(":")
    if not vendor:
        vendor = next((v for v in ("anthropic", "openai") if os.environ.get(v.upper() + "_API_KEY")), "scripted")
        if vendor == "scripted":
            log("neither ANTHROPIC_API_KEY nor OPENAI_API_KEY is set: a scripted model stands in")
    if vendor == "anthropic":
        return Anthropic(name)
    if vendor == "openai":
        return OpenAI(name)
    if vendor == "scripted":
        return Scripted()
    raise Failure(f'there is no model "{named}": anthropic, openai or scripted')


def call(host, name, arguments):
    try:  # the model may have written invalid JSON, and Python accepts NaN
        if isinstance(arguments, str):
            arguments = json.loads(arguments or "{}")
        json.dumps(arguments, allow_nan=False)
    except (ValueError, RecursionError) as e:
        return f"the arguments are no JSON: {e}", True
    return host.call(name, arguments)


def run(host, model, task, steps):
    """Returns the model's answer. Errors of tools go to the model."""
    results = None
    with concurrent.futures.ThreadPoolExecutor() as pool:
        for _ in range(steps):
            text, calls = model.tell(task, results, host.tools())
            if not calls:
                return text
            for _, name, arguments in calls:
                log(f"→ {name} {arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)}")
            answers = list(pool.map(lambda c: call(host, c[1], c[2]), calls))  # in parallel
            for (_, name, _), (text, failed) in zip(calls, answers):
                log(f"{'✗' if failed else '←'} {name} {text.strip()}")
            results = [(c[0], *answer) for c, answer in zip(calls, answers)]
    raise Failure(f"the model has asked for tools {steps} times and has no answer; --steps allows more")


def main():
    parser = argparse.ArgumentParser(description="An agent loop with the tools of exthost.")
    parser.add_argument("task", nargs="+", help="what is to be done")
    parser.add_argument("--model", default="", help="anthropic, openai or scripted; anthropic:NAME or openai:NAME for one of its models")
    parser.add_argument("--steps", type=int, default=16, help="how often the model may ask for tools")
    for stream in (sys.stdout, sys.stderr):  # Windows would have an encoding that lacks most characters
        stream.reconfigure(encoding="utf-8", errors="backslashreplace")
    args = parser.parse_args()
    try:
        model = pick(args.model)
        with Host() as host:
            print(run(host, model, " ".join(args.task), args.steps))
    except Failure as e:
        sys.exit(f"agent.py: {e}")
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
