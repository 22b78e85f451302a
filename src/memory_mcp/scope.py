"""Where someone works in, a project's identity out: `host/owner/name`, or the path of the tree that owns the history.

Invariants
1. Git is never run and nothing is written: a few small files below the git directory are read.
2. Worktrees of one repository share one identity; so do its clones when they share a remote.
3. A path that does not exist on this machine is its own identity, normalised; nothing here raises.
"""

import os
import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path

#: Git's own files are tiny; more than this is not one of them.
_MAX_FILE = 256 * 1024

_SECTION = re.compile(r'^\[\s*([\w.-]+)(?:\s+"((?:[^"\\]|\\.)*)")?\s*\]')
_ENTRY = re.compile(r"^([A-Za-z][\w-]*)\s*=\s*(.*)$")
_URL = re.compile(r"^[A-Za-z][A-Za-z0-9+.-]*://(?:[^/@]*@)?(\[[^\]]*\]|[^/:]*)(?::\d*)?(/.*)?$")
_SCP = re.compile(r"^(?:[^/@:]*@)?(\[[^\]]*\]|[^/:@]{2,}):(?!//)(.+)$")


def caller_project(environ: Mapping[str, str], cwd: str) -> str:
    """The project a client works on: its declared directory, else where it was started.

    "" when neither tells: clients that start their servers in the home directory or in / say nothing by it.
    """
    declared = environ.get("CLAUDE_PROJECT_DIR", "")
    if declared:
        return project_of(declared)
    if not cwd:
        return ""
    path = os.path.normpath(cwd)
    home = environ.get("HOME") or environ.get("USERPROFILE") or ""
    if path == os.path.dirname(path) or (home and path == os.path.normpath(home)):
        return ""
    return project_of(path)


@lru_cache(maxsize=4096)
def project_of(cwd: str) -> str:
    """The identity of the project that `cwd` lies in; "" for ""."""
    if not cwd:
        return ""
    path = os.path.normpath(cwd)
    try:
        return _identity(path) if os.path.isdir(path) else path
    except (OSError, ValueError):
        return path


def normalise_remote(url: str, base: str = "") -> str:
    """`host/owner/name` of a remote in any of git's forms; the path for a remote on this machine."""
    url = url.strip()
    if url.lower().startswith("file://"):
        url = url[7:]
    elif match := _URL.match(url) or _SCP.match(url):
        place = _bare(match[2] or "")
        host = match[1].strip("[]").lower()
        return f"{host}/{place}" if place else host
    if not url:
        return ""
    local = os.path.normpath(os.path.join(base, os.path.expanduser(url)) if base else os.path.expanduser(url))
    return _drop_suffix(local)


def _bare(place: str) -> str:
    return _drop_suffix(place.strip("/"))


def _drop_suffix(place: str) -> str:
    place = place.removesuffix("/.git")
    return place.removesuffix(".git") if not place.endswith("/.git") else place


def _identity(path: str) -> str:
    found = _find_git(path)
    if found is None:
        return path
    tree, git_dir = found
    common = _common_dir(git_dir)
    config = _read(os.path.join(common, "config"))
    owner = _owning_tree(tree, git_dir, common, config)
    remote = _remote_of(config)
    return normalise_remote(remote, owner) if remote else owner


def _find_git(path: str) -> tuple[str, str] | None:
    """The tree that holds `path` and its git directory."""
    for place in (path, *map(str, Path(path).parents)):
        dot_git = os.path.join(place, ".git")
        if os.path.isdir(dot_git):
            return place, dot_git
        if os.path.isfile(dot_git):
            target = _read(dot_git).strip()
            if target.startswith("gitdir:"):
                return place, os.path.normpath(os.path.join(place, target[7:].strip()))
        if os.path.isfile(os.path.join(place, "HEAD")) and os.path.isdir(os.path.join(place, "objects")):
            return place, place
    return None


def _common_dir(git_dir: str) -> str:
    named = _read(os.path.join(git_dir, "commondir")).strip()
    return os.path.normpath(os.path.join(git_dir, named)) if named else git_dir


def _owning_tree(tree: str, git_dir: str, common: str, config: str) -> str:
    """The main working tree of a common directory; a bare repository is its own."""
    declared = next((v for s, n, v in _entries(config) if (s, n) == ("core", "worktree")), "")
    if declared:
        return os.path.normpath(os.path.join(common, declared))
    if os.path.basename(common) == ".git":
        return os.path.dirname(common)
    return common if common != git_dir or tree == git_dir else tree


def _remote_of(config: str) -> str:
    """The address of origin, else of the first remote there is."""
    remotes = [(s, v) for s, n, v in _entries(config) if s.startswith("remote ") and n == "url"]
    return next((v for s, v in remotes if s == "remote origin"), remotes[0][1] if remotes else "")


def _entries(config: str) -> Iterator[tuple[str, str, str]]:
    """(section, name, value) of a git configuration; a subsection follows its section after a space."""
    section = ""
    for raw in config.splitlines():
        line = raw.strip()
        if match := _SECTION.match(line):
            section = match[1].lower() + (f" {match[2]}" if match[2] is not None else "")
            line = line[match.end() :].strip()
        if match := _ENTRY.match(line):
            yield section, match[1].lower(), _value(match[2])


def _value(raw: str) -> str:
    if raw.startswith('"'):
        end = raw.find('"', 1)
        return raw[1:end] if end > 0 else raw[1:]
    return re.split(r"\s[#;]", raw, maxsplit=1)[0].strip()


def _read(path: str) -> str:
    """A small text file, "" when there is none or it cannot be read."""
    try:
        with open(path, encoding="utf-8", errors="replace") as stream:
            return stream.read(_MAX_FILE)
    except (OSError, ValueError):
        return ""
