# ruff: noqa: E501 - a long pattern goes on in the next line of its row
"""Rules for secrets after a label in words, and in tables under a heading that names them."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from memory_mcp.ingest.secret_rules import Rule, Span, gives_away_plainly
from memory_mcp.ingest.secret_values import is_called, is_placeholder, is_random

#: A secret of a machine named in words. The key of a door or a table is none, so that a key has to be of one of these.
_KEY_OF = (
    r"(?:api|access|admin|app|auth|application|private|secret|master|server|account|signing"
    r"|encryption|deploy|service|license|function|storage|project|live|pre-?shared)[ _-]"
)
#: The words in other scripts: Chinese, Japanese, Korean, Russian.
_FOREIGN = (
    "\u4ee4\u724c", "\u5bc6\u94a5", "\u5bc6\u9470", "\u79d8\u94a5", "\u30c8\u30fc\u30af\u30f3", "\ud1a0\ud070", "\u0442\u043e\u043a\u0435\u043d"
)  # fmt: skip
_LABEL = rf"(?:\b(?:token|secret|credential|{_KEY_OF}key|client[ _-]id[ _-]secret|key(?= (?:is|ist) ))|{'|'.join(_FOREIGN)})"
_VALUE = r"\\?[\"'`]?(?:[a-z]{2,8}:)?(?P<secret>[A-Za-z0-9_+/.~%=-]{16,400})"
_LABELLED = re.compile(
    rf"(?i){_LABEL}(?:\s\w{{1,16}}){{0,4}}?"
    r"\s?(?:(?:[:=]|-(?<=\s-)|\bis|\bist|\best|\bes|\bwas)\s{1,2}|[\uff1a\u662f\u4e3a\u70ba\u306f\ub294\uc740]\s?)"
    rf"{_VALUE}"
)
#: The value straight behind its label, where nothing says that the two belong together but what it looks like.
_BEHIND = re.compile(rf"(?i)(?<![A-Za-z0-9_-]){_LABEL} {_VALUE}")
#: Shortest values behind a label, straight behind it, and behind a key that is said to be of nothing.
_SHORTEST, _SHORTEST_BEHIND, _SHORTEST_OF_KEY = 16, 20, 24
#: What a label ends in, and what may stand before that and belong to it.
_LABELS = tuple(re.compile(word) for word in ("token", "secret", "credential", "key", "|".join(_FOREIGN)))
_LABEL_START = re.compile(rf"(?:\b{_KEY_OF}|\bclient[ _-]id[ _-])\Z")
_VALUES = tuple(
    re.compile(value).search
    for value in (
        r": (?:[a-z]{2,8}:)?[a-z0-9_+/.~%=-]{20}",
        r"= [a-z0-9_+/.~%=-]{20}",
        r" (?:is|ist|est|es|was|-) [\"'`]?(?:[a-z]{2,8}:)?[a-z0-9_+/.~%=-]{16}",
        *(rf"{word} [\"'`]?[a-z0-9_+/.~%=-]{{20}}" for word in ("token", "secret", "credential", "key")),
    )
)
_FOREIGN_VALUES = tuple(
    re.compile(value).search
    for value in (
        "[\uff1a\u662f\u4e3a\u70ba\u306f\ub294\uc740] ?[\"'`]?[a-z0-9_+/.~%=-]{16}",
        f"(?:{'|'.join(_FOREIGN)})[: ]{{1,2}}[a-z0-9_+/.~%=-]{{16}}",
    )
)


@dataclass(frozen=True, slots=True)
class LabelledRule:
    """`api key: X`, where X looks drawn by a machine; tried at the labels only, most texts with a colon have none."""

    name: str = "labelled"
    anchors: tuple[str, ...] = ("token", "secret", "credential", "key", *_FOREIGN)

    def find(self, text: str, lowered: str) -> Iterator[Span]:
        """Yield random values behind a label such as "api key:", "token is" or "secret ".

        At least 16 characters behind a sign or verb, 20 directly behind the label, 24 behind a bare "key".
        """
        searches = _VALUES if lowered.isascii() else _VALUES + _FOREIGN_VALUES
        if not any(search(lowered) for search in searches):
            return
        starts: set[int] = set()
        for label in _LABELS:
            for place in label.finditer(lowered):
                starts.add(place.start())
                if start := _LABEL_START.search(lowered, max(0, place.start() - 13), place.start()):
                    starts.add(start.start())
        done = 0
        for at in sorted(starts):
            if at < done:
                continue
            bound = _SHORTEST_OF_KEY if lowered.startswith("key", at) else _SHORTEST
            match = _LABELLED.match(text, at)
            if not (match and _drawn(match, bound)):
                match, bound = _BEHIND.match(text, at), _SHORTEST_BEHIND
            if match and _drawn(match, bound):
                done = match.end()
                yield Span(*match.span("secret"), self.name)


def _drawn(match: re.Match[str], shortest: int) -> bool:
    """Return whether a labelled value looks random, is at least so long, and is no placeholder, path or call."""
    value = match["secret"].rstrip(".")
    if value.startswith("//") or is_called(match.string, *match.span("secret")):
        return False
    return not is_placeholder(value) and is_random(value, shortest)


_HEADING = re.compile(r"(?:pass(?:word|wd|phrase)?|pwd|secret|token|api[ _-]?key)[ *`\"']{0,4}[|,;\t\n]")
#: No heading is longer, characters.
_LONGEST_HEADING = 400
_IS_HEADING = re.compile(r"(?i)(?:[a-z]{0,20}[ _-])?(?:pass(?:word|wd|phrase)?|pwd|secret|token|api[ _-]?key)")
_RULE_LINE = re.compile(r"[\s|:+=-]*")
#: Rows searched under a heading, and the signs around a cell's text.
_MOST_ROWS, _AROUND = 50, " \t#*`\"'"


@dataclass(frozen=True, slots=True)
class TableRule:
    """Cells under a heading such as `password`, in tables of Markdown and in files of comma-separated values."""

    name: str = "table"
    anchors: tuple[str, ...] = (
        *(f"{sign}{word}" for word in ("pass", "pwd", "secret", "token", "api") for sign in ("|", "| ", ",", ";", "\t")),
        *(f"\n{word}" for word in ("password,", "password;", "password\t", "token,")),
    )

    def find(self, text: str, lowered: str) -> Iterator[Span]:
        """Yield the cells under a heading such as `password` that look like secrets, in up to 50 rows.

        A heading is a line of at most 400 characters with at least two names and no digit, parted by |, tabs, semicolons
        or commas.
        """
        done = 0
        for place in _HEADING.finditer(lowered):
            if place.start() < done:
                continue
            start = text.rfind("\n", 0, place.start()) + 1
            done = text.find("\n", place.end() - 1) + 1
            if not done or done - start > _LONGEST_HEADING:
                continue
            head = text[start:done]
            for sign in "|\t;,":
                cells = [cell.strip(_AROUND) for cell in head.rstrip().split(sign)]
                columns = [n for n, cell in enumerate(cells) if _IS_HEADING.fullmatch(cell)]
                if columns and sum(map(bool, cells)) > 1 and not any(map(str.isdigit, head)):
                    yield from self._rows(text, done, sign, len(cells), columns)
                    break

    def _rows(self, text: str, at: int, sign: str, width: int, columns: list[int]) -> Iterator[Span]:
        """Yield the secrets in `columns` of at most 50 rows from `at` on, parted by `sign`, up to one not `width` cells wide."""
        for _ in range(_MOST_ROWS):
            end = text.find("\n", at, at + 2000)
            line = text[at : end if end >= 0 else at + 2000]
            cells = line.split(sign)
            if len(cells) != width:
                return
            for column in [] if _RULE_LINE.fullmatch(line) else columns:
                value = cells[column].strip(" \t\r`\"'")
                if value and gives_away_plainly("password", value):
                    start = at + len(sign.join(cells[:column])) + bool(column) + cells[column].index(value)
                    yield Span(start, start + len(value), self.name)
            if end < 0:
                return
            at = end + 1


LABEL_RULES: tuple[Rule, ...] = (LabelledRule(), TableRule())
