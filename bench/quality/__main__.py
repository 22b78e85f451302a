"""Measure retrieval quality on every corpus: intelligent_search at each tier beside each layer alone and plain search.

    python -m bench.quality --data DIR [--corpora locomo de ...] [--tiers 2 5] [--half tune|held|all]
                            [--systems intelligent layers default plain agent] [--questions N]
                            [--kinds answerable unanswerable adversarial "taken out" paraphrased "asked before"]
                            [--stores DIR] [--rows FILE] [--table FILE]
    python -m bench.quality verify ROWS TABLE    compute the tables from the rows again; fails on a difference
    python -m bench.quality tables ROWS [ROWS ...]    print the tables of rows measured before
    python -m bench.quality compare BEFORE AFTER    print what changed from one run's rows to another's, over the same questions

Questions are asked of their own store, in this process, through the server's tools. Each question and system gives a row;
the tables are made from the rows alone. Stores are built once and kept in `--stores` by what they were built from.
"""

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

from bench.quality import rows as rows_file
from bench.quality.agent import ask_agent
from bench.quality.corpora import CORPORA, Corpora, Half, Kind, Question, corpora_in
from bench.quality.plain import ask_plain
from bench.quality.recorded import with_recorded_questions
from bench.quality.reduced import with_evidence_taken_out
from bench.quality.rows import Row
from bench.quality.stores import TIERS, Stores
from bench.quality.systems import Group, ask_store
from bench.quality.tables import comparison, first_difference, tables


def chosen(corpora: Corpora, half: str, most: int | None, kinds: Collection[str] = tuple(Kind)) -> dict[str, list[Question]]:
    """Questions of the wanted half and kinds by store, at most so many of each corpus and store."""
    by_store: dict[str, list[Question]] = {name: [] for name in corpora.stores}
    counts: dict[tuple[str, str, str], int] = {}
    for question in corpora.questions:
        key = (question.corpus, question.store, question.kind)
        if half in ("all", question.half) and question.kind in kinds and (most is None or counts.get(key, 0) < most):
            counts[key] = counts.get(key, 0) + 1
            by_store[question.store].append(question)
    return {name: questions for name, questions in by_store.items() if questions}


def measured(
    corpora: Corpora, asked: dict[str, list[Question]], folder: Path, tiers: Sequence[int], groups: Collection[Group]
) -> Iterator[list[Row]]:
    """Ask everything of every store; the rows of one store after the other."""
    stores = Stores(folder, corpora.stores, payloads=corpora.payloads)
    for name, questions in asked.items():
        began = time.monotonic()
        rows = ask_store(stores, name, questions, tiers, groups)
        if Group.PLAIN in groups:
            rows += ask_plain(corpora.stores[name], questions)
        if Group.AGENT in groups:
            rows += ask_agent(stores, name, questions, min(tiers), corpora.stores[name])
        print(f"  {name}: {len(questions)} questions in {time.monotonic() - began:.0f} s", file=sys.stderr, flush=True)
        yield rows


def arguments_of(given: Sequence[str]) -> argparse.Namespace:
    """The command line, read."""
    parser = argparse.ArgumentParser(prog="python -m bench.quality", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data", type=Path, help="folder that holds locomo/, commits/, beam/ and lifebench/")
    parser.add_argument("--corpora", nargs="+", choices=CORPORA, default=list(CORPORA), metavar="NAME", help=" ".join(CORPORA))
    parser.add_argument("--tiers", nargs="+", type=int, choices=sorted(TIERS), default=sorted(TIERS))
    parser.add_argument("--systems", nargs="+", choices=list(Group), default=list(Group), help="which systems are asked (all)")
    parser.add_argument("--kinds", nargs="+", choices=list(Kind), default=list(Kind), help="which kinds of questions (all)")
    parser.add_argument("--half", choices=(*Half, "all"), default="all", help="which half of each corpus (all)")
    parser.add_argument("--questions", type=int, help="most questions of each corpus, store and kind")
    parser.add_argument("--stores", type=Path, help="keep the stores in this folder and use them again")
    parser.add_argument("--rows", type=Path, help="write a row for each question and system to this file")
    parser.add_argument("--table", type=Path, help="write the tables to this file too")
    return parser.parse_args(given)


def verify(rows: Path, table: Path) -> int:
    """Compare a file of tables with what its rows give; 1 when they differ."""
    different = first_difference(rows_file.read(rows), table.read_text(encoding="utf-8"))
    print(f"{table}: {different}" if different else f"{table} is what {rows} gives")
    return 1 if different else 0


def main(given: Sequence[str]) -> int:
    """Measure and print the tables, or say why not."""
    if len(given) == 3 and given[0] == "verify":
        return verify(Path(given[1]), Path(given[2]))
    if len(given) > 1 and given[0] == "tables":
        print(tables([row for path in given[1:] for row in rows_file.read(Path(path))]), end="")
        return 0
    if len(given) == 3 and given[0] == "compare":
        print(comparison(*(rows_file.read(Path(path)) for path in given[1:])))
        return 0
    arguments = arguments_of(given)
    if arguments.data is None or not arguments.data.is_dir():
        print("skipped: --data DIR with the corpora is not there")
        return 0
    corpora = with_recorded_questions(with_evidence_taken_out(corpora_in(arguments.data, arguments.corpora)))
    asked = chosen(corpora, arguments.half, arguments.questions, arguments.kinds)
    found: list[Row] = []
    if arguments.rows:
        rows_file.write(arguments.rows, found)
    with tempfile.TemporaryDirectory() as scratch:
        for rows in measured(corpora, asked, arguments.stores or Path(scratch), arguments.tiers, set(arguments.systems)):
            found += rows
            if arguments.rows:
                rows_file.write(arguments.rows, rows, more=True)
    text = tables(found)
    if arguments.table:
        arguments.table.write_text(text, encoding="utf-8")
    print(text, end="")
    return 0


if __name__ == "__main__":
    os.nice(10)
    sys.exit(main(sys.argv[1:]))
