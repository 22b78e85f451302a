"""Grips: what is worth quoting is quoted, in pieces that read well, and a quote can always be derived again."""

import itertools

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from memory_mcp.model.event import Event, EventType, Role
from memory_mcp.model.grip import JOINT, Grip, hash_quote, join_quote
from memory_mcp.tree.derive.grips import MAX_EXCERPT, covering_grips, cut_grips, span_grip, spans_of
from tests.factories import event
from tests.requirements import requirement
from tests.work import calls

MESSAGES = [
    (Role.USER, EventType.USER_MESSAGE),
    (Role.ASSISTANT, EventType.ASSISTANT_MESSAGE),
    (Role.ASSISTANT, EventType.ASSISTANT_STOP),
    (Role.ASSISTANT, EventType.SUBAGENT_START),
    (Role.ASSISTANT, EventType.SUBAGENT_STOP),
    (Role.SYSTEM, EventType.NOTE),
]
WORD = st.sampled_from(["word", "retry", "日本語。", "naïve", "😀", "don't", "src/a.py:10", "x" * 700, "👩\u200d💻", "e\u0301a"])
PROSE = st.lists(st.tuples(WORD, st.sampled_from([" ", " ", " ", ". ", "\n", "\n\n", "\t", "? "])), max_size=400).map(
    lambda pairs: "".join(w + gap for w, gap in pairs)
)


def quote(grip: Grip, *events: Event) -> str:
    by_id = {e.event_id: e for e in events}
    last = by_id[grip.event_id_end].text if grip.event_id_end != grip.event_id_start else None
    return join_quote(by_id[grip.event_id_start].text, last, grip.span_start, grip.span_end)


def bash(text: str, **metadata: str) -> Event:
    return event(text, role=Role.ASSISTANT, kind=EventType.TOOL_CALL, metadata={"tool": "Bash", "command": text, **metadata})


def result(text: str, **metadata: str) -> Event:
    return event(text, at="2026-01-12 09:01", role=Role.TOOL, metadata=metadata)


# messages


@pytest.mark.parametrize(("role", "kind"), MESSAGES)
def test_every_message_of_substance_has_a_grip_over_all_its_words(role: Role, kind: EventType) -> None:
    said = event("We decided to keep the retry queue.", role=role, kind=kind)
    (grip,) = cut_grips(said, None, 7)
    assert quote(grip, said) == said.text
    assert (grip.timestamp, grip.segment) == (said.timestamp, 7)
    assert grip.event_id_start == grip.event_id_end == said.event_id


@pytest.mark.parametrize("text", ["", "  \n ", "?", ":-)", "1", "…"])
def test_a_message_without_a_word_has_none(text: str) -> None:
    assert cut_grips(event(text), None, 1) == []


@pytest.mark.parametrize("kind", [EventType.SESSION_START, EventType.SESSION_END])
def test_the_ends_of_a_session_are_not_quoted(kind: EventType) -> None:
    assert cut_grips(event("session began in src", kind=kind), None, 1) == []


def _uncovered(text: str, spans: list[tuple[int, int]]) -> str:
    for start, end in reversed(spans):
        text = text[:start] + " " + text[end:]
    return text


@given(PROSE)
def test_spans_cover_every_word_in_order_without_overlap(text: str) -> None:
    spans = spans_of(text)
    assert all(start < end for start, end in spans)
    assert all(a[1] <= b[0] for a, b in itertools.pairwise(spans))
    left = _uncovered(text, spans)
    assert not any(len(run) > 1 for run in "".join(c if c.isalnum() else " " for c in left).split()), left


@given(PROSE)
@example("abc\n" + "x" * 700)
@example("tab\t" * 300)
@example("e\u0301" * 500)
@example("👩\u200d💻" * 300)
def test_no_excerpt_is_longer_than_the_bound_and_none_cuts_a_word_or_a_character(text: str) -> None:
    for start, end in spans_of(text):
        piece = text[start:end]
        assert len(piece) <= MAX_EXCERPT
        assert piece == piece.strip() or "\n" in piece
        for at in (start, end):
            if 0 < at < len(text):
                assert text[at] not in "\u0301\u200d\ufe0f"
                assert text[at - 1] != "\u200d"
        if 0 < end < len(text) and text[end - 1].isascii() and text[end - 1].isalnum() and text[end].isalnum():
            assert len(piece.split()[-1]) >= MAX_EXCERPT // 2, "a word was cut that did not fill the excerpt"


def test_a_long_message_is_cut_at_its_sentences_and_short_paragraphs_share_an_excerpt() -> None:
    text = " ".join(f"Sentence number {i} says that the queue is drained twice." for i in range(40))
    spans = spans_of(text)
    assert len(spans) > 2
    assert all(text[start:end].endswith("twice.") for start, end in spans)
    assert spans_of("One two.\n\nThree four.") == [(0, 21)]
    text = ("a" * 10 + " ") * 40 + "\n\n" + ("b" * 10 + " ") * 40
    assert [text[s] for s, _ in spans_of(text)] == ["a", "b"]


def test_a_pasted_file_of_five_megabytes_has_a_bounded_number_of_grips_at_a_bounded_cost() -> None:
    pasted = event("some log line with words in it\n" * 160_000)
    assert len(cut_grips(pasted, None, 1)) <= 200
    assert calls(lambda: cut_grips(pasted, None, 1)) <= 200 * 100


# tools


@pytest.mark.parametrize(
    ("metadata", "wanted"),
    [
        ({"command": "ls"}, True),
        ({"tool": "Edit"}, True),
        ({"tool": "apply_patch"}, True),
        ({"tool": "Read"}, False),
        ({}, False),
    ],
)
def test_commands_and_changes_are_quoted_and_looking_around_is_not(metadata: dict[str, str], wanted: bool) -> None:
    call = event("src/app.py", role=Role.ASSISTANT, kind=EventType.TOOL_CALL, metadata=metadata)
    assert [quote(g, call) for g in cut_grips(call, None, 1)] == (["src/app.py"] if wanted else [])


def test_a_command_and_its_result_are_one_quotation_of_a_long_result_the_beginning_and_also_of_an_empty_one() -> None:
    call, answer = bash("make test"), result("12 passed", command="make test")
    (grip,) = cut_grips(answer, call, 3)
    assert quote(grip, call, answer) == f"make test{JOINT}12 passed"
    assert (grip.event_id_start, grip.event_id_end, grip.timestamp) == (call.event_id, answer.event_id, call.timestamp)
    call, answer = bash("make"), result("compiling module\n" * 500)
    (grip,) = cut_grips(answer, call, 3)
    assert len(quote(grip, call, answer)) <= MAX_EXCERPT
    assert quote(grip, call, answer).endswith("compiling module")
    call, answer = bash("true"), result("")
    (grip,) = cut_grips(answer, call, 3)
    assert quote(grip, call, answer) == f"true{JOINT}"


def test_at_most_four_error_lines_below_the_beginning_have_grips_of_their_own() -> None:
    call = bash("make")
    answer = result("compiling\n" * 60 + "src/a.c:10: error: expected ';'\nok\nsrc/b.c:2: KeyError in table\n", exit_status="2")
    lines = [quote(g, call, answer) for g in cut_grips(answer, call, 3)][1:]
    assert lines == ["src/a.c:10: error: expected ';'", "src/b.c:2: KeyError in table"]
    answer = result("x\n" * 400 + "error: again\n" * 50, exit_status="1")
    assert len(cut_grips(answer, None, 3)) == 1 + 4


def test_a_failed_result_without_its_call_is_quoted_and_a_fine_one_is_not() -> None:
    failed, fine = result("could not connect", is_error="true"), result("all fine here")
    assert [quote(g, failed) for g in cut_grips(failed, None, 1)] == ["could not connect"]
    assert cut_grips(fine, None, 1) == []
    for status in ("", "0"):
        assert cut_grips(result("done", exit_status=status), None, 1) == []


@pytest.mark.timeout(60)
def test_a_long_line_of_data_in_a_failed_result_is_read_in_time() -> None:
    """A pattern that tried every beginning of a run took the square of its length: a minute for 65,000 characters."""
    answer = result("data:" + "A" * 400_000 + "\nfatal: not an image", exit_status="1")
    grips = cut_grips(answer, bash("convert"), 1)
    assert quote(grips[-1], answer) == "fatal: not an image"


# identity


@requirement("plan:link-events")
@given(PROSE)
def test_a_quote_is_derived_again_from_its_span_matches_its_hash_and_is_cut_the_same_again_in_any_segment(text: str) -> None:
    said = event(text)
    for grip in cut_grips(said, None, 9):
        assert hash_quote(quote(grip, said)) == grip.quote_hash
        assert grip.grip_id.startswith(f"grip:{said.timestamp}:")
    assert cut_grips(said, None, 1) == cut_grips(said, None, 1)
    assert [g.grip_id for g in cut_grips(said, None, 1)] == [g.grip_id for g in cut_grips(said, None, 2)]
    ids = [g.grip_id for g in cut_grips(said, None, 1)]
    assert len(ids) == len(set(ids))


def test_equal_words_in_two_events_are_two_grips() -> None:
    one, two = event("same words", at="2026-01-12 09:00"), event("same words", at="2026-01-12 10:00")
    assert cut_grips(one, None, 1)[0].grip_id != cut_grips(two, None, 1)[0].grip_id
    assert cut_grips(one, None, 1)[0].quote_hash == cut_grips(two, None, 1)[0].quote_hash


def test_the_grip_that_covers_most_of_a_place_comes_first_and_a_pair_covers_both_of_its_events() -> None:
    said = event("word " * 400)
    grips = cut_grips(said, None, 1)
    second = grips[1]
    best = covering_grips(grips, said, second.span_start + 5, second.span_end - 5)
    assert best[0] == second
    assert covering_grips(grips, event("another one"), 0, 5) == []
    call, answer = bash("make"), result("built fine")
    (pair,) = cut_grips(answer, call, 3)
    assert covering_grips([pair], call, 0, 4) == [pair]
    assert covering_grips([pair], answer, 0, 5) == [pair]
    assert covering_grips([pair], answer, 90, 95) == []


def test_a_grip_made_for_some_words_quotes_exactly_these() -> None:
    said = event("keep the retry queue " * 100)
    grip = span_grip(said, 5, 20, 1)
    assert quote(grip, said) == said.text[5:20]
    assert span_grip(said, 0, 2000, 1).span_end == MAX_EXCERPT
