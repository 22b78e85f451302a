"""Find the outcome of a stretch: commits and pull requests, else the agent's last words on what was done.

Invariants
1. An outcome is shown whole: one that would have to be cut is left out.
2. Requests of a person and an agent's plans are not outcomes.
"""

import re
from collections.abc import Sequence

from memory_mcp.base.dataclass import dataclass
from memory_mcp.base.patterns import lazy_pattern
from memory_mcp.model.event import Event, EventType
from memory_mcp.tree.summarize.base import Source
from memory_mcp.tree.summarize.kinds import ANY_CUE, Cue, cues_of
from memory_mcp.tree.summarize.sentences import Shape, clean_text
from memory_mcp.tree.summarize.stretch import Sentence, Stretch, Voice
from memory_mcp.tree.summarize.vocabulary import keys_of

#: Most characters of an outcome in a title.
MAX_OUTCOME = 66
#: Last messages of the agent that are read for an outcome, and sentences of each.
_LAST_MESSAGES, _MAX_SENTENCES = 2, 40
_DONE_CUES = Cue.FIX | Cue.OUTCOME
_FINDING = lazy_pattern(
    r"\b(?:root cause|found (?:it|the)|the (?:real |actual |underlying )?(?:bug|culprit|problem|issue|cause) (?:is|was)\b)", re.I
)
#: Openings of sentences on an earlier state or a plan.
_EARLIER = lazy_pattern(
    r"(?:before|previously|originally|if|when|currently|next|(?:quick )?fix|implement|add|create|update|write|change)\b|"
    r"(?:phase|step|task|option|part) ?\d",
    re.I,
)

#: Least telling words of an outcome that names something; "all tests pass" has fewer.
_MIN_TELLING = 4
#: Least telling words of the part of an outcome that is shown where the whole is too long.
_MIN_TELLING_CUT = 3
#: Characters of a command that are read.
_MAX_COMMAND = 8_000
#: Commits and pull requests with their messages; no match crosses the end of its command.
_WORDS = r"""(?:"(?P<double>(?:\\.|[^"\\\n]){3,400})"|'(?P<single>[^'\n]{3,400})')"""
_DEEDS = (
    ("pull request", lazy_pattern(rf"\bgh pr create\b[^;&|]{{0,400}}?--title[ =]+{_WORDS}")),
    (
        "committed",
        lazy_pattern(
            r"\bgit (?:-C \S+ )?commit\b[^\n;&|]{0,200}?(?:-\w*m|--message)[ =]+"
            rf"""(?:"\$\(cat <<-?['"]?\w+['"]?\n[ \t]*(?P<here>[^\n]{{3,400}})|{_WORDS})"""
        ),
    ),
    ("merged pull request", lazy_pattern(r"\bgh pr merge\b(?: +#?(?P<number>\d{1,9}))?")),
)
_INTERRUPTED = "[Request interrupted by user"
_CLAUSE = lazy_pattern(r"[;:](?=\s)|\s[—–-]\s|\.\s|,\s(?:so|which|and|but)\s|\s\(")
_SUBJECT = lazy_pattern(
    r"^(?:(?:done|great|perfect|excellent|all done|fixed|success|good|now|ok(?:ay)?|yes)[!.,:]+ +)*"
    r"(?:i(?:['’]ve| have)? (?:now |also |just |successfully )?|we(?:['’]ve| have)? (?:now )?)?",
    re.I,
)


@dataclass(frozen=True, slots=True)
class Outcome:
    """An outcome: short text for a title, statement for a bullet, and source."""

    short: str
    text: str
    source: Source
    #: Whether it names something specific.
    is_specific: bool = True


def outcome_of(stretch: Stretch, events: Sequence[Event], deeds: Sequence[Outcome]) -> Outcome | None:
    """Return the outcome of a stretch.

    Else "interrupted" if the user stopped the agent and said nothing after it.
    """
    if outcome := deeds[-1] if deeds else _find_reported(stretch):
        return outcome
    spoken = [e for e in events if e.text and e.type is not EventType.TOOL_RESULT]
    if not spoken or not spoken[-1].text.startswith(_INTERRUPTED):
        return None
    return Outcome("interrupted", spoken[-1].text[:60], Source(spoken[-1].event_id, 0, len(spoken[-1].text)), is_specific=False)


def deeds_of(events: Sequence[Event]) -> list[Outcome]:
    """Return the commits and pull requests that did not fail.

    As `commit "Fix the parser"`; the short text is the same if it has at most 66 characters, else the message alone, or the
    label where that is too long as well.
    """
    failed = {e.metadata.get("tool_use_id") for e in events if e.metadata.get("is_error") == "true"} - {None}
    outcomes: list[Outcome] = []
    for event in events:
        command = event.metadata.get("command", "")
        if event.type is not EventType.TOOL_CALL or event.metadata.get("tool_use_id") in failed:
            continue
        if "gh pr" not in command and "commit" not in command:
            continue
        deeds = ((match, label) for label, pattern in _DEEDS for match in pattern.finditer(command[:_MAX_COMMAND]))
        for match, label in sorted(deeds, key=lambda f: f[0].start()):
            message = next((text.strip() for text in match.groupdict().values() if text), "")
            start = event.text.find(match[0])
            # Messages that the shell would compute are skipped.
            if start < 0 or message.startswith("$(") or (not message and "number" not in match.groupdict()):
                continue
            words = clean_text(message)
            text = f"{label} {message}".strip() if "number" in match.groupdict() else f'{label} "{words}"'
            short = text if len(text) <= MAX_OUTCOME else words if len(words) <= MAX_OUTCOME else label
            offset = start + (match[0].find(message) if message else 0)
            outcomes.append(Outcome(short, text, Source(event.event_id, offset, offset + len(message or match[0]))))
    return outcomes


def _find_reported(stretch: Stretch) -> Outcome | None:
    last = stretch.messages.get(Voice.AGENT, 0) - _LAST_MESSAGES
    agent_sentences = [s for s in stretch.sentences if s.voice is Voice.AGENT and s.message_index >= last and not s.is_chatter]
    best: tuple[float, Sentence, str] | None = None
    for s in agent_sentences[-_MAX_SENTENCES * _LAST_MESSAGES :]:
        # Plans in tool calls are not outcomes either.
        if s.shape in (Shape.ERROR, Shape.HEADING, Shape.LEAD) or s.information <= 0 or s.event.type is EventType.TOOL_CALL:
            continue
        cues = cues_of(s.text, s.cues or ANY_CUE)
        if cues & (Cue.QUESTION | Cue.OPEN) or _EARLIER.match(s.text) or not (cues & _DONE_CUES or _FINDING.search(s.text)):
            continue
        bare = _SUBJECT.sub("", s.text, count=1).rstrip(" .!:")
        if len(bare) > MAX_OUTCOME:
            cuts = [m.start() for m in _CLAUSE.finditer(bare, 18, MAX_OUTCOME + 1)]
            bare = bare[: cuts[-1]].rstrip(" ,;:-–—(") if cuts else ""
            if len(keys_of(bare)) < _MIN_TELLING_CUT:
                # The middle of a statement.
                continue
        short = bare if len(bare) >= 8 else ""
        if not short:
            continue
        worth = s.information + 0.6 * (s.message_index > last) + 0.4 * (s.index < 3) + 0.5 * bool(cues & Cue.FIX)
        worth -= 1.5 * (len(s.keys) < _MIN_TELLING)
        if best is None or worth > best[0]:
            best = (worth, s, short)
    if best is None:
        return None
    _, s, short = best
    return Outcome(short, s.text, Source(s.event.event_id, s.start, s.end), len(s.keys) >= _MIN_TELLING)
