"""Folders in which other threads and processes work in; what of them is still there out.

1. A file or folder that goes between being listed and being looked at is passed over and never an error.
2. What is read at rest is one state of the folders: nothing came, went or changed while it was read.
"""

import importlib.util
import os
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

from tests.waiting import until


def iter_entries(folder: Path) -> Iterator[tuple[Path, os.stat_result]]:
    """Yield everything below a folder with its state, sorted within each folder; links are not followed."""
    for parent, folder_names, file_names in os.walk(folder):
        folder_names.sort()
        for name in sorted((*folder_names, *file_names)):
            path = Path(parent, name)
            try:
                state = path.lstat()
            except (FileNotFoundError, NotADirectoryError):
                continue
            yield path, state


def iter_files(*folders: Path) -> Iterator[Path]:
    """Yield every file below some folders, and every link to one."""
    return (path for folder in folders for path, _ in iter_entries(folder) if path.is_file())


def find_content(file: Path) -> bytes | None:
    """Return the bytes of a file; None when it is gone."""
    try:
        return file.read_bytes()
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
        return None


def read_files(*folders: Path) -> dict[Path, bytes]:
    """Return the bytes of every file below some folders that is there when its turn comes."""
    contents = ((file, find_content(file)) for file in iter_files(*folders))
    return {file: content for file, content in contents if content is not None}


def read_at_rest(*folders: Path) -> dict[Path, bytes]:
    """Return the bytes of every file below some folders, read while nothing changed in them.

    A walk alone may miss a file that gets another name meanwhile. AssertionError when they never come to rest.
    """
    contents: dict[Path, bytes] = {}

    def is_unchanged() -> bool:
        states = _states(*folders)
        contents.clear()
        contents.update(read_files(*folders))
        return contents.keys() == states.keys() and _states(*folders) == states

    until(is_unchanged, f"for {', '.join(map(str, folders))} to come to rest")
    return contents


def _states(*folders: Path) -> dict[Path, tuple[int, int, int]]:
    """The inode, size and time of change (ns) of every file."""
    states = {}
    for file in iter_files(*folders):
        try:
            state = file.stat()
        except OSError:
            continue
        states[file] = (state.st_ino, state.st_size, state.st_mtime_ns)
    return states


def load_script(path: Path) -> ModuleType:
    """Return the module of a script that lies in no package."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
