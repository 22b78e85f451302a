"""Sessions of Goose: the database `sessions.db`, and the files of lines that older versions kept, one a session.

The client copies its old files into the database, and writes a session again when it shortens it: an id follows from what
a message says, so that all copies are one event. Times are whole seconds.
"""

import json
import os
import re
import sqlite3
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from memory_mcp.importers import chat
from memory_mcp.importers.base import ImportReport, ReadStep
from memory_mcp.importers.blocks import as_blocks, as_mapping, as_text, words_within
from memory_mcp.importers.chat import ChatReader, Outcome, skipped_outcome
from memory_mcp.importers.database import (
    MAGIC,
    DatabaseImporter,
    find_unread,
    is_database,
    list_tables,
    open_database,
    report_unread,
    row_checksum,
)
from memory_mcp.importers.json_records import Record, first_values, iter_records, parse_time
from memory_mcp.importers.parts import Part, content_id, note_part
from memory_mcp.importers.session_reader import read_records
from memory_mcp.model.event import Role

AGENT = "goose"
_DATABASE = "sessions.db"
_FOREIGN = "not a Goose message"
_ROLES = frozenset({"user", "assistant"})
#: Blocks that the client puts between the words.
_CLIENT = frozenset(
    "toolConfirmationRequest actionRequired frontendToolRequest systemNotification contextLengthExceeded"
    " summarizationRequested conversationCompacted".split()
)
#: Columns that only a table of sessions has, and bits of a row in a position.
_OF_SESSIONS = frozenset({"working_dir", "session_type", "parent_session_id"})
_ROW_BITS = 48
#: Rows of a session looked at before the first new one.
_LOOK_BACK = 50
_EXIT_CODE = re.compile(r"\bexit (?:code|status):? (-?\d{1,5})\b")


class GooseImporter(DatabaseImporter):
    """Reads the sessions of Goose."""

    name = AGENT
    title = "Goose"
    endings = (_DATABASE, ".jsonl")

    def default_paths(self) -> tuple[Path, ...]:
        if root := os.environ.get("GOOSE_PATH_ROOT"):
            return (Path(root) / "data" / "sessions",)
        home = Path.home()
        if sys.platform == "darwin":
            app_folder = home / "Library" / "Application Support" / "Block.goose"
            return (
                app_folder / "sessions",
                app_folder.with_name("Block.block.goose") / "sessions",
                home / ".local/share/goose/sessions",
            )
        if sys.platform == "win32":
            roaming = Path(os.environ.get("APPDATA") or home / "AppData" / "Roaming")
            return (roaming / "Block" / "goose" / "data" / "sessions",)
        return (Path(os.environ.get("XDG_DATA_HOME") or home / ".local" / "share") / "goose" / "sessions",)

    def recognises_file(self, file: Path, beginning: bytes) -> bool:
        if beginning.startswith(MAGIC):
            return file.name == _DATABASE
        return file.suffix == ".jsonl" and any(map(_is_own_record, first_values(beginning)))

    def read_file(self, file: Path, offset: int, report: ImportReport) -> Iterator[ReadStep]:
        """Yield a step for each message.

        The offset in a database is the highest row read and what it holds; a file of lines is always read from its start, each
        offset 0.
        """
        if is_database(file):
            yield from self._read_rows(file, offset, report)
            return
        reader = _Reader(AGENT, file.stem, self._settings.include_thinking)
        for record in iter_records(file):
            reader.learn_from(record.value)
            for read in read_records(reader, file, (record,), report):
                yield ReadStep(read.drafts, 0)

    def _read_rows(self, file: Path, offset: int, report: ImportReport) -> Iterator[ReadStep]:
        readers: dict[str, _Reader] = {}
        with open_database(file) as con:
            base = _Database(con)
            start = base.row_of(offset)
            for row, session, record in base.iter_messages("m.rowid > ? ORDER BY m.rowid", start):
                if session not in readers:
                    readers[session] = base.make_reader(session, start, self._settings.include_thinking)
                quote = json.dumps(record, ensure_ascii=False, default=str)[:1024]
                position = row | _checksum_of(session, record) << _ROW_BITS
                yield from read_records(readers[session], file, (Record(record, row, position, quote),), report)
            report_unread(find_unread(con, base.read_tables()), report, file)

    def read_tables(self, con: sqlite3.Connection) -> set[str]:
        return _Database(con).read_tables()


def _is_own_record(value: Mapping[str, object]) -> bool:
    if "working_dir" in value:
        return "description" in value or "message_count" in value
    listed = isinstance(value.get("content"), list)
    return listed and as_text(value.get("role")) in _ROLES and isinstance(value.get("created"), int)


class _Database:
    """A database's messages and sessions, in tables known by columns."""

    def __init__(self, con: sqlite3.Connection) -> None:
        self._con = con
        tables = list_tables(con)
        self._messages = [table for table in tables if {"session_id", "role", "content_json"} <= table.columns]
        self._sessions = [table for table in tables if "id" in table.columns and _OF_SESSIONS & table.columns]

    def read_tables(self) -> set[str]:
        return {table.name for table in (*self._messages[:1], *self._sessions[:1])}

    def iter_messages(self, condition: str, *values: object) -> Iterator[tuple[int, str, dict[str, object]]]:
        for table in self._messages[:1]:
            names = ("session_id", "role", "content_json", "created_timestamp", "metadata_json")
            columns = ", ".join(f"m.{name}" if name in table.columns else "NULL" for name in names)
            query = f"SELECT m.rowid, {columns} FROM {table.sql} m WHERE {condition}"
            for row, session, role, content, created, metadata in self._con.execute(query, values):
                message = {"role": role, "created": created, "content": _parse_json(content), "metadata": _parse_json(metadata)}
                yield row, str(session), message

    def row_of(self, position: int) -> int:
        """Return the row of a position; 0 if the database is another."""
        row = position & ((1 << _ROW_BITS) - 1)
        message = next(self.iter_messages("m.rowid = ?", row), None)
        return row if message and _checksum_of(*message[1:]) == position >> _ROW_BITS else 0

    def make_reader(self, session: str, row: int, thinking: bool) -> "_Reader":
        """Return a session's reader after `row`, with 50 rows read."""
        cwd = kind = parent = ""
        for table in self._sessions[:1]:
            columns = ", ".join(map(table.column_sql, ("working_dir", "session_type", "parent_session_id")))
            row_values = self._con.execute(f"SELECT {columns} FROM {table.sql} WHERE id = ?", (session,)).fetchone()
            cwd, kind, parent = (str(value or "") for value in row_values or ("", "", ""))
        helps = kind == "sub_agent"
        reader = _Reader(AGENT, parent or session if helps else session, thinking, session if helps else "")
        reader.cwd = cwd
        last = list(
            self.iter_messages("m.session_id = ? AND m.rowid <= ? ORDER BY m.rowid DESC LIMIT ?", session, row, _LOOK_BACK)
        )
        for _, _, record in reversed(last):
            for item in reader.read_record(record).items:
                reader.make_drafts(item)
        return reader


def _checksum_of(session: str, record: Mapping[str, object]) -> int:
    return row_checksum((session, record.get("role"), record.get("created")))


def _parse_json(text: object) -> object:
    try:
        return json.loads(text) if isinstance(text, str) else None
    except (ValueError, RecursionError):
        return None


class _Reader(ChatReader):
    def learn_from(self, record: dict[str, object]) -> None:
        if "working_dir" in record:
            self.cwd = as_text(record.get("working_dir"))
            self.session.session_id = as_text(record.get("id")) or self.session.session_id

    def convert_record(self, record: dict[str, object]) -> Outcome:
        role, metadata = as_text(record.get("role")), as_mapping(record.get("metadata"))
        if role not in _ROLES:
            return skipped_outcome("session header" if "working_dir" in record else _FOREIGN)
        outcome = Outcome(time=parse_time(record.get("created")))
        blocks = as_blocks(record.get("content"))
        if as_mapping(metadata.get("usage")).get("isCompaction") is True:
            outcome.parts = [chat.recap_part(chat.words_of(record.get("content")), "compaction")]
        elif metadata.get("userVisible") is False:
            outcome.left_out[chat.INJECTED] += 1
        else:
            self.model = as_text(as_mapping(metadata.get("inference")).get("resolvedModel"))
            outcome.parts = [part for block in blocks for part in self._iter_parts(role == "user", block, outcome)]
        words = [[part.type, part.text, part.metadata.get("tool_use_id", "")] for part in outcome.parts]
        outcome.source_id = content_id(self.session.session_id, self.session.thread, record.get("created"), role, words)
        return outcome

    def _iter_parts(self, user: bool, block: Mapping[str, object], outcome: Outcome) -> Iterator[Part]:
        kind, call = as_text(block.get("type")), as_text(block.get("id"))
        if kind == "toolRequest":
            tool_call = as_mapping(block.get("toolCall"))
            value = as_mapping(tool_call.get("value"))
            error = as_text(tool_call.get("error"))
            arguments = value.get("arguments") or ({"error": error} if error else {})
            yield self.make_call(as_text(value.get("name")), arguments, call)
        elif kind == "toolResponse":
            result = as_mapping(block.get("toolResult"))
            result_value = result.get("value")
            failed = result.get("status") == "error" or as_mapping(result_value).get("isError") is True
            content = result_value.get("content") if isinstance(result_value, Mapping) else result_value
            error_text = words_within(result.get("error"))
            texts = [chat.words_of_block(inner) for inner in as_blocks(error_text if content is None else content)]
            ended = _EXIT_CODE.search(texts[-1]) if texts and failed else None
            yield self.make_result(texts, call, error=failed, exit_status=ended[1] if ended else "")
        elif kind in ("thinking", "redactedThinking", "reasoning"):
            yield self.make_thought(words_within(block.get("thinking")) or words_within(block.get("text")))
        elif kind == "error":
            yield note_part(words_within(block.get("message")), record="api error")
        elif kind in _CLIENT:
            outcome.left_out["written by the client"] += 1
        elif user and (text := chat.text_of(block)):
            yield self.make_prompt(text)
        else:
            yield from chat.read_block(block, Role.ASSISTANT)
