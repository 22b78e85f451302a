"""Keeps what was read of the whole tree until the store changes."""

import threading
import time
from collections.abc import Callable
from typing import TypeVar, cast

T = TypeVar("T")


class FactCache:
    """Values by key, each read once for a version of the store. Safe from any thread."""

    def __init__(self, read_version: Callable[[], int], lag: Callable[[], float]) -> None:
        """Take what returns the store's version, and the seconds by which statistics may be behind it."""
        self._read_version = read_version
        self._lag = lag
        self._facts: dict[object, object] = {}
        self._version = -1
        self._statistics: dict[object, tuple[float, object]] = {}
        self._lock = threading.Lock()

    def get_statistic(self, key: object, read: Callable[[], T]) -> T:
        """Return a value that may lag behind the store."""
        if lag := self._lag():
            with self._lock:
                at, value = self._statistics.get(key, (-lag, None))
            if time.monotonic() - at < lag:
                return cast("T", value)
        fact = self.get_fact(key, read)
        with self._lock:
            self._statistics[key] = (time.monotonic(), fact)
        return fact

    def get_fact(self, key: object, read: Callable[[], T]) -> T:
        """Return a value of the present version."""
        version = self._read_version()
        with self._lock:
            if version != self._version:
                self._facts.clear()
                self._version = version
            if key in self._facts:
                return cast("T", self._facts[key])
        fact = read()
        with self._lock:
            if version == self._version:
                self._facts[key] = fact
        return fact
