"""Text in, text without secrets and private spans out: one cheap look for anchors, then the rules they call for.

Invariants
1. Nothing is imported or scanned for a rule none of whose anchors stands in the text.
2. Every pattern begins at an anchor and scans each run of characters once: time grows with the text, whatever it is.
3. Redacting twice changes nothing more.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from memory_mcp.ingest.context_rules import CONTEXT_RULES
from memory_mcp.ingest.list_rules import LIST_RULES
from memory_mcp.ingest.secret_rules import RULES, Rule, Span
from memory_mcp.ingest.vendor_rules import VENDOR_RULES

#: What a secret is replaced by.
REPLACEMENT = "[REDACTED:{}]"

#: Characters that show nothing; between the letters of a tag they change nothing for its reader.
_UNSEEN = "[\u00ad\u180e\u200b-\u200f\u2060-\u2064\ufeff]{0,8}"
_OPENING, _CLOSING = r"(?:<|&lt;|&#0*60;|\\u003c|\uff1c)", r"(?:>|&gt;|&#0*62;|\\u003e|\uff1e)"
#: A private tag as people and programs spell it: any case, with blanks and attributes, escaped for HTML or JSON.
_PRIVATE = re.compile(
    rf"{_OPENING}{_UNSEEN}\s{{0,8}}(/?)\s{{0,8}}{_UNSEEN}{_UNSEEN.join('private')}{_UNSEEN}(?:\s[^<>&]{{0,200}}?)?{_CLOSING}",
    re.I,
)
#: Every vendor's token is at least so long; prose has hardly a word that is, and is passed over in 10 µs per 600 bytes.
_LONG_RUN = re.compile(r"[a-z0-9_.~%+/=:-]{16,}+").findall
_ASCII_LOWER = {c: c + 32 for c in range(ord("A"), ord("Z") + 1)}

_Search = Callable[[str], object]
#: So many plain anchors are looked for together.
_MANY = 30


def strip_private(text: str) -> str:
    """`text` without its `<private>` spans, nested ones too; one that is not closed reaches to the end.

    One that is not opened reaches back to the beginning: clients cut a message into parts.
    """
    if text.isascii() and "private" not in text.lower():
        return text
    out: list[str] = []
    depth = at = 0
    for tag in _PRIVATE.finditer(text):
        if not depth:
            out.append(text[at : tag.start()])
        if not tag[1]:
            depth += 1
        elif depth:
            depth -= 1
        else:
            out.clear()
        at = tag.end()
    return text if not at else "".join(out) + ("" if depth else text[at:])


class Redactor:
    """All rules, ready to be asked."""

    def __init__(self) -> None:
        self._told = _Rules((*RULES, *CONTEXT_RULES, *LIST_RULES))
        self._vendor = _Rules(VENDOR_RULES)

    def suspects(self, text: str) -> bool:
        """Whether any rule has to look at `text` at all."""
        lowered = text.lower()
        return self._told.apply(lowered) or self._vendor.apply(_long_runs(lowered))

    def redact(self, text: str, counts: Counter[str]) -> str:
        """`text` with every secret replaced by its rule's name; replacements are added to `counts`."""
        lowered = text.lower()
        spans: list[Span] = []
        runs = _long_runs(lowered)
        if runs and self._vendor.apply(runs):
            spans += self._vendor.find(text, lowered, runs)
        # Behind the vendors' rules: a token that both find is named after its vendor.
        if self._told.apply(lowered):
            spans += self._told.find(text, lowered, lowered)
        return _replace(text, spans, counts) if spans else text


def _long_runs(lowered: str) -> str:
    return " ".join(_LONG_RUN(lowered))


@dataclass(frozen=True, slots=True)
class _Guarded:
    """A rule with its anchors taken apart into plain texts and patterns."""

    rule: Rule
    words: tuple[str, ...]
    searches: tuple[_Search, ...]

    @classmethod
    def of(cls, rule: Rule) -> "_Guarded":
        words = tuple(a for a in rule.anchors if not a.startswith("~"))
        return cls(rule, words, tuple(re.compile(a[1:]).search for a in rule.anchors if a.startswith("~")))

    def applies(self, lowered: str) -> bool:
        return any(word in lowered for word in self.words) or any(search(lowered) for search in self.searches)


class _Rules:
    """Rules behind one look for all of their anchors."""

    def __init__(self, rules: tuple[Rule, ...]) -> None:
        self._rules = tuple(_Guarded.of(rule) for rule in rules)
        anchors = sorted({anchor for rule in rules for anchor in rule.anchors})
        patterns = [anchor[1:] for anchor in anchors if anchor.startswith("~")]
        words = [anchor for anchor in anchors if not anchor.startswith("~")]
        plain = [word for word in words if word.isascii()]
        # One by one, patterns that begin with plain text are searched for at memory speed; joined, they are not. Of many,
        # the calls alone would cost more.
        joined = (_any_of(plain),) if len(plain) > _MANY else map(re.escape, plain)
        self._searches = tuple(re.compile(pattern).search for pattern in (*joined, *patterns))
        foreign = [word for word in words if not word.isascii()]
        self._foreign = re.compile("|".join(map(re.escape, foreign))).search if foreign else None

    def apply(self, lowered: str) -> bool:
        """Whether any rule has to look."""
        for search in self._searches:
            if search(lowered):
                return True
        return self._foreign is not None and not lowered.isascii() and self._foreign(lowered) is not None

    def find(self, text: str, lowered: str, where: str) -> Iterator[Span]:
        """What the rules find in `text` whose anchors stand in `where`."""
        # Lower case is longer for a few letters; places in it must be places in the text.
        aligned = lowered if len(lowered) == len(text) else text.translate(_ASCII_LOWER)
        for guarded in self._rules:
            if guarded.applies(where):
                yield from guarded.rule.find(text, aligned)


def _any_of(words: list[str]) -> str:
    """A pattern that matches any of `words`, branching once per distinct character."""
    if "" in words:
        return ""
    branches: dict[str, list[str]] = {}
    for word in words:
        branches.setdefault(word[0], []).append(word[1:])
    alternatives = [re.escape(first) + _any_of(rest) for first, rest in branches.items()]
    return alternatives[0] if len(alternatives) == 1 else f"(?:{'|'.join(alternatives)})"


def _replace(text: str, spans: Iterable[Span], counts: Counter[str]) -> str:
    """The spans replaced; of two that overlap, the one that begins first names the rule and both are covered."""
    out: list[str] = []
    at = 0
    for start, end, rule in _merged(spans):
        out += text[at:start], REPLACEMENT.format(rule)
        counts[rule] += 1
        at = end
    out.append(text[at:])
    return "".join(out)


def _merged(spans: Iterable[Span]) -> Iterator[tuple[int, int, str]]:
    start = end = -1
    rule = ""
    for span in sorted(spans, key=lambda span: (span.start, -span.end)):
        if span.start < end:
            end = max(end, span.end)
            continue
        if rule:
            yield start, end, rule
        start, end, rule = span.start, span.end, span.rule
    if rule:
        yield start, end, rule
