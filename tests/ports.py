"""Ports of this machine that a test names before something listens there."""

import secrets
import socket
from contextlib import suppress

#: Below those that systems give to whoever asks for any: one of these may be taken by a client of another test meanwhile.
_PORTS = range(20_000, 32_000)


def free_port() -> int:
    """A port of this machine that nobody listens at."""
    while True:
        port = secrets.choice(_PORTS)
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
