"""Find the directory of a session of Gemini CLI, whose files name it by a hash or a folder.

Layout: `<home>/tmp/<folder>/chats/session-*.json[l]`, `<home>/tmp/<folder>/chats/<session>/<subagent>.jsonl`,
`<home>/tmp/<folder>/logs.json`; newer clients write the directory into `<home>/tmp/<folder>/.project_root`, and all of them
list directories they know in `<home>/projects.json` and `<home>/trustedFolders.json`.
"""

import hashlib
import json
import re
from collections.abc import Iterator
from pathlib import Path

from memory_mcp.base import foreign_files
from memory_mcp.importers.blocks import as_mapping

_ROOT_FILE = ".project_root"
#: Bytes of a small file that are read.
_SMALL = 1024 * 1024
#: In the context that the client gives its model at the start.
_SAID = re.compile(r"working in the (?:following )?director(?:y|ies):\s*(?:-\s+)?([^\n]+?)\s*(?:\n|\Z)")


def folder_of(file: Path) -> Path:
    """Return the folder above `chats`, else the file's own."""
    for folder in file.parents:
        if folder.name == "chats":
            return folder.parent
    return file.parent


def directory_of(file: Path, project_hash: str) -> str:
    """Return the directory of a session; "" if not found here.

    From the folder's own note, else the listed directory whose hash `project_hash` (or the folder's name) is.
    """
    folder = folder_of(file)
    if root := _read_small(folder / _ROOT_FILE).strip():
        return root
    if not project_hash and re.fullmatch(r"[0-9a-f]{64}", folder.name):
        project_hash = folder.name
    home = folder.parent.parent
    for path in (*_iter_directories(home / "projects.json"), *_iter_directories(home / "trustedFolders.json")):
        if hashlib.sha256(path.encode("utf-8", "surrogatepass")).hexdigest() == project_hash:
            return path
    return ""


def stated_directory(text: str) -> str:
    """Return the directory in the client's first words; "" for none."""
    match = _SAID.search(text)
    return match[1] if match else ""


def sessions_beside(log: Path) -> frozenset[str]:
    """Return the beginnings (8 characters) of ids of sessions with files."""
    try:
        names = [entry.stem for entry in (log.parent / "chats").iterdir()]
    except OSError:
        return frozenset()
    return frozenset(name.rsplit("-", 1)[-1][:8] for name in names)


def _iter_directories(file: Path) -> Iterator[str]:
    try:
        listing = as_mapping(json.loads(_read_small(file) or "{}"))
    except (ValueError, RecursionError):
        return
    yield from (str(path) for path in as_mapping(listing.get("projects")) or listing)


def _read_small(file: Path) -> str:
    try:
        with foreign_files.open_file(file) as stream:
            return stream.read(_SMALL).decode("utf-8", "replace")
    except OSError:
        return ""
