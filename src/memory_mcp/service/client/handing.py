"""Hands a hook's payload to the daemon that runs, by one request over its local socket.

The modules json, socket and signal together would cost a hook as much as all else it does with a tool call. So over a Unix
socket the request is put together, and its answer read, by hand, and what those modules are made of is used.

Invariants
1. Nothing is told to any process but the daemon of this user, and nothing is started.
2. Whoever gets False may write the payload itself: under the same name it is the same file.
"""

import os
import time

from memory_mcp import __version__
from memory_mcp.base import machine, paths
from memory_mcp.service.client.spoolfile import quote_json

TYPE_CHECKING = False
if TYPE_CHECKING:
    import _socket
    from collections.abc import Mapping
    from types import FrameType

    from memory_mcp.service.client.link import Line

#: The method of the daemon, and what its answer says of a payload that is on the disk.
METHOD, KEPT = "hook/keep", "kept"
#: The method that answers with a hint, and its answer's name of that: in base 64, "" for none.
HINT_METHOD, HINT = "hook/hint", "output"
#: Who asks for a hint with this parameter confirms by this method that it was read, on the same connection.
CONFIRMS, READ_METHOD = "confirms", "hook/read"
#: Longer payloads are not handed over, bytes: the daemon would be longer about one than a hook waits.
LONGEST = 256 * 1024
#: How long a daemon may take (seconds); one that is not busy takes some milliseconds.
PATIENCE = 0.5
#: How long a hint is waited for: it is worth less than a delay that is felt.
HINT_PATIENCE = 0.03
#: How long the daemon may take for it, from when it is asked: the rest is for the way there and back.
HINT_TIME = HINT_PATIENCE / 2
_CHUNK, _LONGEST_ANSWER = 1 << 16, 1 << 20
#: What came in time is read late, too (seconds); 0 would have a socket not wait at all.
_LEAST_WAIT = 0.001


def hand_payload(directory: str, name: str, payload: bytes, fields: "Mapping[str, str]") -> bool:
    """Hand a payload to the running daemon.

    Returns whether that has written it under this name, without secrets, into the spool. `fields`: "project_dir", "cwd", "pids".
    False also for more than `LONGEST` bytes, for no daemon, for any error, and when `PATIENCE` seconds are over; nothing is
    started or raised.
    """
    if len(payload) > LONGEST:
        return False
    if os.path.lexists(paths.door_file(directory)):
        return _over_tcp(directory, name, payload, fields)
    try:
        return os.path.exists(socket_path := paths.socket_path(directory)) and _over_socket(socket_path, name, payload, fields)
    except (OSError, ValueError):
        return False


def stop_after(seconds: float) -> None:
    """Have TimeoutError raised in the main thread after some seconds.

    Whatever it waits for then; 0 cancels that. It replaces the handler of SIGALRM, and an earlier call's time. Does nothing
    where the platform has no timer signal.
    """
    # The signal module without its names for people, which would cost as much as connecting does.
    import _signal  # type: ignore[import-not-found]  # has no stub

    def stop(_: int, __: "FrameType | None") -> None:
        """Raise TimeoutError; the handler of SIGALRM."""
        raise TimeoutError("no answer in time")

    if hasattr(_signal, "setitimer"):
        _signal.signal(_signal.SIGALRM, stop)
        _signal.setitimer(_signal.ITIMER_REAL, seconds)


def _over_socket(socket_path: str, name: str, payload: bytes, fields: "Mapping[str, str]") -> bool:
    """Hand the payload over a Unix socket; return whether the daemon keeps it.

    Raises OSError when the connection fails, TimeoutError when there is no answer after `PATIENCE` seconds.
    """
    params = f'"name":{quote_json(name)},"told":{_quote_fields(fields)}'
    return b'"result":{"' + KEPT.encode() + b'":true}' in _ask_socket(socket_path, METHOD, params, payload, PATIENCE)


def ask_hint(directory: str, client: str, payload: bytes, fields: "Mapping[str, str]") -> bytes:
    """Return what the running daemon has to say of a payload, as the client takes it; b"" for nothing.

    Also where none runs, for an error, and when `HINT_PATIENCE` seconds are over; nothing is started or raised.
    """
    import binascii

    if len(payload) > LONGEST:
        return b""
    try:
        if os.path.lexists(paths.door_file(directory)):
            return binascii.a2b_base64(_hint_over_tcp(directory, client, payload, fields))
        socket_path = paths.socket_path(directory)
        if not os.path.exists(socket_path):
            return b""
        params = f'"client":{quote_json(client)},"told":{_quote_fields(fields)}'
        line = _ask_socket(socket_path, HINT_METHOD, params, payload, HINT_PATIENCE)
        return binascii.a2b_base64(line.partition(b'"' + HINT.encode() + b'":"')[2].partition(b'"')[0])
    except (OSError, ValueError):
        return b""


def _ask_socket(socket_path: str, method: str, params: str, payload: bytes, patience: float) -> bytes:
    """Return the daemon's line of JSON about a payload, asked over a Unix socket.

    b"" where the platform has no such sockets, or the peer is another user's. `params`: members of an object in JSON. Raises
    OSError when the connection fails, TimeoutError when there is no answer after `patience` seconds.
    """
    import _socket
    import binascii

    if not hasattr(_socket, "AF_UNIX"):
        return b""
    # Hello and request in one piece: the daemon's greeting does not change the request.
    hello = f'{{"memory-mcp":"{__version__}","kind":"rpc","pid":{os.getpid()},"cwd":{quote_json(paths.here())}}}\n'
    head = f'{hello}{{"id":1,"method":"{method}","params":{{{params},"payload":"'.encode("ascii")
    sock, end = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM), time.monotonic() + patience
    try:
        stop_after(patience)
        try:
            sock.connect(socket_path)
            if machine.is_foreign_peer(sock):
                return b""
            sock.sendall(head + binascii.b2a_base64(payload, newline=False) + b'"}}\n')
        finally:
            stop_after(0)
        # A signal could come when the answer is taken but not returned: the daemon would believe that it was read.
        return _second_line(sock, end)
    finally:
        sock.close()


def _quote_fields(fields: "Mapping[str, str]") -> str:
    return "{" + ",".join(f"{quote_json(key)}:{quote_json(value)}" for key, value in fields.items()) + "}"


def _second_line(sock: "_socket.socket", end: float) -> bytes:
    """Return the second line that comes until `time.monotonic()` is `end`, the answer to the request.

    The first is the daemon's greeting. b"" when it closes before both are whole, or sends more than `_LONGEST_ANSWER` bytes.
    Raises TimeoutError.
    """
    got = b""
    while got.count(b"\n") < 2:
        sock.settimeout(max(end - time.monotonic(), _LEAST_WAIT))
        more = sock.recv(_CHUNK)
        if not more or len(got) > _LONGEST_ANSWER:
            return b""
        got += more
    return got.split(b"\n")[1]


def _over_tcp(directory: str, name: str, payload: bytes, fields: "Mapping[str, str]") -> bool:
    import binascii

    from memory_mcp.service.client import link

    params = {"name": name, "told": dict(fields), "payload": binascii.b2a_base64(payload, newline=False).decode("ascii")}
    try:
        stop_after(PATIENCE)
        try:
            return link.call_method(directory, METHOD, params, deadline=PATIENCE).get(KEPT) is True
        finally:
            stop_after(0)
    except (OSError, ValueError, link.Refused):
        return False


def _hint_over_tcp(directory: str, client: str, payload: bytes, fields: "Mapping[str, str]") -> str:
    """Return the daemon's hint, in base 64, and confirm that it was read.

    What is sent to a closed TCP socket goes astray unnoticed: without that, a hint that came too late would count as given.
    """
    import binascii

    from memory_mcp.service.client import link

    encoded = binascii.b2a_base64(payload, newline=False).decode("ascii")
    params = {"client": client, "told": dict(fields), CONFIRMS: True, "payload": encoded}
    end = time.monotonic() + HINT_PATIENCE
    try:
        # The daemon's proof alone may take longer than a hook waits.
        stop_after(HINT_PATIENCE)
        line = link.reach_daemon(link.Wanted(directory), "rpc", False, HINT_PATIENCE)
    finally:
        stop_after(0)
    try:
        line.sock.settimeout(max(end - time.monotonic(), _LEAST_WAIT))
        output = str(link.call_on_line(line, HINT_METHOD, params).get(HINT, ""))
        if output:
            _confirm_read(line, end)
        return output
    except link.Refused:
        return ""
    finally:
        line.close()


def _confirm_read(line: "Line", end: float) -> None:
    """Confirm a hint; what goes wrong is no reason to be silent: it may be given once more then."""
    from memory_mcp.service.client import link

    try:
        line.sock.settimeout(max(end - time.monotonic(), _LEAST_WAIT))
        link.call_on_line(line, READ_METHOD, {})
    except (OSError, ValueError, link.Refused):
        return
