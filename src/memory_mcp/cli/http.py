"""`serve --http`: the daemon's HTTP door kept open while this command runs, or a team's server in this process."""

import argparse
import time
from dataclasses import replace
from typing import TYPE_CHECKING

from memory_mcp.base.errors import LayerUnavailable
from memory_mcp.cli import render
from memory_mcp.cli.failures import reach
from memory_mcp.service.client import link

if TYPE_CHECKING:
    from memory_mcp.config import Settings

#: Seconds between the end of a daemon and the next connection.
_AGAIN = 0.5


def serve_team(args: argparse.Namespace, settings: "Settings") -> int:
    """Serve a team in this process until it is stopped, at --host and --port or those of the settings; print its address.

    Ends the process with status 0 when stopped; raises what starting it raises.
    """
    from memory_mcp_team.server.run import serve

    host, port = args.host or settings.server.http_host, settings.server.http_port if args.port is None else args.port
    served_settings = replace(settings, server=replace(settings.server, http_host=host, http_port=port))

    def tell(url: str) -> None:
        """Print the server's address."""
        lines = [f"Streamable HTTP: {url}/mcp", "Every request needs an API key or a token: Authorization: Bearer ..."]
        render.emit(bool(getattr(args, "json", False)), {"url": url}, lines)
        render.flush()

    return serve(served_settings, tell)


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
