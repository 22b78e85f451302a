"""Recognises files that hold no transcript by their first bytes, before an import reads them."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from memory_mcp import foreign_files
from memory_mcp.errors import SourceUnreadable

#: How files begin that are no text (place, bytes, what it is). Archives and databases are not among them: some clients
#: keep or export their histories so.
_KINDS = (
    (0, b"%PDF", "a PDF document"),
    (0, b"\x89PNG", "a picture"),
    (0, b"\xff\xd8\xff", "a picture"),
    (0, b"GIF8", "a picture"),
    (8, b"WEBP", "a picture"),
    (4, b"ftyp", "a film"),
    (0, b"ID3", "a sound"),
    (8, b"WAVE", "a sound"),
    (0, b"\x7fELF", "a program"),
    (0, b"MZ", "a program"),
)
_HEAD = 16
#: Clients whose conversations cannot be read, with the reason.
UNREADABLE = {"windsurf": "Windsurf encrypts its conversations; none can be read. Its sessions can still ask this memory."}


def refuse_no_transcript(path: Path) -> None:
    """Raise SourceUnreadable for a file that cannot be read, or that begins as a picture, program or other kind without text.

    Folders, missing files and all other files pass.
    """
    if not path.is_file():
        return
    try:
        with foreign_files.open_file(path.resolve()) as stream:
            head = stream.read(_HEAD)
    except OSError as error:
        hint = "Let yourself read it, or name another PATH."
        raise SourceUnreadable(f"{path} cannot be read: {error.strerror}", hint) from None
    for place, mark, kind in _KINDS:
        if head[place:].startswith(mark):
            hint = "Text can be kept, one JSON object a line; its form: memory-mcp ingest --help"
            raise SourceUnreadable(f"{path} is {kind}, not a transcript", hint)


def nothing_used(told: Sequence[Mapping[str, Any]]) -> bool:
    """Whether the reports of an import (as `report_shape`) have lines, but none was used and no event was new or known."""
    return any(one["lines"] for one in told) and not any(one["lines_used"] or one["new"] or one["known"] for one in told)
