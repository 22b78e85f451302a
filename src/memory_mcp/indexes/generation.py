"""Generations on disk: which parts make up an index now, what they were built from, and how one takes another's place.

    <data dir>/indexes/bm25/CURRENT            the name of a manifest
                            gen-000007.json    position, fingerprint, store, parts with checksums, units that do not count
                            parts/<name>/      files of one part, never changed

Invariants
1. CURRENT is renamed into place after everything it leads to is written; killed anywhere, one generation is whole, and
   following goes on from its position. What a power cut takes of small files (see `files.seal`), their checksums tell.
2. A manifest is used only for the store and the fingerprint it was made with, and only if its checksum holds.
3. Nothing is removed that CURRENT leads to.
"""

import hashlib
import json
import os
import re
import shutil
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from memory_mcp import machine
from memory_mcp.errors import IndexUnreadable
from memory_mcp.failpoints import failpoint
from memory_mcp.indexes.base import Position
from memory_mcp.indexes.files import Checked

#: Stamps of the files that were verified; no manifest's business, and swept by nobody.
_STAMPS = "stamps"
_CURRENT, _PARTS = "CURRENT", "parts"
_NAME = re.compile(r"gen-([0-9]{6,})\Z")
#: What a part and its files may be called: nothing that leads out of the folder.
_PART = re.compile(r"[a-z0-9-]+\Z")
_FILE = re.compile(r"(?:[a-z_]+/)?[a-z_.]+\Z")


@dataclass(frozen=True, slots=True)
class PartEntry:
    """A part as a manifest names it."""

    name: str
    files: Mapping[str, Checked]
    #: Places of units that have been replaced or dropped.
    dead: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Manifest:
    """One generation."""

    number: int
    store_id: str
    fingerprint: Mapping[str, Any]
    position: Position
    parts: tuple[PartEntry, ...]
    committed_ms: int
    #: By level: units that ended before are left out (UTC milliseconds).
    cutoffs: Mapping[str, int] = field(default_factory=dict)
    pruned: Mapping[str, int] = field(default_factory=dict)
    pruned_ms: int = 0

    @property
    def name(self) -> str:
        """As CURRENT says it."""
        return f"gen-{self.number:06d}"


def check_origin(manifest: Manifest, store_id: str, last_change: int, named: Callable[[int], str]) -> None:
    """Raise IndexUnreadable where a generation was made from another store, or from another history of this one.

    `last_change` is the store's newest, `named` says what one of its changes is about ("": it cannot tell).
    """
    if manifest.store_id != store_id:
        raise IndexUnreadable("it belongs to another store")
    place = manifest.position
    if place.outbox > last_change:
        raise IndexUnreadable("it has followed further than the store reaches: the store is an older copy")
    if place.mark and named(place.outbox) not in ("", place.mark):
        raise IndexUnreadable("it has followed another history of this store: the store was an older copy since")


class Home:
    """The folder of one index."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.parts = directory / _PARTS
        #: Beginnings of the names of parts that are being made: not to be swept.
        self.building: set[str] = set()

    def prepare(self) -> None:
        """Make the folder and the one it lies in, if they are missing; a file in the place of its parts is none of ours.

        A data directory that was taken away is not made again.
        """
        if self.parts.is_file():
            self.parts.unlink()
        for folder in (self.directory.parent, self.directory, self.parts):
            folder.mkdir(mode=0o700, exist_ok=True)

    def current(self) -> Manifest | None:
        """The manifest in force; None where there is none; IndexUnreadable when it cannot be used."""
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
        return _parsed(text, name)

    def put(self, manifest: Manifest) -> None:
        """Make a manifest the one in force: durable before this returns."""
        self.prepare()
        machine.put(self.directory / f"{manifest.name}.json", _written(manifest).encode("utf-8"))
        failpoint("index.manifest_written")
        if (self.directory / _CURRENT).is_dir():
            # None of ours, and nothing can be renamed over it.
            (self.directory / _CURRENT).rename(self.directory / f"{_CURRENT}-{manifest.name}-aside")
        machine.put(self.directory / _CURRENT, f"{manifest.name}\n".encode("ascii"))
        failpoint("index.swapped")

    def next_number(self) -> int:
        """A number above every manifest's that is here."""
        numbers = [int(m[1]) for p in self.directory.glob("gen-*.json") if (m := _NAME.match(p.stem))]
        return max(numbers, default=0) + 1

    def sweep(self, manifest: Manifest | None) -> None:
        """Remove what `manifest` does not lead to: parts and manifests of earlier generations, builds that were cut off."""
        wanted = {p.name for p in manifest.parts} if manifest else set()
        for path in _entries(self.parts):
            if path.name not in wanted and path.name.partition("-")[0] not in self.building:
                shutil.rmtree(path, ignore_errors=True)
        for path in _entries(self.directory):
            stale = path.suffix in (".json", ".new") and (manifest is None or path.name != f"{manifest.name}.json")
            if stale and path.is_file():
                path.unlink(missing_ok=True)
        failpoint("index.swept")

    def stamps(self, manifest: Manifest) -> dict[str, tuple[int, ...]] | None:
        """For each file of a generation what changes with any change to it; None when one is missing."""
        names = [_CURRENT, f"{manifest.name}.json"]
        names += [f"{_PARTS}/{p.name}/{f}" for p in manifest.parts for f in p.files]
        found: dict[str, tuple[int, ...]] = {}
        for name in names:
            try:
                stat = os.stat(f"{self.directory}/{name}")  # noqa: PTH116  # hundreds a second
            except OSError:
                return None
            found[name] = (stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns, stat.st_ino)
        return found

    def remember(self, stamps: Mapping[str, tuple[int, ...]] | None) -> None:
        """Keep the stamps of files that were read whole or written here. They need not be kept: then all are read again."""
        aside = self.directory / f"{_STAMPS}.new"
        with suppress(OSError):
            aside.touch(0o600)
            aside.write_text(json.dumps(stamps), encoding="utf-8")
            aside.replace(self.directory / _STAMPS)

    def trusted(self, manifest: Manifest, stamps: Mapping[str, tuple[int, ...]] | None) -> frozenset[str]:
        """Return the parts whose files have not been touched since they were read whole or written.

        A change of a file changes its stamp: nobody can set the time at which a file was changed last.
        """
        try:
            told = json.loads((self.directory / _STAMPS).read_text(encoding="utf-8"))
            known = {name: tuple(stamp) for name, stamp in told.items()}
        except (OSError, ValueError, AttributeError, TypeError):
            return frozenset()
        same = {name for name, stamp in (stamps or {}).items() if known.get(name) == stamp}
        return frozenset(p.name for p in manifest.parts if all(f"{_PARTS}/{p.name}/{f}" in same for f in p.files))

    def size_bytes(self) -> int:
        """Everything in the folder."""
        return sum(p.stat().st_size for p in self.directory.rglob("*") if p.is_file())


def _entries(directory: Path) -> Iterable[Path]:
    return sorted(directory.iterdir()) if directory.is_dir() else ()


def _written(manifest: Manifest) -> str:
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
            for p in manifest.parts
        ],
    }
    return json.dumps({"checksum": _checksum(value), "manifest": value})


def _parsed(text: str, name: str) -> Manifest:
    try:
        whole = json.loads(text)
        value = whole["manifest"]
        if whole["checksum"] != _checksum(value):
            raise ValueError
        found = Manifest(
            number=value["number"],
            store_id=value["store_id"],
            fingerprint=value["fingerprint"],
            position=Position(**value["position"]),
            parts=tuple(
                PartEntry(p["name"], {n: Checked(*c) for n, c in p["files"].items()}, tuple(p["dead"])) for p in value["parts"]
            ),
            committed_ms=value["committed_ms"],
            cutoffs=value["cutoffs"],
            pruned=value["pruned"],
            pruned_ms=value["pruned_ms"],
        )
    except (ValueError, KeyError, TypeError) as error:
        raise IndexUnreadable(f"{name}.json of the index is damaged") from error
    if not all(_PART.match(p.name) and all(map(_FILE.match, p.files)) for p in found.parts):
        raise IndexUnreadable(f"{name}.json of the index names files that are not its own")
    if found.name != name:
        raise IndexUnreadable(f"{name}.json of the index is another generation's")
    return found


def _checksum(value: Mapping[str, Any]) -> str:
    data = json.dumps(value, sort_keys=True).encode()
    return hashlib.blake2b(data, digest_size=16).hexdigest()
