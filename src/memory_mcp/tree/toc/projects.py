"""Files stored segments and periods under the names that their projects have now, and guesses which projects are one.

Invariants
1. Events are never written; what is derived names the project that the rules in force say, once `settle` has returned.
2. A guess needs two pieces of evidence, a name or a place and a repository that is known, and exactly one such repository, or
   the commit with which two histories begin; one that a person took back is not made again.
3. Killed at any point it leaves a valid store, and the next run goes on from there.
"""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from memory_mcp.base import worktrees
from memory_mcp.base.clock import Clock
from memory_mcp.base.scope import is_gone, is_place, is_repository, project_of
from memory_mcp.model.calendar import TocLevel
from memory_mcp.model.ids import GripId, hash_parts
from memory_mcp.model.project import GUESS, Alias, ProjectNames
from memory_mcp.model.segment import Segment
from memory_mcp.model.toc import TocBullet, TocNode
from memory_mcp.storage.base import Storage
from memory_mcp.storage.values import Build
from memory_mcp.tree.derive.terms import EMPTY, Hashes, frequency, read_sets

#: Segments filed again in one transaction.
_CHUNK = 200
#: Name of the stored mark that says which rules everything derived follows. On disk: do not change it.
_MARK = "projects:filed"


class Projects:
    """Writing side; the caller holds the publishing lock."""

    def __init__(self, storage: Storage, clock: Clock) -> None:
        """File what `storage` holds; aliases that are guessed get the time of `clock`."""
        self._storage = storage
        self._clock = clock
        #: Rules that everything derived follows; None before the first look.
        self._settled: ProjectNames | None = None

    def settle(self) -> set[str]:
        """Guess about new names, refile what the rules name differently, and return the days that changed.

        Writes aliases, segments, nodes and frequencies, in several transactions. Costs nothing while names
        and rules stay the same.
        """
        projects = self._storage.projects
        if fresh := projects.take_new_names():
            for alias in self._guesses(fresh):
                projects.add_alias(alias)
        names = projects.names
        if names is self._settled:
            return set()
        rules = f"{hash_parts('rules', *map(repr, (*names.aliases, *names.splits))):x}" if names.aliases or names.splits else ""
        days = set[str]()
        if self._storage.outbox.get_positions(_MARK).get(_MARK, "") != rules:
            days = self._file_again()
            self._storage.outbox.set_position(_MARK, rules)
        self._settled = names
        return days

    # which projects are one

    def _guesses(self, fresh: Sequence[str]) -> list[Alias]:
        """Return aliases for directories that are gone or of a repository with another name, that no alias names yet.

        Limited to those that involve a new name.
        """
        known, said = set(self._storage.projects.list_recorded()), {a.old for a in self._storage.projects.names.aliases}
        found = []
        names = self._storage.projects.names
        copies = _copies(self._storage.projects.get_root_commits())
        for name in sorted(known - said):
            owner = self._owner(name, known) if is_gone(name) else _with_remote(name, known)
            owner = owner or copies.get(name, "")
            if owner and names.resolve_alias(owner) != name and (name in fresh or owner in fresh):
                found.append(Alias(name, owner, GUESS, self._clock.now_ms()))
        return found

    def _owner(self, name: str, known: Collection[str]) -> str:
        """Return the project that a deleted directory belonged to; "" if none or several are possible.

        `known` are the recorded projects. A repository that git or the path names counts, else a directory
        above with the same branch.
        """
        pool = worktrees.parse_pooled(name)
        if (now := project_of(name)) != name and now != pool.folder:
            return now
        parts = re.split(r"[\\/]", name)
        roots = {root: k for k, root in self._storage.projects.get_root_commits().items() if k != name}
        # Some tools call a pool's folder after the commit with which the repository begins, or after its remote.
        remotes = (k for k in known if not is_place(k) and "/" in k and f"/{k}/" in f"{name}/")
        if owner := next((roots[part] for part in parts if part in roots), "") or max(remotes, key=len, default=""):
            return owner
        found = {c for c in worktrees.iter_candidates(name) if c in known}
        named = (k for k in known if re.split(r"[\\/]", k.rstrip("\\/"))[-1] in pool.names)
        found |= {k for k in named if not worktrees.parse_pooled(k).names}
        if found or now != name:
            return found.pop() if len(found) == 1 else now if now != name else ""
        above = (a for a in worktrees.iter_parents(name) if a in known and is_gone(a))
        has_branch = self._storage.projects.has_branch
        return next((a for a in above if has_branch(name) and has_branch(a)), "")

    # filing again

    def _file_again(self) -> set[str]:
        """Publish segments whose project has another name now, and periods' refined texts; return the days of their streams."""
        names = self._storage.projects.names
        moved: dict[int, str] = {}
        for stream, recorded, session, filed in self._storage.projects.list_streams():
            if (shown := names.display_name(recorded, session)) != filed:
                moved[stream] = shown
        if not moved:
            return set()
        cuts = [cut for several in self._storage.toc.get_cuts(moved).values() for cut in several]
        # Rename the projects of bullets that people and models wrote: no roll-up makes those anew.
        nodes = [
            n for n in self._storage.toc.get_nodes(self._storage.toc.get_authors()).values() if n.level is not TocLevel.SEGMENT
        ]
        grips = self._storage.grips.get_grips(grip for n in nodes for b in n.bullets for grip in b.grip_ids)
        filed_in = self._storage.toc.get_segments({grip.segment for grip in grips.values()})
        own = {i: filed_in[grip.segment] for i, grip in grips.items() if grip.segment in filed_in}
        whose = {grip_id: moved.get(cut.stream, cut.project) for grip_id, cut in own.items()}
        told = [replace(n, bullets=tuple(_of_grips(b, whose) for b in n.bullets), version=n.version + 1) for n in nodes]
        fresh = [now for n, now in zip(nodes, told, strict=True) if now.bullets != n.bullets]
        if fresh:
            self._storage.toc.publish_build(Build(nodes=tuple(fresh)))
        for start in range(0, len(cuts), _CHUNK):
            self._publish(cuts[start : start + _CHUNK], moved)
        return {cut.day for cut in cuts}

    def _publish(self, cuts: Sequence[Segment], moved: Mapping[int, str]) -> None:
        """Publish the segments that `moved`, by stream, names otherwise, with nodes and frequencies, in one transaction."""
        due = [cut for cut in cuts if cut.project != moved[cut.stream]]
        nodes, sets = self._storage.toc.get_nodes(c.node_id for c in due), read_sets(self._storage.toc, [c.node_id for c in due])
        changed = {cut.node_id: moved[cut.stream] for cut in due}
        terms: dict[tuple[str, int], list[Hashes]] = {}
        for cut in due:
            for project, sign in ((cut.project, -1), (changed[cut.node_id], 1)):
                terms.setdefault((project, sign), []).append(sets.get(cut.node_id, EMPTY))
        self._storage.toc.publish_build(
            Build(
                segments=tuple(replace(cut, project=moved[cut.stream]) for cut in due),
                nodes=tuple(_under(node, changed[i]) for i, node in nodes.items() if i in changed),
                frequencies=tuple(frequency(project, t, sign) for (project, sign), t in terms.items()),
            )
        )


def _with_remote(name: str, known: Collection[str]) -> str:
    """Return the project by whose remote a directory is known today, if anything was recorded with it; else ""."""
    remote = project_of(name) if is_place(name) and is_repository(name) else ""
    return remote if remote in known and not is_place(remote) else ""


def _copies(roots: Mapping[str, str]) -> dict[str, str]:
    """Return the project that each directory is a copy of, by the commit with which their histories begin.

    That is the one with a remote, else the one recorded first; none where several have a remote, as forks do. `roots`
    has the commit by recorded name, those recorded first first.
    """
    by_root: dict[str, list[str]] = {}
    for name, root in roots.items():
        by_root.setdefault(root, []).append(name)
    found = {}
    for names in by_root.values():
        remotes = [name for name in names if not is_place(name)]
        if len(names) > 1 and len(remotes) < 2:
            owner = remotes[0] if remotes else names[0]
            found.update({name: owner for name in names if name != owner})
    return found


def _under(node: TocNode, project: str) -> TocNode:
    """Return a segment's node, its next version, as that of another project; "" is none."""
    bullets = tuple(replace(b, project=project) for b in node.bullets)
    return replace(node, projects=(project,) if project else (), bullets=bullets, version=node.version + 1)


def _of_grips(bullet: TocBullet, whose: Mapping[GripId, str]) -> TocBullet:
    """Return a bullet under the project of its grips; unchanged if they are of none or of several."""
    projects = {whose[grip] for grip in bullet.grip_ids if grip in whose}
    return replace(bullet, project=projects.pop()) if len(projects) == 1 else bullet
