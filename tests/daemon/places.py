"""What the tests with real processes share: the setting that lets the background process be used, and a look at it."""

from typing import Any

import pytest

from bench.place import VISIBLE, Place
from memory_mcp import link

DAEMON = {"MEMORY_MCP_SERVER__DAEMON": "true"}

needs_proc = pytest.mark.skipif(not VISIBLE, reason="processes are looked at through /proc")


def look(place: Place) -> dict[str, Any]:
    """What the daemon says of itself; OSError when none runs."""
    return link.call(str(place.directory), "daemon/status", {}, 10)
