"""A place whose commands run in this process: starting Python and loading the program costs four fifths of most of them."""

import contextlib
import io
import os
import subprocess
import sys
from unittest import mock

from bench.place import PATIENCE, Place
from memory_mcp.cli.main import main
from memory_mcp.failpoints import VARIABLE


class Inside(Place):
    """For tests of what a store holds after a command, whose opening and closing of it are real all the same."""

    def run(self, *words: str, stdin: str = "", patience: float = PATIENCE) -> "subprocess.CompletedProcess[str]":
        """See Place; a command that is to be killed is a process."""
        if VARIABLE in self.settings:
            return super().run(*words, stdin=stdin, patience=patience)
        given, out, err = (io.TextIOWrapper(io.BytesIO(text.encode()), "utf-8") for text in (stdin, "", ""))
        mask = os.umask(0o022)
        try:
            with (
                mock.patch.dict(os.environ, self.environment(), clear=True),
                mock.patch.object(sys, "stdin", given),
                contextlib.redirect_stdout(out),
                contextlib.redirect_stderr(err),
                contextlib.chdir(self.home),
            ):
                status = main(list(words))
        finally:
            os.umask(mask)
        for stream in (out, err):
            stream.flush()
            stream.seek(0)
        return subprocess.CompletedProcess([*self.command, *words], status, out.read(), err.read())
