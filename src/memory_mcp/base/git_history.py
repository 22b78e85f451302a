"""Finds the commit with which the history of a repository begins: a git directory in, an id of 40 or 64 digits out.

Git is never run and nothing is written. What a history is read from may have been made by others: only regular files are opened,
each is unpacked within a bound, and a walk ends after `_COMMITS` commits.
"""

import re
import struct
from bisect import bisect_left
from pathlib import Path

from memory_mcp.base import foreign_files

#: Commits that are walked through at most (0.25 s), and bytes of one that are unpacked.
_COMMITS, _COMMIT_BYTES = 2_000, 16 * 1024
#: Bytes of a reference and of an index of a pack, and packs that are looked into.
_REFERENCE, _INDEX, _PACKS = 4_096, 64 * 1024 * 1024, 50
_ID = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
_PARENT = re.compile(rb"^parent ([0-9a-f]{40,64})$", re.M)
#: Kinds of an object in a pack, and differences that one may be made of.
_COMMIT, _OFFSET_DELTA, _REFERENCE_DELTA, _CHAIN = 1, 6, 7, 60
_MAGIC = b"\xfftOc\0\0\0\2"


def root_commit(git_dir: Path, common: Path) -> str:
    """Return the first commit behind HEAD, "" for none.

    By first parents. None is found in a shallow clone and behind more than 2,000 commits.

    Args:
        git_dir: The git directory of a working tree, which has its HEAD.
        common: The git directory that all working trees share, which has the objects; the same where there is one.

    """
    try:
        commit, objects = read_head(git_dir, common), _Objects(common / "objects")
        for _ in range(_COMMITS):
            content = objects.read_commit(commit) if commit else None
            if content is None:
                return ""
            # Lines behind the first empty one are the message.
            parent = _PARENT.search(content.partition(b"\n\n")[0])
            if parent is None:
                return commit
            commit = parent[1].decode()
    except (OSError, ValueError, struct.error, IndexError):
        pass
    return ""


def read_head(git_dir: Path, common: Path) -> str:
    """Return the commit that HEAD is at, "" for none; `git_dir` and `common` as of `root_commit`."""
    head = _read_text(git_dir / "HEAD")
    if not head.startswith("ref:"):
        return head if _ID.fullmatch(head) else ""
    name = head[4:].strip()
    if ".." in name or not name.startswith("refs/"):
        return ""
    if _ID.fullmatch(loose := _read_text(common / name)):
        return loose
    for line in _read_bytes(common / "packed-refs", _INDEX).decode("utf-8", "replace").splitlines():
        commit, _, reference = line.partition(" ")
        if reference == name and _ID.fullmatch(commit):
            return commit
    return ""


class _Objects:
    """The commits of a repository, loose and packed."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._packs: list[tuple[Path, bytes]] | None = None

    def read_commit(self, name: str) -> bytes | None:
        """Return the content of a commit."""
        packed = _read_bytes(self._folder / name[:2] / name[2:], _COMMIT_BYTES)
        if packed:
            head, _, content = foreign_files.unpack(packed, _COMMIT_BYTES).partition(b"\0")
            return content if head.startswith(b"commit ") else None
        for path, index in self._list_indexes():
            if (offset := _find_offset(index, bytes.fromhex(name))) is not None:
                return self._read_packed(path, offset, _CHAIN)
        return None

    def _read_packed(self, path: Path, offset: int, chain: int) -> bytes | None:
        with foreign_files.open_file(path) as stream:
            stream.seek(offset)
            content = stream.read(_COMMIT_BYTES)
        kind, start = content[0] >> 4 & 7, _read_varint(content, 0)[1]
        if kind == _COMMIT:
            return _unpack_object(content[start:])
        if not chain or kind not in (_OFFSET_DELTA, _REFERENCE_DELTA):
            return None
        if kind == _REFERENCE_DELTA:
            base, start = self.read_commit(content[start : start + 20].hex()), start + 20
        else:
            back = content[start] & 0x7F
            while content[start] & 0x80:
                start += 1
                back = (back + 1) << 7 | content[start] & 0x7F
            base, start = self._read_packed(path, offset - back, chain - 1), start + 1
        return None if base is None else _apply_delta(base, _unpack_object(content[start:]))

    def _list_indexes(self) -> list[tuple[Path, bytes]]:
        if self._packs is None:
            paths = sorted((self._folder / "pack").glob("*.idx"))[:_PACKS]
            read = ((path.with_suffix(".pack"), _read_bytes(path, _INDEX)) for path in paths)
            self._packs = [(path, index) for path, index in read if index.startswith(_MAGIC)]
        return self._packs


class _Names:
    """The sorted names in a pack's index, for binary search."""

    def __init__(self, index: bytes, size: int, count: int) -> None:
        self._index, self._size, self._count = index, size, count

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, position: int) -> bytes:
        start = 8 + 1024 + position * self._size
        return self._index[start : start + self._size]


def _find_offset(index: bytes, name: bytes) -> int | None:
    """Return where a pack holds an object, None where not."""
    (count,) = struct.unpack_from(">I", index, 8 + 1020)
    names = _Names(index, len(name), count)
    position = bisect_left(names, name)
    if position >= count or names[position] != name:
        return None
    offsets = 8 + 1024 + count * (len(name) + 4)
    (offset,) = struct.unpack_from(">I", index, offsets + 4 * position)
    if offset & 0x80000000:
        (offset,) = struct.unpack_from(">Q", index, offsets + 4 * count + 8 * (offset & 0x7FFFFFFF))
    return int(offset)


def _unpack_object(packed: bytes) -> bytes:
    return foreign_files.unpack(packed, _COMMIT_BYTES)


def _read_varint(content: bytes, start: int) -> tuple[int, int]:
    number = shift = 0
    while True:
        byte = content[start]
        number, shift, start = number | (byte & 0x7F) << shift, shift + 7, start + 1
        if not byte & 0x80:
            return number, start


def _apply_delta(base: bytes, delta: bytes) -> bytes:
    """Return a text made from another one and a delta."""
    position = _read_varint(delta, _read_varint(delta, 0)[1])[1]
    pieces = bytearray()
    while position < len(delta) and len(pieces) <= _COMMIT_BYTES:
        order, position = delta[position], position + 1
        if not order & 0x80:
            pieces += delta[position : position + order]
            position += order
            continue
        numbers = []
        for bits in (range(4), range(4, 7)):
            number = 0
            for shift, bit in enumerate(bits):
                if order >> bit & 1:
                    number, position = number | delta[position] << 8 * shift, position + 1
            numbers.append(number)
        start, size = numbers[0], numbers[1] or 0x10000
        pieces += base[start : start + size]
    return bytes(pieces)


def _read_text(path: Path) -> str:
    return _read_bytes(path, _REFERENCE).decode("utf-8", "replace").strip()


def _read_bytes(path: Path, most: int) -> bytes:
    """Return the beginning of a file."""
    try:
        with foreign_files.open_file(path) as stream:
            return stream.read(most)
    except OSError:
        return b""
