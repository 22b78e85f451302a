"""What must hold: lint, format, tests on several workers, types beside them. `python -m tests [pytest arguments]`."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PYTHON = sys.executable
#: Two more than there are processors, as tests wait for processes; more than six were never tried.
_COUNT = str(min((os.cpu_count() or 1) + 2, 6))
#: What a file's tests share (a daemon, a port, a store that takes seconds to fill) stays with one worker; files go to
#: whoever is free, in the order in which they are collected.
WORKERS = ("-n", _COUNT, "--dist", "loadfile", "--no-loadscope-reorder")
STEPS: tuple[tuple[str, list[str]], ...] = (
    ("lint", [PYTHON, "-m", "ruff", "check", "."]),
    ("format", [PYTHON, "-m", "ruff", "format", "--check", "-q", "."]),
    ("tests", [PYTHON, "-m", "pytest", "-q", *WORKERS, *sys.argv[1:]]),
)
#: Runs beside the tests, which wait for processes a third of the time; told after them.
TYPES = [PYTHON, "-m", "mypy"]


def main() -> int:
    """Run every step, also after one failed; the first failing step's status."""
    failed = 0
    # Tests start the program some hundred times: where its bytecode may not be kept, each start compiles it anew.
    kept = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    with subprocess.Popen(TYPES, cwd=ROOT, env=kept, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as types:
        if next((ROOT / "tests").rglob("*-pytest-*.pyc"), None) is None:
            # In a clean clone each worker would write the tests' modules anew, as pytest rewrites them: ten seconds.
            subprocess.run([PYTHON, "-m", "pytest", "--collect-only"], cwd=ROOT, env=kept, stdout=subprocess.DEVNULL, check=False)
        for name, command in STEPS:
            print(f"== {name}", flush=True)  # noqa: T201
            status = subprocess.run(command, cwd=ROOT, env=kept, check=False).returncode
            failed = failed or status
        told, _ = types.communicate()
        print(f"== types\n{told}", flush=True)  # noqa: T201
    return failed or types.returncode


if __name__ == "__main__":
    sys.exit(main())
