"""Loading the protocol's library."""

import subprocess
import sys

import pytest

from tests.waiting import PATIENCE

#: Makes a server as the daemon does, and says which libraries that loaded.
SCRIPT = """
import sys
from memory_mcp.server.sdk import load_sdk
load_sdk()
from memory_mcp.server.guard import MemoryServer
MemoryServer("memory", {})
print([name for name in ("rich", "mcp.server.mcpserver") if name in sys.modules])
"""


@pytest.mark.usefixtures("processes")
def test_a_server_is_made_without_the_console_of_a_log() -> None:
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, timeout=PATIENCE, check=True)
    assert "rich" not in done.stdout
    assert "mcp.server.mcpserver" in done.stdout
