"""Runs a command inside the daemon, for a caller at another terminal."""

from typing import TYPE_CHECKING, TextIO, cast

import anyio.from_thread

from memory_mcp.cli import render
from memory_mcp.cli.commands.base import SESSION, Session
from memory_mcp.cli.main import perform

if TYPE_CHECKING:
    from collections.abc import Callable

    from memory_mcp.app import App
    from memory_mcp.service.daemon.rpc import Conversation, Pipe


def execute(
    app: "App",
    argv: list[str],
    talk: "Conversation",
    out: "Pipe",
    err: "Pipe",
    look: tuple[int, bool, bool],
    stop: "Callable[[str], None]",
) -> int:
    """Run a command in the daemon; return its exit status.

    `talk` is the caller's connection, with its working directory and environment; results go to `out`, all else to `err`. `look`:
    the columns of its terminal, whether it is to be plain, and whether a person there confirmed the command. `stop` ends the
    daemon for a reason; called where the store must be opened again. Raises BrokenPipeError when the caller has gone.
    """

    def reopen() -> None:
        anyio.from_thread.run_sync(stop, "what is open no longer fits the store")

    terminal = render.TERMINAL.set(render.Terminal(cast("TextIO", out), cast("TextIO", err), *look))
    session = SESSION.set(Session(app, talk.cwd, talk.environ, reopen, talk.connection))
    try:
        return perform(argv)
    finally:
        SESSION.reset(session)
        render.TERMINAL.reset(terminal)
