"""Cursors: opaque, bound to their question, checked."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_mcp.base.errors import InvalidQuery
from memory_mcp.model.ids import EventId, event_id
from memory_mcp.requests.response import event_cursor, event_of, offset_cursor, offset_of

QUESTION = ("browse_toc", "toc:root", "all")


@given(offset=st.integers(0, 2**39), question=st.lists(st.text(), max_size=4))
def test_a_cursor_gives_back_its_offset_for_its_own_question(offset: int, question: list[str]) -> None:
    assert offset_of(offset_cursor(offset, *question), *question) == offset


def test_no_cursor_is_the_beginning() -> None:
    assert offset_of("", *QUESTION) == 0


@given(text=st.text(min_size=1, max_size=40))
def test_any_other_text_is_refused(text: str) -> None:
    for read in (offset_of, event_of):
        with pytest.raises(InvalidQuery, match="the cursor is damaged"):
            read(text, *QUESTION)


def test_one_changed_character_or_another_question_is_refused() -> None:
    cursor = offset_cursor(20, *QUESTION)
    for at in range(len(cursor)):
        other = cursor[:at] + ("0" if cursor[at] != "0" else "1") + cursor[at + 1 :]
        with pytest.raises(InvalidQuery):
            offset_of(other, *QUESTION)
    with pytest.raises(InvalidQuery):
        offset_of(cursor, "browse_toc", "toc:year:2026", "all")


def test_an_event_cursor_gives_back_its_event() -> None:
    last: EventId = event_id(1_768_986_120_000, "jsonl", "m1")
    assert event_of(event_cursor(last, *QUESTION), *QUESTION) == last
