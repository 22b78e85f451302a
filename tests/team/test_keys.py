"""Texts of API keys."""

import hmac
from collections.abc import Callable

import pytest

from memory_mcp_team.access import keys


def test_a_key_is_read_as_it_was_made() -> None:
    key = keys.make_key(12)
    assert keys.parse_key(str(key)) == key
    assert keys.is_key(str(key))
    assert str(key).startswith("mmk_12_")
    assert keys.make_key(12).secret != key.secret


def test_a_key_that_is_logged_keeps_its_secret() -> None:
    key = keys.make_key(12)
    assert key.secret not in repr(key)
    assert key.secret not in f"{[key]}"


@pytest.mark.parametrize(
    "change",
    [
        lambda t: t[:-1],
        lambda t: t + "0",
        lambda t: t + "\n",
        lambda t: " " + t,
        lambda t: t.upper(),
        lambda t: t.replace("mmk_12_", "mmk_012_"),
        lambda t: t.replace("mmk_12_", "mmk_-12_"),
        lambda t: t.replace("mmk_12_", "mmk_0_"),
        lambda t: t.replace("mmk_12_", "mmk_١٢_"),
        lambda t: t.replace("mmk_12_", "mmk_9999999999999999999_"),
        lambda t: t.replace("mmk_12_", "mmk_"),
        lambda _: "mmk_",
        lambda _: "",
    ],
)
def test_a_text_that_is_not_quite_a_key_is_none(change: Callable[[str], str]) -> None:
    assert keys.parse_key(change(str(keys.make_key(12)))) is None


def test_only_the_secret_proves_a_key_and_nothing_is_compared_byte_by_byte(monkeypatch: pytest.MonkeyPatch) -> None:
    key, other = keys.make_key(1), keys.make_key(1)
    asked: list[tuple[int, int]] = []
    real = hmac.compare_digest

    def compare(left: bytes, right: bytes) -> bool:
        asked.append((len(left), len(right)))
        return real(left, right)

    monkeypatch.setattr(hmac, "compare_digest", compare)
    assert [key.proves(key.hash), key.proves(other.hash), key.proves(None)] == [True, False, False]
    # A key that is not there costs what a wrong one does.
    assert asked == [(32, 32)] * 3
    assert keys.KeyText(1, "0" * 16, "").proves(None) is False
