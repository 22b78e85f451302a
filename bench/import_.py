"""Import throughput by stage, memory, and disk, on made-up sessions of a chosen size.

python -m bench.import_ --events 100000 [--keep DIR]
"""

import argparse
import resource
import sys
import tempfile
import time
from pathlib import Path

from bench import corpus
from memory_mcp.app import App
from memory_mcp.config import load
from memory_mcp.jobs.derivation import Place


def main() -> None:
    """Make the load, import it, print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=100_000)
    parser.add_argument("--keep", type=Path, help="keep the store here")
    parser.add_argument("--no-child", action="store_true", help="derive in this process alone")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        source = Path(scratch) / "events.jsonl"
        corpus.write(source, arguments.events, rare=500)
        measure(source, arguments.keep or Path(scratch) / "store", arguments.no_child)


def measure(source: Path, directory: Path, alone: bool) -> None:
    """Import one file into a new store."""
    app = App(load({}, {"storage.data_dir": str(directory), "storage.timezone": "UTC"}))
    started = time.perf_counter()
    report = app.run_import("jsonl", source)
    stages = {name: seconds for name, seconds in report.seconds.items() if seconds > 0.01}
    spent = app.derivation.run(place=Place.HERE if alone else Place.SHARED)
    stages |= {"segment+summarise": spent.segment_seconds, "roll up": spent.period_seconds}
    total = time.perf_counter() - started
    stats = app.storage.stats()
    print(f"{report.new} events, mean {stats.text_bytes / report.new:.0f} bytes of text\n")
    print(f"{'stage':<20}{'seconds':>9}{'events/s':>11}")
    for name, seconds in [*stages.items(), ("all", total)]:
        print(f"{name:<20}{seconds:>9.1f}{report.new / seconds:>11,.0f}")
    unit = 1 if sys.platform == "darwin" else 1024
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e6
    child = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * unit / 1e6
    print(f"\npeak resident memory {peak:.0f} MB (child {child:.0f} MB)")
    before, after = app.storage.compact()
    print(f"on disk {before / 1e6:.0f} MB, after compaction {after / 1e6:.0f} MB: {after / stats.text_bytes:.2f} x the text")
    started = time.perf_counter()
    again = app.run_import("jsonl", source)
    print(f"importing again: {again.new} new, {time.perf_counter() - started:.2f} s")
    app.close()


if __name__ == "__main__":
    main()
