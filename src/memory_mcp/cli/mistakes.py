"""Recognises files that hold no transcript by their first bytes, before an import reads them."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from memory_mcp.base import foreign_files
from memory_mcp.base.errors import InvalidQuery, SourceUnreadable

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


#: What people call sources.
SOURCE_HABITS = {"vscode": "copilot-chat", "vs-code": "copilot-chat", "code": "copilot-chat", "claude-desktop": "claude-ai"}
#: What people type behind commands that have no such word, meaning what other programs call so; never a path.
_COMMAND_WORDS = frozenset(
    "list ls status show check verify now on off add remove rm delete create make new run start stop info all latest".split()
)
#: How alike a misspelt word must be to the one that is suggested.
_ALIKE = 0.6


def nearest(word: str, names: Sequence[str]) -> str:
    """Return the name that a word most likely means.

    The same letters come before a beginning, in the order of the names, that before a longer word that begins with a name, and
    that before what is spelt alike; "" if none is near.
    """
    from difflib import get_close_matches

    letters = {name: _letters(name) for name in names}
    typed = _letters(word)
    if not typed:
        return ""
    same_letters = [name for name, text in letters.items() if text == typed]
    beginnings = [name for name, text in letters.items() if text.startswith(typed)]
    prefixes = [name for name, text in letters.items() if len(text) > 1 and typed.startswith(text)]
    alike = get_close_matches(word, names, n=1, cutoff=_ALIKE)
    return next(iter([*same_letters, *beginnings, *sorted(prefixes, key=len, reverse=True), *alike]), "")


def _letters(word: str) -> str:
    return "".join(c for c in word.casefold() if c.isalnum())


def client_habits() -> dict[str, str]:
    """Return the names of clients by the commands that start them."""
    from memory_mcp.install.clients import CLIENTS

    return {command: client.name for client in CLIENTS.values() for command in client.commands}


def refuse_command_word(text: str, command: str) -> None:
    """Raise InvalidQuery for a path such as `status`."""
    if text in _COMMAND_WORDS:
        hint = f"For a file or folder of that name write ./{text}. See: memory-mcp {command} --help"
        raise InvalidQuery(f"{command} has no word {text!r}", hint)


def refuse_missing_parent(path: Path) -> None:
    """Raise InvalidQuery for a path in a missing folder."""
    if not path.absolute().parent.is_dir():
        raise InvalidQuery(f"there is no folder {path.absolute().parent}", "Make it first, or name another place.")


def refuse_no_transcript(path: Path) -> None:
    """Raise SourceUnreadable for a file that holds no text.

    Folders, missing files and unknown kinds pass.
    """
    if not path.is_file():
        return
    try:
        with foreign_files.open_file(path.resolve()) as stream:
            head = stream.read(_HEAD)
    except OSError as error:
        hint = "Let yourself read it, or name another PATH."
        raise SourceUnreadable(f"{path} cannot be read: {error.strerror}", hint) from None
    for offset, mark, kind in _KINDS:
        if head[offset:].startswith(mark):
            hint = "Text can be kept, one JSON object a line; its form: memory-mcp ingest --help"
            raise SourceUnreadable(f"{path} is {kind}, not a transcript", hint)


def nothing_used(reports: Sequence[Mapping[str, Any]]) -> bool:
    """Whether reports of an import have lines, but none was used."""
    return any(report["lines"] for report in reports) and not any(
        report["lines_used"] or report["new"] or report["known"] for report in reports
    )
