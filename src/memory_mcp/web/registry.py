"""The pages by their addresses below a visit's, and the acts by their names. One line each."""

from collections.abc import Awaitable, Callable, Mapping

from starlette.responses import Response

from memory_mcp.web.asking import Ask, Done
from memory_mcp.web.pages import calendar, evidence, status, today, topics, tree

PAGES: Mapping[str, Callable[[Ask], Awaitable[Response]]] = {
    "today": today.today,
    "calendar": calendar.calendar,
    "tree": tree.root,
    "tree/{node_id:path}": tree.node,
    "topics": topics.topics,
    "topics/{topic_id}": topics.topic,
    "grip/{grip_id:path}": evidence.grip,
    "session/{session_id:path}": evidence.session,
    "event/{event_id}": evidence.event,
    "status": status.status,
}
#: Writes, each by a form that carries the visit's token.
ACTS: Mapping[str, Callable[[Ask], Awaitable[Done]]] = {}
#: The page that a visit begins with.
FIRST = "today"
