"""Asks a team's server over HTTP, in JSON; being offline is normal, so tries are few and short."""

import time
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import quote, urlsplit

from memory_mcp.base.errors import InvalidQuery, MemoryMcpError, NotFound, ResourceExhausted
from memory_mcp_team.errors import PermissionDenied, ServerUnreachable, Unauthenticated

if TYPE_CHECKING:
    import httpx2

#: Tries of one call, and the wait before the second (seconds); each further one is twice as long.
_TRIES, _WAIT = 3, 0.5
#: Longest wait that a server may ask for (seconds).
_LONGEST_WAIT = 10.0
_SLICE = 0.1
#: Reading is patient: a server that forgets rewrites its store.
_TIMEOUT = {"connect": 10.0, "read": 300.0, "write": 60.0, "pool": 10.0}
_RETRIED_STATUSES = frozenset({429, 500, 502, 503, 504})
_ERRORS: Mapping[int, type[MemoryMcpError]] = {
    400: InvalidQuery,
    401: Unauthenticated,
    403: PermissionDenied,
    404: NotFound,
    413: ResourceExhausted,
}
#: Longest answer that is read (bytes).
_MAX_BYTES = 64 * 1024 * 1024
LOOPBACK = frozenset({"127.0.0.1", "::1", "localhost"})


def parse_address(url: str, insecure: bool) -> str:
    """Return a server's address as SCHEME://HOST[:PORT][/PATH].

    A final "/mcp" is dropped; https is the default. Raises InvalidQuery if it is no address, names a user, or would send the
    key in clear over a network (unless `insecure`).
    """
    parts = urlsplit(url if "://" in url else f"https://{url}")
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
        raise InvalidQuery(f"invalid URL: {url!r}", "Name the team's server, such as https://memory.example.org")
    if parts.username or parts.password:
        raise InvalidQuery("the URL names a user", "Give the key with --key, or in MEMORY_MCP_SHARE_KEY.")
    if parts.scheme == "http" and parts.hostname not in LOOPBACK and not insecure:
        hint = "Use https://, or --insecure where the network itself is trusted."
        raise InvalidQuery(f"{url} would send the key and events unencrypted", hint)
    # The protocol's own address is what people have at hand.
    path = parts.path.rstrip("/").removesuffix("/mcp")
    return f"{parts.scheme}://{parts.netloc}{path}"


class ShareClient:
    """A connection to one server, for one run.

    Methods raise ServerUnreachable, or the error that the server names.
    """

    def __init__(self, url: str, key: str, stopped: Callable[[], bool] = lambda: False) -> None:
        # It takes 40 ms to load, and most memories are shared with no one.
        """Prepare requests to a server; nothing is sent.

        A proxy of the environment is used, except for loopback.
        """
        import httpx2

        self._should_stop = stopped
        host = urlsplit(url).hostname or ""
        headers = {"Accept-Encoding": "identity"} | ({"Authorization": f"Bearer {key}"} if key else {})
        self._http = httpx2.Client(
            base_url=url,
            headers=headers,
            timeout=httpx2.Timeout(**_TIMEOUT),
            follow_redirects=False,
            trust_env=host not in LOOPBACK,
        )
        self._url = url

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._http.close()

    def list_spaces(self) -> dict[str, Any]:
        """Return {member, spaces: [{name, kind, role}]} of the key."""
        return self._send_request("GET", "/share")

    def get_permissions(self, space: str) -> dict[str, Any]:
        """Return what the member may do in a space.

        As {space, member, role, may (acts in words), events (number of the last)}.
        """
        return self._send_request("GET", f"/share/{quote(space, safe='')}")

    def read_changes(self, space: str, after: str) -> dict[str, Any]:
        """Return a page of what is new after a cursor.

        As {events, gone (ids), more, cursor}; `corrections`, all of them, only on a last page if one is new.
        """
        return self._send_request("GET", f"/share/{quote(space, safe='')}/changes", params={"after": after})

    def publish_batch(self, space: str, batch: Mapping[str, Any]) -> dict[str, Any]:
        """Send a batch, which is committed there when this returns.

        `batch` holds any of events, gone (ids), corrections and cursor; the answer has the fields of `ReceiveOutcome`.
        The batch may be committed too if ServerUnreachable is raised: it can be sent again.
        """
        return self._send_request("POST", f"/share/{quote(space, safe='')}/events", json=batch)

    def _send_request(self, method: str, path: str, **payload: Any) -> dict[str, Any]:
        """Send a request, up to three times; return the JSON.

        Waits 0.5 s, then 1 s, or as the server asks, 10 s at most. Raises ServerUnreachable, and what `_parse_response` raises.
        """
        from httpx2 import HTTPError

        wait = _WAIT
        for tries_left in reversed(range(_TRIES)):
            try:
                response = self._receive_response(method, path, payload)
            except HTTPError as error:
                why = f"{self._url} does not answer ({type(error).__name__})"
                after = None
            else:
                if response.status_code not in _RETRIED_STATUSES:
                    return self._parse_response(response)
                why = f"{self._url} does not answer now (HTTP {response.status_code})"
                after = response.headers.get("retry-after", "")
            if not tries_left or self._should_stop():
                break
            until = time.monotonic() + (min(float(after), _LONGEST_WAIT) if after and after.isdecimal() else wait)
            while time.monotonic() < until and not self._should_stop():
                time.sleep(_SLICE)
            wait *= 2
        raise ServerUnreachable(why, "Nothing is lost: what is to leave leaves when it is reached again.")

    def _receive_response(self, method: str, path: str, values: dict[str, Any]) -> "httpx2.Response":
        import httpx2

        with self._http.stream(method, path, **values) as stream:
            body = bytearray()
            for piece in stream.iter_raw():
                body += piece
                if len(body) > _MAX_BYTES or stream.headers.get("content-encoding", "identity") != "identity":
                    # Longer than any of ours, or packed although it was asked for unpacked: it says nothing.
                    body.clear()
                    break
            headers = [(name, value) for name, value in stream.headers.multi_items() if name != "content-encoding"]
            return httpx2.Response(stream.status_code, headers=headers, content=bytes(body))

    def _parse_response(self, response: "httpx2.Response") -> dict[str, Any]:
        """Return the JSON object of status 200.

        InvalidQuery for anything else, such as a redirect, no JSON or more than 64 MB.
        """
        try:
            body = response.json()
        except ValueError:
            body = None
        if response.status_code == 200 and isinstance(body, dict):
            return body
        error = body.get("error") if isinstance(body, dict) else None
        if isinstance(error, dict) and (kind := _ERRORS.get(response.status_code)):
            raise kind(str(error.get("message", "")), str(error.get("hint", "")))
        if response.status_code == 401:
            raise Unauthenticated("the server does not accept the key", "Ask an administrator of the team for a key.")
        text = f"{self._url} is no server of a team (HTTP {response.status_code})"
        raise InvalidQuery(text, "Look at the address; redirects are not followed.")
