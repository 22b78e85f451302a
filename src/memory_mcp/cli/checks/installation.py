"""The installation: versions, settings, command, disk, data directory, and whether recording is paused."""

import os
import shutil
import sys
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from memory_mcp import __version__
from memory_mcp.base import environment, ownership, paths, pauses
from memory_mcp.base.clock import SystemClock
from memory_mcp.base.errors import MemoryMcpError
from memory_mcp.cli import render
from memory_mcp.cli.checks.base import FAIL, OK, WARN, Check, Look
from memory_mcp.config import load, without_password
from memory_mcp.storage.opening import find_zone

#: Parts of names of variables whose values are not shown.
_SECRET = ("TOKEN", "KEY", "SECRET", "PASSWORD")
_NAME = "memory-mcp"
#: What a program started from a desktop finds without a shell's start files: macOS's launchd gives the first four (and
#: Homebrew's folders are not among them), a Linux session the first six.
_DESKTOP = ("/usr/bin", "/bin", "/usr/sbin", "/sbin", "/usr/local/sbin", "/usr/local/bin")
#: Less free disk than this is worth a warning, and less than this fails the next write (bytes).
_LOW, _NONE = 1_000_000_000, 50_000_000
_OPEN_TO_OTHERS = 0o077


def check_versions(look: Look) -> Iterator[Check]:
    """Yield the versions of Python, this program, DuckDB and mcp."""
    del look
    versions = [f"python {sys.version.split()[0]}", f"memory-mcp {__version__}"]
    for name in ("duckdb", "mcp"):
        try:
            versions.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            versions.append(f"{name} (not installed)")
    yield Check(OK, "versions", ", ".join(versions))


def check_settings(look: Look) -> Iterator[Check]:
    """Yield whether settings, TZ and the environment can be used.

    Values of variables with secret names are shown as ***, and URLs without their password.
    """
    file = Path(look.config or paths.config_file(look.environ)).expanduser()
    try:
        load(look.environ, file=file if look.config else None)
    except MemoryMcpError as error:
        yield Check(FAIL, "settings", error.message, error.hint or f"Mend it in {file} or in the environment.")
    else:
        text = f"read from {file}" if file.is_file() else f"defaults: there is no settings file {file}"
        yield Check(OK, "settings", text)
    try:
        find_zone(look.environ)
    except MemoryMcpError as error:
        step = f"{error.hint} A store keeps its own zone; a new one counts days in the system's while TZ is not mended."
        yield Check(WARN, "TZ", error.message, step)
    variables = []
    for name in sorted(name for name in look.environ if name.startswith(paths.PREFIX)):
        is_secret = any(part in name for part in _SECRET)
        variables.append(f"{name}={'***' if is_secret else without_password(look.environ[name])}")
    yield Check(OK, "environment", ", ".join(variables) or f"no variable {paths.PREFIX}... is set")


def check_command(look: Look) -> Iterator[Check]:
    """Yield whether shell and desktop clients find the command."""
    path_command = shutil.which(_NAME, path=look.environ.get("PATH", os.defpath))
    sibling_command = Path(sys.executable).with_name(_NAME)
    absolute = path_command or (str(sibling_command) if sibling_command.exists() else f"{sys.executable} -m memory_mcp")
    if path_command is None:
        step = f'put its folder on PATH (pipx ensurepath does), or give clients the whole path: "command": "{absolute}"'
        yield Check(WARN, "command", f"{_NAME} is not on this shell's PATH; it is {absolute}", step)
    else:
        yield Check(OK, "command", f"{path_command} is on this shell's PATH")
    if sys.platform == "win32":
        # Every program of a user has the same PATH there.
        return
    if shutil.which(_NAME, path=os.pathsep.join(_DESKTOP[:4] if sys.platform == "darwin" else _DESKTOP)) is None:
        text = "clients started from a desktop have a shorter PATH and may not find it"
        yield Check(OK, "command for desktop clients", text, f'in their configuration write "command": "{absolute}"')


def check_disk(look: Look) -> Iterator[Check]:
    """Yield the free disk space: WARN below 1 GB, FAIL below 50 MB."""
    folder = next(p for p in (look.directory, *look.directory.absolute().parents) if p.exists())
    free = shutil.disk_usage(folder).free
    state = OK if free >= _LOW else WARN if free >= _NONE else FAIL
    yield Check(state, "free disk", render.size(free), "" if state == OK else f"free some space on the disk of {folder}")


def check_directory(look: Look) -> Iterator[Check]:
    """Yield whether the data directory is named, private and writable.

    One that does not exist yet is OK, one with other things in it FAIL, and either ends the check. Open to others
    to read is WARN, to write FAIL, read-only FAIL.
    """
    directory = look.directory
    setting = look.settings.storage.data_dir if look.settings else ""
    spares = paths.spare_dirs(str(directory), look.environ)
    for text in environment.report_unusable(look.environ, setting, str(directory), spares):
        yield Check(WARN, "data directory", text, "name the folder in full where the client starts memory-mcp")
    if not directory.is_dir():
        first = "memory-mcp setup (or try it first: memory-mcp try)"
        yield Check(OK, "data directory", f"{directory} does not exist yet", first)
        return
    if why := paths.describe_foreign_files(str(directory)):
        # It is not a data directory: no advice about its mode.
        yield Check(FAIL, "data directory", why, "name a new or an empty folder: --data-dir DIR, or MEMORY_MCP_DATA_DIR")
        return
    yield Check(OK, "data directory", str(directory))
    if why := ownership.open_to_others(str(directory)):
        yield Check(FAIL, "permissions", why, "it is refused until then")
        return
    mode = directory.stat().st_mode & 0o777
    if mode & _OPEN_TO_OTHERS:
        yield Check(WARN, "permissions", f"{directory} is open to others ({mode:o})", f"chmod 700 {directory}")
    else:
        yield Check(OK, "permissions", f"{directory} is yours alone ({mode:o})")
    if os.access(directory, os.W_OK):
        yield Check(OK, "writable", "yes")
    else:
        next_step = f"chmod u+w {directory}, or choose another: --data-dir DIR"
        yield Check(FAIL, "writable", f"{directory} is read-only", next_step)


def check_capture(look: Look) -> Iterator[Check]:
    """Yield which projects are paused now."""
    now = SystemClock().now_ms()
    try:
        stored_pauses = pauses.read(str(look.directory))
    except ValueError as error:
        yield Check(WARN, "recording", f"{error}; nothing is paused", f"move it out of {look.directory}, and pause again")
        return
    names = sorted({p.projects[0] for p in stored_pauses if p.begin <= now and (p.end is None or now < p.end)})
    if names:
        what = "every project" if pauses.ALL in names else ", ".join(names)
        yield Check(WARN, "recording", f"paused: {what}", "memory-mcp resume --project NAME, or '*' for all")
    else:
        yield Check(OK, "recording", "not paused")
