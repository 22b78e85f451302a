"""What was drawn by a machine goes, whatever word stands before it; what is a word, in any spelling, stays."""

import random
import re
import string
from collections import Counter

import pytest

from memory_mcp.redact import secret_values
from memory_mcp.redact.redact import redactor
from memory_mcp.redact.secret_values import holds_drawn, is_placeholder

#: Every word that a placeholder may begin with, as the rule has it.
WORDS = re.search(r"\(\?P<word>([^()]*)\)", secret_values._PLACEHOLDER.pattern)
ALNUM = string.ascii_letters + string.digits
FORMS = {
    "hexadecimal": ("0123456789abcdef", 64),
    "short hexadecimal": ("0123456789abcdef", 32),
    "capital hexadecimal": ("0123456789ABCDEF", 40),
    "letters and digits": (ALNUM, 40),
    "short": (ALNUM, 24),
    "small letters and digits": (string.ascii_lowercase + string.digits, 32),
    "base32": (string.ascii_uppercase + "234567", 32),
    "base64": (ALNUM + "+/", 43),
    "base64 of addresses": (ALNUM + "-_", 43),
    "small letters": (string.ascii_lowercase, 32),
    "letters": (string.ascii_letters, 40),
}
PLACES = (
    *("CURSOR_API_KEY={}", 'api_key: "{}"', "curl -H 'X-Api-Key: {}' u", "Authorization: Bearer {}", '"clientSecret": "{}"'),
    *("the api key is {}", "tool --token {}", "https://x.example/cb?token={}&a=1", "ADMIN_PASSWORD={}"),
)


def words() -> list[str]:
    assert WORDS is not None
    return WORDS[1].split("|")


def redacted(text: str) -> str:
    return redactor().redact(text, Counter())


@pytest.mark.parametrize("form", FORMS)
def test_a_drawn_value_goes_behind_any_word_where_it_goes_without(form: str) -> None:
    alphabet, length = FORMS[form]
    dice = random.Random(form)
    kept = []
    for word in words():
        for sign in "_-":
            value = "".join(dice.choices(alphabet, k=length))
            for place in PLACES:
                out = redacted(place.format(word + sign + value))
                if value not in redacted(place.format(value)) and (value[: length // 2] in out or value[length // 2 :] in out):
                    kept.append(place.format(word + sign + value))
    assert kept == []


@pytest.mark.parametrize("words_before", ["my_api_key_", "your-secret-token-", "test_key_", "example_", "redacted-"])
def test_several_words_hide_nothing_either(words_before: str) -> None:
    value = "".join(random.Random(words_before).choices(ALNUM, k=40))
    assert value not in redacted(f"API_KEY={words_before}{value}")


@pytest.mark.parametrize(
    "value",
    [
        *(
            "key",
            "key_here",
            "your-api-key",
            "YOUR_API_KEY_HERE",
            "my-secret-key-2024-prod-v2",
            "token-value-goes-here",
            "test_key",
        ),
        *("my-hmac-sha256-key", "default_token_for_tests", "api-key-abcdefghijklmnopqrstuvwxyz", "secret_1234567890123456"),
        *(
            "process.env.API_KEY",
            "config.getSecretKeyFromVault",
            "settings.SECRET_KEY",
            "<your key>",
            "${API_KEY}",
            "test-token-v1beta2",
        ),
        *(
            "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
            "sk-xxxxxxxxxxxxxxxxxxxxxxxx",
            "key_xxxxxxxxxxxxxxxx",
        ),
    ],
)
def test_words_stay_placeholders(value: str) -> None:
    assert is_placeholder(value) or not holds_drawn(value)
    assert value in redacted(f'API_KEY = "{value}"')
