"""What processes use up and hold, seen from outside."""

import os
import subprocess
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import duckdb

from bench.place import PROC, Place

_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Cost:
    """What some processes have used up since they began."""

    #: Processor seconds, of children that ended as well.
    worked: float = 0.0
    #: Bytes written to disk.
    written: int = 0
    #: Times a thread went to sleep.
    sleeps: int = 0

    def __sub__(self, other: "Cost") -> "Cost":
        return Cost(self.worked - other.worked, self.written - other.written, self.sleeps - other.sleeps)


def clock(pid: int) -> float:
    """Processor seconds of a process, in nanoseconds where `stat` counts hundredths; 0 when it is gone."""
    try:
        # What clock_getcpuclockid(3) gives for a process.
        return time.clock_gettime((~pid << 3) | 2)
    except OSError:
        return 0.0


def cost(pids: Iterable[int]) -> Cost:
    """Used up by some processes together."""
    worked, written, sleeps = 0.0, 0, 0
    for pid in pids:
        try:
            ended = (PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()[13:15]
            written += _number(PROC / str(pid) / "io", "write_bytes:")
            sleeps += sum(_number(task / "status", "voluntary_ctxt_switches:") for task in (PROC / str(pid) / "task").iterdir())
        except OSError:
            continue
        worked += clock(pid) + sum(map(int, ended)) / _TICKS
    return Cost(worked, written, sleeps)


def _number(path: Path, name: str) -> int:
    return next((int(line.split()[1]) for line in path.read_text().splitlines() if line.startswith(name)), 0)


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

    @classmethod
    def of(cls, place: Place) -> "Disk":
        """Its files as they are now."""
        database = [place.directory / "memory.duckdb", place.directory / "memory.duckdb.wal"]
        indexes = (place.directory / "indexes").rglob("*")
        return cls(sum(map(_size, database)), sum(map(_size, indexes)))


def _size(path: Path) -> int:
    """Of a file; 0 of anything else, and of what is just being replaced."""
    try:
        return path.stat().st_size if path.is_file() else 0
    except OSError:
        return 0


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

    def _connection(self) -> duckdb.DuckDBPyConnection:
        return duckdb.connect(str(self.place.directory / "memory.duckdb"), read_only=True)
