"""Importer of Copilot CLI's session files."""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from memory_mcp.ingest.base import ImportReport, ReadStep
from memory_mcp.ingest.claude_code.blocks import as_text
from memory_mcp.ingest.claude_code.reader import OWN_SESSION
from memory_mcp.ingest.copilot.events import AGENT, CopilotReader
from memory_mcp.ingest.copilot.history import iter_messages
from memory_mcp.ingest.growing import GrowingImporter, ParsedRecord, count_record, read_records
from memory_mcp.ingest.lines import iter_records
from memory_mcp.model.sentinel import opens_own_session

#: Where older versions kept one JSON object a session.
_OLDER = "history-session-state"
#: `session-state/<id>/events.jsonl`
_EVENTS = "events.jsonl"


class CopilotImporter(GrowingImporter):
    """Reads the sessions of every version of Copilot CLI."""

    name = AGENT
    title = "Copilot CLI"
    #: Older sessions are one JSON object each (`.json`), and read from their start at any offset.
    endings = (".jsonl", ".json")

    def default_paths(self) -> tuple[Path, ...]:
        """Return the folders of newer and older versions in $COPILOT_HOME, else in ~/.copilot; existing or not."""
        home = Path(os.environ.get("COPILOT_HOME") or Path.home() / ".copilot")
        return (home / "session-state", home / _OLDER)

    def wants_file(self, file: Path) -> bool:
        """Return whether a file below a folder is read: of `.json` files only those in the folder of older sessions."""
        return file.suffix != ".json" or _OLDER in file.parts

    def recognises_file(self, file: Path, beginning: bytes) -> bool:
        """Return whether a file is a session: an older one's object with messages, or events of this client."""
        if file.suffix == ".json":
            return b'"chatMessages"' in beginning and b'"sessionId"' in beginning
        return super().recognises_file(file, beginning)

    @staticmethod
    def is_own_record(value: Mapping[str, object]) -> bool:
        """Return whether a record is an event of this client: its kind has two words, and its content is apart."""
        return "." in as_text(value.get("type")) and isinstance(value.get("data"), dict) and {"id", "parentId"} <= value.keys()

    def make_reader(self, file: Path) -> CopilotReader:
        """Return the state with which the reading of a session begins."""
        name = file.parent.name if file.name == _EVENTS else file.stem
        return CopilotReader(AGENT, name, self._settings.include_thinking)

    def read_file(self, file: Path, offset: int, report: ImportReport) -> Iterator[ReadStep]:
        """Yield the steps of the records behind the byte offset, of an older session (`.json`) one for each of all messages.

        Messages of a session of our own summarizer, and what cannot be read, are skipped and counted. Raises OSError when
        the file cannot be read.
        """
        if file.suffix != ".json":
            yield from super().read_file(file, offset, report)
            return
        reading = self.make_reader(file)
        for record in iter_records(file):
            if record.error or not isinstance(record.value.get("chatMessages"), list):
                yield from read_records(reading, file, (record,), report)
                continue
            for message, message_record in iter_messages(record.value, reading):
                parsed_record = (
                    ParsedRecord(skip_reason=OWN_SESSION)
                    if opens_own_session(reading.prompt)
                    else reading.separate_prompts(message_record, message)
                )
                yield ReadStep(count_record(reading, parsed_record, report, file, record.line, message), record.offset)
