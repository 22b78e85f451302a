"""Check of versions: Python, this program, DuckDB and mcp."""

import sys
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version

from memory_mcp import __version__
from memory_mcp.cli.checks.base import OK, Check, Look


def checks(look: Look) -> Iterator[Check]:
    """Yield one line, always OK, with the versions of Python, this program, DuckDB and mcp, or that one is not installed."""
    del look
    versions = [f"python {sys.version.split()[0]}", f"memory-mcp {__version__}"]
    for name in ("duckdb", "mcp"):
        try:
            versions.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            versions.append(f"{name} (not installed)")
    yield Check(OK, "versions", ", ".join(versions))
