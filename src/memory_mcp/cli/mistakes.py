"""Files that people hand to an import and that hold no transcript: told by their first bytes, before anything is read."""

from pathlib import Path
from typing import TYPE_CHECKING

from memory_mcp.errors import SourceUnreadable

if TYPE_CHECKING:
    from memory_mcp.ingest.base import ImportReport

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


def refuse_no_transcript(path: Path) -> None:
    """SourceUnreadable for a single file of a kind that holds no transcript."""
    if not path.is_file():
        return
    try:
        with path.open("rb") as stream:
            head = stream.read(_HEAD)
    except OSError as error:
        hint = "Let yourself read it, or name another PATH."
        raise SourceUnreadable(f"{path} cannot be read: {error.strerror}", hint) from None
    for place, mark, kind in _KINDS:
        if head[place:].startswith(mark):
            hint = "Text can be kept, one JSON object a line; its form: memory-mcp ingest --help"
            raise SourceUnreadable(f"{path} is {kind}, not a transcript", hint)


def refuse_nothing_used(name: str, path: Path, report: "ImportReport") -> None:
    """SourceUnreadable when there were lines and none of them was what this importer reads."""
    if report.lines and not report.lines_used and not (report.new or report.known):
        hint = "memory-mcp import auto PATH looks at what it is; memory-mcp import --help lists the sources."
        raise SourceUnreadable(f"nothing in {path} is a {name} transcript", hint)
