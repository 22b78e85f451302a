"""Remove secrets and private spans from text: one cheap search for anchors, then the rules they call for.

Invariants
1. Nothing is imported or scanned for a rule none of whose anchors stands in the text.
2. Every pattern begins at an anchor and scans each run of characters once: time grows with the text, whatever it is.
3. Redacting twice changes nothing more.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable
from functools import cache

from memory_mcp.ingest.context_rules import CONTEXT_RULES
from memory_mcp.ingest.drawn_rules import DRAWN_RULES
from memory_mcp.ingest.label_rules import LABEL_RULES
from memory_mcp.ingest.list_rules import LIST_RULES
from memory_mcp.ingest.named_rules import NAMED_RULES
from memory_mcp.ingest.secret_rules import RULES, Rule, Span, plain_start
from memory_mcp.ingest.vendor_rules import VENDOR_RULES

#: What a secret is replaced by.
REPLACEMENT = "[REDACTED:{}]"
#: How every replacement begins, and one that holds its rule as the only group.
MARK_BEGIN, MARK_PATTERN = "[REDACTED:", r"\[REDACTED:([^\]\n]{1,100})\]"

#: Characters that show nothing; between the letters of a tag they change nothing for its reader.
_UNSEEN = (
    "[\u00ad\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0"
    "\U000e0000-\U000e0fff]{0,8}"
)
#: Before the number of a character in a string of a program, and in HTML and addresses, which escape their own escapes.
_IN_STRINGS, _IN_HTML, _IN_ADDRESSES = r"(?<!\\)\\++(?:u00|u\{0{0,4}|x|U000000)", r"&(?:amp;)*\#(?:x0*|X0*)", r"%(?:25)*"


def _sign(plain: str, name: str, more: str = "") -> str:
    """Return the pattern of one sign of a tag: plain, as one of `more`, or escaped for HTML (entity `name`), strings or URLs."""
    number = f"{ord(plain):x}"
    html = rf"&(?:amp;)*(?:{name};|\#0*{ord(plain)};)|{_IN_HTML}{number};"
    return rf"(?:[{plain}{more}]|{html}|{_IN_STRINGS}{number}\}}?|{_IN_ADDRESSES}{number})"


_OPENING, _CLOSING, _SLASH = (
    _sign("<", "lt", "\uff1c\u2039\u3008"),
    _sign(">", "gt", "\uff1e\u203a\u3009"),
    _sign("/", "sol", "\uff0f"),
)
#: The letters, also as keyboards of other scripts and widths write them.
_LETTERS = ("[p\uff50\u0440]", "[r\uff52]", "[i\uff49\u0456]", "[v\uff56]", "[a\uff41\u0430]", "[t\uff54]", "[e\uff45\u0435]")
#: A private tag as people and programs spell it: any case, with blanks and attributes, escaped for HTML, JSON or an address,
#: more than once too.
_PRIVATE = re.compile(
    rf"{_OPENING}{_UNSEEN}\s{{0,8}}((?:\\{{0,8}}{_SLASH})?)\s{{0,8}}{_UNSEEN}{_UNSEEN.join(_LETTERS)}{_UNSEEN}"
    rf"(?:(?:\s|\\{{1,8}}[nrt]|\+|%20)[^<>]{{0,1000}}?)?{_CLOSING}",
    re.I,
)
#: Each spelling of a tag's opening sign has one of these characters.
_OPENING_SIGNS = "<\uff1c\u2039\u3008&\\%"
#: Every vendor's token is at least so long; prose has hardly a word that is, and is passed over in 10 µs per 600 bytes.
_LONG_RUN = re.compile(r"[a-z0-9_.~%+/=:-]{16,}+").findall
_ASCII_LOWER = {c: c + 32 for c in range(ord("A"), ord("Z") + 1)}

#: Characters that may separate a vendor's token from the text before it, within a run; runs are joined by the first.
_SIGNS = " _.~%+/=:-"
#: Farthest that a vendor's anchor looks back and ahead (characters), and number of surroundings that are cached.
_BACK, _AHEAD, _MOST_SEEN = 16, 144, 4096

_Match = Callable[[str], object]
_MatchAt = Callable[[str, int], object]
#: Parts of anchors that save looking for each of them in the many texts that hold no such part.
_SHARED = frozenset(("=", "/", "<", "api", "cred", "pdp", "sql", "sign", "pw", "net ", "identified", "base64"))
#: By an anchor's plain text: its patterns, each with the numbers of its rules.
_Words = dict[str, list[tuple[_Match, list[int]]]]


def strip_private(text: str) -> str:
    """Return `text` without its `<private>` spans, also nested ones; an open one reaches to the end.

    A tag that closes and was not opened removes all from the beginning: clients cut a message into parts.
    """
    may_hold_tag = "private" in text.lower() if text.isascii() else any(sign in text for sign in _OPENING_SIGNS)
    return Private(text).kept if may_hold_tag else text


class Private:
    """A text without its private spans, and how they reach beyond its ends."""

    def __init__(self, text: str, inside: bool = False) -> None:
        """Split `text` into what is private and `kept`; `inside`: it begins within an open span."""
        out: list[str] = []
        depth, at = int(inside), 0
        #: Whether a span ends here that begins before the text.
        self.closes = False
        for tag in _PRIVATE.finditer(text):
            if not depth:
                out.append(text[at : tag.start()])
            if not tag[1]:
                depth += 1
            elif depth:
                depth -= 1
                self.closes = self.closes or (inside and not depth)
            else:
                out.clear()
                self.closes = True
            at = tag.end()
        #: Whether a span goes on behind the text.
        self.open = depth > 0
        self.kept = "".join(out) + ("" if depth else text[at:])


class Redactor:
    """All rules, compiled for searching."""

    def __init__(self) -> None:
        """Compile all rules, which takes some milliseconds; see `redactor`."""
        self._told = _Told((*RULES, *NAMED_RULES, *CONTEXT_RULES, *LABEL_RULES, *LIST_RULES, *DRAWN_RULES))
        self._vendor = _Vendors(VENDOR_RULES)

    def suspects(self, text: str) -> bool:
        """Return whether any rule has to look at `text` at all; False means that it holds no secret that a rule knows."""
        lowered = text.lower()
        return bool(self._told.called(lowered) or self._vendor.called(_long_runs(lowered)))

    def redact(self, text: str, counts: Counter[str]) -> str:
        """Return `text` with every secret replaced by its rule's name in brackets; replacements are added to `counts`."""
        spans = self.find(text)
        return replaced(text, spans, counts) if spans else text

    def find(self, text: str) -> list[Span]:
        """Return the secrets in `text`, rule by rule, not in the order of their places; some may overlap."""
        lowered = text.lower()
        runs = _long_runs(lowered)
        # The vendors' rules first: a token that both find is named after its vendor.
        rules = [*(self._vendor.called(runs) if runs else ()), *self._told.called(lowered)]
        if not rules:
            return []
        # Lower case is longer for a few letters; places in it must be places in the text.
        aligned = lowered if len(lowered) == len(text) else text.translate(_ASCII_LOWER)
        return [span for rule in rules for span in rule.find(text, aligned)]


@cache
def redactor() -> Redactor:
    """Return the one redactor of this process: making it takes 5 ms, and a server opens many memories."""
    return Redactor()


def _long_runs(lowered: str) -> str:
    """Return the runs of 16 or more characters of tokens in a text, each behind a blank; "" for none."""
    runs = _LONG_RUN(lowered)
    return f" {' '.join(runs)}" if runs else ""


class _Told:
    """Rules with anchors anywhere: each is searched by its plain text first, then by its pattern."""

    def __init__(self, rules: tuple[Rule, ...]) -> None:
        """Compile the rules' anchors, sorted by their plain texts, and these by parts that they share."""
        self._rules = rules
        callers: dict[str, list[int]] = {}
        for number, rule in enumerate(rules):
            for anchor in rule.anchors:
                callers.setdefault(anchor, []).append(number)
        words = {plain_start(anchor) for anchor in callers} | _SHARED
        roots = {word for word in words if not any(part.strip() and part != word and part in word for part in words)}
        asked: dict[str, _Words] = {}
        foreign: _Words = {}
        for anchor, numbers in callers.items():
            word = plain_start(anchor)
            # A word is looked for only where another that is part of it was found; a blank is everywhere.
            parts = [part for part in roots if part.strip() and part in word]
            part = max(parts, key=lambda part: (len(part), part), default=word)
            told = asked.setdefault(part, {}) if word.isascii() else foreign
            # A plain anchor is met wherever its text is: the empty pattern always matches.
            told.setdefault(word, []).append((re.compile(anchor[1:] if anchor[0] == "~" else "").search, numbers))
        # What is asked where a part stands, and the longer words that are looked for then.
        self._asked = {part: (told.pop(part, []), told) for part, told in asked.items()}
        self._foreign = foreign

    def called(self, lowered: str) -> list[Rule]:
        """Return the rules with an anchor in a text in lower case, in their order; no other rule can find anything in it."""
        # A filter looks for a hundred words in the time a loop looks for sixty.
        stands = lowered.__contains__
        hits: set[int] = set()
        for part in filter(stands, self._asked):
            own, longer = self._asked[part]
            for search, numbers in own:
                if search(lowered):
                    hits.update(numbers)
            for word in filter(stands, longer):
                for search, numbers in longer[word]:
                    if search(lowered):
                        hits.update(numbers)
        if not lowered.isascii():
            for word in filter(stands, self._foreign):
                for search, numbers in self._foreign[word]:
                    if search(lowered):
                        hits.update(numbers)
        return [self._rules[number] for number in sorted(hits)]


class _Vendors:
    """Rules with anchors at the start of a token or with a sign; most letters of long runs are skipped."""

    def __init__(self, rules: tuple[Rule, ...]) -> None:
        """Sort the anchors by their first letter, and compile what finds the places to look at."""
        self._rules = rules
        self._callers: dict[str, list[tuple[_MatchAt, int]]] = {}
        for number, rule in enumerate(rules):
            for anchor in rule.anchors:
                pattern = re.compile(anchor[1:] if anchor[0] == "~" else re.escape(anchor))
                self._callers.setdefault(plain_start(anchor)[:1], []).append((pattern.match, number))
        anchors = sorted({anchor for rule in rules for anchor in rule.anchors})
        signs = re.escape(_SIGNS)
        inner = [anchor for anchor in anchors if plain_start(anchor)[:1] in _SIGNS[1:] and plain_start(anchor)]
        # A run behind a backslash may begin with the letter of an escape.
        starts = _by_letter(anchor for anchor in anchors if anchor not in inner)
        self._begins = tuple(re.compile(f"{before}(?={starts})").finditer for before in (f"[{signs}]", " [nrt]"))
        # Side by side, each with its sign first, so that all else is passed over quickly.
        self._inner = re.compile("|".join(a[1:] if a[0] == "~" else re.escape(a) for a in inner)).search

    def called(self, runs: str) -> list[Rule]:
        """Return the rules with an anchor in the long runs of a text, in their order; no other rule can find anything in it."""
        numbers: set[int] = set()
        seen: set[str] = set()
        for begins in self._begins:
            for place in begins(runs):
                self._note(runs, place.end(), numbers, seen)
        inner = self._inner(runs)
        while inner:
            self._note(runs, inner.start(), numbers, seen)
            inner = self._inner(runs, inner.start() + 1)
        return [self._rules[number] for number in sorted(numbers)]

    def _note(self, runs: str, at: int, numbers: set[int], seen: set[str]) -> None:
        """Add to `numbers` the rules with an anchor at a place; each surrounding text is examined once (`seen`)."""
        if at >= _BACK:
            around = runs[at - _BACK : at + _AHEAD]
            if around in seen:
                return
            if len(seen) < _MOST_SEEN:
                seen.add(around)
        for match, number in (*self._callers.get(runs[at : at + 1], ()), *self._callers.get("", ())):
            if number not in numbers and match(runs, at):
                numbers.add(number)


def _by_letter(anchors: Iterable[str]) -> str:
    """Return a pattern that matches any of the anchors ("~" marks one that is a pattern), branching once per first letter."""
    branches: dict[str, list[str]] = {}
    for anchor in anchors:
        letter, marked = plain_start(anchor)[:1], anchor[0] == "~"
        # Those that begin with a choice stay whole, under "".
        branches.setdefault(letter, []).append("~" * marked + anchor[marked + len(letter) :])
    parts: list[str] = []
    for letter, rest in sorted(branches.items(), reverse=True):
        plain, patterns = [a for a in rest if a[0] != "~"], [a[1:] for a in rest if a[0] == "~"]
        parts.append(f"{letter}(?:{'|'.join([*([_any_of(plain)] if plain else ()), *patterns])})")
    return f"(?:{'|'.join(parts)})"


def _any_of(words: list[str]) -> str:
    """Return a pattern that matches any of `words`, branching once per distinct character; "" if one of them is empty."""
    if "" in words:
        return ""
    branches: dict[str, list[str]] = {}
    for word in words:
        branches.setdefault(word[0], []).append(word[1:])
    alternatives = [re.escape(first) + _any_of(rest) for first, rest in branches.items()]
    return alternatives[0] if len(alternatives) == 1 else f"(?:{'|'.join(alternatives)})"


def replaced(text: str, spans: Iterable[Span], counts: Counter[str]) -> str:
    """Return `text` with the spans replaced, counted by rule in `counts`; overlapping ones as one, named after the first."""
    out: list[str] = []
    at = 0
    for span in sorted(spans, key=lambda span: (span.start, -span.end)):
        if span.start >= at:
            out += text[at : span.start], REPLACEMENT.format(span.rule)
            counts[span.rule] += 1
        at = max(at, span.end)
    return "".join([*out, text[at:]])
