"""Finds out which user of this machine made a loopback connection, as Linux lists it; other systems do not say.

A browser that is started with an address shows it to every user in the list of processes, before it has asked for it.
"""

import os
import socket
import struct
from contextlib import suppress
from pathlib import Path

_Address = tuple[str, int]


def is_another_users(peer: _Address | None, local: _Address | None, tables: Path = Path("/proc/net")) -> bool:
    """Return whether another user than this process's made a connection.

    False where that cannot be known. It comes from `peer` and was taken at `local`, each (host, port); `tables` is the directory
    of the kernel's lists of sockets.
    """
    if peer is None or local is None or not hasattr(os, "geteuid"):
        return False
    # The peer's socket has its own address first; the list names the user who made it.
    sought = [[_spell_address(*peer, mapped), _spell_address(*local, mapped)] for mapped in (False, True)]
    users = set()
    for name in ("tcp", "tcp6"):
        with suppress(OSError):
            sockets = [line.split() for line in (tables / name).read_text(encoding="ascii").splitlines()[1:]]
            users |= {int(fields[7]) for fields in sockets if fields[1:3] in sought}
    return bool(users) and os.geteuid() not in users


def _spell_address(host: str, port: int, mapped: bool) -> str:
    """Return HOST:PORT in hexadecimal as the lists spell it."""
    try:
        packed = socket.inet_pton(socket.AF_INET6, host) if ":" in host else socket.inet_pton(socket.AF_INET, host)
    except OSError:
        return ""
    if mapped and len(packed) == 4:
        packed = b"\0" * 10 + b"\xff\xff" + packed
    words = struct.unpack(f"={len(packed) // 4}I", packed)
    return "".join(f"{word:08X}" for word in words) + f":{port:04X}"
