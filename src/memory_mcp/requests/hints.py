"""list_hints and reject_hint: what hooks told models at calls of tools, and what came of it."""

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

from memory_mcp.base.dataclass import dataclass
from memory_mcp.base.errors import NotFound
from memory_mcp.model.calendar import LATEST_MS, TimeWindow
from memory_mcp.model.hint import Hint, HintKind, HintRecord
from memory_mcp.model.tool_run import KeyKind, StoredRun
from memory_mcp.requests.call_names import hash_call, name_call
from memory_mcp.requests.entry import Effect, answers
from memory_mcp.requests.limits import PAGE, Argument, Flag
from memory_mcp.requests.response import Recalled
from memory_mcp.requests.run_statements import RunTeller
from memory_mcp.requests.scope import Caller

if TYPE_CHECKING:
    from memory_mcp.app import App

#: Runs in which it is looked what came of hints; how long after a hint, and from when on what led nowhere stays so (ms).
_MOST_RUNS, _JUDGED_MS, _SETTLED_MS = 1_000, 7 * 86_400_000, 86_400_000
#: What came of a hint: the form that works was used, or the call succeeded; the same failure came; the call succeeded as it was.
USED, IN_VAIN, NOT_NEEDED, OPEN = "used", "in_vain", "not_needed", "open"
#: Outcomes of a hint that led nowhere.
NOWHERE = frozenset({IN_VAIN, NOT_NEEDED})


@dataclass(frozen=True, slots=True)
class ListHints:
    """Request for the hints that were given, the latest first."""

    limit: Annotated[int, Argument(range=PAGE, flag=Flag("N", f"hints to show (default {PAGE.default})"))] = PAGE.default


@dataclass(frozen=True, slots=True)
class RejectHint:
    """A hint that is to be given never again, by its id."""

    hint_id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class HintInfo:
    """A hint, when and where it was given, and what came of it; `when` is local."""

    hint_id: int
    when: str
    session: str
    project: str
    #: file, command or error.
    kind: str
    subject: str
    text: str
    grip: str
    #: used, in_vain, not_needed, or open: not known.
    outcome: str
    rejected: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class HintList(Recalled):
    """A page of hints, and how many there are."""

    hints: Sequence[HintInfo]
    total: int


@dataclass(frozen=True, slots=True, kw_only=True)
class HintRejected:
    """The hint that is given no more."""

    hint_id: int


@answers("list_hints", ListHints)
def list_hints(app: "App", request: ListHints, caller: Caller) -> HintList:
    """Return the latest hints of the projects that the caller may see."""
    limit = PAGE.check(request.limit, "limit")
    visible = [record for record in app.storage.hints.list_hints() if record.hint.text and caller.sees(app, record.project)]
    latest = visible[::-1][:limit]
    outcomes = judge_hints(app, latest)
    return HintList(hints=[_show(app, record, outcomes[record.hint_id]) for record in latest], total=len(visible))


@answers("reject_hint", RejectHint, effect=Effect.SETS)
def reject_hint(app: "App", request: RejectHint, caller: Caller) -> HintRejected:
    """Have a hint, and any that says the same, given never again.

    Raises NotFound for an unknown id, or one whose project the caller may not see.
    """
    records = {record.hint_id: record for record in app.storage.hints.list_hints()}
    record = records.get(request.hint_id)
    if record is None or not record.hint.text or not caller.sees(app, record.project):
        raise NotFound(f"there is no hint {request.hint_id}", "List them: memory-mcp hints")
    app.storage.hints.reject_hint(request.hint_id)
    return HintRejected(hint_id=request.hint_id)


def list_unwanted(app: "App", project: str) -> frozenset[int]:
    """Return topics of which no hint is given any more: one was rejected, or two led nowhere.

    What is known of the outcomes of the project's hints is kept.
    """
    now, stored = app.clock.now_ms(), app.storage.hints.list_hints()
    open_hints = [
        record for record in stored if record.project == project and not record.outcome and now - record.at_ms < _JUDGED_MS
    ]
    outcomes = judge_hints(app, open_hints)
    settled = {
        record.hint_id: outcomes[record.hint_id]
        for record in open_hints
        if outcomes[record.hint_id] == USED or (outcomes[record.hint_id] in NOWHERE and now - record.at_ms > _SETTLED_MS)
    }
    if settled:
        app.storage.hints.record_outcomes(settled)
    nowhere = Counter(record.hint.topic for record in stored if outcomes.get(record.hint_id, record.outcome) in NOWHERE)
    rejected = (record.hint.topic for record in stored if record.is_rejected)
    return frozenset(rejected) | {topic for topic, count in nowhere.items() if count > 1}


def judge_hints(app: "App", hints: Sequence[HintRecord]) -> dict[int, str]:
    """Return what came of hints, by their ids: as it is kept, else by the calls of their sessions that followed."""
    outcomes = {record.hint_id: record.outcome or OPEN for record in hints}
    open_hints: dict[str, list[HintRecord]] = {}
    for record in hints:
        if not record.outcome and record.hint.kind is not HintKind.FILE:
            open_hints.setdefault(record.project, []).append(record)
    for project, unjudged in open_hints.items():
        teller, runs = RunTeller(app, project), _list_later_runs(app, project, unjudged)
        teller.read_calls(runs)
        calls = [(stored, hash_call(name_call(teller.call_of(stored)))) for stored in runs]
        for record in unjudged:
            followed = [
                (call_name, stored.run.failed)
                for stored, call_name in calls
                if stored.session_id == record.session_id and stored.run.start_ms >= record.at_ms
            ]
            outcomes[record.hint_id] = _judge_by_calls(record.hint, followed)
    return outcomes


def _list_later_runs(app: "App", project: str, hints: Sequence[HintRecord]) -> list[StoredRun]:
    """Return runs of the sessions of hints that may be of their calls or remedies, since the earliest."""
    sessions = {record.session_id for record in hints}
    hashes = {value for record in hints for value in (record.hint.call, record.hint.remedy)} - {0}
    since = TimeWindow(min(record.at_ms for record in hints), LATEST_MS)
    runs = app.storage.tool_runs.find_runs(KeyKind.INVOCATION, hashes, project, _MOST_RUNS, since)
    return [stored for stored in runs if stored.session_id in sessions]


def _judge_by_calls(hint: Hint, followed: Sequence[tuple[int, bool]]) -> str:
    """Return what came of a hint by the names of the calls that followed and whether each failed."""
    if hint.remedy_name and (hint.remedy_name, False) in followed:
        return USED
    if (hint.call_name, False) in followed:
        return NOT_NEEDED if hint.kind is HintKind.COMMAND else USED
    return IN_VAIN if (hint.call_name, True) in followed else OPEN


def _show(app: "App", record: HintRecord, outcome: str) -> HintInfo:
    hint = record.hint
    return HintInfo(
        hint_id=record.hint_id,
        when=f"{app.calendar.to_local(record.at_ms):%Y-%m-%d %H:%M}",
        session=record.session_id,
        project=record.project,
        kind=hint.kind.value,
        subject=hint.subject,
        text=hint.text,
        grip=hint.grip_id,
        outcome=outcome,
        rejected=record.is_rejected,
    )
