"""Importer of Codex's rollouts."""

import os
import re
from collections.abc import Mapping
from pathlib import Path

from memory_mcp.ingest.claude_code.blocks import as_text
from memory_mcp.ingest.codex.records import AGENT, ITEMS, CodexReader
from memory_mcp.ingest.growing import GrowingImporter
from memory_mcp.ingest.lines import first_values

_ENVELOPES = frozenset({"session_meta", "response_item", "event_msg", "turn_context", "compacted"})
#: rollout-2026-03-02T09-00-00-<id>.jsonl
_NAME = re.compile(r"rollout-\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d-")


class CodexImporter(GrowingImporter):
    """Reads the rollouts of every version of Codex."""

    name = AGENT
    title = "Codex"

    def default_paths(self) -> tuple[Path, ...]:
        """Return the folders `sessions` and `archived_sessions` in $CODEX_HOME, else in ~/.codex; existing or not."""
        home = Path(os.environ.get("CODEX_HOME") or Path.home() / ".codex")
        return (home / "sessions", home / "archived_sessions")

    def recognises_file(self, file: Path, beginning: bytes) -> bool:
        """Return whether a `.jsonl` file is a rollout of Codex, by its records, of the oldest ones by the file's name too."""
        oldest = file.suffix == ".jsonl" and _NAME.match(file.name) is not None
        has_items = oldest and any(as_text(v.get("type")) in ITEMS for v in first_values(beginning))
        return has_items or super().recognises_file(file, beginning)

    @staticmethod
    def is_own_record(value: Mapping[str, object]) -> bool:
        """Return whether a record names its kind beside a payload; the oldest ones only follow their session's line."""
        return as_text(value.get("type")) in _ENVELOPES and isinstance(value.get("payload"), dict)

    def make_reader(self, file: Path) -> CodexReader:
        """Return the state with which the reading of a rollout begins."""
        return CodexReader(_NAME.sub("", file.stem), self._settings.include_thinking)
