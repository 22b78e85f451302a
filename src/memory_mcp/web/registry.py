"""The pages by their addresses below a visit's, and the acts by their names. One line each."""

from collections.abc import Awaitable, Callable, Mapping

from starlette.responses import Response

from memory_mcp.web.acts import forgetting, jobs, projects, statements, summaries
from memory_mcp.web.asking import Ask, Done
from memory_mcp.web.pages import audit, calendar, evidence, export, forget, refine, search, status, today, topics, tree
from memory_mcp.web.pages import projects as projects_page

PAGES: Mapping[str, Callable[[Ask], Awaitable[Response]]] = {
    "today": today.today,
    "calendar": calendar.calendar,
    "tree": tree.root,
    "tree/{node_id:path}": tree.node,
    "grip/{grip_id:path}": evidence.grip,
    "session/{session_id:path}": evidence.session,
    "event/{event_id}": evidence.event,
    "search": search.search,
    "topics": topics.topics,
    "topics/{topic_id}": topics.topic,
    "status": status.status,
    "projects": projects_page.projects,
    "audit": audit.audit,
    "refine/{node_id:path}": refine.refine,
    "forget": forget.form,
    "forget/{id}": forget.pending,
    "export": export.export,
}
#: Writes, each by a form that carries the visit's token.
ACTS: Mapping[str, Callable[[Ask], Awaitable[Done]]] = {
    "pin": statements.pin,
    "correct": statements.correct,
    "retract": statements.retract,
    "label": statements.label,
    "refine": summaries.refine,
    "alias": projects.alias,
    "split": projects.split,
    "undo-project": projects.undo_project,
    "pause": projects.pause,
    "resume": projects.resume,
    "exclude": projects.exclude,
    "include": projects.include,
    "run-job": jobs.run,
    "pause-job": jobs.pause,
    "resume-job": jobs.resume,
    "forget-find": forgetting.find,
    "forget-show": forgetting.show,
    "forget": forgetting.start,
    "undo": forgetting.undo,
}
#: The page that a visit begins with.
FIRST = "today"
