"""Everything that must hold, in order: lint, format, types, import contracts, tests. `python -m tests [pytest arguments]`."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PYTHON = sys.executable
STEPS: tuple[tuple[str, list[str]], ...] = (
    ("lint", [PYTHON, "-m", "ruff", "check", "."]),
    ("format", [PYTHON, "-m", "ruff", "format", "--check", "-q", "."]),
    ("types", [PYTHON, "-m", "mypy"]),
    ("tests", [PYTHON, "-m", "pytest", "-q", *sys.argv[1:]]),
)


def main() -> int:
    """Run every step, also after one failed; the first failing step's status."""
    failed = 0
    for name, command in STEPS:
        print(f"== {name}", flush=True)  # noqa: T201
        status = subprocess.run(command, cwd=ROOT, check=False).returncode
        failed = failed or status
    return failed


if __name__ == "__main__":
    sys.exit(main())
