"""Judge how segments are grouped, beside rivals over the same segments, texts and vectors.

    python -m bench.topics --data DIR [--history CLONE] [--corpora qmsum commits] [--half tune|held|all]
                           [--systems NAME ...] [--stores DIR]
    python -m bench.topics mixed --data DIR ...    corpora alone, and all in one memory of 10,000 and 20,000 segments
    python -m bench.topics explore --data DIR [--half ...]    questions that explore, with topics and without
    python -m bench.topics --data DIR --sheet 40 [--seed 0]    labels of topics for a reader to mark

What was tuned was tuned on one half (of meetings by a hash of their names, of `commits` by time); the other is reported, each
as if the other half had never been. Times are of the processor, on one thread, each system in a process of its own.
"""

import argparse
import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from bench.topics import labels
from bench.topics.explore import explored
from bench.topics.measures import Measures, measures
from bench.topics.mixed import families, mixed
from bench.topics.references import CORPORA, Reference, references
from bench.topics.systems import SYSTEMS, Absent, Grouped, grouped, told_how_many

#: Segments of mixed memories.
_MIXED = (10_000, 20_000)


def judged(reference: Reference, wanted: Sequence[str]) -> list[Grouped]:
    """What each system makes of a reference's documents; those that are not installed are named and left out."""
    material, made, ours = reference.material(), list[Grouped](), 0
    for name in [n for n in SYSTEMS if n in wanted]:
        try:
            done = grouped(name, told_how_many(name, material, ours, reference.classes))
        except Absent as absent:
            print(f"  left out: {absent}", file=sys.stderr)
            continue
        ours = ours or int(done.groups.max()) + 1
        made.append(done)
    return made


def table(reference: Reference, half: str, made: Sequence[Grouped]) -> str:
    """A line for each system."""
    judges = "".join(f"  {how:>7}{'NMI':>6}" for how in ("purity", "alone", "without"))
    lines = [
        f"{reference.name} ({half}): {len(reference.documents)} segments, {reference.tied} of {reference.classes} references"
    ]
    lines.append(f"  {'':42}{'groups':>7}{'none':>6}{'most':>6}{judges}{'CPU s':>8}{'own s':>8}{'MB':>6}")
    told = [d.reference for d in reference.documents]
    lines += [_line(done, measures(done.groups, told)) for done in made]
    return "\n".join(lines)


def _line(done: Grouped, m: Measures) -> str:
    pairs = "".join(f"  {purity:7.3f}{nmi:6.3f}" for purity, nmi in (m.one, m.alone, m.without))
    costs = f"{done.cpu_seconds:8.1f}{done.own_seconds:8.2f}{done.peak_mb:6.0f}"
    return f"  {done.system:42}{m.groups:7}{m.ungrouped:6.2f}{m.largest:6.2f}{pairs}{costs}"


def arguments_of(given: Sequence[str]) -> argparse.Namespace:
    """The command line, read."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.topics", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", nargs="?", choices=("groups", "mixed", "explore"), default="groups", help=argparse.SUPPRESS)
    parser.add_argument("--data", type=Path, required=True, help="folder that holds qmsum/ and commits/")
    parser.add_argument("--history", type=Path, help="a clone of github.com/entireio/cli, which knows its pull requests")
    parser.add_argument("--corpora", nargs="+", choices=CORPORA, default=list(CORPORA))
    parser.add_argument("--half", choices=("tune", "held", "all"), default="held")
    parser.add_argument("--systems", nargs="+", choices=list(SYSTEMS), default=list(SYSTEMS), metavar="NAME")
    parser.add_argument("--sheet", type=int, default=0, metavar="N", help="print N topics of all corpora to be marked")
    parser.add_argument("--seed", type=int, default=0, help="draws the topics of the sheet and their order")
    parser.add_argument("--stores", type=Path, help="keep the stores in this folder and use them again")
    return parser.parse_args(given)


def main(given: Sequence[str]) -> int:
    """Measure and print, or say why not."""
    arguments = arguments_of(given)
    with tempfile.TemporaryDirectory() as scratch:
        folder = arguments.stores or Path(scratch)
        if arguments.what == "explore":
            print(explored(arguments.data, folder, arguments.half))
            return 0
        found = list(references(arguments.data, arguments.corpora, folder, arguments.history))
        if arguments.sheet:
            judges = {reference.name: [reference.half(arguments.half)] for reference in found}
            print(labels.sheet(judges | labels.stores(arguments.data, folder), arguments.sheet, arguments.seed))
            return 0
        if arguments.what == "mixed":
            print(mixed(families(arguments.data, folder, found), _MIXED))
            return 0
    if not found:
        print(f"skipped: no {', '.join(arguments.corpora)} in {arguments.data}")
    for reference in found:
        print(f"{reference.name}: {reference.note}", file=sys.stderr)
        half = reference.half(arguments.half)
        made = judged(half, arguments.systems)
        print(table(half, arguments.half, made), flush=True)
        if half.titles and made:
            print(labels.table(half, labels.topics_of(made[0].groups)), flush=True)
    return 0


if __name__ == "__main__":
    os.nice(10)
    sys.exit(main(sys.argv[1:]))
