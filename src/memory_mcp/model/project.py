"""Names of projects: aliases of other names, and sessions that were split off a project. Pure.

Invariants
1. An event keeps the name it was recorded with; what is said here decides under which name it is shown, and taking a rule
   back shows again what was shown before.
"""

import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

#: Who said that two projects are one. On disk: do not change the values.
PERSON, GUESS, REFUSED = "person", "guess", "refused"
#: Between the parts of a name.
_SEPARATOR = re.compile(r"[\\/]+")


@dataclass(frozen=True, slots=True)
class Alias:
    """`old` is another name of `new`; with `REFUSED` a guess that a person took back, which is not made again."""

    old: str
    new: str
    author: str
    at_ms: int


@dataclass(frozen=True, slots=True)
class Split:
    """One session of a project, or those that began in a folder or below it, are a project of their own."""

    project: str
    #: "" where a folder is named.
    session_id: str
    #: "" where a session is named.
    folder: str
    new: str
    at_ms: int


@dataclass(frozen=True)
class Names:
    """All aliases and splits of a memory."""

    aliases: Sequence[Alias] = ()
    splits: Sequence[Split] = ()
    #: Where sessions began, by the project they were recorded with and their id: of projects that a folder was split from.
    began: dict[tuple[str, str], str] = field(default_factory=dict)
    _to: dict[str, str] = field(init=False, repr=False)
    _shown: dict[tuple[str, str], str] = field(default_factory=dict, init=False, repr=False)

    def __post_init__(self) -> None:
        """Build the lookup of aliases, without refused ones."""
        object.__setattr__(self, "_to", {a.old: a.new for a in self.aliases if a.author != REFUSED})

    @property
    def is_plain(self) -> bool:
        """Whether every project is shown as it was recorded."""
        return not self._to and not self.splits

    def of(self, project: str) -> str:
        """Return the name that stands for a project after its aliases, itself without one; a circle ends at the last new name."""
        seen = {project}
        while (further := self._to.get(project)) is not None and further not in seen:
            seen.add(project := further)
        return project

    def shown(self, project: str, session_id: str) -> str:
        """Return the name under which the events of a session that were recorded with `project` are shown.

        Splits that take the session out come first, then aliases; answers are kept until `began_in` says more.
        """
        if self.is_plain:
            return project
        key = (project, session_id)
        if key not in self._shown:
            split = self._taken_out(project, session_id)
            self._shown[key] = self.of(split[-1].new) if split else self.of(project)
        return self._shown[key]

    def way(self, project: str, session_id: str) -> str:
        """Return a text that is equal for two sessions of `project` just if the same splits apply to them in the same order.

        It is the project's name, then a line "<session> <folder> <new name>" for each split.
        """
        steps = (f"{s.session_id} {s.folder} {s.new}" for s in self._taken_out(project, session_id))
        return "\n".join((project, *steps))

    def _taken_out(self, project: str, session_id: str) -> list[Split]:
        """Return the splits that apply to a session, each once, in the order in which one follows another from its project."""
        # A split names the session, or a folder in or below which it began; a session of unknown beginning is in none.
        began = self.began.get((project, session_id), "")
        left = [s for s in self.splits if (s.session_id == session_id if s.session_id else is_inside(began, s.folder))]
        name, found = self.of(project), list[Split]()
        while split := next((s for s in left if self.of(s.project) == name), None):
            left.remove(split)
            found.append(split)
            name = self.of(split.new)
        return found

    def recorded_as(self, name: str) -> list[str]:
        """Return, sorted, the names events of a project may be recorded with: its own and aliases, not what it was split from."""
        return sorted({name, *(old for old in self._to if self.of(old) == name)})

    def other_names(self, name: str) -> list[Alias]:
        """Return the aliases, not refused ones, that lead to the project `name`, in the order of `aliases`."""
        return [a for a in self.aliases if a.author != REFUSED and self.of(a.old) == name]

    def watched(self) -> frozenset[str]:
        """Return the recorded names of all splits if one names a folder, else none: where their sessions began must be known."""
        return frozenset(self._split_from() if any(split.folder for split in self.splits) else ())

    def began_in(self, project: str, session_id: str, folder: str) -> None:
        """Note the folder a session began in, unless another is known, and forget the cached name under which it was shown."""
        if self.began.setdefault((project, session_id), folder) == folder:
            self._shown.pop((project, session_id), None)

    def _split_from(self) -> set[str]:
        """Return all names that events of projects with a split may have been recorded with."""
        return {name for split in self.splits for name in self.recorded_as(self.of(split.project))}

    def moved(self) -> dict[tuple[str, str], str]:
        """Return (recorded project, session) to the name shown, for sessions shown apart from their project.

        Of those that splits name, whether there is such a session or not, and those whose beginning is known.
        """
        sessions = {split.session_id for split in self.splits} - {""}
        named = {(name, session) for name in self._split_from() for session in sessions}
        pairs = {(project, session): self.shown(project, session) for project, session in {*named, *self.began}}
        return {(project, session): new for (project, session), new in pairs.items() if new != self.of(project)}


def is_inside(path: str, folder: str) -> bool:
    """Return whether a path is a folder or is below it, by the texts alone; slashes of either kind are equal.

    False for an empty path; in an empty folder, as in "/", is every path that begins with a slash.
    """
    own, whole = (re.sub(r"[\\/]+", "/", text).rstrip("/") for text in (path, folder))
    return bool(path) and (own == whole or own.startswith(whole + "/"))


def short_names(projects: Collection[str]) -> Mapping[str, str]:
    """Return each project's shortest last parts that no other project ends in; a name without such parts stays whole.

    `github.com/acme/harbour` is `harbour`, beside `gitlab.com/tools/harbour` it is `acme/harbour`.
    """
    tails = {project: _tails(project) for project in set(projects)}
    counts = Counter(tail.replace("\\", "/") for ends in tails.values() for tail in ends)
    return {
        project: next((tail for tail in ends if counts[tail.replace("\\", "/")] == 1), project) for project, ends in tails.items()
    }


def _tails(project: str) -> list[str]:
    """Return a name's last parts, the last one alone first, at last the whole name."""
    starts = [match.end() for match in _SEPARATOR.finditer(project) if match.end() < len(project)]
    return [*(project[start:] for start in reversed(starts)), project]
