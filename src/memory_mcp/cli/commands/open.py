"""`open`: show the memory in a browser by a single-use URL; the daemon serves the pages."""

import argparse
import os
import sys
from contextlib import suppress

from memory_mcp.base.errors import LayerUnavailable
from memory_mcp.cli import render
from memory_mcp.cli.commands.base import Subparsers, as_json, leaf, settings_of, wanted
from memory_mcp.cli.failures import ours
from memory_mcp.service.client import link

_ASIDE = (
    "The address works once, within two minutes; the page stays open to that browser for twelve hours at most. Pages that nobody "
    "uses do not keep the background process running: run the command again then."
)
#: Variables by which a Linux session says that it has a screen.
_SCREENS = ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER")


def add(parsers: Subparsers, about: str) -> None:
    """Add the command `open`, which `run` carries out, and its arguments; `about` is its help text."""
    parser = leaf(parsers, "open", run, about, _ASIDE)
    parser.add_argument("--print", action="store_true", dest="print_only", help="print the address, start no browser")
    parser.add_argument("--port", metavar="PORT", type=int, help="port to serve on where HTTP is off (setting server.http_port)")
    parser.add_argument(
        "--own-words", action="store_true", help="what is corrected there counts as your own word; asks you to confirm that"
    )


def run(args: argparse.Namespace) -> int:
    """Get a single-use URL from the daemon, open it in the browser where one can be shown, print it, and return 0.

    --print and --json start no browser. Raises LayerUnavailable where no daemon can serve the pages.
    """
    is_person = bool(args.own_words) and render.is_persons(["open"])
    url = _address(args, is_person)
    at_terminal = sys.stdin and sys.stdin.isatty() and render.is_terminal()
    has_screen = sys.platform in ("win32", "darwin") or any(os.environ.get(name) for name in _SCREENS)
    started = False
    if at_terminal and has_screen and not args.print_only and not as_json(args):
        import webbrowser

        with suppress(webbrowser.Error):
            started = webbrowser.open(url)
    lines = [f"Opened in the browser: {url}" if started else url]
    render.emit(as_json(args), {"url": url, "opened": started}, lines)
    if not started and render.is_terminal():
        render.err("Open it in a browser on this machine: it works once, within two minutes.")
    return 0


def _address(args: argparse.Namespace, is_person: bool) -> str:
    """Return a single-use URL of the pages, from the daemon, which is started if none runs.

    Raises LayerUnavailable where no daemon can serve them, and the error that it reports as one of ours.
    """
    if not settings_of(args).server.daemon:
        raise LayerUnavailable(
            "the pages are served by the background process, which server.daemon = false switches off",
            "Set server.daemon = true.",
        )
    if not link.usable():
        raise LayerUnavailable(
            "the pages are served by the background process, which this platform cannot reach", "Set server.socket."
        )
    try:
        line = link.reach(wanted(args), "rpc")
    except link.Unreachable as error:
        text = f"the background process could not be started: {error}"
        raise LayerUnavailable(text, "memory-mcp doctor looks into it.") from None
    try:
        return str(link.converse(line, "pages/open", {"port": args.port, "is_person": is_person}, lambda _: None)["url"])
    except link.Refused as error:
        raise ours(error) from None
    finally:
        line.close()
