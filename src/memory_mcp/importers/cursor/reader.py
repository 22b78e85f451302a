"""Importer of Cursor's databases and agent transcripts.

Its maker documents none of it. The databases (`state.vscdb`: conversations in the table cursorDiskKV under
composerData: and bubbleId:, lists of them in ItemTable and composerHeaders) are known from descriptions and open readers
of clients 0.43 to 3.20 (composerData of versions 1 to 18, bubbles of version 3), which agree in what is read here; the
transcripts (~/.cursor/projects/*/agent-transcripts) from those of 2026 and a sample of another project's.
"""

import sqlite3
from collections.abc import Iterator
from pathlib import Path

from memory_mcp.importers.base import ImportReport, ReadStep
from memory_mcp.importers.blocks import as_mapping
from memory_mcp.importers.cursor.conversations import AGENT, Conversations
from memory_mcp.importers.cursor.store import CHATS, KINDS, Store, open_store
from memory_mcp.importers.cursor.transcripts import FOLDER, Transcripts
from memory_mcp.importers.cursor.workspaces import DATABASE, user_folder
from memory_mcp.importers.database import MAGIC, DatabaseImporter, report_unread
from memory_mcp.importers.json_records import first_values
from memory_mcp.importers.parts import Tally
from memory_mcp.importers.settings import IngestSettings


class CursorImporter(DatabaseImporter):
    """Reads the conversations of Cursor's editor and agents."""

    name = AGENT
    title = "Cursor"
    endings = (DATABASE, ".jsonl")

    def __init__(self, settings: IngestSettings) -> None:
        super().__init__(settings)
        self._transcripts = Transcripts(user_folder(), settings.include_thinking)

    def default_paths(self) -> tuple[Path, ...]:
        user = user_folder()
        return (user / "globalStorage", user / "workspaceStorage", Path.home() / ".cursor" / "projects")

    def wants_file(self, file: Path) -> bool:
        return file.suffix != ".jsonl" or FOLDER in file.absolute().parts

    def recognises_file(self, file: Path, beginning: bytes) -> bool:
        """Return whether a file is Cursor's.

        Its database names the table in its first page, or has keys of conversations near its beginning; lines of a transcript
        have only a role and a message.
        """
        if beginning.startswith(MAGIC):
            return any(name.encode() in beginning for name in (CHATS, *(f"{kind}:" for kind in KINDS)))
        if file.suffix != ".jsonl":
            return False
        values = [v for v in first_values(beginning) if "role" in v]
        return bool(values) and all(set(v) <= {"role", "message"} and as_mapping(v.get("message")) for v in values)

    def read_file(self, file: Path, offset: int, report: ImportReport) -> Iterator[ReadStep]:
        """Yield steps with the drafts of what is new.

        Of a database the offset is the highest row that was read, of a transcript its bytes.
        """
        tally = Tally(report, file)
        if file.suffix == ".jsonl":
            yield from self._transcripts.read_records(file, offset, tally)
            return
        with open_store(file) as store:
            yield from Conversations(file, tally, self._settings.include_thinking).read_changes(store, offset)
            report_unread(store.unread_tables(), report, file)

    def read_tables(self, con: sqlite3.Connection) -> set[str]:
        return Store(con).read_tables()
