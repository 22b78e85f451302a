"""Converts error replies of the daemon to exceptions of this package."""

from memory_mcp.client import link
from memory_mcp.errors import MemoryMcpError


class _Told(MemoryMcpError):
    """An error that the daemon reported, with its text and exit status."""

    def __init__(self, text: str, status: int, hint: str) -> None:
        super().__init__(text, hint)
        self._status = status

    def __str__(self) -> str:
        return self.message

    @property
    def exit_status(self) -> int:  # type: ignore[override]
        """The exit status that the daemon reported."""
        return self._status


def ours(error: link.Refused) -> MemoryMcpError:
    """Return a reported error as an exception of this package."""
    return _Told(str(error), error.status, error.hint)
