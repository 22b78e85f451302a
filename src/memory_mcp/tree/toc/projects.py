"""Files stored segments and periods under the names that their projects have now, and guesses which projects are one.

Invariants
1. Events are never written; what is derived names the project that the rules in force say, once `settle` has returned.
2. A guess needs two pieces of evidence, a name or a place and a repository that is known, and exactly one such repository, or
   the commit with which two histories begin; one that a person took back is not made again.
3. Killed at any point it leaves a valid store, and the next run goes on from there.

Change here: which projects are guessed to be one.
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
from memory_mcp.tree.derive.terms import EMPTY, Hashes, frequency_row, read_sets

#: Segments filed again in one transaction.
_CHUNK = 200
#: Name of the stored mark that says which rules everything derived follows. On disk: do not change it.
_MARK = "projects:filed"


class ProjectRefiling:
    """Writing side; the caller holds the publishing lock."""

    def __init__(self, storage: Storage, clock: Clock) -> None:
        self._storage = storage
        self._clock = clock
        #: Rules that everything derived follows; None before the first look.
        self._settled_names: ProjectNames | None = None

    def settle(self) -> set[str]:
        """Guess aliases, refile by the rules; return changed days.

        Writes aliases, segments, nodes and frequencies, in several transactions. Costs nothing while names
        and rules stay the same.
        """
        projects = self._storage.projects
        if fresh := projects.take_new_names():
            for alias in self._guess_aliases(fresh):
                projects.add_alias(alias)
        names = projects.names
        if names is self._settled_names:
            return set()
        rules = f"{hash_parts('rules', *map(repr, (*names.aliases, *names.splits))):x}" if names.aliases or names.splits else ""
        days = set[str]()
        if self._storage.outbox.get_positions(_MARK).get(_MARK, "") != rules:
            days = self._refile_segments()
            self._storage.outbox.set_position(_MARK, rules)
        self._settled_names = names
        return days

    # which projects are one

    def _guess_aliases(self, fresh: Sequence[str]) -> list[Alias]:
        recorded_names, aliased_names = (
            set(self._storage.projects.list_recorded()),
            {a.old for a in self._storage.projects.names.aliases},
        )
        aliases = []
        names = self._storage.projects.names
        root_commits = self._storage.projects.get_root_commits()
        copies = _find_copies(root_commits)
        for name in sorted(recorded_names - aliased_names):
            if is_gone(name):
                owner = self._find_owner(name, recorded_names, root_commits)
            else:
                owner = _find_remote_project(name, recorded_names)
            owner = owner or copies.get(name, "")
            if owner and names.resolve_alias(owner) != name and (name in fresh or owner in fresh):
                aliases.append(Alias(name, owner, GUESS, self._clock.now_ms()))
        return aliases

    def _find_owner(self, name: str, recorded_names: Collection[str], root_commits: Mapping[str, str]) -> str:
        pool = worktrees.parse_pooled(name)
        if (current_name := project_of(name)) != name and current_name != pool.folder:
            return current_name
        parts = re.split(r"[\\/]", name)
        roots = {root: k for k, root in root_commits.items() if k != name}
        # Some tools call a pool's folder after the commit with which the repository begins, or after its remote.
        remotes = (k for k in recorded_names if not is_place(k) and "/" in k and f"/{k}/" in f"{name}/")
        if owner := next((roots[part] for part in parts if part in roots), "") or max(remotes, key=len, default=""):
            return owner
        candidates = {c for c in worktrees.iter_candidates(name) if c in recorded_names}
        same_named = (k for k in recorded_names if re.split(r"[\\/]", k.rstrip("\\/"))[-1] in pool.names)
        candidates |= {k for k in same_named if not worktrees.parse_pooled(k).names}
        if candidates or current_name != name:
            return candidates.pop() if len(candidates) == 1 else current_name if current_name != name else ""
        parent_directories = (a for a in worktrees.iter_parents(name) if a in recorded_names and is_gone(a))
        has_branch = self._storage.projects.has_branch
        return next((a for a in parent_directories if has_branch(name) and has_branch(a)), "")

    # filing again

    def _refile_segments(self) -> set[str]:
        names = self._storage.projects.names
        project_of_stream: dict[int, str] = {}
        for stream, recorded, session, filed in self._storage.projects.list_streams():
            if (shown := names.display_name(recorded, session)) != filed:
                project_of_stream[stream] = shown
        if not project_of_stream:
            return set()
        cuts = [cut for stream_cuts in self._storage.toc.get_cuts(project_of_stream).values() for cut in stream_cuts]
        # Rename the projects of bullets that people and models wrote: no roll-up makes those again.
        nodes = [
            n for n in self._storage.toc.get_nodes(self._storage.toc.get_authors()).values() if n.level is not TocLevel.SEGMENT
        ]
        grips = self._storage.grips.get_grips(grip for n in nodes for b in n.bullets for grip in b.grip_ids)
        filed_in = self._storage.toc.get_segments({grip.segment for grip in grips.values()})
        segment_of_grip = {i: filed_in[grip.segment] for i, grip in grips.items() if grip.segment in filed_in}
        project_of_grip = {grip_id: project_of_stream.get(cut.stream, cut.project) for grip_id, cut in segment_of_grip.items()}
        renamed_nodes = [
            replace(n, bullets=tuple(_move_bullet(b, project_of_grip) for b in n.bullets), version=n.version + 1) for n in nodes
        ]
        changed_nodes = [renamed for n, renamed in zip(nodes, renamed_nodes, strict=True) if renamed.bullets != n.bullets]
        if changed_nodes:
            self._storage.toc.publish_build(Build(nodes=tuple(changed_nodes)))
        for start in range(0, len(cuts), _CHUNK):
            self._publish_segments(cuts[start : start + _CHUNK], project_of_stream)
        return {cut.day for cut in cuts}

    def _publish_segments(self, cuts: Sequence[Segment], project_of_stream: Mapping[int, str]) -> None:
        due = [cut for cut in cuts if cut.project != project_of_stream[cut.stream]]
        nodes, sets = self._storage.toc.get_nodes(c.node_id for c in due), read_sets(self._storage.toc, [c.node_id for c in due])
        changed = {cut.node_id: project_of_stream[cut.stream] for cut in due}
        terms: dict[tuple[str, int], list[Hashes]] = {}
        for cut in due:
            for project, sign in ((cut.project, -1), (changed[cut.node_id], 1)):
                terms.setdefault((project, sign), []).append(sets.get(cut.node_id, EMPTY))
        self._storage.toc.publish_build(
            Build(
                segments=tuple(replace(cut, project=project_of_stream[cut.stream]) for cut in due),
                nodes=tuple(_move_node(node, changed[i]) for i, node in nodes.items() if i in changed),
                frequencies=tuple(frequency_row(project, t, sign) for (project, sign), t in terms.items()),
            )
        )


def _find_remote_project(name: str, recorded_names: Collection[str]) -> str:
    remote = project_of(name) if is_place(name) and is_repository(name) else ""
    return remote if remote in recorded_names and not is_place(remote) else ""


def _find_copies(roots: Mapping[str, str]) -> dict[str, str]:
    """Return the project that each directory is a copy of.

    By the commit with which their histories begin: the one with a remote, else the one recorded first; none where several have
    a remote, as forks do. `roots` has the commit by recorded name, those recorded first first.
    """
    by_root: dict[str, list[str]] = {}
    for name, root in roots.items():
        by_root.setdefault(root, []).append(name)
    owner_of_copy = {}
    for names in by_root.values():
        remotes = [name for name in names if not is_place(name)]
        if len(names) > 1 and len(remotes) < 2:
            owner = remotes[0] if remotes else names[0]
            owner_of_copy.update({name: owner for name in names if name != owner})
    return owner_of_copy


def _move_node(node: TocNode, project: str) -> TocNode:
    bullets = tuple(replace(b, project=project) for b in node.bullets)
    return replace(node, projects=(project,) if project else (), bullets=bullets, version=node.version + 1)


def _move_bullet(bullet: TocBullet, project_of_grip: Mapping[GripId, str]) -> TocBullet:
    projects = {project_of_grip[grip] for grip in bullet.grip_ids if grip in project_of_grip}
    return replace(bullet, project=projects.pop()) if len(projects) == 1 else bullet
