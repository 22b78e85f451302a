"""How fast it is on a real history: every promise with what was measured, other engines beside it in the same run.

A history is made of the real sessions in --data (`bench.histories`), with --raw is their files as they are, or is taken from
--history, and imported by the command and the daemon; or --store is a data directory with it, which is copied. What only
reads runs twice, and the slower run counts; the machine's load stands before each group and at the end. Processor time is
that of the daemon and of the pump, from /proc; on a machine that does other work as well, believe it and the ratios, not the
wall.

    python -m bench.speed --data DIR [--events 48000] [--raw] [--history DIR] [--store DIR] [--rows kinds,writes] [--json FILE]
    python -m bench.speed scale --data DIR --folder DIR [--sizes 100000,500000,1000000] [--rows start,questions]
"""

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import asdict, fields
from importlib.util import find_spec
from pathlib import Path

import anyio

from bench import histories
from bench.place import VISIBLE, Place
from bench.speed import kinds, reads, rest, scale, writes
from bench.speed.run import Options, Run, copied, stopped
from bench.speed.table import Row, lines, slower
from bench.speed.writes import bring_in

#: In this order: what writes comes last.
GROUPS: Mapping[str, Callable[[Run], Awaitable[list[Row]]]] = {
    "start": rest.start,
    "handshakes": rest.handshakes,
    "commands": rest.commands,
    "packages": rest.packages,
    "memory": rest.memory,
    "idle": rest.idle,
    "disk": rest.disk,
    "questions": reads.questions,
    "kinds": kinds.kinds,
    "calls": kinds.calls,
    "small": reads.small,
    "status": reads.status,
    "writes": writes.writes,
    "alone": writes.alone,
    "beside": writes.beside,
    "import": writes.imported,
}
#: Groups that run several times: they write nothing, and do not count from the beginning.
_READING = {"start", "handshakes", "commands", "questions", "kinds", "calls", "small"}
#: Groups with tantivy beside, where it is installed.
_PAIRED = {"questions", "kinds", "small"}


def load() -> str:
    """How busy the machine is."""
    return " ".join(f"{one:.1f}" for one in os.getloadavg())


def measure(
    root: Path,
    history: Path,
    options: Options,
    store: Path | None = None,
    data: Path | None = None,
    groups: Sequence[str] = tuple(GROUPS),
    say: Callable[[str], None] = lambda _: None,
) -> dict[str, list[Row]]:
    """Rows by group. Without a store, the history is imported first; that gives the rows of `import`."""
    found: dict[str, list[Row]] = {}
    with Place(root / "run", profile="full") as place:
        if store:
            copied(store, place)
        else:
            found["import"] = anyio.run(bring_in, history, place, options.still)
        run = Run(place, history, options, data)
        for name in [one for one in GROUPS if one in groups and one not in found]:
            say(f"{name}: load {load()}")
            times = options.runs if name in _READING else 1
            found[name] = slower([anyio.run(GROUPS[name], run) for _ in range(times)])
            say("\n".join(lines(found[name])))
        stopped(place)
    return found


def whole(arguments: argparse.Namespace, options: Options, say: Callable[[str], None]) -> dict[str, list[Row]]:
    """One size."""
    with tempfile.TemporaryDirectory(dir=arguments.folder) as scratch:
        root, history = Path(scratch), arguments.history
        if history is None:
            history = root / "history"
            if arguments.raw:
                history.mkdir()
                (history / "projects").symlink_to((arguments.data / "transcripts").resolve())
                (history / "questions.json").write_text(json.dumps(histories.questions(arguments.data)), encoding="utf-8")
            else:
                histories.write(history, arguments.data, arguments.events)
        chosen = arguments.rows or tuple(GROUPS)
        found = measure(root, history, options, arguments.store, arguments.data, chosen, say)
    print("\n".join(lines([row for rows in found.values() for row in rows])))
    return found


def sizes(arguments: argparse.Namespace, options: Options, say: Callable[[str], None]) -> dict[str, list[Row]]:
    """Several sizes."""
    tables = {}
    for events in arguments.sizes:
        say(f"{events:,} events: load {load()}")
        home, rows = scale.built(arguments.data, arguments.folder, events, options.still)
        tables[str(events)] = rows + scale.measured(home, options, arguments.rows or tuple(scale.GROUPS), say)
    print("\n".join(scale.curve(arguments.sizes, list(tables.values()))))
    return tables


def parsed(words: Sequence[str] | None = None) -> tuple[argparse.Namespace, Options]:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="?", choices=("all", "scale"), default="all")
    parser.add_argument("--data", type=Path, help="folder with real sessions (transcripts, commits, locomo)")
    parser.add_argument("--events", type=int, default=48_000, help="size of the history that is made")
    parser.add_argument("--raw", action="store_true", help="the files of real sessions as they are, not recombined")
    parser.add_argument("--history", type=Path, help="a history that was made before")
    parser.add_argument("--store", type=Path, help="a data directory with that history in it, complete and closed")
    parser.add_argument("--folder", type=Path, help="where stores are put; those of several sizes are kept there")
    parser.add_argument("--sizes", type=lambda told: [int(one) for one in told.split(",")], default=[100_000, 500_000, 1_000_000])
    parser.add_argument("--rows", type=lambda told: told.split(","), help=f"which: {', '.join(GROUPS)}")
    parser.add_argument("--json", type=Path, help="write the rows here as well")
    for one in fields(Options):
        parser.add_argument(f"--{one.name}", type=type(one.default), default=one.default, help=argparse.SUPPRESS)
    arguments = parser.parse_args(words)
    known = scale.GROUPS if arguments.what == "scale" else GROUPS
    if unknown := set(arguments.rows or ()) - set(known):
        parser.error(f"no such rows: {', '.join(unknown)}; there are {', '.join(known)}")
    if arguments.data is None and (arguments.history is None or arguments.what == "scale"):
        parser.error("--data is needed, or --history for one size")
    if arguments.what == "scale" and arguments.folder is None:
        parser.error("--folder is needed")
    return arguments, Options(**{one.name: getattr(arguments, one.name) for one in fields(Options)})


def missing_engines(arguments: argparse.Namespace) -> str:
    """Say which engine the table lacks because it is not installed; empty if none is missing."""
    groups = set(arguments.rows or GROUPS)
    if arguments.what == "scale" or not groups & _PAIRED or find_spec("tantivy"):
        return ""
    return 'tantivy is not installed, so it is not measured beside: pip install -e ".[bench]"'


def main() -> int:
    """Run, print; 1 when a bar is not kept."""
    arguments, options = parsed()
    if not VISIBLE:
        print("skipped: processes are looked at through /proc")
        return 0
    absent = missing_engines(arguments)
    if absent:
        print(absent, file=sys.stderr)
    before = load()
    found = (sizes if arguments.what == "scale" else whole)(arguments, options, lambda line: print(line, file=sys.stderr))
    busy = f"load average {before} before, {load()} after; {os.cpu_count()} cores"
    print("\n" + "\n".join(filter(None, (busy, absent))))
    if arguments.json:
        told = {name: [asdict(row) | {"kept": row.kept} for row in rows] for name, rows in found.items()}
        arguments.json.write_text(json.dumps({"load": busy, "absent": absent, "rows": told}), encoding="utf-8")
    return 0 if all(row.kept for rows in found.values() for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
