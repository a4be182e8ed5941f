"""A calculator as an MCP server that requires Python only.

It evaluates arithmetic with exact fractions and integers of any size. It parses the
expression and never executes it, and rejects expressions that would take too long.
"""
import ast
import json
import math
import operator
import sys
from fractions import Fraction

BINARY = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul,
    ast.Div: operator.truediv, ast.FloorDiv: operator.floordiv, ast.Mod: operator.mod,
}
UNARY = {ast.UAdd: operator.pos, ast.USub: operator.neg}
MAX_BITS = 1 << 16  # of each intermediate number


def number(value):
    if value.numerator.bit_length() + value.denominator.bit_length() > MAX_BITS:
        raise ValueError("the numbers get too large")
    return value


def power(base, exponent):
    if exponent.denominator != 1:
        raise ValueError("exponents must be whole numbers")
    size = max(base.numerator.bit_length(), base.denominator.bit_length())
    if abs(exponent) > MAX_BITS or size * abs(int(exponent)) > MAX_BITS:
        raise ValueError("the numbers get too large")
    return base ** int(exponent)


def square_root(value):
    if value < 0:
        raise ValueError("sqrt needs a number that is not negative")
    top, bottom = math.isqrt(value.numerator), math.isqrt(value.denominator)
    if top * top == value.numerator and bottom * bottom == value.denominator:
        return Fraction(top, bottom)
    return Fraction(math.sqrt(value))


FUNCTIONS = {"sqrt": square_root, "abs": abs, "min": min, "max": max, "floor": math.floor, "ceil": math.ceil}


def evaluate(node):
    if isinstance(node, ast.Expression):
        return evaluate(node.body)
    if isinstance(node, ast.Constant) and type(node.value) in (int, float):
        return Fraction(str(node.value))
    if isinstance(node, ast.UnaryOp) and type(node.op) in UNARY:
        return UNARY[type(node.op)](evaluate(node.operand))
    if isinstance(node, ast.BinOp):
        left, right = evaluate(node.left), evaluate(node.right)
        if isinstance(node.op, ast.Pow):
            return number(power(left, right))
        if type(node.op) in BINARY:
            return number(Fraction(BINARY[type(node.op)](left, right)))
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in FUNCTIONS and not node.keywords:
        return number(Fraction(FUNCTIONS[node.func.id](*map(evaluate, node.args))))
    raise ValueError("only + - * / // % **, brackets, numbers and " + ", ".join(FUNCTIONS) + " are understood")


def calculate(arguments):
    expression = arguments["expression"]
    if len(expression) > 1000:
        raise ValueError("the expression is longer than 1000 characters")
    value = evaluate(ast.parse(expression.strip().replace("^", "**"), mode="eval"))
    if value.denominator == 1:
        return str(value.numerator)
    return f"{value.numerator}/{value.denominator} = {float(value):.15g}"


TOOL = {
    "name": "calculate",
    "description": "Evaluates arithmetic exactly, e.g. (2**64 - 1) / 3 or sqrt(2) * 10.",
    "inputSchema": {
        "type": "object",
        "properties": {"expression": {"type": "string", "description": "+ - * / // % ** and brackets; also " + ", ".join(FUNCTIONS)}},
        "required": ["expression"],
    },
    "annotations": {"readOnlyHint": True},
}


def call(params):
    if params.get("name") != TOOL["name"]:
        raise LookupError(f"there is no tool {params.get('name')}")
    try:
        text, failed = calculate(params.get("arguments") or {}), False
    except Exception as error:
        text, failed = f"{type(error).__name__}: {error}", True
    return {"content": [{"type": "text", "text": text}], "isError": failed}


METHODS = {
    "initialize": lambda p: {
        "protocolVersion": "2025-11-25",
        "capabilities": {"tools": {}},
        "serverInfo": {"name": "calc", "version": "0.1.0"},
    },
    "ping": lambda p: {},
    "tools/list": lambda p: {"tools": [TOOL]},
    "tools/call": call,
}

if hasattr(sys, "set_int_max_str_digits"):
    sys.set_int_max_str_digits(0)
sys.stdin.reconfigure(encoding="utf-8")  # regardless of the locale
for line in sys.stdin:
    request = json.loads(line)
    if "id" not in request or "method" not in request:
        continue  # a notification or an answer
    answer = {"jsonrpc": "2.0", "id": request["id"]}
    try:
        answer["result"] = METHODS[request["method"]](request.get("params") or {})
    except KeyError:
        answer["error"] = {"code": -32601, "message": "method not found: " + str(request.get("method"))}
    except LookupError as error:
        answer["error"] = {"code": -32602, "message": str(error)}
    print(json.dumps(answer), flush=True)
