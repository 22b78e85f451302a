"""An archive file: rows of tables in blocks that are compressed and checked each for itself.

magic, blocks, index, tail. A block is a frame (mark, length and checksum of its head), its head (JSON: what it holds) and
its body (rows, a line of JSON each, compressed). The index at the end repeats every head with the offset of its body, and
what the file is about; the first block, of no table, holds that too. So one damaged byte costs at most the rows of its
block, and the reader can say which: a body is found by the index, and where that is damaged by looking for marks.
"""

import glob
import hashlib
import json
import os
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from itertools import chain
from pathlib import Path
from typing import Any

from memory_mcp.base import foreign_files, machine
from memory_mcp.storage.archive import TableRows
from memory_mcp.upkeep.archive import frames
from memory_mcp.upkeep.archive.frames import (
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
    encode_json,
    make_frame,
    make_head,
    pack_value,
    parse_head,
    unpack_value,
)

#: What reading JSON of another shape than ours may raise: somebody else may have made the checksums.
MALFORMED = (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError)
#: Table, columns, rows of a block, and their lines of JSON.
_Cut = tuple[str, tuple[str, ...], list[Sequence[Any]], list[bytes]]


def write_archive(
    path: Path, parts: Iterable[TableRows], about: Mapping[str, Any], give_way: Callable[[], object] = lambda: None
) -> list[Head]:
    """Write an archive, sync it, and return the heads of its blocks.

    Only its owner can read it. `give_way` is called between two blocks. Whatever is raised, by the parts too, leaves
    nothing behind and an earlier file as it was. The folder is made; what killed writers of this file left is removed.
    Raises OSError when it cannot be written.
    """
    part_path = path.with_name(f".{path.name}.{os.getpid()}.part")
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    for unfinished in path.parent.glob(f".{glob.escape(path.name)}.*.part"):
        unfinished.unlink(missing_ok=True)
    index: list[tuple[int, Head]] = []
    first: _Cut = ("", (), [], [encode_json(dict(about))])
    with machine.Aside(path, part_path) as file:
        file.write(MAGIC)
        for table, columns, rows, lines in chain([first], _cut_blocks(parts)):
            body = zlib.compress(b"\n".join(lines), 6)
            head = make_head(len(index), table, columns, rows, body)
            file.write(make_frame(head))
            index.append((file.tell(), head))
            file.write(body)
            give_way()
        index_offset = file.tell()
        index_bytes = zlib.compress(
            encode_json({"about": dict(about), "blocks": [[offset, asdict(head)] for offset, head in index]})
        )
        frame = INDEX + FRAME.pack(len(index_bytes), hashlib.sha256(index_bytes).digest())
        file.write(frame + index_bytes + TAIL.pack(index_offset))
    return [head for _, head in index[1:]]


def _cut_blocks(parts: Iterable[TableRows]) -> Iterator[_Cut]:
    """Yield table, columns, rows and JSON lines of each block.

    Up to 500 rows or 256,000 bytes, or one longer row.
    """
    for part in parts:
        rows: list[Sequence[Any]] = []
        lines: list[bytes] = []
        size = 0
        for row in part.rows:
            line = encode_json([pack_value(value) for value in row])
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
    """An open archive file; iterating gives each block in written order."""

    def __init__(self, path: Path, longest_row: int = LONGEST_ROW) -> None:
        """Open the file and read its index, or its first block.

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
            index = self._read_index()
            self._block_heads: list[tuple[int, Head]] | None = index[1] if index else None
            self.about: dict[str, Any] = index[0] if index else self._read_first_about()
            if index is None and self._magic != MAGIC and not self.about:
                raise ValueError(f"{path} is no archive of this program")
        except BaseException:
            self._file.close()
            raise

    def __enter__(self) -> "Archive":
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def __iter__(self) -> Iterator[Block | Damaged]:
        """Yield whole blocks that have rows, and a Damaged for each other.

        In the index's order, else the file's.
        """
        if self._magic != MAGIC:
            yield Damaged("the first bytes of the file", lost=False)
        if self._block_heads is None:
            yield Damaged("the index at the end of the file", lost=False)
            yield from self._scan_blocks()
            return
        for offset, head in self._block_heads:
            part = self._read_block(offset, head)
            if isinstance(part, Damaged):
                yield part
                continue
            frame = make_frame(head)
            if self._read_bytes(offset - len(frame), len(frame)) != frame:
                yield Damaged("the head of a block", head, lost=False)
            if head.table:
                yield part
        # The last bytes of the file say where the index is.
        if self._read_bytes(self._ends, self._size) != TAIL.pack(self._end):
            yield Damaged("the last bytes of the file", lost=False)

    # by the index

    def _read_index(self) -> tuple[dict[str, Any], list[tuple[int, Head]]] | None:
        """Return what the file is about, and offset and head of each block.

        Found by the last bytes of the file, else by the last mark of an index; None where it is damaged.
        """
        tail = self._read_bytes(self._size - TAIL.size, TAIL.size)
        offset = TAIL.unpack(tail)[0] if len(tail) == TAIL.size else -1
        index = self._read_index_at(offset)
        if index is None and (offset := self._find_last_mark(INDEX)) >= 0:
            index = self._read_index_at(offset)
        if index is not None:
            self._end = offset
        return index

    def _read_index_at(self, offset: int) -> tuple[dict[str, Any], list[tuple[int, Head]]] | None:
        """Return the index at an offset; None if damaged or malformed."""
        content = self._read_frame(offset, INDEX)
        if content is None:
            return None
        self._ends = offset + len(INDEX) + FRAME.size + len(content)
        with suppress(*MALFORMED):
            index = json.loads(foreign_files.unpack(content, min(MAX_HEAD, self._size + MAX_UNPACKED)))
            return dict(index["about"]), [(int(body_offset), parse_head(head)) for body_offset, head in index["blocks"]]
        return None

    def _read_frame(self, offset: int, mark: bytes) -> bytes | None:
        """Return the content of the frame at an offset; None if damaged."""
        start = self._read_bytes(offset, len(mark) + FRAME.size)
        if offset < 0 or len(start) < len(mark) + FRAME.size or not start.startswith(mark):
            return None
        size, digest = FRAME.unpack(start[len(mark) :])
        if size > min(MAX_HEAD, self._size):
            return None
        content = self._read_bytes(offset + len(start), size)
        return content if hashlib.sha256(content).digest() == digest else None

    def _read_block(self, offset: int, head: Head) -> Block | Damaged:
        """Return the block whose body is at an offset, or Damaged."""
        body = self._read_bytes(offset, head.size)
        if hashlib.sha256(body).hexdigest() != head.sha256:
            return Damaged("a block" if head.table else "what it was made from", head, lost=bool(head.table))
        try:
            content = foreign_files.unpack(body, self._longest_row if head.rows == 1 else MAX_UNPACKED)
            self.unpacked_bytes += len(content)
            lines = content.split(b"\n") if head.table else []
            return Block(head, [[unpack_value(value) for value in json.loads(line)] for line in lines])
        except MALFORMED as error:
            why = f"a block of another form ({type(error).__name__})" if head.table else "what it was made from"
            return Damaged(why, head, lost=bool(head.table), malformed=True)

    # without it

    def _read_first_about(self) -> dict[str, Any]:
        """Return what the file is about from its first block, or {}."""
        head_bytes = self._read_frame(len(MAGIC), MARK)
        head = self._parse_head(head_bytes)
        if head_bytes is None or head is None or head.table:
            return {}
        body = self._read_bytes(len(MAGIC) + len(MARK) + FRAME.size + len(head_bytes), head.size)
        if hashlib.sha256(body).hexdigest() != head.sha256:
            return {}
        with suppress(*MALFORMED):
            return dict(json.loads(foreign_files.unpack(body, MAX_UNPACKED)))
        return {}

    def _parse_head(self, head_bytes: bytes | None) -> Head | None:
        with suppress(*MALFORMED):
            return parse_head(json.loads(head_bytes)) if head_bytes else None
        return None

    def _scan_blocks(self) -> Iterator[Block | Damaged]:
        """Yield blocks whose heads are found by their marks.

        And a Damaged for each damaged one, missing numbers and a missing end.
        """
        offset, expected = len(MAGIC), 0
        previous: Head | None = None
        while (offset := self._find_next_mark(MARK, offset)) >= 0:
            head_bytes = self._read_frame(offset, MARK)
            head = self._parse_head(head_bytes)
            if head_bytes is None or head is None:
                offset += 1
                continue
            if head.number > expected:
                yield Damaged(f"{head.number - expected} blocks, of which nothing is told", between=(previous, head))
            body_offset = offset + len(MARK) + FRAME.size + len(head_bytes)
            part = self._read_block(body_offset, head)
            if isinstance(part, Damaged) or head.table:
                yield part
            previous, expected = head, head.number + 1
            # What is damaged may hide the beginning of the next one.
            offset = body_offset + (head.size if isinstance(part, Block) else 0)
        if self._find_last_mark(INDEX) < 0:
            yield Damaged("the end of the file, with whatever lay there", between=(previous, None))

    # bytes

    def _read_bytes(self, offset: int, size: int) -> bytes:
        if not 0 <= offset < self._size:
            return b""
        self._file.seek(offset)
        return self._file.read(size)

    def _find_next_mark(self, mark: bytes, offset: int) -> int:
        """Return the offset where a mark comes next, or -1."""
        step = 1 << 20
        while offset < self._size:
            index = self._read_bytes(offset, step + len(mark) - 1).find(mark)
            if index >= 0:
                return offset + index
            offset += step
        return -1

    def _find_last_mark(self, mark: bytes) -> int:
        """Return the offset of the last such mark; reads the whole file."""
        last_offset, offset = -1, 0
        while (offset := self._find_next_mark(mark, offset)) >= 0:
            last_offset, offset = offset, offset + 1
        return last_offset


def rewrite_archive(path: Path, keep: Callable[[str, dict[str, Any]], Mapping[str, Any] | None]) -> bool:
    """Write an archive again with what `keep` returns of each row; return whether a row was dropped or changed.

    `keep` gets table and row by column; None leaves the row out. The new file replaces the old one only if a row was
    dropped or changed, or damage lost rows, which are then out of it too. Raises OSError and ValueError as `Archive` does,
    and OSError when it cannot be written.
    """
    changed = has_lost = False
    with Archive(path) as archive:

        def kept() -> Iterator[TableRows]:
            nonlocal changed, has_lost
            for block in archive:
                if isinstance(block, Damaged):
                    has_lost |= block.lost
                    continue
                kept_rows: list[list[Any]] = []
                for row in block.mappings():
                    new_row = keep(block.head.table, row)
                    changed |= new_row is None or dict(new_row) != row
                    if new_row is not None:
                        kept_rows.append([new_row[name] for name in block.head.columns])
                yield TableRows(block.head.table, block.head.columns, kept_rows)

        new_path = path.with_name(f"{path.name}.rewritten")
        write_archive(new_path, kept(), archive.about)
    if changed or has_lost:
        os.replace(new_path, path)
        machine.sync_names(path.parent)
    else:
        new_path.unlink()
    return changed
