"""Candidates that the hybrid search ranks for each question, with their texts, written to files.

    python -m bench.reader.dump --data DIR --stores DIR --out DIR [--corpora locomo de ...]

Each question is asked as `bench.quality` asks it (`intelligent_search`, tier 2, ten results); what its search hands to
`rank_candidates` is kept. A store gives `NAME.npz` and `NAME.json` (see `files.py`); one that is there is left alone.
"""

import argparse
import os
import sys
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import patch

import anyio

from bench.quality.asking import Places, Server
from bench.quality.corpora import CORPORA, Kind, Question, corpora_in
from bench.quality.stores import ROOMY, Stores
from bench.quality.systems import intelligent, row_of
from bench.reader.files import Asked, Ranked, Text, write_store
from memory_mcp.app import App
from memory_mcp.indexes.candidates import Candidates
from memory_mcp.indexes.files import Array
from memory_mcp.indexes.keys import message_name
from memory_mcp.search.layers import teleport
from memory_mcp.search.layers.score import BOTH, Ranking, Weights, rank_candidates

_TIER = 2


@contextmanager
def _captured() -> Iterator[list[Ranked]]:
    """Keep what is ranked meanwhile."""
    kept: list[Ranked] = []

    def keep(candidates: Candidates, weights: Weights, literal: bool, limit: int, boost: Array | None = None) -> Ranking:
        if weights is BOTH:
            kept.append(Ranked(candidates, literal))
        return rank_candidates(candidates, weights, literal, limit, boost)

    with patch.object(teleport, "rank_candidates", keep):
        yield kept


def texts_of(app: App, sessions: dict[str, str]) -> list[Text]:
    """All messages of a store, in their order."""
    events = (stored.event for batch in app.storage.events.iter_all() for stored in batch)
    return [
        Text(message_name(e.event_id), e.source_id, sessions.get(e.source_id, e.session_id), e.role.value, e.speaker, e.text)
        for e in sorted(events, key=lambda e: (e.session_id, e.timestamp))
    ]


async def ask(app: App, sessions: dict[str, str], questions: Sequence[Question]) -> tuple[list[Asked], list[Ranked]]:
    """Ask every question; what was ranked first for each, over all time, and how the whole answer did."""
    server, places, system = Server(app), Places(app, sessions), intelligent(_TIER)
    asked, ranked = [], []
    for question in questions:
        with _captured() as kept:
            answer = await server.call(system.tool, system.asked(question))
        row = row_of(system.name, question, answer, [places.of(r) for r in answer.results])
        if not kept:
            print(f"  nothing ranked for {question.corpus} {question.id}", file=sys.stderr)
            continue
        whole = row.found / row.gold if row.gold else None
        asked.append(Asked.of(question, len(kept), row.session_rank, whole))
        ranked.append(kept[0])
    return asked, ranked


def main(given: Sequence[str]) -> int:
    """Write the files of every store that has none yet."""
    parser = argparse.ArgumentParser(prog="python -m bench.reader.dump", description=(__doc__ or "").splitlines()[0])
    for name in ("--data", "--stores", "--out"):
        parser.add_argument(name, type=Path, required=True)
    parser.add_argument("--corpora", nargs="+", choices=CORPORA, default=list(CORPORA), metavar="NAME")
    arguments = parser.parse_args(given)
    corpora = corpora_in(arguments.data, arguments.corpora)
    stores = Stores(arguments.stores, corpora.stores)
    by_store: dict[str, list[Question]] = defaultdict(list)
    for question in corpora.questions:
        if question.kind is Kind.ANSWERABLE:
            by_store[question.store].append(question)
    arguments.out.mkdir(parents=True, exist_ok=True)
    for name, questions in by_store.items():
        if (arguments.out / f"{name}.json").exists():
            continue
        began = time.monotonic()
        with stores.opened(name, _TIER, ROOMY) as app:
            sessions = dict(stores.sessions(name))
            asked, ranked = anyio.run(ask, app, sessions, questions)
            write_store(arguments.out, name, texts_of(app, sessions), asked, ranked)
        print(f"  {name}: {len(asked)} questions in {time.monotonic() - began:.0f} s", file=sys.stderr, flush=True)
    return 0


if __name__ == "__main__":
    os.nice(10)
    sys.exit(main(sys.argv[1:]))
