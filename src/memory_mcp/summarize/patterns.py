"""Patterns over sentences in lower case."""

import re


def pattern(*parts: str) -> re.Pattern[str]:
    """Return the joined parts compiled, for text in lower case; an apostrophe matches either form.

    Matching that ignores case would take three times as long.
    """
    return re.compile("".join(parts).replace("'", "['’]"))
