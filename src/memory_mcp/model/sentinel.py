"""The mark of every text of ours that leaves, so that it never becomes a memory.

Results quoted in a transcript and context injected by a hook are between `OPEN` and `CLOSE` (`model/fencing.py`), structured
answers say their `origin`; importers cut these out (`ingest/own_output.py`), also as they are pasted, and keep a text that merely
mentions the mark.
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
    """Return whether a session's first prompt is our summarizer's."""
    return prompt.lstrip().startswith(SUMMARIZER)
