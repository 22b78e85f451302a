"""Where opencode keeps its messages: rows of a database, or, with older versions, a file for each message and each part.

Layouts of files, below `storage` or, with the oldest, below `storage/session`:
`message/<session>/<message>.json` with `part/<message>/*.json` and `session/<project>/<session>.json`;
`message/<session>/<message>.json` with `part/<session>/<message>/*.json` and `info/<session>.json`.
"""

import json
import sqlite3
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from memory_mcp import foreign_files
from memory_mcp.ingest.claude_code.blocks import as_mapping, as_text
from memory_mcp.ingest.opencode.messages import Parts, Whose, is_finished, prompt_of

HEADER = b"SQLite format 3\0"
#: Generations of subagents that are followed.
_DEEPEST = 10
#: Longest file of a part or message that is read, bytes.
_LONGEST = 64 * 1024 * 1024
#: A message is final when another was written this long after it (milliseconds): another process may still add parts.
_SETTLED = 10_000
_MESSAGES = "SELECT id, session_id, time_created, data FROM message WHERE time_created > ? ORDER BY time_created, id"
_LATER = "SELECT 1 FROM message WHERE session_id = ? AND time_created > ? LIMIT 1"
_PARTS = "SELECT id, data FROM part WHERE message_id = ? ORDER BY id"
_SESSION = "SELECT parent_id, directory, version FROM session WHERE id = ?"
_FIRST = "SELECT id, data FROM message WHERE session_id = ? ORDER BY time_created, id LIMIT 20"


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
    """Yield the messages created behind a position (UTC milliseconds) of a database last written at `written`.

    A position behind an unfinished or quite new message stays before it. Raises OSError when it cannot be read.
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
    def __init__(self, con: sqlite3.Connection) -> None:
        """Read from an open connection, which the caller closes."""
        self._con = con
        self._known: dict[str, Whose] = {}

    def messages(self, position: int, written: int) -> Iterator[Stored]:
        """Yield the messages created behind a position (UTC milliseconds), in order, each with where reading may go on.

        That stays before the first message that is not finished or was created in the last 10 s before `written`.
        """
        passed = True
        for key, session, created, data in self._con.execute(_MESSAGES, (position,)):
            info = _parsed(data)
            finished = is_finished(info) or bool(self._con.execute(_LATER, (session, created)).fetchone())
            passed = passed and finished and created < written - _SETTLED
            # One that was created with it is read again as well.
            position = created if passed else min(position, created - 1)
            parts = self._parts(key) if finished else []
            if session not in self._known:
                parent, directory, version = self._session(session)
                root = _root(parent, lambda s: self._session(s)[0])
                # The prompt is known if it is among the first 20 messages.
                first = (k for k, told in self._con.execute(_FIRST, (session,)) if _parsed(told).get("role") == "user")
                prompt = next((prompt_of(self._parts(k)) for k in first), "")
                self._known[session] = Whose(session, root, directory, version, prompt)
            yield Stored(key, info, parts, self._known[session], finished, position)

    def _parts(self, message: str) -> Parts:
        """Return a message's parts in their order."""
        return [(key, _parsed(data)) for key, data in self._con.execute(_PARTS, (message,))]

    def _session(self, session: str) -> tuple[str, str, str]:
        """Return (parent, directory, version) of a session; "" for what is not stored."""
        row = self._con.execute(_SESSION, (session,)).fetchone() or ("", "", "")
        return as_text(row[0]), as_text(row[1]), as_text(row[2])


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
        return Whose(self._session, root, as_text(info.get("directory")), as_text(info.get("version")), prompt)

    def _info(self, session: str) -> Mapping[str, object]:
        """Return the object that is stored of a session; {} for none, one that cannot be read, and the session ""."""
        name = f"{session}.json"
        places = (self._root / "info" / name, *(self._root / "session").glob(f"*/{name}")) if session else ()
        return next((info for place in places if (info := _object(place)) is not None), {})


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
