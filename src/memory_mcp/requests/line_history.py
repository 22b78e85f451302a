"""Why lines are so: from git's blame to the commit, to the session that made it, to its request and reason."""

import math
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from memory_mcp.base.errors import InvalidQuery
from memory_mcp.base.git_blame import BUDGET_MS, BlamedCommit, blame_lines
from memory_mcp.base.scope import project_of
from memory_mcp.base.text import term_set
from memory_mcp.model.calendar import TimeWindow
from memory_mcp.model.tool_run import KeyKind, StoredRun, make_hashes
from memory_mcp.requests.file_history import find_requests, is_same_file
from memory_mcp.requests.run_history import Recollection
from memory_mcp.requests.run_statements import RunTeller, Statement
from memory_mcp.requests.scope import Caller
from memory_mcp.tree.outcomes.runs import base_name, files_of
from memory_mcp.tree.toc.doings import QuotedSpan

if TYPE_CHECKING:
    from memory_mcp.app import App

#: Commits that are told; files of one that are looked for, and runs of each.
_TOLD, _FILES, _RUNS = 2, 20, 100
#: A commit is made in the session in which it was called for, at most so long before or after the author's time.
_COMMITTED = TimeWindow(-3_600_000, 600_000)
#: Its files were changed in the days before.
_EDITED = TimeWindow(-7 * 86_400_000, 600_000)
#: After so long what a session's recency counts has fallen to a half (hours), and its weight beside the share of files.
_HALF_LIFE, _RECENCY, _SUBJECT = 6, 0.4, 0.4
_LINES = re.compile(r"(\d{1,7})(?:-(\d{1,7}))?\Z")


def parse_lines(text: str) -> tuple[int, int]:
    """Return the first and last line of "12" or "12-20"; raises InvalidQuery."""
    match = _LINES.match(text.strip())
    first, last = (int(match[1]), int(match[2] or match[1])) if match else (0, 0)
    if not 0 < first <= last:
        raise InvalidQuery(f"invalid lines: {text[:40]!r}", "Give a line or two: 12 or 12-20.")
    return first, last


def find_file(app: "App", path: str, project: str | None, caller: Caller) -> Path | None:
    """Return a file of a repository that a project is known by, or None.

    Only for a caller on this machine, whose directory a relative path begins in; never for one that came over the network.
    """
    if caller.connection is None:
        return None
    file = Path(caller.connection.cwd or "/", path)
    identity = app.storage.projects.names.resolve_alias(project_of(str(file.parent)))
    known = [project] if project is not None else app.tree.tally().projects
    return file if identity in known and file.is_file() else None


def recall_lines(app: "App", file: Path, lines: tuple[int, int], project: str | None) -> Recollection:
    """Return which sessions made some lines of a file, what for and why."""
    commits = blame_lines(file, *lines, time.monotonic() + BUDGET_MS / 1000)
    teller = RunTeller(app, project)
    statements = [statement for commit in commits[:_TOLD] for statement in _tell_commit(app, teller, commit, project)]
    return Recollection("known" if statements else "not_seen", statements)


def find_session(app: "App", teller: RunTeller, commit: BlamedCommit, project: str | None) -> StoredRun | None:
    """Return the run that made a commit, or the last change of its files in the likeliest session; None for neither."""
    hashes = make_hashes(KeyKind.COMMAND, ["git commit"])
    calls = app.storage.tool_runs.find_runs(KeyKind.COMMAND, hashes, project, _RUNS, _around(commit, _COMMITTED))
    teller.read_runs(calls)
    for stored in calls:
        if commit.commit[:7] in teller.result_of(stored).text or commit.subject in teller.call_of(stored).text:
            return stored
    edits = _list_edits(app, teller, commit, project)
    requests = find_requests(app, teller, edits)
    return max(edits, key=lambda stored: _weigh(commit, stored, edits[stored], requests.get(stored)), default=None)


def _list_edits(app: "App", teller: RunTeller, commit: BlamedCommit, project: str | None) -> Mapping[StoredRun, int]:
    """Return the last change of a commit's files in each session, with the number of these files it changed."""
    last: dict[str, StoredRun] = {}
    changed: dict[str, set[str]] = {}
    for file in commit.files[:_FILES]:
        hashes = make_hashes(KeyKind.FILE, [base_name(file)])
        runs = app.storage.tool_runs.find_runs(KeyKind.FILE, hashes, project, _RUNS, _around(commit, _EDITED))
        teller.read_runs(runs)
        for stored in runs:
            if not stored.run.failed and any(is_same_file(file, other) for other in files_of(teller.call_of(stored))):
                changed.setdefault(stored.session_id, set()).add(file)
                latest = last.setdefault(stored.session_id, stored)
                last[stored.session_id] = max(latest, stored, key=lambda each: each.run.call)
    return {stored: len(changed[session]) for session, stored in last.items()}


def _weigh(commit: BlamedCommit, stored: StoredRun, files: int, request: QuotedSpan | None) -> float:
    hours = abs(commit.at_ms - stored.run.start_ms) / 3_600_000
    subject = term_set(commit.subject)
    shared = len(subject & term_set(request.text)) / (len(subject) or 1) if request else 0.0
    return files / (min(len(commit.files), _FILES) or 1) + _RECENCY * math.pow(0.5, hours / _HALF_LIFE) + _SUBJECT * shared


def _tell_commit(app: "App", teller: RunTeller, commit: BlamedCommit, project: str | None) -> Iterator[Statement]:
    stored = find_session(app, teller, commit, project)
    if stored is None:
        return
    call = teller.call_of(stored)
    made = f"commit {commit.commit[:10]} of {app.calendar.day_of(commit.at_ms)} by {commit.author}: {commit.subject}"
    yield teller.tell_event("changed", f"{made}; session {stored.session_id}", call, stored)
    if request := find_requests(app, teller, [stored]).get(stored):
        yield teller.tell_event("asked", request.text, request.event, stored)
    edit = stored if stored.run.hashes(KeyKind.FILE) else _last_edit(app, teller, stored, commit.files)
    if edit is not None:
        yield teller.tell_call("edited", edit)
        if reason := teller.tell_reason(edit):
            yield reason


def _last_edit(app: "App", teller: RunTeller, commit_run: StoredRun, files: Sequence[str]) -> StoredRun | None:
    """Return the last change of one of some files before a commit, in its stream."""
    runs = app.storage.tool_runs.list_stream_runs([commit_run.stream])[commit_run.stream]
    edits = [stored for stored in runs if stored.run.hashes(KeyKind.FILE) and stored.run.call < commit_run.run.call]
    for stored in reversed(edits[-_RUNS:]):
        if any(is_same_file(file, other) for file in files for other in files_of(teller.call_of(stored))):
            return stored
    return None


def _around(commit: BlamedCommit, window: TimeWindow) -> TimeWindow:
    return TimeWindow(commit.at_ms + window.start_ms, commit.at_ms + window.end_ms)
