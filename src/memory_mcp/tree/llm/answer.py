"""Read and check a command's answer: only statements borne out by the quotations that they cite are kept. Pure."""

import json
import math
import re
from collections.abc import Callable, Mapping
from typing import Any

from memory_mcp.base.dataclass import dataclass
from memory_mcp.base.text import snippet, term_set
from memory_mcp.model.toc import KIND_SALIENCE, MemoryKind, TocBullet
from memory_mcp.model.topic import MAX_LABEL
from memory_mcp.tree.llm.material import Material, TopicMaterial

#: Most tokens of an answer, thoughts included; this much of the budget is reserved for each question.
MAX_OUT = 3000
MAX_TITLE, MAX_SUMMARY, MAX_BULLET = 120, 300, 200
#: Of the rarity of a statement's words this share must stand in what it rests on. A sentence put into other words keeps names,
#: files and figures, which are most of its rarity; one that is made up shares what every sentence has.
_MIN_SHARED = 0.5
#: Grips named by one bullet at most.
_MAX_GRIPS = 3
_THOUGHTS = re.compile(r"\A.*</think>", re.S)
_NUMBER = re.compile(r"(?<![\w.])\d+(?:[.,:]\d+)*")
_DECODER = json.JSONDecoder()
#: What models put around a line, what no plain words hold, and what joins words that may have been said apart.
_QUOTE_MARKS, _MARKUP, _JOINTS = " \t\"'“”„«»`*_.", re.compile(r"[<>{}\[\]|`*\\]"), re.compile(r"[-/]")


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
        super().__init__(reason)
        self.is_transient = is_transient
        self.tokens_in = tokens_in


class Unusable(Exception):
    """Nothing of an answer can be used; its text says why, without a word of the answer."""


@dataclass(frozen=True, slots=True)
class Rarity:
    """How rare words are in the store."""

    #: In how many segments a term is, of one project or (None) of all.
    of: Callable[[str, str | None], int]
    segments: int

    def weight(self, term: str) -> float:
        """Return a term's weight, high for a rare one.

        It is log(1 + all segments / segments that hold the term, of any project); 0 counts as 0.5.
        """
        return math.log(1 + self.segments / (self.of(term, None) or 0.5))


@dataclass(frozen=True, slots=True)
class CheckedSummary:
    """The part of an answer that is kept."""

    title: str
    summary: str
    bullets: tuple[TocBullet, ...]
    #: Bullets that did not hold.
    dropped: int

    @property
    def kind(self) -> MemoryKind:
        """The most salient kind among its bullets."""
        return max((b.kind for b in self.bullets), key=lambda k: KIND_SALIENCE[k])


def parse_answer(text: str) -> Mapping[str, Any]:
    """Return the first JSON object of an output; raises Unusable."""
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


def check_summary(answer: str, material: Material, rarity: Rarity, clean: Callable[[str], str]) -> CheckedSummary:
    """Return what an answer gives a node, as far as quotations bear it out.

    A bullet holds if the quotations that it cites bear it out; others are counted in `dropped`. Of bullets with the same
    text one is kept. A summary with a number that was not shown becomes "". Raises Unusable without JSON, a title, or a
    bullet that holds, and for a number in the title that was not shown. `clean` gives a text as it may be stored, or "".
    """
    answer_fields = parse_answer(answer)
    title = _clean_line(answer_fields.get("title"), clean, MAX_TITLE)
    if not title:
        raise Unusable("no title")
    shown_numbers = _numbers_in("\n".join(material.lines)) | _numbers_in("\n".join(q.words for q in material.quotations.values()))
    if not _numbers_in(title) <= shown_numbers:
        raise Unusable("the title states a number that was not said")
    raw_bullets = answer_fields.get("bullets")
    bullet_fields = [b for b in raw_bullets if isinstance(b, Mapping)] if isinstance(raw_bullets, list) else []
    if not bullet_fields:
        raise Unusable("no bullets")
    bullets = [
        bullet for raw_bullet in bullet_fields if (bullet := _check_bullet(raw_bullet, material, rarity, clean)) is not None
    ]
    if not bullets:
        raise Unusable("no bullet is borne out by the quotations it names")
    summary = _clean_line(answer_fields.get("summary"), clean, MAX_SUMMARY)
    chosen = tuple({b.text: b for b in bullets}.values())[: material.most]
    return CheckedSummary(
        title, summary if _numbers_in(summary) <= shown_numbers else "", chosen, len(bullet_fields) - len(bullets)
    )


def check_label(answer: str, material: TopicMaterial, rarity: Rarity, clean: Callable[[str], str]) -> str:
    """Return the label that an answer gives a topic.

    Raises Unusable unless it is one line of plain words, at most 50 characters: its numbers and at least half of its words by
    rarity were shown, the other words occur in the topic's project.
    """
    raw_label = parse_answer(answer).get("label")
    lines = [line for line in raw_label.splitlines() if line.strip()] if isinstance(raw_label, str) else []
    if len(lines) != 1:
        raise Unusable("not one line" if lines else "no label")
    label = "".join(c for c in " ".join(clean(lines[0].strip(_QUOTE_MARKS)).split()) if c.isprintable())
    if not label or len(label) > MAX_LABEL:
        raise Unusable(f"longer than {MAX_LABEL} characters" if label else "no label")
    topic_text = "\n".join((material.label, *material.keywords, *material.titles))
    # A compound of words that were said is not another word.
    terms, topic_terms = term_set(_JOINTS.sub(" ", label)), term_set(topic_text)
    if _MARKUP.search(label) or not terms:
        raise Unusable("the label is not plain words")
    if not _numbers_in(label) <= _numbers_in(topic_text):
        raise Unusable("the label states a number that was not said")
    if not all(rarity.of(term, material.project) for term in terms - topic_terms) or not _are_mostly_in(
        terms, topic_terms, rarity
    ):
        raise Unusable("the label is not borne out by the topic's words")
    return label


def _clean_line(value: object, clean: Callable[[str], str], width: int) -> str:
    text = " ".join(value.split()) if isinstance(value, str) else ""
    return snippet(clean(text).replace(" · ", ", "), (), width) if text else ""


def _check_bullet(fields: Mapping[str, Any], material: Material, rarity: Rarity, clean: Callable[[str], str]) -> TocBullet | None:
    """Return a bullet, None unless quotations bear it out.

    They do if they hold its numbers and at least half of the rarity of its words. It cites them by label or id in
    `grip_ids`. None also if it cites none, one that does not exist, or those of several projects, and for a word that
    only other projects ever said. It gets project and agent of its first quotation; an unknown kind becomes observation.
    """
    text, raw_labels = _clean_line(fields.get("text"), clean, MAX_BULLET), fields.get("grip_ids")
    labels = [str(label).strip("[] ") for label in raw_labels] if isinstance(raw_labels, list) else []
    by_id = {q.grip_id: q for q in material.quotations.values()}
    cited = [material.quotations.get(label) or by_id.get(label) for label in labels]  # type: ignore[call-overload]
    quotations = list({q.grip_id: q for q in cited if q is not None}.values())[:_MAX_GRIPS]
    # A label that does not exist makes its bullet doubtful, however good the others are.
    if not text or not quotations or None in cited or len({q.project for q in quotations}) > 1:
        return None
    quoted_text = "\n".join(q.words for q in quotations)
    terms, quoted_terms = term_set(text), term_set(quoted_text)
    if not terms or not _numbers_in(text) <= _numbers_in(quoted_text):
        return None
    # A word that only other projects ever said would tell one project of the other.
    if any(rarity.of(term, None) and not rarity.of(term, quotations[0].project) for term in terms - quoted_terms):
        return None
    if not _are_mostly_in(terms, quoted_terms, rarity):
        return None
    kind = fields.get("kind")
    memory_kind = MemoryKind(kind) if isinstance(kind, str) and kind in set(MemoryKind) else MemoryKind.OBSERVATION
    return TocBullet(text, tuple(q.grip_id for q in quotations), memory_kind, quotations[0].project, quotations[0].agent)


def _are_mostly_in(terms: set[str], supporting_terms: set[str], rarity: Rarity) -> bool:
    weights = {term: rarity.weight(term) for term in sorted(terms)}
    return math.fsum(weights[t] for t in sorted(terms & supporting_terms)) >= _MIN_SHARED * math.fsum(weights.values())


def _numbers_in(text: str) -> set[str]:
    return {number.replace(",", "") for number in _NUMBER.findall(text)}
