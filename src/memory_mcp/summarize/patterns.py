"""Patterns over sentences in lower case."""

import re


def pattern(*parts: str) -> re.Pattern[str]:
    """Return the parts joined and compiled, for text in lower case; an apostrophe matches either form.

    Upper case is not matched: ignoring case would take three times as long.
    """
    return re.compile("".join(parts).replace("'", "['’]"))
