"""Answers a client's first requests, such as for lists of tools, in a process that ends after the last answer.

The daemon asks it for answers that no earlier process has given, so that the daemon need not load the protocol's library.
"""

import json
import logging
import os
import pickle
import sys
import threading
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import IO, TYPE_CHECKING, Any, NoReturn

import anyio

from memory_mcp.base.children import few_collections
from memory_mcp.base.errors import StorageError
from memory_mcp.config import Settings
from memory_mcp.server.calls import make_kit
from memory_mcp.server.host import Host
from memory_mcp.server.pipe import converse

if TYPE_CHECKING:
    from memory_mcp.server.guard import MemoryServer


def answer_requests(settings: Settings, messages: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the answer lines of the messages of one connection, in the order in which they were given.

    The store is never opened: a message that needs it is answered with an error.
    """
    from memory_mcp.server.sdk import load_sdk

    load_sdk()
    from memory_mcp.server.build import assemble

    host, answers = Host(settings, _refuse_opening), list[str]()

    async def load_server() -> "MemoryServer":
        return assemble(host)

    async def serve() -> None:
        answered = anyio.Semaphore(0)

        async def iter_lines() -> AsyncIterator[bytes]:
            for message in messages:
                yield json.dumps(message).encode() + b"\n"
                if "id" in message:
                    await answered.acquire()

        async def note_answer(line: bytes) -> None:
            answers.append(line.decode())
            answered.release()

        await converse(make_kit(host), load_server, iter_lines(), note_answer, lambda: True)

    anyio.run(serve)
    return answers


def _refuse_opening() -> NoReturn:
    raise StorageError("the store is not open in this process")


def _end_with_daemon(source: int) -> None:
    """End this process once a pipe's other end is closed."""
    while os.read(source, 1):
        continue
    os._exit(1)


def main(source: IO[bytes], sink: IO[bytes]) -> None:
    """Answer the pickled settings and messages of `source` by a JSON list of lines in `sink`.

    Ends the process without a word if the daemon has gone, which keeps `source` open until it is answered.
    """
    logging.basicConfig(stream=sys.stderr, level=logging.ERROR)
    try:
        settings, messages = pickle.load(source)  # from the daemon, over a pipe
        threading.Thread(target=_end_with_daemon, args=(source.fileno(),), daemon=True).start()
        with few_collections():
            sink.write(json.dumps(answer_requests(settings, messages)).encode())
            sink.flush()
    except (EOFError, BrokenPipeError):
        os._exit(1)


if __name__ == "__main__":
    main(sys.stdin.buffer, sys.stdout.buffer)
