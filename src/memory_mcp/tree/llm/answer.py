"""Read and check a command's answer: only statements borne out by the quotations that they cite are kept. Pure."""

import json
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from memory_mcp.base.text import snippet, term_set
from memory_mcp.model.toc import KIND_SALIENCE, MemoryKind, TocBullet
from memory_mcp.model.topic import MAX_LABEL
from memory_mcp.tree.llm.material import Material, TopicMaterial

#: Most tokens of an answer, thoughts included; this much of the budget is reserved for each question.
MAX_OUT = 3000
MAX_TITLE, MAX_SUMMARY, MAX_BULLET = 120, 300, 200
#: Of the rarity of a statement's words this share must stand in what it rests on. A sentence put into other words keeps names,
#: files and figures, which are most of its rarity; one that is made up shares what every sentence has.
_SHARED = 0.5
#: Grips named by one bullet at most.
_GRIPS = 3
_THOUGHTS = re.compile(r"\A.*</think>", re.S)
_NUMBER = re.compile(r"(?<![\w.])\d+(?:[.,:]\d+)*")
_DECODER = json.JSONDecoder()
#: What models put around a line, what no plain words hold, and what joins words that may have been said apart.
_AROUND, _MARKUP, _JOINTS = " \t\"'“”„«»`*_.", re.compile(r"[<>{}\[\]|`*\\]"), re.compile(r"[-/]")


@dataclass(frozen=True, slots=True)
class Reply:
    """What the command printed, and its cost."""

    text: str
    tokens_in: int
    tokens_out: int
    #: Whether the tokens are estimates, because the command did not state them.
    estimated: bool


class Unavailable(Exception):
    """The command gives no answer now; `is_transient` is whether another try may help."""

    def __init__(self, reason: str, is_transient: bool, tokens_in: int = 0) -> None:
        """`tokens_in` were probably spent for nothing."""
        super().__init__(reason)
        self.is_transient = is_transient
        self.tokens_in = tokens_in


class Unusable(Exception):
    """Nothing of an answer can be used; its text says why, without a word of the answer."""


@dataclass(frozen=True, slots=True)
class Rarity:
    """How rare words are in the store."""

    #: In how many segments a term stands, of one project or (None) of all.
    of: Callable[[str, str | None], int]
    segments: int

    def weight(self, term: str) -> float:
        """Return log(1 + all segments / segments that hold the term, of any project), high for a rare term; 0 counts as 0.5."""
        return math.log(1 + self.segments / (self.of(term, None) or 0.5))


@dataclass(frozen=True, slots=True)
class Written:
    """The part of an answer that is kept."""

    title: str
    summary: str
    bullets: tuple[TocBullet, ...]
    #: Bullets that did not hold.
    dropped: int

    @property
    def kind(self) -> MemoryKind:
        """The kind with the highest salience among its bullets, of which there must be one; the earlier bullet's if equal."""
        return max((b.kind for b in self.bullets), key=lambda k: KIND_SALIENCE[k])


def parse_answer(text: str) -> Mapping[str, Any]:
    """Return the first JSON object in a command's output, after a model's thoughts; raises Unusable."""
    text = _THOUGHTS.sub("", text)
    if not text.strip():
        raise Unusable("the command answered nothing")
    if (start := text.find("{")) < 0:
        raise Unusable("no JSON")
    try:
        answer, _ = _DECODER.raw_decode(text, start)
    except (ValueError, RecursionError):
        raise Unusable("broken JSON") from None
    return dict(answer)


def believed(answer: str, material: Material, rarity: Rarity, clean: Callable[[str], str]) -> Written:
    """Return the text that an answer gives a node: title, summary and the bullets that hold, at most `material.most`.

    A bullet holds if the quotations that it cites bear it out; others are counted in `dropped`. Of bullets with the same
    text one is kept. A summary with a number that was not shown becomes "". Raises Unusable without JSON, a title, or a
    bullet that holds, and for a number in the title that was not shown. `clean` gives a text as it may be stored, or "".
    """
    told = parse_answer(answer)
    title = _line(told.get("title"), clean, MAX_TITLE)
    if not title:
        raise Unusable("no title")
    shown = _numbers("\n".join(material.lines)) | _numbers("\n".join(q.words for q in material.quotations.values()))
    if not _numbers(title) <= shown:
        raise Unusable("the title states a number that was not said")
    given = told.get("bullets")
    offered = [b for b in given if isinstance(b, Mapping)] if isinstance(given, list) else []
    if not offered:
        raise Unusable("no bullets")
    held = [made for one in offered if (made := _bullet(one, material, rarity, clean)) is not None]
    if not held:
        raise Unusable("no bullet is borne out by the quotations it names")
    summary = _line(told.get("summary"), clean, MAX_SUMMARY)
    chosen = tuple({b.text: b for b in held}.values())[: material.most]
    return Written(title, summary if _numbers(summary) <= shown else "", chosen, len(offered) - len(held))


def believed_label(answer: str, material: TopicMaterial, rarity: Rarity, clean: Callable[[str], str]) -> str:
    """Return the label that an answer gives a topic, without quotation marks around it; `clean` gives it as it may be stored.

    Raises Unusable unless it is one line of plain words, at most 50 characters: its numbers and at least half of its words by
    rarity were shown, the other words occur in the topic's project.
    """
    given = parse_answer(answer).get("label")
    lines = [line for line in given.splitlines() if line.strip()] if isinstance(given, str) else []
    if len(lines) != 1:
        raise Unusable("not one line" if lines else "no label")
    label = "".join(c for c in " ".join(clean(lines[0].strip(_AROUND)).split()) if c.isprintable())
    if not label or len(label) > MAX_LABEL:
        raise Unusable(f"longer than {MAX_LABEL} characters" if label else "no label")
    said = "\n".join((material.label, *material.keywords, *material.titles))
    # A compound of words that were said is not another word.
    terms, there = term_set(_JOINTS.sub(" ", label)), term_set(said)
    if _MARKUP.search(label) or not terms:
        raise Unusable("the label is not plain words")
    if not _numbers(label) <= _numbers(said):
        raise Unusable("the label states a number that was not said")
    if not all(rarity.of(term, material.project) for term in terms - there) or not _mostly(terms, there, rarity):
        raise Unusable("the label is not borne out by the topic's words")
    return label


def _line(value: object, clean: Callable[[str], str], width: int) -> str:
    """Return a value as one line to be stored, cut to `width` characters, " · " made a comma; "" for what is no text."""
    text = " ".join(value.split()) if isinstance(value, str) else ""
    return snippet(clean(text).replace(" · ", ", "), (), width) if text else ""


def _bullet(given: Mapping[str, Any], material: Material, rarity: Rarity, clean: Callable[[str], str]) -> TocBullet | None:
    """Return a bullet from an answer; None unless the first 3 quotations that it cites bear out its text.

    They do if they hold its numbers and at least half of the rarity of its words. It cites them by label or id in
    `grip_ids`. None also if it cites none, one that does not exist, or those of several projects, and for a word that
    only other projects ever said. It gets project and agent of its first quotation; an unknown kind becomes observation.
    """
    text, named = _line(given.get("text"), clean, MAX_BULLET), given.get("grip_ids")
    labels = [str(label).strip("[] ") for label in named] if isinstance(named, list) else []
    by_id = {q.grip_id: q for q in material.quotations.values()}
    found = [material.quotations.get(label) or by_id.get(label) for label in labels]  # type: ignore[call-overload]
    quoted = list({q.grip_id: q for q in found if q is not None}.values())[:_GRIPS]
    # A label that does not exist makes its bullet doubtful, however good the others are.
    if not text or not quoted or None in found or len({q.project for q in quoted}) > 1:
        return None
    said = "\n".join(q.words for q in quoted)
    terms, there = term_set(text), term_set(said)
    if not terms or not _numbers(text) <= _numbers(said):
        return None
    # A word that only other projects ever said would tell one project of the other.
    if any(rarity.of(term, None) and not rarity.of(term, quoted[0].project) for term in terms - there):
        return None
    if not _mostly(terms, there, rarity):
        return None
    kind = given.get("kind")
    known = MemoryKind(kind) if isinstance(kind, str) and kind in set(MemoryKind) else MemoryKind.OBSERVATION
    return TocBullet(text, tuple(q.grip_id for q in quoted), known, quoted[0].project, quoted[0].agent)


def _mostly(terms: set[str], there: set[str], rarity: Rarity) -> bool:
    """Return whether the terms that are in `there` have at least half of the weight (rarity) of all `terms`."""
    weights = {term: rarity.weight(term) for term in sorted(terms)}
    return math.fsum(weights[t] for t in sorted(terms & there)) >= _SHARED * math.fsum(weights.values())


def _numbers(text: str) -> set[str]:
    """Return the numbers in a text as they are written, without commas; digits behind a letter or a dot do not begin one."""
    return {found.replace(",", "") for found in _NUMBER.findall(text)}
