"""The bearer token of the HTTP server: from the settings, else made once and kept in the data directory."""

import contextlib
import logging
import os
import re
import secrets
import stat
from pathlib import Path

from memory_mcp.base import machine, paths
from memory_mcp.base.errors import ConfigError

log = logging.getLogger(__name__)

#: The characters that a token may have in a header.
_FIT = re.compile(r"[A-Za-z0-9._~+/=-]+\Z")
#: Random bytes of a new token, and its length in characters.
_BYTES, _LENGTH = 32, 43


def token_of(configured: str, data_dir: Path) -> tuple[str, str]:
    """Return the token in force and where it is kept.

    In words; a file with a new one is made where there is none. Raises ConfigError where the token cannot be read or made, or a
    header cannot carry it.
    """
    if configured:
        if not _FIT.match(configured):
            raise ConfigError("server.http_token holds characters that no header can carry", "Use letters and digits.")
        return configured, "the setting server.http_token"
    path = Path(paths.token_file(str(data_dir)))
    try:
        if not os.path.lexists(path):
            # Written to a file of its own and then linked to its name, so that no process reads half a token.
            aside = path.with_name(f"{path.name}.{secrets.token_hex(8)}")
            descriptor = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | machine.PRIVATE, 0o600)
            try:
                with os.fdopen(descriptor, "w", encoding="ascii") as file:
                    file.write(secrets.token_urlsafe(_BYTES) + "\n")
                    machine.on_disk(file)
                # Unlike a rename, this fails when another process was faster.
                with contextlib.suppress(FileExistsError):
                    os.link(aside, path)
            finally:
                aside.unlink()
        return _read_token(path), f"the file {path.name} in the data directory"
    except OSError as error:
        hint = "Set server.http_token, or make the data directory writable."
        raise ConfigError(f"the token file {path} cannot be used: {error.strerror or error}", hint) from error


def _read_token(path: Path) -> str:
    """Return a file's token; make the file this user's alone.

    With a warning where others could read it. Raises ConfigError for a token that is too short or no header can carry, OSError
    for a file of another user or none.
    """
    descriptor = os.open(path, os.O_RDONLY | machine.PRIVATE | getattr(os, "O_NONBLOCK", 0))
    with os.fdopen(descriptor, encoding="ascii", errors="replace") as file:
        state = os.fstat(descriptor)
        if not stat.S_ISREG(state.st_mode) or not machine.owns(state):
            raise PermissionError(0, "it is not a file of this user")
        if state.st_mode & 0o077 and not machine.WINDOWS:
            os.fchmod(descriptor, 0o600)
            log.warning("others could read %s; now only its owner can. Who read it may still use it: replace what it holds", path)
        token = file.read(4096).strip()
    if len(token) < _LENGTH or not _FIT.match(token):
        hint = "Move it away: the next start makes a new one. Or set server.http_token."
        raise ConfigError(f"the token file {path} holds no usable token (at least {_LENGTH} letters and digits)", hint)
    return token
