"""A little command that answers as a script says: it hands its question over a socket and prints what comes back."""

import json
import re
import socketserver
import sys
import tempfile
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

#: Tokens that the command says its model has read and written.
USED = (1000, 50)
_WORDS = re.compile(r"^Found words: .*\nKeywords: (.*)$", re.M)
_QUOTED = re.compile(r"\[(g\d+(?:,g\d+)*)\] (?:\w+: )?(.*)")
_PROGRAM = """import json, socket, sys
with socket.socket(socket.AF_UNIX) as wire:
    wire.connect(sys.argv[1])
    with wire.makefile("rw") as file:
        file.write(sys.stdin.readline())
        file.flush()
        status, text = json.loads(file.readline() or '[1, ""]')
sys.stdout.write(text)
sys.exit(status)
"""


def truthful(data: str, title: str = "A better title") -> dict[str, Any]:
    """An answer whose bullets repeat the first quotations of the prompt."""
    quoted = [(label, said.split(" (project ")[0]) for label, said in _QUOTED.findall(data)]
    bullets = [{"text": said[:150], "grip_ids": label.split(","), "kind": "constraint"} for label, said in quoted[:3]]
    return {"title": title, "summary": "What came of it.", "bullets": bullets}


def label_of(data: str) -> str:
    """A label for a topic that repeats two of its keywords; "" where no label is asked for."""
    found = _WORDS.search(data)
    return " and ".join(found[1].split(", ")[1:3])[:50] if found else ""


def labelled(label: str) -> str:
    """The answer that gives a topic a label."""
    return json.dumps({"label": label})


@dataclass(frozen=True)
class Asked:
    """A question as it came."""

    body: Mapping[str, Any]

    @property
    def data(self) -> str:
        """What the model was given to work on."""
        return str(self.body["data"])


@dataclass(frozen=True)
class Status:
    """An end without an answer."""

    code: int


Step = Status | str | Callable[[Asked], str] | threading.Event


@dataclass
class Script:
    """What the command does: one step for each question, then truthful answers."""

    #: A status, a text to print, a function of the question that gives one, or an event to wait for.
    steps: deque[Step] = field(default_factory=deque)
    asked: list[Asked] = field(default_factory=list)
    #: Whether it says what tokens its model took.
    usage: bool = True
    #: The command line.
    command: str = ""


@contextmanager
def scripted(*steps: Step) -> Iterator[Script]:
    """The command while it is needed."""
    script = Script(deque(steps))

    class Handler(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            line = self.rfile.readline()
            if not line:
                return
            asked = Asked(json.loads(line))
            script.asked.append(asked)
            step = script.steps.popleft() if script.steps else _truth
            if isinstance(step, threading.Event):
                step.wait()
                step = "too late"
            if callable(step):
                step = step(asked)
            answer = (step.code, "") if isinstance(step, Status) else (0, _with_usage(step) if script.usage else step)
            try:
                self.wfile.write(json.dumps(answer).encode() + b"\n")
            except OSError:
                # Nobody waits for it any more.
                return

    with tempfile.TemporaryDirectory() as folder:
        program, socket = Path(folder) / "model.py", Path(folder) / "socket"
        program.write_text(_PROGRAM, encoding="utf-8")
        # Without what is installed, which would be looked through at every start.
        script.command = f"{sys.executable} -IS {program} {socket}"
        server = socketserver.ThreadingUnixStreamServer(str(socket), Handler)
        server.daemon_threads, server.block_on_close = True, False
        thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        try:
            yield script
        finally:
            for step in script.steps:
                if isinstance(step, threading.Event):
                    step.set()
            server.shutdown()
            server.server_close()


def _truth(asked: Asked) -> str:
    return labelled(label_of(asked.data)) if asked.body["kind"] == "label" else json.dumps(truthful(asked.data))


def _with_usage(text: str) -> str:
    try:
        answer = json.loads(text)
    except ValueError:
        return text
    return json.dumps(answer | dict(zip(("tokens_in", "tokens_out"), USED, strict=True)))
