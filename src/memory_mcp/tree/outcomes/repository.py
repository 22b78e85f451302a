"""Tells what a repository says since of statements that name its files; asks git, within a time."""

import time
from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence

from memory_mcp.base.dataclass import dataclass
from memory_mcp.base.git_changes import CommitEdits, list_changes, list_files, read_texts
from memory_mcp.tree.outcomes.file_changes import (
    BEFORE_MS,
    MOST_ALIKE,
    FileStep,
    FollowedFile,
    ends_in,
    follow_files,
    list_renames,
    paths_with,
)
from memory_mcp.tree.outcomes.mentions import Mention, Region, find_mentions, find_region

#: Renames one after another that are followed, and commits of a file among which the one that changed its lines is looked for.
_RENAMES, _COMMITS = 3, 40
_DAY_MS = 86_400_000
#: Ages of claims that are read together, newest first: history of years may be too much to read.
_AGES_MS = (90 * _DAY_MS, 365 * _DAY_MS)


@dataclass(frozen=True, slots=True)
class Checkout:
    """A working tree at a commit."""

    tree: str
    head: str


@dataclass(frozen=True, slots=True)
class Claim:
    """A statement that names files, when it was made, and in which directory."""

    text: str
    at_ms: int
    folder: str
    #: Whether a first change since then is one of which it speaks.
    is_own: Callable[[FileStep], bool]


@dataclass(frozen=True, slots=True)
class CodeChange:
    """What became of what a claim is about: in words, and the commit that did it, if that is known."""

    words: str
    step: FileStep | None


@dataclass(frozen=True, slots=True)
class _Subject:
    """Files that a claim may mean by one mention, followed to the present."""

    claim: Claim
    mention: Mention
    files: Sequence[FollowedFile]


class Repository:
    """Reads one checkout until a deadline (`time.monotonic`); what there was no time for is None."""

    def __init__(self, checkout: Checkout, files: bytes | None, deadline: float) -> None:
        """`files` are the paths of the commit if they are known, each between two NULs."""
        self._tree, self._head, self._deadline = checkout.tree, checkout.head, deadline
        self.files = list_files(checkout.tree, checkout.head, deadline) if files is None else files

    def find_changes(self, claims: Sequence[Claim]) -> list[list[CodeChange] | None]:
        """Return what became of each claim's code, [] where nothing can be told."""
        changes: dict[int, list[CodeChange]] = {}
        for group in _group_by_age(claims):
            group_changes = self._find_changes(group)
            if group_changes is None:
                break
            changes |= group_changes
        return [changes.get(id(claim)) for claim in claims]

    def _find_changes(self, claims: Sequence[Claim]) -> dict[int, list[CodeChange]] | None:
        subjects = self._follow_claims(claims)
        if subjects is None:
            return None
        texts = self._read_texts(subject for subject in subjects if any(file.later for file in subject.files))
        if texts is None:
            return None
        by_claim: dict[int, list[CodeChange]] = {id(claim): [] for claim in claims}
        for subject in subjects:
            by_claim[id(subject.claim)] += self._describe_subject(subject, texts)
        return by_claim

    def find_names(self, path: str) -> list[str] | None:
        """Return the other paths that a file had or has, by the renames of all history; [] if several files are meant."""
        if self.files is None:
            return None
        paths = paths_with(path, self.files)
        if len(paths) > 1:
            return []
        changes = self._list_changes(paths, () if paths else (path,), 0)
        if changes is None:
            return None
        renames = list_renames(changes)
        names = paths or {old for old, _ in renames if ends_in(old, path)}
        for _ in range(_RENAMES):
            names |= {name for pair in renames if not names.isdisjoint(pair) for name in pair}
        return sorted(name for name in names if not ends_in(name, path))

    def _follow_claims(self, claims: Sequence[Claim]) -> list[_Subject] | None:
        files = self.files
        if files is None:
            return None
        subjects: list[_Subject] = []
        open_pairs = [(claim, mention) for claim in claims for mention in _find_places(claim, self._tree)]
        # A path that is there is found sooner; what it was not at the time is looked for by its end.
        for by_end in (False, True):
            pairs = [pair for pair in open_pairs if by_end or 0 < len(paths_with(pair[1].path, files)) <= MOST_ALIKE]
            paths = set().union(*(paths_with(mention.path, files) for _, mention in pairs)) if not by_end else set[str]()
            ends = {mention.path for _, mention in pairs} if by_end else set()
            changes = self._list_changes(paths, ends, min((claim.at_ms for claim, _ in pairs), default=0) - BEFORE_MS)
            if changes is None:
                return None
            candidates = [_Subject(claim, mention, self._follow(claim, mention, changes, files)) for claim, mention in pairs]
            subjects += [subject for subject in candidates if subject.files]
            closed_pairs = [(subject.claim, subject.mention) for subject in subjects]
            open_pairs = [pair for pair in open_pairs if pair not in closed_pairs]
        return subjects

    def _follow(self, claim: Claim, mention: Mention, changes: Sequence[CommitEdits], files: bytes) -> list[FollowedFile]:
        recent = [change for change in changes if change.at_ms >= claim.at_ms - BEFORE_MS]
        return follow_files(mention.path, claim.at_ms, recent, files, claim.is_own)

    def _list_changes(self, paths: Iterable[str], ends: Iterable[str], since_ms: int) -> list[CommitEdits] | None:
        """Return the commits that changed some files, also under the names that these had before and later."""
        all_paths, all_ends = set(paths), set(ends)
        for _ in range(_RENAMES):
            since_day = since_ms - since_ms % _DAY_MS
            changes = list_changes(self._tree, self._head, all_paths, all_ends, since_day, self._deadline)
            if changes is None:
                return None
            renames = list_renames(changes)
            matching = all_paths | {name for pair in renames for name in pair if any(ends_in(name, end) for end in all_ends)}
            linked = {name for pair in renames if not matching.isdisjoint(pair) for name in pair}
            if linked <= all_paths:
                break
            all_paths |= linked
        return changes

    def _read_texts(self, subjects: Iterable[_Subject]) -> Mapping[str, str] | None:
        objects = {name for subject in subjects for file in subject.files for name in self._objects_of(file)}
        return read_texts(self._tree, objects, self._deadline)

    def _objects_of(self, file: FollowedFile) -> tuple[str, str]:
        """Return the names of a file's contents at the time and at present; "" for none."""
        unchanged = f"{self._head}:{file.path}"
        return (file.old_blob, file.blob) if file.later else (unchanged, unchanged)

    def _describe_subject(self, subject: _Subject, texts: Mapping[str, str]) -> list[CodeChange]:
        """Return what became of the file that is meant: the only one, or the only one that has what the claim names."""
        regions = []
        for file in subject.files:
            old_text = texts.get(self._objects_of(file)[0], "")
            regions.append(find_region(subject.claim.text, subject.mention, old_text) if old_text else None)
        candidates = list(zip(subject.files, regions, strict=True))
        if len(candidates) > 1:
            candidates = [(file, region) for file, region in candidates if region is not None and region.is_named]
        if len(candidates) != 1 or not candidates[0][0].later:
            return []
        return self._describe_file(*candidates[0], texts)

    def _describe_file(self, file: FollowedFile, region: Region | None, texts: Mapping[str, str]) -> list[CodeChange]:
        """Return where a file is, and whether what is meant in it changed."""
        text = texts.get(file.blob) if file.blob else None
        name = region.changed_in(text) if region is not None and text is not None else None
        changes = []
        if (end := file.ending) is not None:
            words = f"{file.old_path} is now {file.path}" if file.is_there else f"{file.old_path} was deleted"
            changes.append(CodeChange(words, end))
        is_changed = name is not None if region is not None else file.blob != file.old_blob
        if is_changed and (reversal := file.find_reversal()) is not None:
            changes.append(CodeChange("the change was reverted", reversal))
        elif name is not None and region is not None:
            what = name or ("that line" if len(region.lines) == 1 else "those lines")
            changes.append(CodeChange(f"{what} of {file.path} changed", self._find_change(file, region)))
        return changes

    def _find_change(self, file: FollowedFile, region: Region) -> FileStep | None:
        """Return the commit since which the file has not everything of a region; None if that is not known."""
        steps = file.later[-_COMMITS:]
        texts = read_texts(self._tree, (step.edit.blob for step in steps), self._deadline) or {}
        change = None
        for step in reversed(steps):
            text = texts.get(step.edit.blob)
            if text is None or region.changed_in(text) is None:
                break
            change = step
        is_whole = change is not None and (change is not steps[0] or len(steps) == len(file.later))
        return change if is_whole else None


def _group_by_age(claims: Iterable[Claim]) -> Iterable[list[Claim]]:
    now_ms = time.time() * 1000
    groups: list[list[Claim]] = [[] for _ in range(len(_AGES_MS) + 1)]
    for claim in claims:
        groups[bisect_left(_AGES_MS, now_ms - claim.at_ms)].append(claim)
    return filter(None, groups)


def _find_places(claim: Claim, tree: str) -> list[Mention]:
    """Return the files that a claim names, by their paths in the working tree; none outside of it."""
    places = []
    for mention in find_mentions(claim.text):
        path = mention.path
        for folder in (tree, claim.folder):
            path = path.removeprefix(folder.replace("\\", "/").rstrip("/") + "/") if folder else path
        if not path.startswith("/") and ".." not in path.split("/"):
            places.append(Mention(path, mention.lines))
    return places
