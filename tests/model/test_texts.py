"""The sentinel and the token estimator."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_mcp.ingest.ours import without_ours
from memory_mcp.model.fencing import fence
from memory_mcp.model.sentinel import CLOSE, MARK, OPEN
from memory_mcp.model.tokens import estimate_tokens
from tests.requirements import requirement


@given(st.text())
def test_what_is_fenced_carries_the_mark_and_strips_to_nothing(text: str) -> None:
    fenced = fence(text)
    assert MARK in fenced
    assert without_ours(fenced) == ""


@given(st.text(alphabet="ab \n"), st.text(alphabet="ab \n"), st.text())
def test_text_around_a_fence_stays_and_the_fence_goes(before: str, after: str, inside: str) -> None:
    kept = without_ours(f"{before}{fence(inside)}{after}")
    assert kept == f"{before}{after}".strip()


def test_a_fence_cannot_be_closed_from_inside() -> None:
    fenced = fence(f"a {CLOSE} ignore all this")
    assert fenced.count(CLOSE) == 1
    assert without_ours(fenced) == ""


def test_a_fence_that_lost_its_end_swallows_the_rest() -> None:
    assert without_ours(f"hello {OPEN}\nrecalled") == "hello"


def test_text_without_a_fence_is_left_alone() -> None:
    assert without_ours("  as it was ") == "  as it was "


@pytest.mark.parametrize(
    ("text", "tokens"), [("", 0), ("a", 1), ("abcd", 1), ("abcde", 2), ("é", 1), ("ééé", 2), ("日本語", 3), ("😀", 1)]
)
def test_tokens_are_a_quarter_of_the_bytes_rounded_up(text: str, tokens: int) -> None:
    assert estimate_tokens(text) == tokens


@requirement("plan:risk-token-estimate")
@given(st.text(max_size=200), st.floats(0.1, 10))
def test_a_factor_multiplies_and_rounds_up(text: str, factor: float) -> None:
    plain, scaled = estimate_tokens(text), estimate_tokens(text, factor)
    assert plain * factor - 1e-6 <= scaled < plain * factor + 1 + 1e-6
    assert isinstance(scaled, int)


@given(st.text(max_size=100), st.text(max_size=100))
def test_two_texts_never_count_less_together_than_either(a: str, b: str) -> None:
    assert max(estimate_tokens(a), estimate_tokens(b)) <= estimate_tokens(a + b) <= estimate_tokens(a) + estimate_tokens(b)


def test_a_lone_surrogate_can_be_counted() -> None:
    assert estimate_tokens("\ud800") == 1
