"""Patterns over sentences in lower case, and a quicker look for the words that they need."""

import re


def pattern(*parts: str) -> re.Pattern[str]:
    """Return the parts joined and compiled, for text in lower case; an apostrophe matches either form.

    Upper case is not matched: ignoring case would take three times as long.
    """
    return re.compile("".join(parts).replace("'", "['’]"))


def names_any(text: str, wanted: tuple[str, ...]) -> bool:
    """Return whether a text holds any of the `wanted` texts, also within a word; case counts."""
    for word in wanted:
        if word in text:
            return True
    return False
