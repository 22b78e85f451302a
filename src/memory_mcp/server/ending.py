"""The signals that ask this process to end, one by one, on systems whose event loop hears them and on those where it does not."""

import asyncio
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from types import FrameType

import anyio

from memory_mcp import machine


@contextmanager
def signals_of_end(by_handler: bool = machine.WINDOWS) -> Iterator[AsyncIterator[int]]:
    """Signals as they come; `by_handler`: through Python's own handlers, which every system has."""
    numbers = machine.ending_signals()
    if not by_handler:
        with anyio.open_signal_receiver(*numbers) as received:
            yield received
        return
    loop = asyncio.get_running_loop()
    send, receive = anyio.create_memory_object_stream[int](len(numbers))

    def hear(number: int, _: FrameType | None) -> None:
        loop.call_soon_threadsafe(send.send_nowait, number)

    before = {number: signal.signal(number, hear) for number in numbers}
    try:
        with send, receive:
            yield receive
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
