"""Works out what the damaged headers of a database file were, from its log and its other headers.

The first header says what the file is, the other two lead to its blocks: each checkpoint writes the older of these anew, so one
of them is of the last checkpoint and the other of the one before.
"""

import tempfile
from dataclasses import field
from pathlib import Path

from memory_mcp.base.dataclass import dataclass
from memory_mcp.storage.duckdb import logs
from memory_mcp.storage.duckdb.blocks import BLOCK_SIZES, HEADER, HEADERS, checksum, find_mend, find_word
from memory_mcp.storage.duckdb.files import create_database

_SUM = 8
#: Words of the second and the third header, behind their checksum, that have few values.
_BLOCK_SIZE, _VECTOR_SIZE = 4, 5
_POSSIBLE = {_BLOCK_SIZE: frozenset(BLOCK_SIZES), _VECTOR_SIZE: frozenset((2048,))}


@dataclass(frozen=True, slots=True)
class HeaderMends:
    """What is to be written into a file."""

    #: Whole headers by their offset.
    headers: dict[int, bytes] = field(default_factory=dict)
    #: Whether the file may lack what its last checkpoint changed, and whether that is certain.
    may_be_older: bool = False
    is_older: bool = False


def find_header_mends(file: Path, log: bytes) -> HeaderMends:
    """Return what makes the headers whole again; nothing if they are, or where that cannot be known.

    `log` is the content of the file's log. A header of which one byte or a number with few values was damaged is as it was.
    The first one is made anew with the file's own number out of the log. The second and the third one are replaced by each
    other, which is the state of the last checkpoint if the log says so, and may be the one before otherwise.
    """
    with file.open("rb") as opened:
        top = opened.read(HEADER * HEADERS)
    if len(top) < HEADER * HEADERS:
        return HeaderMends()
    damaged = [top[at : at + HEADER] for at in range(0, len(top), HEADER)]
    log_header = logs.parse_header(log)
    first, *leading = (_mend_header(content) for content in damaged)
    # Two that are the same were mended so before, by a process that ended then.
    intact = {content for content in leading if content is not None}
    may_be_older = is_older = False
    if len(intact) == 1:
        [present] = intact
        leading = [present, present]
        is_older = log_header is not None and logs.read_round(present) != log_header[1]
        may_be_older = is_older or log_header is None
    if first is None and (log_header is not None or not log):
        first = _make_first(log_header[0] if log_header else b"")
    mended = {HEADER * n: content for n, content in enumerate((first, *leading)) if content is not None and content != damaged[n]}
    return HeaderMends(mended, may_be_older, is_older)


def _mend_header(content: bytes) -> bytes | None:
    """Return a header as it was, or None if that cannot be known."""
    stored, payload = int.from_bytes(content[:_SUM], "little"), content[_SUM:]
    if checksum(payload) == stored:
        return content
    if change := find_mend(stored, payload):
        return content[: change[0]] + bytes([change[1]]) + content[change[0] + 1 :]
    words = [(at, value) for at, values in _POSSIBLE.items() if (value := find_word(stored, payload, at)) in values]
    if len(words) != 1:
        return None
    [(at, value)] = words
    start = _SUM + 8 * at
    return content[:start] + value.to_bytes(8, "little") + content[start + 8 :]


def _make_first(number: bytes) -> bytes:
    """Return the first header of a file of this program with that number; of a new file if it is empty."""
    with tempfile.TemporaryDirectory() as folder:
        fresh = Path(folder) / "fresh.duckdb"
        create_database(fresh)
        content = bytearray(fresh.read_bytes()[:HEADER])
    if number:
        content[logs.ID : logs.ID + logs.ID_BYTES] = number
    content[:_SUM] = checksum(bytes(content[_SUM:])).to_bytes(_SUM, "little")
    return bytes(content)
