"""The installed command in processes of its own, with a fresh home and a clean environment."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.waiting import PATIENCE, UNHURRIED

SAMPLES = Path(__file__).parent / "samples"

Done = subprocess.CompletedProcess[str]
Command = Callable[..., Done]


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A home directory that holds nothing."""
    place = tmp_path / "home"
    place.mkdir()
    return place


@pytest.fixture
def environment(home: Path, tmp_path: Path) -> dict[str, str]:
    """What a new user's shell would pass on, and nothing else."""
    scratch = tmp_path / "tmp"
    scratch.mkdir()
    kept = {name: os.environ[name] for name in ("PATH", "LANG", "SYSTEMROOT") if name in os.environ}
    own = {"HOME": str(home), "TMPDIR": str(scratch), "TZ": "Europe/Berlin", "MEMORY_MCP_SERVER__IDLE_EXIT_SECS": "1"}
    return {**kept, **own, **UNHURRIED}


@pytest.fixture
def command(environment: dict[str, str], tmp_path: Path) -> Command:
    """Run `memory-mcp` without a terminal."""

    def run(*argv: str, env: dict[str, str] | None = None) -> Done:
        return subprocess.run(
            [sys.executable, "-m", "memory_mcp", *argv],
            env=environment | (env or {}),
            cwd=tmp_path,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )

    return run
