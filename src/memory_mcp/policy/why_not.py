"""A question and something that did not come up in, a change of the call with which it does out: tried, not guessed.

What keeps a thing out is undone step by step, the filters first, then the number of results, the floor, the layers and
their bounds, at last the words. Once it shows, every step that was not needed is taken back.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from memory_mcp.layers.base import Hit, Query, Target
from memory_mcp.model.calendar import TimeWindow
from memory_mcp.policy.explain import WhyNot
from memory_mcp.policy.plan import How, Mode

#: Most results a call can ask for.
_MOST = 100
#: Bounds under which a walk reads a large memory.
_WIDE: Mapping[str, int] = {"max_nodes_visited": 5000, "max_rpc_calls": 500, "timeout_ms": 20_000}
#: Words of the thing that are added to the question, in this order, until it shows.
_ADDED = (2, 4, 8)


@dataclass(frozen=True, slots=True)
class Call:
    """A call as it can be changed: the question, how, and the arguments that differ from the caller's."""

    query: Query
    how: How
    change: Mapping[str, object] = field(default_factory=dict)
    reasons: tuple[str, ...] = ()


#: Answers a call.
Ask = Callable[[Query, How], Sequence[Hit]]
_Step = Callable[[Call], Call]


def place_of(target: Target, hits: Sequence[Hit]) -> int | None:
    """Which result shows the target, counted from 0."""
    for place, hit in enumerate(hits):
        if target.ids & {hit.node_id, hit.event_id, hit.grip_id, *hit.grip_ids}:
            return place
    return None


def why_not(target: Target, call: Call, window: TimeWindow | None, words: tuple[str, str], ask: Ask) -> WhyNot:
    """Why the target is not among the results of a call, and the change that shows it.

    `window` is what the call was bound to; `words` the time words it was read from, and the question without them.
    """
    place = place_of(target, ask(call.query, call.how))
    if place is not None:
        return WhyNot(target.id, f"it is result {place + 1}", {}, place)
    steps: list[_Step] = []
    for step in _steps(target, call, window, words):
        steps.append(step)
        if _shows(target, _changed(call, steps), ask) is not None:
            return _told(target, call, _needed(target, call, steps, ask), ask)
    return WhyNot(target.id, "it does not come up even by its own words: no layer can be asked for it by a question", {})


def _steps(target: Target, call: Call, window: TimeWindow | None, words: tuple[str, str]) -> Iterator[_Step]:
    """Everything that may keep it out, in the order in which it is undone."""
    query = call.query
    if not target.is_period and query.project is not None and target.project != query.project:
        yield _step(f"it belongs to project {target.project or '(none)'}", {"scope": "all", "project": ""}, project=None)
    if not target.is_period and query.agent is not None and target.agent != query.agent:
        yield _step(f"it is of agent {target.agent}", {"agent": ""}, agent=None)
    if window is not None and (target.is_period or not window.contains(target.timestamp)):
        if words[0]:
            text = words[1] or " ".join(target.words[: _ADDED[0]])
            yield _step(f'it lies outside "{words[0]}"', {"query": text}, text=text)
        else:
            yield _step("it lies outside since and until", {"since": "", "until": ""}, window=None)
    yield _step(f"it comes after the first {query.limit} results", {"limit": _MOST}, limit=_MOST)
    if call.how.min_confidence != 0.0:
        yield _bounded("what there is was taken for irrelevant, or scored less than min_confidence", {"min_confidence": 0})
    if call.how.intent is not None or call.how.mode is not Mode.PARALLEL:
        yield _parallel
    yield _bounded("the search ended at its bounds before it came there", _WIDE)
    for count in _ADDED:
        added = " ".join(target.words[:count])
        if added:
            yield _worded(f'the question holds too few of its words; "{added}" is among them', added)


def _step(reason: str, change: Mapping[str, object], **fields: object) -> _Step:
    def apply(call: Call) -> Call:
        query = replace(call.query, **fields)  # type: ignore[arg-type]
        return Call(query, call.how, {**call.change, **change}, (*call.reasons, reason))

    return apply


def _bounded(reason: str, bounds: Mapping[str, int]) -> _Step:
    def apply(call: Call) -> Call:
        own = {k: v for k, v in bounds.items() if k != "min_confidence"}
        least = float(bounds["min_confidence"]) if "min_confidence" in bounds else call.how.min_confidence
        how = replace(call.how, bounds={**call.how.bounds, **own}, min_confidence=least)
        held = call.change.get("bounds", {})
        merged = {**(held if isinstance(held, Mapping) else {}), **bounds}
        return Call(call.query, how, {**call.change, "bounds": merged}, (*call.reasons, reason))

    return apply


def _parallel(call: Call) -> Call:
    how = replace(call.how, mode=Mode.PARALLEL)
    reason = "the layers that were asked do not name it, others may"
    return Call(call.query, how, {**call.change, "mode": Mode.PARALLEL.value}, (*call.reasons, reason))


def _worded(reason: str, added: str) -> _Step:
    def apply(call: Call) -> Call:
        text = f"{call.query.text} {added}"
        return Call(replace(call.query, text=text), call.how, {**call.change, "query": text}, (*call.reasons, reason))

    return apply


def _changed(call: Call, steps: Sequence[_Step]) -> Call:
    for step in steps:
        call = step(call)
    return call


def _shows(target: Target, call: Call, ask: Ask) -> int | None:
    return place_of(target, ask(call.query, call.how))


def _needed(target: Target, call: Call, steps: Sequence[_Step], ask: Ask) -> list[_Step]:
    """Without the steps that it shows without."""
    kept = list(steps)
    for step in list(steps)[:-1]:
        fewer = [s for s in kept if s is not step]
        if _shows(target, _changed(call, fewer), ask) is not None:
            kept = fewer
    return kept


def _told(target: Target, call: Call, steps: Sequence[_Step], ask: Ask) -> WhyNot:
    """The change in the caller's terms; the number of results is the least that will do."""
    changed = _changed(call, steps)
    place = _shows(target, changed, ask)
    change = dict(changed.change)
    if "limit" in change and place is not None:
        change["limit"] = max(place + 1, 1)
        if _shows(target, Call(replace(changed.query, limit=place + 1), changed.how), ask) is None:
            change["limit"] = _MOST
    return WhyNot(target.id, "; ".join(changed.reasons), change)
