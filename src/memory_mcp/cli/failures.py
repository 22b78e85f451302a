"""Connects to the daemon, and turns its errors into exceptions of this package."""

from memory_mcp.base import paths
from memory_mcp.base.errors import LayerUnavailable, MemoryMcpError
from memory_mcp.service.client import link


class _Told(MemoryMcpError):
    """An error with its text and exit status by the daemon."""

    def __init__(self, code: str, text: str, status: int, hint: str) -> None:
        super().__init__(text, hint)
        self._code = code
        self._status = status

    def __str__(self) -> str:
        return self.message

    @property
    def sentence(self) -> str:
        """The daemon's text without its code."""
        return self.message.removeprefix(f"{self._code}: ")

    @property
    def exit_status(self) -> int:  # type: ignore[override]
        """The exit status that the daemon reported."""
        return self._status


def reach(target: link.Wanted) -> link.Line:
    """Return a connection to the daemon, started if none runs.

    Raises LayerUnavailable when none can be reached, or none answers in time.
    """
    try:
        return link.reach_daemon(target, "rpc")
    except link.Unreachable as error:
        raise LayerUnavailable(f"the daemon could not be started: {error}", "memory-mcp doctor looks into it.") from None
    except TimeoutError:
        text = f"the daemon has not answered within {link.START_PATIENCE:.0f} s; see {paths.log_file(target.directory)}"
        raise LayerUnavailable(text, "A busy machine may need longer: try again.") from None


def translate_refusal(error: link.Refused) -> MemoryMcpError:
    """Return the daemon's error as one of this package."""
    return _Told(error.code, str(error), error.status, error.hint)
