"""Wheel and sdist, built once for all tests of this folder, and the tools that the long forms look for."""

import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.templates import share_template
from tests.waiting import PATIENCE

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
#: An installation from the package index may take so long (seconds).
DOWNLOAD_PATIENCE = 500.0


class Built(NamedTuple):
    wheel: Path
    sdist: Path


def build(source: Path, out: Path, *targets: str) -> None:
    """Build with the backend that pyproject.toml names, in this environment: nothing is downloaded."""
    flags = [word for target in targets for word in ("-t", target)]
    command = [sys.executable, "-m", "hatchling", "build", *flags, "-d", str(out)]
    done = subprocess.run(command, cwd=source, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    out = tmp_path_factory.mktemp("dist")
    build(ROOT, out, "wheel", "sdist")
    share_template(out)
    return Built(next(out.glob("*.whl")), next(out.glob("*.tar.gz")))


def tool(name: str, brought_by: str) -> str:
    """Where a program is: beside this Python or on PATH; a test that needs it is left out when it is nowhere."""
    found = shutil.which(name, path=str(Path(sys.executable).parent)) or shutil.which(name)
    if found is None:
        pytest.skip(f"{name} is not here; {brought_by} brings it")
    return found
