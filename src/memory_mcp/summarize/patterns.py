"""How patterns over sentences are written down."""

import re


def pattern(*parts: str) -> re.Pattern[str]:
    """The parts run together, for text in lower case; either apostrophe is meant where one is written.

    Comparing without case would take three times as long.
    """
    return re.compile("".join(parts).replace("'", "['’]"))
