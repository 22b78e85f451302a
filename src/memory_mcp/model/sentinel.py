"""The mark that every text of ours carries when it leaves, so that it never comes back as a memory.

Results quoted in a transcript and context injected by a hook contain `MARK`; importers drop what carries it.
"""

import re

#: Changing this string makes older transcripts' recalled text importable again: add to it, never replace it.
MARK = "recalled-by-memory-mcp"
OPEN = f"<{MARK}>"
CLOSE = f"</{MARK}>"
#: Begins the prompts that a summarizer's command is given; a session that opens with it is our own, and is not recorded.
SUMMARIZER = f"{MARK}:summarizer"

_FENCED = re.compile(re.escape(OPEN) + r".*?(?:" + re.escape(CLOSE) + r"|\Z)", re.S)


def fence(text: str) -> str:
    """`text` as recalled data: fenced, with its origin on the fence."""
    return f"{OPEN}\n{text.replace(CLOSE, '')}\n{CLOSE}"


def carries_mark(text: str) -> bool:
    """Whether `text` holds anything this program produced."""
    return MARK in text


def opens_own_session(prompt: str) -> bool:
    """Whether a session's first prompt was written by our summarizer; a prompt that only quotes its mark was not."""
    return prompt.lstrip().startswith(SUMMARIZER)


def strip_fenced(text: str) -> str:
    """`text` without its fenced recalls."""
    return _FENCED.sub("", text).strip() if OPEN in text else text
