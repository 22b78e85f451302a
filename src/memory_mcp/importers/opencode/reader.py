"""Importer of opencode's database and message files."""

import sqlite3
from collections.abc import Iterator
from pathlib import Path

from memory_mcp.importers.base import OWN_SESSION, Growth, ImportReport, ReadStep
from memory_mcp.importers.database import MAGIC, DatabaseImporter, find_unread, is_database, open_database, report_unread
from memory_mcp.importers.json_records import first_values, iter_records
from memory_mcp.importers.marks import stamp_of
from memory_mcp.importers.opencode.messages import AGENT, UNFINISHED, OpencodeReader
from memory_mcp.importers.opencode.stores import StoredMessage, find_tables, iter_database, message_file
from memory_mcp.importers.session_reader import UNKNOWN, ParsedRecord, count_record
from memory_mcp.model.sentinel import opens_own_session

#: Tables of a session with words that no one says.
_TASKS = frozenset({"todo"})


class OpencodeImporter(DatabaseImporter):
    """Reads the sessions of every version of opencode."""

    name = AGENT
    title = "opencode"
    home_variables, home, folders = ("XDG_DATA_HOME",), ".local/share", ("opencode",)
    endings = (".db", ".json")

    def wants_file(self, file: Path) -> bool:
        """Return whether a file is named or placed as opencode's."""
        if file.suffix == ".db":
            return file.name.startswith("opencode")
        return file.suffix == ".json" and file.parent.parent.name == "message"

    def recognises_file(self, file: Path, beginning: bytes) -> bool:
        """Return whether a file is opencode's database or message."""
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
        """Return the tables that are read, and lists of tasks."""
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
