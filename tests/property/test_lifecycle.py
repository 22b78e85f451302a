"""A store's whole life in random order: whatever happens to it, it stays sound and what was said is found.

A failing sequence is kept below as a test of its own, with a name that says what went wrong.
"""

import random
import shutil
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memory_mcp.app import App
from memory_mcp.config import Settings
from memory_mcp.model.calendar import Calendar
from memory_mcp.model.event import EventDraft, EventType
from memory_mcp.search.layers.base import Query
from memory_mcp.search.layers.budget import Budget, StopConditions
from memory_mcp.storage.settings import StorageSettings
from memory_mcp.tree.derive.derivation import Depth
from memory_mcp.tree.toc.check import check_store
from tests.factories import BILLING, SHOP, draft, ms
from tests.fakes import NOON, FakeClock
from tests.toc.helpers import rebuild, texts

Where = Callable[[], StorageSettings]
HOUR = 3_600_000
_REST = ("roll up", "reopen", "kill", "copy rows", "rebuild", "fold", "compact", "drop tree", "pin")
STEPS = ("append", "append", "append late", "append again", "append other words", "derive", "derive", "derive", *_REST)
SEQUENCES = st.lists(st.tuples(st.sampled_from(STEPS), st.integers(0, 2**32)), min_size=1, max_size=12)
#: Words no stemmer changes; each planted one is said exactly once.
NAMES = [
    f"{a}{b}"
    for a in ("zirconium", "palladium", "osmium", "iridium", "rhodium")
    for b in ("alpha", "beta", "gamma", "delta", "omega")
]
CHATTER = "the retry queue is drained twice because the bank is slow and the cart rounds each line".split()


class Life:
    """One memory, the program that has it open, and what was acknowledged so far."""

    def __init__(self, where: StorageSettings) -> None:
        self.where = where
        self.clock = FakeClock()
        self.app = self._open()
        self.stored: list[EventDraft] = []
        self.planted: dict[str, str] = {}
        self.count = 0
        self.shown: set[str] = set()

    def _open(self) -> App:
        return App(Settings(storage=self.where), self.clock)

    def step(self, name: str, seed: int) -> None:
        """One operation, decided by its seed alone."""
        rng = random.Random(seed)
        getattr(self, "_" + name.replace(" ", "_"))(rng)

    def _batch(self, rng: random.Random, begin: int) -> list[EventDraft]:
        drafts = []
        session, project = rng.choice(["a", "b", "c"]), rng.choice([SHOP, BILLING])
        for i in range(rng.randrange(1, 8)):
            begin += rng.choice([1000, 60_000, 31 * 60_000, 0])
            words = rng.choices(CHATTER, k=rng.choice([5, 40, 2500]))
            if rng.random() < 0.2 and len(self.planted) < len(NAMES):
                name = NAMES[len(self.planted)]
                self.planted[name] = project
                words.insert(rng.randrange(len(words)), name)
            kind = EventType.SESSION_END if rng.random() < 0.1 else None
            drafts.append(
                draft(" ".join(words), at=begin, session=session, project=project, source_id=f"{self.count}/{i}", kind=kind)
            )
        self.count += 1
        return drafts

    def _write(self, drafts: Sequence[EventDraft]) -> None:
        appended = self.app.write(drafts, "test")
        assert len(appended.new_ids) + len(appended.known_ids) == len(drafts)
        self.stored += drafts

    def _append(self, rng: random.Random) -> None:
        self._write(self._batch(rng, ms("2026-02-01 08:00") + self.count * HOUR))

    def _append_late(self, rng: random.Random) -> None:
        self._write(self._batch(rng, ms("2025-12-29 08:00") + rng.randrange(1200) * HOUR))

    def _append_again(self, rng: random.Random) -> None:
        if self.stored:
            again = rng.sample(self.stored, min(5, len(self.stored)))
            assert self.app.write(again, "test").new_ids == ()

    def _append_other_words(self, rng: random.Random) -> None:
        if self.stored:
            known = rng.choice(self.stored)
            text = f"other words for it, number {rng.randrange(9)}"
            self.app.write(
                [draft(text, at=known.timestamp, session=known.session_id, project=known.project, source_id=known.source_id)],
                "test",
            )

    def _derive(self, rng: random.Random) -> None:
        self.app.derivation.run()

    def _roll_up(self, rng: random.Random) -> None:
        self.app.derivation.run(Depth.SEGMENTS)
        self.app.derivation.run(Depth.PERIODS)

    def _reopen(self, rng: random.Random) -> None:
        self.app.close()
        self.app = self._open()

    def _kill(self, rng: random.Random) -> None:
        """The process ends without closing anything, and another one opens what it left."""
        if self.where.engine == "duckdb":
            directory = Path(self.where.data_dir)
            left = directory.with_name(f"killed-{self.count}-{rng.random()}")
            shutil.copytree(directory, left, ignore=shutil.ignore_patterns("lock"))
            self.app.close()
            shutil.rmtree(directory)
            left.rename(directory)
            self.app = self._open()
        self._copy_rows(rng)

    def _copy_rows(self, rng: random.Random) -> None:
        """From now on what is checked is read from the copy."""
        self.app.storage.copy_rows(lambda: False)

    def _rebuild(self, rng: random.Random) -> None:
        self.app.derivation.run()
        report = rebuild(self.app)
        assert (report.nodes_changed, report.nodes_dropped, report.terms_rewritten) == (0, 0, 0)

    def _fold(self, rng: random.Random) -> None:
        self.app.storage.toc.fold_terms(rng.randrange(1, 4))

    def _compact(self, rng: random.Random) -> None:
        self.app.storage.compact_files()

    def _drop_tree(self, rng: random.Random) -> None:
        """Everything derived but cuts and grips is lost, and made again."""
        self.app.derivation.run()
        before = texts(self.app)
        self.app.storage.toc.drop_nodes([n.node_id for n in self.app.storage.toc.iter_nodes()])
        rebuild(self.app)
        assert texts(self.app) == before
        self._reopen(rng)

    def _pin(self, rng: random.Random) -> None:
        nodes = [n.node_id for n in self.app.storage.toc.iter_nodes()]
        if nodes:
            self.app.storage.toc.set_pin(rng.choice(nodes), rng.random() < 0.5, "agent")

    def holds(self) -> None:
        """What must be true after every step."""
        findings = [f for f in check_store(self.app.storage, Calendar("Europe/Berlin")) if not self._stale(f.rule)]
        assert findings == []
        for name in list(self.planted)[-1:]:
            self.finds(name)
        for node_id in self.shown:
            assert self.app.storage.toc.find_node(node_id) is not None, "an id that was shown must keep resolving"  # type: ignore[arg-type]
        self.shown |= {c.node_id for c in self.app.storage.toc.iter_cuts()}

    def _stale(self, rule: str) -> bool:
        return rule in ("nodes", "freshness") and self.app.derivation.count_pending() > 0

    def finds(self, name: str) -> None:
        """The planted word, in its own project, by its exact words; and not in the other project."""
        for project in (None, self.planted[name]):
            budget = Budget(StopConditions(max_nodes_visited=5000, max_rpc_calls=500, timeout_ms=60_000), self.clock)
            answer = self.app.agentic.search(Query(name, 3, project), budget)
            assert answer.hits, name
            assert name in answer.hits[0].quote
            assert self.app.evidence.expand_grip(answer.hits[0].grip_ids[0]).verified
        other = BILLING if self.planted[name] == SHOP else SHOP
        budget = Budget(StopConditions(max_nodes_visited=5000, max_rpc_calls=500, timeout_ms=60_000), self.clock)
        assert self.app.agentic.search(Query(name, 3, other), budget).hits == ()


def live(where: StorageSettings, steps: Sequence[tuple[str, int]], each: bool = True) -> None:
    """A life of these steps, checked after every one of them and at its end."""
    directory = Path(tempfile.mkdtemp())
    life = Life(replace(where, data_dir=str(directory / "data")))
    try:
        for name, seed in steps:
            life.step(name, seed)
            if each:
                life.holds()
        life.app.derivation.run()
        life.holds()
        for name in life.planted:
            life.finds(name)
        rows = life.app.storage.get_stats().rows["event"]
        assert rows >= len({d.source_id for d in life.stored})
    finally:
        life.app.close()
        shutil.rmtree(directory)


@settings(max_examples=2)
@given(steps=SEQUENCES)
@pytest.mark.usefixtures("processes")
def test_a_store_stays_sound_through_any_sequence_of_operations(kept_in: Where, steps: list[tuple[str, int]]) -> None:
    live(kept_in(), steps)


@pytest.mark.slow
@pytest.mark.timeout(3600)
# Some 3 s of CPU each, with each engine; every night has others.
@settings(max_examples=60)
@given(steps=st.lists(st.tuples(st.sampled_from(STEPS), st.integers(0, 2**32)), min_size=5, max_size=40))
def test_a_store_stays_sound_through_many_long_sequences(kept_in: Where, steps: list[tuple[str, int]]) -> None:
    live(kept_in(), steps)


def test_every_operation_once_on_a_store_that_holds_something(kept_in: Where) -> None:
    live(kept_in(), [("append", 0), ("derive", 0), *[(name, seed) for seed, name in enumerate(dict.fromkeys(STEPS), 1)]])


@pytest.mark.usefixtures("processes")
def test_now_lies_behind_everything_that_happens_here() -> None:
    assert ms("2026-02-01 08:00") + 12 * HOUR < NOON
