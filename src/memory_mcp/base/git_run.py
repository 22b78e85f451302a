"""Runs git to read, within a time and a size.

What a repository is configured to run is not run: no hooks, filters, file system monitor, pagers or drivers of differences.
Nothing is fetched, and no index is refreshed.
"""

import os
import subprocess
import tempfile
import threading
import time
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import IO

from memory_mcp.base import machine

#: Bytes of one answer.
ANSWER = 1024 * 1024
#: Pathspecs as they are written; first among the words of a command that has one.
LITERAL = "--literal-pathspecs"
_OPTIONS = (
    *("--no-optional-locks", "--no-pager", "-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null"),
    *("-c", "log.showSignature=false", "-c", "log.follow=false"),
)
_SAFE = {
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_CONFIG_NOSYSTEM": "1",
    # A list of protocols, and none has that name. Unlike an option it overrides what a repository allows.
    "GIT_ALLOW_PROTOCOL": "none",
}


def ask_git(folder: Path | str, words: Sequence[str], deadline: float, stdin: bytes = b"", most: int = ANSWER) -> bytes | None:
    """Return what git answers, None if it fails or is too slow, or says more than `most` bytes.

    Args:
        folder: In a working tree, or a git directory.
        words: The command line behind `git`.
        deadline: When to end, by `time.monotonic`.
        stdin: What git reads.
        most: Bytes of an answer.

    """
    left = deadline - time.monotonic()
    if left <= 0:
        return None
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")} | _SAFE
    try:
        with _open_input(stdin) if stdin else nullcontext() as input_file:
            process = subprocess.Popen(
                ["git", *_OPTIONS, *words],
                cwd=folder,
                env=environment,
                stdin=input_file or subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                **machine.group_options(),
            )
    except (OSError, ValueError):  # no git, no such folder, or words that no command line holds
        return None
    timer = threading.Timer(left, process.kill)
    timer.start()
    try:
        with process:
            assert process.stdout is not None
            answer = process.stdout.read(most + 1)
            process.kill() if len(answer) > most else process.wait()
    finally:
        timer.cancel()
    return answer if process.returncode == 0 and len(answer) <= most else None


def _open_input(data: bytes) -> IO[bytes]:
    """Return a file and no pipe: git may answer before it has read everything."""
    file = tempfile.TemporaryFile()  # noqa: SIM115 - the caller closes it
    file.write(data)
    file.seek(0)
    return file
