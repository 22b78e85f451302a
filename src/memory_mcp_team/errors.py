"""Errors that only the package for teams raises; `memory_mcp.base.errors` has all others and says what an error is.

MemoryMcpError
├── StorageError
│   ├── StorageForbidden     the database's role may not read or write the tables
│   └── StorageAway          the database does not answer; what was acknowledged is in it
├── Unauthenticated          no token or key, or one that proves nothing
├── PermissionDenied         the caller is known, and may not do that
│   └── InsufficientScope    the caller may, and the token or key that was sent may not
├── ResourceExhausted
│   └── QuotaExceeded        a member or a tenant used up what it may; more comes with time
├── ProviderUnavailable      the authorization server cannot be reached, and its keys are not known
└── ServerUnreachable        the team's server does not answer; nothing is lost, and it is tried again
"""

from typing import ClassVar

from memory_mcp.base.errors import MemoryMcpError, NotFound, ResourceExhausted, StorageError

#: Next steps of errors that name none of their own.
_ASK_FOR_TOKEN = "Send a token of the authorization server or an API key."
_ASK_ADMINISTRATOR = "Ask an administrator of the team."


class StorageForbidden(StorageError):
    """The role of `storage.url` may not read or write the database's tables."""

    code = "FAILED_PRECONDITION"
    HINT: ClassVar[str] = (
        "Name in storage.url the role that made the tables and owns them (in psql, \\dt names it), or have that role grant this "
        "one the tables; nothing was changed."
    )


class StorageAway(StorageError):
    """The database does not answer; what was acknowledged is in it."""

    code = "UNAVAILABLE"
    retryable = True
    exit_status = 3


class Unauthenticated(MemoryMcpError):
    """The caller proved nothing: the token or key is missing, wrong, expired or revoked."""

    code = "UNAUTHENTICATED"
    exit_status = 2

    def __init__(self, message: str, hint: str = _ASK_FOR_TOKEN, is_missing: bool = False) -> None:
        super().__init__(message, hint)
        self.is_missing = is_missing


class PermissionDenied(MemoryMcpError):
    """The caller is known, and may not do that."""

    code = "PERMISSION_DENIED"
    exit_status = 2

    def __init__(self, message: str, hint: str = _ASK_ADMINISTRATOR) -> None:
        super().__init__(message, hint)


class InsufficientScope(PermissionDenied):
    """The caller may do that, and the token or key that was sent may not."""

    def __init__(self, message: str, hint: str = _ASK_ADMINISTRATOR, scope: str = "") -> None:
        super().__init__(message, hint)
        self.scope = scope


class QuotaExceeded(ResourceExhausted):
    """A member or a tenant used up what it may; more comes with time."""

    retryable = True
    exit_status = 3

    def __init__(self, message: str, hint: str = "", retry_after: int = 1) -> None:
        super().__init__(message, hint)
        self.retry_after = retry_after


class ProviderUnavailable(MemoryMcpError):
    """The authorization server cannot be reached, so that no token can be checked."""

    code = "UNAVAILABLE"
    retryable = True
    exit_status = 3


class ServerUnreachable(MemoryMcpError):
    """The team's server does not answer, or not now."""

    code = "UNAVAILABLE"
    retryable = True
    exit_status = 3


def no_such_space(name: str = "") -> NotFound:
    """Return the error for every space that the caller cannot see."""
    return NotFound(f"there is no space {name!r}" if name else "there is no such space", "Ask for the spaces you may see.")
