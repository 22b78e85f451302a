"""Hints that hooks would have given in real sessions, replayed in order, with how the calls that they were given at ended.

A session knows of earlier ones what they had ended when it began. Every hint is printed to be read by hand, since only a reader
can say whether it is false. Beside them it is counted what any rule could speak to: sessions in which a call failed, and those
in which a call failed with an error that an earlier session of the project had of the same program, and after which that program
succeeded there.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, cast

from bench.call_memory import CallMemory, began_at
from memory_mcp.model.event import EventDraft, EventType
from memory_mcp.model.hint import Hint
from memory_mcp.requests.failure_causes import name_error
from memory_mcp.requests.hint_leads import LeadReader, Leads
from memory_mcp.requests.hinting import Action, SessionKnowledge, find_hints
from memory_mcp.tree.outcomes.commands import parse_command
from memory_mcp.tree.outcomes.failures import ended_by_person
from memory_mcp.tree.outcomes.runs import is_failure

if TYPE_CHECKING:
    from memory_mcp.app import App

#: Sessions from which a project should have hints, and calls after a failure among which its end is looked for.
MANY_SESSIONS, _NEAR = 10, 12


@dataclass(frozen=True)
class PlacedHint:
    """A hint that would have been given, and how the call that it was given at ended."""

    session: str
    hint: Hint
    has_failed: bool


@dataclass(frozen=True)
class _Call:
    draft: EventDraft
    #: What it failed with; "" where it did not, or a person ended it.
    error: str
    has_failed: bool

    @property
    def programs(self) -> frozenset[str]:
        """Its programs, or its tool."""
        command = self.draft.metadata.get("command", "")
        return frozenset(parse_command(command).programs if command else [self.draft.metadata.get("tool", "")])


class HintReplay:
    """The calls of one project, session by session."""

    def __init__(self, project: str) -> None:
        self._project = project
        self._memory = CallMemory()
        self._reader = LeadReader(project)
        self._ended: set[tuple[str, str]] = set()
        #: What is not stored yet of the sessions that were played.
        self._waiting: list[list[EventDraft]] = []
        self.counts: Counter[str] = Counter()

    def play(self, drafts: Sequence[EventDraft]) -> list[PlacedHint]:
        """Return the hints of a session, which is stored as those that are played later begin."""
        self._store_calls(began_at(drafts))
        calls = list(_list_calls(drafts))
        hints = list(self._list_hints(self._reader.read_leads(self._app), calls))
        keys = {(program, name_error(call.error)) for call in calls if call.error for program in call.programs}
        self.counts += Counter(sessions=1, failing=bool(keys), known=bool(keys & self._ended), hinted=bool(hints))
        self._waiting.append([replace(draft, project=self._project) for draft in drafts])
        return hints

    def _store_calls(self, before_ms: int) -> None:
        """Store what the sessions that were played had called and ended before a time."""
        waiting: list[list[EventDraft]] = []
        for drafts in self._waiting:
            ended = {draft.metadata.get("tool_use_id", "") for draft in _list_results(drafts, before_ms)}
            if earlier := [draft for draft in drafts if draft.metadata.get("tool_use_id", "") in ended]:
                self._memory.add_session(earlier)
                self._ended |= _list_ended(list(_list_calls(earlier)))
            waiting.append([draft for draft in drafts if draft.metadata.get("tool_use_id", "") not in ended])
        self._waiting = [drafts for drafts in waiting if any(draft.type is EventType.TOOL_RESULT for draft in drafts)]

    @property
    def _app(self) -> "App":
        return cast("App", self._memory)

    def _list_hints(self, leads: Leads, calls: Sequence[_Call]) -> Iterator[PlacedHint]:
        knowledge = SessionKnowledge()
        for call in calls:
            for error in dict.fromkeys(("", call.error)):
                action = Action(call.draft.session_id, self._project, call.draft, error)
                hint = next(find_hints(leads, action, knowledge), None)
                knowledge.add_action(action)
                if hint is not None:
                    knowledge.topics.add(hint.topic)
                    yield PlacedHint(call.draft.session_id, hint, call.has_failed)


def show_hints(sessions: Sequence[Sequence[EventDraft]]) -> Counter[str]:
    """Print the hints of projects with many sessions, and count their sessions."""
    by_project: dict[str, list[Sequence[EventDraft]]] = defaultdict(list)
    for drafts in sessions:
        by_project[drafts[0].project].append(drafts)
    totals = Counter[str]()
    for project, several in by_project.items():
        if len(several) < MANY_SESSIONS:
            continue
        replay = HintReplay(project)
        for drafts in several:
            for placed in replay.play(drafts):
                outcome = "failed" if placed.has_failed else "succeeded"
                print(f"- {placed.session[:8]} {placed.hint.kind} at `{placed.hint.subject}`, which {outcome}:")
                print(f"    {placed.hint.text}", flush=True)
        print(f"{project}: {_describe_counts(replay.counts)}")
        totals += replay.counts
    print(f"projects with {MANY_SESSIONS} sessions or more: {_describe_counts(totals)}")
    return totals


def _describe_counts(counts: Counter[str]) -> str:
    return (
        f"{counts['hinted']} of {counts['sessions']} sessions with a hint, {counts['failing']} with a failure,"
        f" {counts['known']} with one that an earlier session had and ended"
    )


def _list_results(drafts: Sequence[EventDraft], before_ms: int) -> Iterator[EventDraft]:
    """Yield the results that came before a time; one without a time came with the draft before it."""
    at_ms = began_at(drafts)
    for draft in drafts:
        at_ms = draft.timestamp or at_ms
        if draft.type is EventType.TOOL_RESULT and at_ms < before_ms:
            yield draft


def _list_calls(drafts: Sequence[EventDraft]) -> Iterator[_Call]:
    results = {draft.metadata.get("tool_use_id", ""): draft for draft in drafts if draft.type is EventType.TOOL_RESULT}
    for draft in drafts:
        if draft.type is EventType.TOOL_CALL:
            result = results.get(draft.metadata.get("tool_use_id", ""))
            has_failed = result is not None and is_failure(result, draft.metadata.get("command", ""))
            is_outcome = result is not None and has_failed and not ended_by_person(result.text)
            yield _Call(draft, result.text if result is not None and is_outcome else "", has_failed)


def _list_ended(calls: Sequence[_Call]) -> set[tuple[str, str]]:
    """Return the errors after which the same program succeeded soon, each with its program."""
    return {
        (program, name_error(call.error))
        for position, call in enumerate(calls)
        if call.error
        for later in calls[position + 1 : position + 1 + _NEAR]
        if not later.has_failed
        for program in call.programs & later.programs
    }
