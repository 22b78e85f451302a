"""Receives the signals that ask this process to end, also where the event loop does not hear them (Windows)."""

import asyncio
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from types import FrameType

import anyio

from memory_mcp.base import machine


@contextmanager
def signals_of_end(by_handler: bool = machine.WINDOWS) -> Iterator[AsyncIterator[int]]:
    """Yield an iterator over the signals that ask for the end.

    With `by_handler` they are heard by Python's own handlers, which every system has, else by the event loop.
    The handlers of before are put back at the end.
    """
    numbers = machine.ending_signals()
    if not by_handler:
        with anyio.open_signal_receiver(*numbers) as received:
            yield received
        return
    loop = asyncio.get_running_loop()
    send, receive = anyio.create_memory_object_stream[int](len(numbers))

    def hear(number: int, _: FrameType | None) -> None:
        loop.call_soon_threadsafe(send.send_nowait, number)

    old_handlers = {number: signal.signal(number, hear) for number in numbers}
    try:
        with send, receive:
            yield receive
    finally:
        for number, handler in old_handlers.items():
            signal.signal(number, handler)
