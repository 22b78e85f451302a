"""Asks a team's server over HTTP, in JSON; being offline is normal, so tries are few and short."""

import time
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import quote, urlsplit

from memory_mcp.base.errors import (
    InvalidQuery,
    MemoryMcpError,
    NotFound,
    PermissionDenied,
    ResourceExhausted,
    ServerUnreachable,
    Unauthenticated,
)

if TYPE_CHECKING:
    import httpx2

#: Tries of one call, and the wait before the second (seconds); each further one is twice as long.
_TRIES, _WAIT = 3, 0.5
#: Longest wait that a server may ask for (seconds).
_LONGEST_WAIT = 10.0
_SLICE = 0.1
#: Reading is patient: a server that forgets rewrites its store.
_TIMEOUT = {"connect": 10.0, "read": 300.0, "write": 60.0, "pool": 10.0}
_AGAIN = frozenset({429, 500, 502, 503, 504})
_ERRORS: Mapping[int, type[MemoryMcpError]] = {
    400: InvalidQuery,
    401: Unauthenticated,
    403: PermissionDenied,
    404: NotFound,
    413: ResourceExhausted,
}
#: Longest answer that is read (bytes).
_MOST = 64 * 1024 * 1024
LOOPBACK = frozenset({"127.0.0.1", "::1", "localhost"})


def parse_address(url: str, insecure: bool) -> str:
    """Return a server's address as SCHEME://HOST[:PORT][/PATH], with https where it names no scheme.

    A final "/mcp" and slashes at the end are dropped. Raises InvalidQuery when it is no address, names a user, or would
    send the key in clear over a network (plain http to another host than loopback, unless `insecure`).
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
        # It takes 40 ms to load, and most memories are shared with nobody.
        """Prepare requests to a server's address with a key ("": without one); nothing is sent.

        `stopped` is asked between tries. Settings of a proxy in the environment count, except for loopback.
        """
        import httpx2

        self._stopped = stopped
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

    def spaces(self) -> dict[str, Any]:
        """Ask who the key's member is and which spaces that member may see; return {member, spaces: [{name, kind, role}]}."""
        return self._ask("GET", "/share")

    def standing(self, space: str) -> dict[str, Any]:
        """Return {space, member, role, may (acts in words), events (number of the last)}: what the member may do in a space."""
        return self._ask("GET", f"/share/{quote(space, safe='')}")

    def changes(self, space: str, after: str) -> dict[str, Any]:
        """Return a page of what is new behind a cursor ("" for the beginning): events, gone (ids), more, cursor (the next one).

        `corrections` is there only on a last page where one is new, then all of them. They are JSON values of `sharing.wire`.
        """
        return self._ask("GET", f"/share/{quote(space, safe='')}/changes", params={"after": after})

    def publish(self, space: str, batch: Mapping[str, Any]) -> dict[str, Any]:
        """Send a batch and return the answer.

        The batch is committed there when this returns. `batch` holds any of events, gone (ids), corrections and
        cursor. The answer holds stored, known, forgotten, corrected (counts), left_out (counts by reason), renamed
        (id sent: id there) and refused. The batch may have been committed too when ServerUnreachable is raised: it
        can be sent again.
        """
        return self._ask("POST", f"/share/{quote(space, safe='')}/events", json=batch)

    def _ask(self, method: str, path: str, **payload: Any) -> dict[str, Any]:
        """Send a request (`payload`: params or json) and return the answer's JSON object; up to three tries.

        Tried again where nothing answers, or with 429, 500, 502, 503 or 504, after 0.5 s, then 1 s, or as the server asks,
        10 s at most. Raises ServerUnreachable after the last try or once `stopped`, and what `_answer` raises.
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
                if response.status_code not in _AGAIN:
                    return self._answer(response)
                why = f"{self._url} does not answer now (HTTP {response.status_code})"
                after = response.headers.get("retry-after", "")
            if not tries_left or self._stopped():
                break
            until = time.monotonic() + (min(float(after), _LONGEST_WAIT) if after and after.isdecimal() else wait)
            while time.monotonic() < until and not self._stopped():
                time.sleep(_SLICE)
            wait *= 2
        raise ServerUnreachable(why, "Nothing is lost: what is to leave leaves when it is reached again.")

    def _receive_response(self, method: str, path: str, values: dict[str, Any]) -> "httpx2.Response":
        import httpx2

        with self._http.stream(method, path, **values) as stream:
            body = bytearray()
            for piece in stream.iter_raw():
                body += piece
                if len(body) > _MOST or stream.headers.get("content-encoding", "identity") != "identity":
                    # Longer than any of ours, or packed although it was asked for unpacked: it says nothing.
                    body.clear()
                    break
            headers = [(name, value) for name, value in stream.headers.multi_items() if name != "content-encoding"]
            return httpx2.Response(stream.status_code, headers=headers, content=bytes(body))

    def _answer(self, response: "httpx2.Response") -> dict[str, Any]:
        """Return the JSON object of an answer with status 200.

        Raise the error that any other one names.

        Statuses 400, 401, 403, 404 and 413 are InvalidQuery, Unauthenticated, PermissionDenied, NotFound and
        ResourceExhausted; a 401 that names none is Unauthenticated. InvalidQuery for anything else, such as a
        redirect, no JSON or more than 64 MB.
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
