"""What processes use up and hold, seen from outside."""

import os
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import duckdb

from bench.place import PROC, Place
from memory_mcp.base import machine


def clock(pid: int) -> float:
    """Processor seconds of a process, in nanoseconds where `stat` counts hundredths; 0 when it is gone."""
    try:
        # The kernel's name of that process's own clock.
        return time.clock_gettime((~pid << 3) | 2)
    except OSError:
        return 0.0


def children() -> set[int]:
    """Processes that this one started."""
    found = set()
    for task in (PROC / "self" / "task").iterdir():
        found |= set(map(int, (task / "children").read_text().split()))
    return found


def ran(command: Sequence[str], environment: Mapping[str, str], home: Path, told: str = "") -> tuple[float, float]:
    """Seconds of a command, by the wall and of the processor; what it started and waited for counts as well."""
    with tempfile.TemporaryFile() as given, tempfile.TemporaryFile() as said:
        given.write(told.encode())
        given.seek(0)
        began = time.perf_counter()
        process = subprocess.Popen(command, env=environment, cwd=home, stdin=given, stdout=subprocess.DEVNULL, stderr=said)
        _, status, used = os.wait4(process.pid, 0)
        took = time.perf_counter() - began
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            said.seek(0)
            raise RuntimeError(f"{' '.join(command)} ended with {process.returncode}: {said.read()[-500:].decode()}")
    return took, used.ru_utime + used.ru_stime


@dataclass(frozen=True, slots=True)
class Disk:
    """Bytes of a data directory."""

    database: int
    indexes: int
    everything: int = 0

    @classmethod
    def of(cls, place: Place) -> "Disk":
        """Its files as they are now."""
        database = [place.directory / "memory.duckdb", place.directory / "memory.duckdb.wal"]
        return cls(
            sum(map(machine.size_of, database)), machine.size_of(place.directory / "indexes"), machine.size_of(place.directory)
        )


@dataclass(frozen=True, slots=True)
class Texts:
    """The texts of a store that nobody has open."""

    place: Place

    def size(self) -> tuple[int, int]:
        """Events, and bytes of their texts."""
        with self._connection() as connection:
            events, size = connection.execute("SELECT count(*), sum(strlen(text)) FROM event").fetchall()[0]
        return int(events), int(size or 0)

    def said(self) -> list[tuple[str, str]]:
        """Session and text of every event."""
        with self._connection() as connection:
            return connection.execute("SELECT session_id, text FROM event ORDER BY seq").fetchall()

    def days(self) -> list[str]:
        """The days on which something was said, in order."""
        with self._connection() as connection:
            return [
                day
                for (day,) in connection.execute(
                    "SELECT DISTINCT strftime(make_timestamp(ts * 1000), '%Y-%m-%d') FROM event ORDER BY 1"
                ).fetchall()
            ]

    def _connection(self) -> duckdb.DuckDBPyConnection:
        return duckdb.connect(str(self.place.directory / "memory.duckdb"), read_only=True)
