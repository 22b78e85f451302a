"""Ask the summarizer's command: a JSON object on its standard input, a JSON object on its standard output.

Invariants
1. The command and all processes it starts end with the question.
2. The text of an error holds no word of the question or the answer.

Change here: what a summarizer's command reads and writes.
"""

import json
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
from memory_mcp.tree.llm.answer import Reply, Unavailable, Unusable, parse_answer
from memory_mcp.tree.llm.material import Prompt

#: Version of the question's form.
_VERSION = 1
#: Longest answer that is read, bytes.
_MAX_BYTES = 1024 * 1024
#: How often it is checked whether the answer is still wanted (seconds).
_POLL = 0.1
#: First wait before another try, doubled each time, and the longest (seconds).
_FIRST_WAIT, _LONGEST_WAIT = 1.0, 60.0


class Command:
    """Answers prompts by a command line, run once for each question."""

    def __init__(self, line: str, timeout: float, directory: Path | None) -> None:
        """Run `line`, at most `timeout` seconds, in `directory`."""
        self._words = shlex.split(line)
        self._timeout = timeout
        #: A folder of our own, so that a client which reads its instructions from where it runs finds none.
        self._directory = directory

    def ask(self, prompt: Prompt, stopped: threading.Event, retries: int) -> Reply:
        """Ask until there is an answer, each time later.

        Tokens of failed tries count as in. Raises Unavailable once no further try may help or `stopped` is set; its
        `tokens_in` is the cost.
        """
        lost = 0
        for attempt in range(retries + 1):
            try:
                reply = self._ask_once(prompt, stopped)
                return Reply(reply.text, reply.tokens_in + lost, reply.tokens_out, reply.estimated or lost > 0)
            except Unavailable as error:
                lost += error.tokens_in
                wait = _FIRST_WAIT * 2.0**attempt
                if not error.is_transient or attempt == retries or wait > _LONGEST_WAIT or stopped.wait(wait):
                    error.tokens_in = lost
                    raise
        raise AssertionError("a negative number of retries")

    def _ask_once(self, prompt: Prompt, stopped: threading.Event) -> Reply:
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
                raise Unavailable(f"the command cannot be started: {error.strerror or error}", is_transient=False) from None
            try:
                status = self._wait_for(process, _encode_question(prompt), out, stopped)
            finally:
                with suppress(ProcessLookupError, PermissionError):
                    if hasattr(os, "killpg"):
                        os.killpg(process.pid, signal.SIGKILL)
                    else:
                        process.kill()
                process.wait()
            if status is None:
                reason = "stopped" if stopped.is_set() else "no answer in time"
                raise Unavailable(reason, is_transient=True, tokens_in=prompt.tokens)
            if status != 0:
                raise Unavailable(f"the command ended with status {status}", is_transient=True, tokens_in=prompt.tokens)
            out.seek(0)
            text = out.read(_MAX_BYTES).decode("utf-8", "replace")
        return _make_reply(text, prompt)

    def _wait_for(
        self, process: "subprocess.Popen[bytes]", question: bytes, out: IO[bytes], stopped: threading.Event
    ) -> int | None:
        """Return the exit status; None while the command still runs."""
        until = time.monotonic() + self._timeout
        while not stopped.is_set() and time.monotonic() < until and os.fstat(out.fileno()).st_size <= _MAX_BYTES:
            try:
                process.communicate(question, timeout=_POLL)
                return process.returncode
            except subprocess.TimeoutExpired:
                # What is to be written was handed over with the first call.
                question = b""
        return None


def _encode_question(prompt: Prompt) -> bytes:
    question = {"version": _VERSION, "kind": prompt.kind.value, "prompt": prompt.whole, "task": prompt.task, "data": prompt.data}
    return json.dumps(question).encode("ascii") + b"\n"


def _make_reply(text: str, prompt: Prompt) -> Reply:
    """The command may state its model's tokens."""
    with suppress(Unusable):
        answer = parse_answer(text)
        read, written = answer.get("tokens_in"), answer.get("tokens_out")
        # bool is an int, too.
        if type(read) is int and type(written) is int and read > 0 and written >= 0:
            return Reply(text, read, written, estimated=False)
    return Reply(text, prompt.tokens, estimate_tokens(text), estimated=True)
