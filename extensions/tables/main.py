"""Answers questions about data files with SQLite in memory.

It reads a file into a table named data and runs a SELECT over it. It writes nothing, opens no other file, and stops a
query when its call is cancelled.
"""
import csv
import io
import json
import pathlib
import sqlite3
from typing import Annotated, Any, Dict, List, Optional, TypedDict

from exthost import Context, Host, ToolError, run, setup, tool

MAX_BYTES = 64 << 20
MAX_COLUMNS = 500
DELIMITERS = {".csv": None, ".tsv": "\t"}
root = pathlib.Path.home()

Path = Annotated[Optional[str], "A .csv, .tsv, .json, .jsonl or .ndjson file; the first line of a CSV file names its columns"]
Text = Annotated[Optional[str], "The data itself, in place of a path"]
Format = Annotated[Optional[str], "The form of text; of a path its suffix says it", {"enum": ["csv", "tsv", "json", "jsonl", None]}]


class Column(TypedDict):
    name: str
    types: Annotated[List[str], "What its values are: integer, real, text or null"]
    distinct: Annotated[int, "How many different values there are"]
    examples: List[Any]


class Description(TypedDict):
    rows: int
    columns: List[Column]


class Answer(TypedDict):
    columns: List[str]
    rows: List[List[Any]]
    more: Annotated[bool, "There are rows beyond the limit"]


@setup
def start(host: Host):
    global root
    root = pathlib.Path(host.config.get("root", "~")).expanduser().resolve()
    if not root.is_dir():
        raise ToolError(f"the configured root {root} is no directory")


@tool(read_only=True)
def describe(ctx: Context, path: Path = None, text: Text = None, format: Format = None) -> Description:
    """Say how many rows a data file has, and of each column its name, types, number of different values and examples.

    Use it before query, to know the columns.
    """
    table = load(ctx, path, text, format)
    columns = []
    for name in names_of(table):
        column = quote(name)
        types = [t for (t,) in table.execute(f"SELECT DISTINCT typeof({column}) FROM data ORDER BY 1")]
        distinct = table.execute(f"SELECT count(DISTINCT {column}) FROM data").fetchone()[0]
        examples = [v for (v,) in table.execute(f"SELECT DISTINCT {column} FROM data WHERE {column} IS NOT NULL LIMIT 3")]
        columns.append({"name": name, "types": types, "distinct": distinct, "examples": examples})
    return {"rows": table.execute("SELECT count(*) FROM data").fetchone()[0], "columns": columns}


@tool(read_only=True)
def query(sql: Annotated[str, "One SELECT in SQLite's dialect over the table data, such as SELECT city, avg(price) FROM data GROUP BY city"],
          ctx: Context, path: Path = None, text: Text = None, format: Format = None,
          limit: Annotated[int, "At most this many rows", {"minimum": 1, "maximum": 1000}] = 100) -> Answer:
    """Answer a question about a data file (CSV, TSV, JSON or JSON Lines) with SQL: filter, sort, group, count, sum."""
    table = load(ctx, path, text, format)
    table.set_authorizer(only_reads)
    try:
        cursor = table.execute(sql)
        rows = cursor.fetchmany(limit + 1)
    except (sqlite3.Error, sqlite3.Warning) as error:
        ctx.check()
        raise ToolError(f"{error}; the columns of data are {', '.join(names_of(table))}") from None
    if cursor.description is None:
        raise ToolError("sql has to be a SELECT")
    return {"columns": [d[0] for d in cursor.description], "rows": [[plain(v) for v in row] for row in rows[:limit]], "more": len(rows) > limit}


def only_reads(action, *_):
    allowed = {sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION, sqlite3.SQLITE_RECURSIVE}
    return sqlite3.SQLITE_OK if action in allowed else sqlite3.SQLITE_DENY


def plain(value):
    return value.hex() if isinstance(value, bytes) else value


def names_of(table):
    return [row[1] for row in table.execute("SELECT * FROM pragma_table_info('data')")]


def quote(name):
    return '"' + name.replace('"', '""') + '"'


def load(ctx, path, text, format):
    """Returns a database whose table data holds the file or the text."""
    if (path is None) == (text is None):
        raise ToolError("state either path or text")
    if path is not None:
        text, format = read(path), None
        format = {".csv": "csv", ".tsv": "tsv", ".json": "json"}.get(suffix(path), "jsonl")
    names, rows = READERS[format or guess(text)](text)
    if len(names) > MAX_COLUMNS:
        raise ToolError(f"it has {len(names)} columns, at most {MAX_COLUMNS} are read")
    table = sqlite3.connect(":memory:")
    table.set_progress_handler(lambda: ctx.cancelled, 10_000)
    table.execute("CREATE TABLE data (" + ", ".join(map(quote, names)) + ")")
    table.executemany("INSERT INTO data VALUES (" + ", ".join("?" * len(names)) + ")", rows)
    return table


def suffix(path):
    return pathlib.PurePath(path).suffix.lower()


def read(path):
    if suffix(path) not in (".csv", ".tsv", ".json", ".jsonl", ".ndjson"):
        raise ToolError(f"{path} is no .csv, .tsv, .json, .jsonl or .ndjson file")
    file = (root / pathlib.Path(path).expanduser()).resolve()
    if root != file and root not in file.parents:
        raise ToolError(f"{path} is not below {root}, which is all that may be read")
    try:
        if file.stat().st_size > MAX_BYTES:
            raise ToolError(f"{path} is over {MAX_BYTES >> 20} MiB")
        if not file.is_file():
            raise ToolError(f"{path} is no file")
        return file.read_text(encoding="utf-8-sig", errors="replace")
    except OSError as error:
        raise ToolError(f"{path}: {error.strerror}") from None


def guess(text):
    start = text.lstrip()[:1]
    if start == "[":
        return "json"
    return "jsonl" if start == "{" else "csv"


def read_csv(text, delimiter=None):
    csv.field_size_limit(MAX_BYTES)
    if delimiter is None:
        try:
            delimiter = csv.Sniffer().sniff(text[:8192], ",;\t|").delimiter
        except csv.Error:
            delimiter = ","
    lines = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)
    names = unique(next(lines, []))
    if not names:
        raise ToolError("there is no line that names the columns")
    return names, ([typed(v) for v in (line + [""] * len(names))[:len(names)]] for line in lines if line)


def unique(names):
    """Returns column names without empty names and duplicates, which SQL does not allow."""
    taken, result = set(), []
    for i, name in enumerate(names):
        name = base = name.strip() or f"column_{i + 1}"
        n = 2
        while name.lower() in taken:
            name, n = f"{base}_{n}", n + 1
        taken.add(name.lower())
        result.append(name)
    return result


def typed(value):
    """Returns the number that a text spells canonically, else the text: 007 and 1e5 stay texts."""
    text = value.strip()
    if text == "":
        return None
    if text.lstrip("-").isdecimal() and text.isascii() and (text.lstrip("-")[0] != "0" or len(text.lstrip("-")) == 1) and len(text) < 19:
        return int(text)
    whole, dot, fraction = text.lstrip("-").partition(".")
    if dot and text.isascii() and whole.isdecimal() and fraction.isdecimal() and (whole[0] != "0" or whole == "0") and len(text) < 17:
        return float(text)
    return value


def read_json(text):
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ToolError(f"it is no JSON: {error}") from None
    if isinstance(data, dict):  # such as {"items": [...]}
        lists = [v for v in data.values() if isinstance(v, list)]
        data = lists[0] if len(lists) == 1 else [data]
    return from_records(data)


def read_json_lines(text):
    records = []
    for number, line in enumerate(text.splitlines(), 1):
        try:
            records += [json.loads(line)] if line.strip() else []
        except (ValueError, RecursionError) as error:
            raise ToolError(f"line {number} is no JSON: {error}") from None
    return from_records(records)


def from_records(records):
    records = [r if isinstance(r, dict) else {"value": r} for r in records]
    keys = list(dict.fromkeys(key for r in records for key in r))
    if not keys:
        raise ToolError("there is no record in it")
    return unique(keys), ([cell(r.get(key)) for key in keys] for r in records)


def cell(value):
    """Converts a JSON value for SQLite. Objects and arrays stay JSON, for json_extract."""
    if isinstance(value, bool) or value is None or isinstance(value, (str, float)):
        return value
    if isinstance(value, int):
        return value if -2**63 <= value < 2**63 else str(value)
    return json.dumps(value, ensure_ascii=False)


READERS: Dict[str, Any] = {"csv": read_csv, "tsv": lambda text: read_csv(text, "\t"), "json": read_json, "jsonl": read_json_lines}

run("0.1.0")
