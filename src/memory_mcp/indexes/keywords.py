"""Keywords of a question: other words or phrases that the answer is likely to hold, and how much they count. Pure."""

from collections.abc import Sequence

from memory_mcp.base.text import iter_terms

#: Own share of the highest possible score up to which keywords count in full, and from which not at all.
_FULL, _NONE = 0.25, 0.55


def keyword_need(reach: float) -> float:
    """Return how much keywords count, 0..1.

    `reach` is the best match's score as a share of the highest possible one: the less it is, the more keywords
    count.
    """
    return min(max((_NONE - reach) / (_NONE - _FULL), 0.0), 1.0)


def keyword_terms(keywords: Sequence[str], question_terms: Sequence[str]) -> list[str]:
    """Return distinct terms of keywords that the question lacks."""
    return [term for term in dict.fromkeys(iter_terms("\n".join(keywords))) if term not in set(question_terms)]
