"""continue_session and handoff: where a session stands, for whoever goes on with it.

Change here: what an agent that takes over learns.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import zip_longest
from typing import TYPE_CHECKING, Annotated

from memory_mcp.base.dataclass import dataclass
from memory_mcp.model.ids import GripId, grip_time
from memory_mcp.model.tool_run import KeyKind, StoredRun, make_hashes
from memory_mcp.requests import arguments
from memory_mcp.requests.entry import answers
from memory_mcp.requests.limits import Argument
from memory_mcp.requests.plain import find_fullest, fits_in
from memory_mcp.requests.response import Recalled
from memory_mcp.requests.run_statements import RunTeller, Statement, describe_call, relative_name
from memory_mcp.requests.scope import Caller, Scoped, scope_of
from memory_mcp.requests.session_work import SessionWork, find_session_work
from memory_mcp.storage.values import Scope
from memory_mcp.tree.outcomes.runs import changes_files, files_of
from memory_mcp.tree.summarize.sentences import shorten
from memory_mcp.tree.toc.accounts import account_lines
from memory_mcp.tree.toc.doings import commit_subjects, runs_tests
from memory_mcp.tree.toc.statements import QUOTED, QuotedStatement, stretch_results, stretch_rules

if TYPE_CHECKING:
    from memory_mcp.app import App

#: Most tokens of an answer.
TOKENS = 900
#: Statements of each part, of earlier sessions, commands that fail, and files.
_MOST, _EARLIER, _FAILING, _FILES = 9, 6, 2, 12
#: Calls of a session that changed files, and that committed, which are read.
_CHANGES, _COMMITS = 60, 6
#: The parts in order, and in which the first statement of each is chosen.
PARTS = ("goal", "done", "decided", "failing", "file", "next", "open", "before")
_CHOSEN = ("goal", "next", "failing", "done", "decided", "file", "open")
_COMMITTED, _NOTHING = "committed ", "nothing is recorded of {about}"


@dataclass(frozen=True, slots=True)
class ContinueSession:
    """Earlier work to go on with: goal, what is done, decided, fails, files, next step."""

    session_id: Annotated[str, Argument("Or its beginning; empty: the latest", longest=200)] = ""
    project: arguments.Project = ""
    scope: arguments.Scope = ""


@dataclass(frozen=True, slots=True)
class HandOff:
    """What to tell another client that takes this session over: goal, what is done, decided, fails, files, next step."""

    session_id: Annotated[str, Argument("Or its beginning; empty: your own, else the latest work", longest=200)] = ""
    project: arguments.Project = ""
    scope: arguments.Scope = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionAccount(Recalled):
    """Statements of a session, part by part; none says that nothing is recorded."""

    session: str
    statements: Annotated[tuple[Statement, ...], "Each about: goal, done, decided, failing, file, next, open or before"]
    scope: str
    notices: tuple[str, ...] = ()


@answers("continue_session", ContinueSession, "Continue a session")
def continue_session(app: "App", request: ContinueSession, caller: Caller) -> SessionAccount:
    """Return where a session of others stands, and what came before it, in 900 tokens.

    Raises NotFound for an unknown session, InvalidQuery for an unknown project.
    """
    scoped = scope_of(app, request.project, request.scope, caller)
    # A session that was compacted no longer knows its beginning.
    caller_sessions = {session.session_id for session in caller.excluded(app, False) if not session.since_ms}
    work = find_session_work(app, request.session_id, scoped, caller_sessions)
    return _make_account(app, work, scoped, with_earlier=not request.session_id.strip())


@answers("handoff", HandOff, "Hand a session over")
def hand_off(app: "App", request: HandOff, caller: Caller) -> SessionAccount:
    """Return where the caller's own session stands, else the latest work, in 900 tokens.

    Raises NotFound for an unknown session, InvalidQuery for an unknown project.
    """
    scoped = scope_of(app, request.project, request.scope, caller)
    session_id = request.session_id.strip()
    if not session_id:
        caller_sessions = {session.session_id for session in caller.excluded(app, False)}
        recent = app.storage.events.list_sessions(Scope(project=scoped.project), 50) if caller_sessions else []
        session_id = next((session.session_id for session in recent if session.session_id in caller_sessions), "")
    return _make_account(app, find_session_work(app, session_id, scoped), scoped, with_earlier=False)


def _make_account(app: "App", work: SessionWork, scoped: Scoped, with_earlier: bool) -> SessionAccount:
    teller = RunTeller(app, scoped.project)
    statements = [*_rank_statements(_list_parts(app, teller, work)), *(_list_earlier(teller, work) if with_earlier else ())]
    ranked = list({statement.text.casefold(): statement for statement in reversed(statements)}.values())[::-1]
    notices = [*scoped.notices(app, bool(ranked)), *([] if ranked else [_NOTHING.format(about=work.about)])]
    account = SessionAccount(session=work.about, statements=(), scope=scoped.words, notices=tuple(notices))

    def take_first(most: int) -> SessionAccount:
        return replace(account, statements=tuple(sorted(ranked[:most], key=lambda statement: PARTS.index(statement.about))))

    return find_fullest(take_first, fits_in(TOKENS, app.settings.retrieval.token_factor), 0, len(ranked)) or account


def _rank_statements(parts: Mapping[str, Sequence[Statement]]) -> list[Statement]:
    """Return the first statement of each part, then the second ones, and so on."""
    rows = zip_longest(*(parts[part] for part in _CHOSEN))
    return [statement for row in rows for statement in row if statement is not None]


def _list_parts(app: "App", teller: RunTeller, work: SessionWork) -> dict[str, list[Statement]]:
    newest = work.stretches[::-1]
    goals = [stretch.first_request for stretch in work.stretches if stretch.first_request is not None]
    by_stream = app.storage.tool_runs.list_stream_runs(dict.fromkeys(cut.stream for cut in work.cuts))
    runs = sorted((stored for several in by_stream.values() for stored in several), key=lambda stored: stored.run.result)
    commits = _list_commits(teller, runs)
    subjects = [commit.text.removeprefix(_COMMITTED).casefold() for commit in commits]
    results = [
        statement
        for stretch in newest
        for statement, _ in stretch_results(stretch)
        if not any(subject in statement.text.casefold() for subject in subjects)
    ]
    rules = [statement for stretch in newest for statement, _ in stretch_rules(stretch) if not statement.contradicted_by]
    rule_texts = {statement.text for statement in rules}
    ends = [end for stretch in newest for end, _ in stretch.open_ends if end.text not in rule_texts]
    return {
        "goal": _list_quoted(teller, "goal", goals[:1]),
        "done": [*commits, *_list_quoted(teller, "done", results[:_MOST])],
        "decided": _list_quoted(teller, "decided", rules[:_MOST]),
        "failing": _list_failing(teller, runs),
        "file": _list_files(teller, runs),
        "next": _list_quoted(teller, "next", ends[:1]),
        "open": _list_quoted(teller, "open", ends[1:_MOST]),
    }


def _list_earlier(teller: RunTeller, work: SessionWork) -> list[Statement]:
    lines = account_lines(work.earlier, with_open=False)[:_EARLIER]
    statements = _list_quoted(teller, "before", [line.statement for line in lines])
    return [replace(item, text=f"{line.part}: {item.text}") for item, line in zip(statements, lines, strict=True)]


def _list_quoted(teller: RunTeller, about: str, statements: Iterable[QuotedStatement]) -> list[Statement]:
    items = []
    for quoted in statements:
        at_ms = grip_time(GripId(quoted.grip_id))
        items.append((quoted, teller.make_statement(about, shorten(quoted.text, QUOTED), quoted.grip_id, at_ms, "")))
    return [replace(item, since=quoted.since) for quoted, item in items]


def _list_commits(teller: RunTeller, runs: Sequence[StoredRun]) -> list[Statement]:
    hashes = make_hashes(KeyKind.COMMAND, ["git commit"])
    commits = [stored for stored in reversed(runs) if not stored.run.failed and hashes & stored.run.hashes(KeyKind.COMMAND)]
    teller.read_runs(commits[:_COMMITS])
    return [
        teller.tell_event("done", f"{_COMMITTED}{shorten(subject, QUOTED)}", teller.result_of(stored), stored)
        for stored in commits[:_COMMITS]
        for subject in commit_subjects(teller.result_of(stored).text)
    ]


def _list_failing(teller: RunTeller, runs: Sequence[StoredRun]) -> list[Statement]:
    """Return the test commands whose last call failed, newest first."""
    last_of_program = {program: stored for stored in runs for program in stored.run.hashes(KeyKind.COMMAND)}
    failed = [stored for stored in dict.fromkeys(list(last_of_program.values())[::-1]) if stored.run.failed]
    teller.read_runs(failed)
    calls = ((stored, teller.call_of(stored)) for stored in failed)
    tests = [(stored, call) for stored, call in calls if runs_tests(call.metadata.get("command", ""))]
    return [teller.tell_failure("failing", stored, f"{describe_call(call)}: ") for stored, call in tests[:_FAILING]]


def _list_files(teller: RunTeller, runs: Sequence[StoredRun]) -> list[Statement]:
    """Return the files that were changed, the last one first."""
    changes = [stored for stored in reversed(runs) if not stored.run.failed and stored.run.hashes(KeyKind.FILE)][:_CHANGES]
    teller.read_runs(changes)
    by_file: dict[str, list[StoredRun]] = {}
    for stored in changes:
        call = teller.call_of(stored)
        for file in files_of(call) if changes_files(call) else ():
            by_file.setdefault(relative_name(file, call), []).append(stored)
    return [
        teller.tell_event("file", f"{file}, changed {len(several)} times" if len(several) > 1 else file, call, several[0])
        for file, several in list(by_file.items())[:_FILES]
        for call in (teller.call_of(several[0]),)
    ]
