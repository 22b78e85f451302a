"""The event log: ids follow from the source and never from the time of arrival; trust comes from the write path."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_mcp.capture.log import FUTURE_SLACK_MS, EventLog, fill_times
from memory_mcp.model.event import FILE_TIME, INFERRED, SOURCE_TIME, Event, EventDraft, Role, Trust
from memory_mcp.model.ids import event_key
from memory_mcp.storage.base import Storage
from memory_mcp.storage.values import Scope, WriteRequest
from tests.factories import draft, ms
from tests.fakes import NOON, FakeClock


@pytest.fixture
def log(storage: Storage, clock: FakeClock) -> EventLog:
    return EventLog(storage.events, clock)


def stored(storage: Storage) -> list[Event]:
    return storage.events.list_events(Scope(), limit=1000)


def test_a_draft_becomes_an_event_with_all_it_said(log: EventLog, storage: Storage) -> None:
    given_draft = draft("hello", source_id="m1", thread="sub", speaker="Ann", metadata={"model": "x"})
    log.append([given_draft], "claude-code")
    (kept,) = stored(storage)
    assert kept == Event(
        event_id=kept.event_id,
        session_id="s1",
        timestamp=ms("2026-01-12 09:00"),
        type=given_draft.type,
        role=Role.USER,
        trust=Trust.USER,
        text="hello",
        source="claude-code",
        source_id="m1",
        agent="claude-code",
        project=given_draft.project,
        thread="sub",
        speaker="Ann",
        metadata={"model": "x"},
    )
    assert event_key(kept.event_id) >> 80 == kept.timestamp


@pytest.mark.parametrize("source_id", ["m1", ""])
@pytest.mark.parametrize("at", ["2026-01-12 09:00", None])
def test_reading_a_source_twice_changes_nothing(
    log: EventLog, storage: Storage, clock: FakeClock, source_id: str, at: str | None
) -> None:
    drafts = [draft("hello", at=at, source_id=source_id), draft("world", at=at, source_id=source_id and "m2")]
    first = log.append(drafts, "jsonl")
    clock.advance(3600)
    second = log.append(drafts, "jsonl")
    assert second.new_ids == ()
    assert second.known_ids == first.new_ids
    assert [e.text for e in sorted(stored(storage), key=lambda e: e.text)] == ["hello", "world"]


def test_the_id_follows_from_source_time_and_source_id_alone(log: EventLog, clock: FakeClock) -> None:
    (one,) = log.make_events([draft("a", source_id="m1")], "jsonl")
    clock.advance(86_400)
    (later,) = log.make_events([draft("a", source_id="m1", session="other", agent="codex")], "jsonl")
    (elsewhere,) = log.make_events([draft("a", source_id="m1")], "claude-code")
    assert one.event_id == later.event_id
    assert one.event_id != elsewhere.event_id


def test_without_a_source_id_equal_words_said_twice_are_two_events(log: EventLog, storage: Storage) -> None:
    appended = log.append([draft("yes"), draft("yes"), draft("no")], "jsonl")
    assert len(set(appended.new_ids)) == 3
    assert log.append([draft("yes"), draft("yes"), draft("no")], "jsonl").new_ids == ()
    assert len(stored(storage)) == 3


@pytest.mark.parametrize(
    "changed",
    [{"session": "s2"}, {"at": "2026-01-12 09:01"}, {"role": Role.ASSISTANT}, {"text": "other"}],
    ids=lambda c: next(iter(c)),
)
def test_without_a_source_id_every_part_of_a_message_tells_it_apart(log: EventLog, changed: dict[str, object]) -> None:
    (one,) = log.make_events([draft("yes")], "jsonl")
    (other,) = log.make_events([draft(**{"text": "yes", **changed})], "jsonl")  # type: ignore[arg-type]
    assert one.event_id != other.event_id


# times


def test_a_missing_time_is_that_of_the_neighbour_and_said_so(log: EventLog) -> None:
    at = ms("2026-01-12 09:00")
    events = log.make_events([draft("a", at=None), draft("b", at=at), draft("c", at=None)], "jsonl")
    assert [e.timestamp for e in events] == [at - 1, at, at + 1]
    assert [dict(e.metadata) for e in events] == [{INFERRED: "inferred"}, {}, {INFERRED: "inferred"}]


def test_without_any_time_the_receive_time_is_used(log: EventLog) -> None:
    (one,) = log.make_events([draft("a", at=None)], "tool")
    assert (one.timestamp, dict(one.metadata)) == (NOON, {INFERRED: "inferred"})


@pytest.mark.parametrize("odd", [0, -1, -(2**62), NOON + FUTURE_SLACK_MS + 1, 2**62])
def test_a_time_before_1970_or_in_the_future_is_replaced_and_kept_in_metadata(log: EventLog, storage: Storage, odd: int) -> None:
    at = ms("2026-01-12 09:00")
    log.append([draft("a", at=at), draft("b", at=odd)], "jsonl")
    b = next(e for e in stored(storage) if e.text == "b")
    assert (b.timestamp, dict(b.metadata)) == (at + 1, {INFERRED: "inferred", SOURCE_TIME: str(odd)})
    assert log.append([draft("a", at=at), draft("b", at=odd)], "jsonl").new_ids == ()
    # Read again beside another neighbour, as when a file is read on from its middle, it is still the same.
    assert log.append([draft("c", at=at + 60_000), draft("b", at=odd)], "jsonl").known_ids == (b.event_id,)


def test_a_time_is_never_guessed_from_another_session(log: EventLog) -> None:
    """In whatever order sessions come, a session gets the same times."""
    timed = [draft("a", session="s1", at=ms("2026-01-12 09:00")), draft("b", session="s1", at=None)]
    ahead = [draft("c", session="s2", at=NOON * 2), draft("d", session="s2", at=None)]
    orders = ([*timed, *ahead], [*ahead, *timed], [timed[0], ahead[0], timed[1], ahead[1]])
    found = [sorted((e.text, e.timestamp) for e in log.make_events(drafts, "jsonl")) for drafts in orders]
    assert found[0] == found[1] == found[2]
    assert found[0][2:] == [("c", NOON), ("d", NOON + 1)]


@pytest.mark.parametrize("fine", [1, NOON, NOON + FUTURE_SLACK_MS])
def test_a_time_up_to_a_day_ahead_is_believed(log: EventLog, fine: int) -> None:
    (one,) = log.make_events([draft("a", at=fine)], "jsonl")
    assert (one.timestamp, dict(one.metadata)) == (fine, {})


@given(st.lists(st.none() | st.integers(1, 100), max_size=20))
def test_every_time_that_was_given_stays_and_every_gap_is_filled(times: list[int | None]) -> None:
    filled = fill_times(times, 77)
    assert len(filled) == len(times)
    assert all(t in (None, f) for t, f in zip(times, filled, strict=True))
    known = [t for t in times if t is not None] or [77]
    assert all(min(abs(t - k) for k in known) <= len(times) for t in filled)


@given(st.integers(0, 5), st.integers(0, 5))
def test_what_has_no_time_keeps_its_place(before: int, behind: int) -> None:
    filled = fill_times([None] * before + [1000] + [None] * behind, 77)
    assert filled == list(range(1000 - before, 1001 + behind))


# trust


@pytest.mark.parametrize(
    ("role", "trust"),
    [(Role.USER, Trust.USER), (Role.ASSISTANT, Trust.ASSISTANT), (Role.TOOL, Trust.TOOL), (Role.SYSTEM, Trust.IMPORTED)],
)
def test_a_transcript_gives_each_event_its_roles_own_trust(log: EventLog, role: Role, trust: Trust) -> None:
    assert log.make_events([draft("x", role=role)], "claude-code")[0].trust is trust


def test_a_write_path_sets_its_own_trust_whatever_the_payload_says(log: EventLog) -> None:
    claimed = draft("the user verified this", role=Role.USER, metadata={"trust": "user"})
    assert log.make_events([claimed], "tool", Trust.AGENT_NOTE)[0].trust is Trust.AGENT_NOTE


# the write


def test_ids_come_back_in_input_order_and_a_request_is_answered_again(log: EventLog) -> None:
    drafts: list[EventDraft] = [draft(str(i), source_id=str(i)) for i in (3, 1, 2)]
    appended = log.append(drafts, "tool", request=WriteRequest("k", "answer"))
    assert list(appended.new_ids) == [e.event_id for e in log.make_events(drafts, "tool")]
    assert log.append([replace(drafts[0], text="else")], "tool", request=WriteRequest("k", "answer")).replayed_answer == "answer"


def test_other_words_under_a_known_id_are_kept_as_a_variant(log: EventLog, storage: Storage) -> None:
    log.append([draft("first", source_id="m1")], "jsonl")
    log.append([draft("second", source_id="m1")], "jsonl")
    assert sorted(e.text for e in stored(storage)) == ["first", "second"]


def test_a_files_time_that_is_none_is_not_believed(log: EventLog, storage: Storage) -> None:
    """Metadata of other sources may hold anything under any name."""
    for text in ("abc", "9" * 40, "-1"):
        log.append([draft("Count the quays.", at=None, session=text[:3], metadata={FILE_TIME: text})], "jsonl")
    assert {e.timestamp for e in stored(storage)} == {NOON}


def test_messages_of_one_coarse_time_keep_the_order_of_their_source_and_their_ids(log: EventLog, storage: Storage) -> None:
    drafts = [draft(f"turn {n}", at="2026-01-12 00:00", source_id=f"m{n}") for n in range(40)]
    first = log.append(drafts, "jsonl")
    assert [event.text for event in stored(storage)] == [f"turn {n}" for n in range(40)]
    assert log.append(list(reversed(drafts[7:19])), "jsonl").new_ids == ()
    assert log.append([drafts[30]], "jsonl").known_ids == (first.new_ids[30],)


def test_an_id_that_a_source_uses_again_at_another_coarse_time_is_another_event(log: EventLog, storage: Storage) -> None:
    log.append([draft("first", at="2026-01-12 09:00", source_id="1")], "jsonl")
    log.append([draft("second", at="2026-01-13 09:00", source_id="1")], "jsonl")
    assert [event.text for event in stored(storage)] == ["first", "second"]


def test_messages_of_one_precise_time_keep_it(log: EventLog, storage: Storage) -> None:
    log.append([replace(draft(f"call {n}", source_id=f"m{n}"), timestamp=ms("2026-01-12 09:00") + 17) for n in range(3)], "jsonl")
    assert {event.timestamp for event in stored(storage)} == {ms("2026-01-12 09:00") + 17}
