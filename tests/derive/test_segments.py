"""Segments: stretches of one stream, cut by pause, size and the session's end; every event in exactly one."""

import itertools
import random
from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_mcp.base.errors import ConfigError
from memory_mcp.model.event import RECAP, Event, EventType, Role
from memory_mcp.model.segment import Segment
from memory_mcp.model.tokens import estimate_tokens
from memory_mcp.tree.derive.segments import (
    CUTTER_VERSION,
    SegmentSettings,
    assign_events,
    overlap_before,
    recap_of,
    recut_stream,
    size_of,
)
from tests.factories import CALENDAR, SHOP, cut, event, ms, run_of
from tests.requirements import requirement

SETTINGS = SegmentSettings()
MINUTE = 60_000


def feed(batches: Sequence[Sequence[Event]], settings: SegmentSettings = SETTINGS) -> list[Segment]:
    """The cuts of one stream after several arrivals."""
    cuts: list[Segment] = []
    for batch in batches:
        changed = {c.key: c for c in assign_events(cuts, batch, CALENDAR, settings).changed}
        cuts = sorted(({c.key: c for c in cuts} | changed).values(), key=lambda c: c.start)
    return cuts


def members(cuts: Sequence[Segment], events: Sequence[Event]) -> list[list[int]]:
    """Numbers of the events that lie in each cut."""
    return [[i for i, e in enumerate(events) if c.start <= e.order <= c.end] for c in cuts]


@requirement("bm25:growth-segment")
def test_a_pause_of_more_than_thirty_minutes_starts_a_new_segment() -> None:
    at = ms("2026-01-12 09:00")
    events = [event(str(i), at=t) for i, t in enumerate([at, at + 30 * MINUTE, at + 60 * MINUTE + 1])]
    assert members(cut(events), events) == [[0, 1], [2]]


@requirement("bm25:growth-segment")
def test_a_new_segment_starts_before_the_event_that_would_pass_the_size() -> None:
    events = run_of(20, words=300)
    cuts = cut(events)
    assert len(cuts) > 1
    for one, inside in zip(cuts, members(cuts, events), strict=True):
        assert one.tokens == sum(estimate_tokens(events[i].text) for i in inside) <= 4000
    first = members(cuts, events)[0]
    assert cuts[0].tokens + estimate_tokens(events[first[-1] + 1].text) > 4000


def test_one_event_larger_than_the_size_is_a_segment_of_its_own_and_never_split() -> None:
    events = [
        event("a", at="2026-01-12 09:00"),
        event("word " * 10_000, at="2026-01-12 09:01"),
        event("b", at="2026-01-12 09:02"),
    ]
    assert members(cut(events), events) == [[0], [1], [2]]


def test_the_end_of_a_session_closes_its_segment_and_what_follows_starts_another() -> None:
    events = [
        event("work", at="2026-01-12 09:00"),
        event("bye", at="2026-01-12 09:01", kind=EventType.SESSION_END),
        event("again", at="2026-01-12 09:02"),
    ]
    cuts = cut(events)
    assert members(cuts, events) == [[0, 1], [2]]
    assert [c.open for c in cuts] == [False, True]


def test_a_segment_knows_its_stream_and_its_day_and_only_the_last_of_a_stream_is_open() -> None:
    at = ms("2026-01-12 09:00")
    cuts = cut([event(str(i), at=at + i * 60 * MINUTE) for i in range(4)])
    assert [c.open for c in cuts] == [False, False, False, True]
    assert [c.cut_no for c in cuts] == [0, 1, 2, 3]
    late = event("near midnight", at="2026-01-12 23:50", session="s9", thread="t1", agent="codex")
    (one,) = cut([late, event("after it", at="2026-01-13 00:05", session="s9", thread="t1")])
    assert (one.session_id, one.project, one.thread, one.agent) == ("s9", SHOP, "t1", "codex")
    assert (one.day, one.stream, one.events) == ("2026-01-12", late.stream, 2)
    assert one.node_id.startswith("toc:segment:2026-01-12:")


def test_sessions_projects_and_threads_are_streams_of_their_own() -> None:
    others = [event("x", session="s2"), event("x", project="other"), event("x", thread="sub")]
    assert len({event("x").stream, *(one.stream for one in others)}) == 4
    assert event("y", at="2026-05-01 10:00").stream == event("x").stream


# tools


def tool(at: str, size: int = 10, kind: EventType = EventType.TOOL_RESULT) -> Event:
    """A call or its output of so many tokens."""
    return event(f"{at} " + "x" * 4 * size, at=at, role=Role.TOOL, kind=kind)


@pytest.mark.parametrize("kind", [EventType.TOOL_CALL, EventType.TOOL_RESULT])
def test_what_a_tool_is_told_and_prints_hardly_counts(kind: EventType) -> None:
    events = [event("look at it", at="2026-01-12 09:00"), *(tool(f"2026-01-12 09:{m:02d}", 3000, kind) for m in range(1, 16))]
    (one,) = cut([*events, event("done", at="2026-01-12 09:20", role=Role.ASSISTANT)])
    assert one.tokens == estimate_tokens("look at it") + 15 * 200 + estimate_tokens("done")


def test_a_tool_belongs_to_whoever_asked_for_it_however_long_it_takes_also_behind_the_end_of_its_session() -> None:
    long = event("word " * 3190, at="2026-01-12 09:00")
    events = [long, tool("2026-01-12 09:01"), tool("2026-01-12 11:30"), event("and now?", at="2026-01-12 11:31")]
    assert members(cut(events), events) == [[0, 1, 2], [3]]
    end = event("bye", at="2026-01-12 09:01", kind=EventType.SESSION_END)
    events = [event("work", at="2026-01-12 09:00"), end, tool("2026-01-12 09:02")]
    (one,) = cut(events)
    assert (one.events, one.open) == (3, False)


def test_no_stretch_grows_without_end_by_tools_alone_and_a_message_joins_one_of_them() -> None:
    events = [event("go on", at="2026-01-12 09:00"), *(tool(f"2026-01-12 {10 + m // 60}:{m % 60:02d}", 500) for m in range(200))]
    cuts = cut(events)
    assert len(cuts) == 3
    assert all(c.tokens <= 4 * 4000 for c in cuts)
    later = [events[0], tool("2026-01-13 09:01")]
    assert members(cut(later), later) == [[0], [1]]
    events = [tool("2026-01-12 09:00"), tool("2026-01-12 10:00"), event("what was that?", at="2026-01-12 10:05")]
    (one,) = cut(events)
    assert one.events == 3


# older rules


def test_a_stream_cut_by_older_rules_keeps_the_ids_of_what_begins_where_it_did() -> None:
    events = [event("one", at="2026-01-12 09:00"), tool("2026-01-12 10:00"), event("two", at="2026-01-12 11:00")]
    old = [cut([e])[0] for e in events]
    old = [replace(c, cut_no=n, cutter=1, day="2026-01-11") for n, c in enumerate(old)]
    made = recut_stream(old, events, CALENDAR, SETTINGS)
    assert [(c.cut_no, c.events, c.cutter, c.day) for c in made] == [
        (0, 2, CUTTER_VERSION, "2026-01-11"),
        (2, 1, CUTTER_VERSION, "2026-01-11"),
    ]
    assert [c.key for c in made] == [old[0].key, old[2].key]
    # A beginning that is new has a number that none ever had.
    assert [c.cut_no for c in recut_stream(old[:2], [events[2]], CALENDAR, SETTINGS)] == [2]


# late events


def test_a_late_event_joins_the_segment_whose_time_it_falls_into_even_past_the_size() -> None:
    full = run_of(10, words=310)
    (one,) = cut(full)
    late = event("word " * 1000, at=full[3].timestamp + 1000)
    (grown,) = feed([full, [late]])
    assert (grown.key, grown.start, grown.end) == (one.key, one.start, one.end)
    assert grown.events == 11
    assert grown.tokens > 4000


def test_an_event_soon_after_a_middle_segment_joins_it_and_one_in_the_middle_of_a_long_pause_opens_one_between() -> None:
    at = ms("2026-01-12 09:00")
    known = [event("a", at=at), event("b", at=at + 120 * MINUTE)]
    late = event("c", at=at + 10 * MINUTE)
    cuts = feed([known, [late]])
    assert members(cuts, [*known, late]) == [[0, 2], [1]]
    assert [c.open for c in cuts] == [False, True]
    late = event("c", at=at + 60 * MINUTE)
    cuts = feed([known, [late]])
    assert members(cuts, [*known, late]) == [[0], [2], [1]]
    assert [c.cut_no for c in cuts] == [0, 2, 1]
    assert [c.open for c in cuts] == [False, False, True]


def test_an_event_before_the_first_segment_opens_one_in_front() -> None:
    known = run_of(3, start="2026-01-12 12:00")
    early = event("earlier", at="2026-01-12 11:59")
    before, after = cut(known), feed([known, [early]])
    assert members(after, [*known, early]) == [[3], [0, 1, 2]]
    assert after[1] == before[0]
    assert [c.open for c in after] == [False, True]


def test_history_that_arrives_after_its_end_is_still_cut_by_size() -> None:
    """The newest events of a session come first when only these are asked for; the rest follows."""
    events = run_of(60, words=300)
    cuts = feed([events[50:], events[:50]])
    assert all(c.tokens <= 4000 for c in cuts)
    assert sorted(i for inside in members(cuts, events) for i in inside) == list(range(60))


def test_a_late_event_never_joins_over_the_start_of_the_next_segment() -> None:
    events = run_of(30, words=300)
    rng = random.Random(4)
    late = [event(f"late {i}", at=rng.randrange(events[0].timestamp, events[-1].timestamp)) for i in range(20)]
    cuts = feed([events, *[[x] for x in late]])
    assert all(a.end < b.start for a, b in itertools.pairwise(cuts))


@pytest.mark.parametrize("kind", [EventType.SESSION_END, EventType.ASSISTANT_STOP])
def test_a_late_end_of_the_session_closes_the_last_segment_only(kind: EventType) -> None:
    known = [event("a", at="2026-01-12 09:00"), event("b", at="2026-01-12 09:10")]
    late = event("end", at="2026-01-12 09:05", kind=kind, role=Role.SYSTEM)
    (one,) = feed([known, [late]])
    assert one.open is (kind is not EventType.SESSION_END)


# laws

MOMENTS = st.lists(
    st.tuples(st.integers(0, 300), st.integers(0, 2500), st.sampled_from(["m", "m", "m", "tool", "end"])), min_size=1, max_size=40
)


def _events(moments: Sequence[tuple[int, int, str]]) -> list[Event]:
    at = ms("2026-01-12 08:00")
    return [
        event(
            f"{i} " + "x" * size * 4,
            at=at + minute * MINUTE,
            kind={"end": EventType.SESSION_END, "tool": EventType.TOOL_RESULT}.get(kind, EventType.USER_MESSAGE),
        )
        for i, (minute, size, kind) in enumerate(moments)
    ]


@given(MOMENTS, st.randoms(use_true_random=False), st.integers(1, 8))
def test_in_whatever_order_and_batches_events_arrive_each_is_in_exactly_one_segment(
    moments: list[tuple[int, int, str]], rng: random.Random, size: int
) -> None:
    events = _events(moments)
    arriving = events[:]
    rng.shuffle(arriving)
    cuts: list[Segment] = []
    shown: dict[int, tuple[int, str]] = {}
    for start in range(0, len(arriving), size):
        batch = arriving[start : start + size]
        placed = assign_events(cuts, batch, CALENDAR, SETTINGS)
        changed = {c.key: c for c in placed.changed}
        cuts = sorted(({c.key: c for c in cuts} | changed).values(), key=lambda c: c.start)
        assert set(placed.members) == {e.event_id for e in batch}
        by_key = {c.key: c for c in cuts}
        for key, begin in shown.items():
            assert by_key[key].start == begin, "an id that was shown must keep its start"
        shown = {c.key: c.start for c in cuts}
        for e in batch:
            assert by_key[placed.members[e.event_id]].start <= e.order <= by_key[placed.members[e.event_id]].end
    inside = [i for part in members(cuts, events) for i in part]
    assert sorted(inside) == list(range(len(events)))
    assert all(a.end < b.start for a, b in itertools.pairwise(cuts))
    assert [len(part) for part in members(cuts, events)] == [c.events for c in cuts]
    assert sum(c.tokens for c in cuts) == sum(size_of(e) for e in events)
    assert [c.open for c in cuts][:-1] == [False] * (len(cuts) - 1)
    assert sorted(c.cut_no for c in cuts) == list(range(len(cuts)))


@given(MOMENTS)
def test_events_in_order_of_time_are_cut_alike_however_they_are_batched(moments: list[tuple[int, int, str]]) -> None:
    events = sorted(_events(moments), key=lambda e: e.order)
    at_once = cut(events)
    assert feed([[e] for e in events]) == at_once
    half = len(events) // 2
    assert feed([events[:half], events[half:]]) == at_once


def test_a_shorter_gap_and_a_smaller_size_cut_more_and_both_have_ranges() -> None:
    for wrong in ({"gap_minutes": 0}, {"max_tokens": 199}):
        with pytest.raises(ConfigError):
            SegmentSettings(**wrong)
    events = run_of(10, step_s=120)
    assert len(cut(events, SegmentSettings(gap_minutes=1))) == 10
    assert len(cut(run_of(10, words=100), SegmentSettings(max_tokens=300))) > 3


# overlap


@requirement("plan:segment-overlap")
def test_the_overlap_is_the_end_of_the_previous_segment_within_five_minutes_and_500_tokens() -> None:
    previous = run_of(12, step_s=60)
    shown = overlap_before(previous, previous[-1].timestamp + MINUTE)
    assert shown == previous[-5:]
    long = [event("x" * 400 * 4, at=e.timestamp) for e in previous]
    assert overlap_before(long, long[-1].timestamp + MINUTE) == long[-1:]
    assert overlap_before(previous, previous[-1].timestamp + 6 * MINUTE) == []
    assert overlap_before([], 5) == []


# recaps


def recap(at: int) -> Event:
    """A client's own telling of the conversation so far."""
    return replace(
        event("Summary:\n1. Primary Request:\n   - count the ferries\n" + "x " * 8_000, at=at, role=Role.SYSTEM),
        metadata={RECAP: "true"},
    )


def test_a_recap_ends_the_stretch_it_tells_of_however_large_it_is_and_stands_alone_without_anything_before_it() -> None:
    at = ms("2026-01-12 09:00")
    events = [event("a", at=at), event("b", at=at + MINUTE), recap(at + 2 * MINUTE), event("c", at=at + 3 * MINUTE)]
    cuts = cut(events)
    assert members(cuts, events) == [[0, 1, 2], [3]]
    assert not cuts[0].open
    assert feed([[e] for e in events]) == cuts
    events = [recap(at), event("c", at=at + MINUTE)]
    assert members(cut(events), events) == [[0], [1]]


def test_a_stretch_is_told_of_by_the_first_recap_behind_its_beginning() -> None:
    at = ms("2026-01-12 09:00")
    recaps = [recap(at + MINUTE), recap(at + 3 * MINUTE)]
    events = [event("a", at=at), recaps[0], event("b", at=at + 2 * MINUTE), recaps[1], event("c", at=at + 4 * MINUTE)]
    assert [recap_of(c, recaps) for c in cut(events)] == [*recaps, None]
    assert recap_of(cut([event("d", at=at, session="other")])[0], recaps) is None
