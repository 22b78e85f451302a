"""Where opencode keeps its messages: rows of a database, or, with older versions, a file for each message and each part.

Layouts of files, below `storage` or, with the oldest, below `storage/session`:
`message/<session>/<message>.json` with `part/<message>/*.json` and `session/<project>/<session>.json`;
`message/<session>/<message>.json` with `part/<session>/<message>/*.json` and `info/<session>.json`.
"""

import json
import re
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from memory_mcp import foreign_files
from memory_mcp.ingest.claude_code.blocks import as_mapping, as_text
from memory_mcp.ingest.opencode.messages import Parts, Whose, is_finished, message_of, parts_of, prompt_of
from memory_mcp.ingest.times import parse_time

HEADER = b"SQLite format 3\0"
#: Generations of subagents that are followed.
_DEEPEST = 10
#: Longest file of a part or message that is read, bytes.
_LONGEST = 64 * 1024 * 1024
_PLAIN_NAME = re.compile(r"[\w-]{1,200}")
#: A message is final when another was written this long after it (milliseconds): another process may still add parts.
_SETTLED = 10_000
#: Bits of a table's last row in a position.
_ROW_BITS = 48


@dataclass(frozen=True, slots=True)
class Stored:
    """One message as a store has it."""

    id: str
    info: dict[str, object]
    parts: Parts
    whose: Whose
    #: Whether nothing more of it may come.
    finished: bool
    #: Where reading may go on behind it.
    position: int


def iter_database(file: Path, position: int, written: int) -> Iterator[Stored]:
    """Yield the messages stored behind a position of a database that was last written at `written` (UTC milliseconds).

    A position is the last row of each table of messages, 48 bits each: a session that is carried in later with times of its own
    is new all the same. Behind an unfinished or quite new message it stays before that. Raises OSError when it cannot be read.
    """
    try:
        with closing(_connect(file)) as con:
            yield from _Database(con).messages(position, written)
    except sqlite3.Error as error:
        raise OSError(f"the database cannot be read: {error}") from None


def message_file(file: Path) -> Stored | None:
    """Return a message and its parts by its file; None when the file is no message or cannot be read."""
    info = _object(file)
    if info is None or not as_text(info.get("role")):
        return None
    folder = _Folder(file)
    # A client that died leaves a message open; the next one says that nothing more will come.
    finished = is_finished(info) or file.name != max(folder.messages(), default=file.name)
    return Stored(file.stem, info, folder.parts(file.stem), folder.whose(), finished, file.stat().st_size)


def _connect(file: Path) -> sqlite3.Connection:
    """Open a database for reading; without its journal where that cannot be opened, so that the newest changes may lack.

    Raises sqlite3.Error when it cannot be read.
    """
    address = file.absolute().as_uri()
    con = sqlite3.connect(f"{address}?mode=ro", uri=True)
    try:
        con.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchone()
    except sqlite3.OperationalError:
        # Its journal cannot be opened in a folder that cannot be written.
        con.close()
        con = sqlite3.connect(f"{address}?immutable=1", uri=True)
    con.text_factory = lambda raw: raw.decode("utf-8", "replace")
    return con


class _Database:
    """The messages of one database, in every table that holds some."""

    def __init__(self, con: sqlite3.Connection) -> None:
        """Read from an open connection, which the caller closes."""
        self._con = con
        self._known: dict[str, Whose] = {}
        self._tables = find_tables(con)

    def messages(self, position: int, written: int) -> Iterator[Stored]:
        """Yield the messages stored behind a position, each with where reading may go on; see `iter_database`."""
        rows = [position >> (_ROW_BITS * n) & ((1 << _ROW_BITS) - 1) for n in range(len(self._tables.messages))]
        for number, table in enumerate(self._tables.messages):
            # A database that was rewritten, or read by the time of its messages, has other numbers: all of it is read again.
            last = int(self._con.execute(f"SELECT coalesce(max(rowid), 0) FROM {_quoted(table.name)}").fetchone()[0])
            rows[number] = rows[number] if rows[number] <= last else 0
            is_settled = True
            for row, message in self._of_table(table, rows[number]):
                is_settled = is_settled and message.finished and message.created < written - _SETTLED
                rows[number] = row if is_settled else rows[number]
                next_position = sum(last_row << (_ROW_BITS * n) for n, last_row in enumerate(rows))
                parts = self._parts(table, message) if message.finished else []
                yield Stored(
                    message.id, message.info, parts, self._whose(table, message.session), message.finished, next_position
                )

    def _of_table(self, table: "_MessageTable", after: int) -> Iterator[tuple[int, "_Message"]]:
        """Yield (row, message) of a table behind a row, in the order in which they were stored."""
        columns = [table.column(name) for name in ("id", "session_id", "type", "time_created", "data")]
        sql = f"SELECT rowid, {', '.join(columns)} FROM {_quoted(table.name)} WHERE rowid > ? ORDER BY rowid"
        later = f"SELECT 1 FROM {_quoted(table.name)} WHERE session_id = ? AND rowid > ? LIMIT 1"
        for row, key, session, kind, created, data in self._con.execute(sql, (after,)):
            info = _parsed(data)
            time_ms = parse_time(created) or parse_time(as_mapping(info.get("time")).get("created")) or 0
            info = message_of(as_text(kind), info, time_ms) if table.whole else info
            finished = is_finished(info) or bool(self._con.execute(later, (session, row)).fetchone())
            yield row, _Message(as_text(key), as_text(session), info, time_ms, finished)

    def _parts(self, table: "_MessageTable", message: "_Message") -> Parts:
        """Return a message's parts in their order."""
        if table.whole or not self._tables.parts:
            return parts_of(message.id, message.info) if table.whole else []
        sql = f"SELECT id, data FROM {_quoted(self._tables.parts)} WHERE message_id = ? ORDER BY id"
        return [(key, _parsed(data)) for key, data in self._con.execute(sql, (message.id,))]

    def _whose(self, table: "_MessageTable", session: str) -> Whose:
        """Return the session of a message, with its first prompt if that is among the first 20 messages."""
        if session not in self._known:
            parent, directory, version = self._session(session)
            root = _root(parent, lambda s: self._session(s)[0])
            first = (message for _, message in self._first(table, session) if message.info.get("role") == "user")
            prompt = next((prompt_of(self._parts(table, message)) for message in first), "")
            self._known[session] = Whose(session, root, directory, version, prompt, self._origin(session))
        return self._known[session]

    def _origin(self, session: str) -> str:
        """Return the main working tree of a session's project; "" for none, and for sessions outside of any repository."""
        for table in (one for one in self._tables.sessions if "project_id" in one.columns):
            for projects in self._tables.projects:
                joined = f"{_quoted(table.name)} s JOIN {_quoted(projects)} p ON p.id = s.project_id"
                sql = f"SELECT p.worktree FROM {joined} WHERE s.id = ?"
                if row := self._con.execute(sql, (session,)).fetchone():
                    return _main_tree(row[0])
        return ""

    def _first(self, table: "_MessageTable", session: str) -> Iterator[tuple[int, "_Message"]]:
        """Yield the first messages of a session, at most 20."""
        sql = f"SELECT rowid FROM {_quoted(table.name)} WHERE session_id = ? ORDER BY rowid LIMIT 20"
        for (row,) in self._con.execute(sql, (session,)).fetchall():
            yield next(self._of_table(table, row - 1))

    def _session(self, session: str) -> tuple[str, str, str]:
        """Return (parent, directory, version) of a session; "" for what is not stored."""
        for table in self._tables.sessions:
            columns = ", ".join(table.column(name) for name in ("parent_id", "directory", "version"))
            row = self._con.execute(f"SELECT {columns} FROM {_quoted(table.name)} WHERE id = ?", (session,)).fetchone()
            if row:
                return as_text(row[0]), as_text(row[1]), as_text(row[2])
        return "", "", ""


@dataclass(frozen=True, slots=True)
class _Message:
    """One row of messages."""

    id: str
    session: str
    info: dict[str, object]
    #: UTC milliseconds; 0 where neither row nor message states it.
    created: int
    finished: bool


@dataclass(frozen=True, slots=True)
class _MessageTable:
    """A table with its columns."""

    name: str
    columns: frozenset[str]

    @property
    def whole(self) -> bool:
        """Whether a row is a whole message with a type of its own, as since OpenCode 2; before, its parts were rows."""
        return "type" in self.columns

    def column(self, name: str) -> str:
        """Return a column for a query: NULL where the table has none of that name."""
        return name if name in self.columns else "NULL"


@dataclass(frozen=True, slots=True)
class Tables:
    """Which tables of a database hold what, by their columns: names change with versions."""

    messages: Sequence[_MessageTable]
    sessions: Sequence[_MessageTable]
    #: The table of parts; "" for none.
    parts: str
    #: Tables of projects, with their main working trees.
    projects: Sequence[str]
    #: Tables that seem to hold a conversation in a form that is not read.
    unknown: Sequence[str]


def find_tables(con: sqlite3.Connection) -> Tables:
    """Return which tables of an open database hold messages, parts and sessions; raises sqlite3.Error when it cannot be read."""
    tables = []
    for (name,) in con.execute(
        "SELECT name FROM sqlite_master WHERE type = 'table' AND sql NOT LIKE '%WITHOUT ROWID%' ORDER BY name"
    ):
        columns = frozenset(str(row[1]) for row in con.execute(f"PRAGMA table_info({_quoted(name)})"))
        tables.append(_MessageTable(name, columns))
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
    messages.sort(key=lambda table: (table.whole, table.name))
    known = {table.name for table in (*parts, *messages, *sessions)}
    unknown = [table.name for table in tables if table.name not in known and _is_talk(table.columns)]
    projects = [table.name for table in tables if {"id", "worktree"} <= table.columns and table not in sessions]
    return Tables(messages, sessions, parts[0].name if parts else "", projects, unknown)


def unknown_tables(file: Path) -> Sequence[str]:
    """Return the tables of a database that seem to hold a conversation and are not read; OSError when it cannot be read."""
    try:
        with closing(_connect(file)) as con:
            names = find_tables(con).unknown
            return [name for name in names if con.execute(f"SELECT 1 FROM {_quoted(name)} LIMIT 1").fetchone()]
    except sqlite3.Error as error:
        raise OSError(f"the database cannot be read: {error}") from None


def _is_talk(columns: frozenset[str]) -> bool:
    """Return whether columns name a session or message and hold words."""
    of_session = any(name.startswith(("session", "message", "conversation", "thread")) for name in columns)
    return of_session and bool({"data", "text", "content", "body", "role", "parts"} & columns)


def _quoted(name: str) -> str:
    """Return a name as an identifier of SQL."""
    return '"' + name.replace('"', '""') + '"'


class _Folder:
    def __init__(self, file: Path) -> None:
        """Take the folder of a message's file (message/<session>) as that of its session."""
        self._of = file.parent
        self._session = file.parent.name
        self._root = file.parent.parent.parent

    def messages(self) -> list[str]:
        """Return the names of the session's message files, in their order."""
        return sorted(path.name for path in self._of.glob("*.json"))

    def parts(self, message: str) -> Parts:
        """Return a message's parts, in their order; those that cannot be read are left out."""
        folder = self._root / "part" / message
        if not folder.is_dir():
            folder = self._root / "part" / self._session / message
        found = [(path.stem, _object(path)) for path in sorted(folder.glob("*.json"))]
        return [(key, part) for key, part in found if part is not None]

    def whose(self) -> Whose:
        """Return the session that the messages belong to, with its top session, directory, version and first prompt."""
        info = self._info(self._session)
        first = next((n for n in self.messages() if (_object(self._of / n) or {}).get("role") == "user"), "")
        prompt = prompt_of(self.parts(Path(first).stem)) if first else ""
        root = _root(as_text(info.get("parentID")), lambda s: as_text(self._info(s).get("parentID")))
        project = as_text(info.get("projectID"))
        stored = _object(self._root / "project" / f"{project}.json") if _PLAIN_NAME.fullmatch(project) else None
        origin = _main_tree((stored or {}).get("worktree"))
        return Whose(self._session, root, as_text(info.get("directory")), as_text(info.get("version")), prompt, origin)

    def _info(self, session: str) -> Mapping[str, object]:
        """Return the object that is stored of a session; {} for none, one that cannot be read, and the session ""."""
        name = f"{session}.json"
        places = (self._root / "info" / name, *(self._root / "session").glob(f"*/{name}")) if session else ()
        return next((info for place in places if (info := _object(place)) is not None), {})


def _main_tree(worktree: object) -> str:
    """Return a project's main working tree; "" for the root, which stands for no repository."""
    return as_text(worktree) if as_text(worktree).strip("/\\") else ""


def _root(parent: str, parent_of: Callable[[str], str]) -> str:
    """Return the session at the top above a parent, through at most 10 further ones; "" when there is no parent."""
    for _ in range(_DEEPEST):
        above = parent_of(parent) if parent else ""
        if not above:
            break
        parent = above
    return parent


def _parsed(data: object) -> dict[str, object]:
    """Return the object in a text of JSON; {} for anything else."""
    try:
        return dict(as_mapping(json.loads(as_text(data))))
    except (ValueError, RecursionError):
        return {}


def _object(path: Path) -> dict[str, object] | None:
    """Return the object in a file of at most 64 MB; None if there is none or it cannot be read."""
    try:
        with foreign_files.open_file(path) as stream:
            value = json.loads(stream.read(_LONGEST))
    except (OSError, ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None
