"""Importer of opencode's database and message files."""

import os
from collections.abc import Iterator
from pathlib import Path

from memory_mcp import foreign_files
from memory_mcp.ingest.base import Growth, ImportReport, Read
from memory_mcp.ingest.claude_code.reader import OWN_SESSION
from memory_mcp.ingest.files import ClientImporter
from memory_mcp.ingest.growing import UNKNOWN, Given, count
from memory_mcp.ingest.lines import first_values, iter_records
from memory_mcp.ingest.marks import stamp_of
from memory_mcp.ingest.opencode.messages import AGENT, UNFINISHED, OpencodeReading
from memory_mcp.ingest.opencode.stores import HEADER, Stored, iter_database, message_file, unknown_tables
from memory_mcp.model.sentinel import opens_own_session


class OpencodeImporter(ClientImporter):
    """Reads the sessions of every version of opencode."""

    name = AGENT
    title = "opencode"
    #: A database, or a file for each message, which is read as a whole whenever it was written.
    growth = Growth.DATABASE
    endings = (".db", ".json")

    def default_paths(self) -> tuple[Path, ...]:
        """Return the folder opencode in $XDG_DATA_HOME, else in ~/.local/share; existing or not."""
        data = os.environ.get("XDG_DATA_HOME")
        return ((Path(data) if data else Path.home() / ".local" / "share") / "opencode",)

    def wants(self, file: Path) -> bool:
        """Return whether a file has a database's name (opencode*.db) or a message's place (message/<session>/*.json)."""
        if file.suffix == ".db":
            return file.name.startswith("opencode")
        return file.suffix == ".json" and file.parent.parent.name == "message"

    def recognises(self, file: Path, beginning: bytes) -> bool:
        """Return whether a file is opencode's: a database of its name, or a message by its place and fields."""
        if not self.wants(file):
            return False
        if file.suffix == ".db":
            return beginning.startswith(HEADER)
        return any({"id", "sessionID", "role"} <= value.keys() for value in first_values(beginning))

    def read(self, file: Path, offset: int, report: ImportReport) -> Iterator[Read]:
        """Yield a step for each message: its drafts, and where to go on.

        The offset in a database is that of `iter_database`; a message's file is read as a whole. Tables that seem to hold a
        conversation in a form that is not known are named in the report.
        Unfinished messages and others without an event are counted in `report`. Raises OSError when the file cannot be
        read.
        """
        # Each message names its session.
        reading = OpencodeReading(AGENT, "", self._settings.include_thinking)
        with foreign_files.open_file(file) as stream:
            is_database = stream.read(len(HEADER)) == HEADER
        if is_database:
            written = stamp_of(file, Growth.DATABASE)[1] // 1_000_000
            for number, stored in enumerate(iter_database(file, offset, written), 1):
                yield _read(reading, stored, report, file, number)
            for name in unknown_tables(file):
                report.lines += 1
                report.skip(f"unknown table {name}", file, 0, name)
        elif stored_message := message_file(file):
            yield _read(reading, stored_message, report, file, 1)
        else:
            for record in iter_records(file):
                given = Given(reason=record.error or UNKNOWN)
                yield Read(count(reading, given, report, file, record.line, record.quote), record.offset)


def _read(reading: OpencodeReading, stored: Stored, report: ImportReport, file: Path, number: int) -> Read:
    """Return what a stored message gives, counted; nothing of our own summarizer's sessions and of unfinished messages."""
    if opens_own_session(stored.whose.prompt):
        given = Given(reason=OWN_SESSION)
    elif not stored.finished:
        given = Given(reason=UNFINISHED)
    else:
        given = reading.message(stored.info, stored.id, stored.parts, stored.whose)
        given = reading.separate(given, stored.info)
    return Read(count(reading, given, report, file, number, {"id": stored.id, **stored.info}), stored.position)
