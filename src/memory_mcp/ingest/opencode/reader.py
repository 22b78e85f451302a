"""Importer of opencode's database and message files."""

import os
import sqlite3
from collections.abc import Iterator
from pathlib import Path

from memory_mcp.ingest.base import Growth, ImportReport, ReadStep
from memory_mcp.ingest.claude_code.reader import OWN_SESSION
from memory_mcp.ingest.database import MAGIC, DatabaseImporter, find_unread, is_database, open_database, report_unread
from memory_mcp.ingest.json_records import first_values, iter_records
from memory_mcp.ingest.marks import stamp_of
from memory_mcp.ingest.opencode.messages import AGENT, UNFINISHED, OpencodeReader
from memory_mcp.ingest.opencode.stores import StoredMessage, find_tables, iter_database, message_file
from memory_mcp.ingest.session_reader import UNKNOWN, ParsedRecord, count_record
from memory_mcp.model.sentinel import opens_own_session

#: Tables of a session with words that nobody says.
_TASKS = frozenset({"todo"})


class OpencodeImporter(DatabaseImporter):
    """Reads the sessions of every version of opencode."""

    name = AGENT
    title = "opencode"
    endings = (".db", ".json")

    def default_paths(self) -> tuple[Path, ...]:
        """Return the folder opencode in $XDG_DATA_HOME, else in ~/.local/share; existing or not."""
        data = os.environ.get("XDG_DATA_HOME")
        return ((Path(data) if data else Path.home() / ".local" / "share") / "opencode",)

    def wants_file(self, file: Path) -> bool:
        """Return whether a file has a database's name (opencode*.db) or a message's place (message/<session>/*.json)."""
        if file.suffix == ".db":
            return file.name.startswith("opencode")
        return file.suffix == ".json" and file.parent.parent.name == "message"

    def recognises_file(self, file: Path, beginning: bytes) -> bool:
        """Return whether a file is opencode's: a database of its name, or a message by its place and fields."""
        if not self.wants_file(file):
            return False
        if file.suffix == ".db":
            return beginning.startswith(MAGIC)
        return any({"id", "sessionID", "role"} <= value.keys() for value in first_values(beginning))

    def read_file(self, file: Path, offset: int, report: ImportReport) -> Iterator[ReadStep]:
        """Yield a step for each message: its drafts, and where to go on.

        The offset in a database is that of `iter_database`; a message's file is read as a whole. Tables that seem to hold a
        conversation in a form that is not known are named in the report.
        Unfinished messages and others without an event are counted in `report`. Raises OSError when the file cannot be
        read.
        """
        # Each message names its session.
        reading = OpencodeReader(AGENT, "", self._settings.include_thinking)
        if is_database(file):
            written = stamp_of(file, Growth.DATABASE)[1] // 1_000_000
            with open_database(file) as con:
                for number, stored in enumerate(iter_database(con, offset, written), 1):
                    yield _read_message(reading, stored, report, file, number)
                report_unread(find_unread(con, self.read_tables(con)), report, file)
        elif stored_message := message_file(file):
            yield _read_message(reading, stored_message, report, file, 1)
            if stored_message.broken_parts:
                # A failed file is read again at the next look.
                raise OSError(f"a part cannot be read: {', '.join(stored_message.broken_parts)}")
        else:
            for record in iter_records(file):
                parsed_record = ParsedRecord(skip_reason=record.error or UNKNOWN)
                yield ReadStep(count_record(reading, parsed_record, report, file, record.line, record.quote), record.offset)

    def read_tables(self, con: sqlite3.Connection) -> set[str]:
        """Return the names of the tables of messages, parts and sessions, and of lists of tasks."""
        return find_tables(con).names | _TASKS


def _read_message(reading: OpencodeReader, stored: StoredMessage, report: ImportReport, file: Path, number: int) -> ReadStep:
    """Return what a stored message gives, counted; nothing of our own summarizer's sessions and of unfinished messages."""
    if opens_own_session(stored.session.prompt):
        parsed_record = ParsedRecord(skip_reason=OWN_SESSION)
    elif not stored.is_finished:
        parsed_record = ParsedRecord(skip_reason=UNFINISHED)
    else:
        parsed_record = reading.convert_message(stored.info, stored.id, stored.parts, stored.session)
        parsed_record = reading.separate_prompts(parsed_record, stored.info)
    return ReadStep(count_record(reading, parsed_record, report, file, number, {"id": stored.id, **stored.info}), stored.position)
