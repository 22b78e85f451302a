"""A place whose commands run in this process: starting Python and loading the program costs four fifths of most of them."""

import contextlib
import io
import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from unittest import mock

from bench.place import PATIENCE, Place
from memory_mcp.__main__ import main as installed
from memory_mcp.base import machine
from memory_mcp.base.failpoints import VARIABLE
from memory_mcp.cli.main import main
from tests.daemon.places import DAEMON
from tests.waiting import UNHURRIED

Done = subprocess.CompletedProcess[str]
#: Commands open the memory themselves.
ALONE = {"MEMORY_MCP_SERVER__DAEMON": "false"} | UNHURRIED
#: And build no indexes of it.
BARE = ALONE | {"MEMORY_MCP_TELEPORT__ENABLED": "false", "MEMORY_MCP_TOPICS__ENABLED": "false"}
#: Nor does the daemon that they find.
SERVED = BARE | DAEMON
#: Nor does one build more than the index of words, which is quick.
WORDS = SERVED | {"MEMORY_MCP_TELEPORT__ENABLED": "true", "MEMORY_MCP_TELEPORT__VECTOR__ENABLED": "false"}


class Inside(Place):
    """For tests of what a store holds after a command, whose opening and closing of it are real all the same."""

    def run(self, *words: str, stdin: str = "", patience: float = PATIENCE) -> Done:
        """See Place; a command that is to be killed is a process."""
        if VARIABLE in self.settings:
            return super().run(*words, stdin=stdin, patience=patience)
        return run_inside(words, self.environment(), self.home, stdin)


class Beside(Inside):
    """For tests of what the daemon does, which commands start and find as the installed program does."""

    def run(self, *words: str, stdin: str = "", patience: float = PATIENCE) -> Done:
        """See Place; a hook, a server on a pipe and `doctor`, which looks at its own process too, are processes."""
        if VARIABLE in self.settings or words[:1] in ((), ("hook",), ("serve",), ("doctor",)):
            return Place.run(self, *words, stdin=stdin, patience=patience)
        return run_inside(words, self.environment(), self.home, stdin, as_installed)


def as_installed(words: list[str]) -> int:
    with mock.patch.object(sys, "argv", ["memory-mcp", *words]):
        return installed()


def run_inside(
    words: Sequence[str], environ: Mapping[str, str], folder: Path, stdin: str = "", begin: Callable[[list[str]], int] = main
) -> Done:
    """Run a command in this process as it would run in one of its own, in an environment and a folder.

    What an import does to its own priority it does not do to this process: the tests that follow would be slower for good.
    """
    given, out, err = (io.TextIOWrapper(io.BytesIO(text.encode()), "utf-8") for text in (stdin, "", ""))
    mask = os.umask(0o022)
    try:
        with (
            mock.patch.dict(os.environ, environ, clear=True),
            mock.patch.object(sys, "stdin", given),
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(err),
            contextlib.chdir(folder),
            mock.patch.object(machine, "lower"),
        ):
            status = begin([*words])
    finally:
        os.umask(mask)
    for stream in (out, err):
        stream.flush()
        stream.seek(0)
    return subprocess.CompletedProcess([*words], status, out.read(), err.read())
