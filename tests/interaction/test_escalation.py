"""The last resort: what no term set and no index can find is found by reading, when the question allows it, and it costs."""

import random
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import pytest

from memory_mcp.app import App
from memory_mcp.base.clock import SystemClock
from memory_mcp.base.errors import StorageError
from memory_mcp.model.calendar import TimeWindow
from memory_mcp.model.ids import GripId
from memory_mcp.search.layers.base import Hit, Query, Slice, pending_hit
from memory_mcp.search.layers.budget import Budget, StopConditions
from memory_mcp.search.policy.escalate import AT_ONCE, scan_events
from memory_mcp.search.policy.path import at_work
from memory_mcp.server.build import build_server
from tests.factories import BILLING, SHOP, draft, event
from tests.fakes import FakeClock
from tests.interaction.conftest import Door, history, open_app
from tests.waiting import PATIENCE, until

#: A part of an identifier that is stored as one word, of the shop's in January, of the billing's in February, of both in spring.
PART, OTHERS, TWICE = "llocPag", "quetteWid", "frobniz"


@pytest.fixture(scope="module")
def app() -> Iterator[App]:
    made = open_app(profile="full", days=None, clock=FakeClock())
    said = [
        ("2026-01-14 10:00", "s1", SHOP, "The allocator calls reallocPagesNow before every flush."),
        ("2026-02-18 10:00", "s2", BILLING, "The label printer loads etiquetteWidget at start."),
        ("2026-01-08 11:00", "s3", SHOP, "The old way was xfrobnizate with a mutex."),
        ("2026-02-20 11:00", "s4", SHOP, "The new way is yfrobnizator without one."),
        ("2025-12-03 09:00", "s5", SHOP, "Ein Straßenschild im ÄRGERNISPLAN."),
    ]
    made.write([*history(), *(draft(text, at=at, session=s, project=p) for at, s, p, text in said)], "jsonl")
    made.derivation.run()
    yield made
    made.close()


@pytest.fixture
def client(app: App) -> Door:
    return Door(app, "auto", SHOP, server=build_server(app, SHOP))


def test_a_part_of_a_word_in_quotes_is_found_by_reading_the_cost_is_said_and_its_grip_leads_to_the_exact_words(
    client: Door,
) -> None:
    told = client.ok("intelligent_search", query=f'"{PART}"', detail="full")
    assert ["reallocPagesNow" in r["quote"] for r in told["results"]] == [True]
    assert told["results"][0]["grip_ids"]
    assert told["results"][0]["id"].startswith("toc:segment:")
    why = told["explanation"]
    assert why["method_used"] == "scan"
    scan = why["scan"]
    assert scan["read"] == scan["slices"] > 1
    assert scan["events"] > 50
    assert scan["found"] == 1
    assert scan["why"]
    assert scan["ms"] >= 0
    expanded = client.ok("expand_grip", grip_id=told["results"][0]["grip_ids"][0])
    assert PART in str(expanded)


def test_case_does_not_matter_beyond_ascii_either(client: Door) -> None:
    [found] = client.full("intelligent_search", query='"gernisplan"')["results"]
    assert "ÄRGERNISPLAN" in found["quote"]
    [other] = client.full("intelligent_search", query='"ärgernis"')["results"]
    assert other["id"] == found["id"]


def test_an_event_of_another_project_is_never_found(client: Door) -> None:
    assert client.full("intelligent_search", query=f'"{OTHERS}"')["results"] == []
    assert client.full("intelligent_search", query=f'"{OTHERS}"', agent="codex", scope="all")["results"] == []
    [found] = client.full("intelligent_search", query=f'"{OTHERS}"', scope="all")["results"]
    assert found["project"] == BILLING


def test_the_newest_comes_first_and_a_time_bounds_what_is_read(client: Door) -> None:
    whole = client.ok("intelligent_search", query=f'"{TWICE}"', detail="full")
    assert [r["when"][:7] for r in whole["results"]] == ["2026-02", "2026-01"]
    part = client.ok("intelligent_search", query=f'"{TWICE}"', since="2026-01-01", until="2026-01-31", detail="full")
    assert [r["when"][:7] for r in part["results"]] == ["2026-01"]
    assert part["explanation"]["scan"]["events"] < whole["explanation"]["scan"]["events"]


def test_a_time_boxed_question_is_never_answered_by_reading(client: Door) -> None:
    for call in ({"intent": "time_boxed"}, {"timeout_ms": 2000}):
        told = client.ok("intelligent_search", query=f'"{PART}"', detail="full", **call)
        assert told["results"] == []
        assert "scan" not in told["explanation"]


@pytest.mark.parametrize("intent", [{}, {"intent": "locate"}])
@pytest.mark.few(1)
def test_a_text_that_is_stored_word_for_word_is_found_before_everything_else(
    app: App, client: Door, intent: dict[str, str]
) -> None:
    """Pieces of any message, cut in the middle of words, where the walk may compare five segments."""
    rng = random.Random(4)
    said = [e.event.text for batch in app.storage.events.iter_all() for e in batch if len(e.event.text) >= 30]
    for text in rng.sample(said, 20):
        begin = rng.randrange(len(text) - 24)
        piece = text[begin : begin + rng.randrange(24, 200)].strip()
        told = client.ok("intelligent_search", query=piece, scope="all", bounds={"max_nodes_visited": 5}, detail="full", **intent)
        events = app.storage.events.get_events([r["event_id"] for r in told["results"] if r["event_id"]])
        assert any(piece in e.text for e in events.values()), piece
        first = events[told["results"][0]["event_id"]]
        assert piece in first.text, piece


def test_evidence_enough_is_not_read_behind(client: Door) -> None:
    told = client.ok("intelligent_search", query="refresh token grace window", detail="full")
    assert told["results"]
    assert "scan" not in told["explanation"]


def test_the_number_of_calls_bounds_the_slices_read(client: Door) -> None:
    told = client.ok("intelligent_search", query=f'"{PART}"', bounds={"max_rpc_calls": 3}, detail="full")["explanation"]
    assert told["rpc_calls"] <= 4
    if "scan" in told:
        assert told["scan"]["read"] < told["scan"]["slices"]
        assert "max_rpc_calls" in told["bounds_hit"]


@dataclass
class Slices:
    """A scanner of four slices; those at `deaf` block until their thread is interrupted."""

    deaf: frozenset[int] = frozenset()
    #: The newest, and what it waits for: another that has been read.
    behind: threading.Event | None = None
    broken: Exception | None = None
    seen: list[int] = field(default_factory=list)
    most: int = 0
    _now: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _stopped: dict[int, threading.Event] = field(default_factory=dict)

    def read_named(self, query: Query, words: Sequence[str], _: object = None) -> Slice | None:
        del query, words
        return None

    def read_at_once(self, query: Query, words: Sequence[str]) -> Slice | None:
        return self.read_named(query, words)

    def list_slices(self, query: Query) -> list[tuple[TimeWindow, int]]:
        del query
        return [(TimeWindow(n, n + 1), 10) for n in (3, 2, 1, 0)]

    def read_slice(self, query: Query, words: Sequence[str]) -> tuple[Hit, ...]:
        del words
        assert query.window is not None
        place = query.window.start_ms
        with self._lock:
            self.seen.append(place)
            self._now += 1
            self.most = max(self.most, self._now)
            stopped = self._stopped.setdefault(threading.get_ident(), threading.Event())
        try:
            if self.broken is not None:
                raise self.broken
            if self.behind is not None and place == 3:
                assert self.behind.wait(PATIENCE)
            if place in self.deaf:
                assert stopped.wait(PATIENCE)
                raise StorageError("interrupted")
            return (self.hit(place),)
        finally:
            if self.behind is not None and place == 2:
                self.behind.set()
            with self._lock:
                self._now -= 1

    def hit(self, place: int) -> Hit:
        return pending_hit(event(f"said at {place}", at=place), GripId(f"grip:{place}:x"), f"said at {place}", 0.5)

    def interrupt(self, thread: int) -> None:
        if thread in self._stopped:
            self._stopped[thread].set()


def read(scanner: Slices, limit: int = 10, timeout_ms: int = 5000) -> tuple[list[str], object, Budget]:
    budget = Budget(StopConditions(timeout_ms=timeout_ms), SystemClock())
    hits, scan = scan_events(scanner, Query("x", limit), ("x",), budget, "why", scanner.interrupt)
    return [h.quote for h in hits], scan, budget


def test_slices_are_read_side_by_side_and_told_in_order_also_where_an_older_one_is_done_sooner() -> None:
    scanner = Slices()
    quotes, _, _ = read(scanner)
    assert quotes == [f"said at {n}" for n in (3, 2, 1, 0)]
    assert scanner.most <= AT_ONCE
    quotes, _, _ = read(Slices(behind=threading.Event()), timeout_ms=60_000)
    assert quotes == [f"said at {n}" for n in (3, 2, 1, 0)]


def test_enough_results_end_a_scan_early() -> None:
    scanner = Slices()
    quotes, _, _ = read(scanner, limit=1)
    assert quotes == ["said at 3"]
    assert len(scanner.seen) < 4


def test_a_scan_that_is_cut_short_ends_with_its_time_and_gives_the_slices_it_has() -> None:
    scanner = Slices(deaf=frozenset({2}))
    quotes, scan, budget = read(scanner, timeout_ms=1000)
    assert quotes == ["said at 3", "said at 1", "said at 0"]
    assert (scan.slices, scan.read, scan.events) == (4, 3, 30)  # type: ignore[attr-defined]
    assert budget.spent.hit == ["timeout_ms"]
    until(lambda: not at_work())


def test_a_store_that_cannot_be_read_is_an_error_of_the_search_and_any_other_failure_only_ends_the_scan() -> None:
    with pytest.raises(StorageError):
        read(Slices(broken=StorageError("the file is gone")))
    quotes, scan, _ = read(Slices(broken=ValueError("broken")))
    assert quotes == []
    assert scan.read == 0  # type: ignore[attr-defined]
