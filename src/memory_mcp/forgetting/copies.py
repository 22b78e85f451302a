"""Backups made here, without what was forgotten: each file is written anew with the rows that may stay."""

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from memory_mcp.archive.backup import SUFFIX
from memory_mcp.archive.blocks import rewrite
from memory_mcp.errors import DiskFull
from memory_mcp.ingest.tombstones import Tombstones
from memory_mcp.storage.duckdb.erasing import kept_row

log = logging.getLogger(__name__)


class Copies:
    """The backups of one folder."""

    def __init__(self, folder: Path, tombstones: Tombstones) -> None:
        self._folder = folder
        self._tombstones = tombstones
        #: When what goes was said, and nodes that may tell of it.
        self._times: list[int] = []
        self._nodes: set[int] = set()

    def count(self) -> int:
        """How many files there are to look through."""
        return len(self._files())

    def sweep(self) -> int:
        """Write those anew that hold something of it; how many. One that cannot be read goes, and the log names it.

        DiskFull where one cannot be written anew for want of room; it stays as it was.
        """
        changed = 0
        for path in self._files():
            try:
                done = rewrite(path, self._kept)
                if self._nodes:
                    # Statements stand before the nodes they belong to.
                    rewrite(path, self._without_nodes)
                changed += bool(done.dropped or done.changed)
            except (OSError, ValueError) as error:
                if full := DiskFull.of(error):
                    # It can be read: the forgetting goes on once there is room.
                    raise full from error
                log.warning("%s could not be looked through for what was forgotten, and is removed: %s", path.name, error)
                path.unlink(missing_ok=True)
                changed += 1
            self._nodes.clear()
        return changed

    def _files(self) -> list[Path]:
        """Files of events first: which texts of agents go follows from them."""
        if not self._folder.is_dir():
            return []
        return sorted(self._folder.glob(f"*{SUFFIX}"), key=lambda path: (not path.name.startswith("events-"), path.name))

    def _kept(self, table: str, row: dict[str, Any]) -> Mapping[str, Any] | None:
        kept = kept_row(self._tombstones, table, row)
        if table == "event" and kept is not row:
            self._times.append(int(row["ts"]))
        if table == "node" and any(row["start_ms"] <= time <= row["end_ms"] for time in self._times):
            # Somebody else's words about a time in which something was forgotten may tell of it.
            self._nodes.add(row["key"])
            return None
        return kept

    def _without_nodes(self, table: str, row: dict[str, Any]) -> Mapping[str, Any] | None:
        return None if table in ("bullet", "bullet_grip") and row["key"] in self._nodes else row
