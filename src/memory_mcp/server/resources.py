"""Nodes, grips, sessions, topics and the status as resources, for clients that read rather than call."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from mcp.server import MCPServer
from mcp.server.mcpserver.exceptions import ResourceError, ResourceNotFoundError

from memory_mcp.app import App
from memory_mcp.base.errors import InvalidQuery, NotFound
from memory_mcp.model.calendar import TocLevel
from memory_mcp.model.fencing import neutralize_json
from memory_mcp.requests.plain import as_json, format_compact
from memory_mcp.requests.registry import respond
from memory_mcp.requests.scope import Caller
from memory_mcp.server.calls import Kit
from memory_mcp.server.errors import as_ours, describe

if TYPE_CHECKING:
    from memory_mcp.requests.events import Events
    from memory_mcp.requests.nodes import Browsed

JSON = "application/json"
#: The templates, as completion names them.
TOC, GRIP, SESSION = "memory://toc/{+node_id}", "memory://grip/{+grip_id}", "memory://session/{+session_id}"
TOPIC = "memory://topic/{+topic_id}"
#: Between a node's id and a cursor, which leads to another page of its children.
_BEHIND = "/"
#: Events of a session shown at most; get_events pages through all.
_EVENTS = 100


def add_resources(server: MCPServer, kit: Kit) -> None:
    """Register the resources: status, nodes, grips, sessions and topics.

    A request is loaded with its first read. Each reads as compact JSON of its request's response; a read raises
    ResourceNotFoundError or ResourceError.
    """

    @server.resource("memory://status", name="status", title="Memory status", mime_type=JSON)
    async def memory_status() -> str:
        """Tier, layers and counts."""
        from memory_mcp.requests.limits import Detail
        from memory_mcp.requests.status import GetStatus

        return await _read_json(kit, "status", respond, GetStatus(Detail.FULL))

    @server.resource(TOC, name="toc", title="Page of the time tree", mime_type=JSON)
    async def toc(node_id: str) -> str:
        """A node with its bullets and children; with / and next_cursor behind its id the next page; a segment in its context."""
        return await _read_json(kit, node_id, _read_page, node_id)

    @server.resource(GRIP, name="grip", title="Quotation in its context", mime_type=JSON)
    async def grip(grip_id: str) -> str:
        """The exact words and what was said around them."""
        from memory_mcp.requests.expand import ExpandRequest

        return await _read_json(kit, grip_id, respond, ExpandRequest(grip_id=grip_id))

    @server.resource(SESSION, name="session", title="Events of a session", mime_type=JSON)
    async def session(session_id: str) -> str:
        """The first events of a session, in order."""
        return await _read_json(kit, session_id, _read_session, session_id)

    @server.resource(TOPIC, name="topic", title="Topic with its segments", mime_type=JSON)
    async def topic(topic_id: str) -> str:
        """A topic: when and where it was talked about, what it is related to, and what became of it."""
        from memory_mcp.requests.one_topic import GetTopic

        return await _read_json(kit, topic_id, respond, GetTopic(topic_id))


def _read_page(app: App, node_and_cursor: str, caller: Caller) -> Any:
    """Return a page of the tree as browse_toc does.

    A segment, which has no children, as get_node does. `node_and_cursor` is a node's id, perhaps with "/" and a cursor behind
    it.
    """
    from memory_mcp.requests.nodes import Browse, GetNode

    node_id, _, cursor = node_and_cursor.partition(_BEHIND)
    page: Browsed = respond(app, Browse(node_id, cursor=cursor), caller)
    return respond(app, GetNode(node_id), caller) if page.node.level == TocLevel.SEGMENT else page


def _read_session(app: App, session_id: str, caller: Caller) -> "Events":
    """Raises NotFound where there are no events."""
    from memory_mcp.requests.events import GetEvents

    events: Events = respond(app, GetEvents(session_id=session_id, limit=_EVENTS), caller)
    if not events.events:
        raise NotFound(f"no session {session_id}", "Results and get_events carry session ids.")
    return events


async def _read_json(kit: Kit, what: str, find: Callable[[App, Any, Caller], Any], key: object) -> str:
    """Return what `find` returns, as compact JSON without our tags.

    A notice says where events are lost; `what` names the resource in the log. Raises ResourceNotFoundError for NotFound and
    InvalidQuery, ResourceError for anything else, each with our text.
    """

    def work(app: App) -> dict[str, Any]:
        return kit.host.with_notices(app, as_json(find(app, key, kit.caller)))

    try:
        return format_compact(neutralize_json(await kit.host.read(work)))
    except (NotFound, InvalidQuery) as error:
        raise ResourceNotFoundError(describe(error)) from error
    except Exception as error:
        raise ResourceError(describe(as_ours(error, f"resource {what}"))) from error
