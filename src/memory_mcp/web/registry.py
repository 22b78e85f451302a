"""The pages by their addresses below a visit's, and the acts by their names. One line each.

Change here: what a page of the explorer (the web) shows.
Change here: add a page, or an act of one.
"""

from collections.abc import Awaitable, Callable, Mapping

from starlette.responses import Response

from memory_mcp.web.acts import forgetting, projects, statements
from memory_mcp.web.asking import ActResult, PageRequest
from memory_mcp.web.pages import days, evidence, search, status, topics, tree, work

PAGES: Mapping[str, Callable[[PageRequest], Awaitable[Response]]] = {
    "today": days.show_today,
    "calendar": days.show_calendar,
    "tree": tree.show_root,
    "tree/{node_id:path}": tree.show_node,
    "grip/{grip_id:path}": evidence.show_grip,
    "session/{session_id:path}": evidence.show_session,
    "event/{event_id}": evidence.show_event,
    "search": search.show_search,
    "file": work.show_file,
    "error": work.show_error,
    "topics": topics.show_topics,
    "topics/{topic_id}": topics.show_topic,
    "status": status.show_status,
    "projects": status.show_projects,
    "audit": status.show_audit,
    "refine/{node_id:path}": tree.show_refine,
    "forget": status.show_forget,
    "forget/{id}": status.show_pending,
    "export": evidence.download_shown,
}
#: Writes, each by a form that carries the visit's token.
ACTS: Mapping[str, Callable[[PageRequest], Awaitable[ActResult]]] = {
    "pin": statements.pin_item,
    "correct": statements.correct_statement,
    "retract": statements.retract_statement,
    "label": statements.label_topic,
    "refine": statements.refine_node,
    "alias": projects.alias_projects,
    "split": projects.split_project,
    "undo-project": projects.undo_project,
    "pause": projects.pause_project,
    "resume": projects.resume_project,
    "exclude": projects.exclude_pattern,
    "include": projects.include_pattern,
    "run-job": projects.run_job,
    "pause-job": projects.pause_job,
    "resume-job": projects.resume_job,
    "forget-find": forgetting.find_to_forget,
    "forget-show": forgetting.preview_forget,
    "forget": forgetting.start_forget,
    "undo": forgetting.undo_forget,
}
#: The page that a visit begins with.
FIRST = "today"
