"""The best sentence and the most telling terms in, one line of at most 120 characters out."""

import re
from collections.abc import Iterable

from memory_mcp.summarize.sentences import shorten
from memory_mcp.summarize.vocabulary import words

MAX_TITLE = 120
#: The headline's share: what is left goes to terms that it does not name.
HEADLINE = 68
SEPARATOR = " — "

_LEADING = re.compile(
    r"^(?:(?:hi|hey|hello|ok(?:ay)?|so|well|also|now|then|and|but|please|pls|thanks|thank you|great|perfect|done|yes|yeah|no|ah|oh|hmm|"
    r"alright|right|awesome|cool|actually|q|question|wow)\b(?: there)?[,.!:;\-– ]+)+", re.I)
_REQUEST = re.compile(
    r"^(?:(?:can|could|would|will) (?:you|we|u|i) (?:please |also |just |maybe |try to )*(?:help me (?:to )?)?|please |i(?:'d| would)? (?:want|like|need)"
    r" (?:you )?to |i think (?:we (?:should|need to|can)|that )?|(?:we|you) (?:should|need to|want to|have to|could) (?:also |probably )?|"
    r"let's (?:also |just )?|lets |let us |your task is to |help me (?:to )?|is it possible to |i was wondering if )", re.I)
_TAIL = re.compile(r"[\s,;:.!?。！？\-–—(]+$")
_CLAUSE = re.compile(r"[.!?。！？]\s|[;:](?=\s)|,\s|\s[—–-]\s|\s\(|\s(?:because|so that|which|but|and|when|while|since|where|to)\s")
_DATE = re.compile(
    r"^(?:(?:mon|tue|wed|thu|fri|sat|sun)\w*,? )?(?:\d{4}(?:-(?:\d\d(?:-\d\d)?|W\d\d))?|\d{1,2} [A-Z][a-z]+(?: \d{4})?|"
    r"[A-Z][a-z]+ (?:\d{1,2}, )?\d{4}|week \d+(?:,? \d{4})?)(?:,? \(?(?:mon|tue|wed|thu|fri|sat|sun)\w*\)?)?(?:,? \d\d:\d\d)?"
    r"\s*(?:[:·|—–-]\s*|$)", re.I)


def headline(text: str, width: int = HEADLINE) -> str:
    """A cleaned sentence as a headline: no greeting or "can you", cut at a clause, no stop at its end."""
    for _ in range(3):
        bare = _REQUEST.sub("", _LEADING.sub("", text, count=1), count=1)
        if bare == text:
            break
        text = bare
    if len(text) > width:
        cuts = [m.start() for m in _CLAUSE.finditer(text, width // 2, width + 1)]
        text = text[: cuts[-1]] if cuts else shorten(text, width)
    text = _TAIL.sub("", text)
    first = text.split(" ", 1)[0]
    return text[:1].upper() + text[1:] if first.islower() and first.isalpha() else text


def join(head: str, terms: Iterable[str], limit: int = MAX_TITLE) -> str:
    """The headline and as many terms it does not name as fit."""
    seen = {word.key for word in words(head) if word.key}
    title = head
    separator = SEPARATOR if head else ""
    for term in terms:
        keys = {word.key for word in words(term) if word.key}
        if keys and keys <= seen:
            continue
        if len(title) + len(separator) + len(term) > limit:
            continue
        title += separator + term
        separator = ", "
        seen |= keys
    return title


def without_date(title: str) -> str:
    """A child's title without the date the tree has put in front."""
    return _DATE.sub("", title, count=1)


def gists(title: str) -> tuple[list[str], list[str]]:
    """A title taken apart again: its headlines and its terms."""
    head, _, terms = without_date(title).partition(SEPARATOR)
    return [part.strip() for part in head.split("; ") if part.strip()], [t.strip() for t in terms.split(", ") if t.strip()]
