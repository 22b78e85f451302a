"""What earlier calls say about an error or a command: what ended it, what works, what failed."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, islice, takewhile
from operator import itemgetter
from typing import TYPE_CHECKING, NamedTuple

from memory_mcp.model.tool_run import KeyKind, StoredRun, make_hashes, make_key
from memory_mcp.requests.call_names import is_alike, shape_of
from memory_mcp.requests.run_statements import RunTeller, Statement, duration_of, median_duration
from memory_mcp.tree.outcomes.commands import parse_command
from memory_mcp.tree.outcomes.endings import Ending, find_ending, is_change, list_changes, list_endings
from memory_mcp.tree.outcomes.failures import error_signs
from memory_mcp.tree.outcomes.runs import name_invocation

if TYPE_CHECKING:
    from memory_mcp.app import App

#: Runs of an error or a command that are read; their streams; and errors and commands whose words are compared.
_MOST_RUNS, _MOST_STREAMS, _COMPARED, _COMMANDS = 200, 12, 12, 24
#: Runs after a failure among which another form of the call is looked for.
_NEAR = 6
#: Courses of an error that are stated, of how many.
_STATED, _CONSIDERED = 2, 5
#: Share of the best run's weight from which another one is the same error.
_SAME = 0.5


class Recollection(NamedTuple):
    """A word for the outcome, and statements, the most useful first."""

    outcome: str
    statements: list[Statement]


def recall_error(app: "App", text: str, project: str | None, command: str = "") -> Recollection:
    """Return how an error went before: resolved, unresolved, or not seen.

    With `command` courses of that command come first.
    """
    lines = error_signs(text)
    signs = make_hashes(KeyKind.ERROR, lines)
    runs = find_error_runs(app, text, project)
    if not runs:
        return Recollection("not_seen", [])
    teller = RunTeller(app, project)
    counts = _count_signs(runs, signs)
    weights = _weigh_runs(runs, signs, counts)
    by_weight = sorted(runs, key=lambda stored: -weights[stored])
    nearest = teller.nearest_to(text, by_weight[:_COMPARED])
    courses = _list_courses(app, teller, [*nearest, *by_weight[_COMPARED:]], signs)
    same_call = make_hashes(KeyKind.INVOCATION, _invocations(command)) if command else frozenset()
    courses.sort(key=lambda course: (course.success is None, not same_call & course.failures[-1].run.hashes(KeyKind.INVOCATION)))
    resolved = [course for course in courses if course.success is not None]
    occurrence = _state_seen(app, teller, runs, nearest[0], _find_rarest(lines, nearest[0], counts))
    statements = _list_course_statements(app, teller, resolved or courses, project)
    if not resolved and (forms := _find_other_forms(app, teller, [course.failures[-1] for course in courses])) is not None:
        return Recollection(
            "resolved", [occurrence, teller.tell_call("then", forms[1], after=" succeeded in its place"), *statements]
        )
    return Recollection("resolved" if resolved else "unresolved", [occurrence, *statements])


def find_error_runs(app: "App", text: str, project: str | None, limit: int = _MOST_RUNS) -> list[StoredRun]:
    """Return the calls that met an error, newest first, of the newest `limit` that share a line of it."""
    signs = make_hashes(KeyKind.ERROR, error_signs(text))
    return _select_same(app.storage.tool_runs.find_runs(KeyKind.ERROR, signs, project, limit), signs)


def recall_command(app: "App", text: str, project: str | None) -> Recollection:
    """Return how a command works here: works, fails, or not seen.

    Where it was never called as it is, each of its programs counts; where that only failed, what worked in its place.
    """
    teller = RunTeller(app, project)
    failed: list[StoredRun] = []
    works: list[Statement] = []
    failures: list[Statement] = []
    for kind, form in [(KeyKind.INVOCATION, _invocations(text)), *((KeyKind.COMMAND, [each]) for each in _programs(text))]:
        runs = app.storage.tool_runs.find_runs(kind, make_hashes(kind, form), project, _MOST_RUNS)
        if any(not stored.run.failed for stored in runs):
            works.append(_tell_working(teller, text, runs))
            failures += _tell_failures(app, teller, runs) if len(works) == 1 else ()
        elif (form_runs := _find_other_forms(app, teller, runs)) and not works:
            works.append(teller.tell_call("works", form_runs[1], after=" worked in its place"))
            failures.append(_tell_failed_call(teller, form_runs[0]))
        failed += runs
        if works and (kind is KeyKind.INVOCATION or len(works) == _STATED):
            break
    if works:
        return Recollection("works", [*works, *failures])
    failed = list(dict.fromkeys(failed))
    statements = [teller.tell_failure("failed", stored) for stored in failed[:_STATED]]
    return Recollection("fails" if failed else "not_seen", statements)


def _invocations(text: str) -> list[str]:
    """Return the forms that a text may have as a command line and as a tool's name."""
    return [form for form in dict.fromkeys((parse_command(text).invocation, text.strip().lower())) if form]


def _programs(text: str) -> list[str]:
    return [*name_invocation("", text)[1], text.strip().lower()]


def _select_same(runs: Sequence[StoredRun], signs: frozenset[int]) -> list[StoredRun]:
    """Return the runs that share the rare lines of an error; newest first."""
    weights = _weigh_runs(runs, signs, _count_signs(runs, signs))
    least = _SAME * max(weights.values(), default=0.0)
    return [stored for stored in runs if weights[stored] >= least]


def _count_signs(runs: Sequence[StoredRun], signs: frozenset[int]) -> Counter[int]:
    """Return how many runs have each line of an error, by its hash."""
    return Counter(value for stored in runs for value in stored.run.hashes(KeyKind.ERROR) & signs)


def _weigh_runs(runs: Sequence[StoredRun], signs: frozenset[int], counts: Mapping[int, int]) -> dict[StoredRun, float]:
    """Return how much of an error each run shares: a line counts the more, the fewer runs have it."""
    return {stored: sum(1 / counts[value] for value in stored.run.hashes(KeyKind.ERROR) & signs) for stored in runs}


def _find_rarest(lines: Sequence[str], stored: StoredRun, counts: Mapping[int, int]) -> str:
    """Return the line of an error that a run shares and fewest runs have, the first of equals."""
    hashes = {line: make_key(KeyKind.ERROR, line)[1] for line in lines}
    shared = (line for line, value in hashes.items() if value in stored.run.hashes(KeyKind.ERROR))
    return min(shared, key=lambda line: counts[hashes[line]])


def _list_courses(app: "App", teller: RunTeller, runs: Sequence[StoredRun], signs: frozenset[int]) -> list[Ending]:
    """Return the courses of an error, each once, in the order of the runs that they are of."""
    streams = list(dict.fromkeys(stored.stream for stored in runs))[:_MOST_STREAMS]
    by_stream = app.storage.tool_runs.list_stream_runs(streams)
    failed = [stored for stream in streams for stored in by_stream[stream] if stored.run.hashes(KeyKind.ERROR) & signs]
    invocations = frozenset[int]().union(*(stored.run.hashes(KeyKind.INVOCATION) for stored in failed))
    same_form = (stored for stream in streams for stored in by_stream[stream] if not stored.run.failed)
    successes = (stored for stored in same_form if stored.run.hashes(KeyKind.INVOCATION) & invocations)
    teller.read_calls(islice(chain(failed, successes), _MOST_RUNS))
    courses = [course for stream in streams for course in list_endings(by_stream[stream], signs, teller.is_same_call)]
    ranks = {stored: rank for rank, stored in enumerate(runs)}
    ranked = [(min(ranks.get(failed, len(runs)) for failed in course.failures), course) for course in courses]
    return [course for rank, course in sorted(ranked, key=itemgetter(0)) if rank < len(runs)]


def _state_seen(app: "App", teller: RunTeller, runs: Sequence[StoredRun], nearest: StoredRun, line: str) -> Statement:
    sessions, projects = {stored.session_id for stored in runs}, {stored.project for stored in runs}
    places = f" of {len(projects)} projects" if len(projects) > 1 else ""
    times = f"{len(runs)} times" if len(runs) > 1 else "once"
    days = [app.calendar.day_of(stored.run.start_ms) for stored in (runs[-1], runs[0])]
    span = days[0] if days[0] == days[1] else f"{days[0]} to {days[1]}"
    words = f"seen {times} in {len(sessions)} session{'s' if len(sessions) > 1 else ''}{places}, {span}: "
    return teller.tell_failure("seen", nearest, words, [line])


def _list_course_statements(app: "App", teller: RunTeller, courses: Sequence[Ending], project: str | None) -> list[Statement]:
    """Return statements of the first courses that do not end alike."""
    by_text: dict[tuple[str, str], Statement] = {}
    count = 0
    for course in courses[:_CONSIDERED]:
        statements = {(s.about, s.text): s for s in _iter_course(app, teller, course, project)}
        if not by_text or any(about == "ended" for about, _ in statements.keys() - by_text.keys()):
            by_text |= {key: statement for key, statement in statements.items() if key not in by_text}
            count += 1
        if count == _STATED:
            break
    return list(by_text.values())


def _iter_course(app: "App", teller: RunTeller, course: Ending, project: str | None) -> Iterator[Statement]:
    """Yield what ended an error, why, and what was tried in vain."""
    success, changes = course.success, course.changes
    failed = course.failures[-1]
    if success is None and (later := _find_later_success(app, failed, project)) is not None:
        success = later
        runs = app.storage.tool_runs.list_stream_runs([later.stream])[later.stream]
        changes = list_changes([stored for stored in runs if stored.run.result < later.run.call], failed)
    teller.read_runs([*changes, *course.attempts, failed, *([success] if success else [])])
    for change in changes:
        yield teller.tell_call("ended", change)
    if success is not None:
        took = duration_of(max(success.run.start_ms - failed.run.start_ms, 0))
        count = len(course.failures)
        last = f"the last of {count} failures" if count > 1 else "the failure"
        yield teller.tell_call("then", success, after=f" succeeded, {took} after {last}")
        if changes and (reason := teller.tell_reason(changes[0])):
            yield reason
    for attempt in course.attempts:
        yield teller.tell_call("in_vain", attempt)


def _find_later_success(app: "App", failed: StoredRun, project: str | None) -> StoredRun | None:
    """Return the first success of the same call in a later session of the project."""
    runs = app.storage.tool_runs.find_runs(
        KeyKind.INVOCATION, failed.run.hashes(KeyKind.INVOCATION), failed.project if project is None else project, _MOST_RUNS
    )
    later = [stored for stored in runs if not stored.run.failed and stored.run.call > failed.run.result]
    return min(later, key=lambda stored: stored.run.call, default=None)


def _find_other_forms(app: "App", teller: RunTeller, runs: Sequence[StoredRun]) -> tuple[StoredRun, StoredRun] | None:
    """Return a failed call, and one that did the same in another form soon after it, before a file was changed."""
    failed = [stored for stored in runs if stored.run.failed][:_CONSIDERED]
    by_stream = app.storage.tool_runs.list_stream_runs(dict.fromkeys(stored.stream for stored in failed))
    for stored in failed:
        stream_runs = by_stream[stored.stream]
        position = stream_runs.index(stored) + 1
        later = list(takewhile(lambda run: not run.run.hashes(KeyKind.FILE), stream_runs[position : position + _NEAR]))
        teller.read_calls([stored, *later])
        command = teller.call_of(stored).metadata.get("command", "")
        for other in later:
            other_command = teller.call_of(other).metadata.get("command", "")
            if not other.run.failed and command and other_command and _is_other_form(command, other_command):
                return stored, other
    return None


def _is_other_form(command: str, other: str) -> bool:
    """Return whether two command lines share most words, or all but the program."""
    shape, other_shape = shape_of(command), shape_of(other)
    arguments = shape - {command.split(maxsplit=1)[0]}
    return is_alike(shape, other_shape) or (bool(arguments) and arguments == other_shape - {other.split(maxsplit=1)[0]})


def _tell_working(teller: RunTeller, text: str, runs: Sequence[StoredRun]) -> Statement:
    """Return the form that works, with where, with what and how long."""
    successes = [stored for stored in runs if not stored.run.failed]
    best = teller.nearest_command(text, successes[:_COMMANDS])
    call = teller.call_of(best)
    variables = parse_command(call.metadata.get("command", "")).variables
    directory = call.metadata.get("cwd", "")
    where = f" in {directory}" if directory else ""
    with_variables = f", with {', '.join(variables)} set" if variables else ""
    took = median_duration(successes)
    takes = f", takes about {took}" if took else ""
    return teller.tell_call(
        "works", best, after=f"{where}{with_variables} ({len(successes)} of {len(runs)} calls succeeded{takes})"
    )


def _tell_failures(app: "App", teller: RunTeller, runs: Sequence[StoredRun]) -> Iterator[Statement]:
    """Yield how a command failed before, and what ended that."""
    failures = [stored for stored in runs if stored.run.failed]
    teller.read_runs(failures[:_CONSIDERED])
    by_line = {teller.tell_failure("failed", stored).text: stored for stored in reversed(failures[:_CONSIDERED])}
    stated = list(reversed(by_line.values()))[:_STATED]
    by_stream = app.storage.tool_runs.list_stream_runs({stored.stream for stored in stated})
    for stored in stated:
        yield _tell_failed_call(teller, stored)
        course = find_ending(by_stream[stored.stream], stored.run.hashes(KeyKind.ERROR))
        changes = [change for change in course.changes if is_change(change)] if course is not None else []
        yield from (teller.tell_call("ended", change) for change in changes[:1])


def _tell_failed_call(teller: RunTeller, stored: StoredRun) -> Statement:
    return teller.tell_call("failed", stored, after=f": {teller.tell_failure('failed', stored).text}")
