"""A citation in its conversation, a session, one event in parts, and what a page shows as a file."""

import re
from typing import Any

from starlette.responses import Response

from memory_mcp.base.errors import NotFound
from memory_mcp.model.ids import parse_span_grip
from memory_mcp.requests.events import GetEvents
from memory_mcp.requests.expand import ExpandRequest
from memory_mcp.requests.limits import AROUND, NEIGHBOURS, TOKENS, Detail
from memory_mcp.requests.shown import ExportShown
from memory_mcp.web.asking import PageRequest
from memory_mcp.web.pages import talk
from memory_mcp.web.visits import HEADERS

#: Events of a page of a session, and characters of each text there.
_EVENTS, _WIDTH = 50, 700
#: Characters before and after the words of a citation that are far into a long message.
_LEAD = 400
#: Neighbours of a citation, and how many more one asks for.
_AROUND, _MORE = AROUND.default, 10
_TEXTS = ("node", "session", "grip", "since", "until", "agent", "role", "speaker", "cursor", "start", "end", "project")


async def show_grip(ask: PageRequest) -> Response:
    """Show a citation's words and the events around them.

    `before` and `after` of the address say how many events, 3 if absent, at most 50.
    """
    grip_id = ask.path_argument("grip_id")
    n_before, n_after = (min(ask.int_argument(side, _AROUND), AROUND.most) for side in ("before", "after"))
    response = await ask.memory.ask(ExpandRequest(grip_id=grip_id, before=0, after=0, token_budget=TOKENS.most))
    cited = response["grip"]
    window: dict[str, Any] = {"event_id": cited["event_id_start"], "before": n_before, "after": n_after}
    shape: dict[str, Any] = {"detail": Detail.FULL, "text_limit": talk.SHOWN, "token_budget": TOKENS.most}
    found_around = (await ask.memory.ask(GetEvents(**window, **shape)))["events"]
    own_at = next(i for i, event in enumerate(found_around) if event["event_id"] == cited["event_id_start"])
    found_around[own_at] = await _at_its_words(ask, found_around[own_at], cited["grip_id"])
    events = [talk.describe_event(event, {cited["grip_id"]}) for event in found_around]
    quoted_event = events[own_at]
    values: dict[str, Any] = {
        "found": response,
        "grip": cited,
        "own": quoted_event,
        "events": events,
        "day": cited["when"][:10],
        "is_old": bool(response.get("superseded_by")),
        "earlier": n_before + _MORE if own_at >= n_before and n_before < AROUND.most else 0,
        "later": n_after + _MORE if len(events) - own_at - 1 >= n_after and n_after < AROUND.most else 0,
        "before": n_before,
        "after": n_after,
    }
    return ask.render_template("grip.html", **values)


async def _at_its_words(ask: PageRequest, event: dict[str, Any], grip_id: str) -> dict[str, Any]:
    """Read the event again where its cited words are beyond 1200 characters.

    Far beyond, with its text cut around them from a word's beginning; `offset` says where.
    """
    quotes = list(event.get("quotes", []))
    quote = next((other_quote for other_quote in quotes if other_quote["grip_id"] == grip_id), None)
    if quote is None and (span := parse_span_grip(grip_id)) is not None:
        quote = {"grip_id": grip_id, "start": span[1], "end": span[2]}
        quotes.append(quote)
    if quote is None or not quote["start"] or quote["end"] <= talk.SHOWN:
        return {**event, "quotes": quotes}
    start = max(quote["start"] - _LEAD, 0) if quote["end"] > 2 * talk.SHOWN else 0
    most = min(quote["end"] + _LEAD - start, talk.PART)
    request = GetEvents(event_id=event["event_id"], offset=start, text_limit=most, detail=Detail.FULL, token_budget=TOKENS.most)
    [cut] = (await ask.memory.ask(request))["events"]
    space = re.search(r"\s", cut["text"][: quote["start"] - start]) if start else None
    spare = space.end() if space else 0
    return {**cut, "offset": start + spare, "text": cut["text"][spare:], "quotes": quotes}


async def show_session(ask: PageRequest) -> Response:
    """Show 50 events of a session.

    From its beginning, after a cursor, or before (`to`) or from (`from`) one of its events, whose session it then is. Raises
    NotFound where no event of the session is stored.
    """
    session_id = ask.path_argument("session_id")
    shape: dict[str, Any] = {"detail": Detail.FULL, "text_limit": _WIDTH, "token_budget": TOKENS.most}
    start, end = ask.argument("from"), ask.argument("to")
    if start or end:
        sides: dict[str, Any] = {"after": min(_EVENTS, NEIGHBOURS.most)} if start else {"before": min(_EVENTS, NEIGHBOURS.most)}
        request = GetEvents(event_id=start or end, **sides, **shape)
    else:
        project = ask.argument("project")
        request = GetEvents(session_id=session_id, limit=_EVENTS, cursor=ask.argument("cursor"), project=project, **shape)
    response = await ask.memory.ask(request)
    events = response["events"]
    if not events and not ask.argument("cursor"):
        raise NotFound(f"no events of session {session_id} are stored", "It may have been forgotten, or be of another project.")
    if events and (start or end):
        session_id = events[0]["session_id"]
    begins = not (start or ask.argument("cursor")) and (not end or len(events) <= _EVENTS)
    values: dict[str, Any] = {
        "session_id": session_id,
        "start": start,
        "end": end,
        "cursor": ask.argument("cursor"),
        "events": events,
        "exchanges": talk.group_exchanges(events),
        "first": "" if begins or not events else events[0]["event_id"],
        "last": events[-1]["event_id"] if events and (end or (start and len(events) > _EVENTS)) else "",
        "next_cursor": response.get("next_cursor", ""),
        "projects": sorted({event.get("project", "") for event in events} - {""}),
        "agents": sorted({event.get("agent", "") for event in events} - {""}),
    }
    return ask.render_template("part_talk.html" if ask.part else "session.html", **values)


async def show_event(ask: PageRequest) -> Response:
    """Show 20,000 characters of one event's text from `offset`."""
    offset = ask.int_argument("offset", 0)
    request = GetEvents(
        event_id=ask.path_argument("event_id"), offset=offset, text_limit=talk.PART, detail=Detail.FULL, token_budget=TOKENS.most
    )
    [event_values] = (await ask.memory.ask(request))["events"]
    values = {
        "event": talk.describe_event(event_values),
        "offset": offset,
        "previous": max(offset - talk.PART, 0),
        "part_size": talk.PART,
    }
    return ask.render_page("event", **values)


async def download_shown(ask: PageRequest) -> Response:
    """Return what another page shows as a file to download."""
    arguments: dict[str, Any] = {name: ask.argument(name) for name in _TEXTS}
    scope = "" if arguments["project"] else "all"
    arguments |= {side: ask.int_argument(side, AROUND.default) for side in ("before", "after")}
    limit, query = ask.int_argument("limit", 0), ask.argument("q")
    request = ExportShown(form=ask.argument("form"), query=query, limit=limit, scope=scope, **arguments)
    file = await ask.memory.ask(request)
    headers = {**HEADERS, "content-disposition": f'attachment; filename="{file["name"]}"'}
    return Response(file["text"].encode("utf-8", "replace"), 200, headers, file["media_type"])
