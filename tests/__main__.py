"""What must hold: lint, format, tests on several workers, types. `python -m tests [stage ...] [pytest arguments]`.

With stages (see stages.py) only their tests run.
"""

import ctypes
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import IO

from tests.stages import STAGES

ROOT = Path(__file__).resolve().parent.parent
PYTHON = sys.executable
CHOSEN = [word for word in sys.argv[1:] if word in STAGES]
#: One more than there are processors, as tests wait for processes: each worker reads all tests and fills stores of its own.
_COUNT = str(min((os.cpu_count() or 1) + 1, 6))
#: What a file's tests share (a daemon, a port, a store that takes seconds to fill) stays with one worker; files go to
#: whoever is free, in the order in which they are collected.
WORKERS = ("-n", _COUNT, "--dist", "loadfile", "--no-loadscope-reorder")
ARGUMENTS = [*(f"--stage={stage}" for stage in CHOSEN), *(word for word in sys.argv[1:] if word not in STAGES)]
TESTS = ("tests", [PYTHON, "-m", "pytest", "-q", *WORKERS, *ARGUMENTS])
CHECKS: tuple[tuple[str, list[str]], ...] = (
    ("lint", [PYTHON, "-m", "ruff", "check", "."]),
    ("format", [PYTHON, "-m", "ruff", "format", "--check", "-q", "."]),
)
#: Runs at the same time as the tests, which wait for processes a third of the time; its output is printed after theirs.
TYPES = [PYTHON, "-m", "mypy"]
#: Linux: a process whose parent has ended becomes a child of this one, so that what it used is counted.
_SET_CHILD_SUBREAPER = 36


class Runner:
    """Runs commands, collects what they leave behind, and counts seconds of a processor."""

    def __init__(self) -> None:
        self._statuses: dict[int, int] = {}
        #: By step; what outlived who had started it is counted apart.
        self.seconds: dict[str, float] = {}
        # Tests start the program some hundred times: where its bytecode may not be kept, each start compiles it again.
        self._environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
        self._collects = sys.platform == "linux" and ctypes.CDLL(None).prctl(_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0
        self._names: dict[int, str] = {}

    def start(self, name: str, command: list[str], output: IO[bytes] | int | None = None) -> "subprocess.Popen[bytes]":
        process = subprocess.Popen(command, cwd=ROOT, env=self._environment, stdout=output, stderr=output)
        self._names[process.pid] = name
        return process

    def wait(self, process: "subprocess.Popen[bytes]") -> int:
        """Return how a process ended, as its exit status or the negative number of a signal."""
        if not self._collects:
            return process.wait()
        while process.pid not in self._statuses:
            pid, status, used = os.wait4(-1, 0)
            name = self._names.get(pid, "background processes")
            self.seconds[name] = self.seconds.get(name, 0) + used.ru_utime + used.ru_stime
            self._statuses[pid] = os.waitstatus_to_exitcode(status)
        process.returncode = self._statuses[process.pid]
        return process.returncode

    def run(self, name: str, command: list[str]) -> int:
        print(f"== {name}", flush=True)  # noqa: T201
        return self.wait(self.start(name, command))


def main() -> int:
    """Run every step, also after one failed; the first failing step's status."""
    began, runner, steps = time.monotonic(), Runner(), (TESTS,) if CHOSEN else (*CHECKS, TESTS)
    with tempfile.TemporaryFile() as output:
        types = None if CHOSEN else runner.start("types", TYPES, output)
        if next((ROOT / "tests").rglob("*-pytest-*.pyc"), None) is None:
            # In a clean clone each worker would write the tests' modules anew, as pytest rewrites them: ten seconds.
            runner.wait(runner.start("compiling", [PYTHON, "-m", "pytest", "--collect-only"], subprocess.DEVNULL))
        statuses = [runner.run(*step) for step in steps]
        if types:
            statuses.append(runner.wait(types))
            output.seek(0)
            print(f"== types\n{output.read().decode()}", flush=True)  # noqa: T201
    shares = ", ".join(f"{name} {seconds:.0f}" for name, seconds in runner.seconds.items())
    print(f"== {time.monotonic() - began:.0f} seconds; of a processor {sum(runner.seconds.values()):.0f}: {shares}")  # noqa: T201
    return next((status for status in statuses if status), 0)


if __name__ == "__main__":
    sys.exit(main())
