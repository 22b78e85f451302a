"""Make titles of at most 120 characters from sentences and terms."""

import re
from collections.abc import Iterable

from memory_mcp.base.patterns import lazy_pattern
from memory_mcp.base.text import terms as terms_of
from memory_mcp.model.exchange import QUESTION_MARKS
from memory_mcp.tree.summarize.sentences import shorten

MAX_TITLE = 120
#: Most characters of a headline, alone and before an outcome; the rest of a title is for terms.
HEADLINE_WIDTH, REQUEST_WIDTH = 80, 54
SEPARATOR = " — "

# Opening words without meaning: some by themselves, some only before a comma or colon.
_LEADING = lazy_pattern(
    r"^(?:[A-Za-z0-9]\) |"
    r"(?:hi|hey|hello|ok(?:ay)?|please|pls|also|and|but|so|then|now|oh|ah|hmm|yeah|wow)(?: there)?(?:[,.!:;\-– ]+|$)|"
    r"(?:well|thanks|thank you|great|perfect|done|yes|no|alright|right|awesome|cool|actually|q|question|plan|task|todo|goal|"
    r"summary|note|implementation plan)[,.!:;–]+ +)+",
    re.I,
)
_REQUEST = lazy_pattern(
    r"^(?:(?:can|could|would|will) (?:you|we|u|i) (?:please |also |just |maybe |try to )*(?:help me (?:to )?)?|please |"
    r"i(?:['’]d| would)? (?:want|like|need) (?:you )?to |i think (?:we (?:should|need to|can)|that )?|"
    r"(?:we|you) (?:should|need to|want to|have to|could) (?:also |probably )?|let['’]s (?:also |just |do )?|lets |let us |"
    r"your task is to |help me (?:to )?|is it possible to |i was wondering if )",
    re.I,
)
# Words removed from the end of a headline that was cut.
_WIDOW = lazy_pattern(
    r"(?:[\s,;:.\-–—(]|\s(?:a|an|the|of|in|on|at|to|for|with|by|from|and|or|but|that|which|who|if|is|are|was|were|be|been|we|i|you|it|this|these|"
    r"as|so|my|your|our|their|its|into|has|have|had|would|will|can|not|when|where|against|because|while|between|one|some|any))+$",
    re.I,
)
_PLACE = lazy_pattern(r"^(?:\S+:\d+(?::\d+)?:?|\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d)?)?|\+?\d{7,})\s+(?=\S)")
_STOP = lazy_pattern(r"[\s,;:.!?。！？\-–—(]+$")
_WORD = lazy_pattern(r"[a-z]+(?:['’][a-z]+)?$")
#: Where a statement may end, and where only a part of it does.
_STATEMENT = lazy_pattern(r"[.!?。！？]\s|[;:](?=\s)|\s[—–-]\s|\s\(")
_PART = lazy_pattern(r",\s|[，、；：]")
_DATE = lazy_pattern(
    r"^(?:(?:mon|tue|wed|thu|fri|sat|sun)\w*,? )?(?:\d{4}(?:-(?:\d\d(?:-\d\d)?|W\d\d))?|\d{1,2} [A-Z][a-z]+(?: \d{4})?|"
    r"[A-Z][a-z]+ (?:\d{1,2}, )?\d{4}|week \d+(?:,? \d{4})?)(?:,? \(?(?:mon|tue|wed|thu|fri|sat|sun)\w*\)?)?(?:,? \d\d:\d\d)?"
    r"\s*(?:[:·|—–-]\s*|$)",
    re.I,
)


def make_headline(text: str, width: int = HEADLINE_WIDTH) -> str:
    """Return a cleaned sentence as a headline.

    Without greeting, "can you" and full stop; cut where a statement ends, with an ellipsis where none ends in time.
    """
    for _ in range(2):
        text = _PLACE.sub("", text, count=1)
    original = text
    for _ in range(4):
        bare = _REQUEST.sub("", _LEADING.sub("", text, count=1), count=1)
        if bare == text or len(bare) < 8:
            break
        text = bare
    fits = len(text) <= width
    if not fits:
        cuts = [m.start() for m in _STATEMENT.finditer(text, width // 2, width + 1)]
        parts = [m.start() for m in _PART.finditer(text, width // 2, width)]
        text = _WIDOW.sub("", text[: (cuts or parts)[-1]] if cuts or parts else shorten(text, width)[:-1])
    question = fits and text.endswith(QUESTION_MARKS) and _REQUEST.match(_LEADING.sub("", original)) is None
    text = _STOP.sub("", text)
    # Opening quotes and brackets whose end was cut off go, and what follows a late one.
    for opening, closing in ('""', "()", "[]", "“”", "「」"):
        lost = text.count(opening) % 2 if opening == closing else text.count(opening) - text.count(closing)
        if lost > 0:
            index = text.rfind(opening)
            text = text[:index].rstrip(" ,;:-–—") if index > len(text) // 2 else text[:index] + text[index + 1 :]
    text += "?" if question else "" if fits or cuts else "…"
    return text[:1].upper() + text[1:] if _WORD.match(text.split(" ", 1)[0]) else text


def join_terms(head: str, terms: Iterable[str], limit: int = MAX_TITLE) -> str:
    """Return the headline with the terms that fit.

    Terms whose words are mostly in it already are left out; without a headline the terms alone.
    """
    title_terms = set(terms_of(head))
    title = head
    separator = SEPARATOR if head else ""
    for term in terms:
        if len(title) + len(separator) + len(term) > limit:
            continue
        term_words = set(terms_of(term))
        if not term_words or 2 * len(term_words & title_terms) >= len(term_words):
            continue
        title += separator + term
        separator = ", "
        title_terms |= term_words
    return title


def without_date(title: str) -> str:
    """Return a title without the date before it."""
    return _DATE.sub("", title, count=1)


def split_title(title: str) -> tuple[list[str], list[str]]:
    """Return the headlines and the terms of a title."""
    head, _, terms = without_date(title).partition(SEPARATOR)
    headlines = [part.strip() for part in head.split("; ") if part.strip()]
    return headlines, [t.strip() for t in terms.split(", ") if t.strip()]
