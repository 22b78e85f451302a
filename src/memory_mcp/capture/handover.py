"""Slices of an import in files: written by a process that reads and cleans, stored by the one that has the memory open.

Invariants
1. A file is private, complete once it has its name, and named by this module alone: a name that was not made here is
   never opened.
2. A slice is what one transaction takes: drafts that have passed the gate, then the marks that are true once they are
   stored.
3. Files whose import has ended are swept: an import holds a lock as long as it lives.
"""

import json
import os
import re
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from filelock import FileLock, Timeout

from memory_mcp.base import foreign_files, machine
from memory_mcp.base.dataclass import dataclass
from memory_mcp.base.errors import InvalidQuery
from memory_mcp.importers.draft_rows import pack_drafts, unpack_drafts
from memory_mcp.model.event import EventDraft, Trust
from memory_mcp.storage.values import AppendResult, WriteRequest

#: Folder of these files inside the spool.
FOLDER = "import"
#: Events, and characters, from which a file is complete.
_EVENTS, _CHARS = 4_000, 4 * 1024 * 1024
_NAME = re.compile(r"[0-9a-f]{32}-[0-9]{6}-[0-9]{6}\Z")
_LOCK = ".lock"
_FORM = 1


@dataclass(frozen=True, slots=True)
class Slice:
    """The content of one transaction."""

    drafts: Sequence[EventDraft]
    marks: Mapping[str, str]


class ImportClaim:
    """One import's claim on its files, which begin with its `name`."""

    def __init__(self, spool: Path) -> None:
        """Claim a new name in the spool's folder for imports. Raises OSError."""
        self.folder = spool / FOLDER
        for folder in (spool, self.folder):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.name = uuid.uuid4().hex
        self._lock = FileLock(str(self.folder / f"{self.name}{_LOCK}"), mode=0o600)
        self._lock.acquire()

    def remove_file(self, name: str) -> None:
        """Remove a file whose content is stored; it may be gone."""
        (self.folder / name).unlink(missing_ok=True)

    def release_files(self) -> None:
        """Remove all files of this import, then its lock.

        Files that cannot be removed stay for `sweep_files`.
        """
        for file in self.folder.glob(f"{self.name}-*"):
            with suppress(OSError):
                file.unlink()
        self._lock.release()
        (self.folder / f"{self.name}{_LOCK}").unlink(missing_ok=True)


@contextmanager
def claim_files(spool: Path) -> Iterator[ImportClaim]:
    """Yield a claim on files in the spool. Raises OSError."""
    token = ImportClaim(spool)
    try:
        yield token
    finally:
        token.release_files()


class SliceWriter:
    """Writes a task's clean drafts and marks to files.

    A `pipeline.DraftLog` and `pipeline.MarkWriter`; each file is named once it is complete.
    """

    def __init__(self, folder: Path, token: str, number: int, source: str) -> None:
        """Write files named "<token>-<number>-<count>" into `folder`.

        Both numbers have six digits, the count begins at 1. `number` is the task's, `source` that of the events.
        """
        self._folder = folder
        self._stem = f"{token}-{number:06d}"
        self._source = source
        self._count = 0
        self._lines: list[str] = []
        self._rows: list[list[object]] = []
        self._events = self._chars = 0
        #: Names of complete files not reported yet.
        self.complete_files: list[str] = []

    def append(
        self, drafts: Sequence[EventDraft], source: str, trust: Trust | None = None, request: WriteRequest | None = None
    ) -> AppendResult:
        """Take the drafts of one transaction, to be written by `flush`.

        Return an empty result: only the process that stores them knows what is new. `source`, `trust` and `request` are not used.
        """
        del source, trust, request
        self.set_positions({})
        self._rows = pack_drafts(drafts)
        self._events += len(drafts)
        self._chars += sum(len(d.text) for d in drafts)
        return AppendResult((), ())

    def set_positions(self, values: Mapping[str, str]) -> None:
        """End a slice with marks, by name, that are true once everything appended before is stored; nothing for an empty one.

        The file is completed at 4,000 events or 4 Mi characters.
        """
        if self._rows or values:
            self._lines.append(json.dumps([self._rows, dict(values)], ensure_ascii=False, separators=(",", ":")))
            self._rows = []
        if self._events >= _EVENTS or self._chars >= _CHARS:
            self.flush()

    def flush(self) -> None:
        """Complete the current file, if it has content. May raise OSError."""
        if self._rows:
            self.set_positions({})
        if not self._lines:
            return
        self._count += 1
        name = f"{self._stem}-{self._count:06d}"
        with machine.Aside(self._folder / name, text=True, names=False) as stream:
            stream.write(json.dumps({"v": _FORM, "source": self._source}) + "\n")
            stream.writelines(f"{line}\n" for line in self._lines)
        self._lines, self._events, self._chars = [], 0, 0
        self.complete_files.append(name)


def read_slices(spool: Path, name: str) -> tuple[str, Iterator[Slice]]:
    """Return (source, slices) of a file, which is closed at its end.

    Raises InvalidQuery for a name that was not made here, another user's file and another version's; OSError when it is
    not there; ValueError, IndexError or TypeError, also while iterating, when it is not as it was written.
    """
    if not _NAME.match(name):
        raise InvalidQuery(f"not a file of an import: {name[:80]!r}")
    stream = foreign_files.open_file(spool / FOLDER / name)
    if not machine.owns(os.fstat(stream.fileno())):
        stream.close()
        raise InvalidQuery(f"not a file of this user's own: {name}")
    head = json.loads(stream.readline())
    if head.get("v") != _FORM:
        stream.close()
        raise InvalidQuery("another version wrote this file", "Both sides must be of the same version.")

    def each() -> Iterator[Slice]:
        with stream:
            for line in stream:
                rows, marks = json.loads(line)
                yield Slice(unpack_drafts(rows), {str(k): str(v) for k, v in marks.items()})

    return str(head["source"]), each()


def sweep_files(spool: Path) -> int:
    """Remove the files of imports that have ended; return their number.

    An import that goes on holds its lock. Files that cannot be removed are counted too.
    """
    folder = spool / FOLDER
    try:
        names = sorted(entry.name for entry in folder.iterdir())
    except OSError:
        return 0
    living = set()
    for name in (n for n in names if n.endswith(_LOCK)):
        lock = FileLock(str(folder / name), mode=0o600)
        try:
            lock.acquire(timeout=0)
        except Timeout:
            living.add(name.removesuffix(_LOCK))
            continue
        lock.release()
        (folder / name).unlink(missing_ok=True)
    gone = [n for n in names if not n.endswith(_LOCK) and n.partition("-")[0] not in living]
    for name in gone:
        with suppress(OSError):
            (folder / name).unlink()
    return len(gone)
