"""The beginning of a file, by which its kind is recognised.

Invariants
1. Long strings are shortened: a pasted image before the first message hides nothing.
2. What comes first decides: more is only read where what was read is of no known kind, and never without a bound.
"""

import re
from collections.abc import Iterator
from contextlib import ExitStack
from io import BytesIO
from pathlib import Path, PurePosixPath
from typing import IO

from memory_mcp.base import foreign_files
from memory_mcp.importers.base import BEGINNING
from memory_mcp.importers.json_records import BLANKS, BOM
from memory_mcp.importers.window import MAX_RECORD

#: Newer exports are cut into conversations-000.json and so on.
_CONVERSATIONS = re.compile(r"conversations(?:[-_]\d+)?\.json\Z")
#: Bytes by which a kind is recognised where the first `BEGINNING` tell none.
_FURTHER = 16 * BEGINNING
#: Bytes of a file that are read for it at most.
_MOST_READ = 4 * MAX_RECORD
_ARCHIVE = b"PK\x03\x04"
_CHUNK = 1024 * 1024
#: Bytes of a string that recognising a file needs, a part of a string, and an escape that is cut in two.
_STRING = 256
_STRING_PART, _CUT_ESCAPE = re.compile(rb'(?:[^"\\\n]|\\[^\n])++'), re.compile(rb"\\(?:u[0-9a-fA-F]{0,3})?\Z")


def iter_beginnings(file: Path) -> Iterator[bytes]:
    """Yield the first `BEGINNING` bytes of a file, then more.

    Of an archive those of its conversations. Raises OSError when it cannot be read.
    """
    with ExitStack() as stack:
        stream: IO[bytes] = stack.enter_context(foreign_files.open_file(file))
        beginning = stream.read(BEGINNING)
        if beginning.startswith(_ARCHIVE):
            archive = stack.enter_context(foreign_files.Zip(file))
            name = min((name for name in archive.names() if is_conversations(name)), default="")
            stream = stack.enter_context(archive.open_member(name)) if name else BytesIO()
            beginning = stream.read(BEGINNING)
        yield beginning
        if len(beginning) == BEGINNING and (further := _shorten_strings(beginning, stream)):
            yield further


def is_conversations(name: str) -> bool:
    """Return whether a name is that of an account export's conversations."""
    return _CONVERSATIONS.match(PurePosixPath(name).name) is not None


def _shorten_strings(chunk: bytes, stream: IO[bytes]) -> bytes:
    """Return `chunk` and what follows, long strings cut; b"" without JSON."""
    if not chunk.removeprefix(BOM).lstrip(BLANKS).startswith((b"{", b"[")):
        return b""
    beginning, inside, room, unread = bytearray(), False, 0, _MOST_READ
    while chunk and len(beginning) < _FURTHER and unread > 0:
        position = 0
        while position < len(chunk):
            if not inside:
                end = chunk.find(b'"', position) + 1 or len(chunk)
                beginning += chunk[position:end]
                inside, room = chunk.endswith(b'"', position, end), _STRING
            elif match := _STRING_PART.match(chunk, position):
                end = match.end()
                piece = chunk[position:end]
                beginning += piece if len(piece) <= room else _CUT_ESCAPE.sub(b"", piece[:room])
                room = max(0, room - len(piece))
            else:
                # The string's end, a line that breaks off inside it, or an escape that goes on in the next chunk.
                end = position + 1
                if chunk[position:end] == b"\\":
                    break
                beginning += chunk[position:end]
                inside = False
            position = end
        following = stream.read(_CHUNK)
        unread -= len(following)
        chunk = chunk[position:] + following if following else b""
    return bytes(beginning)
