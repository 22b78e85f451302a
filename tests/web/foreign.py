"""A server of somebody else on another port: serves a page, and notes everything that it is sent."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

_PAGE = b"<!doctype html><html lang=en><title>Elsewhere</title><body><p>Elsewhere</p></body></html>"


@dataclass
class Foreign:
    """Where it is, and the requests that came: method, path and headers."""

    port: int
    seen: list[tuple[str, str, dict[str, str]]] = field(default_factory=list)

    def url(self, host: str = "127.0.0.1") -> str:
        return f"http://{host}:{self.port}"


@contextmanager
def elsewhere() -> Iterator[Foreign]:
    """A server on a free port, until the end of the block."""
    found: list[Foreign] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            found[0].seen.append((self.command, self.path, {k.lower(): v for k, v in self.headers.items()}))
            self.rfile.read(int(self.headers.get("content-length") or 0))
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.send_header("Content-Length", str(len(_PAGE)))
            self.end_headers()
            self.wfile.write(_PAGE)

        do_POST = do_GET  # noqa: N815 - the library's name

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the library's name
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    found.append(Foreign(server.server_address[1]))
    thread = threading.Thread(target=server.serve_forever, name="elsewhere", daemon=True)
    thread.start()
    try:
        yield found[0]
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
