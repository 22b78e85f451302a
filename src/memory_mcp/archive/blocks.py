"""An archive file: rows of tables in blocks that are compressed and checked each for itself.

    magic | block ... block | index | tail

A block is a frame (mark, length and checksum of its head), its head (JSON: what it holds) and its body (rows, a line of
JSON each, compressed). The index at the end repeats every head with the place of its body, and what the file is about; the
first block, of no table, holds that too. So one damaged byte costs at most the rows of the block it lies in, and the reader
can say which: a body is found by the index, and where that is damaged by looking for marks.

For others: `write(path, parts, about)`, `Archive(path)` (iterate: `Block` or `Damaged`), `rewrite(path, keep)`.
"""

import glob
import hashlib
import json
import os
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from itertools import chain
from pathlib import Path
from typing import Any

from memory_mcp.archive import frames
from memory_mcp.archive.frames import (
    FRAME,
    INDEX,
    LONGEST_ROW,
    MAGIC,
    MARK,
    MAX_HEAD,
    MAX_UNPACKED,
    TAIL,
    Block,
    Damaged,
    Head,
    as_line,
    framed,
    head_for,
    head_of,
    packed,
    unpacked,
)
from memory_mcp.base import foreign_files, machine
from memory_mcp.storage.archive import TableRows

#: What reading JSON of another shape than ours may raise: somebody else may have made the checksums.
MALFORMED = (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError)
#: Table, columns, rows of a block, and their lines of JSON.
_Cut = tuple[str, tuple[str, ...], list[Sequence[Any]], list[bytes]]


def write(
    path: Path, parts: Iterable[TableRows], about: Mapping[str, Any], give_way: Callable[[], None] = lambda: None
) -> list[Head]:
    """Write an archive aside, sync it, put it in its place, and return the heads of its blocks. Only its owner can read it.

    `give_way` is called between two blocks. Whatever is raised, by the parts too, leaves nothing behind and an
    earlier file as it was. The folder is made; what killed writers of this file left is removed. Raises OSError when
    it cannot be written.
    """
    aside = path.with_name(f".{path.name}.{os.getpid()}.part")
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    for left in path.parent.glob(f".{glob.escape(path.name)}.*.part"):
        left.unlink(missing_ok=True)
    index: list[tuple[int, Head]] = []
    first: _Cut = ("", (), [], [as_line(dict(about))])
    with machine.Aside(path, aside) as file:
        file.write(MAGIC)
        for table, columns, rows, lines in chain([first], _cut(parts)):
            body = zlib.compress(b"\n".join(lines), 6)
            head = head_for(len(index), table, columns, rows, body)
            file.write(framed(head))
            index.append((file.tell(), head))
            file.write(body)
            give_way()
        at = file.tell()
        told = zlib.compress(as_line({"about": dict(about), "blocks": [[place, asdict(head)] for place, head in index]}))
        file.write(INDEX + FRAME.pack(len(told), hashlib.sha256(told).digest()) + told + TAIL.pack(at))
    return [head for _, head in index[1:]]


def _cut(parts: Iterable[TableRows]) -> Iterator[_Cut]:
    """Yield table, columns, rows and their lines of JSON, of a block each: up to 500 rows or 256,000 bytes, or one longer row."""
    for part in parts:
        rows: list[Sequence[Any]] = []
        lines: list[bytes] = []
        size = 0
        for row in part.rows:
            line = as_line([packed(value) for value in row])
            if rows and (len(rows) >= frames.MAX_ROWS or size + len(line) > frames.MAX_BYTES):
                yield part.table, part.columns, rows, lines
                rows, lines, size = [], [], 0
            rows.append(row)
            lines.append(line)
            size += len(line)
        if rows:
            yield part.table, part.columns, rows, lines


# reading


class Archive:
    """An open archive file; iterating gives each block, whole or damaged, in the order in which they were written."""

    def __init__(self, path: Path, longest_row: int = LONGEST_ROW) -> None:
        """Open the file and read its index, or where that is damaged its first block, for what it is about (`about`).

        A row longer than `longest_row` bytes counts as damaged. Raises OSError when it cannot be read or is no regular
        file, ValueError when it is no archive.
        """
        self.path = path
        self._longest_row = longest_row
        #: What the blocks read so far unpacked to.
        self.unpacked_bytes = 0
        self._file = foreign_files.open_file(path)
        try:
            self._size = os.fstat(self._file.fileno()).st_size
            self._magic = self._file.read(len(MAGIC))
            found = self._index()
            self._places: list[tuple[int, Head]] | None = found[1] if found else None
            self.about: dict[str, Any] = found[0] if found else self._about_in_front()
            if found is None and self._magic != MAGIC and not self.about:
                raise ValueError(f"{path} is no archive of this program")
        except BaseException:
            self._file.close()
            raise

    def __enter__(self) -> "Archive":
        """Return the open archive itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the file; errors pass on."""
        self._file.close()

    @property
    def heads(self) -> list[Head] | None:
        """The heads of the blocks with rows that there should be, by the index; None where that is damaged."""
        return None if self._places is None else [head for _, head in self._places[1:]]

    def __iter__(self) -> Iterator[Block | Damaged]:
        """Yield whole blocks that have rows, and a Damaged for each other one: in the index's order, else the file's."""
        if self._magic != MAGIC:
            yield Damaged("the first bytes of the file", lost=False)
        if self._places is None:
            yield Damaged("the index at the end of the file", lost=False)
            yield from self._scanned()
            return
        for place, head in self._places:
            part = self._part(place, head)
            if isinstance(part, Damaged):
                yield part
                continue
            frame = framed(head)
            if self._bytes(place - len(frame), len(frame)) != frame:
                yield Damaged("the head of a block", head, lost=False)
            if head.table:
                yield part
        # The last bytes of the file say where the index is.
        if self._bytes(self._ends, self._size) != TAIL.pack(self._end):
            yield Damaged("the last bytes of the file", lost=False)

    # by the index

    def _index(self) -> tuple[dict[str, Any], list[tuple[int, Head]]] | None:
        """Return what the file is about, and place and head of each block, as the index says; None where it is damaged.

        Found by the last bytes of the file, else by the last mark of an index.
        """
        tail = self._bytes(self._size - TAIL.size, TAIL.size)
        at = TAIL.unpack(tail)[0] if len(tail) == TAIL.size else -1
        found = self._index_at(at)
        if found is None and (at := self._last(INDEX)) >= 0:
            found = self._index_at(at)
        if found is not None:
            self._end = at
        return found

    def _index_at(self, at: int) -> tuple[dict[str, Any], list[tuple[int, Head]]] | None:
        """Return what `_index` does for the index at an offset, noting its end; None if damaged or malformed."""
        told = self._framed_at(at, INDEX)
        if told is None:
            return None
        self._ends = at + len(INDEX) + FRAME.size + len(told)
        with suppress(*MALFORMED):
            index = json.loads(foreign_files.unpack(told, min(MAX_HEAD, self._size + MAX_UNPACKED)))
            return dict(index["about"]), [(int(place), head_of(head)) for place, head in index["blocks"]]
        return None

    def _framed_at(self, at: int, mark: bytes) -> bytes | None:
        """Return the content of the frame with this mark at an offset; None where mark, length or checksum is wrong."""
        start = self._bytes(at, len(mark) + FRAME.size)
        if at < 0 or len(start) < len(mark) + FRAME.size or not start.startswith(mark):
            return None
        size, digest = FRAME.unpack(start[len(mark) :])
        if size > min(MAX_HEAD, self._size):
            return None
        told = self._bytes(at + len(start), size)
        return told if hashlib.sha256(told).digest() == digest else None

    def _part(self, place: int, head: Head) -> Block | Damaged:
        """Return the block whose body is at an offset, without rows for the one of no table; Damaged where it is."""
        body = self._bytes(place, head.size)
        if hashlib.sha256(body).hexdigest() != head.sha256:
            return Damaged("a block" if head.table else "what it was made from", head, lost=bool(head.table))
        try:
            content = foreign_files.unpack(body, self._longest_row if head.rows == 1 else MAX_UNPACKED)
            self.unpacked_bytes += len(content)
            lines = content.split(b"\n") if head.table else []
            return Block(head, [[unpacked(value) for value in json.loads(line)] for line in lines])
        except MALFORMED as error:
            why = f"a block of another form ({type(error).__name__})" if head.table else "what it was made from"
            return Damaged(why, head, lost=bool(head.table), malformed=True)

    # without it

    def _about_in_front(self) -> dict[str, Any]:
        """Return what the file is about from its first block; {} where that is damaged or not there."""
        told = self._framed_at(len(MAGIC), MARK)
        head = self._head(told)
        if told is None or head is None or head.table:
            return {}
        body = self._bytes(len(MAGIC) + len(MARK) + FRAME.size + len(told), head.size)
        if hashlib.sha256(body).hexdigest() != head.sha256:
            return {}
        with suppress(*MALFORMED):
            return dict(json.loads(foreign_files.unpack(body, MAX_UNPACKED)))
        return {}

    def _head(self, told: bytes | None) -> Head | None:
        """Return the head in a frame's content; None without one, or for a malformed one."""
        with suppress(*MALFORMED):
            return head_of(json.loads(told)) if told else None
        return None

    def _scanned(self) -> Iterator[Block | Damaged]:
        """Yield the blocks whose heads are found, and a Damaged for each damaged one, missing numbers and a missing end."""
        at, expected = len(MAGIC), 0
        before: Head | None = None
        while (at := self._next(MARK, at)) >= 0:
            told = self._framed_at(at, MARK)
            head = self._head(told)
            if told is None or head is None:
                at += 1
                continue
            if head.number > expected:
                yield Damaged(f"{head.number - expected} blocks, of which nothing is told", between=(before, head))
            place = at + len(MARK) + FRAME.size + len(told)
            part = self._part(place, head)
            if isinstance(part, Damaged) or head.table:
                yield part
            before, expected = head, head.number + 1
            # What is damaged may hide the beginning of the next one.
            at = place + (head.size if isinstance(part, Block) else 0)
        if self._last(INDEX) < 0:
            yield Damaged("the end of the file, with whatever lay there", between=(before, None))

    # bytes

    def _bytes(self, at: int, size: int) -> bytes:
        """Return up to `size` bytes at an offset; b"" for one outside the file."""
        if not 0 <= at < self._size:
            return b""
        self._file.seek(at)
        return self._file.read(size)

    def _next(self, mark: bytes, at: int) -> int:
        """Return the offset at or behind `at` where a mark comes next; -1 where it does not."""
        step = 1 << 20
        while at < self._size:
            found = self._bytes(at, step + len(mark) - 1).find(mark)
            if found >= 0:
                return at + found
            at += step
        return -1

    def _last(self, mark: bytes) -> int:
        """Return the offset of the last such mark in the file; -1 where there is none. Reads the whole file."""
        found, at = -1, 0
        while (at := self._next(mark, at)) >= 0:
            found, at = at, at + 1
        return found


@dataclass(frozen=True, slots=True)
class Rewritten:
    """Outcome of `rewrite`, in rows."""

    rows: int
    dropped: int
    changed: int
    #: Blocks that could not be read, and so could not be looked through: the new file has them no more.
    damaged: tuple[Damaged, ...]


def rewrite(path: Path, keep: Callable[[str, dict[str, Any]], Mapping[str, Any] | None]) -> Rewritten:
    """Write an archive anew with what `keep` (table, row by column) returns of each row; None leaves the row out.

    The new file takes the old one's place only if a row was dropped or changed, or damage lost rows, which are then
    out of it too. Rows are read by the columns of their block. Raises OSError and ValueError as `Archive` does, and
    OSError when it cannot be written.
    """
    rows = dropped = changed = 0
    damaged: list[Damaged] = []
    with Archive(path) as archive:

        def kept() -> Iterator[TableRows]:
            """Yield the rows that stay, block by block, counting what was dropped, changed and damaged."""
            nonlocal rows, dropped, changed
            for block in archive:
                if isinstance(block, Damaged):
                    damaged.append(block)
                    continue
                left: list[list[Any]] = []
                for row in block.mappings():
                    told = keep(block.head.table, row)
                    rows += 1
                    dropped += told is None
                    if told is not None:
                        changed += dict(told) != row
                        left.append([told[name] for name in block.head.columns])
                yield TableRows(block.head.table, block.head.columns, left)

        aside = path.with_name(f"{path.name}.rewritten")
        write(aside, kept(), archive.about)
    if dropped or changed or any(d.lost for d in damaged):
        os.replace(aside, path)
        machine.sync_names(path.parent)
    else:
        aside.unlink()
    return Rewritten(rows, dropped, changed, tuple(damaged))
