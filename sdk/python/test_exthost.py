"""python3 -m unittest, in this directory."""
import contextvars
import dataclasses
import decimal
import enum
import io
import json
import os
import pathlib
import queue
import subprocess
import sys
import tempfile
import textwrap
import threading
import typing
import unittest
from typing import Annotated, Any, Dict, List, Literal, Optional, Tuple, TypedDict, Union

import exthost

PATIENCE = 20


class Conversation:
    """A host at the other end of an extension that is served in a thread."""

    def __init__(self, test, extension):
        self.test, self.answers, self.written = test, queue.Queue(), b""
        source, sink = os.pipe()
        self.pipe = os.fdopen(sink, "wb", buffering=0)
        self.ended = []
        served = os.fdopen(source, "rb")

        def serve():
            with served:
                self.ended.append(extension.serve(served, self, "1.2.3"))

        self.thread = threading.Thread(target=serve, daemon=True)
        self.thread.start()
        test.addCleanup(self.close)

    def write(self, data):
        self.written += data
        *lines, self.written = self.written.split(b"\n")
        for line in lines:
            self.answers.put(line.decode("utf-8") + "\n")

    def say(self, text):
        self.pipe.write(text.encode("utf-8", "surrogatepass") + b"\n")

    def hear(self):
        line = self.answers.get(timeout=PATIENCE)
        self.test.assertTrue(line.endswith("\n") and line.count("\n") == 1, line)
        return line[:-1]

    def ask(self, method, params=None, id="7"):
        self.say('{"jsonrpc":"2.0","id":%s,"method":"%s","params":%s}' % (id, method, params if isinstance(params, str) else json.dumps(params or {})))
        return self.hear()

    def call(self, tool, **arguments):
        return json.loads(self.ask("tools/call", {"name": tool, "arguments": arguments}))

    def close(self):
        self.pipe.close()
        self.thread.join(PATIENCE)
        self.test.assertFalse(self.thread.is_alive(), "serve goes on after the end of stdin")


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


@dataclasses.dataclass
class Point:
    x: int
    y: Annotated[float, "Upwards", {"minimum": 0}] = 0.0


class Options(TypedDict, total=False):
    deep: bool
    names: List[str]


@dataclasses.dataclass
class Tree:
    name: str
    children: List["Tree"] = dataclasses.field(default_factory=list)


class Schemas(unittest.TestCase):
    def schema(self, function):
        x = exthost.Extension()
        x.tool(function)
        return x._tools[function.__name__].schema

    def test_every_hint(self):
        for hint, want in [
            (str, {"type": "string"}), (int, {"type": "integer"}), (float, {"type": "number"}), (bool, {"type": "boolean"}),
            (Any, {}), (dict, {"type": "object"}), (list, {"type": "array", "items": {}}),
            (Optional[str], {"type": ["string", "null"]}),
            (Union[int, List[str]], {"anyOf": [{"type": "integer"}, {"type": "array", "items": {"type": "string"}}]}),
            (Literal["a", "b"], {"type": "string", "enum": ["a", "b"]}), (Literal[1, True], {"enum": [1, True]}),
            (Colour, {"type": "string", "enum": ["red", "blue"]}),
            (Dict[str, int], {"type": "object", "additionalProperties": {"type": "integer"}}),
            (typing.Set[str], {"type": "array", "items": {"type": "string"}, "uniqueItems": True}),
            (Tuple[int, str], {"type": "array", "prefixItems": [{"type": "integer"}, {"type": "string"}], "minItems": 2, "maxItems": 2}),
            (Tuple[int, ...], {"type": "array", "items": {"type": "integer"}}),
            (decimal.Decimal, {"type": "number"}), (pathlib.Path, {"type": "string"}),
            (Annotated[int, "How many", {"minimum": 1}], {"type": "integer", "description": "How many", "minimum": 1}),
            (Point, {"type": "object", "properties": {"x": {"type": "integer"}, "y": {"type": "number", "description": "Upwards", "minimum": 0}},
                     "required": ["x"], "additionalProperties": False}),
            (Options, {"type": "object", "properties": {"deep": {"type": "boolean"}, "names": {"type": "array", "items": {"type": "string"}}},
                       "additionalProperties": False}),
            (Tree, {"type": "object", "properties": {"name": {"type": "string"}, "children": {"type": "array", "items": {}}},
                    "required": ["name"], "additionalProperties": False}),
        ]:
            with self.subTest(hint=hint):
                def f(p): pass
                f.__annotations__["p"] = hint
                self.assertEqual(self.schema(f), {"type": "object", "properties": {"p": want}, "required": ["p"], "additionalProperties": False})

    def test_newer_spellings(self):
        if sys.version_info < (3, 10):
            self.skipTest("X | Y needs Python 3.10")
        def f(a: "int | None", b: "list[str] | str" = "x", **more): pass
        self.assertEqual(self.schema(f), {"type": "object", "required": ["a"], "properties": {
            "a": {"type": ["integer", "null"]}, "b": {"anyOf": [{"type": "array", "items": {"type": "string"}}, {"type": "string"}], "default": "x"}}})

    def test_docstrings(self):
        def google(path, limit: int = 3):
            """Find things.

            Looks everywhere.

            Args:
                path (str): Where to begin,
                    and no further up.
                limit: At most this many.

            Returns:
                found: All of it.
            """
        def sphinx(path):
            """Find things.

            :param str path: Where to begin
            :returns: all of it
            """
        x = exthost.Extension()
        x.tool(google)
        x.tool(sphinx)
        found = {t["name"]: (t["description"], {n: p.get("description") for n, p in t["input_schema"]["properties"].items()}) for t in x._descriptors()}
        self.assertEqual(found, {
            "google": ("Find things.\n\nLooks everywhere.", {"path": "Where to begin, and no further up.", "limit": "At most this many."}),
            "sphinx": ("Find things.", {"path": "Where to begin"})})

    def test_descriptor(self):
        x = exthost.Extension()
        @x.tool(name="other", title="Other", description="Says it.", read_only=True, destructive=False)
        def f(n: int) -> Point:
            """Not this."""
        self.assertEqual({k: v for k, v in x._descriptors()[0].items() if k != "input_schema"}, {
            "name": "other", "title": "Other", "description": "Says it.", "annotations": {"readOnlyHint": True, "destructiveHint": False},
            "output_schema": exthost._type(Point).schema})

    def test_mistakes_of_the_author(self):
        class Stranger: pass
        def hint(p: Stranger): pass
        def unresolved(p: "Nowhere"): pass  # noqa: F821
        def many(*p): pass
        def good(): pass
        x = exthost.Extension()
        x.tool(good)
        for wrong, said in [(lambda: x.tool(hint), "tool hint: parameter p"), (lambda: x.tool(unresolved), "Nowhere"), (lambda: x.tool(many), "no name"),
                            (lambda: x.tool(good), "two tools"), (lambda: x.tool(good, name="a b"), "a name is")]:
            with self.assertRaisesRegex((TypeError, ValueError), said):
                wrong()


class Calls(unittest.TestCase):
    def setUp(self):
        self.x = exthost.Extension()

    def serve(self):
        return Conversation(self, self.x)

    def test_arguments_arrive_as_their_types(self):
        got = {}
        @self.x.tool
        def f(point: Point, colour: Colour, price: decimal.Decimal, raw: exthost.Raw, options: Options, pair: Tuple[int, str], n: int, also: Optional[str] = None):
            got.update(locals())
            return "ok"
        c = self.serve()
        said = ('{"name":"f","arguments":{"point":{"x":1,"y":2},"colour":"blue","price":0.10000000000000000001,"raw":{ "b":1.10, "a":[] },'
                '"options":{"deep":true},"pair":[1,"a"],"n":2.0,"_meta":{"session_id":"s"}}}')
        self.assertIn('"text":"ok"', c.ask("tools/call", said))
        self.assertEqual((got["point"], got["colour"], got["price"], got["raw"].text, got["options"], got["pair"], got["n"], got["also"]),
                         (Point(1, 2.0), Colour.BLUE, decimal.Decimal("0.10000000000000000001"), '{ "b":1.10, "a":[] }', {"deep": True}, (1, "a"), 2, None))
        self.assertIsInstance(got["n"], int)

    def test_arguments_that_do_not_fit(self):
        @self.x.tool
        def f(n: int, mode: Literal["a", "b"] = "a", points: List[Point] = ()): raise AssertionError("it was called")
        c = self.serve()
        for arguments, said in [({}, "n is missing"), ({"n": "1"}, "n has to be a whole number, it is a string"), ({"n": True}, "it is a boolean"), ({"n": 1.5}, "it is 1.5"),
                                ({"n": 1, "mode": "c"}, 'one of \\"a\\", \\"b\\"'), ({"n": 1, "N": 2}, "there is no N; there is n, mode, points"),
                                ({"n": 1, "points": [{"x": 1}, {"y": 1}]}, "points[1].x is missing")]:
            answer = c.ask("tools/call", {"name": "f", "arguments": arguments})
            self.assertIn(said, answer)
            self.assertTrue(json.loads(answer)["result"]["isError"])
        self.assertIn('"isError":true', c.ask("tools/call", '{"name":"f","arguments":[1]}'))

    def test_results(self):
        values = {"text": "a\nb", "long": "é\n" * exthost.LARGE, "none": None, "object": {"n": 12345678901234567890}, "point": Point(1), "list": [1, decimal.Decimal("1.10")],
                  "raw": exthost.Raw('{"content":[], "later": 1.10}'), "image": [exthost.Image(b"\0"), "seen"]}
        for name, value in values.items():
            self.x.tool(lambda value=value: value, name=name, input_schema={"type": "object"})
        c = self.serve()
        for name, want in [
            ("text", '{"content":[{"type":"text","text":"a\\nb"}]}'), ("long", '{"content":[{"type":"text","text":"' + "é\\n" * exthost.LARGE + '"}]}'), ("none", '{"content":[]}'),
            ("object", '{"content":[{"type":"text","text":"{\\"n\\":12345678901234567890}"}],"structuredContent":{"n":12345678901234567890}}'),
            ("point", '{"content":[{"type":"text","text":"{\\"x\\":1,\\"y\\":0.0}"}],"structuredContent":{"x":1,"y":0.0}}'),
            ("list", '{"content":[{"type":"text","text":"[1,1.10]"}]}'), ("raw", '{"content":[], "later": 1.10}'),
            ("image", '{"content":[{"type":"image","data":"AA==","mimeType":"image/png"},{"type":"text","text":"seen"}]}'),
        ]:
            self.assertEqual(c.ask("tools/call", {"name": name}), '{"jsonrpc":"2.0","id":7,"result":' + want + "}")

    def test_failures(self):
        def fail(error):
            def f(): raise error
            return f
        self.x.tool(fail(exthost.ToolError("it rains")), name="rains")
        self.x.tool(fail(exthost.ToolError("no", code=-32001, data=[1])), name="refuses")
        self.x.tool(fail(KeyError("k")), name="crashes")
        self.x.tool(fail(SystemExit(3)), name="exits")
        self.x.tool(lambda: float("nan"), name="nan")
        self.x.tool(lambda: object(), name="object")
        self.x.tool(fail(exthost.ToolError("no", code=-32001, data=object())), name="data")
        class Wordless(Exception):
            def __str__(self): raise ValueError
        self.x.tool(fail(Wordless()), name="wordless")
        stderr, sys.stderr = sys.stderr, io.StringIO()
        self.addCleanup(setattr, sys, "stderr", stderr)
        c = self.serve()
        self.assertIn('{"content":[{"type":"text","text":"it rains"}],"isError":true}', c.ask("tools/call", {"name": "rains"}))
        self.assertIn('"error":{"code":-32001,"message":"no","data":[1]}', c.ask("tools/call", {"name": "refuses"}))
        self.assertIn("KeyError: 'k'", c.ask("tools/call", {"name": "crashes"}))
        for name in ("exits", "nan", "object", "data", "wordless"):
            self.assertIn('"isError":true', c.ask("tools/call", {"name": name}))
        self.assertIn('"code":-32602', c.ask("tools/call", {"name": "missing"}))
        self.assertIn('"code":-32602', c.ask("tools/call", {}))
        for line in sys.stderr.getvalue().splitlines():
            self.assertTrue(line.startswith("E! "), line)

    def test_arguments_that_the_types_of_the_author_refuse(self):
        @dataclasses.dataclass
        class Positive:
            n: int
            def __post_init__(self):
                if self.n < 0: raise ValueError("n is negative")
        @self.x.tool
        def positive(of: Positive): return of.n
        @self.x.tool
        def number(n: float): return n
        @self.x.tool
        def unhashable(s: typing.Set[dict]): return len(s)
        @self.x.tool(input_schema={"type": "object"})
        async def narrow(a): return a
        stderr, sys.stderr = sys.stderr, io.StringIO()
        self.addCleanup(setattr, sys, "stderr", stderr)
        c = self.serve()
        for name, arguments, want in [
            ("positive", '{"of":{"n":-1}}', "ValueError: n is negative"), ("positive", '{"of":{}}', "The arguments do not fit: of.n is missing."),
            ("number", '{"n":1%s}' % ("0" * 400), "OverflowError: "), ("unhashable", '{"s":[{}]}', "TypeError: "), ("narrow", '{"b":1}', "TypeError: "),
        ]:
            answer = json.loads(c.ask("tools/call", '{"name":"%s","arguments":%s}' % (name, arguments)))
            self.assertTrue(answer["result"]["isError"])
            self.assertTrue(answer["result"]["content"][0]["text"].startswith(want), answer)

    def test_an_async_function_that_exits_ends_no_other(self):
        @self.x.tool
        async def leave(): sys.exit(3)
        @self.x.tool
        async def stay(): return "here"
        stderr, sys.stderr = sys.stderr, io.StringIO()
        self.addCleanup(setattr, sys, "stderr", stderr)
        c = self.serve()
        for _ in range(2):
            self.assertIn("SystemExit: 3", c.ask("tools/call", {"name": "leave"}))
            self.assertIn('"text":"here"', c.ask("tools/call", {"name": "stay"}))

    def test_a_slow_call_holds_nobody_up(self):
        started = threading.Event()
        @self.x.tool
        def wait(ctx: exthost.Context):
            started.set()
            ctx.wait(PATIENCE)
        @self.x.tool
        async def wait_async():
            started.set()
            await __import__("asyncio").sleep(PATIENCE)
        c = self.serve()
        for name, id in (("wait", '"w"'), ("wait_async", "1e2")):
            c.say('{"jsonrpc":"2.0","id":%s,"method":"tools/call","params":{"name":"%s"}}' % (id, name))
            self.assertTrue(started.wait(PATIENCE))
            self.assertEqual(c.ask("ping", id="2"), '{"jsonrpc":"2.0","id":2,"result":{}}')
            c.say('{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%s}}' % id)
            self.assertEqual(c.hear(), '{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":"cancelled"}],"isError":true}}' % id)
            started.clear()

    def test_fifty_at_once(self):
        gate = threading.Barrier(50)
        @self.x.tool
        def meet(n: int):
            gate.wait(PATIENCE)
            return n
        c = self.serve()
        for i in range(50):
            c.say('{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"meet","arguments":{"n":%d}}}' % (i, i))
        answers = [json.loads(c.hear()) for _ in range(50)]
        self.assertEqual(sorted(a["id"] for a in answers), list(range(50)))
        for a in answers:
            self.assertEqual(a["result"]["content"][0]["text"], str(a["id"]))

    def test_a_quick_function_that_turns_slow_holds_nobody_up(self):
        started = threading.Event()
        @self.x.tool
        def once(wait: bool, ctx: exthost.Context):
            if wait:
                started.set()
                ctx.wait(PATIENCE)
            return ctx.cancelled
        @self.x.tool
        def other(): return "other"
        c = self.serve()
        for _ in range(3):
            for _ in range(50):
                self.assertIn("false", c.ask("tools/call", {"name": "once", "arguments": {"wait": False}}))
            c.say('{"jsonrpc":"2.0","id":"slow","method":"tools/call","params":{"name":"once","arguments":{"wait":true}}}')
            self.assertTrue(started.wait(PATIENCE))
            self.assertIn('"text":"other"', c.ask("tools/call", {"name": "other"}))
            c.say('{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"slow"}}')
            self.assertEqual(c.hear(), '{"jsonrpc":"2.0","id":"slow","result":{"content":[{"type":"text","text":"cancelled"}],"isError":true}}')
            started.clear()

    def test_no_thread_is_left(self):
        real, left = threading.Thread.start, [0]
        refused = threading.Semaphore(0)
        def start(thread):
            if left[0] <= 0:
                refused.release()
                raise RuntimeError("can't start new thread")
            left[0] -= 1
            real(thread)
        stderr, sys.stderr = sys.stderr, io.StringIO()
        self.addCleanup(setattr, sys, "stderr", stderr)
        @self.x.tool
        def wait(ctx: exthost.Context): ctx.wait(PATIENCE)
        @self.x.tool
        def quick(): return "quick"
        @self.x.tool
        async def awaited(): return "awaited"
        c = self.serve()
        threading.Thread.start = start
        self.addCleanup(setattr, threading.Thread, "start", real)
        self.assertIn("can't start new thread", c.ask("tools/call", {"name": "awaited"}))
        for left[0] in (0, 1):
            self.assertIn("can't start new thread", c.ask("tools/call", {"name": "quick"}))
        left[0] = 2
        self.assertIn('"text":"quick"', c.ask("tools/call", {"name": "quick"}))
        while refused.acquire(False): pass
        c.say('{"jsonrpc":"2.0","id":"slow","method":"tools/call","params":{"name":"wait"}}')
        self.assertTrue(refused.acquire(timeout=PATIENCE))  # nobody could take over
        left[0] = 100
        self.assertIn('"text":"quick"', c.ask("tools/call", {"name": "quick"}))
        self.assertIn('"text":"awaited"', c.ask("tools/call", {"name": "awaited"}))
        left[0] = 0
        self.assertIn("can't start new thread", c.ask("tools/call", {"name": "wait"}))
        c.say('{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"slow"}}')
        self.assertIn('"id":"slow"', c.hear())

    def test_calls_share_nothing_but_a_thread(self):
        said = contextvars.ContextVar("said", default="nothing")
        threads = set()
        @self.x.tool
        def say(text: str):
            threads.add(threading.current_thread())
            before = said.get()
            said.set(text)
            return before
        c = self.serve()
        for text in ("one", "two", "three"):
            self.assertIn('"text":"nothing"', c.ask("tools/call", {"name": "say", "arguments": {"text": text}}))
        self.assertNotIn(c.thread, threads)  # which may be the main thread: what runs there must not depend on chance

    def test_answers_that_are_ready_are_written_at_once(self):
        late, exthost.LATE_SECONDS = exthost.LATE_SECONDS, PATIENCE
        self.addCleanup(setattr, exthost, "LATE_SECONDS", late)
        quick, exthost.QUICK_SECONDS = exthost.QUICK_SECONDS, PATIENCE
        self.addCleanup(setattr, exthost, "QUICK_SECONDS", quick)
        @self.x.tool
        def f(n: int): return n
        lines = ['{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"f","arguments":{"n":%d}}}\n' % (i, i) for i in range(1, 101)]
        writes = []
        class Sink:
            def write(self, data): writes.append(data)
        self.assertTrue(self.x.serve(io.BytesIO("".join(lines).encode()), Sink()))
        self.assertEqual([json.loads(line)["id"] for line in b"".join(writes).splitlines()], list(range(1, 101)))
        self.assertLess(len(writes), 100)

    def test_progress_and_log(self):
        @self.x.tool
        async def work(ctx: exthost.Context):
            ctx.progress(1, 2, "half")
            ctx.log("warning", "careful")
            return ctx.meta.get("session_id", "nobody")
        c = self.serve()
        first = c.ask("tools/call", '{"name":"work","arguments":{"_meta":{"session_id":"s"}},"_meta":{"progressToken":"p"}}')
        self.assertEqual([first, c.hear(), c.hear()], [
            '{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"p","progress":1,"total":2,"message":"half"}}',
            '{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"warning","data":"careful","_meta":{"progressToken":"p"}}}',
            '{"jsonrpc":"2.0","id":7,"result":{"content":[{"type":"text","text":"s"}]}}'])
        self.assertIn("notifications/message", c.ask("tools/call", {"name": "work"}))
        self.assertIn("nobody", c.hear())

    def test_hooks_and_policies(self):
        @self.x.hook("before_tool_call")
        def guard(event):
            return {"decision": "deny", "reason": "not " + event["tool_name"]} if event["tool_name"] == "rm" else None
        @self.x.hook("after_tool_call")
        async def after(event, ctx: exthost.Context): raise exthost.ToolError("no")
        @self.x.policy
        def decide(exchange): return {"decision": "deny", "code": "quota"} if exchange.get("tool") == "rm" else None
        c = self.serve()
        self.assertIn('"hooks":["before_tool_call","after_tool_call"]', c.ask("initialize", {"protocol_version": 1}))
        for method, params, want in [
            ("hooks/before_tool_call", {"tool_name": "rm"}, '"result":{"decision":"deny","reason":"not rm"}'), ("hooks/before_tool_call", {"tool_name": "ls"}, '"result":null'),
            ("hooks/after_tool_call", {}, '"error":{"code":-32603,"message":"no"}'), ("hooks/session_start", {}, '"code":-32601'),
            ("governance/decide", {"tool": "rm"}, '"result":{"decision":"deny","code":"quota"}'), ("governance/decide", {}, '"result":{"decision":"allow"}'),
        ]:
            self.assertIn(want, c.ask(method, params))

    def test_setup(self):
        seen = []
        class Wordless(Exception):
            def __str__(self): raise ValueError
        @self.x.setup
        async def start(host):
            if not host.config: raise ValueError("no config")
            if "wordless" in host.config: raise Wordless
            seen.append(host)
        c = self.serve()
        self.assertIn('"server_version":"1.2.3"', c.ask("initialize", '{"agent_version":"0.9.0","extension_id":"me","protocol_version":1,"config":{"k":12345678901234567890},"state_dir":"/s"}'))
        self.assertEqual((seen[0].version, seen[0].extension_id, seen[0].config, seen[0].state_dir), ("0.9.0", "me", {"k": 12345678901234567890}, pathlib.Path("/s")))
        stderr, sys.stderr = sys.stderr, io.StringIO()
        self.addCleanup(setattr, sys, "stderr", stderr)
        self.assertIn('"message":"ValueError: no config"', c.ask("initialize", {}))
        self.assertIn('"message":"Wordless"', c.ask("initialize", {"config": {"wordless": True}}))
        for line in sys.stderr.getvalue().splitlines():
            self.assertTrue(line.startswith("E! "), line)
        self.assertIn('"error"', c.ask("initialize", {"protocol_version": 2}))


class Wire(unittest.TestCase):
    def setUp(self):
        x = exthost.Extension()
        @x.tool
        def echo(value): return {"value": value}
        self.c = Conversation(self, x)

    def test_values_come_back_as_they_went(self):
        huge = "9" * 5000  # more digits than Python converts
        for text in ("12345678901234567890", huge, "-0", '"\\ud800 é \\u0000"', '"' + "x" * (1 << 20) + '"', '{"a":[null,true,1e3]}', '"line\\nbreak\\u2028"'):
            answer = self.c.ask("tools/call", '{"name":"echo","arguments":{"value":%s}}' % text)
            got = json.loads(answer, parse_int=str)["result"]["structuredContent"]["value"]
            self.assertEqual(got, json.loads(text, parse_int=str) if text != "-0" else "0")

    def test_ids_come_back_as_they_went(self):
        for id in ("0", "12345678901234567890", "1e2", "-1.50", '"\\u00e9"', '"é"', "null", huge_id := "9" * 5000):
            self.assertEqual(self.c.ask("ping", id=id), '{"jsonrpc":"2.0","id":%s,"result":{}}' % id, huge_id[:3])

    def test_lines_that_are_no_requests(self):
        for line in ("[1]", "nothing", '{"id":1', '{"id":1}{}', '{"id" 1}', '{"a":1,,}', "\ud800", '{"id":9,"method":"ping","params":' + "[" * 100000 + "]" * 100000 + "}"):
            self.c.say(line)
            self.assertIn('"id":null,"error":{"code":-32700', self.c.hear())
        self.c.say("")
        self.c.say('{"jsonrpc":"2.0","id":1,"result":{}}')
        self.c.say('{"jsonrpc":"2.0","method":"notifications/unheard_of"}')
        self.c.say('{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":404}}')
        self.assertIn('"code":-32601', self.c.ask("no/such"))
        self.assertIn('"result":{}', self.c.ask("shutdown", "[]"))
        self.assertIn('"tools":[{"name":"echo"', self.c.ask("tools/list"))


class Process(unittest.TestCase):
    """The whole program, as a host starts it."""

    def start(self, source, **env):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        path = os.path.join(directory.name, "main.py")
        with open(path, "w", encoding="utf-8") as f:
            f.write(textwrap.dedent(source))
        here = os.path.dirname(os.path.abspath(exthost.__file__))
        process = subprocess.Popen([sys.executable, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                   env={**os.environ, "PYTHONPATH": here, "LC_ALL": "C", "PYTHONUNBUFFERED": "", **env})
        self.addCleanup(process.kill)
        return process

    def talk(self, source, *lines, **env):
        process = self.start(source, **env)
        out, err = process.communicate("".join(line + "\n" for line in lines).encode(), PATIENCE)
        return process.returncode, out.decode(), err.decode()

    CALL = '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"f"}}'

    def test_nothing_but_the_protocol_is_on_stdout(self):
        source = """
            import os, subprocess, sys, logging
            print("before the import", end="")
            from exthost import tool, run
            print("at import")
            @tool
            def f():
                print("żółw")
                os.write(1, b"raw\\n")
                sys.stdout.write("half a line")
                subprocess.run(["sh", "-c", "echo child; cat"])
                logging.warning("two\\nlines")
                logging.info("told")
                return input_is_empty()
            def input_is_empty():
                try: return input()
                except EOFError: return "no input"
            run()
        """
        code, out, err = self.talk(source, self.CALL, EXTHOST_PROTOCOL_VERSION="1")
        self.assertEqual((code, out), (0, '{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"no input"}]}}\n'))
        for said in ("before the import", "at import", "żółw", "raw", "half a line", "child", "W! two\nW! lines", "I! told"):
            self.assertIn(said, err)

    @unittest.skipUnless(hasattr(os, "fork"), "the system has no fork")
    def test_a_forked_child_neither_answers_nor_reads(self):
        source = """
            import os, sys
            from exthost import tool, run
            @tool
            def f(how: str):
                child = os.fork()
                if child:
                    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
                if how == "exit": sys.exit(3)
                if how == "raise": raise ValueError("the child fails")
                return "the child"
            run()
        """
        hows = ["exit", "raise", "return"] * 10
        lines = ['{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"f","arguments":{"how":"%s"}}}' % call for call in enumerate(hows, 1)]
        code, out, err = self.talk(source, *lines)
        answers = sorted((json.loads(line)["id"], json.loads(line)["result"]["content"][0]["text"]) for line in out.splitlines())
        self.assertEqual((code, answers), (0, list(enumerate(["3", "1", "0"] * 10, 1))))
        self.assertIn("ValueError: the child fails", err)

    @unittest.skipUnless(hasattr(os, "fork"), "the system has no fork")
    def test_a_child_that_is_forked_during_a_write_can_write(self):
        source = """
            import os, exthost
            @exthost.tool
            def f(ctx: exthost.Context):
                with exthost._default._writing:
                    child = os.fork()
                    if not child:
                        ctx.log("info", "the child")
                        os._exit(0)
                os.waitpid(child, 0)
                return "done"
            exthost.run()
        """
        code, out, _ = self.talk(source, self.CALL)
        self.assertEqual((code, len(out.splitlines())), (0, 2), out)
        self.assertIn('"data":"the child"', out)

    def test_calls_in_flight_are_answered_after_the_end(self):
        source = """
            import time
            from exthost import tool, run
            @tool
            def f():
                time.sleep(0.3)
                return "late"
            run()
            print("cleaned up")
        """
        code, out, err = self.talk(source, self.CALL)
        self.assertEqual(code, 0)
        self.assertIn("late", out)
        self.assertIn("cleaned up", err)

    def test_a_call_that_hangs_does_not_keep_the_process(self):
        source = """
            import threading
            import exthost
            exthost.DRAIN_SECONDS = 0.2
            @exthost.tool
            def f(): threading.Event().wait()
            exthost.run()
        """
        code, out, _ = self.talk(source, self.CALL)
        self.assertEqual((code, out), (0, ""))


if __name__ == "__main__":
    unittest.main()
