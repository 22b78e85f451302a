"""Keywords of a question: which are taken, and which calls are refused."""

import pytest

from memory_mcp.base.errors import InvalidQuery
from memory_mcp.requests.limits import MAX_KEYWORD, MAX_KEYWORDS, keyword_list


def test_blank_keywords_and_those_that_differ_in_case_or_spaces_alone_are_dropped() -> None:
    assert keyword_list(["redlock", "", "  ", "Redlock", "SELECT  FOR UPDATE", "select for update"]) == (
        "redlock",
        "SELECT FOR UPDATE",
    )


def test_as_many_and_as_long_as_allowed_are_taken() -> None:
    most = [f"{n}".rjust(MAX_KEYWORD, "x") for n in range(MAX_KEYWORDS)]
    assert keyword_list([*most, *most, ""]) == tuple(most)


@pytest.mark.parametrize(
    ("keywords", "message"),
    [([f"word{n}" for n in range(9)], "too many keywords: 9, at most 8"), (["x" * 81], "a keyword is too long: at most 80")],
)
def test_too_many_and_too_long_ones_are_refused_with_a_way_out(keywords: list[str], message: str) -> None:
    with pytest.raises(InvalidQuery, match=message) as failed:
        keyword_list(keywords)
    assert failed.value.hint
