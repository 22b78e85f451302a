"""Forgetting in three steps: what it would take is shown, a person starts it, and it can be undone until it begins.

Invariants
1. A value to be forgotten is in no address, no log and no page but the form it was typed into.
"""

from dataclasses import replace
from functools import partial
from typing import Any

from memory_mcp.errors import NotFound
from memory_mcp.requests.forget import PERSON, Forget
from memory_mcp.web.asking import Ask, Done
from memory_mcp.web.undo import Pending, Stage

#: Fields of the form that have the names of the request's.
_FIELDS = ("event", "session", "since", "until", "topic", "value")


async def show(ask: Ask) -> Done:
    """Find out what the form's request would forget, and keep both for the next page, forget/ID; nothing is forgotten.

    A preview that takes longer than a second goes on in the background. Raises what the request raises for a bad form.
    """
    given: dict[str, Any] = {name: ask.given(name) for name in _FIELDS}
    request = Forget(**given, project=ask.given("of_project"), by=PERSON)
    # The request is a dry run until the waiting time is over.
    work = partial(ask.memory.write, replace(request, dry_run=False))
    shown = {"what": _subject(request), "is_value": bool(request.value)}
    pending = await ask.visit.later.show(ask.visit.name, shown, partial(ask.memory.ask, request), work)
    return Done("", f"forget/{pending.id}")


async def start(ask: Ask) -> Done:
    """Start the waiting time (10 s) of the request that the form names by `id`, after which it is carried out.

    Does nothing unless the preview is there and it was not started. Raises NotFound for a request unknown to this visit.
    """
    pending = _pending(ask)
    ask.visit.later.start(pending)
    return Done("", f"forget/{pending.id}")


async def undo(ask: Ask) -> Done:
    """Drop a request to forget that has not begun; else the note says that it was too late, or that it failed.

    The next page is that of the request. Raises NotFound for a request that this visit does not know.
    """
    pending = _pending(ask)
    if ask.visit.later.undo(pending):
        return Done("Undone: nothing was forgotten.", f"forget/{pending.id}")
    note = "It was too late to undo it: forgetting had begun." if pending.stage is not Stage.FAILED else "Nothing was forgotten."
    return Done(note, f"forget/{pending.id}")


def _pending(ask: Ask) -> Pending:
    """Return the request that the form names by `id`; raise NotFound for one that is unknown or another visit's."""
    found = ask.visit.later.find(ask.visit.name, ask.given("id"))
    if found is None:
        raise NotFound("this was not started here, or too long ago", "Nothing was changed. Begin again with Forget.")
    return found


def _subject(request: Forget) -> str:
    """Return in words what is to be forgotten: the value (only its length), else the event, else the topic of a request.

    Else its session, or project, or "everything", with its times.
    """
    if request.value:
        return f"a text of {len(request.value)} characters that you typed, in every event that holds it"
    if request.event:
        return f"the quoted event of {request.event}" if request.event.startswith("grip:") else f"the event {request.event}"
    if request.topic:
        return f"every event of the segments of {request.topic}"
    of = f"session {request.session}" if request.session else f"project {request.project}" if request.project else "everything"
    times = (("since", request.since), ("until", request.until))
    return " ".join([of, *(f"{word} {time}" for word, time in times if time)])
