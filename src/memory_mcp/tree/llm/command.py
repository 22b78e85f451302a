"""Asks a command line: the prompt on its standard input, the answer on its standard output."""

import os
import shlex
import signal
import subprocess
import tempfile
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import IO

from memory_mcp.base import machine, paths
from memory_mcp.model.tokens import estimate_tokens
from memory_mcp.tree.llm.prompt import Prompt
from memory_mcp.tree.llm.reply import Refused, Reply, Unavailable

#: Longest answer that is read, bytes.
_MOST = 1024 * 1024
#: How often it is looked whether the answer is still wanted (seconds).
_LOOK = 0.1


class Command:
    """Answers a prompt by a command line, as `reply.Ask`; the command and all processes it starts end with the question."""

    def __init__(self, line: str, timeout: float, directory: Path | None) -> None:
        """Keep the words of `line`, split as a shell does, the seconds it may take, and its folder (None: the current one)."""
        self._words = shlex.split(line)
        self._timeout = timeout
        #: A folder of our own, so that a client which reads its instructions from where it runs finds none.
        self._directory = directory

    def __call__(self, prompt: Prompt, stopped: threading.Event) -> Reply:
        """Run the command once with the prompt on its input; return what it printed, with estimated tokens.

        It runs in a process group of its own with `paths.SUMMARIZING` set, its errors are discarded, and it and what it
        started are killed at the end. Raises Unavailable if it cannot be started, ends with a
        status other than 0, is stopped, is too slow or prints more than 1 MB; Refused if it prints nothing.
        """
        with tempfile.TemporaryFile() as out:
            try:
                process = subprocess.Popen(
                    self._words,
                    stdin=subprocess.PIPE,
                    stdout=out,
                    stderr=subprocess.DEVNULL,
                    cwd=self._directory,
                    env={**os.environ, paths.SUMMARIZING: "1"},
                    **machine.apart(),
                )
            except OSError as error:
                raise Unavailable(f"the command cannot be started: {error.strerror or error}", again=False) from None
            try:
                status = self._wait(process, prompt.whole.encode("utf-8", "replace"), out, stopped)
            finally:
                with suppress(ProcessLookupError, PermissionError):
                    if hasattr(os, "killpg"):
                        os.killpg(process.pid, signal.SIGKILL)
                    else:
                        process.kill()
                process.wait()
            if status is None:
                raise Unavailable("stopped" if stopped.is_set() else "no answer in time", again=True, tokens_in=prompt.tokens)
            if status != 0:
                raise Unavailable(f"the command ended with status {status}", again=True, tokens_in=prompt.tokens)
            out.seek(0)
            text = out.read(_MOST).decode("utf-8", "replace")
        if not text.strip():
            raise Refused("the command answered nothing", prompt.tokens)
        return Reply(text, prompt.tokens, estimate_tokens(text), estimated=True)

    def _wait(self, process: "subprocess.Popen[bytes]", given: bytes, out: IO[bytes], stopped: threading.Event) -> int | None:
        """Write `given` to the command's input, wait for its end, and return its exit status.

        None once `stopped` is set, its time is up or it has printed more than 1 MB: it still runs then.
        """
        until = time.monotonic() + self._timeout
        while not stopped.is_set() and time.monotonic() < until and os.fstat(out.fileno()).st_size <= _MOST:
            try:
                process.communicate(given, timeout=_LOOK)
                return process.returncode
            except subprocess.TimeoutExpired:
                # What is to be written was handed over with the first call.
                given = b""
        return None
