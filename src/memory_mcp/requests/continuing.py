"""continue_session and handoff: where a session stands, for whoever goes on with it.

Change here: what an agent that takes over learns.
"""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import zip_longest
from typing import TYPE_CHECKING, Annotated

from memory_mcp.base.dataclass import dataclass
from memory_mcp.model.event import Event
from memory_mcp.model.ids import GripId, grip_time, span_grip_id
from memory_mcp.model.tool_run import KeyKind, StoredRun, make_hashes
from memory_mcp.requests import arguments
from memory_mcp.requests.entry import answers
from memory_mcp.requests.file_history import is_same_file
from memory_mcp.requests.limits import Argument
from memory_mcp.requests.plain import find_fullest, fits_in
from memory_mcp.requests.response import Recalled
from memory_mcp.requests.run_statements import RunTeller, Statement, describe_call, path_below
from memory_mcp.requests.scope import Caller, Scoped, scope_of
from memory_mcp.requests.session_work import SessionWork, find_session_work, read_ends
from memory_mcp.storage.values import Scope
from memory_mcp.tree.outcomes.runs import base_name, changes_files, files_of
from memory_mcp.tree.summarize.sentences import shorten
from memory_mcp.tree.toc.accounts import account_lines
from memory_mcp.tree.toc.doings import QuotedSpan, commit_subjects, runs_tests
from memory_mcp.tree.toc.open_ends import Cause
from memory_mcp.tree.toc.session_ends import (
    find_first_request,
    find_last_request,
    finished_tasks,
    is_decided,
    is_result,
    removed_names,
    resolve_path,
    tells_passing_tests,
)
from memory_mcp.tree.toc.statements import QUOTED, QuotedStatement, StretchView, stretch_results, stretch_rules

if TYPE_CHECKING:
    from memory_mcp.app import App

#: Most tokens of an answer.
TOKENS = 900
#: Statements of each part, of earlier sessions, commands that fail, and files.
_MOST, _EARLIER, _FAILING, _FILES = 9, 6, 2, 12
#: Characters of a question that was left open, with its choices, and finished tasks.
_QUESTION, _TASKS = 300, 6
#: Calls of a session that changed files, and that committed, which are read.
_CHANGES, _COMMITS = 60, 6
#: The parts in order, and in which the first statement of each is chosen.
PARTS = ("goal", "done", "decided", "failing", "file", "next", "open", "before")
_CHOSEN = ("goal", "next", "failing", "done", "decided", "file", "open")
#: Programs that remove files.
_REMOVALS = make_hashes(KeyKind.COMMAND, ["rm", "git rm"])
#: What stands before results that are none of their own words.
_PREFIXES = {"cause": "cause: ", "last": "last said: "}
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
    by_stream = app.storage.tool_runs.list_stream_runs(dict.fromkeys(cut.stream for cut in work.cuts))
    runs = sorted((stored for several in by_stream.values() for stored in several), key=lambda stored: stored.run.result)
    first_events, last_events = read_ends(app, work)
    commits = _list_commits(teller, runs)
    unwritten_names = _list_unwritten(teller, runs)
    results = _list_results(app, newest, [commit.text.removeprefix(_COMMITTED) for commit in commits], unwritten_names)
    rules = _list_rules(app, newest)
    rule_texts = {rule.text for rule in rules}
    ends = [end for stretch in newest for end in stretch.open_ends if end[0].text not in rule_texts]
    unwritten = _make_name_pattern(unwritten_names)
    finished = [words for words in finished_tasks(last_events)[-_TASKS:] if not unwritten.search(words.text.casefold())]
    tasks = [replace(_cite(words), text=f"marked done: {words.text}") for words in finished]
    return {
        "goal": _list_goals(teller, first_events, last_events),
        "done": [*commits, *_list_quoted(teller, "done", [*results, *tasks])],
        "decided": _list_quoted(teller, "decided", rules[:_MOST]),
        "failing": _list_failing(teller, runs),
        "file": _list_files(teller, runs, next((root for event in first_events if (root := event.metadata.get("cwd", ""))), "")),
        "next": _list_open(teller, "next", ends[:1]),
        "open": _list_open(teller, "open", ends[1:_MOST]),
    }


def _list_goals(teller: RunTeller, first_events: Sequence[Event], last_events: Sequence[Event]) -> list[Statement]:
    """Return what was asked first, and last if that is something else."""
    first, last = find_first_request(first_events), find_last_request(last_events)
    goals = _list_quoted(teller, "goal", [_cite(first)] if first is not None else [])
    if last is not None and (first is None or last.event.event_id != first.event.event_id):
        goals += [replace(item, text=f"last asked: {item.text}") for item in _list_quoted(teller, "goal", [_cite(last)])]
    return goals


def _list_results(
    app: "App", newest: Sequence[StretchView], subjects: Sequence[str], unwritten_names: Collection[str]
) -> list[QuotedStatement]:
    """Return what the agent said was done, the last first; closing words only of the session's end.

    Left out is what names a commit's subject, or a file that could not be written.
    """
    labelled = [
        (statement, label)
        for number, stretch in enumerate(newest)
        for statement, label in stretch_results(stretch)
        if label != "last" or not number
    ]
    events = _read_quoted(app, (statement for statement, _ in labelled))
    excluded = _make_name_pattern([*subjects, *unwritten_names])
    results: list[QuotedStatement] = []
    has_tests = False
    for statement, label in labelled:
        text, is_of_tests = statement.text, tells_passing_tests(statement.text)
        if not is_result(text, events.get(statement.grip_id), label) or (is_of_tests and has_tests):
            continue
        has_tests = has_tests or is_of_tests
        if not excluded.search(text.casefold()):
            prefix = "" if text.casefold().startswith("root cause") else _PREFIXES.get(label, "")
            results.append(replace(statement, text=f"{prefix}{text}"))
    return results[:_MOST]


def _list_unwritten(teller: RunTeller, runs: Sequence[StoredRun]) -> set[str]:
    """Return the names of files of which the last change failed, and none succeeded."""
    changes = [stored for stored in runs if stored.run.hashes(KeyKind.FILE)]
    written = {value for stored in changes if not stored.run.failed for value in stored.run.hashes(KeyKind.FILE)}
    failed = [stored for stored in changes if stored.run.failed and written.isdisjoint(stored.run.hashes(KeyKind.FILE))]
    teller.read_calls(failed)
    return {base_name(file) for stored in failed for file in files_of(teller.call_of(stored))}


def _make_name_pattern(names: Iterable[str]) -> re.Pattern[str]:
    """Return what finds any of some names, as whole names, in a folded text."""
    alternatives = "|".join(re.escape(name.casefold()) for name in names if name)
    return re.compile(rf"(?<![\w.-])(?:{alternatives})(?![\w-])" if alternatives else r"(?!)")


def _list_rules(app: "App", newest: Sequence[StretchView]) -> list[QuotedStatement]:
    labelled = [pair for stretch in newest for pair in stretch_rules(stretch) if not pair[0].contradicted_by]
    events = _read_quoted(app, (statement for statement, _ in labelled))
    return [statement for statement, label in labelled if is_decided(statement.text, label, events.get(statement.grip_id))]


def _read_quoted(app: "App", statements: Iterable[QuotedStatement]) -> dict[str, Event]:
    """Return the events that statements quote, by grip."""
    grips = app.storage.grips.get_grips({GripId(statement.grip_id) for statement in statements})
    events = app.storage.events.get_events({grip.event_id_start for grip in grips.values()})
    return {grip_id: events[grip.event_id_start] for grip_id, grip in grips.items() if grip.event_id_start in events}


def _cite(words: QuotedSpan) -> QuotedStatement:
    return QuotedStatement(words.text, words.speaker, span_grip_id(words.event.event_id, words.start, words.end))


def _list_open(teller: RunTeller, about: str, ends: Sequence[tuple[QuotedStatement, str]]) -> list[Statement]:
    """Return what is open; why stands before it, but for a question."""
    items = []
    for quoted, label in ends:
        (item,) = _list_quoted(teller, about, [quoted], _QUESTION if label == Cause.QUESTION else QUOTED)
        items.append(item if label == Cause.QUESTION else replace(item, text=f"{label}: {item.text}"))
    return items


def _list_earlier(teller: RunTeller, work: SessionWork) -> list[Statement]:
    lines = account_lines(work.earlier, with_open=False)[:_EARLIER]
    statements = _list_quoted(teller, "before", [line.statement for line in lines])
    return [replace(item, text=f"{line.part}: {item.text}") for item, line in zip(statements, lines, strict=True)]


def _list_quoted(teller: RunTeller, about: str, statements: Iterable[QuotedStatement], width: int = QUOTED) -> list[Statement]:
    items = []
    for quoted in statements:
        at_ms = grip_time(GripId(quoted.grip_id))
        items.append((quoted, teller.make_statement(about, shorten(quoted.text, width), quoted.grip_id, at_ms, "")))
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


def _list_files(teller: RunTeller, runs: Sequence[StoredRun], root: str) -> list[Statement]:
    """Return the files that were changed, the last one first, below the directory `root` where the session began."""
    changes = [stored for stored in reversed(runs) if not stored.run.failed and stored.run.hashes(KeyKind.FILE)][:_CHANGES]
    removals = [stored for stored in runs if not stored.run.failed and _REMOVALS & stored.run.hashes(KeyKind.COMMAND)]
    teller.read_calls([*changes, *removals])
    removed = removed_names([teller.call_of(stored) for stored in removals])
    by_file: dict[str, list[StoredRun]] = {}
    for stored in changes:
        call = teller.call_of(stored)
        directory = call.metadata.get("cwd", "")
        for file in files_of(call) if changes_files(call) else ():
            below = path_below(file, root)
            by_file.setdefault(below if below != file else path_below(file, directory), []).append(stored)
    return [
        teller.tell_event("file", _describe_file(file, len(several), call, removed), call, several[0])
        for file, several in list(by_file.items())[:_FILES]
        for call in (teller.call_of(several[0]),)
    ]


def _describe_file(file: str, count: int, call: Event, removed: Mapping[str, int]) -> str:
    paths = (resolve_path(path, call.metadata.get("cwd", "")) for path in files_of(call))
    if any(removed.get(path, -1) >= call.timestamp for path in paths if is_same_file(path, file)):
        return f"{file}, removed since"
    return f"{file}, changed {count} times" if count > 1 else file
