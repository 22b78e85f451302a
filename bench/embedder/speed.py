"""How quickly the bundled model embeds: a hundred thousand texts on two processes, one query, a start; and what it takes.

Texts are pieces of the standard library's docstrings, each as long as a quotation on average.
"""

import json
import multiprocessing
import statistics
import subprocess
import sys
import time
from dataclasses import dataclass
from multiprocessing.synchronize import Barrier
from pathlib import Path

from bench.embedder import sets
from bench.embedder.systems import BUNDLED
from memory_mcp.embed.model2vec import Model2Vec

#: Characters of a text: a quotation's, on the average.
LENGTH = 170
_QUERIES = 2000

#: A process of its own: seconds until the first vector, and anonymous memory that came with it.
_LOAD = """
import json, sys, time
import numpy
def anonymous():
    return next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("RssAnon:")) * 1024
before, began = anonymous(), time.perf_counter()
from memory_mcp.embed.model2vec import Model2Vec
Model2Vec(sys.argv[1]).embed(["a first question"])
print(json.dumps([time.perf_counter() - began, anonymous() - before]))
"""


@dataclass(frozen=True, slots=True)
class Speed:
    """Seconds for all texts on two processes (their start not counted), milliseconds of a query, load and memory."""

    texts: int
    seconds: float
    query_p50_ms: float
    query_p99_ms: float
    load_seconds: float
    anonymous_bytes: int

    def __str__(self) -> str:
        """As people read it."""
        return (
            f"speed: {self.texts:,} texts of {LENGTH} characters in {self.seconds:.1f} s on two processes "
            f"({self.texts / self.seconds:,.0f} a second); a query {self.query_p50_ms:.3f} ms (p99 {self.query_p99_ms:.3f}); "
            f"first vector after {self.load_seconds:.2f} s, {self.anonymous_bytes / 1e6:.0f} MB of anonymous memory"
        )


def texts(count: int) -> list[str]:
    """So many pieces of real text; they come round again, which an embedder without a memory does not notice."""
    joined = " ".join(t for c in sets.library().corpora.values() for t in c.texts)
    pieces = [joined[i : i + LENGTH] for i in range(0, len(joined) - LENGTH, LENGTH)]
    return [pieces[i % len(pieces)] for i in range(count)]


def measure(count: int = 100_000, folder: Path = BUNDLED) -> Speed:
    """All of it, on this machine as it is now."""
    told = texts(count)
    loaded = subprocess.run([sys.executable, "-c", _LOAD, str(folder)], check=True, capture_output=True, text=True)
    load_seconds, anonymous = json.loads(loaded.stdout)
    model = Model2Vec(folder)
    model.embed(["warm"])
    times = []
    for text in told[:_QUERIES]:
        began = time.perf_counter()
        model.embed([text[:60]])
        times.append(1000 * (time.perf_counter() - began))
    p99 = statistics.quantiles(times, n=100)[-1]
    return Speed(count, _on_two(folder, told), statistics.median(times), p99, load_seconds, anonymous)


def _on_two(folder: Path, told: list[str]) -> float:
    """Seconds that the later of two child processes took for its half, from when both were ready."""
    context = multiprocessing.get_context("spawn")
    ready = context.Barrier(3)
    halves = [context.Process(target=_embed, args=(folder, told[i::2], ready)) for i in range(2)]
    for half in halves:
        half.start()
    ready.wait()
    began = time.perf_counter()
    for half in halves:
        half.join()
    return time.perf_counter() - began


def _embed(folder: Path, half: list[str], ready: Barrier) -> None:
    model = Model2Vec(folder)
    model.embed(["warm"])
    ready.wait()
    model.embed(half)
