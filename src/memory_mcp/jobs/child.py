"""A child process of `workers`: frames of segments in, frames of what they become out, until its input ends."""

import os
import sys
from collections.abc import Sequence
from typing import cast

from memory_mcp.jobs.workers import receive, send
from memory_mcp.model.calendar import Calendar
from memory_mcp.summarize.base import Summarizer
from memory_mcp.toc.build import Work, derive

#: Far below whatever somebody waits for.
_NICE = 10


def main() -> None:
    """Work until the parent has gone, however that went."""
    if hasattr(os, "nice"):
        os.nice(_NICE)
    source, sink = sys.stdin.buffer, sys.stdout.buffer
    # Nothing that prints may come between the frames.
    sys.stdout = sys.stderr
    calendar, summarizer = cast("tuple[Calendar, Summarizer]", receive(source))
    send(sink, "ready")
    while True:
        try:
            part = receive(source)
        except EOFError:
            return
        try:
            answer: object = derive(cast("Sequence[Work]", part), calendar, summarizer)
        except Exception as error:
            answer = error
        try:
            send(sink, answer)
        except OSError:
            return


if __name__ == "__main__":
    main()
