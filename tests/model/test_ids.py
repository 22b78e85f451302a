"""Ids: what is emitted is read again, what the specification writes is read too, and nothing else ever crashes."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from memory_mcp.base.errors import InvalidQuery
from memory_mcp.model import ids
from memory_mcp.model.calendar import TocLevel, level_of
from tests.requirements import requirement

TIMES = st.integers(0, (1 << 47) - 1)
ODD = st.text(max_size=60) | st.from_regex(r"(evt|grip|toc):[a-z]*:?[0-9A-Za-z:\-]*\n?", fullmatch=True)


@given(TIMES, st.text(max_size=40), st.text(max_size=40))
def test_an_event_id_is_a_ulid_that_begins_with_the_source_time(time_ms: int, source: str, own: str) -> None:
    made = ids.event_id(time_ms, source, own)
    assert len(made) == 26
    assert ids.event_key(made) >> 80 == time_ms
    assert ids.event_id_from(ids.event_key(made)) == made
    assert ids.event_id(time_ms, source, own) == made


@given(TIMES, TIMES, st.integers(0, 2**80 - 1), st.integers(0, 2**80 - 1))
def test_event_ids_sort_as_their_keys_and_their_times_do(a: int, b: int, x: int, y: int) -> None:
    one, two = ids.make_key(a, x), ids.make_key(b, y)
    assert (ids.event_id_from(one) < ids.event_id_from(two)) == (one < two)
    if a < b:
        assert one < two


@requirement("plan:link-keys")
def test_an_event_id_is_read_bare_prefixed_and_in_lower_case() -> None:
    made = ids.event_id(1_769_763_600_000, "claude-code", "uuid-1")
    key = ids.event_key(made)
    assert [ids.event_key(form) for form in (f"evt:1769763600000:{made}", f"evt:{made}", made.lower())] == [key] * 3


def test_two_ways_to_split_the_same_letters_are_two_origins() -> None:
    assert ids.event_id(1, "ab", "c") != ids.event_id(1, "a", "bc")


def test_a_time_before_1970_is_the_first_moment_of_it_and_a_far_future_still_fits_a_key() -> None:
    assert ids.event_key(ids.event_id(-5, "x")) >> 80 == 0
    assert ids.event_key(ids.event_id(2**60, "x")) < 2**127


@requirement("plan:link-id-formats")
@pytest.mark.parametrize(
    ("given_form", "canonical", "level"),
    [
        ("", "toc:root", TocLevel.ROOT),
        ("root", "toc:root", TocLevel.ROOT),
        ("toc:root", "toc:root", TocLevel.ROOT),
        ("toc:year:2026", "toc:year:2026", TocLevel.YEAR),
        ("toc:month:2026-01", "toc:month:2026-01", TocLevel.MONTH),
        ("toc:month:2026:01", "toc:month:2026-01", TocLevel.MONTH),
        ("toc:week:2026-W04", "toc:week:2026-W04", TocLevel.WEEK),
        ("toc:week:2026:W04", "toc:week:2026-W04", TocLevel.WEEK),
        ("toc:day:2026-01-30", "toc:day:2026-01-30", TocLevel.DAY),
        ("  toc:day:2026-01-30  ", "toc:day:2026-01-30", TocLevel.DAY),
    ],
)
def test_every_form_of_a_period_id_is_read(given_form: str, canonical: str, level: TocLevel) -> None:
    node_id = ids.parse_node_id(given_form)
    assert (node_id, level_of(node_id)) == (canonical, level)


@given(st.dates(), st.integers(0, 2**60 - 1))
def test_a_segment_id_carries_its_day_and_its_key(day: object, key: int) -> None:
    made = ids.segment_id(str(day), key)
    assert made.startswith(f"toc:segment:{day}:")
    assert ids.parse_node_id(made) == made
    assert ids.segment_key_of(made) == key == ids.node_key(made)
    assert level_of(made) is TocLevel.SEGMENT


def test_a_segment_id_with_another_day_names_the_same_segment() -> None:
    assert ids.node_key(ids.segment_id("2026-01-30", 77)) == ids.node_key(ids.segment_id("2026-01-31", 77))


@requirement("plan:link-id-formats")
@given(TIMES, st.integers(0, 2**80 - 1))
def test_a_grip_id_is_read_whole_and_bare(time_ms: int, tail: int) -> None:
    key = ids.make_key(time_ms, tail)
    made = ids.grip_id_from(key)
    assert made.startswith(f"grip:{time_ms}:")
    assert ids.grip_key(made) == (key, True)
    bare = made.rsplit(":", 1)[1]
    assert ids.grip_key(bare) == ids.grip_key(f"grip:{bare}") == (tail, False)


@given(TIMES, st.integers(0, 10**9 - 1), st.integers(0, 10**9 - 1))
def test_a_span_grip_id_names_its_event_and_span(time_ms: int, start: int, end: int) -> None:
    event = ids.event_id(time_ms, "x")
    assert ids.parse_span_grip(ids.span_grip_id(event, start, end)) == (event, start, end)


def test_a_stored_grip_id_is_no_span_grip() -> None:
    assert ids.parse_span_grip(ids.grip_id_from(ids.make_key(5, 9))) is None


@pytest.mark.parametrize(
    "text",
    [
        "toc:year:26",
        "toc:year:2026\n\nx",
        "toc:month:2026-1",
        "toc:week:2026-04",
        "toc:day:2026-1-30",
        "toc:segment:2026-01-30:short",
        "toc:decade:2020",
        "segment",
        "toc:year:２０２６",
    ],
)
def test_what_is_no_node_id_is_refused_with_examples(text: str) -> None:
    with pytest.raises(InvalidQuery, match="toc:week:2026-W04"):
        ids.parse_node_id(text)


@pytest.mark.parametrize("text", ["", "evt:", "0" * 25, "0" * 27, "U" * 26, "evt:5:abc", "0" * 26 + "\n", "Z" * 26])
def test_what_is_no_event_id_is_refused(text: str) -> None:
    with pytest.raises(InvalidQuery, match="26-character ULID"):
        ids.event_key(text)


@pytest.mark.parametrize(
    "text", ["", "grip:", "grip:5:short", "grip:x:0123456789abcdef", "a:b:0123456789abcdef", "grip:²:0123456789abcdef"]
)
def test_what_is_no_grip_id_is_refused(text: str) -> None:
    with pytest.raises(InvalidQuery, match="grip:<ms>:<id>"):
        ids.grip_key(text)


@given(ODD)
@example("0" * 26 + "\n")
@example("grip:²:0123456789abcdef")
@example("grip:" + "9" * 5000 + ":0123456789abcdef")
@example("toc:year:2026\n")
def test_no_text_makes_the_readers_of_ids_do_anything_but_read_or_refuse(text: str) -> None:
    for read in (ids.event_key, ids.grip_key, ids.parse_node_id, ids.parse_span_grip, ids.segment_key_of):
        try:
            found = read(text)
        except InvalidQuery:
            continue
        if read is ids.parse_node_id:
            assert ids.parse_node_id(str(found)) == found
            level_of(ids.NodeId(str(found)))


@given(st.integers(0, 2**130 - 1))
def test_base_32_round_trips(value: int) -> None:
    assert ids.decode_base32(ids.encode_base32(value, 26)) == value
    assert ids.decode_base32(ids.encode_base32(value, 26).lower()) == value


def test_a_letter_outside_the_alphabet_is_no_base_32() -> None:
    with pytest.raises(ValueError, match="base 32"):
        ids.decode_base32("0L")
