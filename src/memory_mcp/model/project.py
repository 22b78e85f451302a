"""Project names: aliases, and sessions that were split off a project. Pure.

Invariants
1. An event keeps the name it was recorded with; these rules decide under which name it is shown, and removing a rule
   shows again what was shown before.
"""

import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import field

from memory_mcp.base.dataclass import dataclass

#: Who said that two projects are one. On disk: do not change the values.
PERSON, GUESS, REFUSED = "person", "guess", "refused"
#: Between the parts of a name.
_SEPARATOR = re.compile(r"[\\/]+")


@dataclass(frozen=True, slots=True)
class Alias:
    """`old` is another name of `new`.

    With `REFUSED` a guess that a person took back, which is not made again.
    """

    old: str
    new: str
    author: str
    at_ms: int


@dataclass(frozen=True, slots=True)
class Split:
    """A session, or the sessions begun in a folder, as a separate project."""

    project: str
    #: "" where a folder is named.
    session_id: str
    #: "" where a session is named.
    folder: str
    new: str
    at_ms: int


@dataclass(frozen=True)
class ProjectNames:
    """All aliases and splits of a memory."""

    aliases: Sequence[Alias] = ()
    splits: Sequence[Split] = ()
    #: Where sessions began, by the project they were recorded with and their id: of projects that a folder was split from.
    start_folders: dict[tuple[str, str], str] = field(default_factory=dict)
    _targets: dict[str, str] = field(init=False, repr=False)
    _display_names: dict[tuple[str, str], str] = field(default_factory=dict, init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_targets", {a.old: a.new for a in self.aliases if a.author != REFUSED})

    @property
    def is_plain(self) -> bool:
        """Whether every project is shown as it was recorded."""
        return not self._targets and not self.splits

    def resolve_alias(self, project: str) -> str:
        """Return the present name of a project; a circle ends at its last new name."""
        visited = {project}
        while (target := self._targets.get(project)) is not None and target not in visited:
            visited.add(project := target)
        return project

    def display_name(self, project: str, session_id: str) -> str:
        """Return the display name of a session's events recorded with `project`.

        Splits that take the session out come first, then aliases; answers are kept until `note_start_folder` says more.
        """
        if self.is_plain:
            return project
        key = (project, session_id)
        if key not in self._display_names:
            split = self._applied_splits(project, session_id)
            self._display_names[key] = self.resolve_alias(split[-1].new) if split else self.resolve_alias(project)
        return self._display_names[key]

    def split_key(self, project: str, session_id: str) -> str:
        """Return a text that is equal for sessions with the same splits.

        It is the project's name, then a line "<session> <folder> <new name>" for each split.
        """
        steps = (f"{s.session_id} {s.folder} {s.new}" for s in self._applied_splits(project, session_id))
        return "\n".join((project, *steps))

    def _applied_splits(self, project: str, session_id: str) -> list[Split]:
        # A split names the session, or a folder in or below which it began; a session of unknown beginning is in none.
        folder = self.start_folders.get((project, session_id), "")
        pending = [s for s in self.splits if (s.session_id == session_id if s.session_id else is_inside(folder, s.folder))]
        name, applied = self.resolve_alias(project), list[Split]()
        while split := next((s for s in pending if self.resolve_alias(s.project) == name), None):
            pending.remove(split)
            applied.append(split)
            name = self.resolve_alias(split.new)
        return applied

    def recorded_names(self, name: str) -> list[str]:
        """Return, sorted, the names a project's events may be recorded with.

        Its own and its aliases, not the project it was split from.
        """
        return sorted({name, *(old for old in self._targets if self.resolve_alias(old) == name)})

    def aliases_of(self, name: str) -> list[Alias]:
        """Return the aliases, without refused ones, that lead to `name`."""
        return [a for a in self.aliases if a.author != REFUSED and self.resolve_alias(a.old) == name]

    def names_needing_folders(self) -> frozenset[str]:
        """Return recorded names whose sessions need a known start folder.

        These are the names of all splits if one names a folder, else none.
        """
        return frozenset(self._split_names() if any(split.folder for split in self.splits) else ())

    def note_start_folder(self, project: str, session_id: str, folder: str) -> None:
        """Note the folder a session began in, unless another is known."""
        if self.start_folders.setdefault((project, session_id), folder) == folder:
            self._display_names.pop((project, session_id), None)

    def _split_names(self) -> set[str]:
        return {name for split in self.splits for name in self.recorded_names(self.resolve_alias(split.project))}

    def moved_sessions(self) -> dict[tuple[str, str], str]:
        """Return display names of sessions that are not shown with their project.

        By (recorded project, session). It covers those that splits name, whether there is such a session or not, and those with
        a known start folder.
        """
        sessions = {split.session_id for split in self.splits} - {""}
        split_pairs = {(name, session) for name in self._split_names() for session in sessions}
        names = {pair: self.display_name(*pair) for pair in {*split_pairs, *self.start_folders}}
        return {pair: name for pair, name in names.items() if name != self.resolve_alias(pair[0])}


def is_inside(path: str, folder: str) -> bool:
    """Return whether a path is a folder or below it, by text alone.

    Slashes of either kind are equal. False for an empty path; an empty folder, like "/", contains every path that begins
    with a slash.
    """
    path_text, folder_text = (re.sub(r"[\\/]+", "/", text).rstrip("/") for text in (path, folder))
    return bool(path) and (path_text == folder_text or path_text.startswith(folder_text + "/"))


def shorten_names(projects: Collection[str]) -> Mapping[str, str]:
    """Return each project's shortest ending that no other project shares.

    `github.com/acme/harbour` is `harbour`, next to `gitlab.com/tools/harbour` it is `acme/harbour`.
    """
    tails = {project: _list_suffixes(project) for project in set(projects)}
    counts = Counter(tail.replace("\\", "/") for ends in tails.values() for tail in ends)
    return {
        project: next((tail for tail in ends if counts[tail.replace("\\", "/")] == 1), project) for project, ends in tails.items()
    }


def _list_suffixes(project: str) -> list[str]:
    starts = [match.end() for match in _SEPARATOR.finditer(project) if match.end() < len(project)]
    return [*(project[start:] for start in reversed(starts)), project]
