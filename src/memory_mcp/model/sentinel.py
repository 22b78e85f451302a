"""The mark that every text of ours carries when it leaves, so that it never comes back as a memory.

Results quoted in a transcript and context injected by a hook stand between `OPEN` and `CLOSE` (`model/fencing.py`), structured
answers say their `origin`; importers cut these out (`ingest/ours.py`), also as they are pasted, and keep a text that merely tells
of the mark.
"""

#: Changing this string makes older transcripts' recalled text importable again: add to it, never replace it.
MARK = "recalled-by-memory-mcp"
OPEN = f"<{MARK}>"
CLOSE = f"</{MARK}>"
#: What stands in a text in the place of a forgotten value.
FORGOTTEN = "[forgotten]"
#: Begins the prompts that a summarizer's command is given; a session that opens with it is our own, and is not recorded.
SUMMARIZER = f"{MARK}:summarizer"


def opens_own_session(prompt: str) -> bool:
    """Return whether a session's first prompt was written by our summarizer: it begins with `SUMMARIZER`, blanks aside."""
    return prompt.lstrip().startswith(SUMMARIZER)
