"""How long the installed hook takes at a call of a tool, beside busy cores: silent calls, and calls that are told a hint.

A memory is filled with what a session did, and the hook command is run as a client runs it, a new session for each call that is
told. What is measured is the whole process, from its start to its end. Bytecode must be there: an environment with
PYTHONDONTWRITEBYTECODE measures the compiler.

    python -m bench.hook_latency [--calls 100] [--busy 1]
"""

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench.agents import FAILED, seed
from bench.place import Place, wait_for

#: Calls of which nothing is known.
_SILENT = ("ls -la src", "go test ./...", "git status --short")


def call_hook(place: Place, project: Path, session: str, command: str) -> tuple[float, float, str]:
    """Return the wall and processor time of one hook in milliseconds, and what it printed."""
    payload: dict[str, Any] = {"hook_event_name": "PreToolUse", "session_id": session, "cwd": str(project.resolve())}
    payload |= {"tool_name": "Bash", "tool_input": {"command": command}, "tool_use_id": "t"}
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    words = [*place.command, "hook", "claude-code"]
    done = subprocess.run(words, input=json.dumps(payload).encode(), env=place.environment(), capture_output=True, check=True)
    wall, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return wall * 1000, spent * 1000, done.stdout.decode()


def describe(name: str, times: Sequence[tuple[float, float, str]]) -> str:
    """Return a line of percentiles."""
    walls, spent = sorted(wall for wall, *_ in times), sorted(cpu for _, cpu, _ in times)
    at = [walls[len(walls) * share // 100] for share in (50, 95, 99)]
    told = sum(bool(printed) for *_, printed in times)
    return (
        f"{name:8} p50 {at[0]:.0f} p95 {at[1]:.0f} p99 {at[2]:.0f} ms; processor p50 {spent[len(spent) // 2]:.0f} ms; "
        f"{told} of {len(times)} were told something"
    )


def main(given: Sequence[str]) -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--calls", type=int, default=100)
    parser.add_argument("--busy", type=int, default=1, help="processes that keep a core busy")
    args = parser.parse_args(given)
    with tempfile.TemporaryDirectory() as scratch, Place(Path(scratch), profile="default") as place:
        project = place.root / "project"
        seed(place, project)
        for failed, *_ in FAILED:
            wait_for(lambda line=failed: call_hook(place, project, f"warm-{time.monotonic()}", line)[2] != "", 60.0)  # type: ignore[misc]
        busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(args.busy)]
        try:
            silent = [call_hook(place, project, "silent", _SILENT[n % len(_SILENT)]) for n in range(args.calls)]
            told = [call_hook(place, project, f"told-{n}", FAILED[n % len(FAILED)][0]) for n in range(args.calls)]
        finally:
            for process in busy:
                process.kill()
        print(describe("silent", silent))
        print(describe("told", told))
        place.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
