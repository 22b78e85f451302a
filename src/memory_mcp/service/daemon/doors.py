"""The HTTP server of a running daemon: open by its settings, or while a caller that requested it is connected."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import anyio
import anyio.abc

from memory_mcp.base.errors import InvalidQuery
from memory_mcp.config import ServerSettings
from memory_mcp.service.daemon.rpc import Conversation
from memory_mcp.web.visits import Visits

if TYPE_CHECKING:
    from memory_mcp.service.daemon.http import HttpDoor

#: Makes a door for the settings, without binding it.
Make = Callable[[ServerSettings], "HttpDoor"]


class Doors:
    """At most one HTTP door, and the browser visits to it."""

    def __init__(self, settings: ServerSettings, make: Make, token_file: str) -> None:
        self._settings = settings
        self._make = make
        self._token_file = "" if settings.http_token else token_file
        self._door: HttpDoor | None = None
        self._asked_host = ""
        self._holders = 0
        #: Set whenever no door is open, and none is still closing.
        self._closed = anyio.Event()
        self._closed.set()
        self.visits = Visits()
        #: Where `open` runs a door; set while the daemon serves.
        self.tasks: anyio.abc.TaskGroup | None = None

    @property
    def url(self) -> str:
        """The base URL of the HTTP server, without a path."""
        return self._door.url.removesuffix("/mcp") if self._door else ""

    @property
    def connections(self) -> int:
        """Number of open HTTP connections, idle ones included."""
        return self._door.connections if self._door else 0

    @property
    def lasting(self) -> bool:
        """Whether the settings keep the door open, and the daemon running."""
        return self._settings.http

    async def open(self, settings: ServerSettings) -> None:
        """Open the door at the address of `settings`.

        Returns once it answers, or raise ConfigError or AddressInUse.
        """
        assert self.tasks is not None
        door = self._make(settings)
        self._asked_host = settings.http_host
        await self.tasks.start(self._serve, door)

    async def _serve(self, door: "HttpDoor", *, task_status: "anyio.abc.TaskStatus[None]" = anyio.TASK_STATUS_IGNORED) -> None:
        """Serve a door until it closes and its visits end.

        `task_status` is set once it answers. Raises AddressInUse, ConfigError.
        """
        self._door, self._closed = door, anyio.Event()
        try:
            await door.serve(task_status=task_status)
        finally:
            self._door = None
            self.visits.end_all()
            self._closed.set()

    async def hold(self, talk: Conversation, params: Mapping[str, Any]) -> Mapping[str, Any]:
        """Open the door until the last caller of this method disconnects.

        Returns `url`, its base URL, and `token_file`. The token's file is "" where the settings hold the token. The caller's
        `host` and `port` take the place of the settings'. Raises InvalidQuery when the door is open at another address,
        ConfigError or AddressInUse when it cannot be opened, ValueError for a port that is no number.
        """
        if not await self._is_open_at(params):
            raise InvalidQuery(f"HTTP is served at {self.url} already", "Leave --host and --port out, or stop the other one.")
        self._holders += 1
        talk.at_end.append(self._let_go)
        return {"url": self.url, "token_file": self._token_file}

    async def visit(self, _: Conversation, params: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return in `url` an address that admits one browser once.

        It opens the door when it is closed. Parameters: `host` and `port`, in place of the settings' where the door has to be
        opened, and `is_person` (else False), which becomes the visit's. Raises InvalidQuery when the door is open and a `port`
        is named that is not its own or that goes with another `host`, ConfigError or AddressInUse when it cannot be opened,
        ValueError for a port that is no number.
        """
        if not await self._is_open_at(params) and params.get("port"):
            raise InvalidQuery(f"HTTP is served at {self.url} already", "Leave --port out.")
        # An address that means every interface is bound, not visited.
        url = self.url.replace("//0.0.0.0:", "//127.0.0.1:").replace("//[::]:", "//[::1]:")
        return {"url": url + self.visits.issue_ticket(bool(params.get("is_person")))}

    def close_unvisited(self, idle_s: float) -> None:
        """Close a door for browsers that none used for `idle_s` seconds.

        One that a caller holds or the settings keep open stays.
        """
        idle = self.visits.idle_s()
        if self._door is not None and not self._holders and not self.lasting and idle is not None and idle > idle_s:
            self._door.stop()

    async def _is_open_at(self, params: Mapping[str, Any]) -> bool:
        """Open the door at `host` and `port` where none is open.

        Else the settings'; it waits first while one closes. Return whether the open door is at the requested host and port;
        those left out fit any. Raises what `open` raises, and ValueError for a port that is no number.
        """
        if self._door is not None and self._door.is_closing:
            await self._closed.wait()
        host, port = params.get("host"), params.get("port")
        if self._door is None:
            number = self._settings.http_port if port is None else int(port)
            await self.open(replace(self._settings, http_host=str(host or self._settings.http_host), http_port=number))
            return True
        return (not host or host == self._asked_host) and (not port or port == self._door.address[1])

    def _let_go(self) -> None:
        """Count one caller of `hold` less."""
        self._holders -= 1
        if not self._holders and not self.lasting and self._door is not None and self.visits.idle_s() is None:
            self._door.stop()
