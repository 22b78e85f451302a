"""Follows a file through the commits since a time: its path then and now, and what was done to it. Pure."""

from collections.abc import Callable, Iterable, Sequence

from memory_mcp.base.dataclass import dataclass
from memory_mcp.base.git_changes import CommitEdits, FileEdit

#: A change within so long is that of which the statement speaks: it is committed a while after it is told.
_SETTLING_MS = 6 * 3_600_000
#: Files of one name that are followed.
MOST_ALIKE = 4
#: So long before a statement a commit may be that of which it speaks.
BEFORE_MS = 12 * 3_600_000


@dataclass(frozen=True, slots=True)
class FileStep:
    """What one commit did to the file."""

    by: CommitEdits
    edit: FileEdit


@dataclass(frozen=True, slots=True)
class FollowedFile:
    """A file between a time and a commit."""

    #: Its path at the time, and its last one.
    old_path: str
    path: str
    is_there: bool
    #: Commits of which the statement speaks, and those since; oldest first.
    own: Sequence[FileStep]
    later: Sequence[FileStep]

    @property
    def old_blob(self) -> str:
        """Its contents after what the statement speaks of; "" where nothing was changed since."""
        return self.later[0].edit.old_blob if self.later else ""

    @property
    def blob(self) -> str:
        """Its last contents; "" where it is gone, or nothing was changed since."""
        return self.later[-1].edit.blob if self.later and self.is_there else ""

    @property
    def ending(self) -> FileStep | None:
        """The commit that gave the last path, or took the file away; None where the path is the old one."""
        ends = [step for step in self.later if step.edit.kind == ("R" if self.is_there else "D")]
        return ends[-1] if ends and (not self.is_there or self.path != self.old_path) else None

    def find_reversal(self) -> FileStep | None:
        """Return the last commit that took back what the statement speaks of, by its message or by the contents it left."""
        names = [step.by.commit for step in self.own]
        before = self.own[0].edit.old_blob if self.own else ""
        for step in reversed(self.later):
            if step.by.reverts and any(name.startswith(step.by.reverts) for name in names):
                return step
            if before and step.edit.blob == before != self.old_blob:
                return step
        return None


def follow_files(
    path: str, at_ms: int, changes: Sequence[CommitEdits], names: bytes, is_own: Callable[[FileStep], bool]
) -> list[FollowedFile]:
    """Return what became of the files that may have been meant by a path, or by its end.

    Args:
        path: As it was said.
        at_ms: When, UTC milliseconds.
        changes: Commits from `BEFORE_MS` before that on, oldest first.
        names: All paths of the last commit, each between two NULs.
        is_own: Whether a first change since then is one of which the statement speaks.

    """
    start = next((place for place, change in enumerate(changes) if change.at_ms > at_ms), len(changes))
    earlier, since = changes[:start], changes[start:]
    old_paths = _paths_before(path, since, names)
    candidates = [path] if path in old_paths else sorted(old_paths)
    files = (_follow_path(old_path, at_ms, earlier, since, names, is_own) for old_path in candidates[:MOST_ALIKE])
    return [file for file in files if file is not None] if len(candidates) <= MOST_ALIKE else []


def _follow_path(
    old_path: str,
    at_ms: int,
    earlier: Sequence[CommitEdits],
    since: Sequence[CommitEdits],
    names: bytes,
    is_own: Callable[[FileStep], bool],
) -> FollowedFile | None:
    """Return what became of a file; None if commits do not lead to what is there."""
    path, is_there, steps = old_path, True, list[FileStep]()
    for change in since:
        for edit in change.edits:
            if (edit.old_path if is_there else edit.path) == path and (is_there or edit.kind in "AR"):
                steps.append(FileStep(change, edit))
                path, is_there = edit.path, edit.kind != "D"
                break
    if is_there != (_as_name(path) in names):
        return None
    own_steps = [
        FileStep(change, edit)
        for change in earlier
        for edit in change.edits
        if edit.path == old_path and change.at_ms >= at_ms - BEFORE_MS
    ]
    first = steps[:1]
    if first and first[0].edit.kind in "MA" and (first[0].by.at_ms <= at_ms + _SETTLING_MS or is_own(first[0])):
        own_steps, steps = [*own_steps, *first], steps[1:]
    return FollowedFile(old_path, path, is_there, own_steps, steps)


def list_renames(changes: Iterable[CommitEdits]) -> set[tuple[str, str]]:
    """Return the old and the new path of each rename."""
    return {(edit.old_path, edit.path) for change in changes for edit in change.edits if edit.kind == "R"}


def ends_in(path: str, name: str) -> bool:
    """Return whether a path is a name or ends in it behind a slash."""
    return path == name or path.endswith(f"/{name}")


def _paths_before(name: str, since: Sequence[CommitEdits], names: bytes) -> set[str]:
    """Return the paths of this name before some commits, the last of which has `names`."""
    paths = paths_with(name, names)
    for change in reversed(since):
        for edit in change.edits:
            if edit.kind in "AR":
                paths.discard(edit.path)
        paths |= {edit.old_path for edit in change.edits if edit.kind in "DR" and ends_in(edit.old_path, name)}
    return paths


def paths_with(name: str, names: bytes) -> set[str]:
    """Return the paths, each between two NULs in `names`, that are a name or end in it."""
    end = _as_name(name)[1:]
    paths, place = set[str](), names.find(end)
    while place >= 0:
        start = names.rfind(b"\0", 0, place) + 1
        path = names[start : place + len(end) - 1].decode("utf-8", "surrogateescape")
        if ends_in(path, name):
            paths.add(path)
        place = names.find(end, place + 1)
    return paths


def _as_name(path: str) -> bytes:
    return b"\0" + path.encode("utf-8", "surrogateescape") + b"\0"
