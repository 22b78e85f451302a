"""Removes what was forgotten from backups made here: each file is rewritten with the rows that may stay."""

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from memory_mcp.base.errors import DiskFull
from memory_mcp.capture.tombstones import Tombstones
from memory_mcp.model.ids import event_id_from, grip_id_from
from memory_mcp.storage.forgotten import HINTS, clean_row, strip_hint
from memory_mcp.storage.rows import members_of
from memory_mcp.upkeep.archive.backup import SUFFIX
from memory_mcp.upkeep.archive.blocks import rewrite_archive

#: Columns that name a quotation, of tables whose rows go with it.
_NAMING = {"superseded": "old_id", "pin": "target", "usage": "grip_id"}
#: Tables that name sessions, projects and topics, and columns of projects.
_TELLING = frozenset({"segment_cut", "topic", "topic_label", "project_alias", "project_split"})
_PROJECTS = ("old", "new", "project")

log = logging.getLogger(__name__)


class ArchiveFiles:
    """The archive files of one folder."""

    def __init__(self, folder: Path, tombstones: Tombstones) -> None:
        self._folder = folder
        self._tombstones = tombstones
        #: When what goes was said, and nodes that may tell of it.
        self._times: list[int] = []
        self._nodes: set[int] = set()
        #: Events that go or change, and their quotations; the reason of a correction of one goes as well.
        self._events: set[int] = set()
        #: The same by their ids, and the sessions of those that go whole.
        self._event_ids: set[str] = set()
        self._sessions: set[str] = set()
        self._grips: set[str] = set()
        #: Projects and streams of which an event goes whole, and those of which one stays.
        self._leaving: set[str | int] = set()
        self._staying: set[str | int] = set()
        #: Names of projects of which nothing is left.
        self._names: set[str] = set()
        #: Segments from which an event goes, and topics that hold one.
        self._segments: set[int] = set()
        self._topics: set[str] = set()

    def count(self) -> int:
        """Return how many archive files there are."""
        return len(self._archive_files())

    def remove_forgotten(self) -> int:
        """Rewrite files that hold something forgotten; return the count.

        One that cannot be read is removed, and the log names it. Raises DiskFull where one cannot be rewritten for
        want of room; it stays as it was.
        """
        changed = 0
        for path in self._archive_files():
            try:
                is_changed = rewrite_archive(path, self._clean_row)
                if self._nodes or self._grips or self._names:
                    # Tables stand in the order of their names: statements before their nodes, acts before quotations.
                    rewrite_archive(path, self._drop_dependents)
                changed += is_changed
            except FileNotFoundError:
                # A backup that ends meanwhile removes what it replaces.
                pass
            except (OSError, ValueError) as error:
                if full := DiskFull.of(error):
                    # It can be read: the forgetting goes on once there is room.
                    raise full from error
                log.warning("%s could not be looked through for what was forgotten, and is removed: %s", path.name, error)
                path.unlink(missing_ok=True)
                changed += 1
            self._nodes.clear()
        return changed

    def _archive_files(self) -> list[Path]:
        """Events come first: what else goes follows from them."""
        if not self._folder.is_dir():
            return []
        order = ("events-", "grips-")
        return sorted(
            self._folder.glob(f"*{SUFFIX}"), key=lambda path: (*(not path.name.startswith(o) for o in order), path.name)
        )

    def _clean_row(self, table: str, row: dict[str, Any]) -> Mapping[str, Any] | None:
        """Return a row as it may stay, None where it is removed.

        Besides what `kept_row` takes out, removed are quotations of events that go or change, and nodes that others than the
        summarizer wrote and whose time holds such an event. Events have to be looked through before the other tables.
        """
        remaining = clean_row(self._tombstones, table, row)
        if table == "event":
            (self._leaving if remaining is None else self._staying).update((row["project"], row["stream"]))
        if table == "event" and remaining is not row:
            self._times.append(int(row["ts"]))
            self._events.add(int(row["event_id"]))
            self._event_ids.add(event_id_from(int(row["event_id"])))
            self._sessions.update((row["session_id"],) if remaining is None else ())
        if table == HINTS and (
            row["session_id"] in self._sessions or not self._event_ids.isdisjoint(str(row["evidence"]).split())
        ):
            return strip_hint(row)
        if table in _TELLING and self._names_forgotten(table, row):
            return None
        if table == "grip" and not self._events.isdisjoint((int(row["event_start"]), int(row["event_end"]))):
            self._grips.add(grip_id_from(int(row["grip_id"])))
            return None
        if table == "node" and any(row["start_ms"] <= time <= row["end_ms"] for time in self._times):
            # Somebody else's words about a time in which something was forgotten may tell of it.
            self._nodes.add(row["key"])
            return None
        return remaining

    def _names_forgotten(self, table: str, row: dict[str, Any]) -> bool:
        gone_projects = self._leaving - self._staying - {""}
        if table == "segment_cut" and row["stream"] in self._leaving:
            self._segments.add(row["key"])
            return row["stream"] in gone_projects
        if table == "topic" and not self._segments.isdisjoint(members_of(row["members"])):
            self._topics.add(row["topic_id"])
            return False
        if table == "topic_label":
            return row["topic_id"] in self._topics
        if gone_projects.isdisjoint(row.get(name) for name in _PROJECTS):
            return False
        self._names |= {row[name] for name in _PROJECTS if row.get(name)} - self._staying
        return True

    def _drop_dependents(self, table: str, row: dict[str, Any]) -> Mapping[str, Any] | None:
        if table in ("bullet", "bullet_grip") and row["key"] in self._nodes:
            return None
        if table in _NAMING and row[_NAMING[table]] in self._grips:
            return None
        if table == "superseded" and row["new_id"] in self._grips:
            return {**row, "new_id": None, "reason": ""}
        if table == "audit" and not self._grips.isdisjoint(row["subject"].split()):
            row = {**row, "reason": ""}
        if table == "audit" and not self._names.isdisjoint(row["subject"].split()):
            return {**row, "subject": ""}
        return row
