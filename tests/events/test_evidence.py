"""Expanding a grip: the exact words, verified against the stored event, and what was said around them."""

import pytest

from memory_mcp.base.errors import NotFound
from memory_mcp.capture.evidence import Evidence
from memory_mcp.model.event import Event, EventType, Role
from memory_mcp.model.grip import JOINT, Grip
from memory_mcp.model.ids import span_grip_id
from memory_mcp.storage.duckdb.store import DuckStorage
from memory_mcp.storage.values import Build
from memory_mcp.tree.derive.grips import cut_grips
from tests.factories import BILLING, event, grip, run_of
from tests.requirements import requirement
from tests.work import asked_of_the_store


def store(storage: DuckStorage, events: list[Event], *grips: Grip) -> Evidence:
    storage.events.append(events)
    storage.toc.publish_build(Build(grips=grips))
    return Evidence(storage)


@requirement("contract:disclosure-expand-grip", "bm25:level-4-evidence", "plan:integration-expand-grip")
def test_a_grip_leads_to_its_exact_words_and_its_neighbours(storage: DuckStorage) -> None:
    own = run_of(9)
    mine = grip(own[4], 5, 11, segment=42)
    expanded = store(storage, own, mine).expand_grip(mine.grip_id, before=2, after=3)
    assert expanded.quote == own[4].text[5:11]
    assert (expanded.verified, expanded.node_segment) == (True, 42)
    assert (expanded.before, expanded.excerpt, expanded.after) == (tuple(own[2:4]), (own[4],), tuple(own[5:8]))


def test_many_quotations_are_read_as_one_is(storage: DuckStorage) -> None:
    """Looking an event up is a scan: what counts is how many statements there are."""
    own = run_of(9)
    grips = [grip(one, 0, 6) for one in own]
    evidence, counted = store(storage, own, *grips), []
    for some in (grips[:1], grips):
        with asked_of_the_store() as read:
            assert len(evidence.read_quotes(some)) == len(some)
        counted.append(len(read.statements))
    assert counted[0] == counted[1] <= 2


def test_context_never_leaves_the_session_the_project_and_the_thread(storage: DuckStorage) -> None:
    own = run_of(5)
    others = [*run_of(9, session="s2"), *run_of(9, thread="sub"), *run_of(9, project=BILLING)]
    mine = grip(own[2])
    expanded = store(storage, [*others, *own], mine).expand_grip(mine.grip_id, before=50, after=50)
    assert (expanded.before, expanded.after) == (tuple(own[:2]), tuple(own[3:]))


@requirement("bm25:session-expand-grip")
def test_a_bare_id_expands_too(storage: DuckStorage) -> None:
    own = run_of(3)
    mine = grip(own[1])
    evidence = store(storage, own, mine)
    assert evidence.expand_grip(mine.grip_id.rsplit(":", 1)[1]) == evidence.expand_grip(mine.grip_id)


def test_words_that_changed_in_the_store_are_not_verified(storage: DuckStorage) -> None:
    own = run_of(3)
    mine, untouched = grip(own[1]), grip(own[0])
    evidence = store(storage, own, mine, untouched)
    with storage.connection.begin_transaction() as con:
        con.execute("UPDATE event SET text = 'quite other words, much longer than before' WHERE seq = 2")
    storage.drop_caches()
    assert evidence.expand_grip(mine.grip_id).verified is False
    assert evidence.expand_grip(untouched.grip_id).verified is True


def test_a_command_and_its_result_are_one_excerpt_in_order(storage: DuckStorage) -> None:
    call = event("make", kind=EventType.TOOL_CALL, role=Role.ASSISTANT, metadata={"command": "make"})
    after = event("thanks", at="2026-01-12 09:05")
    result = event("built", at="2026-01-12 09:01", role=Role.TOOL)
    (pair,) = cut_grips(result, call, 1)
    expanded = store(storage, [call, result, after], pair).expand_grip(pair.grip_id)
    assert expanded.quote == f"make{JOINT}built"
    assert (expanded.excerpt, expanded.after, expanded.verified) == ((call, result), (after,), True)


def test_a_span_grip_needs_no_stored_row(storage: DuckStorage) -> None:
    own = run_of(3)
    evidence = store(storage, own)
    expanded = evidence.expand_grip(span_grip_id(own[1].event_id, 0, 6))
    assert (expanded.quote, expanded.verified, expanded.node_segment) == (own[1].text[:6], True, None)
    assert expanded.before == (own[0],)


def test_a_span_beyond_its_event_is_not_found(storage: DuckStorage) -> None:
    own = run_of(1)
    evidence = store(storage, own)
    for start, end in ((0, len(own[0].text) + 1), (5, 5), (9, 3)):
        with pytest.raises(NotFound):
            evidence.expand_grip(span_grip_id(own[0].event_id, start, end))


@pytest.mark.parametrize(
    "grip_id",
    ["grip:5:0123456789abcdef", "0123456789abcdef", "grip:5:0123456789abcdef-0-5", "grip:999999999999999:zzzzzzzzzzzzzzzz"],
)
def test_an_unknown_grip_is_not_found_and_says_where_to_get_one(storage: DuckStorage, grip_id: str) -> None:
    with pytest.raises(NotFound, match="browse_toc"):
        Evidence(storage).expand_grip(grip_id)


def test_a_grip_whose_event_is_gone_is_not_found(storage: DuckStorage) -> None:
    own = run_of(2)
    mine = grip(own[1])
    evidence = store(storage, own, mine)
    with storage.connection.begin_transaction() as con:
        con.execute("DELETE FROM event WHERE seq = 2")
    storage.drop_caches()
    with pytest.raises(NotFound):
        evidence.expand_grip(mine.grip_id)


@pytest.mark.parametrize(("before", "after"), [(0, 0), (-1, -3), (0, 2), (10_000, 0)])
def test_any_number_of_neighbours_may_be_asked_for(storage: DuckStorage, before: int, after: int) -> None:
    own = run_of(120)
    mine = grip(own[60])
    expanded = store(storage, own, mine).expand_grip(mine.grip_id, before, after)
    assert len(expanded.before) == min(max(before, 0), 50)
    assert len(expanded.after) == max(after, 0)


def test_the_words_of_several_grips_are_read_at_once(storage: DuckStorage) -> None:
    own = run_of(3)
    one, two, gone = grip(own[0], 0, 4), grip(own[1], 2, 6), grip(event("never stored"))
    quotes = store(storage, own, one, two).read_quotes([one, two, gone])
    assert quotes == {one.grip_id: own[0].text[:4], two.grip_id: own[1].text[2:6]}
