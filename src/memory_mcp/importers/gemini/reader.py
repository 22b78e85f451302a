"""Importer of Gemini CLI's session files."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import ClassVar

from memory_mcp.importers.base import OWN_SESSION, Growth, ImportReport, ReadStep
from memory_mcp.importers.beginnings import iter_beginnings
from memory_mcp.importers.client_importer import ClientImporter
from memory_mcp.importers.gemini.records import GeminiReader
from memory_mcp.importers.json_records import first_values, iter_records
from memory_mcp.importers.session_reader import ParsedRecord, count_record, read_appended, read_records
from memory_mcp.model.sentinel import opens_own_session

AGENT = "gemini"
LOG = "logs.json"


class GeminiImporter(ClientImporter):
    """Reads Gemini CLI's sessions and its older log of prompts."""

    name = AGENT
    title = "Gemini CLI"
    home_variables: ClassVar[tuple[str, ...]] = ("GEMINI_CLI_HOME",)
    folders: ClassVar[tuple[str, ...]] = (".gemini/tmp",)
    #: Sessions written as a whole (`.json`) are read from their start at any offset: their beginning changes with them.
    growth = Growth.APPENDED
    endings = (".jsonl", ".json")

    def wants_file(self, file: Path) -> bool:
        """Return whether a file is read: of `.json` files only sessions.

        One that cannot be opened counts as a session, so that reading it reports why, but not as a log of prompts.
        """
        if file.suffix != ".json":
            return True
        try:
            return any(is_session(file, beginning) for beginning in iter_beginnings(file))
        except OSError:
            return file.name != LOG

    def recognises_file(self, file: Path, beginning: bytes) -> bool:
        return is_session(file, beginning)

    def read_file(self, file: Path, offset: int, report: ImportReport) -> Iterator[ReadStep]:
        """Yield a step for each record.

        A session written as one object is read from its start.
        """
        return read_session(GeminiReader(file, AGENT, self._settings.include_thinking), file, offset, report)


def is_session(file: Path, beginning: bytes) -> bool:
    """Return whether a file is a session or log of prompts."""
    if file.name == LOG:
        return any({"sessionId", "messageId", "message"} <= value.keys() for value in first_values(beginning))
    if file.suffix == ".json":
        # One object, of which the beginning is only a part.
        return all(word in beginning for word in (b'"sessionId"', b'"messages"')) and (
            b'"projectHash"' in beginning or b'"startTime"' in beginning
        )
    return file.suffix == ".jsonl" and any(map(_is_own, first_values(beginning)))


def read_session(reader: GeminiReader, file: Path, offset: int, report: ImportReport) -> Iterator[ReadStep]:
    """Yield a step for each record of a session in any form.

    Lines are read after `offset`; a session written as one object is always read from its start, message by message. Raises
    OSError when the file cannot be read.
    """
    if file.suffix != ".json" or file.name == LOG:
        yield from read_appended(reader, file, offset, report)
        return
    for record in iter_records(file):
        reader.learn_from(record.value)
        messages = record.value.get("messages")
        if record.error or not isinstance(messages, list):
            yield from read_records(reader, file, (record,), report)
            continue
        is_own = opens_own_session(reader.first_prompt)
        for message in messages:
            fields = message if isinstance(message, dict) else {}
            parsed_record = (
                ParsedRecord(skip_reason=OWN_SESSION)
                if is_own
                else reader.separate_prompts(reader.convert_message(fields), fields)
            )
            yield ReadStep(count_record(reader, parsed_record, report, file, record.line, message), record.offset)


def _is_own(value: Mapping[str, object]) -> bool:
    if "sessionId" in value and ("projectHash" in value or {"startTime", "lastUpdated"} <= value.keys()):
        return "message" not in value
    return (value.get("type") == "gemini" and "timestamp" in value) or isinstance(value.get("$set"), dict)
