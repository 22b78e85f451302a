"""Which settings file and which variables of the environment are in force, and whether they can be used."""

from collections.abc import Iterator
from pathlib import Path

from memory_mcp.base import paths
from memory_mcp.base.errors import MemoryMcpError
from memory_mcp.cli.checks.base import FAIL, OK, WARN, Check, Look
from memory_mcp.config import load, without_password
from memory_mcp.storage.opening import find_zone

#: Parts of names of variables whose values are not shown.
_SECRET = ("TOKEN", "KEY", "SECRET", "PASSWORD")


def checks(look: Look) -> Iterator[Check]:
    """Yield whether the settings can be used (else FAIL), whether TZ can, and the environment variables of this program.

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
