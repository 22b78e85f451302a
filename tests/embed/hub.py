"""A model hub on loopback: the few answers of the real one that fetching a model asks for."""

import hashlib
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlsplit

from tests.waiting import PATIENCE

COMMIT = "0123456789abcdef0123456789abcdef01234567"


class Hub:
    """Models by their names, each a folder; what was asked of it; and whether it breaks off in the middle of large files."""

    def __init__(self, models: dict[str, Path]) -> None:
        self.models = models
        self.asked: list[str] = []
        self.breaks_off = False
        #: Seconds before the second half of a large file.
        self.pause = 0.0
        self.address = ""


@contextmanager
def serving(hub: Hub) -> Iterator[Hub]:
    """The hub, listening."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_: object) -> None:
            pass

        def do_HEAD(self) -> None:
            self._answer(False)

        def do_GET(self) -> None:
            self._answer(True)

        def _answer(self, whole: bool) -> None:
            path = urlsplit(self.path).path
            hub.asked.append(f"{self.command} {path}")
            name = next((n for n in hub.models if f"/{n}/" in f"{path}/"), "")
            if not name:
                self._send(b'{"error": "Repository not found"}', 404, {"X-Error-Code": "RepoNotFound"}, whole)
            elif "/tree/" in path:
                self._send(json.dumps([_entry(f) for f in sorted(hub.models[name].iterdir())]).encode(), 200, {}, whole)
            elif "/resolve/" in path:
                content = (hub.models[name] / path.rsplit("/", 1)[-1]).read_bytes()
                told = {"ETag": f'"{hashlib.sha1(content).hexdigest()}"', "X-Repo-Commit": COMMIT}
                self._send(content, 200, told, whole)
            else:
                self._send(json.dumps({"id": name, "sha": COMMIT, "siblings": []}).encode(), 200, {}, whole)

        def _send(self, content: bytes, status: int, more: dict[str, str], whole: bool) -> None:
            self.send_response(status)
            for key, value in {"Content-Length": str(len(content)), "Content-Type": "application/json", **more}.items():
                self.send_header(key, value)
            self.end_headers()
            if whole and hub.breaks_off and len(content) > 4096:
                self.wfile.write(content[: len(content) // 2])
                self.close_connection = True
            elif whole:
                half = len(content) // 2
                self.wfile.write(content[:half])
                time.sleep(hub.pause if half > 4096 else 0)
                self.wfile.write(content[half:])

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    hub.address = f"http://127.0.0.1:{server.server_address[1]}"
    try:
        yield hub
    finally:
        server.shutdown()
        server.server_close()
        thread.join(PATIENCE)


def _entry(file: Path) -> dict[str, object]:
    content = file.read_bytes()
    return {"type": "file", "path": file.name, "size": len(content), "oid": hashlib.sha1(content).hexdigest()}
