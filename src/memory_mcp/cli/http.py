"""`serve --http`: the daemon's HTTP door kept open while this command runs."""

import argparse
import time

from memory_mcp.base.errors import LayerUnavailable
from memory_mcp.cli import render
from memory_mcp.cli.failures import reach
from memory_mcp.service.client import link

#: Seconds between the end of a daemon and the next connection.
_AGAIN = 0.5


def serve_http(args: argparse.Namespace, target: link.Wanted) -> int:
    """Open the daemon's HTTP server, print its address when it is new, and keep it open until this is stopped.

    When a daemon ends it is opened in the next. Returns only when the daemon refuses: the status that it gives, after its message
    on stderr. Raises LayerUnavailable where no daemon can run here or none could be started.
    """
    if not link.usable():
        raise LayerUnavailable("this platform has no Unix sockets for the daemon that serves HTTP", "Use stdio.")
    printed_url = ""
    while True:
        line = reach(target)
        try:
            answer = link.converse(line, "http/open", {"host": args.host or "", "port": args.port}, lambda _: None)
            if answer["url"] != printed_url:
                printed_url = answer["url"]
                lines = [
                    f"Streamable HTTP: {answer['url']}/mcp",
                    f"SSE (for older clients): {answer['url']}/sse",
                    f"Every request needs: Authorization: Bearer <the text of {answer['token_file']}>"
                    if answer["token_file"]
                    else "Every request needs: Authorization: Bearer <server.http_token>",
                    "Open until this command is stopped.",
                ]
                render.emit(bool(getattr(args, "json", False)), answer, lines)
                render.flush()
            line.receive()
        except link.Refused as error:
            render.err(str(error))
            return error.status
        except (OSError, ValueError):
            time.sleep(_AGAIN)
        finally:
            line.close()
