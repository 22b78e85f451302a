"""What the program notices by itself: worked out from what is stored, flat in cost, the same after a rebuild."""

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from memory_mcp.app import App
from memory_mcp.model.calendar import Calendar
from memory_mcp.model.event import EventDraft, Role
from memory_mcp.model.grip import CONTRADICTION_AUTHOR, CONTRADICTION_REASON, Supersession
from memory_mcp.storage.duckdb.records import DuckSuperseded
from memory_mcp.storage.values import Scope
from memory_mcp.tree.toc.noticed import Contradictions
from memory_mcp.tree.toc.statements import format_statement, stretch_rules
from memory_mcp.tree.toc.told import load_stretches
from tests.factories import SHOP, a_small_history, draft
from tests.fakes import FakeClock
from tests.filled import filled
from tests.waiting import PATIENCE, until
from tests.work import asked_of_the_store

OLD, NEW = "We decided to use Postgres for the orders ledger.", "We decided to use MySQL for the orders ledger."


@pytest.fixture
def memory(data_dir: Path, clock: FakeClock) -> Iterator[App]:
    app = App(filled(data_dir, a_small_history(1)), clock)
    yield app
    app.close()


def tell(app: App, *drafts: EventDraft) -> None:
    app.write(drafts, "test")
    app.derivation.run()


def marks(app: App) -> list[Supersession]:
    """What holds no more, as a process that has just begun works it out; and as this one has it, which is the same."""
    fresh = Contradictions(app.storage, Calendar("Europe/Berlin")).find_contradictions()
    known = app.storage.superseded.get_successors(fresh)
    assert {old: several[-1].words for old, several in fresh.items()} == {old: one.words for old, one in known.items()}
    return [one for several in fresh.values() for one in several]


def test_only_the_newer_stands_against_the_older_whichever_comes_first(memory: App) -> None:
    tell(memory, draft(NEW, "2026-01-22 09:00", session="b"))
    assert not marks(memory)
    tell(memory, draft(OLD, "2026-01-20 09:00", session="a"))
    [one] = marks(memory)
    assert (one.author, one.reason, one.words) == (CONTRADICTION_AUTHOR, CONTRADICTION_REASON, OLD)
    assert memory.evidence.expand_grip(one.old, 0, 0).quote == OLD


def test_a_live_event_costs_no_more_among_many_statements(memory: App) -> None:
    def rows_of_one(day: int) -> int:
        tell(memory, draft("The parcels are late again.", f"2026-02-{day:02d} 09:00", session=f"live-{day}"))
        with asked_of_the_store() as read:
            assert not memory.storage.superseded.get_successors([])
        return read.rows

    memory.storage.superseded.is_empty()
    few = rows_of_one(1)
    things = "ledger basket voucher parcel invoice coupon shelf drawer cellar attic".split()
    said = [(f"We decided to use {w}{n} for the {w} in room {n}", n, m) for n in range(10) for m, w in enumerate(things)]
    tell(memory, *(draft(text, f"2026-01-{n + 10:02d} 10:{m:02d}", f"many-{n}-{m}") for text, n, m in said))
    memory.storage.superseded.is_empty()
    assert rows_of_one(2) <= few


def test_another_project_an_agent_a_tool_a_helper_and_a_question_mark_nothing(memory: App) -> None:
    between = [
        draft(NEW, "2026-01-22 09:00", session="b", project="github.com/acme/other"),
        draft(NEW, "2026-01-22 09:00", session="c", role=Role.ASSISTANT),
        draft(NEW, "2026-01-22 09:00", session="d", role=Role.TOOL),
        draft(NEW, "2026-01-22 09:00", session="e", thread="helper"),
        draft(NEW.replace(".", "?"), "2026-01-22 09:00", session="f"),
        draft("If we decided to use MySQL for the orders ledger, it would break.", "2026-01-22 09:00", session="g"),
    ]
    tell(memory, draft(OLD, "2026-01-20 09:00", session="a"), *between)
    assert not marks(memory)
    # Without a project nothing is known to be about one thing.
    told = ((OLD, "2026-01-20 09:00", "h"), (NEW, "2026-01-22 09:00", "i"))
    tell(memory, *(draft(text, at, session, project="") for text, at, session in told))
    assert not marks(memory)


def test_a_briefing_tells_it_behind_what_holds_and_other_words_of_the_same_message_still_hold(memory: App) -> None:
    beside = "We decided that the zebra lives in the attic."
    tell(memory, draft(f"{OLD} {beside}", "2026-01-20 09:00", session="a"), draft(NEW, "2026-01-22 09:00", session="b"))
    cuts = [cut for cut in memory.storage.toc.list_segments(Scope(project=SHOP)) if cut.session_id in ("a", "b")]
    first, second = load_stretches(memory.storage, cuts, most=9)
    told = [format_statement(said, label) for said, label in stretch_rules(first)]
    [one] = marks(memory)
    assert told[-1].endswith(f"({CONTRADICTION_REASON}: {one.new})")
    assert [OLD in row for row in told] == [False, True]
    pairs = [stretch_rules(first)[0], *stretch_rules(second)]
    assert all(CONTRADICTION_REASON not in format_statement(said, label) for said, label in pairs)


def test_a_reader_does_not_wait_while_another_thread_searches_through_the_store(
    memory: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    tell(memory, draft(OLD, "2026-01-20 09:00", session="a"), draft(NEW, "2026-01-22 09:00", session="b"))
    fresh = Contradictions(memory.storage, Calendar("Europe/Berlin"))
    begun, may_end, search = threading.Event(), threading.Event(), memory.storage.superseded.list_statements

    def slow(*given: Any) -> Any:
        begun.set()
        assert may_end.wait(PATIENCE)
        return search(*given)

    monkeypatch.setattr(memory.storage.superseded, "list_statements", slow)
    first = threading.Thread(target=fresh.find_contradictions)
    first.start()
    assert begun.wait(PATIENCE)
    assert not fresh.find_contradictions()
    may_end.set()
    first.join(PATIENCE)
    assert len(fresh.find_contradictions()) == 1


def test_the_next_process_knows_without_a_search_and_follows_what_comes(
    data_dir: Path, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings, saved = filled(data_dir, a_small_history(1)), data_dir / "indexes" / "contradictions.json"
    searches: list[int] = []
    search = DuckSuperseded.list_statements

    def count_search(*given: Any) -> Any:
        searches.append(1)
        return search(*given)

    monkeypatch.setattr(DuckSuperseded, "list_statements", count_search)

    def open_and_count(*drafts: EventDraft, most: int = 1) -> tuple[list[Supersession], int]:
        app = App(settings, clock)
        searches.clear()
        tell(app, *drafts)
        # With new statements the store is searched through in another thread.
        until(lambda: len(app.contradictions.find_contradictions()) == most)
        found = [one for several in app.contradictions.find_contradictions().values() for one in several]
        count = len(searches)
        assert marks(app) == found
        app.close()
        return found, count

    told = (draft(OLD, "2026-01-20 09:00", session="a"), draft(NEW, "2026-01-22 09:00", session="b"))
    [one], count = open_and_count(*told)
    assert count == 1
    assert one.words == OLD
    assert OLD.encode() not in saved.read_bytes()
    assert open_and_count() == ([one], 0)
    # What is damaged, of another state or another store is none.
    for content in (b"{", saved.read_bytes().replace(b'"of": "1 ', b'"of": "0 '), saved.read_bytes()[:-9], b""):
        saved.write_bytes(content)
        assert open_and_count() == ([one], 1)
        assert open_and_count() == ([one], 0)
    between = draft(OLD.replace("Postgres", "Oracle"), "2026-01-21 09:00", session="c")
    found, count = open_and_count(between, most=2)
    assert (found[0].old, count) == (one.old, 1)
    assert open_and_count(most=2) == (found, 0)
    app = App(settings, clock)
    app.storage.drop_caches()
    assert not saved.exists()
    app.close()
