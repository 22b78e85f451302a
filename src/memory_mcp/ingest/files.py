"""List the files to read below a path, in a fixed order."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path

from memory_mcp.errors import SourceUnreadable


def find_files(path: Path, endings: tuple[str, ...]) -> Iterator[Path]:
    """Return `path` itself when it is a file, else the files below it with one of `endings`, folder by folder.

    Names are sorted in each folder. A folder that cannot be listed is returned as well, so that reading it is counted as
    a failure. Raises SourceUnreadable when there is nothing at `path`.
    """
    if path.is_dir():
        return _below(path, endings)
    if not path.exists():
        raise SourceUnreadable(f"there is no file or folder {path}", "Name an existing file or folder.")
    return iter((path,))


def _below(path: Path, endings: tuple[str, ...]) -> Iterator[Path]:
    """Yield the files below a folder with one of the endings, sorted folder by folder; a folder that cannot be listed itself."""
    closed: list[Path] = []

    def note(error: OSError) -> None:
        """Add the folder that could not be listed to `closed`, to be yielded."""
        closed.append(Path(error.filename))

    for folder, folders, names in os.walk(path, onerror=note):
        folders.sort()
        yield from closed
        closed.clear()
        for name in sorted(names):
            if name.endswith(endings):
                yield Path(folder, name)
    yield from closed


def editor_data() -> Path:
    """Return the folder in which editors of the VS Code family keep their data on this platform; existing or not."""
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Application Support"
    if sys.platform == "win32":
        return Path(os.environ.get("APPDATA") or Path.home() / "AppData" / "Roaming")
    return Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config")
