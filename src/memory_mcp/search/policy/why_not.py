"""Find a change of a call's arguments with which a missing result is found, by trying changes.

Everything that may exclude the target is undone: filters first, then the number of results, tokens, the floor and bounds, and
then the layers. The words stay the caller's: a question made of the target's own words would find it and explain nothing.
Once the target shows, changes that are not needed are taken back and numbers made small.
"""

import datetime as dt
import itertools
import json
from collections.abc import Callable, Collection, Generator, Iterator, Mapping, Sequence
from typing import Any

from memory_mcp.base.dataclass import dataclass
from memory_mcp.base.errors import DeadlineExceeded, InvalidQuery
from memory_mcp.model.calendar import TimeWindow
from memory_mcp.model.ids import parse_span_grip
from memory_mcp.question.intent import Intent
from memory_mcp.search.layers.base import Target
from memory_mcp.search.policy.explain import WhyNot
from memory_mcp.search.policy.plan import Mode

#: A change of a call's arguments; inside `bounds` as well, "" stands for one that is not given.
Change = Mapping[str, Any]

#: Most results and tokens a call can ask for.
_MOST, _MOST_TOKENS = 100, 200_000
#: Bounds under which a walk reads a large memory.
_WIDE = {"max_nodes_visited": 5000, "max_rpc_calls": 500}
#: Time limit that is tried where the call names one (milliseconds).
_LONG = 5000
#: Numbers of results that an overview is tried with: it lists the finest periods that are few enough.
_LISTED = (100, 1, 2, 3, 5, 8, 12, 20, 40)
_OVERVIEW = "what happened"
_HOUR_MS = 3_600_000
#: Arguments that a cursor is bound to.
_QUESTION = frozenset(
    {"query", "keywords", "since", "until", "as_of", "tz", "agent", "project", "scope", "role", "speaker", "intent", "mode"}
)
#: Tries to make a number small, once it is known within a factor of two.
_HALVINGS = 4
_ELSEWHERE = "it belongs to another project, and that alone does not explain it: ask again there"
_NO_WAY = "no filter, number, bound or layer keeps it out: the question holds too few of its words"
_NO_TIME = "the time for trying was over before a change was found that shows it"


@dataclass(frozen=True, slots=True)
class UnderstoodCall:
    """How a call is understood."""

    #: Scope of the call; None for everything.
    project: str | None
    agent: str | None
    window: TimeWindow | None
    #: The time words that the window was read from, "" for one given with since and until.
    window_words: str
    #: The question without them.
    text: str
    intent: Intent
    mode: Mode
    bounds: Mapping[str, int]
    limit: int
    #: Results left out before the first.
    offset: int
    floor: float | None
    #: Whether the call names a project, and a time limit apart from its bounds.
    names_project: bool
    names_timeout: bool
    #: As the call names them, "" for none.
    cursor: str
    role: str
    speaker: str
    since: str
    until: str
    #: Names of the bounds that the call sets.
    named_bounds: Collection[str]


#: Returns how a call with a change is understood, without running it; raises InvalidQuery for one that cannot be.
Look = Callable[[Change], UnderstoodCall]
#: Runs a call with a change and returns the ids that each result shows; raises DeadlineExceeded when the time is over,
#: InvalidQuery for a call that is refused.
Run = Callable[[Change], Sequence[Collection[str]]]


@dataclass(frozen=True, slots=True)
class _Change:
    values: Mapping[str, Any]
    reasons: Mapping[str, str]

    def with_more(self, reason: str, **values: Any) -> "_Change":
        """Return this change with more arguments, all for one reason.

        Those inside bounds are named `bounds__NAME`.
        """
        changes = {k.replace("__", "."): v for k, v in values.items()}
        return _Change({**self.values, **changes}, {**self.reasons, **dict.fromkeys(changes, reason)})

    def arguments(self) -> dict[str, Any]:
        arguments = {k: v for k, v in self.values.items() if "." not in k}
        inner = {k.partition(".")[2]: v for k, v in self.values.items() if "." in k}
        return {**arguments, "bounds": inner} if inner else arguments

    def why(self) -> str:
        return "; ".join(dict.fromkeys(self.reasons[k] for k in self.values if self.reasons[k]))


_NOTHING = _Change({}, {})


def position_of(target: Target, ids_by_result: Sequence[Collection[str]]) -> int | None:
    """Return the position of the first result that shows the target."""
    for position, ids in enumerate(ids_by_result):
        spans = (parse_span_grip(i) for i in ids)
        if not target.ids.isdisjoint(ids) or any(s is not None and s[0] in target.ids for s in spans):
            return position
    return None


def why_not(target: Target, look: Look, run: Run) -> WhyNot:
    """Return why a target is not shown, and a change that shows it.

    Runs many calls. If no change was found, or the time was over before, the change is empty, or asks all projects for a target
    of another one. Raises InvalidQuery if the call itself is refused.
    """
    tries = _Tries(target, run)
    best_change: _Change | None = None
    try:
        call = look({})
        elsewhere = not target.is_period and call.project is not None and target.project != call.project
        position = tries.find_position(_NOTHING)
        if position is not None:
            return WhyNot(target.id, f"it is result {call.offset + position + 1}", {}, position)
        for change in _iter_candidates(target, look, call):
            if tries.find_position(change) is not None:
                best_change = change
                break
        else:
            return WhyNot(target.id, _ELSEWHERE, {"scope": "all"}) if elsewhere else WhyNot(target.id, _NO_WAY, {})
        for better in tries.iter_smaller(best_change, call):
            best_change = better
    except DeadlineExceeded:
        if best_change is None:
            return WhyNot(target.id, _NO_TIME, {})
    return WhyNot(target.id, best_change.why(), best_change.arguments())


class _Tries:
    def __init__(self, target: Target, run: Run) -> None:
        self._target = target
        self._run = run
        self._known: dict[str, int | None] = {}

    def find_position(self, change: _Change) -> int | None:
        """Return which result shows the target; equal calls run once.

        Raises DeadlineExceeded when the time is over.
        """
        arguments = change.arguments()
        key = json.dumps(arguments, sort_keys=True)
        if key not in self._known:
            try:
                self._known[key] = position_of(self._target, self._run(arguments))
            except InvalidQuery:
                self._known[key] = None
        return self._known[key]

    def iter_smaller(self, change: _Change, call: UnderstoodCall) -> Iterator[_Change]:
        """Yield ever smaller changes that still show the target."""
        change = yield from self._drop_arguments(change)
        walk = [((f"bounds.{name}",), call.bounds[name]) for name in ("max_nodes_visited", "max_rpc_calls", "max_depth")]
        tokens = (("token_budget", "bounds.max_token_budget"), call.bounds["max_token_budget"])
        # Arguments that must have the same number, and the number that the call has now.
        for names, low in ((("limit",), call.limit), *walk, tokens):
            changed_names = tuple(n for n in names if n in change.values)
            if changed_names:
                change = self._find_least(change, changed_names, low)
                yield change
        # Fewer results may fit where more did not.
        yield from self._drop_arguments(change)

    def _drop_arguments(self, change: _Change) -> Generator[_Change, None, _Change]:
        fewer = True
        while fewer:
            fewer = False
            for name in sorted(change.values, key=lambda n: n != "cursor"):
                less = _Change({k: v for k, v in change.values.items() if k != name}, change.reasons)
                if less.values and self.find_position(less) is not None:
                    change, fewer = less, True
                    yield change
        return change

    def _find_least(self, change: _Change, names: Sequence[str], low: int) -> _Change:
        def having(number: int) -> _Change:
            return _Change({**change.values, **dict.fromkeys(names, number)}, change.reasons)

        position = self.find_position(change)
        if names[0] == "limit" and position is not None and self.find_position(having(position + 1)) is not None:
            return having(position + 1)
        high = most = change.values[names[0]]
        for number in itertools.takewhile(lambda n: n < most, (2**n * max(low, 1) for n in itertools.count(1))):
            if self.find_position(having(number)) is not None:
                high = number
                break
            low = number
        for _ in range(_HALVINGS):
            middle = (low + high) // 2
            if middle <= low:
                break
            if self.find_position(having(middle)) is not None:
                high = middle
            else:
                low = middle
        return having(high)


def _iter_candidates(target: Target, look: Look, call: UnderstoodCall) -> Iterator[_Change]:
    """Yield changes to try, the smallest first.

    In turn: no filters, another page, more results and tokens, for a period overviews of its time; then bounds, and other layers.
    """
    change = _lift_filters(target, look, call)
    yield change
    if call.cursor:
        yield change.with_more("it is on another page", cursor="")
    change = change.with_more(f"it comes after the first {call.limit} results", limit=_MOST)
    tokens = call.bounds["max_token_budget"]
    reason = f"the token budget of {tokens} has no room for it"
    bound_change = {"bounds__max_token_budget": _MOST_TOKENS} if "max_token_budget" in call.named_bounds else {}
    change = change.with_more(reason, token_budget=_MOST_TOKENS, **bound_change)
    yield change
    if call.cursor:
        change = change.with_more("it is on another page", cursor="")
        yield change
    if target.is_period:
        for window, limit in itertools.product(target.listed_in, _LISTED):
            since, until = (dt.datetime.fromtimestamp(ms / 1000, dt.UTC).isoformat() for ms in (window.start_ms, window.end_ms))
            listed = {"query": _OVERVIEW, "intent": Intent.EXPLORE.value, "since": since, "until": until, "limit": limit}
            yield change.with_more("a period is listed by an overview of its time", **listed, agent="")
    for way in _iter_ways(call):
        yield way(change)


def _lift_filters(target: Target, look: Look, call: UnderstoodCall) -> _Change:
    change = _NOTHING
    if call.project is not None and (target.is_period or target.project != call.project):
        change_values = {"project": ""} if call.names_project else {}
        reason = "" if target.is_period else f"it belongs to project {target.project or '(none)'}"
        change = change.with_more(reason or f"it is looked for in project {call.project}", scope="all", **change_values)
    if call.agent is not None and (target.is_period or target.agent != call.agent):
        change = change.with_more(f"it is of agent {target.agent or '(several)'}", agent="")
    for name, said_by in (("role", call.role), ("speaker", call.speaker)):
        # Who said it may be a part of the target alone: whether this keeps it out is tried, and taken back where it does not.
        if said_by:
            change = change.with_more(f"it was not said by {name} {said_by}", **{name: ""})
    for name, moment in (("since", call.since), ("until", call.until)):
        if moment and _is_outside(target, call.window):
            change = change.with_more("it lies outside since and until", **{name: ""})
    # Time words count only where since and until are not given.
    cursor, call = call.cursor, look({**change.arguments(), "cursor": ""})
    if call.window_words and _is_outside(target, call.window):
        change_values = {"query": call.text} if call.text or target.is_period else _day_of(target)
        change = change.with_more(
            f'it lies outside "{call.window_words}"', **(change_values if any(change_values.values()) else {"query": _OVERVIEW})
        )
    if cursor and _QUESTION & change.values.keys():
        change = change.with_more("", cursor="")
    return change


def _day_of(target: Target) -> dict[str, str]:
    since, until = (dt.datetime.fromtimestamp((target.timestamp + hours * _HOUR_MS) / 1000, dt.UTC) for hours in (-12, 12))
    return {"since": since.isoformat(), "until": until.isoformat()}


def _is_outside(target: Target, window: TimeWindow | None) -> bool:
    return window is not None and (target.is_period or not window.contains(target.timestamp))


def _iter_ways(call: UnderstoodCall) -> Iterator[Callable[[_Change], _Change]]:
    floored = call.floor == 0
    floor = "what there is was taken for irrelevant" if call.floor is None else f"it scored less than {call.floor}"
    bounds: dict[str, Any] = {f"bounds__{k}": v for k, v in _WIDE.items()}
    if "max_depth" in call.named_bounds:
        bounds["bounds__max_depth"] = 5
    if "timeout_ms" in call.named_bounds:
        bounds["bounds__timeout_ms"] = _LONG
    if call.names_timeout:
        bounds["timeout_ms"] = _LONG
    cursor = {"cursor": ""} if call.cursor else {}
    layer_changes: list[dict[str, Any]] = []
    if call.mode is not Mode.SEQUENTIAL:
        layer_changes.append({"mode": Mode.SEQUENTIAL.value, **cursor})
    layer_changes += [
        {"intent": i.value, "mode": Mode.SEQUENTIAL.value, **cursor} for i in Intent if i not in (call.intent, Intent.TIME_BOXED)
    ]

    def way(other: Mapping[str, Any], low: bool, *, wide: bool) -> Callable[[_Change], _Change]:
        def apply(change: _Change) -> _Change:
            if other:
                change = change.with_more("the layers that were asked do not name it, others do", **other)
            change = change.with_more(floor, bounds__min_confidence=0) if low else change
            return change.with_more("the search ended at its bounds before it came there", **bounds) if wide else change

        return apply

    floors = (False,) if floored else (False, True)
    yield from (way({}, low, wide=wide) for wide in (False, True) for low in floors if low or wide)
    yield from (way(other, low, wide=False) for other in layer_changes for low in floors)
