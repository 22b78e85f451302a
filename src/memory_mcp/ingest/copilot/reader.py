"""Importer of Copilot CLI's session files."""

import os
from collections.abc import Iterator
from pathlib import Path

from memory_mcp.ingest.base import ClientImporter, Growth, ImportReport, Read
from memory_mcp.ingest.claude_code.blocks import as_text
from memory_mcp.ingest.claude_code.reader import OWN_SESSION
from memory_mcp.ingest.copilot.events import AGENT, CopilotReading
from memory_mcp.ingest.copilot.history import messages_of
from memory_mcp.ingest.files import find_files
from memory_mcp.ingest.growing import Given, count, read_growing
from memory_mcp.ingest.lines import first_values, iter_records
from memory_mcp.ingest.parts import as_plain
from memory_mcp.model.sentinel import opens_own_session

#: Where older versions kept one JSON object a session.
_OLDER = "history-session-state"
#: `session-state/<id>/events.jsonl`
_EVENTS = "events.jsonl"
_QUOTED = 1024


class CopilotImporter(ClientImporter):
    """Reads the sessions of every version of Copilot CLI."""

    name = AGENT
    title = "Copilot CLI"
    #: Older sessions, one JSON object each (`.json`), are read from their start at any offset.
    growth = Growth.APPENDED

    def default_paths(self) -> tuple[Path, ...]:
        """Return the folders of newer and older versions in $COPILOT_HOME, else in ~/.copilot; existing or not."""
        home = Path(os.environ.get("COPILOT_HOME") or Path.home() / ".copilot")
        return (home / "session-state", home / _OLDER)

    def files(self, path: Path) -> Iterator[Path]:
        """Return the sessions below `path` in a fixed order, or `path` itself; raises SourceUnreadable without such a path.

        Of `.json` files only those in the folder of older sessions.
        """
        found = find_files(path, (".jsonl", ".json"))
        return (f for f in found if f.suffix != ".json" or _OLDER in f.parts) if path.is_dir() else found

    def recognises(self, file: Path, beginning: bytes) -> bool:
        """Return whether a file is a session: an older one's object with messages, or events of this client."""
        if file.suffix == ".json":
            return b'"chatMessages"' in beginning and b'"sessionId"' in beginning
        return file.suffix == ".jsonl" and any(map(_is_own, first_values(beginning)))

    def read(self, file: Path, offset: int, report: ImportReport) -> Iterator[Read]:
        """Return the steps of the records behind the byte offset: the drafts of each, and the offset to go on from.

        Of an older session (`.json`) those of all messages, from its start. Records without an event are counted in
        `report` with the reason. Raises OSError when the file cannot be read.
        """
        name = file.parent.name if file.name == _EVENTS else file.stem
        reading = CopilotReading(name, self._settings.include_thinking)
        return _history(reading, file, report) if file.suffix == ".json" else read_growing(reading, file, offset, report)


def _history(reading: CopilotReading, file: Path, report: ImportReport) -> Iterator[Read]:
    """Yield a step for each message of older sessions: its drafts.

    Those of a session of our own summarizer are skipped and counted, as is what cannot be read. Raises OSError when the
    file cannot be read.
    """
    for record in iter_records(file):
        if record.error or not isinstance(record.value.get("chatMessages"), list):
            given = Given(reason=record.error) if record.error else reading.give(record.value)
            yield Read(count(reading, given, report, file, record.line, record.quote), record.offset)
            continue
        for message, given in messages_of(record.value, reading):
            told = Given(reason=OWN_SESSION) if opens_own_session(reading.prompt) else given
            drafts = count(reading, told, report, file, record.line, as_plain(message)[:_QUOTED])
            yield Read(drafts, record.offset)


def _is_own(value: dict[str, object]) -> bool:
    """Return whether a record is an event of this client: its kind has two words, and its content is apart."""
    return "." in as_text(value.get("type")) and isinstance(value.get("data"), dict) and {"id", "parentId"} <= value.keys()
