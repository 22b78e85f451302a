"""Asks git, read-only and bounded, which commits made some lines of a file: a path in, commits out."""

import re
from collections.abc import Sequence
from pathlib import Path

from memory_mcp.base import foreign_files
from memory_mcp.base.dataclass import dataclass
from memory_mcp.base.git_run import LITERAL, ask_git

#: Milliseconds of all questions together, and bytes of a file.
BUDGET_MS = 100
_FILE = 4 * 1024 * 1024
_HEADER = re.compile(rb"^([0-9a-f]{40,64}) (\d+) (\d+)(?: (\d+))?$")
_UNCOMMITTED = re.compile(r"0+\Z")


@dataclass(frozen=True, slots=True)
class BlamedCommit:
    """A commit that made some of the lines asked for."""

    commit: str
    #: Author time, UTC milliseconds.
    at_ms: int
    author: str
    subject: str
    #: Files that it changed, as git names them; () if there was no time to ask.
    files: tuple[str, ...] = ()


def blame_lines(file: Path, first: int, last: int, deadline: float) -> list[BlamedCommit]:
    """Return the commits behind lines `first` to `last` of a file as it is now, those with most lines first.

    Lines that no commit has are left out; [] where git is missing, does not know the file or is too slow.

    Args:
        file: An absolute path in a working tree.
        first: From 1.
        last: Not below `first`.
        deadline: When to end, by `time.monotonic`.

    """
    numbers = _lines_at_head(file, first, last, deadline)
    spans = [span for start, end in _join_numbers(numbers) for span in ("-L", f"{start},{end}")]
    if not spans:
        return []
    command = [LITERAL, "blame", "--porcelain", "--no-textconv", *spans, "HEAD", "--", file.name]
    answer = ask_git(file.parent, command, deadline) or b""
    counts: dict[str, int] = {}
    facts: dict[str, dict[str, str]] = {}
    commit = ""
    for line in answer.split(b"\n"):
        if header := _HEADER.match(line):
            commit = header[1].decode()
            counts[commit] = counts.get(commit, 0) + 1
        elif commit and not line.startswith(b"\t"):
            name, _, value = line.decode("utf-8", "replace").partition(" ")
            facts.setdefault(commit, {}).setdefault(name, value)
    commits = sorted((c for c in counts if not _UNCOMMITTED.match(c)), key=lambda c: -counts[c])
    return [_read_commit(file, c, facts.get(c, {}), deadline) for c in commits]


def _read_commit(file: Path, commit: str, facts: dict[str, str], deadline: float) -> BlamedCommit:
    command = ["diff-tree", "--no-commit-id", "--name-only", "--no-textconv", "--no-ext-diff", "-r", "-z", "--root", commit]
    names = ask_git(file.parent, command, deadline) or b""
    files = tuple(filter(None, names.decode("utf-8", "replace").split("\0")))[:200]
    return BlamedCommit(
        commit, int(facts.get("author-time", "0")) * 1000, facts.get("author", ""), facts.get("summary", ""), files
    )


def _lines_at_head(file: Path, first: int, last: int, deadline: float) -> list[int]:
    """Return the numbers that lines of the working file have in the last commit, those that are there."""
    committed = ask_git(file.parent, ["cat-file", "blob", f"HEAD:./{file.name}"], deadline)
    if not committed:
        return []
    with foreign_files.open_file(file) as stream:
        present = stream.read(_FILE).splitlines()
    places: dict[bytes, list[int]] = {}
    for number, line in enumerate(committed.splitlines(), 1):
        places.setdefault(line, []).append(number)
    present_lines = enumerate(present[first - 1 : last], first)
    return [min(places[line], key=lambda place: abs(place - number)) for number, line in present_lines if line in places]


def _join_numbers(numbers: Sequence[int]) -> list[tuple[int, int]]:
    """Return numbers as spans of consecutive ones."""
    spans: list[tuple[int, int]] = []
    for number in sorted(set(numbers)):
        if spans and spans[-1][1] == number - 1:
            spans[-1] = (spans[-1][0], number)
        else:
            spans.append((number, number))
    return spans
