"""Files of an index: written to a new folder; read once, verified, then used from a private copy.

Another process that truncates a mapped file kills its readers, and one that changes it gives wrong answers. So
a shard is copied, while its checksums are computed, into an unnamed file (large ones, whose pages the system
may drop) or into memory, and searched there: changes of the files are detected, but do no harm.
"""

import hashlib
import io
import json
import mmap
import os
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from memory_mcp.base import machine
from memory_mcp.base.dataclass import dataclass
from memory_mcp.base.errors import IndexUnreadable

Array = NDArray[Any]

_CHUNK = 1 << 20
#: Bytes up to which a part is kept in memory: mapping it would cost more.
_IN_MEMORY = 1 << 20
_ALIGN = 64
#: Bytes above which a part is synced: building it again takes seconds.
_SYNCED_FROM = 8 << 20


@dataclass(frozen=True, slots=True)
class FileChecksum:
    """Expected size and digest of a file."""

    size: int
    digest: str


def write_arrays(path: Path, arrays: Mapping[str, Array]) -> None:
    """Write arrays in numpy's format, ordered by name; not synced."""
    with os.fdopen(os.open(path, os.O_CREAT | os.O_WRONLY | os.O_TRUNC | machine.PRIVATE, 0o600), "wb") as f:
        for name in sorted(arrays):
            np.lib.format.write_array(f, np.ascontiguousarray(arrays[name]), version=(1, 0), allow_pickle=False)


def seal_folder(directory: Path) -> dict[str, FileChecksum]:
    """Return checksums of a folder's files; sync them above 8 MiB.

    Small shards are not synced: that delayed commits of a busy store by a second. A killed process loses none of
    them; what a power failure takes is detected by its checksum, and built again. All files become private (0600).
    Raises OSError.
    """
    files = sorted(p for p in directory.rglob("*") if p.is_file())
    durable = sum(p.stat().st_size for p in files) > _SYNCED_FROM
    checksums = {}
    for path in files:
        digest, size = hashlib.blake2b(digest_size=16), 0
        with _open_file(path) as f:
            while block := f.read(_CHUNK):
                digest.update(block)
                size += len(block)
            if durable:
                os.fsync(f.fileno())
        path.chmod(0o600)
        checksums[path.relative_to(directory).as_posix()] = FileChecksum(size, digest.hexdigest())
    if durable:
        for folder in (*(p for p in directory.rglob("*") if p.is_dir()), directory, directory.parent):
            machine.sync_names(folder)
    return checksums


class FolderContents:
    """The verified files of one folder, copied, or mapped if trusted."""

    def __init__(self, directory: Path, files: Mapping[str, FileChecksum], scratch: Path, trusted: bool = False) -> None:
        """Read files into memory, above 1 MiB into an unnamed file.

        That is made in the folder `scratch`. Larger `trusted` files are mapped in place, their digests unchecked:
        reading 556 MB takes 2 s, which a first answer would wait for. Raises IndexUnreadable when a file is missing, of
        another size or, unless mapped, changed.
        """
        self._views: dict[str, memoryview] = {}
        #: Files mapped in place; one that was truncated since must not be read (see `cut_short`).
        self.maps: dict[str, mmap.mmap] = {}
        total = sum(f.size + _ALIGN for f in files.values())
        if total <= _IN_MEMORY:
            self._copy_all(directory, files, io.BytesIO())
        elif trusted:  # not small ones: every mapped file stays open
            self.maps = {name: _map_file(directory / name, expected.size) for name, expected in files.items() if expected.size}
            self._views = {name: memoryview(self.maps.get(name, b"")) for name in files}
        else:
            with _scratch_file(scratch) as scratch_file:
                self._copy_all(directory, files, scratch_file)

    def _copy_all(self, directory: Path, files: Mapping[str, FileChecksum], sink: Any) -> None:
        """Raises IndexUnreadable if a file is missing, unreadable or changed."""
        places: dict[str, tuple[int, int]] = {}
        at = 0
        for name, expected in files.items():
            at += sink.write(b"\0" * (-at % _ALIGN))
            size = _copy_file(directory / name, expected, sink)
            places[name] = (at, size)
            at += size
        sink.flush()
        in_memory = isinstance(sink, io.BytesIO)
        view = memoryview(sink.getvalue() if in_memory else mmap.mmap(sink.fileno(), 0, access=mmap.ACCESS_READ))
        self._views = {name: view[at : at + size] for name, (at, size) in places.items()}

    def __contains__(self, name: str) -> bool:
        """Return whether a file was read."""
        return name in self._views

    def bytes_of(self, name: str) -> memoryview:
        """Return a view of a file's bytes; raises KeyError if not read."""
        return self._views[name]

    def json_of(self, name: str) -> Any:
        """Return a file parsed as JSON; raises KeyError or ValueError."""
        return json.loads(bytes(self.bytes_of(name)))

    def read_array(self, name: str) -> Array:
        """Return the first array in a file, a read-only view."""
        return self._read_array_at(name, 0)[0]

    def read_arrays(self, name: str, names: Iterable[str]) -> dict[str, Array]:
        """Return what `write_arrays` wrote; `names` must be all of them."""
        arrays, at = {}, 0
        for key in sorted(names):
            arrays[key], at = self._read_array_at(name, at)
        return arrays

    def _read_array_at(self, name: str, offset: int) -> tuple[Array, int]:
        data = self.bytes_of(name)
        head = io.BytesIO(bytes(data[offset : offset + 4096]))
        np.lib.format.read_magic(head)
        shape, _, dtype = np.lib.format.read_array_header_1_0(head)
        start = offset + head.tell()
        count = int(np.prod(shape))
        array = np.frombuffer(data, dtype=dtype, count=count, offset=start).reshape(shape)
        return array, start + count * dtype.itemsize


def is_truncated(maps: Iterable[mmap.mmap]) -> bool:
    """Return whether a mapped file was cut, so that reading it kills."""
    return any(file_map.size() < len(file_map) for file_map in maps)


def _open_file(path: Path) -> BinaryIO:
    """Raises OSError for one, and as `open`."""
    return open(os.open(path, os.O_RDONLY | machine.PRIVATE), "rb")  # noqa: PTH123 - a descriptor, no path


def _map_file(path: Path, size: int) -> mmap.mmap:
    """Raises IndexUnreadable if that fails or the size differs."""
    try:
        with _open_file(path) as f:
            file_map = mmap.mmap(f.fileno(), 0, access=mmap.ACCESS_READ)
    except (OSError, ValueError) as error:
        raise IndexUnreadable(f"{path.name} of the index cannot be read: {error}") from error
    if len(file_map) != size:
        raise IndexUnreadable(f"{path.name} of the index is damaged")
    return file_map


def _scratch_file(scratch: Path) -> Any:
    try:
        return tempfile.TemporaryFile(dir=scratch)
    except OSError:
        return io.BytesIO()


def _copy_file(path: Path, expected: FileChecksum, sink: Any) -> int:
    """Return the size in bytes; raises IndexUnreadable, maybe half way."""
    digest, size = hashlib.blake2b(digest_size=16), 0
    try:
        with _open_file(path) as f:
            while block := f.read(_CHUNK):
                digest.update(block)
                size += len(block)
                sink.write(block)
                if size > expected.size:
                    break
    except FileNotFoundError:
        raise IndexUnreadable(f"{path.name} of the index is missing") from None
    except OSError as error:
        raise IndexUnreadable(f"{path.name} of the index cannot be read: {error.strerror}") from error
    if size != expected.size or digest.hexdigest() != expected.digest:
        raise IndexUnreadable(f"{path.name} of the index is damaged")
    return size
