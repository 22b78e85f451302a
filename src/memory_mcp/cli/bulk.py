"""What commands that store much are given: the memory opened here, or the daemon's, read into by this process.

Files are opened, read and cleaned by the command's own process, at low priority; the daemon stores what it is sent and
files it in the tree, and answers everybody else meanwhile.
"""

import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from memory_mcp import link
from memory_mcp.app import App, importer_named
from memory_mcp.children import few_collections
from memory_mcp.config import Settings
from memory_mcp.errors import LayerUnavailable, MemoryMcpError

if TYPE_CHECKING:
    from memory_mcp.ingest.base import Importer, ImportReport
    from memory_mcp.jobs.derivation import Spent
    from memory_mcp.model.event import EventDraft, Trust
    from memory_mcp.storage.values import Appended, Request

#: Below everything that somebody waits for.
_NICE = 5
#: A daemon that ends is followed by another; what it had not acknowledged is sent again, which changes nothing.
_TRIES, _A_WHILE = 5, 1.0

Tell = Callable[["ImportReport", Path, float], None]


class Memory(Protocol):
    """A store to be filled."""

    settings: Settings

    def importer(self, name: str) -> "Importer":
        """See App."""
        ...

    def run_import(self, name: str, path: Path, progress: Tell | None, newest: int | None) -> "ImportReport":
        """See App."""
        ...

    def append(self, drafts: "Sequence[EventDraft]", source: str) -> "Appended":
        """See App: drafts that have passed the gate."""
        ...

    def pending(self) -> int:
        """Events that are not in the tree yet, as far as that is known."""
        ...

    def derive(self, progress: Callable[[int], None]) -> "Spent":
        """Bring the whole tree up to date."""
        ...

    def holdings(self) -> dict[str, Any]:
        """See App."""
        ...


class Here:
    """A memory opened in this process."""

    def __init__(self, app: App) -> None:
        self._app = app
        self.settings = app.settings
        self.importer, self.run_import, self.append = app.importer, app.run_import, app.append
        self.holdings, self.pending = app.holdings, app.derivation.pending

    def derive(self, progress: Callable[[int], None]) -> "Spent":
        """See Memory."""
        from memory_mcp.jobs.derivation import Place

        return self._app.derivation.run(place=Place.SHARED, progress=progress)


class There:
    """The daemon's memory."""

    def __init__(self, settings: Settings, wanted: link.Wanted) -> None:
        self.settings = settings
        self._wanted = wanted
        self._line: link.Line | None = None
        self._left = 0
        self._holdings: dict[str, Any] = {}

    def importer(self, name: str) -> "Importer":
        """See Memory."""
        return importer_named(name, self.settings.ingest)

    def run_import(self, name: str, path: Path, progress: Tell | None, newest: int | None) -> "ImportReport":
        """See Memory."""
        from memory_mcp.ingest.gate import Gate
        from memory_mcp.ingest.pipeline import Pipeline

        with few_collections():
            return Pipeline(self, self, Gate()).run(self.importer(name), path, progress, newest)

    def append(
        self, drafts: "Sequence[EventDraft]", source: str, trust: "Trust | None" = None, request: "Request | None" = None
    ) -> "Appended":
        """See Memory; trust and request are the daemon's to set."""
        from memory_mcp.ingest.frames import pack
        from memory_mcp.storage.values import Appended

        del trust, request
        answer = self._ask("import/append", {"rows": pack(drafts), "source": source})
        self._left += len(answer["new"])
        return Appended(tuple(answer["new"]), tuple(answer["known"]))

    def marks(self, prefix: str) -> dict[str, str]:
        """See Outbox."""
        found: dict[str, str] = self._ask("import/marks", {"prefix": prefix})["marks"]
        return found

    def mark(self, follower: str, value: str) -> None:
        """See Outbox."""
        self._ask("import/mark", {"name": follower, "value": value})

    def pending(self) -> int:
        """See Memory: what this command has sent, until the daemon tells how much of it is left."""
        return self._left

    def derive(self, progress: Callable[[int], None]) -> "Spent":
        """See Memory; the seconds after the last event was sent, all of them counted as filing."""
        from memory_mcp.jobs.derivation import Spent

        began, left = time.monotonic(), self._left

        def hear(message: dict[str, Any]) -> None:
            nonlocal left
            now = int(message.get("left", left))
            progress(max(0, left - now))
            left = min(left, now)

        self._holdings = self._ask("import/derive", {}, hear)["holdings"]
        return Spent(0, time.monotonic() - began, 0.0)

    def holdings(self) -> dict[str, Any]:
        """See Memory."""
        return self._holdings

    def connect(self) -> None:
        """Reach the daemon; LayerUnavailable when there is none to be had."""
        self._ask("import/marks", {"prefix": "import:"})

    def close(self) -> None:
        """Let go of the connection."""
        if self._line is not None:
            self._line.close()
            self._line = None

    def _ask(
        self, method: str, params: dict[str, Any], hear: Callable[[dict[str, Any]], None] = lambda _: None
    ) -> dict[str, Any]:
        failures = 0
        while True:
            began = time.monotonic()
            try:
                if self._line is None:
                    self._line = link.reach(self._wanted, "rpc")
                return link.converse(self._line, method, params, hear)
            except link.Refused as error:
                raise _ours(error) from None
            except OSError as error:
                self.close()
                # A daemon that has worked for a while got somewhere, and so will the next.
                failures = 1 if time.monotonic() - began > _A_WHILE else failures + 1
                if failures >= _TRIES or isinstance(error, link.Unreachable):
                    hint = "What was acknowledged is stored; run the command again to go on."
                    raise LayerUnavailable(f"the daemon cannot be reached: {error}", hint) from None


@contextmanager
def there(settings: Settings, wanted: link.Wanted) -> Iterator[There]:
    """The daemon's memory, this process at low priority."""
    memory = There(settings, wanted)
    try:
        # Only now: a daemon that is started inherits the priority of its starter.
        memory.connect()
        if hasattr(os, "nice"):
            os.nice(_NICE)
        yield memory
    finally:
        memory.close()


class _Told(MemoryMcpError):
    """An error of the daemon's, in its words."""

    def __init__(self, text: str, status: int) -> None:
        super().__init__(text)
        self._status = status

    def __str__(self) -> str:
        return self.message

    @property
    def exit_status(self) -> int:  # type: ignore[override]
        """As the daemon said."""
        return self._status


def _ours(error: link.Refused) -> MemoryMcpError:
    return _Told(str(error), error.status)
