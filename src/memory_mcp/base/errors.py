"""Every error a caller can meet; each says whether a retry helps and what to try next.

MemoryMcpError
├── ConfigError              the process refuses to start
├── StorageError             the truth cannot be read or written; never swallowed
│   ├── StorageDamaged       bytes of it are not what was written; the next start saves what is whole
│   ├── DiskFull             nothing more fits in; reading goes on, and writing does once there is room
│   ├── ReadOnly             the data directory may be read and not written
│   ├── StorageLocked        another process holds the data directory
│   ├── Busy                 another process is doing that for this memory
│   ├── StorageMoved         the store was moved or deleted while it was open
│   ├── SchemaTooNew         written by a newer version
│   └── SchemaTooOld         written by an older version, and opened to be looked at alone
├── NotFound                 unknown node, grip, event or session id
├── InvalidQuery             empty query, unknown level, bad limit, unknown argument
├── DeadlineExceeded         the time given was not enough for anything
├── ResourceExhausted        the request is larger than its bound
├── AddressInUse             another program listens where the HTTP door should
├── LayerUnavailable         disabled, not built or unhealthy
│   ├── IndexUnreadable      damaged, missing or foreign files; built again in the background
│   └── IndexNotReady        being read or built in the background; a retry in a few seconds helps
├── SourceUnreadable         an importer cannot read its input
└── InstallRefused           a client's configuration cannot be changed as asked; nothing was
"""

import errno
from typing import ClassVar


class MemoryMcpError(Exception):
    """Base of every error of ours.

    `code` is stable and comes first in every text an agent sees, not on the command line; `hint` names a safe next step and never
    suggests deleting anything.
    """

    code: ClassVar[str] = "INTERNAL"
    retryable: ClassVar[bool] = False
    #: Process exit status on the command line.
    exit_status: ClassVar[int] = 1

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.code}: {self.sentence}"

    @property
    def sentence(self) -> str:
        """`message. Hint.`, as people see it."""
        text = f"{self.message.rstrip('.')}."
        return f"{text} {self.hint}" if self.hint else text


class ConfigError(MemoryMcpError):
    """The settings cannot be used as they are."""

    code = "INVALID_ARGUMENT"
    exit_status = 2


class StorageError(MemoryMcpError):
    """The truth cannot be read or written."""


class StorageDamaged(StorageError):
    """Bytes of the store are not what was written."""

    retryable = True


class DiskFull(StorageError):
    """There is no room to write; what is stored can be read, and writing goes on once there is room."""

    code = "RESOURCE_EXHAUSTED"
    retryable = True
    exit_status = 3
    HINT: ClassVar[str] = (
        "Free space on that disk (trash, downloads, caches of package managers and builds); leave the data directory as it is. "
        "Reading goes on, nothing acknowledged is lost, and writing goes on by itself once there is room."
    )

    @classmethod
    def of(cls, error: Exception) -> "DiskFull | None":
        """Return a DiskFull for a used-up disk, quota or size limit.

        None for any other error. That is an OSError with ENOSPC, EDQUOT or EFBIG, or numpy's about a write that was cut short.
        """
        if not isinstance(error, OSError):
            return None
        # numpy tells a write that was cut short without the system's number: "38980 requested and 19952 written".
        short = error.errno is None and "requested and" in str(error)
        if not short and error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            return None
        return cls(f"there is no room to write ({error.strerror or error})", cls.HINT)

    @classmethod
    def within(cls, error: BaseException | None) -> "DiskFull | None":
        """Return the full disk that an error or its causes report."""
        while error is not None:
            full = error if isinstance(error, cls) else cls.of(error) if isinstance(error, Exception) else None
            if full is not None:
                return full
            error = error.__cause__ or error.__context__
        return None


class ReadOnly(StorageError):
    """The data directory may be read and not written."""

    code = "FAILED_PRECONDITION"
    HINT: ClassVar[str] = "Make it writable for this user (ls -ld shows whose it is), or name another: --data-dir DIR"


class StorageLocked(StorageError):
    """Another process holds the data directory."""

    code = "LOCKED"
    retryable = True
    exit_status = 3


class Busy(StorageError):
    """Another process is doing that for this memory."""

    code = "UNAVAILABLE"
    retryable = True
    exit_status = 3


class StorageMoved(StorageError):
    """The store was moved or deleted while it was open; nothing is acknowledged any more."""

    code = "UNAVAILABLE"
    retryable = True
    exit_status = 3


class SchemaTooNew(StorageError):
    """The store was written by a newer version of this program."""


class SchemaTooOld(StorageError):
    """The store was written by an older version of this program, and is not brought up to date by looking at it."""


class NotFound(MemoryMcpError):
    """No such node, grip, event or session."""

    code = "NOT_FOUND"
    exit_status = 2


class InvalidQuery(MemoryMcpError):
    """The request cannot be answered as asked."""

    code = "INVALID_ARGUMENT"
    exit_status = 2


class DeadlineExceeded(MemoryMcpError):
    """The time given was not enough for anything."""

    code = "DEADLINE_EXCEEDED"
    retryable = True
    exit_status = 3


class ResourceExhausted(MemoryMcpError):
    """The request is larger than its bound."""

    code = "RESOURCE_EXHAUSTED"
    exit_status = 2


class AddressInUse(MemoryMcpError):
    """Another program listens where the HTTP door should."""

    code = "UNAVAILABLE"
    exit_status = 3


class LayerUnavailable(MemoryMcpError):
    """A retrieval layer is disabled, not built or unhealthy; `reason` says which."""

    code = "UNAVAILABLE"
    exit_status = 3

    def __init__(self, message: str, hint: str = "", reason: str = "") -> None:
        super().__init__(message, hint)
        self.reason = reason or message


class SourceUnreadable(MemoryMcpError):
    """An importer cannot read its input."""

    code = "INVALID_ARGUMENT"
    exit_status = 2


class InstallRefused(MemoryMcpError):
    """A client's configuration cannot be changed as asked; nothing was written."""

    code = "INVALID_ARGUMENT"
    exit_status = 2


class IndexUnreadable(LayerUnavailable):
    """An index cannot be read: its files are damaged, missing or belong to another store. It is built again from the store."""

    retryable = True


class IndexNotReady(LayerUnavailable):
    """An index is being read from disk or built in the background."""

    retryable = True


def read_first_line(error: BaseException) -> str:
    """Return the first line of what an error says, up to 300 characters; "" for none."""
    return next(iter(str(error).strip().splitlines()), "")[:300]
