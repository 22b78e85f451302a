"""The address at which a daemon listens: a Unix socket, else loopback TCP behind a secret that only this user can read.

Over TCP both sides prove that they know the secret before anything else is said, and the secret itself is never sent: who
listens on a port that a daemon left learns nothing, and who connects without it hears nothing. Standard library only.

Invariants
1. The secret lies in a file of mode 0600 in the data directory, written before the first connection and gone with the daemon.
2. What a caller says is said to a process of its own user, or not at all.
"""

from __future__ import annotations

import json
import os
import socket

from memory_mcp.base import machine, paths

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    Hear = Callable[[], Awaitable[Mapping[str, object]]]
    Say = Callable[[bytes], Awaitable[None]]

_BACKLOG = 128
_HOST = "127.0.0.1"
#: How long the other side may take for its proof (seconds).
_PATIENCE = 5.0
#: Bytes of a secret, and longest line of the proof.
_SECRET, _LONGEST = 32, 4096


def listen(directory: str, unix: bool = True) -> tuple[socket.socket, str]:
    """Return a listening socket and the secret that callers must prove.

    The secret is "" for a Unix socket; an earlier address is replaced. The caller holds the directory's lock. Without `unix`,
    and where Unix sockets do not work, it is loopback TCP: then port and secret (64 hexadecimal digits) are written into the
    door file. Raises FileExistsError where something that is no socket is in the way, another OSError where there is no way to
    listen.
    """
    remove_address(directory)
    if unix and hasattr(socket, "AF_UNIX"):
        try:
            return _listen_unix(paths.socket_path(directory)), ""
        except FileExistsError:
            raise
        except OSError:
            # Some file systems (network, shared with a virtual machine) keep no sockets.
            remove_address(directory)
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listener.bind((_HOST, 0))
    secret = os.urandom(_SECRET).hex()
    _start_listening(listener)
    door_file, content = paths.door_file(directory), json.dumps({"port": listener.getsockname()[1], "secret": secret})
    machine.put(door_file, content.encode("ascii"), f"{door_file}.{os.getpid()}")
    return listener, secret


def _listen_unix(path: str) -> socket.socket:
    """Return a Unix socket that listens for this user alone.

    Raises FileExistsError where the path is taken, another OSError where the file system keeps no sockets.
    """
    if os.path.lexists(path):
        raise FileExistsError(f"{path} is in the way: it is not a socket")
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    old_umask = os.umask(0o177)
    try:
        listener.bind(path)
    except BaseException:
        listener.close()
        raise
    finally:
        os.umask(old_umask)
    return _start_listening(listener)


def _start_listening(listener: socket.socket) -> socket.socket:
    """Have a bound socket listen, without blocking, and return it."""
    listener.listen(_BACKLOG)
    listener.setblocking(False)
    return listener


def remove_address(directory: str) -> None:
    """Remove the files by which callers find the daemon.

    A file in the socket's place that is no socket stays. Missing files are no error; raises OSError where one cannot be removed.
    """
    import stat

    try:
        os.unlink(paths.door_file(directory))
    except FileNotFoundError:
        pass
    socket_path = paths.socket_path(directory)
    try:
        if stat.S_ISSOCK(os.lstat(socket_path).st_mode):
            os.unlink(socket_path)
    except FileNotFoundError:
        pass


def address_stamp(directory: str) -> tuple[int, int, int] | None:
    """Return (device, inode, change time in ns) of the address file."""
    for path in (paths.door_file(directory), paths.socket_path(directory)):
        try:
            state = os.lstat(path)
        except OSError:
            continue
        return state.st_dev, state.st_ino, state.st_ctime_ns
    return None


def connect(directory: str) -> socket.socket:
    """Return a blocking connection to the running daemon.

    Over TCP it has proved that it is this user's. Over a Unix socket the system says whose it is. Raises OSError when none runs,
    when it is not of this user, or sends nothing for `_PATIENCE` seconds while its proof is awaited.
    """
    port_and_secret = _read_door_file(paths.door_file(directory))
    if port_and_secret is None:
        if not hasattr(socket, "AF_UNIX"):
            raise FileNotFoundError("no daemon listens")
        sock = _connect_socket(socket.AF_UNIX, paths.socket_path(directory))
        if machine.is_foreign_peer(sock):
            sock.close()
            raise ConnectionRefusedError("what listens there is not this user's daemon")
        return sock
    port, secret = port_and_secret
    sock = _connect_socket(socket.AF_INET, (_HOST, port))
    try:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.settimeout(_PATIENCE)
        prove_secret(sock, secret)
        sock.settimeout(None)
    except BaseException:
        sock.close()
        raise
    return sock


def _connect_socket(family: int, address: str | tuple[str, int]) -> socket.socket:
    """Return a connected blocking socket; raise OSError on failure."""
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        sock.connect(address)
    except BaseException:
        sock.close()
        raise
    return sock


def _read_door_file(path: str) -> tuple[int, str] | None:
    """Return a daemon's port and secret, None for none.

    Raises PermissionError for another user's file, OSError for one that cannot be opened.
    """
    try:
        handle = os.open(path, os.O_RDONLY | machine.PRIVATE)
    except FileNotFoundError:
        return None
    with os.fdopen(handle, encoding="ascii", errors="replace") as stream:
        if not machine.owns(os.fstat(handle)):
            raise PermissionError(f"{path} belongs to somebody else")
        try:
            fields = json.loads(stream.read(_LONGEST))
            return int(fields["port"]), str(fields["secret"])
        except (ValueError, KeyError, TypeError):
            return None


# ---- the proof: a challenge each way, answered by a keyed hash of both


def prove_secret(sock: socket.socket, secret: str) -> None:
    """Prove the secret as the caller, once the daemon has.

    Raises ConnectionRefusedError when that is wrong or no line comes, another OSError (as TimeoutError) for a lost connection.
    """
    ours = os.urandom(_SECRET).hex()
    sock.sendall(_encode_line({"nonce": ours}))
    heard = _receive_line(sock)
    theirs = str(heard.get("nonce", ""))
    if not is_same_proof(str(heard.get("proof", "")), make_proof(secret, "daemon", ours, theirs)):
        raise ConnectionRefusedError("what listens there is not this user's daemon")
    sock.sendall(_encode_line({"proof": make_proof(secret, "caller", ours, theirs)}))


def make_proof(secret: str, who: str, callers: str, daemons: str) -> str:
    """Return the proof that `who` knows the secret.

    An HMAC-SHA-256 of both nonces in hexadecimal; `who` is "daemon" or "caller". `callers` and `daemons` are the nonces that
    caller and daemon sent on this connection.
    """
    import hmac

    return hmac.digest(secret.encode(), f"{who}:{callers}:{daemons}".encode(), "sha256").hex()


def is_same_proof(proof: str, other: str) -> bool:
    """Whether two proofs are the same text, compared in constant time."""
    import hmac

    return hmac.compare_digest(proof.encode(), other.encode())


async def demand_proof(hear: Hear, say: Say, secret: str) -> bool:
    """Prove the secret as the daemon.

    Returns whether the caller proves it too. `hear` returns the next line's object, {} for none; `say` sends a line. What these
    raise passes.
    """
    theirs = str((await hear()).get("nonce", ""))
    ours = os.urandom(_SECRET).hex()
    await say(_encode_line({"nonce": ours, "proof": make_proof(secret, "daemon", theirs, ours)}))
    proof = str((await hear()).get("proof", ""))
    return is_same_proof(proof, make_proof(secret, "caller", theirs, ours))


def _encode_line(message: dict[str, str]) -> bytes:
    return json.dumps(message).encode() + b"\n"


def _receive_line(sock: socket.socket) -> dict[str, object]:
    """Return the object of one line, {} where it is none.

    Read byte by byte, since what follows belongs to the next reader. Raises ConnectionRefusedError when the other side ends, or
    sends no line of at most about `_LONGEST` bytes.
    """
    got = bytearray()
    while not got.endswith(b"\n"):
        more = sock.recv(1)
        if not more or len(got) > _LONGEST:
            raise ConnectionRefusedError("what listens there is no daemon")
        got += more
    try:
        message = json.loads(got)
    except ValueError:
        message = None
    return message if isinstance(message, dict) else {}
