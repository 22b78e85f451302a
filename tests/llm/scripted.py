"""An endpoint that answers as a script says, in the shapes of OpenAI's and Anthropic's, on a port of loopback."""

import json
import re
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

#: Tokens that the endpoint says it has read and written.
USED = (1000, 50)
_WORDS = re.compile(r"^Found words: .*\nKeywords: (.*)$", re.M)
_QUOTED = re.compile(r"\[(g\d+(?:,g\d+)*)\] (?:\w+: )?(.*)")


def truthful(data: str, title: str = "A better title") -> dict[str, Any]:
    """An answer whose bullets repeat the first quotations of the prompt."""
    quoted = [(label, said.split(" (project ")[0]) for label, said in _QUOTED.findall(data)]
    bullets = [{"text": said[:150], "grip_ids": label.split(","), "kind": "constraint"} for label, said in quoted[:3]]
    return {"title": title, "summary": "What came of it.", "bullets": bullets}


def label_of(data: str) -> str:
    """A label for a topic that repeats two of its keywords; "" where no label is asked for."""
    found = _WORDS.search(data)
    return " and ".join(found[1].split(", ")[1:3])[:50] if found else ""


@dataclass(frozen=True)
class Asked:
    """A request as it came."""

    path: str
    headers: Mapping[str, str]
    body: Mapping[str, Any]

    @property
    def data(self) -> str:
        """What the model was given to work on."""
        return str(self.body["messages"][-1]["content"])


@dataclass(frozen=True)
class Status:
    """An answer that is none."""

    code: int
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Drip:
    """An answer that comes byte by byte, and never whole."""


Step = Status | Drip | str | Callable[[Asked], str] | threading.Event


@dataclass
class Script:
    """What the endpoint does: one step for each request, then truthful answers."""

    #: A status, a text to answer with, a function of the request that gives one, or an event to wait for.
    steps: deque[Step] = field(default_factory=deque)
    asked: list[Asked] = field(default_factory=list)
    usage: bool = True
    url: str = ""
    connections: int = 0


@contextmanager
def scripted(*steps: Step) -> Iterator[Script]:
    """The endpoint while it is needed; `url` is its base address."""
    script = Script(deque(steps))

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *_: object) -> None: ...

        def setup(self) -> None:
            script.connections += 1
            super().setup()

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            asked = Asked(self.path, dict(self.headers), body)
            script.asked.append(asked)
            step = script.steps.popleft() if script.steps else label_of(asked.data) or json.dumps(truthful(asked.data))
            if isinstance(step, threading.Event):
                step.wait()
                step = "too late"
            if callable(step):
                step = step(asked)
            if isinstance(step, Drip):
                self._drip()
                return
            status, headers = (step.code, step.headers) if isinstance(step, Status) else (200, {})
            raw = json.dumps(_shape(step, asked, script.usage) if isinstance(step, str) else {}).encode()
            try:
                self.send_response(status)
                for name, value in {**headers, "Content-Length": str(len(raw))}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(raw)
            except OSError:
                return

        def _drip(self) -> None:
            self.send_response(200)
            self.send_header("Content-Length", "1000000")
            self.end_headers()
            with suppress(OSError):
                while True:
                    self.wfile.write(b" ")
                    self.wfile.flush()
                    gone.wait(0.05)

    gone = threading.Event()
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    script.url = f"http://127.0.0.1:{server.server_port}/v1"
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


def _shape(text: str, asked: Asked, usage: bool) -> dict[str, Any]:
    if asked.path.endswith("/messages"):
        told: dict[str, Any] = {"content": [{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": text}]}
        used = {"input_tokens": USED[0] - 1, "cache_read_input_tokens": 1, "output_tokens": USED[1]}
    else:
        told = {"choices": [{"message": {"role": "assistant", "content": text}}]}
        used = {"prompt_tokens": USED[0], "completion_tokens": USED[1]}
    return told | ({"usage": used} if usage else {})
