"""The tokenizer and the snippets: code stays whole and is split, languages work, and no input is an error."""

import re
import unicodedata

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from memory_mcp.base.text import (
    MAX_TOKEN,
    STOPWORDS,
    find_beginning,
    hashes_in,
    iter_terms,
    lower_plain,
    query_terms,
    snippet,
    term_hash,
    terms,
)
from tests.requirements import requirement
from tests.waiting import together

WORDS = ["parse", "getHTTPResponse", "my_func", "src/auth/tokenStore.ts", "v1.2.3", "a1b2c3d4e5", "日本語", "café", "C++"]
CODE = st.lists(st.sampled_from([*WORDS, "self.parseConfig", "x_y.zW2", "E0308", "don't", "é", "10.0.0.1", "--flag"]), max_size=6)
JOINTS = st.sampled_from([" ", "\n", ".", "/", "::", "-", "(", ")", "'", '"', ", ", "_", "=", "@", "#", "\\", "…", "、"])
ANY = st.text(max_size=80)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The tests are failing", ["test", "fail"]),
        ("snake_case_name", ["snake_case_name", "snake", "case", "name"]),
        ("camelCaseName", ["camelcasename", "camel", "case", "name"]),
        ("getHTTPResponse", ["gethttpresponse", "get", "http", "respons"]),
        (
            "src/auth/tokenStore.ts",
            ["src/auth/tokenstore.ts", "tokenstore.ts", "tokenstore", "src", "auth", "token", "store", "ts"],
        ),
        ("self.parseConfig()", ["self.parseconfig", "parseconfig", "self", "pars", "config"]),
        ("pkg.my_func", ["pkg.my_func", "my_func", "pkg", "func"]),
        ("std::vec::Vec", ["std::vec::vec", "std", "vec", "vec"]),
        ("v1.2.3", ["v1.2.3", "v1", "2", "3"]),
        ("E0308", ["e0308"]),
        ("TS2304:", ["ts2304"]),
        ("a1b2c3d4e5f6", ["a1b2c3d4e5f6"]),
        ("2026-01-30", ["2026-01-30", "2026", "01", "30"]),
        ("C++ and C# or Go", ["c++", "c#", "c", "go"]),
        ("Caroline's", ["carolin"]),
        ("12\u2192C++ in node#3 \u2014 \u2502a#b\u2500d++", ["12", "c++", "c", "node", "3", "b", "d++"]),
        ("user@example.com", ["user@example.com", "user", "exampl", "com", "example.com"]),
        ("APIs", ["api"]),
        ("__init__", ["init"]),
        ("日本語テスト", ["日本", "本語", "語テ", "テス", "スト"]),
        ("猫", ["猫"]),
        ("한국어", ["한국", "국어"]),
        ("café", ["cafe"]),
        ("naïve façade", ["naiv", "facad"]),
        ("Straße", ["strass"]),
        ("ﬁle", ["file"]),
        ("привет мир", ["привет", "мир"]),
        ("_", []),
        ("", []),
        ("?!.", []),
        ("what is the", []),
    ],
)
def test_what_a_text_is_taken_apart_into(text: str, expected: list[str]) -> None:
    found = terms(text)
    assert sorted(set(found)) == sorted({*expected})


def test_prose_keeps_repetitions_and_order() -> None:
    assert terms("fail again, fail better") == ["fail", "fail", "better"]


def test_a_composed_and_a_decomposed_accent_are_the_same_word() -> None:
    for word in ("résumé", "Ångström", "Hà Nội", "한국어"):
        assert terms(unicodedata.normalize("NFD", word)) == terms(unicodedata.normalize("NFC", word)) != []


def test_a_run_longer_than_a_word_is_data_but_a_hash_of_64_digits_is_kept() -> None:
    assert terms("x" * (MAX_TOKEN + 1)) == []
    assert terms("0a" * 32) == ["0a" * 32]


@requirement("plan:algo-short-words")
def test_stop_words_say_nothing_and_short_code_words_do() -> None:
    assert not STOPWORDS.intersection(terms("what did we do with go and c and v2 and js"))
    assert {"go", "c", "v2", "js"} <= set(terms("what did we do with go and c and v2 and js"))


@requirement("plan:algo-terms")
def test_a_query_is_split_into_distinct_terms_without_regard_to_case() -> None:
    assert query_terms("Token TOKEN token refresh") == ["token", "refresh"]
    assert query_terms("tokens REFRESHING") == query_terms("token refreshed")


def test_a_query_of_stop_words_alone_keeps_them() -> None:
    assert query_terms("who are you") == ["who", "are", "you"]
    assert query_terms("?!") == []


@given(CODE, st.lists(JOINTS, min_size=6, max_size=6))
@example(["self.parseConfig"], [" "] * 6)
@example(["x_y.zW2", "parse"], ["."] * 6)
def test_a_query_that_quotes_whole_words_of_a_text_finds_them(words: list[str], joints: list[str]) -> None:
    text = "".join(w + j for w, j in zip(words, joints, strict=False))
    held = set(terms(text))
    for quoted in [*re.findall(r"\w+", text), *text.split(), text]:
        assert set(terms(quoted)) <= held, quoted


@given(ANY)
def test_every_whole_word_of_any_text_is_found_in_it(text: str) -> None:
    text = unicodedata.normalize("NFKC", text)
    held = set(terms(text))
    for word in re.findall(r"\w+", text):
        if word.lower() not in {"http", "https", "ftp", "file"}:
            assert set(terms(word)) <= held, word


@given(ANY | st.text(alphabet="\"'()[]{}*?~^:+-!&|\\/ ab", max_size=40))
@example('" OR 1=1 -- AND NOT (a*')
@example("http:///x")
@example("\ud800 \x00 \u202e \ufeff")
def test_no_punctuation_and_no_character_makes_a_query_fail(text: str) -> None:
    for term in [*terms(text), *query_terms(text)]:
        assert term
        assert 0 <= term_hash(term) < 2**32
    assert hashes_in(text) == {term_hash(t) for t in terms(text)}


@given(ANY)
def test_taking_apart_twice_gives_the_same_as_once(text: str) -> None:
    assert list(iter_terms(text)) == list(iter_terms(text))


_ENDINGS = (
    "s es ed ing y ies ied ying ly ness fulness ization ational ator alism ality ousness iveness ivity bility ogy ical".split()
)


@given(st.text("abdeghiklnorstuvxyz", min_size=1, max_size=6), st.sampled_from(_ENDINGS))
@example("sk", "ies")
@example("v", "ying")
@example("us", "ing")
@example("tr", "y")
@example("capa", "bility")
def test_a_text_holds_the_beginnings_of_its_terms(word: str, ending: str) -> None:
    text = f"{word}{ending} get{word.title()}{ending} {word}_{ending}/{word}2 \u2192 {word.upper()}s C++ C#"
    plain = lower_plain(text)
    assert plain is not None
    assert [term for term in iter_terms(text) if find_beginning(term) not in plain] == []


def test_the_plain_form_is_of_ascii_alone() -> None:
    assert lower_plain("A \u2192 B") == "a   b"
    assert lower_plain("Caf\u00e9") is None


def test_many_threads_take_apart_the_same_text_alike() -> None:
    text = "getHTTPResponse in src/auth/tokenStore.ts failed with café naïve running tests " * 20
    expected = terms(text)
    found: list[list[str]] = []
    together(*[lambda: found.append(terms(text))] * 8)
    assert found == [expected] * 8


# snippets


def test_a_short_text_is_its_own_snippet_with_its_white_space_in_order() -> None:
    assert snippet("  one\n two ", ["two"]) == "one two"


def test_a_snippet_stands_around_the_place_where_most_wanted_terms_meet() -> None:
    text = "token " + "filler " * 100 + "the token refresh race was fixed " + "filler " * 100
    cut = snippet(text, ["token", "refresh", "race"], 120)
    assert "the token refresh race was fixed" in cut
    assert cut.startswith("… ")
    assert cut.endswith(" …")


@given(
    st.lists(st.sampled_from(["token", "日本語", "😀", "naïve", "re\u0301sume", "word", "x" * 30]), max_size=80),
    st.integers(60, 240),
)
def test_a_snippet_keeps_its_bounds_and_cuts_at_white_space(words: list[str], width: int) -> None:
    text = " ".join(words)
    cut = snippet(text, ["token"], width)
    assert len(cut) <= width + 4
    inside = cut.removeprefix("… ").removesuffix(" …")
    assert f" {inside} " in f" {text} "


@given(st.text(min_size=300, max_size=600), st.lists(st.text(max_size=5), max_size=3))
def test_any_text_has_a_snippet_made_of_its_own_characters(text: str, wanted: list[str]) -> None:
    cut = snippet(text, wanted, 100)
    assert len(cut) <= 104
    assert cut.removeprefix("… ").removesuffix(" …") in " ".join(text.split())
