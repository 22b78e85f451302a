"""Statements of stretches of work: their label, their order, and how they are quoted.

Invariants
1. What was recorded is in quotation marks, on one line, without anything that could pass for markup.
Pure.
"""

import re
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache

from memory_mcp.base.dataclass import dataclass
from memory_mcp.base.patterns import lazy_pattern
from memory_mcp.base.text import term_set
from memory_mcp.model.fencing import break_citations
from memory_mcp.model.grip import CONTRADICTION_REASON
from memory_mcp.model.toc import MemoryKind, TocNode
from memory_mcp.tree.summarize.kinds import Cue, cues_of, has_cue
from memory_mcp.tree.summarize.sentences import shorten
from memory_mcp.tree.summarize.titles import SEPARATOR, without_date
from memory_mcp.tree.toc.doings import NOTHING, WorkDone

#: Characters of a quoted statement.
QUOTED = 170
#: Subjects of commits and names of files shown of a stretch.
_COMMITS, _FILES = 2, 5
#: Characters of each.
_NAME = 70

# Control characters, direction marks, and invisible characters.
_INVISIBLE = lazy_pattern(
    "[\x00-\x1f\x7f-\x9f\u00ad\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff\U000e0000-\U000e007f\ud800-\udfff]+"
)
_TAG = lazy_pattern(r"<(?=[/!?A-Za-z])")


@dataclass(frozen=True, slots=True)
class QuotedStatement:
    """One statement, its speaker (user, agent, note; "" if unknown), and the grip that proves it."""

    text: str
    speaker: str
    grip_id: str
    kind: MemoryKind = MemoryKind.OBSERVATION
    #: The grip of a later statement that says otherwise; "" for none.
    contradicted_by: str = ""
    #: What the repository says since of the code that it is about.
    since: str = ""


@dataclass(frozen=True, slots=True)
class StretchView:
    """A segment for display: its title with or without date, its statements in order, requests and work done."""

    at_ms: int
    title: str
    statements: tuple[QuotedStatement, ...]
    session: str = ""
    #: Whether an agent wrote the title.
    refined: bool = False
    #: The first request, and the agent's closing words.
    first_request: QuotedStatement | None = None
    closing_words: QuotedStatement | None = None
    #: What the end of its session leaves open, the next step first, with labels; () unless it is the session's newest.
    open_ends: tuple[tuple[QuotedStatement, str], ...] = ()
    work: WorkDone = NOTHING
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
_RULE_RANKS, _RESULT_RANKS = (0, 1, 3), (4, 5, 6)
#: Characters of a statement by which it is recognized in a title.
_TITLE_PREFIX = 40
_RESULTS = ((Cue.FIX, (4, "fixed")), (Cue.CAUSE, (5, "cause")), (Cue.OUTCOME, (6, "done")))
# Words that announce something to the summarizer, and here would call a comparison a decision.
_COMPARISON = lazy_pattern(r"\binstead of\b", re.I)
# Words of a lasting rule, also next to a request.
_LASTING = lazy_pattern(r"\b(?:always|never|must|do not|don['’]t|from now on)\b", re.I)


@lru_cache(maxsize=4096)
def label_of(statement: QuotedStatement) -> tuple[int, str] | None:
    """Return a statement's rank and label, None without one.

    The lowest rank is the most important. Questions and announcements are none, and what is open is not known by its words
    (see `Stretch.open_ends`). 0 decision, 1 constraint or preference, 3 procedure or note, 4 to 6 results.
    """
    text = _COMPARISON.sub("", statement.text)
    if cues_of(text, 0) & Cue.QUESTION or statement.text.rstrip().endswith(":"):
        return None
    if has_cue(text, Cue.DECISION):
        return 0, "decision"
    if statement.kind in _RULES:
        return _RULES[statement.kind]
    if statement.speaker == "user" and _LASTING.search(statement.text):
        return 1, "constraint"
    # A person's words about causes and fixes are mostly requests, not results.
    for cue, label in _RESULTS:
        if statement.speaker != "user" and has_cue(text, cue):
            return label
    return (3, "noted") if statement.speaker == "note" else None


def rank_statements(stretch: StretchView, newest: bool) -> list[tuple[QuotedStatement, str]]:
    """Return (statement, label), most important first, contradicted last.

    Among equals a person's come first, then the latest. For the newest stretch its last statement is put second, unless
    it is among them: as "asked" if it is the user's, else as "last".
    """
    ranked: list[tuple[tuple[bool, int, bool, int], QuotedStatement, str]] = []
    for index, statement in enumerate(stretch.statements):
        label = label_of(statement)
        if label is not None:
            ranked.append(((bool(statement.contradicted_by), label[0], statement.speaker != "user", -index), statement, label[1]))
    ranked.sort(key=lambda r: r[0])
    labelled = [(statement, label) for _, statement, label in ranked]
    if newest and stretch.statements and stretch.statements[-1] not in [statement for statement, _ in labelled]:
        last = stretch.statements[-1]
        labelled.insert(1 if labelled else 0, (last, "asked" if last.speaker == "user" else "last"))
    return labelled


def stretch_results(stretch: StretchView) -> list[tuple[QuotedStatement, str]]:
    """Return results and labels, last first, then causes.

    Without any result the agent's closing words, labelled "last", take their place, unless those tell a decision.
    """
    labelled = [
        (statement, label[1])
        for statement in reversed(stretch.statements)
        if (label := label_of(statement)) is not None and label[0] in _RESULT_RANKS
    ]
    results, causes = [pair for pair in labelled if pair[1] != "cause"], [pair for pair in labelled if pair[1] == "cause"]
    closing = stretch.closing_words or next(
        (statement for statement in stretch.statements[-1:] if statement.speaker != "user"), None
    )
    if not results and closing is not None and (label_of(closing) or (0, ""))[1] != "decision":
        results = [(closing, "last")]
    return results + [pair for pair in causes if closing is None or pair[0].text != closing.text]


def stretch_rules(stretch: StretchView) -> list[tuple[QuotedStatement, str]]:
    """Return rules and labels: decisions, constraints, procedures.

    Contradicted ones last. Among equals a person's come first, then the latest. A note counts as a procedure.
    """
    ranked = [
        (label[0], statement, label[1])
        for statement in reversed(stretch.statements)
        if (label := label_of(statement)) and label[0] in _RULE_RANKS
    ]
    return [
        (statement, name)
        for _, statement, name in sorted(ranked, key=lambda row: (bool(row[1].contradicted_by), row[0], row[1].speaker != "user"))
    ]


def without_settled(stretch: StretchView, project_stretches: Sequence[StretchView]) -> StretchView:
    """Return a stretch without what later sessions settled.

    That is a question, which no one will answer, and whatever shares half of its terms with what was asked or said
    later. `project_stretches` are the project's stretches.
    """
    if not stretch.open_ends:
        return stretch
    later = [
        stretch_after
        for stretch_after in project_stretches
        if stretch_after.session != stretch.session and stretch_after.at_ms > stretch.end_ms and stretch_after.statements
    ]
    if not later:
        return stretch
    terms = set().union(*(term_set(" ".join(_texts_of(stretch_after))) for stretch_after in later))

    def is_settled(statement: QuotedStatement, label: str) -> bool:
        said_terms = term_set(statement.text)
        return label == QUESTION or len(said_terms & terms) >= _SETTLED * len(said_terms)

    return replace(stretch, open_ends=tuple(end for end in stretch.open_ends if not is_settled(*end)))


def _texts_of(stretch: StretchView) -> list[str]:
    statements = (stretch.first_request, stretch.closing_words, *stretch.statements)
    return [statement.text for statement in statements if statement is not None] + list(stretch.work.commits)


def work_facts(doings: WorkDone, *, with_results: bool = True, with_place: bool = True) -> str:
    """Return facts about the work, joined by "; ".

    With `with_results` the last two commits, newest first, whether tests passed and where it went (pushed, merged, closed); with
    `with_place` branch and pull request.
    """
    facts = []
    if with_results and doings.commits:
        facts.append(f"committed {_join_quoted(doings.commits[-_COMMITS:][::-1])}")
    if with_results and doings.tests_passed is not None:
        facts.append("tests passed" if doings.tests_passed else "tests failed")
    if with_results and doings.last_step:
        facts.append(doings.last_step)
    if with_place and doings.branch:
        facts.append(f"branch {quote_text(doings.branch, _NAME)}")
    if with_place and doings.pull_request:
        facts.append(f"pull request {quote_text(doings.pull_request, QUOTED)}")
    return "; ".join(facts)


def changed_files(doings: WorkDone) -> str:
    """Return "files: " and the first five changed ones."""
    return f"files: {_join_quoted(doings.files[:_FILES])}" if doings.files else ""


def node_outcome(node: TocNode) -> str:
    """Return a segment's last bullet on an outcome that its title lacks."""
    name, cause = title_of(node.title).casefold(), ""
    for bullet in reversed(node.bullets):
        if bullet.kind in _RULES:  # never a result, and most bullets of some nodes
            continue
        label = label_of(QuotedStatement(bullet.text, "agent", "", bullet.kind))
        if label is None or label[0] not in _RESULT_RANKS or bullet.text.casefold()[:_TITLE_PREFIX] in name:
            continue
        if label[1] != "cause":
            return bullet.text
        cause = cause or bullet.text
    return cause


def format_statement(statement: QuotedStatement, label: str, width: int = QUOTED) -> str:
    """Return a line: `- label (speaker): "words" grip`.

    The grip of a later statement that contradicts it follows in brackets, and what became of its code. Speaker and grips are left
    out where they are "".
    """
    contradiction = f" ({CONTRADICTION_REASON}: {statement.contradicted_by})" if statement.contradicted_by else ""
    since = f" (since: {statement.since})" if statement.since else ""
    return (
        f"- {label}{format_speaker(statement.speaker)}: {quote_text(statement.text, width)} {statement.grip_id}".rstrip()
        + contradiction
        + since
    )


def _join_quoted(names: Sequence[str]) -> str:
    return ", ".join(quote_text(name, _NAME) for name in names)


def is_title(text: str, name: str) -> bool:
    """Return whether a statement only repeats the title."""
    return len(text) <= len(name) + 1 and text.casefold().startswith(name.rstrip("…").casefold())


def title_of(title: str) -> str:
    """Return a title without its date and terms."""
    return without_date(title).partition(SEPARATOR)[0].strip() or title


def format_speaker(speaker: str) -> str:
    """Return a speaker in brackets, after a space."""
    return f" ({speaker})" if speaker else ""


def quote_text(text: str, width: int = QUOTED) -> str:
    """Return words quoted on one line, without markup or citations."""
    return '"' + shorten(_flatten_text(text), width) + '"'


def clean_name(name: str) -> str:
    """Return a name on one line without markup, cut."""
    return _flatten_text(name)[:_NAME]


def _flatten_text(text: str) -> str:
    flat = " ".join(_INVISIBLE.sub(" ", text).split())
    return break_citations(_TAG.sub("‹", flat).replace('"', "'"))
