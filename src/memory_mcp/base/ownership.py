"""Whose data directory it is: whether others may write into it. Standard library only, and little of it."""

from __future__ import annotations

import os
import stat

from memory_mcp.base import paths


def unfit(directory: str) -> str:
    """Return why a folder is no data directory, "" if fit.

    With what a person can do; "" also when it does not exist yet. It holds foreign files (`paths.describe_foreign_files`), or
    somebody else may write into it (see `open_to_others`).
    """
    return paths.describe_foreign_files(directory) or open_to_others(directory)


def open_to_others(directory: str) -> str:
    """Return why others may write into a data directory.

    With what a person can do; "" where nobody else may. Whoever may write there can listen in the daemon's place, and put files
    in the place of ours. A group that is this user's alone is nobody else, and is shut out where that is possible. Nobody writes
    on a file system that is read-only, and where files have no owner number nothing is known.
    """
    try:
        state = os.stat(directory)
    except OSError:
        return ""
    if not hasattr(os, "getuid") or not stat.S_ISDIR(state.st_mode):
        return ""
    is_own = state.st_uid == os.getuid()
    if state.st_mode & 0o020 and not state.st_mode & 0o002 and _is_private_group(state.st_gid):
        if is_own:
            os.chmod(directory, stat.S_IMODE(state.st_mode) & ~0o020)
        state = os.stat_result((state.st_mode & ~0o020, *state[1:]))
    is_open = state.st_mode & 0o022
    if (not is_open and (is_own or state.st_uid == 0)) or os.statvfs(directory).f_flag & os.ST_RDONLY:
        return ""
    if is_open:
        mode = f"{stat.S_IMODE(state.st_mode):o}"
        return f"{directory} can be written by others (mode {mode}); look what is in it, then: chmod go-w {directory}"
    return f"{directory} belongs to another user; name a folder of your own: --data-dir DIR, or MEMORY_MCP_DATA_DIR"


def _is_private_group(gid: int) -> bool:
    import grp
    import pwd

    try:
        group, user = grp.getgrgid(gid), pwd.getpwuid(os.getuid())
    except KeyError:
        return False
    return group.gr_name == user.pw_name and user.pw_gid == gid and not {*group.gr_mem} - {user.pw_name}
