"""What any engine must do, through the protocols alone; `test_engines.py` runs it, and so do the tests of other engines.

`store` is an empty store in memory, `opened` opens the same directory as often as it is called.
"""

import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from memory_mcp.base.clock import SystemClock
from memory_mcp.base.errors import InvalidQuery
from memory_mcp.model.calendar import TimeWindow, TocLevel
from memory_mcp.model.change import Change, ChangeKind
from memory_mcp.model.event import VARIANT_OF, Event, Role
from memory_mcp.model.grip import GripUsage, Supersession
from memory_mcp.model.ids import GripId, NodeId, event_key, segment_id, topic_id
from memory_mcp.model.ledger import AuditEntry
from memory_mcp.model.segment import Segment
from memory_mcp.model.toc import MemoryKind, TocBullet
from memory_mcp.model.tool_run import FailureTally, KeyKind, ToolRun, make_hashes, make_keys
from memory_mcp.model.topic import TopicChange, TopicLabel, TopicRecord
from memory_mcp.storage.base import Storage
from memory_mcp.storage.values import (
    ActivityCount,
    AppendResult,
    Build,
    DailyActivity,
    DocumentFrequency,
    EventBatch,
    EventPosition,
    MonthCount,
    Scope,
    SessionInfo,
    StoredEvent,
    Tally,
    TermDelta,
    WriteRequest,
)
from tests.factories import BILLING, SHOP, cut, event, grip, ms, node, run_of
from tests.requirements import requirement
from tests.waiting import beside, together

DAY = NodeId("toc:day:2026-01-12")
PAINT = TopicRecord(
    topic_id("topic", [7, 2**63 + 1]),
    5,
    members=(7, 2**63 + 1),
    changes=(TopicChange(5, "found"), TopicChange(6, "took in", topic_id("topic", [3]))),
)
NETWORK = TopicRecord(
    topic_id("topic", [3]), 4, merged_into=PAINT.topic_id, is_over=True, changes=(TopicChange(6, "merged into", PAINT.topic_id),)
)


def terms(*hashes: int) -> bytes:
    return np.array(sorted(hashes), "<u4").tobytes()


def counts(*numbers: int) -> bytes:
    return np.array(numbers, "<i4").tobytes()


def union(rows: list[bytes]) -> set[int]:
    return {int(h) for row in rows for h in np.frombuffer(row, "<u4")}


def summed(rows: list[tuple[str, bytes, bytes]]) -> dict[tuple[str, int], int]:
    total: dict[tuple[str, int], int] = {}
    for project, hashes, numbers in rows:
        for h, n in zip(np.frombuffer(hashes, "<u4"), np.frombuffer(numbers, "<i4"), strict=True):
            total[project, int(h)] = total.get((project, int(h)), 0) + int(n)
    return {key: n for key, n in total.items() if n}


def filed(store: Storage, events: list[Event]) -> list[Segment]:
    """Events stored and their cuts with nodes published."""
    store.events.append(events)
    streams: dict[int, list[Event]] = {}
    for e in events:
        streams.setdefault(e.stream, []).append(e)
    cuts = [c for own in streams.values() for c in cut(own)]
    nodes = [node(c.node_id, at=c.start[0], projects=[c.project]) for c in cuts]
    store.toc.publish_build(Build(segments=tuple(cuts), nodes=tuple(nodes), derived_to=store.events.last_seq()))
    return cuts


# events


@requirement("bm25:decision-append-only", "contract:layer-0", "plan:hierarchy-events")
def test_appending_twice_or_an_event_twice_stores_once_and_nothing_changes_nothing(store: Storage) -> None:
    events = run_of(5)
    first, second = store.events.append(events), store.events.append(events)
    assert (first.new_ids, first.known_ids) == (tuple(e.event_id for e in events), ())
    assert (second.new_ids, second.known_ids) == ((), tuple(e.event_id for e in events))
    assert store.events.list_events(Scope()) == events
    assert store.events.last_seq() == 5
    one, two = run_of(2, start="2026-01-13 09:00", session="s2")
    appended = store.events.append([one, two, one])
    assert (appended.new_ids, appended.known_ids) == ((one.event_id, two.event_id), (one.event_id,))
    before = store.outbox.read_after(0, 10)
    appended = store.events.append([])
    assert (appended.new_ids, appended.known_ids, appended.replayed_answer) == ((), (), None)
    assert store.outbox.read_after(0, 10) == before


def test_the_same_id_with_other_words_is_kept_beside_it_and_known_and_ids_come_in_the_order_given(store: Storage) -> None:
    one = event("first words", source_id="m1")
    other, third = replace(one, text="other words"), replace(one, text="third words")
    store.events.append([one])
    (variant,) = store.events.append([other]).new_ids
    assert variant != one.event_id
    stored = store.events.find_event(variant)
    assert stored == replace(other, event_id=variant, metadata={VARIANT_OF: one.event_id})
    assert store.events.find_event(one.event_id) == one
    again = store.events.append([other, third, one])
    assert again.known_ids == (variant, one.event_id)
    assert len(again.new_ids) == 1
    assert {e.text for e in store.events.list_events(Scope())} == {"first words", "other words", "third words"}
    own, two = event("a", source_id="m3"), event("b", source_id="m2")
    appended = store.events.append([own, replace(own, text="variant"), two])
    texts = [e.text for i in appended.new_ids if (e := store.events.find_event(i))]
    assert texts == ["a", "variant", "b"]


def test_a_write_that_is_sent_again_is_answered_and_not_repeated(store: Storage) -> None:
    one, two = run_of(2)
    first = store.events.append([one], WriteRequest("key-1", "the answer"))
    again = store.events.append([two], WriteRequest("key-1", "another answer"))
    assert (first.new_ids, first.replayed_answer) == ((one.event_id,), None)
    assert (again.new_ids, again.known_ids, again.replayed_answer) == ((), (), "the answer")
    assert store.events.list_events(Scope()) == [one]
    assert store.events.append([two], WriteRequest("key-2", "x")).new_ids == (two.event_id,)


def test_all_fields_of_an_event_come_back_as_they_were(store: Storage) -> None:
    full = replace(
        event("text", role=Role.TOOL, thread="sub", source_id="s-1", metadata={"exit_status": "1", "ключ": "значение \"'\n"}),
        speaker="Ann",
    )
    store.events.append([full])
    assert store.events.find_event(full.event_id) == full
    assert store.events.get_events([full.event_id, event("absent").event_id]) == {full.event_id: full}
    assert store.events.find_event(event("absent").event_id) is None
    assert store.events.get_events([]) == {}


def test_odd_text_comes_back_character_by_character(store: Storage) -> None:
    quotes = 'it\'s "quoted"; DROP TABLE event; --'
    odd = ["👩‍💻 ships 🚀", "שלום עולם \u202e evil", "日本語と한국어", quotes, "a\tb\r\nc\u2028d", "", "x" * 5_000_000]
    for text in odd:
        one = event(text)
        store.events.append([one])
        found = store.events.find_event(one.event_id)
        assert found is not None
        assert found.text == text


def test_stored_ids_are_found_by_their_lower_bits(store: Storage) -> None:
    events = run_of(3)
    store.events.append(events)
    tails = [event_key(e.event_id) & (2**80 - 1) for e in events]
    assert store.events.find_tails([*tails[:2], 12345]) == {t: e.event_id for t, e in zip(tails[:2], events, strict=False)}
    assert store.events.find_tails([]) == {}


def test_events_are_numbered_in_the_order_of_arrival_without_gaps(store: Storage) -> None:
    late, early = run_of(2, start="2026-01-12 12:00"), run_of(2, start="2026-01-12 09:00", session="s2")
    store.events.append(late)
    store.events.append([late[0]])
    store.events.append(early)
    stored = [StoredEvent(i + 1, e) for i, e in enumerate([*late, *early])]
    assert store.events.read_after(0, 10) == stored
    assert store.events.read_after(1, 2) == stored[1:3]
    assert [s for batch in store.events.iter_all(batch=3) for s in batch] == stored
    assert store.events.last_seq() == 4


def test_the_newest_event_of_each_source_is_told(store: Storage) -> None:
    assert store.latest_times() == {}
    said = run_of(3, start="2026-01-12 12:00")
    hooked = [replace(e, source="hook:claude-code") for e in run_of(2, start="2026-01-12 09:00", session="s2")]
    store.events.append([*said, *hooked])
    assert store.latest_times() == {said[-1].source: said[-1].timestamp, "hook:claude-code": hooked[-1].timestamp}


@requirement("contract:philosophy-time-is-truth")
def test_events_are_read_in_the_order_of_their_own_time(store: Storage) -> None:
    late, early = run_of(2, start="2026-01-12 12:00"), run_of(2, start="2026-01-12 09:00")
    store.events.append(late)
    store.events.append(early)
    assert store.events.list_events(Scope()) == [*early, *late]


def test_a_window_is_half_open_and_filters_by_project_agent_and_session(store: Storage) -> None:
    a = event("a", at="2026-01-12 09:00")
    b = event("b", at="2026-01-12 10:00", project=BILLING, agent="codex", session="s2")
    c = event("c", at="2026-01-12 11:00")
    store.events.append([a, b, c])
    window = TimeWindow(ms("2026-01-12 09:00"), ms("2026-01-12 11:00"))
    assert store.events.list_events(Scope(window=window)) == [a, b]
    assert store.events.list_events(Scope(project=SHOP)) == [a, c]
    assert store.events.list_events(Scope(agent="codex")) == [b]
    assert store.events.list_events(Scope(), session_id="s2") == [b]
    assert store.events.list_events(Scope(project=SHOP, window=window), session_id="s2") == []


def test_a_window_is_paged_without_losing_or_repeating_events_of_one_moment(store: Storage) -> None:
    events = [event(str(i), at="2026-01-12 09:00") for i in range(7)]
    store.events.append(events)
    paged: list[Event] = []
    while page := store.events.list_events(Scope(), limit=2, after=paged[-1].order if paged else None):
        paged += page
    assert paged == sorted(events, key=lambda e: e.order)


def test_events_that_hold_every_one_of_some_texts_are_found_whatever_the_case(store: Storage) -> None:
    store.events.append(
        [
            event("The Ledger rounds half up", at="2026-01-20T10:00", session="a"),
            event("ledger totals", at="2026-01-20T11:00", session="b"),
            event("a LEDGER that rounds", at="2026-02-20T10:00", session="c"),
            event("a ledger that rounds elsewhere", at="2026-02-21T10:00", session="d", project=BILLING),
        ]
    )
    scope = Scope(SHOP)
    assert [e.session_id for e in store.events.search_words(scope, ["ledger", "round"], 5)] == ["c", "a"]
    assert store.events.search_words(scope, ["ledger"], 1)[0].session_id == "c"
    assert store.events.search_words(scope, (), 2) == store.events.list_events(scope)[:-3:-1]
    reading = store.events.read_words(scope, ["ledger"])
    assert [e.session_id for e in reading.list_newest(2)] == ["c", "b"]
    assert reading.find_all(2) is None
    january, february = (TimeWindow(ms(f"2026-0{n}-01T00:00"), ms(f"2026-0{n + 1}-01T00:00")) for n in (1, 2))
    assert [e.session_id for e in store.events.search_words(replace(scope, window=january), ["ledger"], 5)] == ["b", "a"]
    assert store.events.count_events(scope, [january, february]) == [2, 1]
    assert store.events.count_events(scope, []) == []


def test_a_text_of_several_words_is_found_as_it_stands_whatever_the_white_space(store: Storage) -> None:
    said = [
        "The Ledger rounds\n  half up, in der Straße 5",
        "half the ledger rounds up",
        "Straße rounds the 5 halves, e ledger ha up",
    ]
    store.events.append([event(words, session=str(n)) for n, words in enumerate(said)])
    for text in ("ROUNDS half  up", "rounds\nhalf", "half up", "e Ledger rounds ha", "Straße 5"):
        assert [e.session_id for e in store.events.search_words(Scope(), [text], 5)] == ["0"], text


def test_who_said_it_narrows_what_is_read(store: Storage) -> None:
    ada = replace(event("the ledger of Ada", session="a"), speaker="Ada")
    tool = event("the ledger on paper", session="b", role=Role.TOOL)
    store.events.append([ada, tool])
    for scope, only in ((Scope(speaker="aDA"), ada), (Scope(role="tool"), tool)):
        assert store.events.search_words(scope, ["ledger"], 5) == [only]
        assert store.events.rank_positions(scope, {"ledger": 1.0}, 5) == (1, [EventPosition(only.stream, only.order)])


def test_places_are_told_of_the_events_that_hold_most_by_weight(store: Storage) -> None:
    said = [("a", "ledger"), ("a", "rounding"), ("b", "ledger rounding"), ("c", "nothing of it")]
    events = [event(text, session=name, at=f"2026-01-20T10:0{n}") for n, (name, text) in enumerate(said)]
    store.events.append(events)
    alone, rounding, both, _ = (EventPosition(e.stream, e.order) for e in events)
    assert store.events.rank_positions(Scope(SHOP), {"ledger": 1.0, "round": 2.0}, 5) == (4, [both, rounding, alone])
    assert store.events.rank_positions(Scope(SHOP), {"ledger": 1.0, "round": 2.0}, 1) == (4, [both])


def test_sessions_come_latest_first_with_their_span_and_size(store: Storage) -> None:
    store.events.append([*run_of(3, session="old"), *run_of(2, start="2026-02-01 10:00", session="new", project=BILLING)])
    old_start, new_start = ms("2026-01-12 09:00"), ms("2026-02-01 10:00")
    new = SessionInfo("new", BILLING, "claude-code", new_start, new_start + 60_000, 2)
    old = SessionInfo("old", SHOP, "claude-code", old_start, old_start + 120_000, 3)
    assert store.events.list_sessions(Scope()) == [new, old]
    assert store.events.list_sessions(Scope(), limit=1) == [new]
    assert store.events.list_sessions(Scope(project=SHOP)) == [old]


def test_marks_are_counted_in_texts_and_metadata(store: Storage) -> None:
    assert store.events.count_matches("[TAG:", r"\[TAG:([a-z]+)\]") == {}
    texts = ("[TAG:key] and [TAG:key]", "[TAG:token]", "[TAG: none", "nothing")
    store.events.append([*map(event, texts), event("words", metadata={"command": "curl [TAG:key]"})])
    assert store.events.count_matches("[TAG:", r"\[TAG:([a-z]+)\]") == {"key": 3, "token": 1}


def test_neighbours_never_leave_the_stream(store: Storage) -> None:
    own = run_of(7)
    others = [*run_of(7, session="s2"), *run_of(7, thread="sub"), *run_of(7, project=BILLING)]
    store.events.append([*others, *own])
    assert store.events.get_neighbours(own[3], 2, 2) == (own[1:3], own[4:6])
    assert store.events.get_neighbours(own[0], 5, 0) == ([], [])
    assert store.events.get_neighbours(own[3], 99, 99) == (own[:3], own[4:])
    some = [*own, *others]
    assert store.events.list_followers(some, 3) == [store.events.get_neighbours(e, 0, 3)[1] for e in some]


def test_a_segments_events_are_those_of_its_stream_between_its_ends(store: Storage) -> None:
    own = run_of(6)
    store.events.append([*own, *run_of(6, session="s2")])
    (whole,) = cut(own)
    part = replace(whole, start=own[2].order, end=own[4].order, cut_no=9)
    assert store.events.segment_events(part) == own[2:5]
    assert store.events.events_by_segment([whole, part]) == {whole.key: own, part.key: own[2:5]}
    assert store.events.events_by_segment([]) == {}
    assert store.events.events_by_segment([whole], last_seq=3) == {whole.key: own[:3]}


# told twice


def by_hook(of: Event, text: str = "", later_ms: int = 900) -> Event:
    """The same message as a hook tells it."""
    at = of.timestamp + later_ms
    told = event(
        text or of.text, at=at, session=of.session_id, role=of.role, project=of.project, source_id=f"hook of {of.event_id}"
    )
    return replace(told, source="hook:test")


def test_what_a_hook_repeats_is_stored_and_not_shown(store: Storage) -> None:
    own = run_of(5)
    store.events.append(own)
    told = [by_hook(e) for e in own]
    assert len(store.events.append(told).new_ids) == 5
    pairs = {hook.event_id: e.event_id for hook, e in zip(told, own, strict=True)}
    assert store.events.find_duplicates(e.event_id for e in own) == store.events.find_duplicates(pairs) == pairs
    assert store.events.find_duplicates([told[2].event_id]) == {told[2].event_id: own[2].event_id}
    assert store.events.find_duplicates([]) == {}
    assert store.events.list_events(Scope()) == own
    assert [s.events for s in store.events.list_sessions(Scope())] == [5]
    assert store.events.get_neighbours(own[2], 9, 9) == (own[:2], own[3:])
    assert store.events.get_neighbours(told[2], 9, 9) == (own[:2], own[3:])
    both = [*own, *told]
    assert store.events.list_followers(both, 2) == [store.events.get_neighbours(e, 0, 2)[1] for e in both]
    (whole,) = cut([*own, *told])
    assert store.events.segment_events(whole) == own
    assert store.events.find_event(told[0].event_id) == told[0]
    assert store.events.get_events([told[1].event_id]) == {told[1].event_id: told[1]}
    assert [s.event for s in store.events.read_after(0, 99)] == [*own, *told]


def test_the_longer_of_the_two_is_shown_and_a_stretch_of_shorter_ones_alone_still_is(store: Storage) -> None:
    first = replace(by_hook(run_of(1)[0], text="short"), metadata={"tool_use_id": "x"})
    store.events.append([first])
    (alone,) = cut([first])
    assert store.events.segment_events(alone) == [first]
    longer = replace(run_of(1, project=BILLING)[0], metadata={"tool_use_id": "x"})
    store.events.append([longer])
    assert store.events.find_duplicates([first.event_id]) == {first.event_id: longer.event_id}
    assert store.events.list_events(Scope()) == [longer]
    assert store.events.segment_events(alone) == [first]
    assert store.events.events_by_segment([alone], last_seq=0) == {}
    third = replace(run_of(1, start=first.timestamp + 5)[0], text="x")
    store.events.append([third])
    (both,) = cut([first, third])
    assert store.events.segment_events(both) == [third]


def test_pairs_outlive_the_process_that_found_them(opened: Callable[[], Storage]) -> None:
    own = run_of(3)
    store = opened()
    store.events.append(own)
    store.events.append([by_hook(own[0])])
    store.close()
    again = opened()
    assert again.events.list_events(Scope()) == own
    again.events.append([by_hook(own[1]), by_hook(own[0])])
    assert again.events.list_events(Scope()) == own
    assert len(again.events.find_duplicates(e.event_id for e in own)) == 2
    again.close()


# topics


def test_topics_come_back_as_they_were_in_the_order_of_their_ids_and_are_replaced_as_a_whole(store: Storage) -> None:
    assert store.topics.list_topics() == []
    store.topics.replace_topics([PAINT, NETWORK])
    assert store.topics.list_topics() == sorted([NETWORK, PAINT], key=lambda t: t.topic_id)
    over = replace(NETWORK, members=(), is_over=True, merged_into=PAINT.topic_id)
    store.topics.replace_topics([over])
    assert store.topics.list_topics() == [over]
    store.topics.replace_topics([])
    assert store.topics.list_topics() == []


def test_a_replacement_that_cannot_be_written_leaves_what_there_was(store: Storage) -> None:
    store.topics.replace_topics([NETWORK])
    with pytest.raises(OverflowError):
        store.topics.replace_topics([PAINT, replace(PAINT, members=(2**64,))])
    assert store.topics.list_topics() == [NETWORK]


def test_a_label_holds_for_one_project_or_for_all_the_latest_wins_and_it_outlives_its_topic(store: Storage) -> None:
    ours, whole = TopicLabel(PAINT.topic_id, SHOP, "Paint", "agent", 5), TopicLabel(PAINT.topic_id, None, "Colours", "agent", 6)
    for given in (replace(ours, label="Old paint", at_ms=1), whole, ours):
        store.topics.set_label(given)
    assert store.topics.list_labels() == [ours, whole]
    store.topics.set_label(replace(ours, label="", at_ms=7))
    assert store.topics.list_labels() == [whole]
    store.topics.set_label(replace(whole, label=""))
    store.topics.set_label(replace(whole, label=""))
    assert store.topics.list_labels() == []
    store.topics.replace_topics([PAINT])
    store.topics.set_label(whole)
    store.topics.replace_topics([])
    assert store.topics.list_labels() == [whole]


# one transaction


def test_a_build_that_fails_half_way_leaves_nothing(store: Storage) -> None:
    events = run_of(3)
    store.events.append(events)
    before = store.outbox.read_after(0, 100)
    broken = node(bullets=[TocBullet("x", ("no grip id",))])  # type: ignore[arg-type]
    with pytest.raises(InvalidQuery):
        store.toc.publish_build(Build(segments=tuple(cut(events)), nodes=(broken,), derived_to=3))
    assert store.toc.find_node(DAY) is None
    assert list(store.toc.iter_cuts()) == []
    assert store.outbox.get_checkpoint("deriver") == 0
    assert store.outbox.read_after(0, 100) == before
    whole = store.toc.publish_build(Build(segments=tuple(cut(events)), nodes=(node(),), derived_to=3))
    assert [c.seq for c in store.outbox.read_after(0, 100)] == [1, 2]
    assert (whole, store.outbox.get_checkpoint("deriver")) == (2, 3)


def test_readers_on_eight_threads_see_whole_transactions_while_one_writes(store: Storage) -> None:
    batches = [run_of(10, start=ms("2026-01-12 09:00") + i * 1_000_000, words=12 + i, session=f"s{i}") for i in range(6)]

    def read(done: threading.Event) -> None:
        while not done.is_set():
            found = store.events.list_events(Scope(), limit=1000)
            assert set(Counter(e.session_id for e in found).values()) <= {10}
            assert found == sorted(found, key=lambda e: e.order)
            changes = store.outbox.read_after(0, 1000)
            assert [c.seq for c in changes] == list(range(1, len(changes) + 1))

    with beside(*[read] * 8):
        for batch in batches:
            store.events.append(batch)
    assert store.events.last_seq() == 60


def test_writers_on_many_threads_lose_nothing_and_number_everything_once(store: Storage) -> None:
    parts = [run_of(10, session=f"s{i}") for i in range(8)]
    together(*[partial(store.events.append, part) for part in parts])
    stored = store.events.read_after(0, 1000)
    assert [s.seq for s in stored] == list(range(1, 81))
    assert {s.event.event_id for s in stored} == {e.event_id for part in parts for e in part}


# nodes


def test_a_node_comes_back_whole_with_the_build_that_published_it(store: Storage) -> None:
    said = event("keep the retry queue")
    one, two = grip(said, 0, 4), grip(said, 5, 8)
    bullets = (
        TocBullet("We keep the retry queue.", (two.grip_id, one.grip_id), MemoryKind.CONSTRAINT, SHOP, "codex"),
        TocBullet("It is drained twice.", (one.grip_id,)),
    )
    made = node(bullets=bullets)
    store.events.append([said])
    built = store.toc.publish_build(Build(nodes=(made,), grips=(one, two)))
    assert store.toc.find_node(DAY) == replace(made, built=built)
    assert store.toc.get_nodes([DAY, NodeId("toc:day:1999-01-01")]) == {DAY: replace(made, built=built)}
    assert store.toc.find_node(NodeId("toc:day:1999-01-01")) is None
    assert store.toc.get_nodes([]) == {}


def test_the_latest_version_is_read_and_the_last_three_to_six_are_kept(store: Storage) -> None:
    said = event("keep it")
    mine = grip(said)
    for version in range(1, 12):
        bullet = TocBullet(f"bullet {version}", (mine.grip_id,))
        store.toc.publish_build(Build(nodes=(node(title=f"title {version}", version=version, bullets=[bullet]),), grips=(mine,)))
        rows = store.get_stats().rows
        assert rows["node"] == rows["bullet"]
        assert min(version, 3) <= rows["node"] <= 6
    latest = store.toc.find_node(DAY)
    assert latest is not None
    assert (latest.title, latest.version, [b.text for b in latest.bullets]) == ("title 11", 11, ["bullet 11"])
    assert [n.version for n in store.toc.iter_nodes()] == [11]
    assert store.get_stats().rows["grip"] == 1


def test_build_numbers_rise_and_name_the_last_change_of_their_build(store: Storage) -> None:
    ids = [NodeId(f"toc:day:2026-01-{d}") for d in (12, 13, 14)]
    first = store.toc.publish_build(Build(nodes=(node(ids[0]), node(ids[1]))))
    second = store.toc.publish_build(Build(nodes=(node(ids[2]),)))
    assert (first, second) == (2, 3)
    assert {n.node_id: n.built for n in store.toc.iter_nodes()} == {ids[0]: 2, ids[1]: 2, ids[2]: 3}


def test_children_are_listed_in_time_order_under_every_parent(store: Storage) -> None:
    for node_id in (
        "toc:week:2026-W05",
        "toc:month:2026-02",
        "toc:month:2026-01",
        "toc:week:2026-W06",
        "toc:year:2026",
        "toc:year:2025",
    ):
        store.toc.publish_build(Build(nodes=(node(node_id),)))
    assert store.toc.child_ids(NodeId("toc:month:2026-01")) == ["toc:week:2026-W05"]
    assert store.toc.child_ids(NodeId("toc:month:2026-02")) == ["toc:week:2026-W05", "toc:week:2026-W06"]
    assert store.toc.child_ids(NodeId("toc:year:2026")) == ["toc:month:2026-01", "toc:month:2026-02"]
    assert store.toc.child_ids(NodeId("toc:root")) == ["toc:year:2025", "toc:year:2026"]
    store.toc.publish_build(Build(nodes=(node("toc:year:2026", version=2),)))
    assert store.toc.child_ids(NodeId("toc:root")) == ["toc:year:2025", "toc:year:2026"]


def test_nodes_of_a_level_are_listed_by_window(store: Storage) -> None:
    cuts = filed(store, [*run_of(2), *run_of(2, start="2026-01-14 09:00", session="s2", project=BILLING)])
    store.toc.publish_build(Build(nodes=(node("toc:day:2026-01-12"), node("toc:day:2026-01-14"))))
    week = TimeWindow(ms("2026-01-13 00:00"), ms("2026-01-15 00:00"))
    assert store.toc.list_ids(TocLevel.DAY) == ["toc:day:2026-01-12", "toc:day:2026-01-14"]
    assert store.toc.list_ids(TocLevel.DAY, week) == ["toc:day:2026-01-14"]
    assert store.toc.list_ids(TocLevel.SEGMENT, week) == [cuts[1].node_id]
    assert store.toc.list_ids(TocLevel.YEAR) == []
    store.toc.publish_build(Build(nodes=(node("toc:day:2026-01-13"), node("toc:year:2026"))))
    assert store.toc.list_ids(TocLevel.DAY, week) == ["toc:day:2026-01-13", "toc:day:2026-01-14"]
    assert store.toc.list_ids(TocLevel.YEAR) == ["toc:year:2026"]
    store.toc.drop_nodes([NodeId("toc:day:2026-01-14")])
    assert store.toc.list_ids(TocLevel.DAY) == ["toc:day:2026-01-12", "toc:day:2026-01-13"]


def test_pins_hold_across_versions_until_they_are_taken_off(store: Storage) -> None:
    store.toc.publish_build(Build(nodes=(node(),)))
    store.toc.set_pin(DAY, True, "agent")
    store.toc.set_pin(DAY, True, "agent")
    store.toc.publish_build(Build(nodes=(node(version=2),)))
    found = store.toc.find_node(DAY)
    assert found is not None
    assert (found.pinned, found.version, store.toc.list_pins()) == (True, 2, frozenset({DAY}))
    store.toc.set_pin(DAY, False, "agent")
    assert store.toc.list_pins() == frozenset()


def test_an_alias_leads_to_the_node_also_over_several_steps_and_in_a_circle_nowhere(store: Storage) -> None:
    store.toc.publish_build(Build(nodes=(node(),)))
    store.toc.replace_cuts([], {NodeId("toc:day:2026-01-01"): NodeId("toc:day:2026-01-02")})
    store.toc.replace_cuts([], {NodeId("toc:day:2026-01-02"): DAY})
    found = store.toc.find_node(NodeId("toc:day:2026-01-01"))
    assert found is not None
    assert found.node_id == DAY
    store.toc.replace_cuts([], {NodeId("toc:day:2026-01-02"): NodeId("toc:day:2026-01-01")})
    assert store.toc.find_node(NodeId("toc:day:2026-01-01")) is None


def test_dropped_nodes_take_their_bullets_terms_and_place_with_them_and_leave_grips_and_pins(store: Storage) -> None:
    said = event("keep it")
    mine = grip(said)
    store.events.append([said])
    store.toc.publish_build(
        Build(nodes=(node(bullets=[TocBullet("b", (mine.grip_id,))]),), grips=(mine,), terms=(TermDelta(DAY, terms(1)),))
    )
    store.toc.set_pin(DAY, True, "agent")
    store.toc.drop_nodes([DAY])
    assert store.toc.find_node(DAY) is None
    assert store.toc.child_ids(NodeId("toc:week:2026-W03")) == []
    assert store.toc.get_term_sets([DAY]) == {}
    assert store.get_stats().rows["bullet"] == 0
    assert store.grips.find_grip(mine.grip_id) == mine
    assert store.toc.list_pins() == frozenset({DAY})
    store.toc.publish_build(Build(nodes=(node(),)))
    found = store.toc.find_node(DAY)
    assert found is not None
    assert found.bullets == ()


# cuts


def test_a_cut_that_grew_replaces_itself(store: Storage) -> None:
    events = run_of(5)
    (small,), (large,) = cut(events[:3]), cut(events)
    store.toc.publish_build(Build(segments=(small,)))
    store.toc.publish_build(Build(segments=(large,)))
    assert list(store.toc.iter_cuts()) == [large]
    assert store.toc.get_cuts([large.stream, 5]) == {large.stream: [large], 5: []}
    assert store.toc.get_segments([large.key, 5]) == {large.key: large}


def test_cuts_are_listed_by_their_own_time_project_and_agent(store: Storage) -> None:
    a = cut(run_of(3, session="a"))[0]
    b = cut(run_of(3, start="2026-01-13 09:00", session="b", project=BILLING, agent="codex"))[0]
    store.toc.publish_build(Build(segments=(b, a)))
    assert store.toc.list_segments(Scope()) == [a, b]
    assert store.toc.list_segments(Scope(project=BILLING)) == [b]
    assert store.toc.list_segments(Scope(agent="claude-code")) == [a]
    touching = TimeWindow(a.end[0], a.end[0] + 1)
    assert store.toc.list_segments(Scope(window=touching)) == [a]
    assert store.toc.list_segments(Scope(window=TimeWindow(a.end[0] + 1, b.start[0]))) == []
    later = cut(run_of(3, start="2026-01-13 10:00", session="later"))[0]
    everything = Scope(window=TimeWindow(a.start[0], later.end[0] + 1))
    assert store.toc.list_segments(everything) == [a, b]
    store.toc.publish_build(Build(segments=(later,)))
    assert store.toc.list_segments(everything) == [a, b, later]
    store.toc.replace_cuts([], {a.node_id: NodeId("toc:segment:2026-01-12:000000000000")})
    assert store.toc.list_segments(everything) == [b, later]


def test_counts_over_days_are_those_of_their_segments(store: Storage) -> None:
    one = cut(run_of(3, session="a"))[0]
    two = cut(run_of(2, start="2026-01-12 18:00", session="a"))[0]
    three = cut(run_of(4, start="2026-01-14 09:00", session="b", project=BILLING, agent="codex"))[0]
    store.toc.publish_build(Build(segments=(one, replace(two, cut_no=1), three)))
    tokens = one.tokens + two.tokens
    shop = Tally(1, 5, 2, tokens, ("claude-code",), (SHOP,))
    everything = Tally(2, 9, 3, tokens + three.tokens, ("claude-code", "codex"), (BILLING, SHOP))
    nothing = Tally(0, 0, 0, 0, (), ())
    assert store.toc.tally_days("2026-01-12", "2026-01-13", None) == shop
    assert store.toc.tally_days("2026-01-01", "2026-02-01", None) == everything
    assert store.toc.tally_days("2026-01-01", "2026-02-01", SHOP) == shop
    assert store.toc.tally_days("2026-01-01", "2026-02-01", "nobody") == nothing
    assert store.toc.tally_days("2026-01-13", "2026-01-14", None) == nothing
    assert store.toc.count_segments_by_day() == [("2026-01-12", 2), ("2026-01-14", 1)]
    assert store.toc.list_days(None, "2026-01-01", "2026-01-14") == ["2026-01-12"]
    assert store.toc.list_days(BILLING, "2026-01-01", "2026-02-01") == ["2026-01-14"]
    assert store.toc.list_day_segments("2026-01-14", "2026-01-15", None) == [three]
    assert store.toc.list_day_segments("2026-01-14", "2026-01-15", SHOP) == []
    assert store.toc.list_day_segments("2026-01-13", "2026-01-14", None) == []
    later = cut(run_of(2, start="2026-01-31 09:00", session="c"))[0]
    store.toc.publish_build(Build(segments=(later,)))
    assert store.toc.list_day_segments("2026-01-31", "2026-02-01", None) == [later]
    assert store.toc.list_day_segments("2026-01-14", "2026-01-31~", None) == [three, later]
    assert store.toc.list_day_segments("2025-12-29", "2026-01-15", None)[-1] == three
    assert store.toc.list_day_segments("0000", "9999", None)[-1] == later


def test_events_and_sessions_are_counted_by_day_by_project_and_by_agent(store: Storage) -> None:
    one = cut(run_of(3, session="a"))[0]
    two = cut(run_of(2, start="2026-01-13 18:00", session="a"))[0]
    three = cut(run_of(4, start="2026-01-13 09:00", session="b", project=BILLING, agent="codex"))[0]
    four = cut(run_of(1, start="2025-12-31 09:00", session="c", project=BILLING))[0]
    assert store.projects.daily_activity("2026-01-01", "2026-02-01") == DailyActivity()
    assert store.projects.list_years() == []
    store.toc.publish_build(Build(segments=(one, replace(two, cut_no=1), three, four)))
    days = (ActivityCount("2026-01-12", 3, 1), ActivityCount("2026-01-13", 6, 2))
    projects, agents = (
        (ActivityCount(BILLING, 4, 1), ActivityCount(SHOP, 5, 1)),
        (ActivityCount("claude-code", 5, 1), ActivityCount("codex", 4, 1)),
    )
    by_month = tuple(MonthCount(of.name, "2026-01", of.events) for of in (*projects, *agents))
    expected = DailyActivity(days, projects, agents, 9, 2, by_month[:2], by_month[2:])
    assert store.projects.daily_activity("2026-01-01", "2026-02-01") == expected
    earlier = MonthCount(BILLING, "2025-12", 1)
    assert store.projects.daily_activity("2025-12-01", "2026-02-01").projects_by_month == (earlier, *by_month[:2])
    only = DailyActivity((ActivityCount("2026-01-13", 4, 1),), projects[:1], agents[1:], 4, 1, by_month[:1], by_month[3:])
    assert store.projects.daily_activity("2026-01-13", "2026-01-14", BILLING) == only
    assert store.projects.daily_activity("2026-01-01", "2026-02-01", agent="codex") == only
    assert store.projects.daily_activity("2026-01-01", "2026-02-01", SHOP, "codex") == DailyActivity()
    assert store.projects.list_years() == [2025, 2026]
    assert store.projects.list_years(BILLING, "codex") == [2026]


def test_freshness_tells_the_newest_build_of_each_days_segments_and_of_each_period(store: Storage) -> None:
    filed(store, [*run_of(2), *run_of(2, session="s2"), *run_of(2, start="2026-01-14 09:00", session="s3")])
    store.toc.publish_build(Build(nodes=(node(),)))
    fresh = store.toc.get_freshness()
    assert set(fresh.segment_days) == {"2026-01-12", "2026-01-14"}
    assert fresh.periods == {DAY: max(fresh.segment_days.values()) + 1}


def test_a_segment_filed_under_another_day_is_found_by_its_old_id_and_listed_under_the_new_day(store: Storage) -> None:
    (one,) = filed(store, run_of(3))
    old = one.node_id
    store.toc.move_segments({one.key: "2026-01-11"})
    new = segment_id("2026-01-11", one.key)
    found = store.toc.find_node(old)
    assert found is not None
    assert found.node_id == new
    assert [s.day for s in store.toc.iter_cuts()] == ["2026-01-11"]
    assert store.toc.child_ids(NodeId("toc:day:2026-01-11")) == [new]
    assert store.toc.child_ids(DAY) == []


# runs


def tool_run(cut: Segment, events: list[Event], failed: bool, **forms: str) -> ToolRun:
    keys = [key for name, form in forms.items() for key in make_keys(KeyKind[name.upper()], [form])]
    return ToolRun(cut.key, events[0].event_id, events[1].event_id, failed, tuple(keys))


def test_runs_are_found_by_their_keys_newest_first_and_go_with_their_segment(store: Storage) -> None:
    first, second = run_of(3), run_of(3, start="2026-01-14 09:00", session="s2", project=BILLING)
    one, two = filed(store, [*first, *second])
    failed = tool_run(one, first, True, invocation="make -j", command="make", error="no rule to make target")
    passed = tool_run(two, second, False, invocation="make -j", command="make", file="a.c")
    store.toc.publish_build(Build(runs=(failed, passed)))
    make = make_hashes(KeyKind.INVOCATION, ["make -j"])
    found = store.tool_runs.find_runs(KeyKind.INVOCATION, make, None, 10)
    assert [
        (set(each.run.keys), each.run.call, each.run.failed, each.stream, each.project, each.session_id) for each in found
    ] == [
        (set(passed.keys), passed.call, False, two.stream, BILLING, "s2"),
        (set(failed.keys), failed.call, True, one.stream, SHOP, "s1"),
    ]
    assert [each.run.call for each in store.tool_runs.find_runs(KeyKind.INVOCATION, make, None, 1)] == [passed.call]
    assert [each.run.call for each in store.tool_runs.find_runs(KeyKind.INVOCATION, make, SHOP, 9)] == [failed.call]
    window = TimeWindow(ms("2026-01-12 00:00"), ms("2026-01-13 00:00"))
    assert [each.run.call for each in store.tool_runs.find_runs(KeyKind.INVOCATION, make, None, 9, window)] == [failed.call]
    assert store.tool_runs.find_runs(KeyKind.COMMAND, make, None, 9) == []
    assert [len(runs) for runs in store.tool_runs.list_stream_runs([one.stream, two.stream, 5]).values()] == [1, 1, 0]
    everything = TimeWindow(0, ms("2027-01-01 00:00"))
    tallied = store.tool_runs.tally_failures(KeyKind.INVOCATION, None, everything, 1, 5)
    assert tallied == [FailureTally(next(iter(make)), 2, 1, 1, failed.call)]
    for project, window, least in ((BILLING, everything, 1), (None, everything, 2), (None, TimeWindow(0, 1), 1)):
        assert store.tool_runs.tally_failures(KeyKind.INVOCATION, project, window, least, 5) == []
    store.toc.publish_build(Build(runs=(passed,), reset_runs=(one.key, two.key)))
    assert [each.run.call for each in store.tool_runs.find_runs(KeyKind.INVOCATION, make, None, 9)] == [passed.call]
    store.toc.drop_nodes([two.node_id])
    assert store.tool_runs.find_runs(KeyKind.INVOCATION, make, None, 9) == []


# terms


def test_term_rows_are_kept_apart_fold_to_the_same_union_and_a_reset_throws_them_away(store: Storage) -> None:
    other = NodeId("toc:day:2026-01-13")
    rows = [terms(1, 5), terms(2), terms(5, 2**32 - 1)]
    store.toc.publish_build(Build(terms=tuple(TermDelta(DAY, row) for row in rows)))
    store.toc.publish_build(Build(terms=(TermDelta(other, terms(7)),)))
    found = store.toc.get_term_sets([DAY, other, NodeId("toc:day:1999-01-01")])
    assert {i: sorted(r) for i, r in found.items()} == {DAY: sorted(rows), other: [terms(7)]}
    assert store.toc.fold_terms(3) == 0
    assert store.toc.fold_terms(2) == 1
    folded = store.toc.get_term_sets([DAY, other])
    assert folded == {DAY: [terms(1, 2, 5, 2**32 - 1)], other: [terms(7)]}
    assert store.toc.fold_terms(2) == 0
    store.toc.publish_build(Build(terms=(TermDelta(DAY, terms(9)),), reset_terms=(DAY,)))
    assert store.toc.get_term_sets([DAY, other]) == {DAY: [terms(9)], other: [terms(7)]}


def test_folding_leaves_a_large_row_and_joins_the_small_ones(store: Storage) -> None:
    large = TermDelta(DAY, terms(*range(0, 40_000, 2)))
    store.toc.publish_build(Build(terms=(large, *(TermDelta(DAY, terms(n)) for n in range(1, 11, 2)))))
    assert store.toc.fold_terms(4) == 1
    assert sorted(store.toc.get_term_sets([DAY])[DAY], key=len) == [terms(1, 3, 5, 7, 9), large.hashes]
    many = [terms(*range(n, 40_000 + n)) for n in range(5)]
    store.toc.publish_build(Build(terms=tuple(TermDelta(DAY, row) for row in many)))
    assert store.toc.fold_terms(4) == 1
    assert store.toc.get_term_sets([DAY]) == {DAY: [terms(*range(40_004))]}


def test_document_frequencies_fold_to_the_same_sums(store: Storage) -> None:
    rows = [
        DocumentFrequency(SHOP, terms(1, 2), counts(3, 1)),
        DocumentFrequency(SHOP, terms(2, 9), counts(4, 1)),
        DocumentFrequency(SHOP, terms(9), counts(-1)),
        DocumentFrequency(BILLING, terms(2), counts(7)),
    ]
    for row in rows:
        store.toc.publish_build(Build(frequencies=(row,)))
    expected = {(SHOP, 1): 3, (SHOP, 2): 5, (BILLING, 2): 7}
    assert summed(store.toc.list_frequencies()) == expected
    assert store.toc.fold_terms(3) == 0
    assert store.toc.fold_terms(2) == 1
    assert summed(store.toc.list_frequencies()) == expected
    assert len(store.toc.list_frequencies()) == 2
    store.toc.publish_build(Build(frequencies=(rows[3],), reset_frequencies=True))
    assert summed(store.toc.list_frequencies()) == {(BILLING, 2): 7}


# grips


@requirement("plan:link-grips", "plan:link-keys")
def test_a_grip_is_found_by_every_form_of_its_id_and_published_once(store: Storage) -> None:
    said = event("keep the retry queue")
    mine = grip(said)
    bare = mine.grip_id.rsplit(":", 1)[1]
    store.toc.publish_build(Build(grips=(mine, mine)))
    store.toc.publish_build(Build(grips=(replace(mine, segment=99),)))
    assert [store.grips.find_grip(form) for form in (mine.grip_id, bare, f"grip:{bare}")] == [mine] * 3
    assert store.get_stats().rows["grip"] == 1
    assert store.grips.find_grip("grip:5:0123456789abcdef") is None
    assert store.grips.find_grip("0123456789abcdef") is None
    assert store.grips.find_grip("grip:999999999999999:zzzzzzzzzzzzzzzz") is None
    with pytest.raises(InvalidQuery):
        store.grips.find_grip("nothing of the kind")


def test_grips_are_listed_by_the_events_they_quote_in_order_of_place(store: Storage) -> None:
    one, two = event("a longer text to quote", at="2026-01-12 09:00"), event("b", at="2026-01-12 09:01")
    front, back = grip(one, 0, 5), grip(one, 9, 12)
    pair = replace(grip(two), event_id_start=one.event_id, event_id_end=two.event_id, span_start=14)
    store.toc.publish_build(Build(grips=(back, pair, front)))
    assert store.grips.grips_by_event([one.event_id, two.event_id]) == {one.event_id: [front, back, pair], two.event_id: [pair]}
    assert store.grips.get_grips([front.grip_id, grip(event("absent")).grip_id]) == {front.grip_id: front}
    assert store.grips.grips_by_event([]) == {}
    assert store.grips.get_grips([]) == {}
    listed = [g for batch in store.grips.iter_all(batch=2) for g in batch]
    assert sorted(listed, key=lambda g: g.grip_id) == sorted([front, back, pair], key=lambda g: g.grip_id)


# openings and successors

ONE, TWO, THREE = GripId("grip:1:one"), GripId("grip:1:two"), GripId("grip:1:three")


def test_every_opening_of_a_grip_is_kept_in_order(store: Storage) -> None:
    assert store.usage.get_usage([ONE]) == {}
    store.usage.record_usage([ONE, TWO], 20)
    store.usage.record_usage([ONE], 10)
    store.usage.record_usage([], 30)
    assert store.usage.get_usage([ONE, TWO, THREE]) == {ONE: GripUsage((10, 20)), TWO: GripUsage((20,))}


def successors(store: Storage, *ids: GripId) -> dict[GripId, GripId | None]:
    """Which statement stands in the place of each of `ids` that holds no more."""
    return {old: found.new for old, found in store.superseded.get_successors(ids).items()}


def test_a_statement_leads_to_the_one_that_holds_now_the_last_recorded_wins_and_a_circle_ends(store: Storage) -> None:
    assert successors(store, ONE, TWO) == {}
    store.superseded.record_supersession(Supersession(ONE, TWO, 10))
    assert successors(store, ONE, TWO) == {ONE: TWO}
    store.superseded.record_supersession(Supersession(TWO, THREE, 20))
    assert successors(store, ONE, TWO, THREE) == {ONE: THREE, TWO: THREE}
    # Of two at one time, too.
    store.superseded.record_supersession(Supersession(TWO, ONE, 20))
    assert store.superseded.get_successors([TWO])[TWO].new != THREE
    store.superseded.record_supersession(Supersession(ONE, THREE, 20))
    assert successors(store, ONE) == {ONE: THREE}
    store.superseded.record_supersession(Supersession(THREE, ONE, 30))
    assert successors(store, ONE, THREE) == {ONE: THREE, THREE: ONE}


def test_a_retracted_statement_leads_nowhere_its_reason_stays_and_the_last_of_each_is_listed(store: Storage) -> None:
    store.superseded.record_supersession(Supersession(ONE, TWO, 10))
    gone = Supersession(TWO, None, 20, "it was a dream", "person")
    store.superseded.record_supersession(gone)
    assert store.superseded.get_successors([ONE, TWO]) == {ONE: replace(gone, old=ONE), TWO: gone}
    store.superseded.record_supersession(Supersession(ONE, None, 30))
    assert store.superseded.list_recorded() == [gone, Supersession(ONE, None, 30)]


def test_acts_are_listed_newest_first_as_they_were_told(store: Storage) -> None:
    acts = [AuditEntry("forget", ms, "person", "session", "asked", {"events": 3, "grips": ms}) for ms in (10, 20, 30)]
    for act in acts:
        store.audit.record_entry(act)
    assert store.audit.list_entries() == acts[::-1]
    assert store.audit.list_entries(1) == acts[2:]


# outbox


def test_changes_are_read_in_order_by_any_number_of_followers(store: Storage) -> None:
    (one,) = filed(store, run_of(2))
    store.toc.publish_build(Build(nodes=(node(),)))
    changes = [
        Change(1, ChangeKind.EVENTS_APPENDED, "2"),
        Change(2, ChangeKind.SEGMENT_PUBLISHED, one.node_id),
        Change(3, ChangeKind.NODE_PUBLISHED, DAY),
    ]
    assert store.outbox.read_after(0, 10) == changes
    assert store.outbox.read_after(0, 2) == changes[:2]
    assert store.outbox.read_after(2, 10) == changes[2:]
    assert store.outbox.read_after(3, 10) == []


def test_build_numbers_are_those_of_the_nodes(store: Storage) -> None:
    store.toc.publish_build(Build(nodes=(node(DAY),)))
    assert store.toc.get_builds([NodeId(DAY), NodeId("toc:day:2001-01-01")]) == {
        DAY: store.toc.get_nodes([NodeId(DAY)])[NodeId(DAY)].built
    }
    store.toc.publish_build(Build(nodes=(node(DAY, version=2, title="later"),)))
    assert store.toc.get_builds([NodeId(DAY)]) == {DAY: store.toc.current_version()}


class Without:
    """A Cleaner that takes out whole events, or words of texts."""

    def __init__(self, gone: set[str], words: str = "") -> None:
        self.gone, self.words = gone, words

    def clean_event(self, event: Event) -> Event | None:
        if event.event_id in self.gone:
            return None
        text = self.clean_text(event.text)
        return event if text == event.text else replace(event, text=text)

    def clean_text(self, text: str) -> str:
        return text.replace(self.words, "[forgotten]") if self.words else text


def test_followers_are_told_which_events_are_gone_and_from_where_on_numbers_are_others(store: Storage) -> None:
    before, one, behind = (event(f"in {name}", session=name, source_id="") for name in ("before", "one", "behind"))
    store.events.append([before, one, behind])
    last = store.outbox.read_after(0, 100)[-1].seq
    store.erase_forgotten(Without({one.event_id}))
    told = [c for c in store.outbox.read_after(last, 100) if c.kind in (ChangeKind.EVENT_DROPPED, ChangeKind.EVENTS_MOVED)]
    assert [(c.kind, c.subject) for c in told] == [(ChangeKind.EVENT_DROPPED, one.event_id), (ChangeKind.EVENTS_MOVED, "2")]
    assert [s.event.text for s in store.events.read_after(0, 10)] == ["in before", "in behind"]


def test_an_event_that_loses_words_and_with_them_its_id_is_gone_under_the_old_one(store: Storage) -> None:
    from memory_mcp.capture.log import EventLog
    from tests.factories import draft

    drafts = [draft("keeps hunter2 inside", source_id=""), draft("else", source_id="x")]
    EventLog(store.events, SystemClock()).append(drafts, "jsonl")
    [old, _] = [s.event.event_id for s in store.events.read_after(0, 10)]
    last = store.outbox.read_after(0, 100)[-1].seq
    store.erase_forgotten(Without(set(), "hunter2"))
    told = [(c.kind, c.subject) for c in store.outbox.read_after(last, 100) if c.kind is ChangeKind.EVENT_DROPPED]
    assert told == [(ChangeKind.EVENT_DROPPED, old)]
    assert "keeps [forgotten] inside" in {s.event.text for s in store.events.read_after(0, 10)}


def test_positions_are_kept_by_name_and_listed_by_their_beginning(store: Storage) -> None:
    assert store.outbox.get_checkpoint("bm25") == 0
    store.outbox.set_position("bm25", "17")
    store.outbox.set_position("bm25", "18")
    store.outbox.set_position("import:jsonl:/a_b", '{"offset": 5}')
    store.outbox.set_position("import:jsonl:/aXb", "{}")
    assert store.outbox.get_checkpoint("bm25") == 18
    assert store.outbox.get_positions("import:jsonl:/a_") == {"import:jsonl:/a_b": '{"offset": 5}'}
    assert len(store.outbox.get_positions("")) == 3


def test_answers_are_kept_for_an_hour_and_then_forgotten(store: Storage) -> None:
    first = store.events.append([event("one")], WriteRequest("k1", "the answer"))
    assert first.replayed_answer is None
    now = SystemClock().now_ms()
    assert store.outbox.forget_requests(now) == 0
    assert store.events.append([event("two")], WriteRequest("k1", "another")).replayed_answer == "the answer"
    assert store.outbox.forget_requests(now + 2 * 3_600_000) == 1
    assert store.events.append([event("two")], WriteRequest("k1", "another")).replayed_answer is None


#: When events of several batches happened.
_TOGETHER = ms("2026-01-12 09:00")


def test_batches_of_several_are_stored_as_one_after_another(store: Storage) -> None:
    [before] = store.events.append([event("kept since before", at=_TOGETHER)]).new_ids
    batches = [
        EventBatch([event("first", at=_TOGETHER + 1), event("second", at=_TOGETHER + 2)], WriteRequest("a")),
        EventBatch([event("kept since before", at=_TOGETHER)], WriteRequest("b")),
        # The same payload sent again while the first is being stored, and one whose event the first has, too.
        EventBatch([event("first", at=_TOGETHER + 1), event("second", at=_TOGETHER + 2)], WriteRequest("a")),
        EventBatch([event("second", at=_TOGETHER + 2), event("third", at=_TOGETHER + 3)]),
        EventBatch([], WriteRequest("c", "nothing of it")),
    ]
    first, known, again, partly, empty = store.events.append_batches(batches)
    assert (len(first.new_ids), first.known_ids, first.replayed_answer) == (2, (), None)
    assert (known.new_ids, known.known_ids) == ((), (before,))
    assert again == AppendResult((), (), " ".join(first.new_ids))
    assert (len(partly.new_ids), partly.known_ids) == (1, (first.new_ids[1],))
    assert empty == AppendResult((), ())
    assert [s.event.text for s in store.events.read_after(0, 10)] == ["kept since before", "first", "second", "third"]
    assert store.events.append([event("other")], WriteRequest("c")).replayed_answer == "nothing of it"
    assert store.events.append_batches([]) == []


def test_an_id_with_other_words_is_kept_as_a_variant_among_batches_too(store: Storage) -> None:
    told = event("the words", at=_TOGETHER)
    other = replace(told, text="other words")
    one, two, three = store.events.append_batches([EventBatch([told]), EventBatch([other]), EventBatch([other])])
    assert one.new_ids == (told.event_id,)
    assert len(two.new_ids) == 1
    assert two.new_ids != one.new_ids
    assert three == AppendResult((), two.new_ids)


# the whole store


def test_a_checkpoint_changes_nothing_that_is_read(store: Storage) -> None:
    filed(store, run_of(3))
    before = store.get_stats()
    store.write_checkpoint()
    store.write_checkpoint()
    assert store.get_stats().rows == before.rows
    assert len(store.events.read_after(0, 10)) == 3


def test_statistics_count_rows_bytes_and_time_and_an_empty_store_has_no_first_moment(store: Storage) -> None:
    stats = store.get_stats()
    assert (stats.first_ms, stats.last_ms, stats.text_bytes, stats.last_seq) == (None, None, 0, 0)
    first, last = event("é", at="2026-01-12 09:00"), event("abc", at="2026-01-12 10:00")
    store.events.append([last, first])
    stats = store.get_stats()
    assert (stats.text_bytes, stats.last_seq, stats.derived_to) == (5, 2, 0)
    assert (stats.first_ms, stats.last_ms) == (first.timestamp, last.timestamp)
    assert (stats.rows["event"], stats.timezone, stats.loss) == (2, "Europe/Berlin", None)
    assert store.get_stats(text=False) == replace(stats, text_bytes=0)


def test_the_zone_is_fixed_when_the_store_is_made_and_refuses_nonsense(store: Storage) -> None:
    assert store.timezone == "Europe/Berlin"
    with pytest.raises(InvalidQuery):
        store.set_timezone("Mars/Olympus")
    store.set_timezone("America/New_York")
    assert store.timezone == "America/New_York"


def contents(store: Storage) -> dict[str, object]:
    """Everything a reader can see."""
    ids = [n.node_id for n in store.toc.iter_nodes()]
    return {
        "events": store.events.read_after(0, 10_000),
        "cuts": list(store.toc.iter_cuts()),
        "nodes": list(store.toc.iter_nodes()),
        "children": {i: store.toc.child_ids(i) for i in ids},
        "terms": {i: union(rows) for i, rows in store.toc.get_term_sets(ids).items()},
        "frequencies": summed(store.toc.list_frequencies()),
        "grips": [g for batch in store.grips.iter_all() for g in batch],
        "outbox": store.outbox.read_after(0, 10_000),
        "marks": store.outbox.get_positions(""),
        "pins": store.toc.list_pins(),
        "topics": store.topics.list_topics(),
        "topic labels": store.topics.list_labels(),
        "openings": store.usage.get_usage([ONE, TWO]),
        "successors": store.superseded.list_recorded(),
        "acts": store.audit.list_entries(),
        "zone": store.timezone,
        "identity": store.get_stats().store_id,
    }


def fill(store: Storage) -> None:
    """A bit of everything."""
    events = [*run_of(30), *run_of(5, session="s2", project=BILLING)]
    cuts = filed(store, events)
    mine = grip(events[0], segment=cuts[0].key)
    bullet = TocBullet("a bullet", (mine.grip_id,))
    for version in range(1, 6):
        store.toc.publish_build(
            Build(nodes=(node(bullets=[bullet], version=version),), grips=(mine,), terms=(TermDelta(DAY, terms(version)),))
        )
    store.toc.publish_build(Build(frequencies=(DocumentFrequency(SHOP, terms(4), counts(2)),)))
    store.toc.set_pin(DAY, True, "agent")
    store.toc.replace_cuts([], {NodeId("toc:day:2020-01-01"): DAY})
    store.outbox.set_position("bm25", "3")
    store.topics.replace_topics([NETWORK, PAINT])
    store.topics.set_label(TopicLabel(NETWORK.topic_id, SHOP, "The network", "agent", 5))
    store.usage.record_usage([ONE], 10)
    store.superseded.record_supersession(Supersession(ONE, TWO, 20, "why", "person"))
    for at in (10, 20):
        store.audit.record_entry(AuditEntry("forget", at, "person", "session", "asked", {"events": 3, "grips": at}))


def test_compaction_closing_and_opening_again_keep_everything_and_the_store_stays_in_use(opened: Callable[[], Storage]) -> None:
    store = opened()
    fill(store)
    before = contents(store)
    store.close()
    store = opened()
    assert contents(store) == before
    for _ in range(2):
        size_before, size_after = store.compact_files()
        assert size_before > 0
        assert size_after > 0
        assert contents(store) == before
    store.events.append([event("after compaction")])
    compacted = contents(store)
    store.close()
    store.close()
    again = opened()
    assert contents(again) == compacted
    assert again.events.read_after(35, 5)[0].seq == 36
    assert [c.seq for c in again.outbox.read_after(0, 1000)] == list(range(1, len(before["outbox"]) + 2))  # type: ignore[arg-type]
    assert again.toc.find_node(NodeId("toc:day:2020-01-01")) is not None
    again.close()


def test_readers_and_writers_wait_while_the_files_are_rewritten(opened: Callable[[], Storage]) -> None:
    store = opened()
    fill(store)

    def write(done: threading.Event) -> None:
        for i in range(1000):
            if done.is_set():
                return
            store.events.append([event(f"while compacting {i}", at=ms("2026-02-01 09:00") + i)])

    def read(done: threading.Event) -> None:
        for _ in range(1000):
            if done.is_set():
                return
            assert len(store.events.read_after(0, 10_000)) >= 35, "events went missing while compacting"

    with beside(write, read, read):
        for _ in range(2):
            store.compact_files()
    store.close()
