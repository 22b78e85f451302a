"""Statements of stretches of work: their label, their order, and how they are quoted.

Invariants
1. What was recorded stands in quotation marks, on one line, without anything that could pass for markup.
Pure.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from memory_mcp.base.text import term_set
from memory_mcp.model.fencing import break_citations
from memory_mcp.model.grip import CONTRADICTION_REASON
from memory_mcp.model.toc import MemoryKind, TocNode
from memory_mcp.tree.summarize.kinds import Cue, cues_of
from memory_mcp.tree.summarize.sentences import shorten
from memory_mcp.tree.summarize.titles import SEPARATOR, without_date
from memory_mcp.tree.toc.doings import NOTHING, Doings

#: Characters of a quoted statement.
QUOTED = 170
#: Subjects of commits and names of files shown of a stretch.
_COMMITS, _FILES = 2, 5
#: Characters of each.
_NAME = 70

# Control characters, direction marks, and invisible characters.
_UNSEEN = re.compile(
    "[\x00-\x1f\x7f-\x9f\u00ad\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff\U000e0000-\U000e007f\ud800-\udfff]+"
)
_TAG = re.compile(r"<(?=[/!?A-Za-z])")


@dataclass(frozen=True, slots=True)
class Said:
    """One statement, its speaker (user, agent, note; "" if unknown), and the grip that proves it."""

    text: str
    speaker: str
    grip_id: str
    kind: MemoryKind = MemoryKind.OBSERVATION
    #: The grip of a later statement that says otherwise; "" for none.
    otherwise: str = ""


@dataclass(frozen=True, slots=True)
class Stretch:
    """A segment for display: its title with or without date, its statements in order, requests and work done."""

    at_ms: int
    title: str
    said: tuple[Said, ...]
    session: str = ""
    #: Whether an agent wrote the title.
    refined: bool = False
    #: The first request, and the agent's closing words.
    asked: Said | None = None
    closing: Said | None = None
    #: What the end of its session leaves open, the next step first, with labels; () unless it is the session's newest.
    open_ends: tuple[tuple[Said, str], ...] = ()
    doings: Doings = NOTHING
    #: The segment's node, agent and end; "" and 0 where they are not needed.
    node_id: str = ""
    agent: str = ""
    end_ms: int = 0


#: The label of an open question, and the share of its terms by which something is known for settled later.
QUESTION, _SETTLED = "question", 0.5

_RULES = {
    MemoryKind.DECISION: (0, "decision"),
    MemoryKind.CONSTRAINT: (1, "constraint"),
    MemoryKind.PREFERENCE: (1, "preference"),
    MemoryKind.PROCEDURE: (3, "procedure"),
}
#: The ranks of statements that stay valid, and the ranks of results.
_HOLDS, _CAME = (0, 1, 3), (4, 5, 6)
#: Characters of a statement by which it is recognized in a title.
_SAME = 40
_RESULTS = ((Cue.FIX, (4, "fixed")), (Cue.CAUSE, (5, "cause")), (Cue.OUTCOME, (6, "done")))
# Words that announce something to the summarizer, and here would call a comparison a decision.
_LOOSE = re.compile(r"\binstead of\b", re.I)
# Words of a lasting rule, also next to a request.
_STANDING = re.compile(r"\b(?:always|never|must|do not|don['’]t|from now on)\b", re.I)


@lru_cache(maxsize=4096)
def label_of(said: Said) -> tuple[int, str] | None:
    """Return rank and name of a statement worth telling, the lowest rank most important; None for any other.

    Questions and announcements are none, and what is open is not known by its words (see `Stretch.open_ends`). 0 decision,
    1 constraint or preference, 3 procedure or note, 4 to 6 results.
    """
    cues = cues_of(_LOOSE.sub("", said.text))
    if cues & Cue.QUESTION or said.text.rstrip().endswith(":"):
        return None
    if cues & Cue.DECISION:
        return 0, "decision"
    if said.kind in _RULES:
        return _RULES[said.kind]
    if said.speaker == "user" and _STANDING.search(said.text):
        return 1, "constraint"
    # A person's words about causes and fixes are mostly requests, not results.
    for cue, label in _RESULTS:
        if cues & cue and said.speaker != "user":
            return label
    return (3, "noted") if said.speaker == "note" else None


def ranked_of(stretch: Stretch, newest: bool) -> list[tuple[Said, str]]:
    """Return the labelled statements and their labels, in pairs, most important first, contradicted ones last.

    Among equals a person's come first, then the latest. For the newest stretch its last statement is put second, unless
    it is among them: as "asked" if it is the user's, else as "last".
    """
    ranked: list[tuple[tuple[bool, int, bool, int], Said, str]] = []
    for place, said in enumerate(stretch.said):
        label = label_of(said)
        if label is not None:
            ranked.append(((bool(said.otherwise), label[0], said.speaker != "user", -place), said, label[1]))
    ranked.sort(key=lambda r: r[0])
    found = [(said, label) for _, said, label in ranked]
    if newest and stretch.said and stretch.said[-1] not in [said for said, _ in found]:
        last = stretch.said[-1]
        found.insert(1 if found else 0, (last, "asked" if last.speaker == "user" else "last"))
    return found


def results_of(stretch: Stretch) -> list[tuple[Said, str]]:
    """Return pairs of a result and its label, last first, and behind them the causes found.

    Without any result the agent's closing words, labelled "last", take their place, unless those tell a decision.
    """
    told = [(said, label[1]) for said in reversed(stretch.said) if (label := label_of(said)) is not None and label[0] in _CAME]
    came, causes = [one for one in told if one[1] != "cause"], [one for one in told if one[1] == "cause"]
    closing = stretch.closing or next((said for said in stretch.said[-1:] if said.speaker != "user"), None)
    if not came and closing is not None and (label_of(closing) or (0, ""))[1] != "decision":
        came = [(closing, "last")]
    return came + [one for one in causes if closing is None or one[0].text != closing.text]


def rules_of(stretch: Stretch) -> list[tuple[Said, str]]:
    """Return pairs of a rule and its label: decisions, then constraints and preferences, then procedures.

    Contradicted ones last. Among equals a person's come first, then the latest. A note counts as a procedure.
    """
    told = [(label[0], said, label[1]) for said in reversed(stretch.said) if (label := label_of(said)) and label[0] in _HOLDS]
    return [
        (said, name) for _, said, name in sorted(told, key=lambda one: (bool(one[1].otherwise), one[0], one[1].speaker != "user"))
    ]


def without_settled(stretch: Stretch, others: Sequence[Stretch]) -> Stretch:
    """Return a stretch without what a later session of its project settled.

    That is a question, which nobody will answer any more, and whatever shares half of its terms with what was asked or said
    later. `others` are the project's stretches.
    """
    if not stretch.open_ends:
        return stretch
    later = [each for each in others if each.session != stretch.session and each.at_ms > stretch.end_ms and each.said]
    if not later:
        return stretch
    terms = set().union(*(term_set(" ".join(_texts_of(each))) for each in later))

    def is_settled(said: Said, label: str) -> bool:
        own = term_set(said.text)
        return label == QUESTION or len(own & terms) >= _SETTLED * len(own)

    return replace(stretch, open_ends=tuple(end for end in stretch.open_ends if not is_settled(*end)))


def _texts_of(stretch: Stretch) -> list[str]:
    quoted = (stretch.asked, stretch.closing, *stretch.said)
    return [said.text for said in quoted if said is not None] + list(stretch.doings.commits)


def facts_of(doings: Doings, *, done: bool = True, place: bool = True) -> str:
    """Return facts about a session in our words around quoted names, joined by "; "; "" for none.

    With `done` the last two commits, newest first, whether tests passed and where it went (pushed, merged, closed); with
    `place` branch and pull request.
    """
    facts = []
    if done and doings.commits:
        facts.append(f"committed {_listed(doings.commits[-_COMMITS:][::-1])}")
    if done and doings.passed is not None:
        facts.append("tests passed" if doings.passed else "tests failed")
    if done and doings.went:
        facts.append(doings.went)
    if place and doings.branch:
        facts.append(f"branch {quoted(doings.branch, _NAME)}")
    if place and doings.request:
        facts.append(f"pull request {quoted(doings.request, QUOTED)}")
    return "; ".join(facts)


def files_of(doings: Doings) -> str:
    """Return "files: " and the first five of the files that were changed, quoted, joined by commas; "" without files."""
    return f"files: {_listed(doings.files[:_FILES])}" if doings.files else ""


def outcome_of(node: TocNode) -> str:
    """Return a segment's last bullet on a fix or result, else on a cause; "" for none. Bullets that its title has are skipped."""
    name, cause = title_of(node.title).casefold(), ""
    for bullet in reversed(node.bullets):
        label = label_of(Said(bullet.text, "agent", "", bullet.kind))
        if label is None or label[0] not in _CAME or bullet.text.casefold()[:_SAME] in name:
            continue
        if label[1] != "cause":
            return bullet.text
        cause = cause or bullet.text
    return cause


def line_of(said: Said, label: str, width: int = QUOTED) -> str:
    """Return a statement as a line of a list: `- label (speaker): "words" grip`, at most `width` characters of its words.

    The grip of a later statement that contradicts it follows in brackets. Speaker and grips are left out where they are "".
    """
    told = f" ({CONTRADICTION_REASON}: {said.otherwise})" if said.otherwise else ""
    return f"- {label}{by(said.speaker)}: {quoted(said.text, width)} {said.grip_id}".rstrip() + told


def _listed(names: Sequence[str]) -> str:
    """Return names joined by commas, each in quotation marks and shortened to 70 characters; "" for none."""
    return ", ".join(quoted(name, _NAME) for name in names)


def is_title(text: str, name: str) -> bool:
    """Return whether a statement only repeats the title, which may be shortened by "…"."""
    return len(text) <= len(name) + 1 and text.casefold().startswith(name.rstrip("…").casefold())


def title_of(title: str) -> str:
    """Return the headline of a node's title: without its date, and without the terms behind it; the title if nothing is left."""
    return without_date(title).partition(SEPARATOR)[0].strip() or title


def by(speaker: str) -> str:
    """Return a speaker in brackets after a space, to stand behind a label; "" for none."""
    return f" ({speaker})" if speaker else ""


def quoted(text: str, width: int = QUOTED) -> str:
    """Return recorded words in quotation marks on one line, at most `width` characters, without quotes, markup or citations."""
    return '"' + shorten(_plain(text), width) + '"'


def named(name: str) -> str:
    """Return a recorded name on one line, at most 70 characters, without anything that could pass for markup; "" for none."""
    return _plain(name)[:_NAME]


def _plain(text: str) -> str:
    """Return a text on one line: unseen characters and white space become single blanks, `"` becomes `'`, the "<" of a tag "‹".

    Citations are made unreadable as such (`break_citations`).
    """
    flat = " ".join(_UNSEEN.sub(" ", text).split())
    return break_citations(_TAG.sub("‹", flat).replace('"', "'"))
