"""Keeps in a file which statements were contradicted: a process that begins need not search through the store for that.

Invariants
1. The file holds ids and checksums, no word of a statement: the words are read from the store.
2. It counts only for the store, the last change and the rules it was written for; without it the store is searched.
"""

import json
import logging
import zlib
from collections.abc import Iterable
from pathlib import Path

from memory_mcp.base import foreign_files, machine
from memory_mcp.base.dataclass import dataclass
from memory_mcp.model.grip import CONTRADICTION_AUTHOR, CONTRADICTION_REASON, Supersession
from memory_mcp.model.ids import NodeId
from memory_mcp.storage.base import Storage
from memory_mcp.tree.summarize.contradictions import VERSION

log = logging.getLogger(__name__)

PATH = Path("indexes") / "contradictions.json"
#: A longer file is none of ours (bytes); a mark has some 150.
_LONGEST = 1 << 24


@dataclass(frozen=True, slots=True)
class Mark:
    """A contradicted statement, and the node that has it."""

    node_id: NodeId
    supersession: Supersession


class MarksFile:
    """The file of one memory."""

    def __init__(self, directory: Path, storage: Storage) -> None:
        self._path = directory / PATH
        self._storage = storage

    def load_marks(self, version: int) -> list[Mark] | None:
        """Return the marks of the tree's version, None if there are none saved."""
        try:
            saved = json.loads(foreign_files.read_file(self._path, _LONGEST))
            if saved["of"] != self._describe_version(version):
                return None
            nodes = self._storage.toc.get_nodes({NodeId(node_id) for node_id, *_ in saved["marks"]})
            texts = {
                (node.node_id, bullet.grip_ids[0], zlib.crc32(bullet.text.encode())): bullet.text
                for node in nodes.values()
                for bullet in node.bullets
                if bullet.grip_ids
            }
            return [
                Mark(
                    node_id,
                    Supersession(old, new, at_ms, CONTRADICTION_REASON, CONTRADICTION_AUTHOR, texts[node_id, old, checksum]),
                )
                for node_id, old, checksum, new, at_ms in saved["marks"]
            ]
        except FileNotFoundError:
            return None
        except (OSError, ValueError, KeyError, TypeError) as error:
            log.warning("the contradictions that were saved cannot be used: %s", error)
            return None

    def save_marks(self, version: int, marks: Iterable[Mark]) -> None:
        """Write the marks of the tree's version; a failure is logged."""
        rows = [(mark.node_id, (s := mark.supersession).old, zlib.crc32(s.words.encode()), s.new, s.at_ms) for mark in marks]
        try:
            self._path.parent.mkdir(mode=0o700, exist_ok=True)
            machine.put(self._path, json.dumps({"of": self._describe_version(version), "marks": rows}).encode())
        except OSError as error:
            log.info("contradictions are not saved: %s", error)

    def remove(self) -> None:
        """Remove the file, if any; a failure is logged."""
        try:
            self._path.unlink(missing_ok=True)
        except OSError as error:
            log.warning("%s cannot be removed: %s", self._path, error)

    def _describe_version(self, version: int) -> str:
        """Return what tells this state of this store from any other."""
        last_changes = self._storage.outbox.read_after(version - 1, 1)
        return f"{VERSION} {self._storage.get_stats(text=False).store_id} {self._storage.timezone} {version} {last_changes}"
