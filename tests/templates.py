"""What tests of several files share and none may change: folders that they copy, memories that they read.

Which files share a worker varies, and with it what a test would find that another one left.
"""

from collections.abc import Callable
from pathlib import Path

from tests.files import iter_entries

_State = dict[str, object]
#: How to look at each thing that is shared, and what the last look has seen.
_SHARED: list[tuple[Callable[[], _State], _State]] = []


def share_template(folder: Path) -> Path:
    """Return a folder at rest, of which every change will be noticed."""
    share(lambda: _read_folder(folder))
    return folder


def share(read: Callable[[], _State]) -> None:
    """Have every change noticed of a state, which is read after each file of tests."""
    _SHARED.append((read, read()))


def find_changes() -> list[str]:
    """Return the names of what is not as it was at the last look, or when it was shared."""
    changes = []
    for number, (read, before) in enumerate(_SHARED):
        after = read()
        _SHARED[number] = read, after
        changes += sorted(name for name in before.keys() | after.keys() if before.get(name) != after.get(name))
    return changes


def _read_folder(folder: Path) -> _State:
    """Inode, size and time of change (ns) of each file; of a folder that it is there."""
    entries = iter_entries(folder)
    return {str(path): path.is_dir() or (state.st_ino, state.st_size, state.st_mtime_ns) for path, state in entries}
