# exthost SDK 0.1.0, sha256 7dc4c692120a6808ea7d464bc77f32c8b0c9c679ab85753bbc7051ac65d22bb9: exthost init --update-sdk replaces it
"""The author's side of exthost's native protocol in one file: Python 3.9 or newer, nothing else.

    from exthost import run, tool

    @tool
    def hello(name: str = "world") -> str:
        \"\"\"Greet someone by name.\"\"\"
        return f"Hello, {name}!"

    run()

A tool's schema comes from its type hints, its description from the docstring. Plain functions run in threads, `async`
ones in an event loop, all concurrently; quick functions share a thread. Output of the program goes to stderr, where the
host logs it: stdin and stdout carry the protocol. See Context, hook, policy and setup for the rest.
"""
import base64
import collections
import collections.abc
import contextlib
import contextvars
import dataclasses
import datetime
import decimal
import enum
import inspect
import io
import json
import json.decoder
import logging
import os
import pathlib
import re
import sys
import threading
import time
import traceback
import types
import typing

__all__ = ["Cancelled", "Context", "Extension", "Host", "Image", "Raw", "ToolError", "hook", "policy", "run", "setup", "tool"]

PROTOCOL_VERSION = 1
DRAIN_SECONDS = 2.5  # in which running calls may still answer after the host has closed stdin
QUICK_SECONDS = 0.00025  # a function that takes longer gets a thread for each call, which takes about as long
LARGE = 65536  # characters of a result that is written in pieces, since each copy of it takes time
LATE_SECONDS = 0.001  # after which an answer is written, even if more are about to be ready

PARSE_ERROR, METHOD_NOT_FOUND, INVALID_PARAMS, INTERNAL_ERROR = -32700, -32601, -32602, -32603


def _asyncio():
    """Import asyncio on first use: only `async` tools need it, and it takes as long as all other imports together."""
    import asyncio
    return asyncio


class ToolError(Exception):
    """A failure for the model to read: the message becomes the tool's result, marked as an error.

    With a code, the failure becomes a JSON-RPC error with code, message and data: the call could not be made.
    """

    def __init__(self, message, code=None, data=None):
        super().__init__(message)
        self.code, self.data = code, data


class Cancelled(Exception):
    """Raised by Context.check and Context.wait when the caller has given up."""


class Raw:
    """JSON text. A parameter of this type is the argument as it was sent; a returned one is the result as it is."""

    def __init__(self, text):
        self.text = text

    def __repr__(self):
        return f"Raw({self.text!r})"


@dataclasses.dataclass(frozen=True)
class Image:
    """A picture to return from a tool, alone or in a list with texts."""

    data: bytes
    mime_type: str = "image/png"


@dataclasses.dataclass(frozen=True)
class Host:
    """The parameters that the host sends when it opens the connection."""

    version: str = ""
    extension_id: str = ""
    protocol_version: int = PROTOCOL_VERSION
    capabilities: dict = dataclasses.field(default_factory=dict)
    config: dict = dataclasses.field(default_factory=dict)  # [config] with the operator's values over it
    state_dir: pathlib.Path = pathlib.Path()  # private to the extension, survives restarts


class Context:
    """The context of a call, and messages to its caller. A handler gets it by a parameter with this type hint."""

    def __init__(self, extension, params):
        self.host = extension.host
        self.meta = {}  # agent_id and session_id, where the manifest has [context] passthrough = true
        self.cancelled = False  # whether the caller has given up and no longer waits for the result
        self._extension = extension
        self._meta = params.get("_meta")
        self._awaken = None  # an event, once somebody waits
        self._task = None  # of an async handler

    def check(self):
        """Raise Cancelled if the caller has given up."""
        if self.cancelled:
            raise Cancelled()

    def wait(self, seconds):
        """Sleep, and raise Cancelled as soon as the caller gives up. For plain functions; async ones await."""
        with self._extension._lock:
            if self._awaken is None:
                self._awaken = threading.Event()
            if self.cancelled:
                self._awaken.set()
        self._awaken.wait(seconds)
        self.check()

    def progress(self, done, total=None, message=None):
        """Send the progress of the call, in any unit. Progress also keeps a long call from timing out."""
        if isinstance(self._meta, dict) and "progressToken" in self._meta:
            params = {"progressToken": self._meta["progressToken"], "progress": done, "total": total, "message": message}
            self._notify("notifications/progress", params)

    def log(self, level, message):
        """Send a message to the caller: level is debug, info, warning or error. For the operator, use logging."""
        self._notify("notifications/message", {"level": level, "data": message, "_meta": self._meta if isinstance(self._meta, dict) and self._meta else None})

    def _notify(self, method, params):
        self._extension._send({"method": method, "params": {k: v for k, v in params.items() if v is not None}})

    def _cancel(self):
        with self._extension._lock:
            self.cancelled = True
            if self._awaken:
                self._awaken.set()
        if self._task:
            self._task.get_loop().call_soon_threadsafe(self._task.cancel)


# --- JSON, without loss of numbers or text -------------------------------------------------------------------------


def _long_int(text):
    """Return an integer; one with more digits than Python converts becomes a decimal, which is exact too."""
    return int(text) if len(text) < 4000 else decimal.Decimal(text)


_decoder = json.JSONDecoder()
_patient = json.JSONDecoder(parse_int=_long_int)
_exact = json.JSONDecoder(parse_int=_long_int, parse_float=decimal.Decimal)
_blank = re.compile(r"[ \t\r\n]*")
_encoder = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))
_quote = json.encoder.encode_basestring


def _value(text, at, decoder):
    try:
        return decoder.raw_decode(text, at)
    except json.JSONDecodeError:
        raise
    except ValueError:  # an integer over sys.get_int_max_str_digits
        return _patient.raw_decode(text, at)


def _members(text, decoder=_decoder):
    """Return the members of an object as {key: (value, its text)}."""
    at = _blank.match(text).end()
    if text[at:at + 1] != "{":
        raise ValueError("not an object")
    members = {}
    at = _blank.match(text, at + 1).end()
    while text[at:at + 1] != "}":
        if members:
            if text[at:at + 1] != ",":
                raise ValueError("no comma between members")
            at = _blank.match(text, at + 1).end()
        if text[at:at + 1] != '"':
            raise ValueError("no member where one belongs")
        key, at = json.decoder.scanstring(text, at + 1, True)
        at = _blank.match(text, at).end()
        if text[at:at + 1] != ":":
            raise ValueError("no colon behind a key")
        start = _blank.match(text, at + 1).end()
        value, at = _value(text, start, decoder)
        members[key] = value, text[start:at]
        at = _blank.match(text, at).end()
    if _blank.match(text, at + 1).end() != len(text):
        raise ValueError("more than one value on the line")
    return members


def _encode(value):
    """Return the JSON text of a value: also of Raw, decimals, dataclasses, enums, dates, paths and sets."""
    try:
        return _encoder.encode(value)
    except TypeError:
        return _encode_any(value)


def _encode_any(v):
    if isinstance(v, Raw):
        return v.text
    if isinstance(v, enum.Enum):
        return _encode_any(v.value)
    if v is None or isinstance(v, (str, bool, int, float)):
        return json.dumps(v, ensure_ascii=False, allow_nan=False)
    if isinstance(v, decimal.Decimal):
        if not v.is_finite():
            raise ValueError(f"JSON has no {v}")
        return str(v)
    if isinstance(v, (datetime.date, datetime.time)):
        return json.dumps(v.isoformat())
    if isinstance(v, pathlib.PurePath):
        return json.dumps(str(v), ensure_ascii=False)
    if dataclasses.is_dataclass(v) and not isinstance(v, type):
        v = {f.name: getattr(v, f.name) for f in dataclasses.fields(v)}
    if isinstance(v, collections.abc.Mapping):
        return "{" + ",".join(_encode(str(k)) + ":" + _encode_any(x) for k, x in v.items()) + "}"
    if isinstance(v, (list, tuple, set, frozenset)):
        return "[" + ",".join(_encode_any(x) for x in v) + "]"
    raise TypeError(f"a {type(v).__name__} has no JSON form")


# --- schemas from type hints ---------------------------------------------------------------------------------------


class _Mismatch(Exception):
    """An argument that does not fit; its text is for the model."""


class _Type:
    """A type hint: its JSON Schema, and the function that converts a JSON value to the type."""

    def __init__(self, schema, read, exact=False):
        self.schema, self.read, self.exact = schema, read, exact


def _instance(*classes):
    def read(v, at):
        if not isinstance(v, classes) or isinstance(v, bool) and bool not in classes:
            raise _Mismatch(f"{at} is {_kind(v)}")
        return v
    return read


def _kind(v):
    names = {str: "a string", bool: "a boolean", list: "a list", dict: "an object", type(None): "null"}
    return names.get(type(v), "a number")


def _integer(v, at):
    if not isinstance(v, (int, float, decimal.Decimal)) or isinstance(v, bool) or v % 1 != 0:
        raise _Mismatch(f"{at} has to be a whole number, it is {_kind(v) if isinstance(v, (str, bool, list, dict, type(None))) else v}")
    return int(v)


def _number(v, at):
    return float(_instance(int, float, decimal.Decimal)(v, at))


def _parsed(parse, what):
    def read(v, at):
        try:
            return parse(_instance(str)(v, at))
        except ValueError:
            raise _Mismatch(f"{at} is not {what}: {v}") from None
    return read


def _iso(cls):
    return lambda text: cls.fromisoformat(text[:-1] + "+00:00" if text.endswith(("Z", "z")) else text)


_SIMPLE = {
    str: _Type({"type": "string"}, _instance(str)),
    int: _Type({"type": "integer"}, _integer),
    float: _Type({"type": "number"}, _number),
    bool: _Type({"type": "boolean"}, _instance(bool)),
    type(None): _Type({"type": "null"}, _instance(type(None))),
    decimal.Decimal: _Type({"type": "number"}, lambda v, at: decimal.Decimal(_instance(int, float, decimal.Decimal)(v, at)), True),
    datetime.datetime: _Type({"type": "string", "format": "date-time"}, _parsed(_iso(datetime.datetime), "a date and time")),
    datetime.date: _Type({"type": "string", "format": "date"}, _parsed(datetime.date.fromisoformat, "a date")),
    datetime.time: _Type({"type": "string", "format": "time"}, _parsed(_iso(datetime.time), "a time")),
    pathlib.Path: _Type({"type": "string"}, lambda v, at: pathlib.Path(_instance(str)(v, at))),
    Raw: _Type({}, lambda v, at: v),
    dict: _Type({"type": "object"}, _instance(dict)),
    list: _Type({"type": "array", "items": {}}, _instance(list)),
}
_ANYTHING = _Type({}, lambda v, at: v)
_UNIONS = {typing.Union, getattr(types, "UnionType", typing.Union)}
_MARKS = {getattr(typing, name): name == "Required" for name in ("Required", "NotRequired") if hasattr(typing, name)}


def _type(hint, inside=()):
    """Return the _Type of a hint. inside are the enclosing classes; one of them in itself takes any value."""
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Annotated:
        return _annotated(_type(args[0], inside), hint.__metadata__)
    if hint in (typing.Any, inspect.Parameter.empty, object):
        return _ANYTHING
    if hint in _SIMPLE:
        return _SIMPLE[hint]
    if origin in _UNIONS:
        return _union([_type(a, inside) for a in args])
    if origin is typing.Literal:
        return _one_of(list(args), lambda v: v)
    if isinstance(hint, type) and issubclass(hint, enum.Enum):
        return _one_of([m.value for m in hint], hint)
    if origin in (list, set, frozenset, collections.abc.Sequence, collections.abc.Iterable) or hint in (set, frozenset):
        return _list(origin or hint, _type(args[0] if args else typing.Any, inside))
    if origin is tuple and args:
        return _tuple(args, inside)
    if origin in (dict, collections.abc.Mapping):
        return _dict(_type(args[1], inside))
    if isinstance(hint, type) and (dataclasses.is_dataclass(hint) or issubclass(hint, dict) and hasattr(hint, "__total__")):
        return _ANYTHING if hint in inside else _object(hint, inside + (hint,))
    raise TypeError(f"{hint!r} has no JSON Schema")


def _annotated(t, notes):
    schema = dict(t.schema)
    for note in notes:
        schema.update({"description": note} if isinstance(note, str) else note if isinstance(note, dict) else {})
    return _Type(schema, t.read, t.exact)


def _union(branches):
    schemas = [b.schema for b in branches]
    if all(set(s) == {"type"} for s in schemas):  # ["string", "null"] costs a model less than anyOf
        schema = {"type": [s["type"] for s in schemas]}
    else:
        schema = {"anyOf": schemas}

    def read(v, at):
        complaints = []
        for branch in branches:
            try:
                return branch.read(v, at)
            except _Mismatch as mismatch:
                complaints.append(str(mismatch))
        raise _Mismatch(complaints[0])
    return _Type(schema, read, any(b.exact for b in branches))


def _one_of(values, make):
    def read(v, at):
        for value in values:
            if v == value and isinstance(v, bool) == isinstance(value, bool):
                return make(value)
        raise _Mismatch(f"{at} has to be one of {', '.join(map(json.dumps, values))}")
    schema = {"enum": values}
    if all(isinstance(v, str) for v in values):
        schema = {"type": "string", "enum": values}
    return _Type(schema, read)


def _list(make, item):
    def read(v, at):
        items = (item.read(x, f"{at}[{i}]") for i, x in enumerate(_instance(list)(v, at)))
        return make(items) if make in (set, frozenset) else list(items)
    schema = {"type": "array", "items": item.schema}
    if make in (set, frozenset):
        schema["uniqueItems"] = True
    return _Type(schema, read, item.exact)


def _tuple(args, inside):
    if args[1:] == (Ellipsis,):
        t = _list(tuple, _type(args[0], inside))
        return _Type(t.schema, lambda v, at: tuple(t.read(v, at)), t.exact)
    items = [_type(a, inside) for a in args]

    def read(v, at):
        if len(_instance(list)(v, at)) != len(items):
            raise _Mismatch(f"{at} has to have {len(items)} items, it has {len(v)}")
        return tuple(t.read(x, f"{at}[{i}]") for i, (t, x) in enumerate(zip(items, v)))
    schema = {"type": "array", "prefixItems": [t.schema for t in items], "minItems": len(items), "maxItems": len(items)}
    return _Type(schema, read, any(t.exact for t in items))


def _dict(item):
    def read(v, at):
        return {k: item.read(x, f"{at}.{k}") for k, x in _instance(dict)(v, at).items()}
    return _Type({"type": "object", "additionalProperties": item.schema}, read, item.exact)


def _object(cls, inside):
    """A dataclass or TypedDict."""
    hints = typing.get_type_hints(cls, include_extras=True)
    if dataclasses.is_dataclass(cls):
        fields = {f.name: hints[f.name] for f in dataclasses.fields(cls) if f.init}
        optional = {f.name for f in dataclasses.fields(cls)
                    if f.default is not dataclasses.MISSING or f.default_factory is not dataclasses.MISSING}
    else:
        fields, optional = {}, set(cls.__optional_keys__)
        for name, hint in hints.items():
            mark = typing.get_origin(hint)
            if mark in _MARKS:
                (optional.discard if _MARKS[mark] else optional.add)(name)
                hint = typing.get_args(hint)[0]
            fields[name] = hint
    members = {name: _type(hint, inside) for name, hint in fields.items()}
    schema = _object_schema({n: t.schema for n, t in members.items()}, [n for n in members if n not in optional])
    return _Type(schema, lambda v, at: cls(**_read_members(members, optional, _instance(dict)(v, at), at)), any(t.exact for t in members.values()))


def _object_schema(properties, required, more=False):
    schema = {"type": "object", "properties": properties}
    if required:
        schema["required"] = required
    if not more:
        schema["additionalProperties"] = False
    return schema


def _read_members(members, optional, values, at, more=False):
    prefix = at + "." if at else ""
    if values.keys() != members.keys():
        missing = [prefix + n for n in members if n not in values and n not in optional]
        if missing:
            raise _Mismatch(f"{', '.join(missing)} is missing")
        unknown = [prefix + n for n in values if n not in members]
        if unknown and not more:
            raise _Mismatch(f"there is no {', '.join(unknown)}; there is {', '.join(members) or 'nothing to state'}")
    return {n: members[n].read(v, prefix + n) if n in members else v for n, v in values.items()}


_PARAMETER = re.compile(r"^(?::param\s+(?:\S+\s+)?(\w+)\s*:|(\w+)\s*(?:\([^)]*\))?\s*:)\s*(.*)$")
_SECTION = re.compile(r"^(Args|Arguments|Parameters|Params|Returns?|Raises|Yields|Examples?|Notes?):\s*$", re.I)


def _docstring(function):
    """Return the description of a function and those of its parameters, in an "Args:" section or ":param name:" lines."""
    description, parameters = [], {}
    section, current = "", None
    for line in inspect.cleandoc(function.__doc__ or "").splitlines():
        heading = _SECTION.match(line)
        if heading:
            section, current = heading[1].lower(), None
            continue
        found = _PARAMETER.match(line.strip())
        if found and (found[1] or section in ("args", "arguments", "parameters", "params")):
            current = found[1] or found[2]
            parameters[current] = found[3]
        elif line.strip().startswith((":return", ":raise", ":rtype")):
            section, current = "returns", None
        elif current and line.startswith(" "):
            parameters[current] = (parameters[current] + " " + line.strip()).strip()
        elif not section and not current:
            description.append(line)
    return "\n".join(description).strip(), parameters


# --- handlers ------------------------------------------------------------------------------------------------------


class _Handler:
    """A function of the author, and the name of its Context parameter."""

    def __init__(self, function, what):
        self.function, self.what = function, what
        self.is_async = inspect.iscoroutinefunction(function)
        self.signature = inspect.signature(function)
        try:
            self.hints = typing.get_type_hints(function, include_extras=True)
        except Exception as error:
            raise TypeError(f"{what}: a type hint cannot be resolved: {error}; define its types at the top of a module") from None
        self.context = next((name for name in self.signature.parameters if self.hints.get(name) is Context), None)
        self.took = 0.0  # seconds, the latest call
        self.in_threads = 0  # of how many calls each gets a thread, before one shares the reader's again
        self.penalty = 16  # what in_threads becomes when a call was slow

    def was_slow(self):
        """Have the next calls run in threads of their own: the more, the more often the function is slow."""
        self.in_threads, self.penalty = self.penalty, min(2 * self.penalty, 4096)

    def bind(self, context, *args, **kwargs):
        """Return a function without parameters that makes the call."""
        if self.context:
            kwargs[self.context] = context
        return lambda: self.function(*args, **kwargs)


class _Tool(_Handler):
    def __init__(self, function, name, input_schema, output_schema, descriptor):
        super().__init__(function, f"tool {name}")
        description, documented = _docstring(function)
        self.name, self.members, self.optional, self.raw = name, {}, set(), set()
        self.more = False  # whether **kwargs take other arguments
        self.takes_all = input_schema is not None
        self.schema = input_schema or self._read_parameters(documented)
        self.exact = any(t.exact for t in self.members.values())
        self.descriptor = {"name": name, "description": description, **descriptor, "input_schema": self.schema}
        if output_schema is None:
            output_schema = self._output()
        if output_schema is not None:
            self.descriptor["output_schema"] = output_schema

    def _read_parameters(self, documented):
        properties = {}
        for name, p in self.signature.parameters.items():
            if name == self.context:
                continue
            if p.kind is p.VAR_KEYWORD:
                self.more = True
                continue
            if p.kind in (p.VAR_POSITIONAL, p.POSITIONAL_ONLY):
                raise TypeError(f"{self.what}: parameter {name} has no name that a model could use")
            try:
                t = _type(self.hints.get(name, typing.Any))
            except TypeError as error:
                raise TypeError(f"{self.what}: parameter {name}: {error}") from None
            schema = dict(t.schema)
            if name in documented:
                schema.setdefault("description", documented[name])
            if p.default is not p.empty:
                self.optional.add(name)
                if p.default is not None:
                    with contextlib.suppress(TypeError, ValueError):
                        schema.setdefault("default", json.loads(_encode(p.default)))
            if t is _SIMPLE[Raw]:
                self.raw.add(name)
            self.members[name], properties[name] = t, schema
        return _object_schema(properties, [n for n in self.members if n not in self.optional], self.more)

    def _output(self):
        hint = self.hints.get("return")
        if isinstance(hint, type) and (dataclasses.is_dataclass(hint) and hint is not Image or issubclass(hint, dict) and hasattr(hint, "__total__")):
            return _type(hint).schema
        return None

    def prepare(self, context, params, line):
        """Return a function that makes the call, with the arguments converted to the types of the hints."""
        arguments = params.get("arguments")
        if arguments is None:
            arguments = {}
        if not isinstance(arguments, dict):
            raise _Mismatch(f"the arguments have to be an object, they are {_kind(arguments)}")
        if (self.exact or self.raw) and "arguments" in params:
            params_text = _members(line)["params"][1]
            members = _members(_members(params_text)["arguments"][1], _exact if self.exact else _decoder)
            arguments = {k: Raw(text) if k in self.raw else v for k, (v, text) in members.items()}
        if "_meta" in arguments and "_meta" not in self.members:
            arguments = dict(arguments)
            meta = arguments.pop("_meta")
            context.meta = meta if isinstance(meta, dict) else {}
        if self.takes_all:
            return self.bind(context, **arguments)
        return self.bind(context, **_read_members(self.members, self.optional, arguments, "", self.more))


def _result(value):
    """Return the CallToolResult of a tool's return value as JSON text, or as pieces of it if it is large."""
    if isinstance(value, Raw):
        return value.text
    if value is None:
        return '{"content":[]}'
    if isinstance(value, list) and any(isinstance(x, Image) for x in value):
        return '{"content":[' + ",".join(map(_block, value)) + "]}"
    if isinstance(value, str):
        pieces = '{"content":[{"type":"text","text":', _quote(value), "}]}"
        return pieces if len(value) > LARGE else "".join(pieces)
    if isinstance(value, Image):
        return '{"content":[' + _block(value) + "]}"
    text = _encode(value)
    if text.startswith("{"):
        return '{"content":[' + _block(text) + '],"structuredContent":' + text + "}"
    return '{"content":[' + _block(text) + "]}"


def _block(value):
    if isinstance(value, Image):
        return _encode({"type": "image", "data": base64.b64encode(value.data).decode(), "mimeType": value.mime_type})
    return '{"type":"text","text":' + _quote(value if isinstance(value, str) else _encode(value)) + "}"


def _failure(message):
    return '{"content":[' + _block(message) + '],"isError":true}'


# --- the connection ------------------------------------------------------------------------------------------------


class Extension:
    """Tools and hooks, served over a connection to the host. The functions of this module share one Extension."""

    def __init__(self):
        self.host = Host()
        self.version = ""
        self._tools, self._hooks = {}, {}
        self._policy = self._setup = None
        self._calls = {}  # by the text of the request's id
        self._draining = False
        self._lock = threading.Lock()  # guards _draining, and who waits in a Context
        self._idle = threading.Condition(self._lock)
        self._writing = threading.Lock()
        self._write = self._reader = None
        self._loop = self._loop_thread = None  # started by the first async handler

    def tool(self, function=None, *, name=None, title=None, description=None, read_only=None, idempotent=None,
             destructive=None, open_world=None, input_schema=None, output_schema=None):
        """Make a function a tool: @tool, or @tool(read_only=True).

        read_only, idempotent, destructive and open_world are hints for hosts and people. input_schema and
        output_schema replace the schemas of the type hints; with an input_schema, arguments are not converted.
        """
        if function is None:
            return lambda f: self.tool(f, name=name, title=title, description=description, read_only=read_only,
                                       idempotent=idempotent, destructive=destructive, open_world=open_world,
                                       input_schema=input_schema, output_schema=output_schema)
        hints = {"readOnlyHint": read_only, "idempotentHint": idempotent, "destructiveHint": destructive, "openWorldHint": open_world}
        hints = {k: v for k, v in hints.items() if v is not None}
        given = {"title": title, "description": description, "annotations": hints or None}
        name = name or function.__name__
        if name in self._tools:
            raise ValueError(f"there are two tools named {name}")
        if not re.fullmatch(r"[A-Za-z0-9_.-]{1,128}", name):
            raise ValueError(f"tool {name!r}: a name is 1 to 128 of A-Z a-z 0-9 _ . -")
        self._tools[name] = _Tool(function, name, input_schema, output_schema, {k: v for k, v in given.items() if v})
        return function

    def hook(self, point):
        """Answer a hook point, such as before_tool_call: the handler gets the event as a dict and returns None to go
        on, or a dict of decision (allow, deny, ask), reason, override, context, abort. List it in [capabilities]."""
        def register(function):
            if point in self._hooks:
                raise ValueError(f"there are two hooks for {point}")
            self._hooks[point] = _Handler(function, f"hook {point}")
            return function
        return register

    def policy(self, function):
        """Decide about exchanges: the handler gets a dict of flow, method, caller, extension, tool, request and
        response, and returns None to allow, or a dict of decision, code, reason, data, request, response."""
        if self._policy:
            raise ValueError("there are two policies")
        self._policy = _Handler(function, "policy")
        return function

    def setup(self, function):
        """Call a function with the Host before the first call. Its exception fails the start and is shown to the operator."""
        if self._setup:
            raise ValueError("there are two setups")
        self._setup = _Handler(function, "setup")
        return function

    def run(self, version=""):
        """Serve the host on stdin and stdout until it closes the connection. Code after run() may clean up."""
        if sys.stdin and sys.stdin.isatty():
            print("This is an extension of exthost, which starts it and speaks to it over stdin. Try: exthost check " +
                  os.path.dirname(os.path.abspath(sys.argv[0])), file=sys.stderr)
        source, sink = _claim_wire()
        _log_to_stderr()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._note_fork)
        sys.setrecursionlimit(max(sys.getrecursionlimit(), 5000))  # the host accepts JSON that nests 1000 deep
        if not self.serve(source, sink, version):
            with contextlib.suppress(Exception):
                sys.stderr.flush()
            os._exit(0)  # a call hangs in a thread, and nothing else ends a thread

    def serve(self, source, sink, version=""):
        """Serve a host that writes to source and reads from sink, binary files. Return whether all calls have ended."""
        self.version, self._write = version, sink.write
        self._reader = _Reader(self, source)
        self._reader.run()
        return self._drain()

    def _note_fork(self):
        """Prepare a child process that a function of the author has forked."""
        global _forked
        _forked = True
        self._writing = threading.Lock()  # a thread that the child does not have may hold the other one

    def _drain(self):
        end = time.monotonic() + DRAIN_SECONDS
        with self._idle:
            self._draining = True
            while self._calls and time.monotonic() < end:
                self._idle.wait(max(0, end - time.monotonic()))
            left = list(self._calls.values())
        for context in left:
            context._cancel()
        if self._loop and not left:
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._loop_thread.join()
        return not left

    def _send(self, message):
        self._write_line([_bytes('{"jsonrpc":"2.0",' + _one_line(_encode(message))[1:] + "\n")])

    def _write_line(self, pieces):
        """Write one line or several."""
        with self._writing:
            try:
                for piece in pieces:
                    self._write(piece)
            except OSError:
                pass  # a host that has ended closes stdin too

    def _receive(self, line):
        """Handle a line. Return whether another thread reads from now on."""
        try:
            text = line.decode("utf-8")
            message, end = _decoder.scan_once(text, 0)
            id = message["id"]
            method, params = message["method"], message["params"]
            if end != len(text) or type(id) is not int or id == 0 or type(method) is not str:  # 0 may be written -0
                raise ValueError
        except (StopIteration, LookupError, TypeError, ValueError, RecursionError):
            return self._receive_any(line)
        return self._request(str(id), method, params if isinstance(params, dict) else {}, text)

    def _receive_any(self, line):
        """Handle a line of which it matters how its members are written, or that is no request."""
        try:
            text = line.decode("utf-8")
            if not text.strip():
                return None
            message = _members(text)
        except (ValueError, RecursionError) as error:
            return self._reader.answer(_error("null", PARSE_ERROR, f"not a JSON object: {error}"))
        method, params = message.get("method", (None,))[0], message.get("params", ({}, "{}"))
        if not isinstance(method, str):
            return None  # an answer, though nothing was requested
        if not isinstance(params[0], dict):
            params = {}, "{}"
        if "id" in message:
            return self._request(message["id"][1], method, params[0], text)
        if method == "notifications/cancelled":
            request_id = _members(params[1]).get("requestId")
            context = self._calls.get(request_id and request_id[1])
            if context:
                context._cancel()
        return None

    def _request(self, id_text, method, params, line):
        if method == "tools/call":
            return self._call_tool(id_text, params, line)
        if method == "governance/decide" and self._policy:
            return self._handle(id_text, self._policy, params, {"decision": "allow"})
        if method.startswith("hooks/") and method[6:] in self._hooks:
            return self._handle(id_text, self._hooks[method[6:]], params, None)
        return self._reader.answer(self._respond(id_text, method, params))

    def _respond(self, id_text, method, params):
        """Return the answer to a request that no handler gets."""
        if method == "ping" or method == "shutdown":  # after shutdown the host closes stdin
            return _answer(id_text, "{}")
        if method == "initialize":
            return self._initialize(id_text, params)
        if method == "tools/list":
            return _answer(id_text, _encode({"tools": self._descriptors()}))
        return _error(id_text, METHOD_NOT_FOUND, f"method not found: {method}")

    def _descriptors(self):
        return [t.descriptor for t in self._tools.values()]

    def _initialize(self, id_text, params):
        if params.get("protocol_version", PROTOCOL_VERSION) > PROTOCOL_VERSION:
            return _error(id_text, INVALID_PARAMS, f"this extension speaks version {PROTOCOL_VERSION} of the protocol, "
                                                   f"the host {params['protocol_version']}")
        self.host = Host(params.get("agent_version", ""), params.get("extension_id", ""), params.get("protocol_version", PROTOCOL_VERSION),
                         params.get("capabilities") or {}, params.get("config") or {}, pathlib.Path(params.get("state_dir") or "."))
        if self._setup:
            try:
                call = self._setup.bind(Context(self, {}), self.host)
                if self._setup.is_async:
                    _asyncio().run_coroutine_threadsafe(call(), self._event_loop()).result()
                else:
                    call()
            except Exception as error:
                return _error(id_text, INTERNAL_ERROR, _explain(error))
        offer = {"protocol_version": PROTOCOL_VERSION, "tools": self._descriptors(), "hooks": list(self._hooks)}
        if self.version:
            offer["server_version"] = self.version
        return _answer(id_text, _encode(offer))

    def _call_tool(self, id_text, params, line):
        name = params.get("name")
        tool = self._tools.get(name) if isinstance(name, str) else None
        if tool is None:
            said = f"there is no tool {name}" if isinstance(name, str) else "tools/call needs a name"
            return self._reader.answer(_error(id_text, INVALID_PARAMS, said))
        context = Context(self, params)
        return self._start(id_text, context, tool, lambda: tool.prepare(context, params, line)(), _result)

    def _handle(self, id_text, handler, params, default):
        context = Context(self, params)
        return self._start(id_text, context, handler, handler.bind(context, params), lambda v: _encode(default if v is None else v))

    def _start(self, id_text, context, handler, call, encode):
        self._calls[id_text] = context
        try:
            return self._begin(id_text, context, handler, call, encode)
        except Exception as error:  # the system has no thread left, or no descriptor for an event loop
            self._reader.answer(_failed(id_text, handler, _explain(error)))
            self._settled(id_text)
            return None

    def _begin(self, id_text, context, handler, call, encode):
        """Make a call, or have it made. Return whether another thread reads from now on."""
        if handler.is_async:
            loop = self._event_loop()

            async def attempt():
                return await call()

            def begin():
                context._task = loop.create_task(attempt())
                context._task.add_done_callback(lambda task: self._settle(id_text, handler, task.result, encode))
                if context.cancelled:  # before the task was set
                    context._task.cancel()
            loop.call_soon_threadsafe(begin)
            return None
        if handler.in_threads == 0:
            return self._reader.call(id_text, handler, call, encode)
        handler.in_threads -= 1
        threading.Thread(target=self._settle, args=(id_text, handler, call, encode), name=handler.what, daemon=True).start()
        return None

    def _settle(self, id_text, handler, call, encode):
        """Make a call and write its answer."""
        self._write_line(_outcome(id_text, handler, call, encode))
        self._settled(id_text)

    def _settled(self, id_text):
        self._calls.pop(id_text, None)
        if self._draining:
            with self._idle:
                self._idle.notify_all()

    def _event_loop(self):
        if self._loop is None:
            loop = _asyncio().new_event_loop()

            def serve():
                while not loop.is_closed():
                    with contextlib.suppress(SystemExit, KeyboardInterrupt):  # of a task, whose result it is too
                        loop.run_forever()
                        loop.close()
            thread = threading.Thread(target=serve, name="event loop", daemon=True)
            try:
                thread.start()
            except RuntimeError:
                loop.close()
                raise
            self._loop, self._loop_thread = loop, thread
        return self._loop


def _outcome(id_text, handler, call, encode):
    """Make a call and return its answer."""
    began = time.perf_counter()
    try:
        try:
            try:
                value = call()
            finally:
                handler.took = time.perf_counter() - began
                if _forked:
                    _end_child(sys.exc_info()[1])
            return _answer(id_text, encode(value))
        except ToolError as error:
            if error.code is not None:
                return _error(id_text, error.code, str(error), error.data)
            message = str(error)
        except _Mismatch as mismatch:
            message = f"The arguments do not fit: {mismatch}."
    except Cancelled:
        message = "cancelled"
    except BaseException as error:  # sys.exit in one tool must not end the others
        message = _explain(error) if not handler.is_async or not isinstance(error, _asyncio().CancelledError) else "cancelled"
    return _failed(id_text, handler, message)


def _failed(id_text, handler, message):
    return _answer(id_text, _failure(message)) if isinstance(handler, _Tool) else _error(id_text, INTERNAL_ERROR, message)


_forked = False  # whether this process is a child that a function of the author has forked


def _end_child(error):
    """End a forked child that returns from the function that has forked it: its parent answers the call, and reads on."""
    code = 0 if error is None else 1
    if isinstance(error, SystemExit) and isinstance(error.code, (int, type(None))):
        code = error.code or 0
    elif error is not None:
        _explain(error)
    with contextlib.suppress(Exception):
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(code)


def _explain(error):
    """Write an unexpected error to stderr and return its text."""
    with contextlib.suppress(Exception):
        sys.stderr.write("".join("E! " + x + "\n" for x in traceback.format_exc().splitlines()))
    try:
        return f"{type(error).__name__}: {error}"
    except Exception:  # of the error's own __str__
        return type(error).__name__


def _answer(id_text, result):
    """Return the pieces of the line that answers a request. result is JSON text, or pieces of it."""
    if isinstance(result, str) and len(result) <= LARGE:
        return [_bytes('{"jsonrpc":"2.0","id":%s,"result":%s}\n' % (id_text, _one_line(result)))]
    pieces = (result,) if isinstance(result, str) else result
    return [_bytes('{"jsonrpc":"2.0","id":%s,"result":' % id_text), *(_bytes(_one_line(piece)) for piece in pieces), b"}\n"]


def _error(id_text, code, message, data=None):
    error = {"code": code, "message": message}
    if data is not None:
        error["data"] = data
    return [_bytes('{"jsonrpc":"2.0","id":%s,"error":%s}\n' % (id_text, _one_line(_encode(error))))]


def _one_line(text):
    return text.replace("\n", " ").replace("\r", " ") if "\n" in text or "\r" in text else text  # a Raw may contain some


def _bytes(text):
    return text.encode("utf-8", "backslashreplace")  # writes half a surrogate pair as \udc00, valid JSON


class _Reader:
    """Reads the lines of the host and handles them, in one thread at a time.

    That thread makes the calls of quick functions itself, because to hand a call to another thread takes longer than the
    call. When a function turns out slow, another thread takes over the reading. It looks for that every 5 ms while there
    are calls: each of them has a number, and one that is still under way at the second look is slow.
    """

    def __init__(self, extension, source):
        self.extension, self.read_some = extension, getattr(source, "read1", source.read)
        self.role = threading.Lock()  # held by the thread that reads, except while it is in a function of the author
        self.role.acquire()
        self.alone = True  # before the first call: the thread that calls run reads, and there is no other
        self.lines = collections.deque()  # received, not handled
        self.parts = []  # of a line whose end has not been received
        self.ready, self.since = [], 0.0  # pieces of answers to write, and when the first of them became ready
        self.number, self.handler = 0, None  # of the latest call
        self.ended = threading.Event()
        self.resting = True  # whether the other thread waits for the next call without looking
        self.wake = threading.Event()

    def run(self):
        """Serve until the host has closed its end. The author's functions run in other threads than this one."""
        self.read()
        self.ended.wait()

    def read(self):
        while True:
            while self.lines:
                try:
                    if self.extension._receive(self.lines.popleft()):
                        return
                except Exception:
                    logging.getLogger("exthost").exception("a line of the host could not be handled")
            self.flush()
            chunk = self.read_some(65536)
            if not chunk and not self.parts:
                break
            *lines, rest = chunk.split(b"\n") if chunk else (b"", b"")  # the last line need not end with a newline
            if lines:
                lines[0] = b"".join((*self.parts, lines[0]))
                self.lines.extend(lines)
                self.parts = []
            if rest:
                self.parts.append(rest)
        self.ended.set()
        self.wake.set()

    def answer(self, line):
        """Keep an answer, which is written with those to the other lines that have been received."""
        if not self.ready:
            self.since = time.perf_counter()
        elif time.perf_counter() - self.since > LATE_SECONDS:
            self.flush()
        self.ready += line

    def flush(self):
        if self.ready:
            large = max(map(len, self.ready)) > LARGE
            self.extension._write_line(self.ready if large else [b"".join(self.ready)])
            self.ready.clear()

    def call(self, id_text, handler, call, encode):
        """Make a call and keep its answer to write. Return whether another thread reads from now on."""
        if self.alone:
            threading.Thread(target=self.look, name="reader", daemon=True).start()
            self.alone = False
            try:
                threading.Thread(target=self.resume, args=(id_text, handler, call, encode), name="reader", daemon=True).start()
            except RuntimeError:
                self.alone = True
                raise
            return True
        self.handler = handler
        self.number += 1
        self.role.release()
        if self.resting:
            self.resting = False
            self.wake.set()
        began = time.perf_counter()
        line = contextvars.Context().run(_outcome, id_text, handler, call, encode)
        if not self.role.acquire(False):
            self.extension._write_line(line)
            self.extension._settled(id_text)
            return True
        if handler.took > QUICK_SECONDS and handler.took > (time.perf_counter() - began) / 2:  # not in the encoding of a large result
            handler.was_slow()
        elif handler.penalty > 16:
            handler.penalty -= 1
        self.answer(line)
        self.extension._settled(id_text)
        return False

    def resume(self, *call):
        if not self.call(*call):
            self.read()

    def look(self):
        """Take over the reading when a call is slow, in a loop that waits without looking while there are no calls."""
        idle = 0
        while not self.ended.is_set():
            number = self.number
            time.sleep(0.005)
            if self.number != number:
                idle = 0
            elif self.role.acquire(False):
                try:
                    threading.Thread(target=self.look, name="reader", daemon=True).start()
                except RuntimeError:  # the system has no thread left: the slow call holds the others up until it has
                    self.role.release()
                    continue
                self.handler.was_slow()
                self.flush()
                return self.read()
            elif (idle := idle + 1) > 10:
                self.wake.clear()
                self.resting = True
                if self.number == number and self.role.locked() and not self.ended.is_set():
                    self.wake.wait()
                self.resting = False


# --- the process ---------------------------------------------------------------------------------------------------

_wire = None


def _claim_wire():
    """Take stdin and stdout for the protocol. From here on output goes to stderr, and a read of stdin, also by a child
    process, finds its end."""
    global _wire
    if _wire is None:
        source, sink = os.dup(0), os.dup(1)  # not inherited by child processes
        os.dup2(2, 1)
        null = os.open(os.devnull, os.O_RDONLY)
        os.dup2(null, 0)
        os.close(null)
        for stream in (sys.stdout, sys.stderr):
            if isinstance(stream, io.TextIOWrapper):
                stream.reconfigure(encoding="utf-8", errors="backslashreplace", line_buffering=True)
        _wire = os.fdopen(source, "rb"), os.fdopen(sink, "wb", buffering=0)
    return _wire[0], _Sink(_wire[1])


class _Sink:
    """An unbuffered file whose write does not return before all data is written."""

    def __init__(self, file):
        self.file = file

    def write(self, data):
        written = self.file.write(data)
        while written < len(data):
            written += self.file.write(memoryview(data)[written:])


class _LevelFormatter(logging.Formatter):
    """Formats records as lines with the prefixes that the host reads as levels: "E! ", "W! ", "I! ", "D! "."""

    def format(self, record):
        prefix = "EWID"[(record.levelno < 40) + (record.levelno < 30) + (record.levelno < 20)] + "! "
        return "\n".join(prefix + line for line in super().format(record).splitlines())


def _log_to_stderr():
    if not logging.getLogger().handlers:
        handler = logging.StreamHandler(sys.stderr)
        handler.setFormatter(_LevelFormatter("%(message)s"))
        logging.basicConfig(level=logging.INFO, handlers=[handler])


if "EXTHOST_PROTOCOL_VERSION" in os.environ and not sys.stdin.isatty():
    _claim_wire()  # started by a host: output of modules imported later must not reach the protocol either

_default = Extension()
tool, hook, policy, setup, run = _default.tool, _default.hook, _default.policy, _default.setup, _default.run
