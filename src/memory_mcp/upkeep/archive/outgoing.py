"""Writes the events that one machine shares into files of its folder.

Invariants
1. A file that has its name is whole and gets no more. Small ones are joined: a new file that holds what several held
replaces them, and they are removed once it is there. So the number of files grows with the logarithm of the events.
2. Which files this memory wrote is kept in the store. A file in its folder that it does not know was written by a copy of
this machine, or by this one before its store was brought back from a backup: the folder is left to that one, and another is
begun. When a file is missing or damaged, everything is written again.
3. A machine's folder is known again by its name, wherever the shared folder is mounted; where it is not there, such as on
the empty mount point of a disk that is not connected, another is begun and nothing is believed to be written.
4. What goes out passes `clean`, and what was written before something was forgotten passes it again.
"""

import json
import re
import secrets
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, field
from pathlib import Path
from typing import Any

from memory_mcp.base import foreign_files, machine, paths
from memory_mcp.base.dataclass import dataclass
from memory_mcp.base.errors import StorageError
from memory_mcp.base.failpoints import failpoint
from memory_mcp.model.event import EventDraft
from memory_mcp.model.ids import event_key
from memory_mcp.storage.archive import SYNCED, Snapshot, TableRows
from memory_mcp.storage.base import Storage
from memory_mcp.upkeep.archive import blocks
from memory_mcp.upkeep.archive.blocks import Archive
from memory_mcp.upkeep.archive.frames import Block
from memory_mcp.upkeep.archive.others import parse_drafts

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
class FolderState:
    """What this memory knows of its folder.

    On disk: fields may be added.
    """

    #: The shared folder, as it was called last.
    place: str
    #: Files that are to be there, and how many events each holds.
    files: dict[str, int] = field(default_factory=dict)
    #: Files that may be there: about to come, or to go.
    passing: list[str] = field(default_factory=list)
    #: Size of the tombstones that files were last held against (bytes).
    tombstones: int = 0


class FolderWriter:
    """One machine's folder inside a shared folder.

    Methods raise OSError when that cannot be used.
    """

    def __init__(self, storage: Storage, data_dir: Path, folder: Path, clean: Clean) -> None:
        """Choose the folder's name; a new one is stored.

        Raises StorageError where the file of names is damaged.
        """
        self._storage, self._data_dir, self._folder, self._clean = storage, data_dir, folder, clean
        self._tombstones = 0
        with suppress(OSError):
            self._tombstones = (data_dir / paths.TOMBSTONES).stat().st_size
        # The newest folder of this machine that is there, unless it has a file that is not known.
        names = list_machines(data_dir)
        present_names = [name for name in names if (folder / name).is_dir()]
        self.machine = present_names[-1] if present_names else ""
        self._state = (_load_state(storage, self.machine) if present_names else None) or FolderState(str(folder))
        known_files = {*self._state.files, *self._state.passing}
        if not present_names or not all(file in known_files for file in _list_files(self._path)):
            self._state = FolderState(str(folder))
            self.machine = f"{MACHINE}{uuid.uuid4().hex}"
            lines = "".join(f"{name.removeprefix(MACHINE)}\n" for name in (*names, self.machine))
            machine.put(data_dir / _ID, lines.encode("ascii"))

    @property
    def _path(self) -> Path:
        return self._folder / self.machine

    def write_events(self, rewrite_all: bool) -> tuple[int, int]:
        """Write what came since the last time, or everything.

        Everything with `rewrite_all`, or where a file is missing or one to join is damaged. Returns how many events were
        written, and up to which number all is written. What was forgotten since the last run is taken out of older files
        before.
        """
        self._path.mkdir(mode=0o700, exist_ok=True)
        self._remove_unfinished()
        if self._state.tombstones != self._tombstones:
            self._clean_old_files()
        present_files = _list_files(self._path)
        with self._storage.archive.open_snapshot() as snapshot:
            after = int(self._storage.outbox.get_positions(self._position_name).get(self._position_name, "0"))
            joined, new = list[str](), snapshot.last_seq - after
            # The last files, each while it holds at most four times as many events as come behind it.
            for name, rows in reversed(self._state.files.items()):
                if new <= 0 or rows > _JOIN * new:
                    break
                joined.insert(0, name)
                new += rows
            if (
                rewrite_all
                or after > snapshot.last_seq
                or not set(self._state.files) <= set(present_files)
                or not self._are_whole(joined)
            ):
                after, joined = 0, list(self._state.files)
            if snapshot.last_seq <= after:
                return 0, snapshot.last_seq
            return self._write_file(snapshot, after, joined, present_files), snapshot.last_seq

    def note_position(self, number: int) -> None:
        """Note that others know every event up to a number."""
        self._storage.outbox.set_positions({self._position_name: str(number)})

    @property
    def _position_name(self) -> str:
        return f"{SYNCED}{self.machine}"

    def _store_state(self, more: Mapping[str, str] | None = None) -> None:
        """Store what is known of the folder, and positions, together."""
        self._state.place = str(self._folder)
        self._storage.outbox.set_positions({f"{_OWN}{self.machine}": json.dumps(asdict(self._state)), **(more or {})})

    def _remove_unfinished(self) -> None:
        """Remove what a killed run may have left."""
        for path in self._path.iterdir():
            unfinished = path.name.startswith(".") and path.name.endswith(".part")
            if unfinished or (path.name in self._state.passing and path.name not in self._state.files):
                path.unlink(missing_ok=True)

    def _are_whole(self, names: Sequence[str]) -> bool:
        """Return whether files can be read without a lost row."""
        with suppress(OSError, ValueError):
            for name in names:
                with Archive(self._path / name) as archive:
                    if not all(isinstance(part, Block) or not part.lost for part in archive):
                        return False
            return True
        return False

    def _write_file(self, snapshot: Snapshot, after: int, joined: Sequence[str], present_files: Sequence[str]) -> int:
        """Write a file with later events and joined files; remove these.

        With `after` 0 all events are written from the store, and every present file goes. Return how many were written from
        the store.
        """
        number = max((int(match[1]) for name in present_files if (match := _FILE.match(name))), default=0) + 1
        name = f"events-{number:08}-{secrets.token_hex(4)}.archive"
        self._state.passing = [name]
        self._store_state()
        new = 0

        def batches() -> Iterator[TableRows]:
            nonlocal new
            for old in joined if after else ():
                with Archive(self._path / old) as archive:
                    blocks_read = (part for part in archive if isinstance(part, Block))
                    yield from (TableRows(part.head.table, part.head.columns, part.rows) for part in blocks_read)
            for part in snapshot.iter_shared("event", after):
                rows = [row for row in (self._clean_row(part.columns, row) for row in part.rows) if row is not None]
                new += len(rows)
                yield TableRows(part.table, part.columns, rows)

        about = {"kind": "events", "schema": snapshot.schema, "machine": self.machine}
        heads = blocks.write_archive(self._path / name, batches(), about)
        failpoint("sync.written")
        old_files = [old for old in (joined if after else present_files) if old != name]
        self._state.files = {n: r for n, r in self._state.files.items() if n not in old_files}
        self._state.files[name] = sum(head.rows for head in heads)
        self._state.passing = old_files
        self._store_state({self._position_name: str(snapshot.last_seq)})
        failpoint("sync.noted")
        self._remove_unfinished()
        return new

    def _clean_row(self, columns: Sequence[str], row: Sequence[Any]) -> Sequence[Any] | None:
        """Return a row of events as it may go out; None when it may not."""
        [draft] = parse_drafts(TableRows("event", tuple(columns), [row]))
        clean = self._clean(draft)
        if clean is None or clean == draft or clean.original is None:
            return None if clean is None else row
        values = {**dict(zip(columns, row, strict=True)), "event_id": event_key(clean.original.event_id)}
        values |= {name: getattr(clean, name) for name in _WORDS}
        values["metadata"] = json.dumps(dict(clean.metadata)) if clean.metadata else ""
        return [values[name] for name in columns]

    def _clean_old_files(self) -> None:
        """Clean older files of what was forgotten since.

        The folder may have been out of reach when it was forgotten. Unreadable files stay.
        """

        def keep(_: str, row: dict[str, Any]) -> dict[str, Any] | None:
            cleaned = self._clean_row(tuple(row), tuple(row.values()))
            return None if cleaned is None else dict(zip(row, cleaned, strict=True))

        # Earlier folders of this machine and copies that a program made of a file, too.
        for name in list_machines(self._data_dir):
            for path in sorted((self._folder / name).glob("events-*.archive")):
                with suppress(ValueError, FileNotFoundError, foreign_files.NotAFile):
                    blocks.rewrite_archive(path, keep)
        self._state.tombstones = self._tombstones
        self._store_state()


def list_own_folders(storage: Storage, data_dir: Path) -> list[Path]:
    """Return the folders that this machine wrote into.

    In every shared folder the store knows; they need not exist. Raises StorageError when the file of their names is damaged.
    """
    names = list_machines(data_dir)
    folders = {shelf.place for name in names if (shelf := _load_state(storage, name)) is not None}
    return [Path(folder) / name for folder in sorted(folders) for name in names]


def was_used_before(storage: Storage, folder: Path) -> bool:
    """Return whether this memory wrote into this shared folder."""
    positions = storage.outbox.get_positions(_OWN)
    return any((shelf := _load_state(storage, name.removeprefix(_OWN))) and shelf.place == str(folder) for name in positions)


def _load_state(storage: Storage, machine: str) -> FolderState | None:
    name = f"{_OWN}{machine}"
    with suppress(ValueError, TypeError):
        document = json.loads(storage.outbox.get_positions(name).get(name, ""))
        return FolderState(
            **{field_name: document[field_name] for field_name in FolderState.__dataclass_fields__ if field_name in document}
        )
    return None


def _list_files(folder: Path) -> list[str]:
    with suppress(FileNotFoundError):
        return sorted(path.name for path in folder.iterdir() if _FILE.match(path.name))
    return []


def list_machines(data_dir: Path) -> list[str]:
    """Return the folder names this machine ever had, newest last.

    Raises StorageError when their file is damaged.
    """
    path = data_dir / _ID
    try:
        ids = foreign_files.read_file(path).decode("ascii", "replace").split()
    except FileNotFoundError:
        return []
    if not all(re.fullmatch(r"[0-9a-f]{32}", machine_id) for machine_id in ids):
        raise StorageError(f"{path} is damaged", "Delete it: this memory then writes into a new folder of its own.")
    return [f"{MACHINE}{machine_id}" for machine_id in ids]
