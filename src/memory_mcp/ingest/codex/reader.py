"""Importer of Codex's rollouts."""

import os
import re
from collections.abc import Iterator
from pathlib import Path

from memory_mcp.ingest.base import ClientImporter, Growth, ImportReport, Read
from memory_mcp.ingest.claude_code.blocks import as_text
from memory_mcp.ingest.codex.records import AGENT, ITEMS, CodexReading
from memory_mcp.ingest.files import find_files
from memory_mcp.ingest.growing import read_growing
from memory_mcp.ingest.lines import first_values

_ENVELOPES = frozenset({"session_meta", "response_item", "event_msg", "turn_context", "compacted"})
#: rollout-2026-03-02T09-00-00-<id>.jsonl
_NAME = re.compile(r"rollout-\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d-")


class CodexImporter(ClientImporter):
    """Reads the rollouts of every version of Codex."""

    name = AGENT
    title = "Codex"
    growth = Growth.APPENDED

    def default_paths(self) -> tuple[Path, ...]:
        """Return the folders `sessions` and `archived_sessions` in $CODEX_HOME, else in ~/.codex; existing or not."""
        home = Path(os.environ.get("CODEX_HOME") or Path.home() / ".codex")
        return (home / "sessions", home / "archived_sessions")

    def files(self, path: Path) -> Iterator[Path]:
        """Return the `.jsonl` files below a folder in a fixed order, or `path` itself; raises SourceUnreadable if missing."""
        return find_files(path, (".jsonl",))

    def recognises(self, file: Path, beginning: bytes) -> bool:
        """Return whether a `.jsonl` file is a rollout of Codex.

        Its records name their kind beside a payload; the oldest ones only follow their session's line, and are known by
        the file's name too.
        """
        if file.suffix != ".jsonl":
            return False
        values = first_values(beginning)
        if any(as_text(v.get("type")) in _ENVELOPES and isinstance(v.get("payload"), dict) for v in values):
            return True
        return bool(_NAME.match(file.name)) and any(as_text(v.get("type")) in ITEMS for v in values)

    def read(self, file: Path, offset: int, report: ImportReport) -> Iterator[Read]:
        """Yield a step for each record behind the byte offset: its drafts, and the offset to go on from once they are stored.

        Records without an event give a step without drafts, and are counted in `report` with the reason. Raises OSError
        when the file cannot be read.
        """
        name = _NAME.sub("", file.stem)
        return read_growing(CodexReading(name, self._settings.include_thinking), file, offset, report)
