"""Generations on disk: which shards make up an index, and how a generation is replaced.

    <data dir>/indexes/bm25/CURRENT            the name of a manifest
                            gen-000007.json    position, fingerprint, store, shards with checksums, dead units
                            parts/<name>/      files of one shard, never changed

Invariants
1. CURRENT is renamed into place after everything it refers to is written: after a kill at any point one generation is whole,
   and following continues from its position. Small files lost in a power failure (see `files.seal_folder`) fail their checksums.
2. A manifest is used only for the store and the fingerprint it was made with, and only if its checksum is right.
3. Nothing that CURRENT refers to is removed.
"""

import hashlib
import json
import os
import re
import shutil
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, field
from pathlib import Path
from typing import Any

from memory_mcp.base import machine
from memory_mcp.base.dataclass import dataclass
from memory_mcp.base.errors import IndexUnreadable
from memory_mcp.base.failpoints import failpoint
from memory_mcp.indexes.base import Position
from memory_mcp.indexes.files import FileChecksum

#: File of the stamps of verified files; not named by a manifest, never swept.
_STAMPS = "stamps"
_CURRENT, _PARTS = "CURRENT", "parts"
_NAME = re.compile(r"gen-([0-9]{6,})\Z")
#: Allowed names of parts and their files: no path out of the folder.
_PART = re.compile(r"[a-z0-9-]+\Z")
_FILE = re.compile(r"(?:[a-z_]+/)?[a-z_.]+\Z")


@dataclass(frozen=True, slots=True)
class ShardEntry:
    """A shard in a manifest."""

    name: str
    files: Mapping[str, FileChecksum]
    #: Indices of units that were replaced or dropped.
    dead: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Manifest:
    """One generation."""

    number: int
    store_id: str
    fingerprint: Mapping[str, Any]
    position: Position
    shards: tuple[ShardEntry, ...]
    committed_ms: int
    #: Time by level before which units are left out (UTC milliseconds).
    cutoffs: Mapping[str, int] = field(default_factory=dict)
    pruned: Mapping[str, int] = field(default_factory=dict)
    pruned_ms: int = 0

    @property
    def name(self) -> str:
        """The name of the generation in CURRENT: "gen-000007"."""
        return f"gen-{self.number:06d}"


def check_origin(manifest: Manifest, store_id: str, last_change: int, subject_of_change: Callable[[int], str]) -> None:
    """Raise IndexUnreadable if a generation is of another store or history.

    `last_change` is the store's newest; `subject_of_change` returns the subject of a change, "" if unknown, which is accepted.
    """
    if manifest.store_id != store_id:
        raise IndexUnreadable("it belongs to another store")
    position = manifest.position
    if position.outbox > last_change:
        raise IndexUnreadable("it has followed further than the store reaches: the store is an older copy")
    if position.mark and subject_of_change(position.outbox) not in ("", position.mark):
        raise IndexUnreadable("it has followed another history of this store: the store was an older copy since")


class IndexFolder:
    """The folder of one index."""

    def __init__(self, directory: Path) -> None:
        """Use a folder, which may be missing."""
        self.directory = directory
        self.shards_path = directory / _PARTS
        #: Prefixes of parts that are being made, which `sweep` spares.
        self.protected_prefixes: set[str] = set()
        #: Called before a manifest is written: has the store's changes on disk up to its position.
        self.store_changes: Callable[[], object] = lambda: None

    def create_folders(self) -> None:
        """Create the folder and that of shards. Raises OSError.

        The data directory must exist; a file in place of the folder of shards is removed.
        """
        if self.shards_path.is_file():
            self.shards_path.unlink()
        for folder in (self.directory.parent, self.directory, self.shards_path):
            folder.mkdir(mode=0o700, exist_ok=True)

    def read_current(self) -> Manifest | None:
        """Return the current manifest; None without, IndexUnreadable if damaged."""
        try:
            name = (self.directory / _CURRENT).read_text(encoding="ascii").strip()
        except FileNotFoundError:
            return None
        except (OSError, UnicodeDecodeError) as error:
            raise IndexUnreadable("CURRENT of the index cannot be read") from error
        if not _NAME.match(name):
            raise IndexUnreadable("CURRENT of the index is damaged")
        try:
            text = (self.directory / f"{name}.json").read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise IndexUnreadable(f"{name}.json of the index cannot be read") from error
        return _parse_manifest(text, name)

    def make_current(self, manifest: Manifest) -> None:
        """Write a manifest and make it current, durably. Raises OSError, and StorageError if its changes cannot be stored."""
        self.store_changes()
        self.create_folders()
        machine.put(self.directory / f"{manifest.name}.json", _serialize_manifest(manifest).encode("utf-8"))
        failpoint("index.manifest_written")
        if (self.directory / _CURRENT).is_dir():
            # Not ours, and nothing can be renamed over it.
            (self.directory / _CURRENT).rename(self.directory / f"{_CURRENT}-{manifest.name}-aside")
        machine.put(self.directory / _CURRENT, f"{manifest.name}\n".encode("ascii"))
        failpoint("index.swapped")

    def next_number(self) -> int:
        """Return a number above those of all manifests in the folder."""
        numbers = [int(m[1]) for p in self.directory.glob("gen-*.json") if (m := _NAME.match(p.stem))]
        return max(numbers, default=0) + 1

    def remove_unused(self, manifest: Manifest | None) -> None:
        """Remove what `manifest` does not name: shards, manifests, aborted writes.

        Spared are CURRENT, the stamps, and shards with a prefix in `protected_prefixes`.
        """
        shard_names = {p.name for p in manifest.shards} if manifest else set()
        for path in sorted(self.shards_path.iterdir()) if self.shards_path.is_dir() else ():
            if path.name not in shard_names and path.name.partition("-")[0] not in self.protected_prefixes:
                shutil.rmtree(path, ignore_errors=True)
        for path in sorted(self.directory.iterdir()) if self.directory.is_dir() else ():
            stale = path.suffix in (".json", ".new") and (manifest is None or path.name != f"{manifest.name}.json")
            if stale and path.is_file():
                path.unlink(missing_ok=True)
        failpoint("index.swept")

    def read_stamps(self, manifest: Manifest) -> dict[str, tuple[int, ...]] | None:
        """Return the stamp of each file; None if one is missing.

        A stamp is size, mtime, ctime (ns) and inode; CURRENT and the manifest are among the files.
        """
        names = [_CURRENT, f"{manifest.name}.json"]
        names += [f"{_PARTS}/{p.name}/{f}" for p in manifest.shards for f in p.files]
        stamps: dict[str, tuple[int, ...]] = {}
        for name in names:
            try:
                stat = os.stat(f"{self.directory}/{name}")  # noqa: PTH116  # hundreds a second
            except OSError:
                return None
            stamps[name] = (stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns, stat.st_ino)
        return stamps

    def save_stamps(self, stamps: Mapping[str, tuple[int, ...]] | None) -> None:
        """Store the stamps of verified files; errors are ignored."""
        aside = self.directory / f"{_STAMPS}.new"
        with suppress(OSError):
            aside.touch(0o600)
            aside.write_text(json.dumps(stamps), encoding="utf-8")
            aside.replace(self.directory / _STAMPS)

    def trusted_shards(self, manifest: Manifest, stamps: Mapping[str, tuple[int, ...]] | None) -> frozenset[str]:
        """Return shards all of whose files have the stored stamps.

        Every change of a file changes its stamp, because the change time cannot be set.
        """
        try:
            document = json.loads((self.directory / _STAMPS).read_text(encoding="utf-8"))
            stored_stamps = {name: tuple(stamp) for name, stamp in document.items()}
        except (OSError, ValueError, AttributeError, TypeError):
            return frozenset()
        same = {name for name, stamp in (stamps or {}).items() if stored_stamps.get(name) == stamp}
        return frozenset(p.name for p in manifest.shards if all(f"{_PARTS}/{p.name}/{f}" in same for f in p.files))


def _serialize_manifest(manifest: Manifest) -> str:
    value = {
        "number": manifest.number,
        "store_id": manifest.store_id,
        "fingerprint": manifest.fingerprint,
        "position": asdict(manifest.position),
        "committed_ms": manifest.committed_ms,
        "cutoffs": dict(manifest.cutoffs),
        "pruned": dict(manifest.pruned),
        "pruned_ms": manifest.pruned_ms,
        "parts": [
            {"name": p.name, "files": {n: [c.size, c.digest] for n, c in p.files.items()}, "dead": list(p.dead)}
            for p in manifest.shards
        ],
    }
    return json.dumps({"checksum": _compute_checksum(value), "manifest": value})


def _parse_manifest(text: str, name: str) -> Manifest:
    """Raises IndexUnreadable if damaged, or it names files of other folders."""
    try:
        document = json.loads(text)
        value = document["manifest"]
        if document["checksum"] != _compute_checksum(value):
            raise ValueError
        manifest = Manifest(
            number=value["number"],
            store_id=value["store_id"],
            fingerprint=value["fingerprint"],
            position=Position(**value["position"]),
            shards=tuple(
                ShardEntry(p["name"], {n: FileChecksum(*c) for n, c in p["files"].items()}, tuple(p["dead"]))
                for p in value["parts"]
            ),
            committed_ms=value["committed_ms"],
            cutoffs=value["cutoffs"],
            pruned=value["pruned"],
            pruned_ms=value["pruned_ms"],
        )
    except (ValueError, KeyError, TypeError) as error:
        raise IndexUnreadable(f"{name}.json of the index is damaged") from error
    if not all(_PART.match(p.name) and all(map(_FILE.match, p.files)) for p in manifest.shards):
        raise IndexUnreadable(f"{name}.json of the index names files that are not its own")
    if manifest.name != name:
        raise IndexUnreadable(f"{name}.json of the index is another generation's")
    return manifest


def _compute_checksum(value: Mapping[str, Any]) -> str:
    data = json.dumps(value, sort_keys=True).encode()
    return hashlib.blake2b(data, digest_size=16).hexdigest()
