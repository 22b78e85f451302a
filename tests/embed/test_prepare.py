"""Names of code as words."""

import pytest

from memory_mcp.embed.static import split_identifiers
from tests.work import calls

KNOWN = {"github", "javascript", "postgresql", "macos", "urls", "username"}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("getValueOf", "get Value Of"),
        ("parseHTTPResponse2Json", "parse HTTP Response2 Json"),
        ("user_id in MAX_SIZE", "user id in MAX SIZE"),
        ("HTTPServer of URLs and IDs", "HTTP Server of URLs and IDs"),
        ("getURLs", "get URLs"),
        ("src/memoryStore.py:memoryStore.openAll()", "src/memory Store.py:memory Store.open All()"),
        ("Plain prose, as it is. Twice.", "Plain prose, as it is. Twice."),
        ("Der größte Teil", "Der größte Teil"),
        ("", ""),
    ],
)
def test_a_name_is_cut_where_its_words_begin(text: str, words: str) -> None:
    assert split_identifiers(text, KNOWN) == words


def test_what_is_a_word_to_the_model_stays_one_also_inside_a_longer_name() -> None:
    text = "GitHub, JavaScript and PostgreSQL on macOS: getGitHubToken, userName"
    assert split_identifiers(text, KNOWN) == "GitHub, JavaScript and PostgreSQL on macOS: get GitHub Token, userName"
    assert split_identifiers("GitHub") == "Git Hub"


def test_cutting_again_changes_nothing() -> None:
    once = split_identifiers("aVeryLongName_ofHTTPServers and theirGitHubTokens", KNOWN)
    assert split_identifiers(once, KNOWN) == once


@pytest.mark.timeout(60)
@pytest.mark.parametrize("unit", ["aB3", "a"])
def test_data_is_left_alone_and_costs_no_more_than_its_length(unit: str) -> None:
    blob = unit * (1_500_000 // len(unit))
    assert split_identifiers(blob) == blob
    assert calls(lambda: split_identifiers(blob)) <= 30
