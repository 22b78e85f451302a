"""The time tree: a node that unfolds in place, with its children or conversation, and the form of its text."""

from collections.abc import Mapping
from typing import Any

from starlette.responses import Response

from memory_mcp.requests.events import GetEvents
from memory_mcp.requests.limits import TOKENS, Detail
from memory_mcp.requests.nodes import GetNode
from memory_mcp.requests.refine_show import RefineShow
from memory_mcp.web.asking import PageRequest
from memory_mcp.web.pages import talk

#: Children of a page, and events.
_CHILDREN, _EVENTS = 60, 60
#: Levels whose children all fit on a page, shown newest first; a day is read from its morning on.
_NEWEST_FIRST = ("root", "year", "month", "week")
#: Statements that are shown where a period is unfolded in place: those of a kind, or else so many others.
_FEW, _FEW_OTHERS = 4, 2
#: Most tokens of the events that are shown.
_TOKENS = 6000


async def show_root(ask: PageRequest) -> Response:
    """Show the root of the tree with its years."""
    return await _show_node(ask, "")


async def show_node(ask: PageRequest) -> Response:
    """Show a node, or what a script unfolds of it."""
    return await _show_node(ask, ask.path_argument("node_id"))


async def _show_node(ask: PageRequest, node_id: str) -> Response:
    """Show a node; a script gets more children or more conversation.

    Of a period the first 4 statements with a kind, else the first 2.
    """
    cursor = ask.argument("cursor")
    if cursor and ask.argument("of") == "talk":
        node = {"node_id": node_id}
        return ask.render_page("talk", node=node, **await _talk(ask, node, cursor))
    response = await ask.memory.ask(GetNode(node_id, limit=_CHILDREN, cursor=cursor, detail=Detail.FULL, **ask.scope_arguments))
    if response["node"]["level"] in _NEWEST_FIRST and "children" in response:
        response["children"] = response["children"][::-1]
    values: dict[str, Any] = {"found": response, "node": response["node"], "cursor": cursor}
    if response["node"]["level"] == "segment":
        values |= await _talk(ask, response["node"])
    if not ask.part:
        return ask.render_template("tree.html", **values)
    bullets = response["node"].get("bullets", [])
    if response["node"]["level"] != "segment":
        bullets = [entry for entry in bullets if entry.get("kind")][:_FEW] or bullets[:_FEW_OTHERS]
    return ask.render_template("part_children.html" if cursor else "part_node.html", **values, statements=bullets)


async def _talk(ask: PageRequest, node: Mapping[str, Any], cursor: str = "") -> dict[str, Any]:
    size: dict[str, Any] = {"limit": _EVENTS, "cursor": cursor, "text_limit": talk.SHOWN, "token_budget": TOKENS.most}
    response = await ask.memory.ask(GetEvents(node_id=node["node_id"], detail=Detail.FULL, **size, **ask.scope_arguments))
    cited = {grip for bullet in node.get("bullets", ()) for grip in bullet["grip_ids"]}
    events = response["events"]
    return {
        "exchanges": talk.group_exchanges(events, cited),
        "more_talk": response.get("next_cursor", ""),
        "session_id": events[0]["session_id"] if events else "",
        "first": events[0]["event_id"] if events else "",
        "last": events[-1]["event_id"] if events else "",
    }


async def show_refine(ask: PageRequest) -> Response:
    """Show the form of a node's text, with events to cite."""
    node = await ask.memory.ask(RefineShow(ask.path_argument("node_id"), _TOKENS, **ask.scope_arguments))
    fields = {"node_id": node["node_id"], "title": node["title"]}
    for n, bullet in enumerate(node.get("bullets", ())):
        fields |= {f"text.{n}": bullet["text"], f"grips.{n}": " ".join(bullet["grip_ids"]), f"kind.{n}": bullet.get("kind", "")}
    return ask.render_template("refine.html", found=node, given=fields)
