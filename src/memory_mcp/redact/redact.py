"""Remove secrets and private spans from text: one cheap search for anchors, then the rules they call for.

Invariants
1. Nothing is imported or scanned for a rule none of whose anchors is in the text.
2. Every pattern begins at an anchor and scans each run of characters once: time grows with the text, whatever it is.
3. Redacting twice changes nothing more.

Change here: what is private or a secret.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import cache, partial
from importlib import import_module

from memory_mcp.base.dataclass import dataclass
from memory_mcp.base.patterns import lazy_pattern
from memory_mcp.redact.secret_rules import DETECTORS, PATTERNS, TOKENS
from memory_mcp.redact.secret_values import long_runs_pattern
from memory_mcp.redact.secrets_in_code import Finder, Place

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


def _sign_pattern(plain: str, name: str, more: str = "") -> str:
    """Match a sign plain, one of `more`, or escaped."""
    number = f"{ord(plain):x}"
    html = rf"&(?:amp;)*(?:{name};|\#0*{ord(plain)};)|{_IN_HTML}{number};"
    return rf"(?:[{plain}{more}]|{html}|{_IN_STRINGS}{number}\}}?|{_IN_ADDRESSES}{number})"


_OPENING, _CLOSING, _SLASH = (
    _sign_pattern("<", "lt", "\uff1c\u2039\u3008"),
    _sign_pattern(">", "gt", "\uff1e\u203a\u3009"),
    _sign_pattern("/", "sol", "\uff0f"),
)
#: The letters, also as keyboards of other scripts and widths write them.
_LETTERS = ("[p\uff50\u0440]", "[r\uff52]", "[i\uff49\u0456]", "[v\uff56]", "[a\uff41\u0430]", "[t\uff54]", "[e\uff45\u0435]")
#: A private tag as people and programs spell it: any case, with blanks and attributes, escaped for HTML, JSON or an address,
#: more than once too.
_PRIVATE = lazy_pattern(
    rf"(?i){_OPENING}{_UNSEEN}\s{{0,8}}((?:\\{{0,8}}{_SLASH})?)\s{{0,8}}{_UNSEEN}{_UNSEEN.join(_LETTERS)}{_UNSEEN}"
    rf"(?:(?:\s|\\{{1,8}}[nrt]|\+|%20)[^<>]{{0,1000}}?)?{_CLOSING}"
)
#: Every tag has these letters; the first of them is rare, so that a text without it is passed over quickly.
_LAST_LETTERS = lazy_pattern(f"(?i){_UNSEEN.join(_LETTERS[3:])}")
#: Each spelling of a tag's opening sign has one of these characters.
_OPENING_SIGNS = "<\uff1c\u2039\u3008&\\%"
#: Every vendor's token is at least so long; prose has hardly a word that is, and is passed over in 10 µs per 600 bytes.
_LONG_RUN = long_runs_pattern("a-z0-9_.~%+/=:-", 16)
_ASCII_LOWER = {c: c + 32 for c in range(ord("A"), ord("Z") + 1)}

#: Characters that may separate a vendor's token from the text before it, within a run; runs are joined by the first.
_SIGNS = " _.~%+/=:-"
#: Farthest that a vendor's anchor looks back and ahead (characters), and number of surroundings that are cached.
_CONTEXT_BEFORE, _CONTEXT_AFTER, _MOST_CONTEXTS = 16, 144, 4096

#: Parts of anchors that save looking for each of them in the many texts that hold no such part.
_SHARED = frozenset(("=", "/", "<", "api", "cred", "pdp", "sql", "sign", "pw", "net ", "identified", "base64"))
#: By an anchor's plain text: its patterns, each with the numbers of its rules.
_Words = dict[str, list[tuple[re.Pattern[str], list[int]]]]
#: A place where a token may begin: not inside a word, but behind an escaped line feed of quoted text.
_BEGIN = r"(?:(?<![A-Za-z0-9])|(?<=\\[nrt]))"
#: How tokens of two detectors begin: ordinary code has their anchors in small letters, and importing one takes .2 seconds.
_BEGINNINGS = {"sendgrid": lazy_pattern(r"SG\.[A-Za-z0-9_-]{22}"), "twilio": lazy_pattern(r"(?:AC|SK)[a-z0-9]{32}")}
_TOKEN_RUN = lazy_pattern("[A-Za-z0-9_-]*+")
_ESCAPES = ("\\n", "\\r", "\\t")
#: The plain text a pattern begins with.
_PLAIN = lazy_pattern(r"(?:[^\\.\[\](){}|?*+^$]|\\[^\w])+(?![?*{+])")


def strip_private(text: str) -> str:
    """Return `text` without its `<private>` spans, also nested ones.

    An open one reaches to the end. A tag that closes and was not opened removes all from the beginning: clients cut a
    message into parts.
    """
    return PrivateSplit(text).public_text if may_hold_private(text) else text


def may_hold_private(text: str) -> bool:
    """Return whether a text may hold a private tag."""
    if text.isascii() and "private" not in text.lower():
        return False
    return any(sign in text for sign in _OPENING_SIGNS) and _LAST_LETTERS.search(text) is not None


class PrivateSplit:
    """A text without its private spans, and what they reach."""

    def __init__(self, text: str, inside: bool = False) -> None:
        """Split `text`; `inside`: it begins within an open span."""
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
        self.stays_open = depth > 0
        self.public_text = "".join(out) + ("" if depth else text[at:])


@dataclass(frozen=True, slots=True)
class Span:
    """A secret's place, and the rule that found it."""

    start: int
    end: int
    rule: str


@dataclass(frozen=True, slots=True)
class Rule:
    """Finds one kind of secret near its anchors."""

    name: str
    anchors: tuple[str, ...]
    find: Finder


def make_rules() -> tuple[list[Rule], list[Rule]]:
    """Return the rules by surroundings, and those of vendors, in order."""
    surroundings = [
        Rule(name, anchors, _pattern_finder(lazy_pattern(search), check) if isinstance(search, str) else search)
        for name, anchors, search, check in PATTERNS
    ]
    tokens = [Rule(name, tuple(anchors.split()), _token_finder(anchors.split(), pattern)) for name, anchors, pattern in TOKENS]
    detectors = [
        Rule(name, tuple(anchors.split()), partial(_find_detected, module, detector, grows))
        for name, anchors, module, detector, grows in DETECTORS
    ]
    return surroundings, [*tokens, *detectors]


def _pattern_finder(pattern: re.Pattern[str], check: Callable[[str], bool] | None = None) -> Finder:
    def find(text: str, _lowered: str) -> Iterator[Place]:
        group = "secret" if "secret" in pattern.groupindex else 0
        for match in pattern.finditer(text):
            if check is None or check(match[group]):
                yield match.span(group)

    return find


def _token_finder(anchors: list[str], source: str) -> Finder:
    """Search at prefixes, or by pattern if an anchor is inside."""
    pattern, prefixes = lazy_pattern(_BEGIN + source), sorted(set(map(plain_start, anchors)))
    # An anchor that begins with a sign, or with a choice, is inside the token.
    if not all(prefix[:1].isalnum() for prefix in prefixes):
        return _pattern_finder(pattern)

    def find(text: str, lowered: str) -> Iterator[Place]:
        done = 0
        for start in sorted({start for prefix in prefixes for start in _iter_starts(lowered, prefix)}):
            if start >= done and (match := pattern.match(text, start)):
                done = match.end()
                # Examples are filled with x.
                if "xxxx" not in lowered[start:done]:
                    yield start, done

    return find


def _iter_starts(text: str, part: str) -> Iterator[int]:
    start = text.find(part)
    while start >= 0:
        yield start
        start = text.find(part, start + len(part))


def _find_detected(module: str, detector: str, grows: bool, text: str, _lowered: str) -> Iterator[Place]:
    """`grows`: matches take in their whole run."""
    if (beginning := _BEGINNINGS.get(module)) and not beginning.search(text):
        return
    for pattern in _detector_patterns(module, detector):
        done = 0
        for match in pattern.finditer(text):
            group = pattern.groups if pattern.groups and match[pattern.groups] and not grows else 0
            start, end = match.span(group)
            # A letter or digit is next to it, but not that of an escaped line feed, return or tab before it.
            is_inside = text[end : end + 1].isalnum() or (
                text[start - 1 : start].isalnum() and text[max(0, start - 2) : start] not in _ESCAPES
            )
            if start < done or (is_inside and not grows):
                continue
            if grows and (run := _TOKEN_RUN.match(text, end)):
                end = run.end()
            done = end
            yield start, end


@cache
def _detector_patterns(module: str, detector: str) -> tuple[re.Pattern[str], ...]:
    # Imported on the first hit only: it brings an HTTP client with it and takes a third of a second.
    return tuple(getattr(import_module(f"detect_secrets.plugins.{module}"), detector).denylist)


def plain_start(anchor: str) -> str:
    """Return an anchor's literal beginning; "" for a choice."""
    if not anchor.startswith("~"):
        return anchor
    start = _PLAIN.match(anchor, 1)
    return start[0].replace("\\", "") if start else ""


class Redactor:
    """All rules, compiled at their first use."""

    def __init__(self) -> None:
        surroundings, vendors = make_rules()
        self._surroundings = _SurroundingsFilter(surroundings)
        self._vendors = _TokenFilter(vendors)

    def may_hold_secret(self, text: str) -> bool:
        """Return whether any rule has to look at `text`."""
        lowered = text.lower()
        return bool(self._surroundings.select_rules(lowered) or self._vendors.select_rules(_long_runs(lowered)))

    def redact(self, text: str, counts: Counter[str]) -> str:
        """Return `text` with every secret replaced by its rule's name."""
        spans = self.find_spans(text)
        return replace_spans(text, spans, counts) if spans else text

    def find_spans(self, text: str) -> list[Span]:
        """Return the secrets in `text`, rule by rule; some may overlap."""
        lowered = text.lower()
        runs = _long_runs(lowered)
        # The vendors' rules first: a token that both find is named after its vendor.
        rules = [*(self._vendors.select_rules(runs) if runs else ()), *self._surroundings.select_rules(lowered)]
        if not rules:
            return []
        # Lower case is longer for a few letters; places in it must be places in the text.
        aligned = lowered if len(lowered) == len(text) else text.translate(_ASCII_LOWER)
        return [Span(start, end, rule.name) for rule in rules for start, end in rule.find(text, aligned)]


@cache
def redactor() -> Redactor:
    """Return the one redactor of this process."""
    return Redactor()


def _long_runs(lowered: str) -> str:
    runs = list(filter(None, _LONG_RUN.findall(lowered)))
    return f" {' '.join(runs)}" if runs else ""


class _SurroundingsFilter:
    """Selects rules with anchors anywhere, by plain text, then by pattern."""

    def __init__(self, rules: list[Rule]) -> None:
        self._rules = rules
        numbers_of: dict[str, list[int]] = {}
        for number, rule in enumerate(rules):
            for anchor in rule.anchors:
                numbers_of.setdefault(anchor, []).append(number)
        words = {plain_start(anchor) for anchor in numbers_of} | _SHARED
        roots = {word for word in words if not any(part.strip() and part != word and part in word for part in words)}
        words_of: dict[str, _Words] = {}
        self._foreign: _Words = {}
        for anchor, numbers in numbers_of.items():
            word = plain_start(anchor)
            # A word is looked for only where another that is part of it was found; a blank is everywhere.
            parts = [part for part in roots if part.strip() and part in word]
            root = max(parts, key=lambda part: (len(part), part), default=word)
            patterns = words_of.setdefault(root, {}) if word.isascii() else self._foreign
            # A plain anchor is met wherever its text is: the empty pattern always matches.
            patterns.setdefault(word, []).append((lazy_pattern(anchor[1:] if anchor[0] == "~" else ""), numbers))
        #: By root its own patterns, and the longer words that are looked for where it is.
        self._roots = {root: (patterns.pop(root, []), patterns) for root, patterns in words_of.items()}

    def select_rules(self, lowered: str) -> list[Rule]:
        """Return the rules with an anchor in a lower-case text, in order."""
        # A filter looks for a hundred words in the time a loop looks for sixty.
        is_present = lowered.__contains__
        hits: set[int] = set()
        for root in filter(is_present, self._roots):
            patterns, longer = self._roots[root]
            for pattern, numbers in patterns:
                if pattern.search(lowered):
                    hits.update(numbers)
            for word in filter(is_present, longer):
                for pattern, numbers in longer[word]:
                    if pattern.search(lowered):
                        hits.update(numbers)
        if not lowered.isascii():
            for word in filter(is_present, self._foreign):
                for pattern, numbers in self._foreign[word]:
                    if pattern.search(lowered):
                        hits.update(numbers)
        return [self._rules[number] for number in sorted(hits)]


class _TokenFilter:
    """Selects rules whose anchors begin a token or have a sign in it."""

    def __init__(self, rules: list[Rule]) -> None:
        self._rules = rules
        self._by_letter: dict[str, list[tuple[re.Pattern[str], int]]] = {}
        for number, rule in enumerate(rules):
            for anchor in rule.anchors:
                self._by_letter.setdefault(plain_start(anchor)[:1], []).append((lazy_pattern(_as_pattern(anchor)), number))
        anchors = sorted({anchor for rule in rules for anchor in rule.anchors})
        inner = [anchor for anchor in anchors if plain_start(anchor)[:1] in _SIGNS[1:] and plain_start(anchor)]
        # A run behind a backslash may begin with the letter of an escape.
        starts = _branch_by_letter(anchor for anchor in anchors if anchor not in inner)
        self._begins = tuple(lazy_pattern(f"{separator}(?={starts})") for separator in (f"[{re.escape(_SIGNS)}]", " [nrt]"))
        # Side by side, each with its sign first, so that all else is passed over quickly.
        self._inner = lazy_pattern("|".join(map(_as_pattern, inner)))

    def select_rules(self, runs: str) -> list[Rule]:
        """Return the rules with an anchor in a text's long runs."""
        numbers: set[int] = set()
        contexts: set[str] = set()
        for begins in self._begins:
            for match in begins.finditer(runs):
                self._add_numbers(runs, match.end(), numbers, contexts)
        inner = self._inner.search(runs)
        while inner:
            self._add_numbers(runs, inner.start(), numbers, contexts)
            inner = self._inner.search(runs, inner.start() + 1)
        return [self._rules[number] for number in sorted(numbers)]

    def _add_numbers(self, runs: str, at: int, numbers: set[int], contexts: set[str]) -> None:
        """Each surrounding text is examined once (`contexts`)."""
        if at >= _CONTEXT_BEFORE:
            context = runs[at - _CONTEXT_BEFORE : at + _CONTEXT_AFTER]
            if context in contexts:
                return
            if len(contexts) < _MOST_CONTEXTS:
                contexts.add(context)
        for pattern, number in (*self._by_letter.get(runs[at : at + 1], ()), *self._by_letter.get("", ())):
            if number not in numbers and pattern.match(runs, at):
                numbers.add(number)


def _as_pattern(anchor: str) -> str:
    return anchor[1:] if anchor[0] == "~" else re.escape(anchor)


def _branch_by_letter(anchors: Iterable[str]) -> str:
    """Match any of the anchors, branching once per first letter."""
    branches: dict[str, list[str]] = {}
    for anchor in anchors:
        letter, marked = plain_start(anchor)[:1], anchor[0] == "~"
        # Those that begin with a choice stay whole, under "".
        branches.setdefault(letter, []).append("~" * marked + anchor[marked + len(letter) :])
    parts: list[str] = []
    for letter, endings in sorted(branches.items(), reverse=True):
        plain, patterns = [a for a in endings if a[0] != "~"], [a[1:] for a in endings if a[0] == "~"]
        parts.append(f"{letter}(?:{'|'.join([*([_match_any(plain)] if plain else ()), *patterns])})")
    return f"(?:{'|'.join(parts)})"


def _match_any(words: list[str]) -> str:
    """Branch once per character; "" if one is empty."""
    if "" in words:
        return ""
    branches: dict[str, list[str]] = {}
    for word in words:
        branches.setdefault(word[0], []).append(word[1:])
    alternatives = [re.escape(first) + _match_any(endings) for first, endings in branches.items()]
    return alternatives[0] if len(alternatives) == 1 else f"(?:{'|'.join(alternatives)})"


def replace_spans(text: str, spans: Iterable[Span], counts: Counter[str]) -> str:
    """Return `text` with spans replaced, overlapping ones as the first."""
    out: list[str] = []
    at = 0
    for span in sorted(spans, key=lambda span: (span.start, -span.end)):
        if span.start >= at:
            out += text[at : span.start], REPLACEMENT.format(span.rule)
            counts[span.rule] += 1
        at = max(at, span.end)
    return "".join([*out, text[at:]])
