"""Claude Code's session files in, reads of event drafts out."""

from collections.abc import Iterator
from pathlib import Path

from memory_mcp.ingest.base import ImportReport, Read
from memory_mcp.ingest.claude_code.records import AGENT, convert
from memory_mcp.ingest.claude_code.state import State
from memory_mcp.ingest.files import find_files
from memory_mcp.ingest.lines import iter_records
from memory_mcp.ingest.settings import IngestSettings

#: Why the records of a session that our summarizer had give nothing.
OWN_SESSION = "the summarizer's own session"


class ClaudeCodeImporter:
    """Reads the transcripts of every version of Claude Code."""

    name = AGENT

    def __init__(self, settings: IngestSettings) -> None:
        self._settings = settings

    def default_path(self) -> Path | None:
        """Where the client keeps its sessions."""
        return Path.home() / ".claude" / "projects"

    def files(self, path: Path) -> Iterator[Path]:
        """See `Importer`."""
        return find_files(path, (".jsonl",))

    def read(self, file: Path, offset: int, report: ImportReport) -> Iterator[Read]:
        """See `Importer`."""
        state = State(file)
        state.recover(offset)
        for record in iter_records(file, offset):
            report.lines += 1
            if state.is_own:
                report.skip(OWN_SESSION, file, record.line, record.quote)
                yield Read((), record.offset)
                continue
            if record.error:
                report.skip(record.error, file, record.line, record.quote)
                yield Read((), record.offset)
                continue
            outcome = convert(record.value, state, self._settings.include_thinking)
            if outcome.drafts:
                report.lines_used += 1
                report.left_out.update(+outcome.left_out)
            else:
                report.skip(outcome.reason, file, record.line, record.quote)
            yield Read(tuple(outcome.drafts), record.offset)
