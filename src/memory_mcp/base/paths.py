"""Where the settings file, the data directory and the files in it lie. Standard library only, and little of it.

Invariants
1. Importing it costs next to nothing: the pump and the hook, which start with every session and every prompt, use it.
2. Nothing is created here but the private directory of a socket whose usual path would be too long.
"""

from __future__ import annotations

import os
import stat
import sys

from memory_mcp.base import environment

# Type checkers take this name for true. Importing typing would cost half of what starting Python does.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

APP = "memory-mcp"
PREFIX = "MEMORY_MCP_"
#: Set for what the summarizer starts: hooks below it keep nothing and answer nothing.
SUMMARIZING = PREFIX + "SUMMARIZING"
#: The data directory, in the words of its option; the setting's own variable, MEMORY_MCP_STORAGE__DATA_DIR, comes first.
DATA_DIR = PREFIX + "DATA_DIR"
#: Variables beside those of the settings, which are MEMORY_MCP_<SECTION>__<KEY>: what follows the prefix. The last four are
#: for whoever works on this program, and for what it starts itself.
VARIABLES = ("CONFIG", "DATA_DIR", "PROJECT", "DEBUG", "FAILPOINT", "SUMMARIZING", "HOME")
#: Names the project of whatever is started with it: an identity or a directory.
PROJECT = PREFIX + "PROJECT"
#: Where clients tell what they start which directory they work on, in the order in which they are asked.
DECLARED = ("CLAUDE_PROJECT_DIR", "CURSOR_PROJECT_DIR", "GEMINI_PROJECT_DIR")
#: The folders of an editor's window, separated by commas: of several none is the project.
WINDOW_FOLDERS = "WORKSPACE_FOLDER_PATHS"
#: Variables that name the project (`scope.caller_project`).
ASKED = (PROJECT, *DECLARED, WINDOW_FOLDERS, "HOME", "USERPROFILE")

#: Where clients tell what they start in which session it runs.
SESSIONS = ("CLAUDE_CODE_SESSION_ID", "CLAUDE_SESSION_ID", "CODEX_SESSION_ID", "OPENCODE_SESSION_ID", "GEMINI_SESSION_ID")
#: Set in the commands that a client's model runs.
BY_MODEL = ("CLAUDECODE", "CODEX_SANDBOX", "OPENCODE", "GEMINI_CLI")

#: Where temporary files outlive a restart.
_LASTING = "/var/tmp"
#: Socket addresses are 104 bytes on the smallest platform, with their end mark.
_LONGEST_SOCKET = 103
#: What only a data directory of ours holds; one of these is enough.
_MARKS = ("memory.duckdb", "owner.json", "start.lock")
#: What one holds before it has any of those, and what systems put into any folder.
_HARMLESS = frozenset(
    {
        *(
            "lock",
            "spool",
            "models",
            "briefings",
            "indexes",
            "token",
            "high-water.json",
            "handshake.json",
            "daemon.log",
            "daemon.sock",
        ),
        *("loss.json", "salvage.json", "damaged", "backups", "restoring", "pauses.json"),
        *("tombstones.jsonl", "tombstones.key", "forgetting.json", "share"),
        *("lost+found", ".DS_Store", "desktop.ini", "Thumbs.db"),
    }
)


def config_file(environ: Mapping[str, str] | None = None) -> str:
    """Return the path of the settings file, existing or not.

    MEMORY_MCP_CONFIG, else config.toml in the platform's place.
    """
    env = os.environ if environ is None else environ
    path = expand_path(env.get(PREFIX + "CONFIG", ""), env)
    return path or os.path.join(_platform_dir(env, "XDG_CONFIG_HOME", ".config"), "config.toml")


def default_data_dir(environ: Mapping[str, str] | None = None) -> str:
    """Return the platform's place for this program's data."""
    return _platform_dir(os.environ if environ is None else environ, "XDG_DATA_HOME", os.path.join(".local", "share"))


def install_dir() -> str:
    """Return the folder that records changes to clients' configurations.

    `install` next to the usual settings file. There is one for all data directories; nothing is made.
    """
    return os.path.join(_platform_dir(os.environ, "XDG_CONFIG_HOME", ".config"), "install")


def data_dir(path: str = "", environ: Mapping[str, str] | None = None, file: str = "") -> str:
    """Return the data directory in force, absolute; nothing is made.

    It is `path`, else from the environment, from the settings file (`file` or the usual one), or the
    platform's place.
    """
    return expand_path(path or str(setting("storage", "data_dir", "", environ, file)), environ) or default_data_dir(environ)


def expand_path(path: str, environ: Mapping[str, str] | None = None) -> str:
    """Return a path as settings name it, absolute."""
    return environment.expand_path(path, os.environ if environ is None else environ)


def spare_dirs(directory: str, environ: Mapping[str, str] | None = None) -> list[str]:
    """Return the spare data directories of hooks, in order.

    For a payload that cannot be kept in `directory`. They are the usual one, the usual one of the user's account, and one of the
    folder of lasting temporary files.
    """
    usual = [default_data_dir(os.environ if environ is None else environ)]
    if home := environment.account_home():
        usual.append(_platform_dir({"HOME": home}, "", os.path.join(".local", "share")))
    if hasattr(os, "getuid"):
        usual.append(f"{_LASTING}/{APP}-{os.getuid()}")
    return [folder for folder in dict.fromkeys(usual) if folder != directory]


def setting(section: str, key: str, default: Any, environ: Mapping[str, str] | None = None, file: str = "") -> Any:
    """Return one setting without loading them all.

    From the environment, else the file, else `default`. A file that cannot be read gives the default too. A variable gives text,
    and a bool where the default is one.
    """
    env = os.environ if environ is None else environ
    value = env.get(f"{PREFIX}{section}__{key}".upper())
    if value is None and (section, key) == ("storage", "data_dir"):
        value = env.get(DATA_DIR)
    if value is not None:
        return value.strip().lower() in ("true", "1", "yes", "on") if isinstance(default, bool) else value
    path = file or config_file(env)
    if not os.path.isfile(path):
        return default
    import tomllib

    from memory_mcp.base import foreign_files

    try:
        with foreign_files.open_file(os.path.realpath(path)) as stream:
            return tomllib.load(stream).get(section, {}).get(key, default)
    except (OSError, ValueError, AttributeError):
        return default


def unknown_variable(environ: Mapping[str, str] | None = None) -> str:
    """Return the first unknown variable with our prefix, "" for none."""
    for name in os.environ if environ is None else environ:
        if name.startswith(PREFIX) and "__" not in name and name[len(PREFIX) :] not in VARIABLES:
            return name
    return ""


def loss_told(directory: str) -> str:
    """Return a line about lost data, without opening the memory.

    "" while nothing is known to be missing. A record of a loss that cannot be read counts as one.
    """
    from memory_mcp.base import foreign_files

    try:
        content = foreign_files.read_file(os.path.join(directory, "loss.json"))
        import json

        line = json.loads(content)["told"]
        return line if isinstance(line, str) else ""
    except FileNotFoundError:
        gone = os.path.exists(os.path.join(directory, "high-water.json"))
        gone = gone and not os.path.exists(os.path.join(directory, "memory.duckdb"))
        return "the file of this memory is gone; a person is told more by: memory-mcp doctor" if gone else ""
    except (OSError, ValueError, KeyError, TypeError):
        return "parts of this memory are missing; a person is told which by: memory-mcp doctor"


def misnamed(config: str) -> bool:
    """Return whether a missing settings file or unknown variable is named."""
    return bool(config and not os.path.isfile(os.path.expanduser(config))) or bool(unknown_variable())


def describe_foreign_files(directory: str) -> str:
    """Return why a folder holds only others' files, else "".

    Then it cannot be a data directory. It can where it is missing, cannot be listed, holds a file that only ours have, or
    nothing that ours do not.
    """
    try:
        names = os.listdir(directory)
    except OSError:
        # Missing, a file, or closed to us: making or opening it says so.
        return ""
    foreign_names = sorted({*names} - _HARMLESS)
    if not foreign_names or any(mark in names for mark in _MARKS):
        return ""
    more = f" and {len(foreign_names) - 2} more" if len(foreign_names) > 2 else ""
    return f"{directory} holds other things ({', '.join(foreign_names[:2])}{more}) and is no data directory of memory-mcp"


#: A file with a second name elsewhere.
HARD_LINK = "a hard link to a file elsewhere"


def planted(directory: str) -> tuple[str, str]:
    """Return what is neither file nor folder, and its kind.

    The first in a data directory; "" and "" for none. Only its known folders are searched, some levels deep. The directory
    itself may be a link. Through a link somebody else's file would be read or written, and a pipe or a device keeps whoever
    opens it for ever, or gives without end. A file of the directory itself, which is written in place, is `HARD_LINK` where it
    has a name elsewhere.
    """
    for name, depth in (("", 1), ("spool", 1), ("indexes", 4), ("briefings", 1), ("models", 2), ("backups", 3), ("damaged", 2)):
        if (odd := _find_odd(os.path.join(directory, name), depth)) != ("", ""):
            return odd
    shared = _find_hard_link(directory)
    return (shared, HARD_LINK) if shared else ("", "")


def _find_hard_link(directory: str) -> str:
    """Return the first file with another hard link, else ""."""
    linked: dict[tuple[int, int], tuple[str, int]] = {}
    names: dict[tuple[int, int], int] = {}
    try:
        # A restore that was killed leaves second names in a folder of its own.
        folders = [directory, *(entry.path for entry in os.scandir(directory) if entry.name.startswith("before-restore-"))]
        for folder in folders:
            for entry in os.scandir(folder):
                try:
                    state = entry.stat(follow_symlinks=False)
                except FileNotFoundError:
                    # Others work in the directory.
                    continue
                if state.st_nlink > 1 and stat.S_ISREG(state.st_mode):
                    file = (state.st_dev, state.st_ino)
                    names[file] = names.get(file, 0) + 1
                    # Two names is what a token has while it is made.
                    if folder == directory and not entry.name.startswith("token"):
                        linked.setdefault(file, (entry.path, state.st_nlink))
    except OSError:
        return ""
    return next((path for file, (path, count) in linked.items() if names[file] < count), "")


def remedy(odd: str, kind: str) -> str:
    """Return what to do about what `planted` found."""
    if kind == HARD_LINK:
        return f"What is written to it would change the other one: cp -p {odd} {odd}.own && mv {odd}.own {odd}"
    return f"Look what it is (ls -l {odd}), and move it out of there if you did not put it there."


def _find_odd(folder: str, depth: int) -> tuple[str, str]:
    """Return the first special file in a folder, and its kind."""
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    if depth > 1 and (odd := _find_odd(entry.path, depth - 1)) != ("", ""):
                        return odd
                elif not entry.is_file(follow_symlinks=False) and (kind := _kind(entry)):
                    return entry.path, kind
    except OSError:
        # Missing, or no folder.
        return "", ""
    return "", ""


def _kind(entry: os.DirEntry[str]) -> str:
    """Return what a special file is, in words."""
    try:
        mode = entry.stat(follow_symlinks=False).st_mode
    except FileNotFoundError:
        return ""
    if stat.S_ISSOCK(mode):
        return "" if entry.name == "daemon.sock" else "a socket"
    return "a link" if stat.S_ISLNK(mode) else "a pipe" if stat.S_ISFIFO(mode) else "a device"


def socket_path(directory: str) -> str:
    """Return the path of a daemon's socket.

    In the data directory, or in a private runtime directory if that is too long. The latter is memory-mcp in XDG_RUNTIME_DIR,
    else /tmp/memory-mcp-UID, and is made (mode 0700). Raises PermissionError when it is no directory, not this user's, or open
    to others; OSError when it cannot be made.
    """
    usual = os.path.join(directory, "daemon.sock")
    if len(os.fsencode(usual)) <= _LONGEST_SOCKET:
        return usual
    runtime = os.environ.get("XDG_RUNTIME_DIR", "")
    folder = os.path.join(runtime, APP) if runtime else f"/tmp/{APP}-{os.getuid()}"
    os.makedirs(folder, mode=0o700, exist_ok=True)
    state = os.lstat(folder)
    if not stat.S_ISDIR(state.st_mode) or state.st_uid != os.getuid() or state.st_mode & 0o077:
        raise PermissionError(f"{folder} must be a directory that only this user can enter")
    return os.path.join(folder, f"{name_of(os.path.realpath(directory))}.sock")


def identity(path: str) -> list[int]:
    """Return a file's device and inode; [] where it is missing."""
    try:
        state = os.stat(path)
    except OSError:
        return []
    return [state.st_dev, state.st_ino]


def door_file(directory: str) -> str:
    """Return the file with a TCP daemon's port and secret."""
    return os.path.join(directory, "daemon.door")


def start_lock(directory: str) -> str:
    """Return the lock file held while the daemon is started."""
    return os.path.join(directory, "start.lock")


def log_file(directory: str) -> str:
    """Return the path of the daemon's log in a data directory."""
    return os.path.join(directory, "daemon.log")


def token_file(directory: str) -> str:
    """Return the file with the HTTP door's bearer token."""
    return os.path.join(directory, "token")


def key_variables(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables MEMORY_MCP_..._KEY, which give a command a key and are no settings."""
    names = (name for name in environ if name.startswith(PREFIX) and name.endswith("_KEY") and "__" not in name)
    return {name: environ[name] for name in names}


#: Files of what was forgotten, as keyed hashes, and of their key.
TOMBSTONES, TOMBSTONES_KEY = "tombstones.jsonl", "tombstones.key"


def pauses_file(directory: str) -> str:
    """Return the file of all pauses; there may be none."""
    return os.path.join(directory, "pauses.json")


def spool_dir(directory: str) -> str:
    """Return the folder where hooks leave payloads."""
    return os.path.join(directory, "spool")


def briefing_file(directory: str, project: str) -> str:
    """Return the file with a project's briefing for new sessions.

    It lies in `briefings`, named by `name_of(project)`; whether it exists is not looked at.
    """
    return os.path.join(directory, "briefings", f"{name_of(project)}.txt")


def here() -> str:
    """Return the working directory; "" when it is gone."""
    try:
        return os.getcwd()
    except OSError:
        return ""


def name_of(text: str) -> str:
    """Return a file name for any text: 16 hexadecimal digits.

    Always the same for the same text (BLAKE2b).
    """
    try:
        # What hashlib takes it from, without OpenSSL, which would be a quarter more of a start of Python.
        from _blake2 import blake2b
    except ImportError:
        from hashlib import blake2b

    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()


def _platform_dir(environ: Mapping[str, str], variable: str, below_home: str) -> str:
    """Return our folder in the platform's place; nothing is made.

    On Windows that is LOCALAPPDATA; elsewhere `variable` where it is an absolute path, else
    Library/Application Support on macOS and `below_home` of the home directory on others.
    """
    home = environment.home_dir(environ)
    if sys.platform == "win32":
        base = environ.get("LOCALAPPDATA") or os.path.join(home, "AppData", "Local")
    elif environ.get(variable, "").startswith("/"):
        base = environ[variable]
    elif sys.platform == "darwin":
        base = os.path.join(home, "Library", "Application Support")
    else:
        base = os.path.join(home, below_home)
    return os.path.join(base, APP)
