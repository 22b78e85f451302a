"""Names of code as words."""

import pytest

from memory_mcp.embed.prepare import split_identifiers


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("getUserName", "get User Name"),
        ("parseHTTPResponse2Json", "parse HTTP Response2 Json"),
        ("user_id in MAX_SIZE", "user id in MAX SIZE"),
        ("HTTPServer of URLs and IDs", "HTTP Server of URLs and IDs"),
        ("getGitHubToken from JavaScript and PostgreSQL on macOS", "get GitHub Token from JavaScript and PostgreSQL on macOS"),
        ("Plain prose, as it is. Twice.", "Plain prose, as it is. Twice."),
        ("", ""),
    ],
)
def test_a_name_is_cut_where_its_words_begin(text: str, words: str):
    assert split_identifiers(text) == words


def test_cutting_again_changes_nothing():
    once = split_identifiers("aVeryLongName_ofHTTPServers")
    assert split_identifiers(once) == once
