"""Importer of opencode's messages: rows of a database, or, with older versions, a file for each message and each part.

Layouts of files, below `storage` or, with the oldest, below `storage/session`:
`message/<session>/<message>.json` with `part/<message>/*.json` and `session/<project>/<session>.json`;
`message/<session>/<message>.json` with `part/<session>/<message>/*.json` and `info/<session>.json`.
"""

import json
import re
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from memory_mcp.base import foreign_files
from memory_mcp.base.dataclass import dataclass
from memory_mcp.importers.base import OWN_SESSION, Growth, ImportReport, ReadStep
from memory_mcp.importers.blocks import as_mapping, as_text
from memory_mcp.importers.database import (
    MAGIC,
    DatabaseImporter,
    Table,
    find_unread,
    is_database,
    list_tables,
    open_database,
    report_unread,
    row_checksum,
)
from memory_mcp.importers.json_records import first_values, iter_records, parse_time
from memory_mcp.importers.marks import stamp_of
from memory_mcp.importers.opencode.messages import (
    AGENT,
    UNFINISHED,
    OpencodeReader,
    Parts,
    SessionInfo,
    is_finished,
    message_of,
    parts_of,
    prompt_of,
)
from memory_mcp.importers.session_reader import UNKNOWN, ParsedRecord, count_record
from memory_mcp.model.sentinel import opens_own_session

#: Generations of subagents that are followed.
_DEEPEST = 10
#: Longest file of a part or message that is read, bytes.
_LONGEST = 64 * 1024 * 1024
_PLAIN_NAME = re.compile(r"[\w-]{1,200}")
#: A message is final when another was written this long after it (milliseconds): another process may still add parts.
_SETTLED = 10_000
#: Bits of a table's last row in a position, and with those of what it holds.
_ROW_BITS, _MARK_BITS = 48, 80
_ROW = (1 << _ROW_BITS) - 1


@dataclass(frozen=True, slots=True)
class StoredMessage:
    """One message as a store has it."""

    id: str
    info: dict[str, object]
    parts: Parts
    session: SessionInfo
    #: Whether nothing more of it may come.
    is_finished: bool
    #: Where reading may continue after it.
    position: int
    #: Names of files of parts that break off: they may be whole later, and the message's own file is not written again then.
    broken_parts: Sequence[str] = ()


def iter_database(con: sqlite3.Connection, position: int, written: int) -> Iterator[StoredMessage]:
    """Yield the messages stored after a position of an open database.

    `written` is when the database was last written, UTC milliseconds. A position is, for each table of messages, its last row
    (48 bits) and what that holds (32 bits): a session that is carried in later with times of its own is new all the same, and
    so is another database. After an unfinished or quite new message it stays before that. Raises sqlite3.Error when the
    database cannot be read.
    """
    yield from _Database(con).iter_messages(position, written)


def message_file(file: Path) -> StoredMessage | None:
    """Return a message and its parts by its file; None if unreadable."""
    info = _load_object(file)
    if info is None or not as_text(info.get("role")):
        return None
    folder = _Folder(file)
    # A client that died leaves a message open; the next one says that nothing more will come.
    finished = is_finished(info) or file.name != max(folder.list_messages(), default=file.name)
    parts = folder.load_parts(file.stem)
    broken_parts = tuple(folder.broken_parts)
    return StoredMessage(file.stem, info, parts, folder.load_session(), finished, file.stat().st_size, broken_parts)


class _Database:
    def __init__(self, con: sqlite3.Connection) -> None:
        self._con = con
        self._sessions: dict[str, SessionInfo] = {}
        self._tables = find_tables(con)

    def iter_messages(self, position: int, written: int) -> Iterator[StoredMessage]:
        marks = [position >> (_MARK_BITS * n) & ((1 << _MARK_BITS) - 1) for n in range(len(self._tables.messages))]
        for number, table in enumerate(self._tables.messages):
            marks[number] = marks[number] if self._is_same(table, marks[number]) else 0
            is_settled = True
            for row, message in self._iter_table(table, marks[number] & _ROW):
                is_settled = is_settled and message.is_finished and message.created < written - _SETTLED
                marks[number] = row | row_checksum(message.id) << _ROW_BITS if is_settled else marks[number]
                next_position = sum(mark << (_MARK_BITS * n) for n, mark in enumerate(marks))
                parts = self._load_parts(table, message) if message.is_finished else []
                whose = self._load_session(table, message.session)
                yield StoredMessage(message.id, message.info, parts, whose, message.is_finished, next_position)

    def _is_same(self, table: Table, mark: int) -> bool:
        """Return whether the last row still holds the message read last."""
        sql = f"SELECT {table.column_sql('id')} FROM {table.sql} WHERE rowid = ?"
        stored = self._con.execute(sql, (mark & _ROW,)).fetchone()
        return stored is not None and row_checksum(as_text(stored[0])) == mark >> _ROW_BITS

    def _iter_table(self, table: Table, after: int) -> Iterator[tuple[int, "_MessageRow"]]:
        columns = [table.column_sql(name) for name in ("id", "session_id", "type", "time_created", "data")]
        sql = f"SELECT rowid, {', '.join(columns)} FROM {table.sql} WHERE rowid > ? ORDER BY rowid"
        later = f"SELECT 1 FROM {table.sql} WHERE session_id = ? AND rowid > ? LIMIT 1"
        for row, key, session, kind, created, data in self._con.execute(sql, (after,)):
            info = _parse_object(data)
            time_ms = parse_time(created) or parse_time(as_mapping(info.get("time")).get("created")) or 0
            info = message_of(as_text(kind), info, time_ms) if _is_whole(table) else info
            finished = is_finished(info) or bool(self._con.execute(later, (session, row)).fetchone())
            yield row, _MessageRow(as_text(key), as_text(session), info, time_ms, finished)

    def _load_parts(self, table: Table, message: "_MessageRow") -> Parts:
        if _is_whole(table) or not self._tables.parts:
            return parts_of(message.id, message.info) if _is_whole(table) else []
        sql = f"SELECT id, data FROM {self._tables.parts[0].sql} WHERE message_id = ? ORDER BY id"
        return [(key, _parse_object(data)) for key, data in self._con.execute(sql, (message.id,))]

    def _load_session(self, table: Table, session: str) -> SessionInfo:
        if session not in self._sessions:
            parent, directory, version = self._session_row(session)
            root = _find_root(parent, lambda s: self._session_row(s)[0])
            first = (message for _, message in self._iter_first(table, session) if message.info.get("role") == "user")
            prompt = next((prompt_of(self._load_parts(table, message)) for message in first), "")
            self._sessions[session] = SessionInfo(session, root, directory, version, prompt, self._load_origin(session))
        return self._sessions[session]

    def _load_origin(self, session: str) -> str:
        for table in (table for table in self._tables.sessions if "project_id" in table.columns):
            for projects in self._tables.projects:
                sql = f"SELECT p.worktree FROM {table.sql} s JOIN {projects.sql} p ON p.id = s.project_id WHERE s.id = ?"
                if row := self._con.execute(sql, (session,)).fetchone():
                    return _main_tree(row[0])
        return ""

    def _iter_first(self, table: Table, session: str) -> Iterator[tuple[int, "_MessageRow"]]:
        sql = f"SELECT rowid FROM {table.sql} WHERE session_id = ? ORDER BY rowid LIMIT 20"
        for (row,) in self._con.execute(sql, (session,)).fetchall():
            yield next(self._iter_table(table, row - 1))

    def _session_row(self, session: str) -> tuple[str, str, str]:
        for table in self._tables.sessions:
            columns = ", ".join(table.column_sql(name) for name in ("parent_id", "directory", "version"))
            row = self._con.execute(f"SELECT {columns} FROM {table.sql} WHERE id = ?", (session,)).fetchone()
            if row:
                return as_text(row[0]), as_text(row[1]), as_text(row[2])
        return "", "", ""


@dataclass(frozen=True, slots=True)
class _MessageRow:
    id: str
    session: str
    info: dict[str, object]
    #: UTC milliseconds; 0 where neither row nor message states it.
    created: int
    is_finished: bool


@dataclass(frozen=True, slots=True)
class Tables:
    """Which tables hold what, by their columns: names change with versions."""

    messages: Sequence[Table]
    sessions: Sequence[Table]
    #: Tables of parts.
    parts: Sequence[Table]
    #: Tables of projects, with their main working trees.
    projects: Sequence[Table]

    @property
    def names(self) -> set[str]:
        """The names of all of them."""
        return {table.name for table in (*self.messages, *self.sessions, *self.parts, *self.projects)}


def find_tables(con: sqlite3.Connection) -> Tables:
    """Return which tables of a database hold what; raises sqlite3.Error."""
    tables = list_tables(con)
    parts = [table for table in tables if {"id", "message_id", "data"} <= table.columns]
    messages = [table for table in tables if {"id", "session_id", "data"} <= table.columns and "message_id" not in table.columns]
    sessions = [
        table
        for table in tables
        if "id" in table.columns
        and {"directory", "parent_id", "version", "slug"} & table.columns
        and "session_id" not in table.columns
    ]
    # Those with rows of parts first: the places of tables in a position stay as they are when a later version adds its own.
    messages.sort(key=lambda table: (_is_whole(table), table.name))
    projects = [table for table in tables if {"id", "worktree"} <= table.columns and table not in sessions]
    return Tables(messages, sessions, parts, projects)


def _is_whole(table: Table) -> bool:
    """Return whether rows are whole messages, as since OpenCode 2."""
    return "type" in table.columns


class _Folder:
    def __init__(self, file: Path) -> None:
        self._messages_folder = file.parent
        self._session = file.parent.name
        self._root = file.parent.parent.parent
        #: Names of files of parts that are no JSON.
        self.broken_parts: list[str] = []

    def list_messages(self) -> list[str]:
        return sorted(path.name for path in self._messages_folder.glob("*.json"))

    def load_parts(self, message: str) -> Parts:
        folder = self._root / "part" / message
        if not folder.is_dir():
            folder = self._root / "part" / self._session / message
        parts = []
        for path in sorted(folder.glob("*.json")):
            if (part := _load_object(path)) is not None:
                parts.append((path.stem, part))
            elif _is_broken_json(path):
                self.broken_parts.append(path.name)
        return parts

    def load_session(self) -> SessionInfo:
        info = self._load_info(self._session)
        first = next(
            (n for n in self.list_messages() if (_load_object(self._messages_folder / n) or {}).get("role") == "user"), ""
        )
        prompt = prompt_of(self.load_parts(Path(first).stem)) if first else ""
        root = _find_root(as_text(info.get("parentID")), lambda s: as_text(self._load_info(s).get("parentID")))
        project = as_text(info.get("projectID"))
        stored = _load_object(self._root / "project" / f"{project}.json") if _PLAIN_NAME.fullmatch(project) else None
        origin = _main_tree((stored or {}).get("worktree"))
        return SessionInfo(self._session, root, as_text(info.get("directory")), as_text(info.get("version")), prompt, origin)

    def _load_info(self, session: str) -> Mapping[str, object]:
        name = f"{session}.json"
        paths = (self._root / "info" / name, *(self._root / "session").glob(f"*/{name}")) if session else ()
        return next((info for path in paths if (info := _load_object(path)) is not None), {})


def _main_tree(worktree: object) -> str:
    return as_text(worktree) if as_text(worktree).strip("/\\") else ""


def _find_root(parent: str, parent_of: Callable[[str], str]) -> str:
    """Return the session at the top, through at most 10 further ones."""
    for _ in range(_DEEPEST):
        above = parent_of(parent) if parent else ""
        if not above:
            break
        parent = above
    return parent


def _parse_object(data: object) -> dict[str, object]:
    try:
        return dict(as_mapping(json.loads(as_text(data))))
    except (ValueError, RecursionError):
        return {}


def _load_object(path: Path) -> dict[str, object] | None:
    try:
        with foreign_files.open_file(path) as stream:
            value = json.loads(stream.read(_LONGEST))
    except (OSError, ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _is_broken_json(path: Path) -> bool:
    try:
        json.loads(foreign_files.read_file(path, _LONGEST))
    except RecursionError:
        return False
    except (OSError, ValueError):
        return True
    return False


#: Tables of a session with words that no one says.
_TASKS = frozenset({"todo"})


class OpencodeImporter(DatabaseImporter):
    """Reads the sessions of every version of opencode."""

    name = AGENT
    title = "opencode"
    home_variables, home, folders = ("XDG_DATA_HOME",), ".local/share", ("opencode",)
    endings = (".db", ".json")

    def wants_file(self, file: Path) -> bool:
        if file.suffix == ".db":
            return file.name.startswith("opencode")
        return file.suffix == ".json" and file.parent.parent.name == "message"

    def recognises_file(self, file: Path, beginning: bytes) -> bool:
        if not self.wants_file(file):
            return False
        if file.suffix == ".db":
            return beginning.startswith(MAGIC)
        return any({"id", "sessionID", "role"} <= value.keys() for value in first_values(beginning))

    def read_file(self, file: Path, offset: int, report: ImportReport) -> Iterator[ReadStep]:
        """Yield a step for each message.

        The offset in a database is that of `iter_database`; a message's file is read as a whole.
        """
        # Each message names its session.
        reader = OpencodeReader(AGENT, "", self._settings.include_thinking)
        if is_database(file):
            written = stamp_of(file, Growth.DATABASE)[1] // 1_000_000
            with open_database(file) as con:
                for number, stored in enumerate(iter_database(con, offset, written), 1):
                    yield _read_message(reader, stored, report, file, number)
                report_unread(find_unread(con, self.read_tables(con)), report, file)
        elif stored_message := message_file(file):
            yield _read_message(reader, stored_message, report, file, 1)
            if stored_message.broken_parts:
                # A failed file is read again at the next look.
                raise OSError(f"a part cannot be read: {', '.join(stored_message.broken_parts)}")
        else:
            for record in iter_records(file):
                parsed_record = ParsedRecord(skip_reason=record.error or UNKNOWN)
                yield ReadStep(count_record(reader, parsed_record, report, file, record.line, record.quote), record.offset)

    def read_tables(self, con: sqlite3.Connection) -> set[str]:
        return find_tables(con).names | _TASKS


def _read_message(reader: OpencodeReader, stored: StoredMessage, report: ImportReport, file: Path, number: int) -> ReadStep:
    if opens_own_session(stored.session.prompt):
        parsed_record = ParsedRecord(skip_reason=OWN_SESSION)
    elif not stored.is_finished:
        parsed_record = ParsedRecord(skip_reason=UNFINISHED)
    else:
        parsed_record = reader.convert_message(stored.info, stored.id, stored.parts, stored.session)
        parsed_record = reader.separate_prompts(parsed_record, stored.info)
    return ReadStep(count_record(reader, parsed_record, report, file, number, {"id": stored.id, **stored.info}), stored.position)
