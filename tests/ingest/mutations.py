"""Samples of every reader of the registry, laid out as its client leaves them, and their JSON changed in one position at a time.

A new reader is enrolled by its line in the registry: without a sample of its own `samples_of` fails.
"""

import json
import shutil
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

from memory_mcp.importers.registry import IMPORTERS
from memory_mcp.importers.settings import IngestSettings
from tests.ingest.suite import SESSIONS, session_of

SAMPLES = Path(__file__).parent / "samples"
#: A value in the JSON of a sample, by the number of its cell and the keys that lead to it.
Path_ = tuple[int | str, ...]


class Position(NamedTuple):
    """A value of a sample: the cell (line, document or column) that it is in, the keys to it, and itself."""

    cell: int
    keys: Path_
    value: Any


def samples_of(name: str, folder: Path) -> list[Path]:
    """Lay out all samples of a reader below a folder, and return the files that it reads there."""
    source = next((s for s in (SAMPLES / name, SAMPLES / name.replace("-", "_")) if s.is_dir()), None)
    if name == "jsonl":
        return [session_of(name)(folder, 3)]
    assert source is not None, f"the reader {name} has no samples"
    if name == "cursor":
        files = [_cursor_database(source / "global.json", folder / "User" / "globalStorage" / "state.vscdb")]
        shutil.copytree(source / "agent-transcripts", folder / "projects" / "p" / "agent-transcripts")
        return [*files, *(f for f in sorted((folder / "projects").rglob("*.jsonl")))]
    shutil.copytree(source, folder / "copy", ignore=shutil.ignore_patterns("*.expected.json"))
    importer = IMPORTERS[name](IngestSettings())
    if name == "copilot-chat":
        return sorted((folder / "copy").rename(folder / "chatSessions").iterdir())
    files = [f for f in importer.iter_files(folder / "copy") if "foreign" not in f.name]
    if name in ("opencode", "goose"):
        database = SESSIONS[name](folder, 0)
        (_fill_opencode if name == "opencode" else _fill_goose)(database, folder / "copy")
        files.append(database)
    return files


def _cursor_database(told: Path, file: Path) -> Path:
    file.parent.mkdir(parents=True)
    tables = json.loads(told.read_text(encoding="utf-8"))
    with closing(sqlite3.connect(file)) as con, con:
        for table in ("ItemTable", "cursorDiskKV"):
            con.execute(f"CREATE TABLE {table} (key TEXT UNIQUE ON CONFLICT REPLACE, value BLOB)")
            con.executemany(f"INSERT INTO {table} VALUES (?, ?)", [(k, json.dumps(v).encode()) for k, v in tables[table].items()])
    return file


def _fill_opencode(database: Path, store: Path) -> None:
    with closing(sqlite3.connect(database)) as con, con:
        for file in sorted(store.rglob("*.json")):
            value = json.loads(file.read_text(encoding="utf-8"))
            kind, name = file.relative_to(store / "storage").parts[0], file.stem
            if kind == "session":
                con.execute("INSERT INTO session VALUES (?, ?, ?, '1.0')", (name, value.get("parentID"), value.get("directory")))
            elif kind == "message":
                created = value["time"]["created"]
                con.execute("INSERT INTO message VALUES (?, ?, ?, ?)", (name, value["sessionID"], created, json.dumps(value)))
            elif kind == "part":
                con.execute("INSERT INTO part VALUES (?, ?, ?)", (name, file.parent.name, json.dumps(value)))


def _fill_goose(database: Path, lines: Path) -> None:
    with closing(sqlite3.connect(database)) as con, con:
        for line in next(lines.rglob("*.jsonl")).read_text(encoding="utf-8").splitlines():
            value = _parse(line)
            if isinstance(value, dict) and "content" in value:
                row = (value["role"], json.dumps(value["content"]), value["created"], json.dumps(value.get("metadata")))
                con.execute(
                    "INSERT INTO messages (session_id, role, content_json, created_timestamp, metadata_json)"
                    " VALUES ('20260302_1', ?, ?, ?, ?)",
                    row,
                )


class Cells:
    """The JSON values of one file: its lines, the file as a whole, or the texts of a database."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self._database = file.read_bytes()[:6] == b"SQLite"
        self._rows: list[tuple[str, str, int]] = []
        self.values: list[Any] = []
        if self._database:
            self._read_rows()
        elif file.suffix in (".jsonl", ".json") or ".jsonl." in file.name:
            text = file.read_text(encoding="utf-8")
            self.values = [_parse(line) for line in text.splitlines()] if ".jsonl" in file.name else [_parse(text)]

    def _read_rows(self) -> None:
        with closing(sqlite3.connect(self.file)) as con:
            for (table,) in con.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
                for _, column, *_ in con.execute(f"PRAGMA table_info({table})").fetchall():
                    for row, text in con.execute(f"SELECT rowid, {column} FROM {table}").fetchall():
                        value = _parse(text.decode() if isinstance(text, bytes) else text)
                        if isinstance(value, dict | list):
                            self._rows.append((table, column, row))
                            self.values.append(value)

    def write(self, changed: Mapping[int, Any]) -> None:
        """Write the file with some of its cells changed; the others as they were."""
        if self._database:
            with closing(sqlite3.connect(self.file)) as con, con:
                con.execute("PRAGMA synchronous = OFF")
                for cell, value in changed.items():
                    table, column, row = self._rows[cell]
                    con.execute(f"UPDATE {table} SET {column} = ? WHERE rowid = ?", (json.dumps(value), row))
        else:
            lines = [
                value if isinstance(value, str) else json.dumps(value)
                for value in ({**dict(enumerate(self.values)), **changed}).values()
            ]
            self.file.write_text("\n".join(lines) + "\n", encoding="utf-8")


def _parse(text: Any) -> Any:
    try:
        return json.loads(text)
    except (ValueError, TypeError):
        return text


def iter_positions(cells: Cells) -> Iterator[Position]:
    """Yield each value within the objects and lists of a sample, in order."""

    def walk(cell: int, keys: Path_, value: Any) -> Iterator[Position]:
        yield Position(cell, keys, value)
        if isinstance(value, dict):
            for key, inner in value.items():
                yield from walk(cell, (*keys, key), inner)
        elif isinstance(value, list):
            for number, inner in enumerate(value):
                yield from walk(cell, (*keys, number), inner)

    for cell, value in enumerate(cells.values):
        if isinstance(value, dict | list):
            yield from walk(cell, (), value)


def replace_value(tree: Any, keys: Path_, value: Any) -> Any:
    """Return a copy of a tree with the value at a position replaced; the tree stays as it is."""
    if not keys:
        return value
    copy = dict(tree) if isinstance(tree, dict) else list(tree)
    copy[keys[0]] = replace_value(tree[keys[0]], keys[1:], value)  # type: ignore[index]
    return copy


def shape_of(cells: Cells, position: Position) -> tuple[object, ...]:
    """Return what is the same of positions that differ in their number alone: keys, and the kinds that stand beside them."""
    shape: list[object] = []
    tree = cells.values[position.cell]
    for key in (*position.keys, None):
        if isinstance(tree, dict):
            shape.append(tuple(str(tree[k]) for k in KINDS if isinstance(tree.get(k), str | int)))
        shape.append(key if isinstance(key, str) else "")
        tree = tree[key] if key is not None else None
    return tuple(shape)


#: Keys whose values say what an object is.
KINDS = ("type", "kind", "role", "content_type", "subtype", "sessionUpdate", "sender", "source", "partKind")
