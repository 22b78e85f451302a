"""Finds the project that a directory belongs to: `host/owner/name`, or the path of the tree that owns the history.

Invariants
1. Git is never run and nothing is written: a few small files below the git directory are read.
2. Worktrees of one repository share one identity; so do its clones when they share a remote.
3. A path that does not exist on this machine gets its project from the transcript's remote, else from its form and what is
   left around it (`worktrees`), else it is its own identity; nothing here raises.
4. Importing it costs little: hooks ask it at the start of every session.
"""

import os
import re
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache

from memory_mcp.base import foreign_files, paths
from memory_mcp.base.patterns import lazy_pattern

#: Git's own files are tiny; more than this is not one of them.
_MAX_FILE = 256 * 1024

#: Folders below one that are looked through for repositories and worktrees: how many, how deep, and how long an answer stays (s).
_MOST_FOLDERS, _DEPTH, _FRESH = 1000, 4, 300
#: Folders of temporary files, where some tools keep worktrees.
_TEMPORARY = ("/tmp/", "/var/tmp/", "/var/folders/", "/private/")
_COMMIT = lazy_pattern(r"[0-9a-f]{40}")

_ABSOLUTE = lazy_pattern(r"^(?:[\\/]|[A-Za-z]:[\\/])")
_SECTION = lazy_pattern(r'^\[\s*([\w.-]+)(?:\s+"((?:[^"\\]|\\.)*)")?\s*\]')
_ENTRY = lazy_pattern(r"^([A-Za-z][\w-]*)\s*=\s*(.*)$")
_URL = lazy_pattern(r"^[A-Za-z][A-Za-z0-9+.-]*://(?:[^/@]*@)?(\[[^\]]*\]|[^/:]*)(?::\d*)?(/.*)?$")
_SCP = lazy_pattern(r"^(?:[^/@:]*@)?(\[[^\]]*\]|[^/:@]{2,}):(?!//)(.+)$")


def caller_project(environ: Mapping[str, str], cwd: str, client_dir: str = "", configured: str = "") -> str:
    """Return the project a client works on, "" for none.

    In this order: MEMORY_MCP_PROJECT in `environ`, `client_dir` (the directory in a hook's payload), what the client declares in
    `environ`, `cwd`, and `configured` (the setting server.project).
    As `client_dir` or `cwd`, root and home directory do not count.
    """
    home = environ.get("HOME") or environ.get("USERPROFILE") or ""
    if (project_name := environ.get(paths.PROJECT, "").strip()) and (project := _resolve_name(project_name, cwd, home)):
        return project
    folders = environ.get(paths.WINDOW_FOLDERS, "")
    declared = next(filter(None, map(environ.get, paths.DECLARED)), "") or ("" if "," in folders else folders)
    for folder in (client_dir, declared, cwd):
        path = os.path.normpath(folder)
        # What a client declares is meant, even where it is the home directory.
        is_meant = folder is declared or (path != os.path.dirname(path) and not (home and path == os.path.normpath(home)))
        if folder and is_meant:
            return project_of(folder)
    return _resolve_name(configured.strip(), "", home)


def _resolve_name(name: str, cwd: str, home: str) -> str:
    """Return the project of an identity or a directory.

    "" for a placeholder that a client did not replace. A name that begins with "." is a directory below `cwd`, or "" without
    `cwd`; "~" is the home directory.
    """
    if name.startswith("~"):
        name = home + name[1:]
    if _ABSOLUTE.match(name) or (name.startswith(".") and cwd):
        return project_of(_join_paths(cwd, name))
    return "" if "${" in name or name.startswith(".") else name


@lru_cache(maxsize=4096)
def project_of(cwd: str, remote: str = "", branch: str = "") -> str:
    """Return the identity of the project that `cwd` lies in.

    "" where neither it nor a remote is known. Raises nothing. It is host/owner/name where a remote is known, else the path of
    the main working tree; a directory outside of any repository is its own identity. Answers are cached, so what changes on disk
    later is not seen. `remote` and `branch`, as a transcript records them, are used only where `cwd` is not on this machine
    (`remote` also where it is "").
    """
    if not cwd:
        return normalise_remote(remote)
    path = os.path.normpath(cwd)
    try:
        return _identify_project(path) if os.path.isdir(path) else _identify_gone(path, remote, branch)
    except (OSError, ValueError):
        return path


def project_of_session(cwd: str, remote: str = "", branch: str = "", origin: str = "") -> str:
    """Return the project of a session in `cwd`.

    Where that is gone, of `origin`, the folder that its worktree was made from. `branch`, where there is no origin, helps to
    find the repository of a worktree that is gone.
    """
    project = project_of(cwd or origin, remote)
    # Another branch is another key of what is remembered, and only of what is gone does it tell anything.
    if not (branch or origin) or not is_gone(project):
        return project
    return project_of(origin) if origin else project_of(cwd, remote, branch)


@lru_cache(maxsize=4096)
def root_commit_of(cwd: str) -> str:
    """Return the first commit of the repository around `cwd`.

    "" if none is found. Raises nothing. Cached, so that a repository is walked through once in a process.
    """
    from pathlib import Path

    from memory_mcp.base.git_history import root_commit

    try:
        path = os.path.normpath(cwd)
        tree = _find_git(path) if cwd and os.path.isdir(path) else None
        return root_commit(Path(tree[1]), Path(_common_directory(tree[1]))) if tree else ""
    except (OSError, ValueError):
        return ""


def find_head(cwd: str) -> tuple[str, str] | None:
    """Return the top of the working tree around `cwd` and the commit that its HEAD is at, None without one.

    Raises nothing; read anew each time.
    """
    from pathlib import Path

    from memory_mcp.base.git_history import read_head

    try:
        path = os.path.normpath(cwd)
        tree = _find_git(path) if cwd and os.path.isdir(path) else None
        head = read_head(Path(tree[1]), Path(_common_directory(tree[1]))) if tree else ""
    except (OSError, ValueError):
        return None
    return (tree[0], head) if tree and head else None


def is_place(project: str) -> bool:
    """Return whether a project is named by a directory."""
    return bool(_ABSOLUTE.match(project))


def is_gone(project: str) -> bool:
    """Return whether a project's directory is not on this machine."""
    return is_place(project) and not os.path.isdir(project)


def is_repository(path: str) -> bool:
    """Return whether a directory is a repository's top."""
    tree = _find_git(path) if os.path.isdir(path) else None
    return tree is not None and tree[0] == path


def _identify_gone(path: str, remote: str, branch: str) -> str:
    """Return the identity of a directory that is gone.

    In this order: its recorded remote, the repository that its path shows to hold it as a worktree, the tree
    that is left above it, a repository that lists it, is likely its owner or owns the worktrees beside it, else what its
    path says, at last the path itself.
    """
    # Most places are there: who asks for one of them loads no rules for the others.
    from memory_mcp.base import worktrees

    if project := normalise_remote(remote, path) if remote else "":
        return project
    root = worktrees.find_holder(path)
    if root and worktrees.is_collection(root) and not is_repository(root):
        root = ""
    if root and not os.path.isdir(root):
        return project_of(root, "", branch)
    if root and _find_git(root):
        return _identify_project(root)
    last_dir, above = path, os.path.dirname(path)
    while not os.path.isdir(last_dir) and last_dir != above:
        last_dir, above = above, os.path.dirname(above)
    tree = _find_git(last_dir)
    if tree and not worktrees.is_home(tree[0]):
        return _identify_project(last_dir)
    nearby = {root: _repositories_below(root, int(time.monotonic() // _FRESH)) for root in _search_roots(path, last_dir)}
    owner = next(filter(None, (_listing_owner(path, listed) for _, listed in nearby.values())), "")
    owner = owner or next(filter(is_repository, worktrees.iter_candidates(path, branch)), "") or _sibling_owner(path, last_dir)
    pool = worktrees.parse_pooled(path)
    at_home = nearby.get(_home(), ((), {}))[0]
    return _identify_project(owner) if owner else _find_namesake(pool.names, at_home) or pool.folder or path


def _search_roots(path: str, last_dir: str) -> list[str]:
    """Return where to look for a worktree's repository."""
    home = _home()
    roots = dict.fromkeys(
        (last_dir, os.path.dirname(last_dir), *([home] if path.startswith((home + os.sep, *_TEMPORARY)) else ()))
    )
    # A filesystem's root, and what is in it, hold what is everybody's; a home directory may be there.
    return [root for root in roots if root == home or os.path.dirname(os.path.dirname(root)) != os.path.dirname(root)]


def _home() -> str:
    return os.path.normpath(os.path.expanduser("~"))


#: The repositories below a folder, and that of each worktree that one of them lists.
_Repositories = tuple[tuple[str, ...], Mapping[str, str]]


@lru_cache(maxsize=64)
def _repositories_below(root: str, period: int) -> _Repositories:
    """Return the repositories below a folder.

    `period` makes an answer be forgotten. Folders whose names begin with a dot, links and what is inside a repository are left
    out.
    """
    del period
    folders: list[str] = []
    listed: dict[str, str] = {}
    pending, count = deque([(root, 0)]), 0
    while pending and count < _MOST_FOLDERS:
        folder, depth = pending.popleft()
        count += 1
        git = os.path.join(folder, ".git")
        is_tree = os.path.isdir(git)
        records = os.path.join(git if is_tree else folder, "worktrees")
        if is_tree or is_repository(folder):
            folders.append(folder)
            for name in _folders_in(records):
                tree = os.path.dirname(_read_text(os.path.join(records, name, "gitdir")).strip())
                listed.setdefault(os.path.normpath(tree), folder)
        elif depth < _DEPTH:
            pending += [(os.path.join(folder, name), depth + 1) for name in _folders_in(folder) if not name.startswith(".")]
    return tuple(folders), listed


def _listing_owner(path: str, listed: Mapping[str, str]) -> str:
    """Return the repository that still lists a worktree."""
    folder = path
    while folder not in listed and folder != os.path.dirname(folder):
        folder = os.path.dirname(folder)
    return listed.get(folder, "")


def _find_namesake(names: Sequence[str], repositories: Sequence[str]) -> str:
    """Return the project that a pool's folder is called after.

    "" for none, and for several. A folder has the name of the repository's own or of its remote, or is called after the commit
    with which it begins.
    """
    folders = {folder: _identify_project(folder) for folder in repositories} if names else {}
    projects = {
        project for folder, project in folders.items() if {os.path.basename(folder), os.path.basename(project)} & {*names}
    }
    if not projects and any(map(_COMMIT.fullmatch, names)):
        projects = {project for folder, project in folders.items() if root_commit_of(folder) in names}
    return projects.pop() if len(projects) == 1 else ""


def _sibling_owner(path: str, last_dir: str) -> str:
    """Return the repository of the worktrees left next to one.

    "" where they are not of one. That is a folder with nothing but worktrees, or worktrees a level deeper that have a name in
    common with the gone one.
    """
    names = os.path.relpath(path, last_dir).split(os.sep)
    siblings = _folders_in(last_dir)[:_MOST_FOLDERS]
    owners = {_main_tree(os.path.join(last_dir, name)) for name in siblings}
    if len(owners) == 1 and "" not in owners:
        return owners.pop()
    if len(names) < 2 or len(siblings) > _MOST_FOLDERS // 2:
        return ""
    alike = [(first, second) for first in siblings for second in _folders_in(os.path.join(last_dir, first)) if second == names[1]]
    owners = {_main_tree(os.path.join(last_dir, first, second)) for first, second in alike[:_MOST_FOLDERS]} - {""}
    return owners.pop() if len(owners) == 1 else ""


def _main_tree(folder: str) -> str:
    """Return the main working tree of a worktree, else ""."""
    dot_git = os.path.join(folder, ".git")
    target = _read_text(dot_git).strip() if os.path.isfile(dot_git) else ""
    common = _common_directory(_join_paths(folder, target[7:].strip())) if target.startswith("gitdir:") else ""
    return (os.path.dirname(common) if os.path.basename(common) == ".git" else common) if os.path.isdir(common) else ""


def _folders_in(folder: str) -> list[str]:
    try:
        with os.scandir(folder) as entries:
            return sorted(entry.name for entry in entries if entry.is_dir(follow_symlinks=False))
    except OSError:
        return []


def normalise_remote(url: str, base: str = "") -> str:
    """Return `host/owner/name` of a remote in any of git's forms.

    The path for a remote on this machine; "" for "". The host is in lower case; a relative path is taken from `base`; user, port
    and the ending .git are left out.
    """
    url = url.strip()
    if url.lower().startswith("file://"):
        url = url[7:]
    elif match := _URL.match(url) or _SCP.match(url):
        repository = _drop_suffix((match[2] or "").strip("/"))
        host = match[1].strip("[]").lower()
        return f"{host}/{repository}" if repository else host
    return _drop_suffix(_join_paths(base, url)) if url else ""


def _drop_suffix(path: str) -> str:
    path = path.removesuffix("/.git")
    return path.removesuffix(".git").rstrip("/")


def _identify_project(path: str) -> str:
    """Return the identity of a directory that is there.

    That is host/owner/name of its repository's remote (origin first, else the first one), without a
    remote the main working tree, and without a repository the path itself.
    """
    tree_and_git = _find_git(path)
    if tree_and_git is None:
        return path
    tree, git_dir = tree_and_git
    common = _common_directory(git_dir)
    entries = list(_iter_entries(_read_text(os.path.join(common, "config"))))
    # The main working tree, which all worktrees share; a bare repository is its own.
    owner = common if common != git_dir or tree == git_dir else tree
    if os.path.basename(common) == ".git":
        owner = os.path.dirname(common)
    if declared := next((value for section, name, value in entries if (section, name) == ("core", "worktree")), ""):
        owner = _join_paths(common, declared)
    # The address of origin, else of the first remote there is.
    remotes = [(section, value) for section, name, value in entries if section.startswith("remote ") and name == "url"]
    remote = next((url for section, url in remotes if section == "remote origin"), remotes[0][1] if remotes else "")
    return normalise_remote(remote, owner) if remote else owner


def _common_directory(git_dir: str) -> str:
    target = _read_text(os.path.join(git_dir, "commondir")).strip()
    return _join_paths(git_dir, target) if target else git_dir


def _find_git(path: str) -> tuple[str, str] | None:
    """Return the tree around `path` and its git directory."""
    folder, above = path, os.path.dirname(path)
    while True:
        dot_git = os.path.join(folder, ".git")
        if os.path.isdir(dot_git):
            return folder, dot_git
        if os.path.isfile(dot_git):
            target = _read_text(dot_git).strip()
            if target.startswith("gitdir:"):
                return folder, _join_paths(folder, target[7:].strip())
        if os.path.isfile(os.path.join(folder, "HEAD")) and os.path.isdir(os.path.join(folder, "objects")):
            return folder, folder
        if folder == above:
            return None
        folder, above = above, os.path.dirname(above)


def _join_paths(base: str, name: str) -> str:
    return os.path.normpath(os.path.join(base, name))


def _iter_entries(config: str) -> Iterator[tuple[str, str, str]]:
    section = ""
    for line in map(str.strip, config.splitlines()):
        entry = line
        if match := _SECTION.match(line):
            section = match[1].lower() + (f" {match[2]}" if match[2] is not None else "")
            entry = line[match.end() :].strip()
        if match := _ENTRY.match(entry):
            raw = match[2]
            # Without quotes or a comment behind it.
            value = raw[1:].partition('"')[0] if raw.startswith('"') else re.split(r"\s[#;]", raw, maxsplit=1)[0].strip()
            yield section, match[1].lower(), value


def _read_text(path: str) -> str:
    """Return a text file's first `_MAX_FILE` characters, or ""."""
    try:
        with foreign_files.open_text(path) as stream:
            return stream.read(_MAX_FILE)
    except (OSError, ValueError):
        return ""
