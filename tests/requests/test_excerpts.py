"""Cutting a text around the words of a question: what is kept, and where the cuts fall."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_mcp.requests.excerpts import ELLIPSIS, Excerpt, head_and_tail

FILLER = "The ledger was discussed at length and nothing came of it. " * 40
WANTED = "The retry_queue deadlocks when idempotency keys collide."
WEIGHTS = {"retry_queue": 5.0, "idempot": 4.0, "ledger": 0.1}


def inner(cut: str) -> str:
    return cut.removeprefix(ELLIPSIS).removesuffix(ELLIPSIS)


def test_a_text_that_fits_is_left_as_it_is() -> None:
    assert Excerpt(f" {WANTED}\n", WEIGHTS).cut(len(WANTED)) == WANTED


def test_the_rarest_words_are_in_the_part_that_is_kept() -> None:
    """Common words come often before and behind; the two rare ones stand together once."""
    for place in (0, 700, 1500):
        text = f"{FILLER[:place]} {WANTED} {FILLER}"
        cut = Excerpt(text, WEIGHTS).cut(160)
        assert WANTED in cut
        assert inner(cut) in text
        assert len(cut) <= 160


def test_two_rare_words_together_beat_one_that_comes_often() -> None:
    text = f"{'idempotency ' * 30} {FILLER} {WANTED}"
    assert WANTED in Excerpt(text, WEIGHTS).cut(160)


@pytest.mark.parametrize(
    ("filler", "wanted", "weights"),
    [
        ("今天天气很好我们去公园。", "支付系统的退款接口在挪威出错了", {"退款": 3.0, "挪威": 3.0, "天气": 0.1}),
        ("今日は会議で帳簿について話しました。", "ランプの故障は配線が原因", {"故障": 3.0, "配線": 2.0, "会議": 0.1}),
    ],
    ids=["Chinese", "Japanese"],
)
def test_scripts_without_spaces_are_cut_around_what_matched_too(filler: str, wanted: str, weights: dict[str, float]) -> None:
    text = f"{filler * 100}{wanted}。{filler * 100}"
    cut = Excerpt(text, weights).cut(50)
    assert wanted in cut
    assert inner(cut) in text
    assert len(cut) <= 50


def test_words_are_not_cut() -> None:
    words = set(FILLER.split()) | set(WANTED.split())
    for width in range(60, 240, 7):
        assert set(inner(Excerpt(FILLER + WANTED + " " + FILLER, WEIGHTS).cut(width)).split()) <= words


def test_without_any_of_the_words_it_is_the_beginning() -> None:
    cut = Excerpt(FILLER, {"xylophone": 1.0}).cut(100)
    assert FILLER.startswith(inner(cut))
    assert cut.endswith(ELLIPSIS)


def test_a_character_that_is_made_of_several_stays_whole() -> None:
    astronaut = "👩\u200d🚀"
    for width in range(20, 40):
        kept = inner(Excerpt(astronaut * 200, {}).cut(width))
        assert kept.replace(astronaut, "") == ""


@given(st.text(max_size=400), st.integers(10, 200))
def test_what_is_kept_is_part_of_the_text_and_no_longer_than_asked_for(text: str, width: int) -> None:
    cut = Excerpt(text, dict.fromkeys(text.lower().split()[:3], 1.0)).cut(width)
    assert len(cut) <= max(width, 1)
    assert cut == text.strip() or inner(cut) in text


def test_head_and_tail_are_kept_with_how_much_lies_between() -> None:
    listed = "drwxr-xr-x 2 root root ledger\n" * 500
    text = f"total 48\n{listed}permission denied"
    cut = head_and_tail(text, 120)
    assert cut.startswith("total 48")
    assert cut.endswith("permission denied")
    assert f"[{len(text) - 120:,} characters]" in cut
    assert len(cut) <= 120
    assert head_and_tail(text, len(text)) == text


def test_the_end_of_one_long_word_is_cut_too() -> None:
    assert head_and_tail("x" * 500, 130).endswith("x" * 30)


@given(
    st.lists(
        st.sampled_from(["a", "tok", "Token", "token_x", "é", "É", "İ", "\u0345", "STRASSE", "ß", "的", ". ", "-", "\n", " "]),
        max_size=40,
    ),
    st.sets(st.sampled_from(["a", "tok", "token", "token_x", "é", "strasse", "的"])),
    st.integers(1, 60),
)
def test_the_cut_has_as_many_of_the_words_as_any_stretch_of_its_size(pieces: list[str], words: set[str], width: int) -> None:
    text = "".join(f"{piece} " if index % 3 else piece for index, piece in enumerate(pieces))
    placed = [(m.start(), m.end(), m[0].casefold()) for m in re.finditer(r"\w+", text.strip()) if m[0].casefold() in words]
    room = max(width - 2 * len(ELLIPSIS), 1) - min(80, int(max(width - 2 * len(ELLIPSIS), 1) * 0.4))
    counts = [len({word for start, end, word in placed if first <= start and end <= first + room}) for first, _, _ in placed]
    stretch = Excerpt(text, {}, words).cut(width)
    kept = {m[0].casefold() for m in re.finditer(r"\w+", stretch)} & words
    assert len(kept) >= max(counts, default=0)
