"""Patterns over sentences in lower case."""

import re


def pattern(*parts: str) -> re.Pattern[str]:
    """Compile the joined parts, for text in lower case; an apostrophe matches either form.

    Matching without case would take three times as long.
    """
    return re.compile("".join(parts).replace("'", "['’]"))
