"""The pages by their addresses below a visit's, and the acts by their names. One line each.

Change here: what a page of the explorer (the web) shows.
Change here: add a page, or an act of one.
"""

from collections.abc import Awaitable, Callable, Mapping

from starlette.responses import Response

from memory_mcp.web.acts import forgetting, jobs, projects, statements, summaries
from memory_mcp.web.asking import Ask, Done
from memory_mcp.web.pages import audit, calendar, evidence, export, forget, refine, search, status, today, topics, tree
from memory_mcp.web.pages import projects as projects_page

PAGES: Mapping[str, Callable[[Ask], Awaitable[Response]]] = {
    "today": today.show_today,
    "calendar": calendar.show_calendar,
    "tree": tree.show_root,
    "tree/{node_id:path}": tree.show_node,
    "grip/{grip_id:path}": evidence.show_grip,
    "session/{session_id:path}": evidence.show_session,
    "event/{event_id}": evidence.show_event,
    "search": search.show_search,
    "topics": topics.show_topics,
    "topics/{topic_id}": topics.show_topic,
    "status": status.show_status,
    "projects": projects_page.show_projects,
    "audit": audit.show_audit,
    "refine/{node_id:path}": refine.show_form,
    "forget": forget.show_form,
    "forget/{id}": forget.show_pending,
    "export": export.download_shown,
}
#: Writes, each by a form that carries the visit's token.
ACTS: Mapping[str, Callable[[Ask], Awaitable[Done]]] = {
    "pin": statements.pin_item,
    "correct": statements.correct_statement,
    "retract": statements.retract_statement,
    "label": statements.label_topic,
    "refine": summaries.refine_node,
    "alias": projects.alias_projects,
    "split": projects.split_project,
    "undo-project": projects.undo_project,
    "pause": projects.pause_project,
    "resume": projects.resume_project,
    "exclude": projects.exclude_pattern,
    "include": projects.include_pattern,
    "run-job": jobs.run_job,
    "pause-job": jobs.pause_job,
    "resume-job": jobs.resume_job,
    "forget-find": forgetting.find_to_forget,
    "forget-show": forgetting.preview_forget,
    "forget": forgetting.start_forget,
    "undo": forgetting.undo_forget,
}
#: The page that a visit begins with.
FIRST = "today"
