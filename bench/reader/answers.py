"""Whole answers with the score of late interaction inside the search, and without: asked as `bench.quality` asks.

    python -m bench.reader.answers --data DIR --stores DIR --before FILE --after FILE [--corpora locomo de ...] [--half held]
        [--kinds answerable "taken out"] [--questions N] [--factor 8]
    python -m bench.quality compare BEFORE AFTER

Asked are ten results (tier 2), the default answer and, where a question has an expression for its answer, an agent's three steps.
"""

import argparse
import os
import re
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from unittest.mock import patch

import anyio

from bench.quality import rows as rows_file
from bench.quality.__main__ import chosen
from bench.quality.agent import Ours, Reading
from bench.quality.agent import row_of as row_of_agent
from bench.quality.asking import Places, Server
from bench.quality.corpora import CORPORA, Half, Kind, Question, corpora_in
from bench.quality.reduced import with_evidence_taken_out
from bench.quality.rows import Row
from bench.quality.stores import ROOMY, Stores
from bench.quality.systems import DEFAULT, System, intelligent, row_of
from bench.reader.dump import texts_of
from bench.reader.files import Store
from bench.reader.late import Reader, Shape, score
from bench.reader.tokens import Vocabulary
from memory_mcp.app import App
from memory_mcp.indexes.base import IndexQuery
from memory_mcp.indexes.candidates import Candidates
from memory_mcp.indexes.files import Array
from memory_mcp.search.layers import teleport
from memory_mcp.search.layers.score import BOTH, Ranking, Weights, rank_candidates
from memory_mcp.search.layers.sides import Sides

_TIER = 2
#: What the tuning halves choose (`python -m bench.reader match`).
SHAPE = Shape(power=1.5, least=0.3, before=0.0, after=0.0)


@dataclass(slots=True)
class Scoring:
    """Adds a score to what the search ranks, while it is on."""

    reader: Reader
    factor: float
    is_on: bool = False
    #: Milliseconds of processor time of each question.
    costs: list[float] = field(default_factory=list)
    _question: str = ""

    @contextmanager
    def patched(self) -> Iterator[None]:
        """Stand between the search and its ranking."""
        list_messages = teleport.TeleportLayer.list_messages

        def noted(
            layer: teleport.TeleportLayer, sides: Sides, weights: Weights, query: IndexQuery, keyword_sides: Sides
        ) -> teleport.FoundHits:
            self._question = query.text
            return list_messages(layer, sides, weights, query, keyword_sides)

        with patch.object(teleport.TeleportLayer, "list_messages", noted), patch.object(teleport, "rank_candidates", self._rank):
            yield

    def _rank(self, candidates: Candidates, weights: Weights, literal: bool, limit: int, boost: Array | None = None) -> Ranking:
        if self.is_on and weights is BOTH and len(candidates):
            began = time.thread_time()
            matches = self.reader.match(self._question, self.reader.places_of(candidates.message.tolist()))
            own = self.factor * score(matches, SHAPE).astype(float)
            boost = own if boost is None else boost + own
            self.costs.append(1000 * (time.thread_time() - began))
        return rank_candidates(candidates, weights, literal, limit, boost)


async def ask(
    app: App, stores: Stores, name: str, systems: Sequence[System], questions: Sequence[Question], scoring: Scoring
) -> tuple[list[Row], list[Row]]:
    """Ask each question without and with the score, one after the other."""
    server, places = Server(app), Places(app, stores.sessions(name))
    before: list[Row] = []
    after: list[Row] = []
    for question in questions:
        for scoring.is_on, rows in ((False, before), (True, after)):
            for system in systems:
                if system.takes(question):
                    answer = await server.call(system.tool, system.asked(question))
                    found = [places.of(result) for result in answer.results]
                    rows.append(row_of(system.name, question, answer, found, places.quoted(answer)))
            if DEFAULT in systems and question.answer and question.kind is Kind.ANSWERABLE:
                reading = Reading(re.compile(question.answer, re.I | re.S))
                rows.append(row_of_agent(Ours.name, question, await reading.read(Ours(server, question).steps())))
    return before, after


def main(given: Sequence[str]) -> int:
    """Ask and write both files of rows."""
    parser = argparse.ArgumentParser(prog="python -m bench.reader.answers", description=(__doc__ or "").splitlines()[0])
    for name in ("--data", "--stores", "--before", "--after"):
        parser.add_argument(name, type=Path, required=True)
    parser.add_argument("--corpora", nargs="+", choices=CORPORA, default=list(CORPORA), metavar="NAME")
    parser.add_argument("--kinds", nargs="+", choices=list(Kind), default=[Kind.ANSWERABLE])
    parser.add_argument("--half", choices=(*Half, "all"), default="held")
    parser.add_argument("--questions", type=int, help="most questions of each corpus, store and kind")
    parser.add_argument("--factor", type=float, default=8.0)
    arguments = parser.parse_args(given)
    corpora = corpora_in(arguments.data, arguments.corpora)
    corpora = with_evidence_taken_out(corpora) if Kind.TAKEN_OUT in arguments.kinds else corpora
    stores, vocabulary = Stores(arguments.stores, corpora.stores), Vocabulary()
    rows_file.write(arguments.before, [])
    rows_file.write(arguments.after, [])
    for name, questions in chosen(corpora, arguments.half, arguments.questions, arguments.kinds).items():
        for systems, bounds in (([intelligent(_TIER)], ROOMY), ([DEFAULT], {"retrieval.bounds.timeout_ms": 60_000})):
            with stores.opened(name, _TIER, bounds) as app:
                texts = texts_of(app, dict(stores.sessions(name)))
                scoring = Scoring(Reader(Store(name, texts, (), ()), vocabulary, vocabulary.unit_rows, 0.0), arguments.factor)
                with scoring.patched():
                    before, after = anyio.run(ask, app, stores, name, systems, questions, scoring)
            rows_file.write(arguments.before, before, more=True)
            rows_file.write(arguments.after, after, more=True)
        cost = sorted(scoring.costs)[len(scoring.costs) // 2] if scoring.costs else 0.0
        print(f"  {name}: {len(questions)} questions, {cost:.1f} ms to match at the median", file=sys.stderr, flush=True)
    return 0


if __name__ == "__main__":
    os.nice(10)
    sys.exit(main(sys.argv[1:]))
