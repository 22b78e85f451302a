"""Asks git, read-only and bounded, what became of files since a time: names in, the changes of each commit out.

The history is that of first parents, so that each change begins where the one before it ended; a merge counts as one commit.
"""

import re
from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple

from memory_mcp.base.dataclass import dataclass
from memory_mcp.base.git_run import ask_git

#: Bytes of a list of files or changes, and of several files together; files of a commit among which renames are looked for.
_LIST, _BLOBS, _RENAMES = 8 * 1024 * 1024, 4 * 1024 * 1024, 400
_COMMIT, _FIELD, _END = "\x01", "\x02", "\x03"
_FORMAT = "%x01%H%x02%at%x02%b%x03"
_REVERTS = re.compile(r"This reverts commit ([0-9a-f]{7,64})")
_SPECIAL = re.compile(r"([*?\[\]\\])")


class FileEdit(NamedTuple):
    """What a commit did to one file: A, M, D, T or R, its path before and after, and its contents' names."""

    kind: str
    old_path: str
    path: str
    old_blob: str
    blob: str


@dataclass(frozen=True, slots=True)
class CommitEdits:
    """A commit with what it did to files."""

    commit: str
    #: Author time, UTC milliseconds: it stays when a commit is moved to another base.
    at_ms: int
    #: The commit that it takes back, by its own words; "" for none.
    reverts: str
    edits: tuple[FileEdit, ...]


def list_files(tree: str, commit: str, deadline: float) -> bytes | None:
    """Return the paths of a commit, each between two NULs; None if that is not known."""
    names = ask_git(tree, ["ls-tree", "-r", "--full-tree", "--name-only", "-z", commit], deadline, most=_LIST)
    return None if names is None else b"\0" + names


def list_changes(
    tree: str, commit: str, paths: Collection[str], ends: Collection[str], since_ms: int, deadline: float
) -> list[CommitEdits] | None:
    """Return the commits behind one that changed some files, oldest first, with all their edits; None if that is not known.

    Args:
        tree: A working tree.
        commit: With which the history ends.
        paths: Whole paths of files: found in a quarter of the time.
        ends: Paths, or their ends behind a slash.
        since_ms: UTC milliseconds before which commits are left out; 0 for none.
        deadline: By `time.monotonic`.

    """
    if not paths and not ends:
        return []
    # After magic of our own, a name that begins with ":" has none.
    patterns = [
        f":(glob){folder}" + _SPECIAL.sub(r"\\\1", path)
        for folder, group in (("", paths), ("**/", ends))
        for path in sorted(group)
    ]
    command = [
        *("log", "--first-parent", "--diff-merges=first-parent", "--raw", "-z", "--no-abbrev", "-M"),
        *(f"-l{_RENAMES}", "--full-diff", "--no-ext-diff", "--no-textconv", f"--format={_FORMAT}"),
        *([f"--since={since_ms // 1000}"] if since_ms > 0 else []),
        *(commit, "--", *patterns),
    ]
    answer = ask_git(tree, command, deadline, most=_LIST)
    if answer is None:
        return None
    try:
        return [_parse_commit(part) for part in answer.decode("utf-8", "surrogateescape").split(_COMMIT)[:0:-1]]
    except (ValueError, IndexError):  # a message with our own marks
        return None


def read_texts(tree: str, objects: Iterable[str], deadline: float) -> dict[str, str] | None:
    """Return the texts of files, by their contents' names or `COMMIT:PATH`; None if that is not known."""
    names = sorted(name for name in set(objects) if "\n" not in name)
    lines = "".join(f"{name}\n" for name in names).encode("utf-8", "surrogateescape")
    answer = ask_git(tree, ["cat-file", "--batch"], deadline, lines, _BLOBS) if names else b""
    if answer is None:
        return None
    texts: dict[str, str] = {}
    start = 0
    for name in names:
        end = answer.find(b"\n", start)
        kind = answer[start:end].rsplit(b" ", 2)[-2:]
        start = end + 1
        if kind[-1].isdigit():
            size = int(kind[-1])
            texts[name] = answer[start : start + size].decode("utf-8", "replace") if kind[0] == b"blob" else ""
            start += size + 1
    return texts


def _parse_commit(part: str) -> CommitEdits:
    head, _, raw = part.partition(_END)
    commit, at, body = head.split(_FIELD, 2)
    reverted = _REVERTS.search(body)
    edits = tuple(_parse_edits(raw.lstrip("\0\n").split("\0")))
    return CommitEdits(commit, int(at) * 1000, reverted[1] if reverted else "", edits)


def _parse_edits(fields: Sequence[str]) -> Iterable[FileEdit]:
    """Yield edits of `:100644 100644 OLD NEW M`, a path and of a rename another one."""
    at = 0
    while at < len(fields) and fields[at].lstrip("\n").startswith(":"):
        _, _, old_blob, blob, kind = fields[at].split(" ")
        last = at + (2 if kind[0] in "RC" else 1)
        yield FileEdit(kind[0], fields[at + 1], fields[last], old_blob, blob)
        at = last + 1
