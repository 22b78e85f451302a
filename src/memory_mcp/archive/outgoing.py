"""Writes the events that one machine shares into files of a folder of its own, few of them however often it writes.

Invariants
1. A file that has its name is whole and gets no more. Small ones are joined: a new file that holds what several held takes
   their place, and they are removed once it is there. So the number of files grows with the logarithm of the events.
2. Which files this memory wrote is kept in the store. A file in its folder that it does not know was written by a copy of
   this machine, or by this one before its store was brought back from a backup: the folder is left to that one, and another
   is begun. When a file is missing or damaged, everything is written anew.
3. A folder of one's own is known again by its name, wherever the shared folder is mounted; where it is not there, such as
   on the empty place of a disk that is not connected, another is begun and nothing is believed to be written.
4. What goes out passes `clean`, and what was written before something was forgotten passes it again.
"""

import json
import re
import secrets
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from memory_mcp.archive import blocks
from memory_mcp.archive.blocks import Archive
from memory_mcp.archive.frames import Block
from memory_mcp.archive.others import drafts_in
from memory_mcp.base import foreign_files, machine, paths
from memory_mcp.base.errors import StorageError
from memory_mcp.base.failpoints import failpoint
from memory_mcp.model.event import EventDraft
from memory_mcp.model.ids import event_key
from memory_mcp.storage.archive import SYNCED, Snapshot, TableRows
from memory_mcp.storage.base import Storage

#: How a machine's folder begins.
MACHINE = "machine-"
#: What this memory wrote into a folder of its own: `Shelf` as JSON. On disk.
_OWN = "sync:own:"
#: File of the data directory with the names of this machine's folders, the newest last: not the store's, which a backup
#: carries to another machine.
_ID = "sync-id"
_FILE = re.compile(r"events-(\d{8})-[0-9a-f]{8}\.archive\Z")
#: A file is joined with those behind it when it holds at most so many times their number.
_JOIN = 4
#: What the gate may change of an event.
_WORDS = ("session_id", "text", "source_id", "agent", "project", "thread", "speaker")

Clean = Callable[[EventDraft], EventDraft | None]


@dataclass(slots=True)
class Shelf:
    """What this memory knows of a folder of its own. On disk: fields may be added."""

    #: The shared folder, as it was called last.
    place: str
    #: Files that are to be there, and how many events each holds.
    files: dict[str, int] = field(default_factory=dict)
    #: Files that may be there: about to come, or to go.
    passing: list[str] = field(default_factory=list)
    #: Size of the tombstones that files were last held against (bytes).
    tombstones: int = 0


class Outgoing:
    """One machine's folder inside a shared folder. Methods raise OSError when that cannot be used."""

    def __init__(self, storage: Storage, data_dir: Path, folder: Path, clean: Clean) -> None:
        """Choose the own folder's name; a new one is stored in the data directory. StorageError where the names are damaged."""
        self._storage, self._data_dir, self._folder, self._clean = storage, data_dir, folder, clean
        self._tombstones = 0
        with suppress(OSError):
            self._tombstones = (data_dir / paths.TOMBSTONES).stat().st_size
        # The newest folder of this machine that is there, unless it has a file that is not known.
        names = machines(data_dir)
        there = [name for name in names if (folder / name).is_dir()]
        self.machine = there[-1] if there else ""
        self._shelf = (_shelf(storage, self.machine) if there else None) or Shelf(str(folder))
        known = {*self._shelf.files, *self._shelf.passing}
        if not there or not all(file in known for file in _files(self._own)):
            self._shelf = Shelf(str(folder))
            self.machine = f"{MACHINE}{uuid.uuid4().hex}"
            told = "".join(f"{name.removeprefix(MACHINE)}\n" for name in (*names, self.machine))
            machine.put(data_dir / _ID, told.encode("ascii"))

    @property
    def _own(self) -> Path:
        """The own folder inside the shared one; it may not exist yet."""
        return self._folder / self.machine

    def write(self, anew: bool) -> tuple[int, int]:
        """Share what came since the last time, or everything: with `anew`, or where a file is missing or one to join is damaged.

        Returns how many events were written, and up to which number all is written. What was forgotten since the last
        run is taken out of older files before. Position and files are noted in the store once the new file is
        complete.
        """
        self._own.mkdir(mode=0o700, exist_ok=True)
        self._tidy()
        if self._shelf.tombstones != self._tombstones:
            self._sweep()
        there = _files(self._own)
        with self._storage.archive.open_snapshot() as snapshot:
            after = int(self._storage.outbox.get_positions(self._mark).get(self._mark, "0"))
            joined, new = list[str](), snapshot.last_seq - after
            # The last files, each while it holds at most four times as many events as come behind it.
            for name, rows in reversed(self._shelf.files.items()):
                if new <= 0 or rows > _JOIN * new:
                    break
                joined.insert(0, name)
                new += rows
            if anew or after > snapshot.last_seq or not set(self._shelf.files) <= set(there) or not self._whole(joined):
                after, joined = 0, list(self._shelf.files)
            if snapshot.last_seq <= after:
                return 0, snapshot.last_seq
            return self._add(snapshot, after, joined, there), snapshot.last_seq

    def reached(self, number: int) -> None:
        """Note in the store that the others know every event up to a number, which then is not written any more."""
        self._storage.outbox.set_positions({self._mark: str(number)})

    @property
    def _mark(self) -> str:
        """The name of the position up to which events were written into the own folder."""
        return f"{SYNCED}{self.machine}"

    def _keep(self, more: Mapping[str, str] | None = None) -> None:
        """Store what is known of the own folder, and the positions `more`, in one transaction."""
        self._shelf.place = str(self._folder)
        self._storage.outbox.set_positions({f"{_OWN}{self.machine}": json.dumps(asdict(self._shelf)), **(more or {})})

    def _tidy(self) -> None:
        """Remove unfinished files and those noted as passing that are not to be there, which a killed run may have left."""
        for path in self._own.iterdir():
            unfinished = path.name.startswith(".") and path.name.endswith(".part")
            if unfinished or (path.name in self._shelf.passing and path.name not in self._shelf.files):
                path.unlink(missing_ok=True)

    def _whole(self, names: Sequence[str]) -> bool:
        """Return whether all of some files can be read without a lost row; reads them to the end."""
        with suppress(OSError, ValueError):
            for name in names:
                with Archive(self._own / name) as archive:
                    if not all(isinstance(part, Block) or not part.lost for part in archive):
                        return False
            return True
        return False

    def _add(self, snapshot: Snapshot, after: int, joined: Sequence[str], there: Sequence[str]) -> int:
        """Write a file with the events numbered above `after` and those of the files `joined`, and remove these.

        With `after` 0 all events are written from the store, and every file in `there` goes. Events that may not go
        out are left out. Return how many were written from the store.
        """
        number = max((int(found[1]) for name in there if (found := _FILE.match(name))), default=0) + 1
        name = f"events-{number:08}-{secrets.token_hex(4)}.archive"
        self._shelf.passing = [name]
        self._keep()
        new = 0

        def batches() -> Iterator[TableRows]:
            """Yield the rows of the joined files, then the cleaned rows of new events, counting these."""
            nonlocal new
            for old in joined if after else ():
                with Archive(self._own / old) as archive:
                    whole = (part for part in archive if isinstance(part, Block))
                    yield from (TableRows(part.head.table, part.head.columns, part.rows) for part in whole)
            for part in snapshot.iter_shared("event", after):
                rows = [row for row in (self._row(part.columns, row) for row in part.rows) if row is not None]
                new += len(rows)
                yield TableRows(part.table, part.columns, rows)

        about = {"kind": "events", "schema": snapshot.schema, "machine": self.machine}
        heads = blocks.write(self._own / name, batches(), about)
        failpoint("sync.written")
        gone = [old for old in (joined if after else there) if old != name]
        self._shelf.files = {n: r for n, r in self._shelf.files.items() if n not in gone}
        self._shelf.files[name] = sum(head.rows for head in heads)
        self._shelf.passing = gone
        self._keep({self._mark: str(snapshot.last_seq)})
        failpoint("sync.noted")
        self._tidy()
        return new

    def _row(self, columns: Sequence[str], row: Sequence[Any]) -> Sequence[Any] | None:
        """Return a row of the table of events as it may go out by `clean`; None when it may not.

        The row itself where nothing is changed; else with cleaned words, metadata and the id that these give.
        """
        [draft] = drafts_in(TableRows("event", tuple(columns), [row]))
        clean = self._clean(draft)
        if clean is None or clean == draft or clean.original is None:
            return None if clean is None else row
        told = {**dict(zip(columns, row, strict=True)), "event_id": event_key(clean.original.event_id)}
        told |= {name: getattr(clean, name) for name in _WORDS}
        told["metadata"] = json.dumps(dict(clean.metadata)) if clean.metadata else ""
        return [told[name] for name in columns]

    def _sweep(self) -> None:
        """Clean every file of this machine's folders of what was forgotten since it was written; unreadable ones stay.

        The folder may have been out of reach when it was forgotten.
        """

        def keep(_: str, row: dict[str, Any]) -> dict[str, Any] | None:
            """Return a row as it may go out, None when it may not."""
            kept = self._row(tuple(row), tuple(row.values()))
            return None if kept is None else dict(zip(row, kept, strict=True))

        # Earlier folders of this machine and copies that a program made of a file, too.
        for name in machines(self._data_dir):
            for path in sorted((self._folder / name).glob("events-*.archive")):
                with suppress(ValueError, FileNotFoundError, foreign_files.NotAFile):
                    blocks.rewrite(path, keep)
        self._shelf.tombstones = self._tombstones
        self._keep()


def own_folders(storage: Storage, data_dir: Path) -> list[Path]:
    """Return the folders that this machine wrote into, in every shared folder the store knows; they need not exist.

    Raises StorageError when the file of their names is damaged.
    """
    names = machines(data_dir)
    places = {shelf.place for name in names if (shelf := _shelf(storage, name)) is not None}
    return [Path(place) / name for place in sorted(places) for name in names]


def used_before(storage: Storage, folder: Path) -> bool:
    """Return whether this memory has noted that it wrote into a shared folder of this path."""
    told = storage.outbox.get_positions(_OWN)
    return any((shelf := _shelf(storage, name.removeprefix(_OWN))) and shelf.place == str(folder) for name in told)


def _shelf(storage: Storage, machine: str) -> Shelf | None:
    """Return what the store knows of a folder of its own; None for nothing, or for something unreadable."""
    name = f"{_OWN}{machine}"
    with suppress(ValueError, TypeError):
        told = json.loads(storage.outbox.get_positions(name).get(name, ""))
        return Shelf(**{known: told[known] for known in Shelf.__dataclass_fields__ if known in told})
    return None


def _files(folder: Path) -> list[str]:
    """Return the names of the files of events in a folder, oldest first; [] without the folder."""
    with suppress(FileNotFoundError):
        return sorted(path.name for path in folder.iterdir() if _FILE.match(path.name))
    return []


def machines(data_dir: Path) -> list[str]:
    """Return the folder names this machine ever had, newest last, [] for none; raises StorageError when their file is damaged."""
    place = data_dir / _ID
    try:
        told = foreign_files.read_file(place).decode("ascii", "replace").split()
    except FileNotFoundError:
        return []
    if not all(re.fullmatch(r"[0-9a-f]{32}", one) for one in told):
        raise StorageError(f"{place} is damaged", "Delete it: this memory then writes into a new folder of its own.")
    return [f"{MACHINE}{one}" for one in told]
