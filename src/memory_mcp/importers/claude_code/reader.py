"""Importer of Claude Code's session files."""

from collections.abc import Iterator, Mapping
from pathlib import Path

from memory_mcp.importers.base import OWN_SESSION, Growth, ImportReport, ReadStep
from memory_mcp.importers.blocks import as_text
from memory_mcp.importers.claude_code.records import AGENT, Outcome, convert_record
from memory_mcp.importers.claude_code.state import SessionState
from memory_mcp.importers.client_importer import ClientImporter
from memory_mcp.importers.json_records import first_values, iter_records

#: Keys that no other client's records have, and kinds that need no message.
_KEYS = frozenset({"isSidechain", "leafUuid", "isSnapshotUpdate"})
_KINDS = frozenset({"queue-operation", "file-history-snapshot"})


class ClaudeCodeImporter(ClientImporter):
    """Reads the transcripts of every version of Claude Code."""

    name = AGENT
    title = "Claude Code"
    home_variables, home, folders = ("CLAUDE_CONFIG_DIR",), ".claude", ("projects",)
    growth = Growth.APPENDED

    def recognises_file(self, file: Path, beginning: bytes) -> bool:
        return file.suffix == ".jsonl" and any(map(_is_own_record, first_values(beginning)))

    def read_file(self, file: Path, offset: int, report: ImportReport) -> Iterator[ReadStep]:
        """Yield a step for each record after the byte offset.

        A session of our own summarizer gives no drafts.
        """
        state = SessionState(file)
        state.recover_state(offset)
        for record in iter_records(file, offset):
            report.lines += 1
            outcome = Outcome(skip_reason=OWN_SESSION if state.is_own_session else record.error)
            if not outcome.skip_reason:
                outcome = convert_record(record.value, state, self._settings.include_thinking)
            if outcome.drafts:
                report.lines_used += 1
                if outcome.left_out or outcome.unknown:
                    report.left_out.update(outcome.left_out)
                    report.unknown.update(outcome.unknown)
            else:
                report.skip_record(outcome.skip_reason, file, record.line, record.quote)
            yield ReadStep(tuple(outcome.drafts), record.offset)


def _is_own_record(value: Mapping[str, object]) -> bool:
    """Return whether a record is Claude Code's.

    A message needs content or usage and a kind or session of its own; messages with `parts` are of clients that forked the
    envelope.
    """
    kind = as_text(value.get("type"))
    if kind in _KINDS:
        return True
    message = value.get("message")
    if isinstance(message, dict):
        mine = kind in ("user", "assistant") or "sessionId" in value
        return mine and ("content" in message or "usage" in message) and "parts" not in message
    return bool(_KEYS & value.keys()) and "parts" not in value
