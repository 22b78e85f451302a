"""Errors of the daemon in, errors of ours out."""

from memory_mcp import link
from memory_mcp.errors import MemoryMcpError


class _Told(MemoryMcpError):
    """An error of the daemon's, in its words."""

    def __init__(self, text: str, status: int, hint: str) -> None:
        super().__init__(text, hint)
        self._status = status

    def __str__(self) -> str:
        return self.message

    @property
    def exit_status(self) -> int:  # type: ignore[override]
        """As the daemon said."""
        return self._status


def ours(error: link.Refused) -> MemoryMcpError:
    """Return an error of the daemon's as one of ours."""
    return _Told(str(error), error.status, error.hint)
