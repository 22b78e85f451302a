"""Two memories kept in step through a folder that any program may copy: files of events, never the database.

Invariants
1. A machine writes in a folder of its own alone, a new file for what came since the last, and changes none it has written;
   so whatever copies the folder has nothing to join.
2. Half a file gives its whole blocks, and is read again once it has changed, until it is whole. An event that is known is
   known by its id: any order, and any repetition, ends in the same memory.
3. How far this memory wrote is kept in the store, beside the numbers it speaks of, so that a store that was brought back
   from a backup writes again what came after it.
4. What was forgotten here is refused by `take`; what was forgotten elsewhere stays here, since nothing of that is exchanged.
"""

import os
import re
import threading
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from memory_mcp.archive import blocks
from memory_mcp.archive.blocks import Archive
from memory_mcp.archive.frames import Batch, Block
from memory_mcp.archive.others import drafts_in
from memory_mcp.errors import StorageError
from memory_mcp.model.event import EventDraft
from memory_mcp.storage.archive import SYNCED, TableRows
from memory_mcp.storage.base import Storage
from memory_mcp.storage.values import Appended

#: Marks of how far was written, by folder, and of files that were read. On disk.
_OUT, _IN = SYNCED, "sync:in:"
#: File of the data directory with the machine's own id: not the store's, which a backup carries to another machine.
_ID = "sync-id"
_MACHINE = re.compile(r"machine-[0-9a-f]{32}\Z")
_FILE = re.compile(r"events-(\d{8})\.archive\Z")
_WHOLE, _TORN = "whole", "torn"
#: One run at a time: a job and a command may come together.
_TURN = threading.Lock()


@dataclass(slots=True)
class Synced:
    """What a run did."""

    written: int = 0
    new: int = 0
    known: int = 0
    #: Files that are not whole yet.
    waiting: int = 0
    #: Other machines there are.
    machines: int = 0


class Exchange:
    """One memory's part in a shared folder. `take` stores drafts, but for what may not come in."""

    def __init__(self, storage: Storage, data_dir: Path, folder: Path, take: Callable[[Sequence[EventDraft]], Appended]) -> None:
        self._storage = storage
        self._folder = folder
        self._take = take
        self._own = folder / f"machine-{_machine_id(data_dir)}"

    def run(self, should_stop: Callable[[], bool] = lambda: False) -> Synced:
        """Write what is new here, take in what is new there. StorageError when the folder cannot be used."""
        done = Synced()
        with _TURN:
            try:
                written = self._write(done)
                self._read(done, should_stop)
            except OSError as error:
                text = f"the shared folder {self._folder} cannot be used: {error.strerror or error}"
                raise StorageError(text, "Look whether it is there and can be written, or name another one.") from error
            # What came from others need not go back to them; where somebody else wrote meanwhile it does, and is known there.
            reached = self._storage.events.last_seq()
            if done.new and reached - written == done.new:
                self._storage.outbox.mark_all({self._mark: str(reached)})
        return done

    @property
    def _mark(self) -> str:
        return f"{_OUT}{self._folder}"

    def _write(self, done: Synced) -> int:
        """A file with every event that came since the last one; up to which number everything is written."""
        # A folder without this machine's own is new, or was emptied: everything is written.
        known = self._own.exists()
        self._own.mkdir(mode=0o700, parents=True, exist_ok=True)
        numbers = [int(found[1]) for file in self._own.iterdir() if (found := _FILE.match(file.name))]
        after = int(self._storage.outbox.marks(self._mark).get(self._mark, "0")) if known else 0
        with self._storage.archive.snapshot() as snapshot:
            if snapshot.last_seq <= after:
                return snapshot.last_seq
            batches = (Batch(part.table, part.columns, part.rows) for part in snapshot.events(after))
            about = {"kind": "events", "schema": snapshot.schema, "machine": self._own.name}
            path = self._own / f"events-{max(numbers, default=0) + 1:08}.archive"
            heads = blocks.write(path, batches, about)
            done.written = sum(head.rows for head in heads)
            self._storage.outbox.mark_all({self._mark: str(snapshot.last_seq)})
            return snapshot.last_seq

    def _read(self, done: Synced, should_stop: Callable[[], bool]) -> None:
        prefix = f"{_IN}{self._folder}:"
        marks = self._storage.outbox.marks(prefix)
        for machine in self._others():
            done.machines += 1
            for file in sorted(f for f in machine.iterdir() if _FILE.match(f.name) and not f.is_symlink() and f.is_file()):
                if should_stop():
                    return
                state = file.stat()
                name, stamp = f"{prefix}{machine.name}/{file.name}", f"{state.st_size}:{state.st_mtime_ns}"
                how, _, seen = marks.get(name, "").partition(":")
                if seen != stamp:
                    how = _WHOLE if self._take_file(file, done) else _TORN
                    self._storage.outbox.mark_all({name: f"{how}:{stamp}"})
                done.waiting += how == _TORN

    def _others(self) -> Iterator[Path]:
        for place in sorted(self._folder.iterdir()):
            if place.name != self._own.name and _MACHINE.match(place.name) and place.is_dir() and not place.is_symlink():
                yield place

    def _take_file(self, file: Path, done: Synced) -> bool:
        """Store the whole blocks of a file; whether all of it was whole."""
        whole = True
        try:
            archive = Archive(file)
        except ValueError:
            return False
        with archive:
            for part in archive:
                if not isinstance(part, Block):
                    whole &= not part.lost
                elif part.head.table == "event":
                    stored = self._take(drafts_in(TableRows("event", part.head.columns, part.rows)))
                    done.new += len(stored.new)
                    done.known += len(stored.known)
        return whole


def own_folders(storage: Storage, data_dir: Path) -> list[Path]:
    """Folders that this machine has written into, wherever it was told to; what is forgotten goes from their files as well."""
    if not (data_dir / _ID).is_file():
        return []
    name = f"machine-{_machine_id(data_dir)}"
    return [Path(mark.removeprefix(_OUT)) / name for mark in storage.outbox.marks(_OUT)]


def _machine_id(data_dir: Path) -> str:
    """Return the data directory's own id, made when it is first asked for."""
    place = data_dir / _ID
    with suppress(FileExistsError):
        descriptor = os.open(place, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w", encoding="ascii") as stream:
            stream.write(uuid.uuid4().hex)
    told = place.read_text(encoding="ascii").strip()
    if not re.fullmatch(r"[0-9a-f]{32}", told):
        raise StorageError(f"{place} is damaged", "Delete it: this memory then writes into a new folder of its own.")
    return told
