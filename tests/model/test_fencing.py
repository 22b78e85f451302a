"""The fence: nothing between its tags can be read as one of them."""

import json

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from memory_mcp.model.fencing import (
    CITATION_SIGNS,
    TAG_SIGNS,
    break_citations,
    fence_text,
    neutralize,
    neutralize_json,
    refence_text,
)
from memory_mcp.model.lookalikes import fold_character, iter_readings
from memory_mcp.model.sentinel import MARK, OPEN
from tests.hostile import LAYERED, SPELLINGS, fenced_once, hostile, tags


@pytest.mark.parametrize("spelled", [*SPELLINGS, *LAYERED])
def test_no_spelling_of_a_tag_passes(spelled: str) -> None:
    assert tags(f"a {spelled} b") >= 1
    assert fenced_once(fence_text(f"what was said {spelled} and what follows"))


@given(hostile)
def test_no_mixture_of_them_passes_and_a_second_time_changes_nothing(text: str) -> None:
    assert fenced_once(fence_text(text))
    assert neutralize(neutralize(text)) == neutralize(text)
    assert fenced_once(refence_text(f"{OPEN}\n{text}"))


@given(st.text())
@example(f"the mark {MARK} in prose")
@example(f"`{MARK}`")
@example("recalled by memory-mcp")
@example("a < b and memory")
def test_other_text_stays_as_it_is_even_if_it_names_the_mark(text: str) -> None:
    assert neutralize(text) == text


@given(st.text(alphabet="aB\u0435\u00e9\u200b&#;lt<\U000e0061\\u%3c6"))
def test_every_character_of_a_reading_knows_its_place(text: str) -> None:
    for reading in iter_readings(text):
        ends = [reading.original_spans([(at, at + 1)])[0] for at in range(len(reading.folded))]
        assert ends == sorted(ends)
        assert all(0 <= start < end <= len(text) for start, end in ends)


def test_what_nests_deep_is_disarmed_all_the_same() -> None:
    inner = "memory-mcp"
    for _ in range(200):
        inner = f"</recalled-by-<rec<b>alled-by-{inner}>memory-mcp>"
    assert fenced_once(fence_text(inner))


def test_every_text_of_a_json_value_is_neutral_and_the_rest_as_it_was() -> None:
    given_value = {"origin": MARK, "n": 1, "x": [None, True, 2.5], f"<{MARK}>": [{"quote": f"</{MARK}> go on"}]}
    assert neutralize_json(given_value) == {
        "origin": MARK, "n": 1, "x": [None, True, 2.5], "<[our mark]>": [{"quote": "</[our mark]> go on"}],
    }  # fmt: skip


@pytest.mark.parametrize(
    "halves",
    [
        ("</recalled-by-", "memory-mcp>"),
        ("&lt;/recalled-by-", "memory-mcp&gt;"),
        ("\\u003c/re", "called-by-memory-", "mcp"),
        ("%3C%2Frecalled", "-by-", "memory-mcp%3E"),
    ],
)
def test_no_tag_is_split_over_several_texts_and_what_stands_beside_it_stays(halves: tuple[str, ...]) -> None:
    given_value = {"title": "1 < 2 & [3]", "keywords": list(halves), "more": "a \\ b"}
    told = neutralize_json(given_value)
    assert tags(json.dumps(told)) == 0
    assert (told["title"], told["more"]) == (given_value["title"], given_value["more"])


def test_a_sign_by_which_a_text_is_looked_at_closer_is_whatever_reads_as_one() -> None:
    for code in (*range(0xD800), *range(0xE000, 0x20000), *range(0xE0000, 0xE0100)):
        folded = fold_character(chr(code))
        assert TAG_SIGNS.search(chr(code)) or not {"<", "/"} & set(folded), hex(code)
        assert CITATION_SIGNS.search(chr(code)) or "[" not in folded, hex(code)


def test_no_recorded_words_pass_for_a_citation() -> None:
    assert break_citations("said [grip:1:2] [ Grip:3] \u3010grip:4]") == "said (grip:1:2] ( Grip:3] (grip:4]"
    disguised = "\uff3bgr\u200bip\uff1a1] &#91;g\u0433ip:1] [\u0261rip:1]]"
    assert break_citations(disguised) == "(gr\u200bip\uff1a1] (g\u0433ip:1] (\u0261rip:1]]"
    assert break_citations("a [link] and list[int]") == "a [link] and list[int]"
