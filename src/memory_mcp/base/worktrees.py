"""Find the repository of a worktree by the form of its path; no file is read.

Three kinds: layouts that hold only worktrees (`find_holder`), names that are a worktree's only if their repository is
known (`iter_candidates`), and pools that name the repository without its location (`parse_pooled`).

Invariants
1. A home directory, a filesystem's root and a folder that people keep many repositories in are never taken for a repository.

Change here: know another layout of worktrees.
"""

import os
import re
from collections.abc import Iterator
from typing import NamedTuple

from memory_mcp.base.patterns import lazy_pattern

#: Folders inside a repository that hold its worktrees, and git's own; `<repo>.worktrees/x` is how VS Code names them.
_HELD = lazy_pattern(r"(?:[\\/]\.(?:claude|gemini)[\\/]worktrees|\.worktrees|[\\/]\.git)(?=[\\/]|$)")
#: Pools of one user's worktrees of many repositories: in a tool's folder (`.cursor/worktrees`, `.local/share/opencode/worktree`,
#: `conductor/workspaces`), below which are the repository's name and one of the worktree in either order, or in any other.
_POOL = lazy_pattern(
    r"^.*?[\\/](?:(?P<tool>\.[\w-]+[\\/](?:[\w.-]+[\\/]){0,2}worktrees?|(?:\.[\w-]+|conductor)[\\/]workspaces|vibe-kanban[\\/]worktrees"
    r"|\.[\w-]+-(?:worktrees|workspaces))|worktrees?)[\\/](?P<names>[^\\/]+[\\/][^\\/]+)(?:[\\/].*)?$"
)
_MARKED = lazy_pattern(r"^(.+?)[-_.](?:wt|worktree)[-_.].+$")
_GATHERED = lazy_pattern(r"^(.+?)[-_]worktrees$")
_HOME = lazy_pattern(r"^(?:[\\/](?:home|Users)[\\/][^\\/]+|[\\/]root|[A-Za-z]:[\\/]Users[\\/][^\\/]+)$")
_DRIVE = lazy_pattern(r"^(?:[A-Za-z]:)?[\\/]*$")
_SEPARATOR = lazy_pattern(r"([\\/])")
#: Folders that people keep many repositories in, by their usual names.
_COLLECTIONS = frozenset(
    "code coding dev develop development devel git github gitlab ghq repos repositories repo src source sources work workspace "
    "workspaces works wks projects project proj documents desktop downloads home users tmp temp "
    "var opt srv mnt volumes "
    "worktrees .worktrees".split()
)
#: Branches that a plain clone is usually on: a folder named after one of them is no sign of a worktree.
_USUAL = frozenset(("", "head", "main", "master", "trunk", "develop", "dev", "default", "release", "stable", "next"))


def find_holder(path: str) -> str:
    """Return the repository whose worktree folder holds `path`, or "".

    It may be named like a collection: the caller checks whether it is a repository. A home directory gives "".
    """
    match = _HELD.search(path)
    root = path[: match.start()].rstrip("\\/") if match else ""
    return "" if is_home(root) else root


def iter_candidates(path: str, branch: str = "") -> Iterator[str]:
    """Yield folders that `path` may be a worktree of, by names.

    From the root down, for each folder: a name with -wt- or -worktree- in it, a folder `<repo>-worktrees`, one called
    `worktrees`, and a name that ends with the branch. `branch` is what was checked out there; "" if unknown. The caller
    checks which of them is a repository.
    """
    # A worktree's folder may be called after its whole branch, or after what follows the last slash.
    branch_name = branch.strip().lower()
    parts = (re.sub(r"[\\/:]+", "-", branch_name), branch_name.rsplit("/", 1)[-1])
    slugs = [] if branch_name in _USUAL else [part for part in dict.fromkeys(parts) if part not in _USUAL]
    pieces = _SEPARATOR.split(path)
    for index in range(0, len(pieces), 2):
        above, name = "".join(pieces[:index]), pieces[index]
        is_inside = index + 1 < len(pieces)
        if match := _MARKED.match(name) or (_GATHERED.match(name) if is_inside else None):
            yield above + match[1]
        if name == "worktrees" and is_inside and not is_home(above.rstrip("\\/")):
            yield above.rstrip("\\/")
        for slug in slugs:
            if name.lower().endswith(slug) and len(name) > len(slug) + 1 and name[-len(slug) - 1] in "-_.":
                yield above + name[: -len(slug) - 1]


class PooledWorktree(NamedTuple):
    """What the path of a worktree in a pool says."""

    #: The folders below the pool, one of which may be called after the repository.
    names: tuple[str, ...] = ()
    #: The worktree's own folder; "" where it may be another.
    folder: str = ""


def parse_pooled(path: str) -> PooledWorktree:
    """Return what a path in a pool of worktrees says."""
    if not (match := _POOL.match(path)):
        return PooledWorktree()
    return PooledWorktree(tuple(re.split(r"[\\/]", match["names"])), path[: match.end("names")] if match["tool"] else "")


def iter_parents(path: str) -> Iterator[str]:
    """Yield the folders above `path`, nearest first."""
    folder, parent = path, os.path.dirname(path)
    while parent != folder:
        if not is_collection(parent):
            yield parent
        folder, parent = parent, os.path.dirname(parent)


def is_collection(path: str) -> bool:
    """Return whether a folder usually holds many repositories, by its name.

    Such as a home directory, a root, code, projects, src or tmp. Where it is known to be a repository, only `is_home` counts.
    """
    return is_home(path) or re.split(r"[\\/]", path.rstrip("\\/"))[-1].lower() in _COLLECTIONS


def is_home(path: str) -> bool:
    """Return whether a path is a home directory or a root.

    Such a folder is not a project, even with .git.
    """
    return path == os.path.expanduser("~") or bool(_HOME.match(path) or _DRIVE.match(path))
