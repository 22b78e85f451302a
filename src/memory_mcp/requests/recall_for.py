"""recall_for: what is known of an error, a command or a file, at the point of action."""

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

from memory_mcp.base.dataclass import dataclass
from memory_mcp.base.errors import InvalidQuery
from memory_mcp.requests import arguments
from memory_mcp.requests.entry import answers
from memory_mcp.requests.file_history import recall_file
from memory_mcp.requests.limits import Argument
from memory_mcp.requests.line_history import find_file, parse_lines, recall_lines
from memory_mcp.requests.plain import find_fullest, fits_in
from memory_mcp.requests.response import Recalled
from memory_mcp.requests.run_history import Recollection, recall_command, recall_error
from memory_mcp.requests.run_statements import Statement
from memory_mcp.requests.scope import Caller, scope_of
from memory_mcp.tree.derive.missing_runs import MISSING

if TYPE_CHECKING:
    from memory_mcp.app import App

#: Most tokens of an answer, and characters of an error that are taken.
TOKENS, _ERROR = 400, 20_000
_STILL_READ = "outcomes of calls from before this version are still being read"
_NO_REPOSITORY = "lines are read only in a repository that the project is known by, for callers on this machine"
_NO_SESSION = "no session in this memory is known to have made these lines; this is of the file"


@dataclass(frozen=True, slots=True)
class RecallFor:
    """Before you repeat a mistake: what ended this error here, how this command works here, what holds for this file."""

    error: Annotated[str, Argument("A text as a tool printed it", longest=_ERROR)] = ""
    command: Annotated[str, Argument("A command line or a tool's name", longest=arguments.MAX_QUERY)] = ""
    file: Annotated[str, Argument("A path", longest=1000)] = ""
    lines: Annotated[str, Argument("Of the file: 12 or 12-20; why they are so, by git blame", longest=20)] = ""
    project: arguments.Project = ""
    scope: arguments.Scope = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecalledFor(Recalled):
    """Statements, the most useful first; an empty list says that nothing is known."""

    outcome: Annotated[str, "resolved, unresolved, works, fails, known or not_seen"]
    statements: tuple[Statement, ...]
    scope: str
    notices: tuple[str, ...] = ()


@answers("recall_for", RecallFor, "Recall at the point of action")
def recall_for(app: "App", request: RecallFor, caller: Caller) -> RecalledFor:
    """Return what is known of an error, a command or a file, in 400 tokens.

    Raises InvalidQuery if none of them is given, or the project is unknown.
    """
    if not any(text.strip() for text in (request.error, request.command, request.file)):
        raise InvalidQuery("nothing was asked for", "Give an error, a command or a file.")
    scoped = scope_of(app, request.project, request.scope, caller)
    recollection, blame_notices = _recall(app, request, scoped.project, caller)
    stated = recollection.statements
    since = app.later_changes.tell(((s.grip, s.text, s.about) for s in stated), caller.directory)
    stated = [replace(s, since=since.get(s.grip, "")) for s in stated]
    notices = scoped.notices(app, bool(stated))
    notices += [_STILL_READ] if app.storage.outbox.get_checkpoint(MISSING) else []
    notices += blame_notices
    full_answer = RecalledFor(outcome=recollection.outcome, statements=tuple(stated), scope=scoped.words, notices=tuple(notices))
    fitting = find_fullest(
        lambda most: replace(full_answer, statements=full_answer.statements[:most]),
        fits_in(TOKENS, app.settings.retrieval.token_factor),
        0,
        len(full_answer.statements),
    )
    return fitting or replace(full_answer, statements=())


def _recall(app: "App", request: RecallFor, project: str | None, caller: Caller) -> tuple[Recollection, list[str]]:
    if request.error.strip():
        return recall_error(app, request.error, project, request.command), []
    if request.command.strip():
        return recall_command(app, request.command, project), []
    of_file = recall_file(app, request.file.strip(), project, caller.directory)
    if not request.lines:
        return of_file, []
    lines = parse_lines(request.lines)
    file = find_file(app, request.file.strip(), project, caller)
    of_lines = recall_lines(app, file, lines, project) if file is not None else Recollection("not_seen", [])
    if not of_lines.statements:
        return of_file, [_NO_REPOSITORY if file is None else _NO_SESSION]
    told = {statement.grip for statement in of_lines.statements}
    return Recollection("known", [*of_lines.statements, *(s for s in of_file.statements if s.grip not in told)]), []
