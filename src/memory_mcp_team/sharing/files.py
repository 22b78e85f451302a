"""Files about sharing next to the store: the server and its key, which projects are shared, and ids of what left or came.

None of it goes into a backup: a store that is brought back must share no more than was shared when it was replaced.

Invariants
1. Files are readable by this user alone. The key has a file of its own.
2. `Ledger` only grows, and is on disk when `add` returns. Without it events are sent once more, and are known there.
3. A project is shared under one name, by the ways (see `make_route_digest`) that led to it when it was shared.
"""

import json
import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict, field, fields, replace
from pathlib import Path
from typing import Any

from memory_mcp.base import foreign_files, machine, paths
from memory_mcp.base.dataclass import dataclass
from memory_mcp.base.errors import StorageError
from memory_mcp.model.ids import EventId, event_id_from, event_key, hash_parts

#: The folder in the data directory, and the variable with the key for `share to`.
FOLDER, KEY_VARIABLE = "share", f"{paths.PREFIX}SHARE_KEY"
_CONFIG, _KEY, _PROGRESS = "share.json", "key", "progress.json"
#: A record of the ledger: who published it, the id here, the id there.
_ID_BYTES = 16
_RECORD_BYTES = 1 + 2 * _ID_BYTES
OURS, THEIRS = b"o", b"i"


@dataclass(frozen=True, slots=True)
class SharedProject:
    """A project that is published, and to which space."""

    space: str
    since_ms: int
    #: Digests of the ways that lead to it.
    ways: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Sharing:
    """The server, its space, and the published projects. On disk: fields may be added."""

    url: str = ""
    #: Whose changes are pulled.
    space: str = ""
    insecure: bool = False
    since_ms: int = 0
    projects: Mapping[str, SharedProject] = field(default_factory=dict)

    @property
    def spaces(self) -> list[str]:
        """Every space with which something is exchanged, the server's first."""
        return list(dict.fromkeys((self.space, *(project.space for project in self.projects.values()))))


@dataclass(slots=True)
class Progress:
    """What a person is shown; nothing depends on it. On disk: fields may be added."""

    last_ok_ms: int = 0
    offline_since_ms: int = 0
    error: str = ""
    #: By space: member and role.
    roles: dict[str, list[str]] = field(default_factory=dict)
    #: By project: events that left, and when last.
    left: dict[str, list[int]] = field(default_factory=dict)
    #: By project: events that came, when last, and by whom.
    came: dict[str, list[int]] = field(default_factory=dict)
    people: dict[str, int] = field(default_factory=dict)
    #: Events that were kept back by a rule, by reason; and what the server refused, the latest last.
    kept_back: dict[str, int] = field(default_factory=dict)
    refused: list[dict[str, str]] = field(default_factory=list)
    forgotten_there: int = 0
    forgotten_here: int = 0
    corrected: int = 0
    #: Own events that others forgot and that are still here, until a person agrees.
    held: int = 0


class ShareFolder:
    """The folder for sharing of a data directory."""

    def __init__(self, directory: Path) -> None:
        self._folder = directory / FOLDER

    def load_sharing(self) -> Sharing:
        """Return what is shared now; StorageError if the file is damaged."""
        try:
            document = json.loads(foreign_files.read_file(self._folder / _CONFIG))
            projects = {
                name: SharedProject(str(project["space"]), int(project["since_ms"]), tuple(project["ways"]))
                for name, project in document.pop("projects", {}).items()
            }
            field_names = {f.name for f in fields(Sharing)}
            return replace(Sharing(**{k: v for k, v in document.items() if k in field_names}), projects=projects)
        except FileNotFoundError:
            return Sharing()
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            text = f"{self._folder / _CONFIG} is damaged: nothing is shared"
            raise StorageError(text, "Say again what is shared: memory-mcp share to URL, share add PROJECT.") from error

    def save_sharing(self, sharing: Sharing) -> None:
        """Replace what is shared, on disk when this returns."""
        self._write_file(_CONFIG, json.dumps(asdict(sharing), indent=1).encode())

    @property
    def key(self) -> str:
        """The key of the server, or ""."""
        with suppress(OSError):
            return foreign_files.read_file(self._folder / _KEY).decode("ascii", "replace").strip()
        return ""

    def save_key(self, key: str) -> None:
        """Store the key for this user alone; "" removes it."""
        if key:
            self._write_file(_KEY, f"{key}\n".encode())
        else:
            (self._folder / _KEY).unlink(missing_ok=True)

    def load_progress(self) -> Progress:
        """Return the stored outcome of the last runs."""
        with suppress(OSError, ValueError, TypeError):
            document: dict[str, Any] = json.loads(foreign_files.read_file(self._folder / _PROGRESS))
            return Progress(**{f.name: document[f.name] for f in fields(Progress) if f.name in document})
        return Progress()

    def save_progress(self, progress: Progress) -> None:
        """Replace the outcome of the runs."""
        self._write_file(_PROGRESS, json.dumps(asdict(progress)).encode())

    def open_ledger(self, url: str, space: str) -> "Ledger":
        """Return the ledger of a server's space."""
        return Ledger(self._folder / f"{make_space_mark(url, space)}.ids")

    def _write_file(self, name: str, content: bytes) -> None:
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        machine.put(self._folder / name, content)


def make_space_mark(url: str, space: str) -> str:
    """Return the name of a server's space in files and marks."""
    return f"{hash_parts('space', url, space, bits=64):016x}"


class Ledger:
    """Ids of events that a space is known to have, here and there."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._pairs: dict[int, tuple[bytes, int]] | None = None

    def add_pairs(self, kind: bytes, pairs: Iterable[tuple[EventId, EventId]]) -> None:
        """Store pairs (id of an event here, its id there).

        `kind` says who published them, `OURS` or `THEIRS`. A known event keeps its kind, and takes the new id there.
        """
        stored_ids = self._load_pairs()
        keys = [(event_key(local_id), event_key(space_id)) for local_id, space_id in pairs]
        new = [
            (stored_ids.get(local_key, (kind, 0))[0], local_key, space_key)
            for local_key, space_key in keys
            if stored_ids.get(local_key, (b"", 0))[1] != space_key
        ]
        if not new:
            return
        self._file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(self._file, os.O_RDWR | os.O_CREAT | machine.PRIVATE, 0o600)
        with os.fdopen(descriptor, "r+b") as stream:
            # What a crash left of a record must not shift those after it.
            size = stream.seek(0, os.SEEK_END) // _RECORD_BYTES * _RECORD_BYTES
            stream.truncate(size)
            stream.seek(size)
            stream.write(
                b"".join(
                    who + local_key.to_bytes(_ID_BYTES, "big") + space_key.to_bytes(_ID_BYTES, "big")
                    for who, local_key, space_key in new
                )
            )
            machine.on_disk(stream)
        stored_ids.update({local_key: (who, space_key) for who, local_key, space_key in new})

    def find_space_id(self, event_id: EventId) -> EventId | None:
        """Return an event's id in the space, or None."""
        stored_id = self._load_pairs().get(event_key(event_id))
        return event_id_from(stored_id[1]) if stored_id else None

    def map_local_ids(self) -> dict[EventId, tuple[EventId, bool]]:
        """Return by id there (id here, whether published from here)."""
        return {
            event_id_from(space_key): (event_id_from(local_key), kind == OURS)
            for local_key, (kind, space_key) in self._load_pairs().items()
        }

    def __contains__(self, event_id: EventId) -> bool:
        return event_key(event_id) in self._load_pairs()

    def _load_pairs(self) -> dict[int, tuple[bytes, int]]:
        if self._pairs is None:
            stored_ids: dict[int, tuple[bytes, int]] = {}
            with suppress(FileNotFoundError):
                raw = foreign_files.read_file(self._file, -1)
                # What a crash left of a record is passed over.
                for at in range(0, len(raw) // _RECORD_BYTES * _RECORD_BYTES, _RECORD_BYTES):
                    local_key, space_key = raw[at + 1 : at + 1 + _ID_BYTES], raw[at + 1 + _ID_BYTES : at + _RECORD_BYTES]
                    stored_ids[int.from_bytes(local_key, "big")] = (raw[at : at + 1], int.from_bytes(space_key, "big"))
            self._pairs = stored_ids
        return self._pairs
