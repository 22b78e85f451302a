"""Find the tree that a worktree was made from by the form of its path alone; no file is read.

Of three kinds: layouts in which only worktrees lie (`holder`), names that are a worktree's only if the repository they would
belong to is known (`candidates`), and pools that name the repository without its place (`pooled`).

Invariants
1. A home directory, a filesystem's root and a folder that people keep many repositories in are never taken for a repository.
"""

import os
import re
from collections.abc import Iterator
from typing import NamedTuple

#: Folders inside a repository that hold its worktrees, and git's own; `<repo>.worktrees/x` is how VS Code names them.
_HELD = re.compile(r"(?:[\\/]\.(?:claude|gemini)[\\/]worktrees|\.worktrees|[\\/]\.git)(?=[\\/]|$)")
#: Pools of one user's worktrees of many repositories: in a tool's folder (`.cursor/worktrees`, `.local/share/opencode/worktree`,
#: `conductor/workspaces`), below which are the repository's name and one of the worktree in either order, or in any other.
_POOL = re.compile(
    r"^.*?[\\/](?:(?P<tool>\.[\w-]+[\\/](?:[\w.-]+[\\/]){0,2}worktrees?|(?:\.[\w-]+|conductor)[\\/]workspaces|vibe-kanban[\\/]worktrees"
    r"|\.[\w-]+-(?:worktrees|workspaces))|worktrees?)[\\/](?P<names>[^\\/]+[\\/][^\\/]+)(?:[\\/].*)?$"
)
_MARKED = re.compile(r"^(.+?)[-_.](?:wt|worktree)[-_.].+$")
_GATHERED = re.compile(r"^(.+?)[-_]worktrees$")
_HOME = re.compile(r"^(?:[\\/](?:home|Users)[\\/][^\\/]+|[\\/]root|[A-Za-z]:[\\/]Users[\\/][^\\/]+)$")
_DRIVE = re.compile(r"^(?:[A-Za-z]:)?[\\/]*$")
_SEPARATOR = re.compile(r"([\\/])")
#: Folders that people keep many repositories in, by their usual names.
_COLLECTIONS = frozenset(
    "code coding dev develop development devel git github gitlab ghq repos repositories repo src source sources work workspace "
    "workspaces works wks projects project proj documents desktop downloads home users tmp temp "
    "var opt srv mnt volumes "
    "worktrees .worktrees".split()
)
#: Branches that a plain clone is usually on: a folder named after one of them is no sign of a worktree.
_USUAL = frozenset(("", "head", "main", "master", "trunk", "develop", "dev", "default", "release", "stable", "next"))


def holder(path: str) -> str:
    """Return the tree in whose folder of worktrees (or git directory) `path` is; "" in none, and for a home.

    It may be called like a collection: the caller checks whether it is a repository.
    """
    found = _HELD.search(path)
    root = path[: found.start()].rstrip("\\/") if found else ""
    return "" if is_home(root) else root


def candidates(path: str, branch: str = "") -> Iterator[str]:
    """Yield trees that `path` may be a worktree of, by its names; the caller checks which of them is a repository.

    From the root down, for each folder: a name with -wt- or -worktree- in it, a folder `<repo>-worktrees`, one called
    `worktrees`, and a name that ends with the branch. `branch` is what was checked out there; "" if unknown.
    """
    # A worktree's folder may be called after its whole branch, or after what follows the last slash.
    whole = branch.strip().lower()
    parts = (re.sub(r"[\\/:]+", "-", whole), whole.rsplit("/", 1)[-1])
    slugs = [] if whole in _USUAL else [part for part in dict.fromkeys(parts) if part not in _USUAL]
    pieces = _SEPARATOR.split(path)
    for place in range(0, len(pieces), 2):
        above, name = "".join(pieces[:place]), pieces[place]
        is_inside = place + 1 < len(pieces)
        if found := _MARKED.match(name) or (_GATHERED.match(name) if is_inside else None):
            yield above + found[1]
        if name == "worktrees" and is_inside and not is_home(above.rstrip("\\/")):
            yield above.rstrip("\\/")
        for slug in slugs:
            if name.lower().endswith(slug) and len(name) > len(slug) + 1 and name[-len(slug) - 1] in "-_.":
                yield above + name[: -len(slug) - 1]


class Pooled(NamedTuple):
    """What the path of a worktree in a pool says."""

    #: The folders below the pool, one of which may be called after the repository.
    names: tuple[str, ...] = ()
    #: The worktree's own folder; "" where it may be another.
    folder: str = ""


def pooled(path: str) -> Pooled:
    """Return what a path in a pool of worktrees says; nothing in none."""
    if not (found := _POOL.match(path)):
        return Pooled()
    return Pooled(tuple(re.split(r"[\\/]", found["names"])), path[: found.end("names")] if found["tool"] else "")


def above(path: str) -> Iterator[str]:
    """Yield the folders above `path` that may be a repository, the nearest first; collections of repositories are left out."""
    place, up = path, os.path.dirname(path)
    while up != place:
        if not is_collection(up):
            yield up
        place, up = up, os.path.dirname(up)


def is_collection(path: str) -> bool:
    """Return whether a folder is a home directory, a filesystem's root, or named like one that holds many repositories.

    By its name alone, such as code, projects, src or tmp; no file is read. Where it is known to be a repository, only
    `is_home` counts.
    """
    return is_home(path) or re.split(r"[\\/]", path.rstrip("\\/"))[-1].lower() in _COLLECTIONS


def is_home(path: str) -> bool:
    """Return whether a folder is a home directory or a filesystem's root, by its path alone: it is no project, even with .git."""
    return path == os.path.expanduser("~") or bool(_HOME.match(path) or _DRIVE.match(path))
