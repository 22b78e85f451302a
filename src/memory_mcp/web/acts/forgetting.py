"""Forgetting in three steps: what it would take is shown, a person starts it, and it can be undone until it begins.

Invariants
1. A value to be forgotten is in no address, no log and no page but the form it was typed into.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from memory_mcp.base.errors import NotFound
from memory_mcp.requests.expand import ExpandRequest
from memory_mcp.requests.forget import Forget
from memory_mcp.requests.scope import ScopeName
from memory_mcp.requests.search import SearchRequest
from memory_mcp.web.asking import ActResult, PageRequest
from memory_mcp.web.cards import by_conversation, cards_of
from memory_mcp.web.undo import Pending, Stage

#: Shows what was found; results of a search; and how the fields of what is ticked begin, before a citation and a session.
_PAGE, _FOUND, _TICK, _SESSION = "forget", 30, "tick.", "session."
#: Fields of the form that have the names of the request's.
_FIELDS = ("event", "session", "since", "until", "topic", "value")


async def find_to_forget(ask: PageRequest) -> ActResult:
    """Search for the form's `words`, which are in no address."""
    query = ask.argument("words")
    response = await ask.memory.ask(SearchRequest(query=query, scope=ScopeName.ALL, limit=_FOUND, with_agents=True))
    ask.visit.to_forget = by_conversation([card for card in cards_of(query, response) if card.get("grip")])
    return ActResult("", _PAGE)


async def preview_forget(ask: PageRequest) -> ActResult:
    """Preview what would be forgotten; beyond a second in the background."""
    ticked = await _read_ticked(ask)
    fields: dict[str, Any] = {name: ask.argument(name) for name in _FIELDS}
    requests = ticked or [Forget(**fields, project=ask.argument("of_project"), is_person=True)]
    what = _subject(requests[0]) if len(requests) == 1 else f"{len(requests)} things that you ticked"
    # The requests are dry runs until the waiting time is over.
    work = [replace(request, dry_run=False) for request in requests]
    look = partial(_carry_out, ask.memory.ask, requests)
    subject = {"what": what, "is_value": bool(requests[0].value)}
    pending = await ask.visit.later.preview_act(ask.visit.name, subject, look, partial(_carry_out, ask.memory.write, work))
    ask.visit.to_forget = None
    return ActResult("", f"forget/{pending.id}")


async def _read_ticked(ask: PageRequest) -> list[Forget]:
    # The field of a message has its conversation as value.
    sessions = [name.removeprefix(_SESSION) for name in ask.form if name.startswith(_SESSION)]
    events = dict[str, None]()
    for name, session in ask.form.items():
        if name.startswith(_TICK) and session not in sessions:
            quoted = await ask.memory.ask(ExpandRequest(grip_id=name.removeprefix(_TICK), before=0, after=0))
            events[quoted["grip"]["event_id_start"]] = None
    return [
        *(Forget(session=session, is_person=True) for session in sessions),
        *(Forget(event=event, is_person=True) for event in events),
    ]


async def _carry_out(run: Callable[[Forget], Awaitable[dict[str, Any]]], requests: Sequence[Forget]) -> dict[str, Any]:
    response = await run(requests[0])
    for request in requests[1:]:
        for name, value in (await run(request)).items():
            total = response.get(name)
            if isinstance(value, dict) and isinstance(total, dict):
                response[name] = {kind: total.get(kind, 0) + value.get(kind, 0) for kind in {**total, **value}}
            elif isinstance(value, list) and isinstance(total, list):
                response[name] = [*total, *value]
            else:
                response.setdefault(name, value)
    return response


async def start_forget(ask: PageRequest) -> ActResult:
    """Start the waiting time (10 s) of a previewed request."""
    pending = _pending(ask)
    ask.visit.later.start_wait(pending)
    return ActResult("", f"forget/{pending.id}")


async def undo_forget(ask: PageRequest) -> ActResult:
    """Drop a request to forget that has not begun."""
    pending = _pending(ask)
    if ask.visit.later.undo_act(pending):
        return ActResult("Undone: nothing was forgotten.", f"forget/{pending.id}")
    note = "It was too late to undo it: forgetting had begun." if pending.stage is not Stage.FAILED else "Nothing was forgotten."
    return ActResult(note, f"forget/{pending.id}")


def _pending(ask: PageRequest) -> Pending:
    pending = ask.visit.later.find_act(ask.visit.name, ask.argument("id"))
    if pending is None:
        raise NotFound("this was not started here, or too long ago", "Nothing was changed. Begin again with Forget.")
    return pending


def _subject(request: Forget) -> str:
    if request.value:
        return f"a text of {len(request.value)} characters that you typed, in every event that holds it"
    if request.event:
        return f"the quoted event of {request.event}" if request.event.startswith("grip:") else f"the event {request.event}"
    if request.topic:
        return f"every event of the segments of {request.topic}"
    of = f"session {request.session}" if request.session else f"project {request.project}" if request.project else "everything"
    times = (("since", request.since), ("until", request.until))
    return " ".join([of, *(f"{word} {time}" for word, time in times if time)])
