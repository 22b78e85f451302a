"""What hints are made from, read for a project beside the calls: calls that failed and what worked, and demands on files.

Invariants
1. A form that worked is taken only from the same stream, soon behind the failure, before any file was changed there.
2. It is no lead where a like call succeeded with what the failure was about: then something else was at fault.
3. A demand on a file is a person's own sentence that still holds.
"""

import posixpath
import re
from collections.abc import Mapping, Sequence, Set
from dataclasses import replace
from difflib import SequenceMatcher
from typing import TYPE_CHECKING

from memory_mcp.base.dataclass import dataclass
from memory_mcp.model.event import Event, Role, Trust
from memory_mcp.model.fencing import break_citations
from memory_mcp.model.hint import Hint, HintKind
from memory_mcp.model.ids import EventId, hash_parts
from memory_mcp.model.toc import MemoryKind
from memory_mcp.model.tool_run import KeyKind, StoredRun, make_hashes
from memory_mcp.requests.call_names import (
    directory_of,
    drop_moves,
    file_of,
    hash_call,
    invocation_of,
    line_of,
    name_call,
    shape_of,
    tell_from,
    words_of,
)
from memory_mcp.requests.failure_causes import (
    NO_OUTPUT,
    PROGRAM,
    Fix,
    describe_error,
    does_same,
    find_fix,
    is_position,
    list_causes,
    list_possible_causes,
    name_error,
)
from memory_mcp.requests.hints import list_unwanted
from memory_mcp.requests.run_statements import RunTeller
from memory_mcp.tree.outcomes.commands import parse_command
from memory_mcp.tree.outcomes.failures import telling_line
from memory_mcp.tree.outcomes.runs import base_name, files_of, list_files
from memory_mcp.tree.summarize.kinds import cues_of, kind_of
from memory_mcp.tree.summarize.sentences import shorten

if TYPE_CHECKING:
    from memory_mcp.app import App

#: Runs after a failure among which a form that works is looked for, and runs in which it is looked for a contradiction.
_NEAR, _MOST_RUNS = 10, 200
#: Characters of a demand at most: a longer one is a text that was pasted.
_LONGEST_DEMAND = 250
#: Likeness of two names of which one may be meant by the other.
_LIKE_NAME = 0.8
#: Letters of an argument that an error names.
_LEAST_ARGUMENT = 3
#: A pattern that nothing matches.
_NONE = "a^"
_KINDS = (MemoryKind.CONSTRAINT, MemoryKind.DECISION)
_NAMED_FILE = re.compile(r"(?:[\w.@~-]*[\\/])*[.\w@-][\w@-]*(?:\.[\w@-]+)*\.[A-Za-z]\w{0,7}\b")
#: Bytes of a hint without its fence; characters of a call and of an error in it.
MOST_BYTES, SUBJECT_WIDTH, ERROR_WIDTH = 345, 80, 70
#: Characters of a quotation, at most and at least.
_QUOTED, _LEAST_QUOTED = 150, 20


@dataclass(frozen=True, slots=True)
class Lead:
    """A hint that may be given, and to which calls; its subject and call are those of the call that it is given at."""

    hint: Hint
    #: Sessions that know it themselves.
    sessions: frozenset[str]
    #: Of the call that failed: its programs, its words without quotations and numbers, and its error without what varies.
    programs: frozenset[int] = frozenset()
    shape: frozenset[str] = frozenset()
    error: str = ""
    #: The directory in which it helps, not above and below; "": any.
    directory: str = ""
    #: Of a demand: the file as it was named, and those of its name that were changed.
    file_name: str = ""
    changed: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Leads:
    """The leads of one project; the newest first."""

    #: By what a call failed on (`list_causes`).
    calls: Mapping[str, Sequence[Lead]]
    #: By an error without what varies.
    errors: Mapping[str, Sequence[Lead]]
    #: By a line of a checker without what varies (`list_findings`): what was changed in the file that it names.
    findings: Mapping[str, Sequence[Lead]]
    #: By the file's name in lower case.
    files: Mapping[str, Sequence[Lead]]


@dataclass(frozen=True, slots=True)
class _Failure:
    """A failed call, as far as it was followed."""

    causes: tuple[str, ...]
    lead: Lead | None
    #: What of its report a change ended, and that change.
    finding: str
    fix: Lead | None
    #: Whether enough came after it that following it again gives the same.
    is_settled: bool


class LeadReader:
    """Reads the leads of one project, and of failures only those that are new or not settled."""

    def __init__(self, project: str) -> None:
        self._project = project
        self._failures: dict[tuple[EventId, EventId], _Failure] = {}
        #: Calls that were looked at for a cause, and the sessions of those that have it; and causes that are none.
        self._read_calls: dict[str, tuple[set[EventId], set[str]]] = {}
        self._disproved: set[str] = set()

    def read_leads(self, app: "App") -> Leads:
        """Return what is known now."""
        self._forget_gone(app)
        teller, unwanted = RunTeller(app, self._project), list_unwanted(app, self._project)
        runs = app.storage.tool_runs.list_failed_runs(self._project)
        keys = {(stored.run.call, stored.run.result): stored for stored in runs}
        self._follow(app, teller, {key: stored for key, stored in keys.items() if not self._is_settled(key)})
        self._failures = {key: failure for key, failure in self._failures.items() if key in keys}
        calls: dict[str, list[Lead]] = {}
        errors: dict[str, list[Lead]] = {}
        findings: dict[str, list[Lead]] = {}
        for key, stored in keys.items():
            failure = self._failures[key]
            if failure.fix is not None and failure.fix.hint.topic not in unwanted:
                findings.setdefault(failure.finding, []).append(failure.fix)
            if failure.lead is None or failure.lead.hint.topic in unwanted:
                continue
            if failure.lead.error:
                errors.setdefault(failure.lead.error, []).append(_as_error(failure.lead))
            for cause in failure.causes:
                if cause not in self._disproved and (sessions := self._list_sessions(app, teller, cause, stored)) is not None:
                    calls.setdefault(cause, []).append(replace(failure.lead, sessions=sessions))
        return Leads(calls, errors, findings, self._read_demands(app, teller, unwanted))

    def _forget_gone(self, app: "App") -> None:
        """Follow every failure again where an event that a lead quotes was forgotten."""
        leads = (lead for failure in self._failures.values() for lead in (failure.lead, failure.fix) if lead is not None)
        quoted = {event_id for lead in leads for event_id in lead.hint.evidence}
        if quoted - app.storage.events.get_events(quoted).keys():
            self._failures.clear()
            self._read_calls.clear()
            self._disproved.clear()

    def _is_settled(self, key: tuple[EventId, EventId]) -> bool:
        return key in self._failures and self._failures[key].is_settled

    def _follow(self, app: "App", teller: RunTeller, failed: Mapping[tuple[EventId, EventId], StoredRun]) -> None:
        """Find what worked behind each of some failures."""
        by_stream = app.storage.tool_runs.list_stream_runs({stored.stream for stored in failed.values()})
        for stream, runs in by_stream.items():
            for at, stored in enumerate(runs):
                key = (stored.run.call, stored.run.result)
                if key in failed and stored.stream == stream:
                    self._failures[key] = _follow_failure(app, teller, stored, runs[at + 1 :])
        for key in failed.keys() - self._failures.keys():
            self._failures[key] = _Failure((), None, "", None, is_settled=False)

    def _list_sessions(self, app: "App", teller: RunTeller, cause: str, failed: StoredRun) -> frozenset[str] | None:
        """Return the sessions that made a call with a cause; None where one succeeded: it is none."""
        kind = KeyKind.COMMAND if teller.call_of(failed).metadata.get("command", "") else KeyKind.INVOCATION
        runs = app.storage.tool_runs.find_runs(kind, failed.run.hashes(kind), self._project, _MOST_RUNS)
        read_calls, sessions = self._read_calls.setdefault(cause, (set(), {failed.session_id}))
        unread = [stored for stored in runs if stored.run.call not in read_calls]
        line = telling_line(teller.result_of(failed).text)
        teller.read_calls(unread)
        for stored in unread:
            read_calls.add(stored.run.call)
            if cause in list_possible_causes(teller.call_of(stored)):
                sessions.add(stored.session_id)
                # The status of a pipe's end hides a failure whose error was printed all the same.
                is_hidden = "|" in teller.call_of(stored).metadata.get("command", "") and line in teller.result_of(stored).text
                if not (stored.run.failed or is_hidden):
                    self._disproved.add(cause)
        return None if cause in self._disproved else frozenset(sessions)

    def _read_demands(self, app: "App", teller: RunTeller, unwanted: Set[int]) -> Mapping[str, Sequence[Lead]]:
        statements = app.storage.superseded.list_statements(_KINDS, _NONE)
        grip_ids = [statement.grip_id for statement in statements if statement.project == self._project]
        superseded = app.storage.superseded.get_successors(grip_ids)
        grips = app.storage.grips.get_grips([grip_id for grip_id in grip_ids if grip_id not in superseded])
        events = app.storage.events.get_events({grip.event_id_start for grip in grips.values()})
        demands: dict[str, list[Lead]] = {}
        for grip_id, grip in grips.items():
            event = events.get(grip.event_id_start)
            # A bullet may join what was done and what was said; what binds are the person's own words.
            demand = " ".join(event.text[grip.span_start : grip.span_end].split()) if event is not None else ""
            if event is None or event.role is not Role.USER or event.trust is Trust.AGENT_NOTE or len(demand) > _LONGEST_DEMAND:
                continue
            if kind_of(demand, cues_of(demand)) is not MemoryKind.CONSTRAINT:
                continue
            for file_name in dict.fromkeys(_NAMED_FILE.findall(demand)):
                introduction = f"On {app.calendar.day_of(event.timestamp)} the user said of {base_name(file_name)}: “"
                hint = Hint(
                    kind=HintKind.FILE,
                    subject=file_name,
                    text=cite(introduction, demand, "”", grip_id),
                    grip_id=grip_id,
                    evidence=(event.event_id,),
                    topic=hash_topic(HintKind.FILE, grip_id),
                )
                changed = self._list_changed(app, teller, base_name(file_name))
                if hint.topic not in unwanted:
                    lead = Lead(hint, frozenset({event.session_id}), file_name=file_name, changed=changed)
                    demands.setdefault(base_name(file_name).lower(), []).append(lead)
        return demands

    def _list_changed(self, app: "App", teller: RunTeller, name: str) -> frozenset[str]:
        """Return the files of a name that were changed, each with its folder."""
        runs = app.storage.tool_runs.find_runs(KeyKind.FILE, make_hashes(KeyKind.FILE, [name]), self._project, _MOST_RUNS)
        teller.read_calls(runs)
        changed = (path for stored in runs for path in files_of(teller.call_of(stored)) if base_name(path) == name)
        return frozenset("/".join(path.replace("\\", "/").split("/")[-2:]) for path in changed)


def _follow_failure(app: "App", teller: RunTeller, failed: StoredRun, later: Sequence[StoredRun]) -> _Failure:
    """Return what a call failed on, and what worked or was changed after it."""
    next_runs = later[:_NEAR]
    teller.read_runs([failed, *next_runs])
    call, error = teller.call_of(failed), teller.result_of(failed).text
    causes = tuple(list_causes(call, error))
    lead = _find_lead(app, teller, failed, next_runs, causes)
    fix = find_fix(teller, failed, next_runs)
    fix_lead = None if fix is None else _make_fix_lead(app, teller, fix)
    finding = "" if fix is None else fix.finding
    return _Failure(causes, lead, finding, fix_lead, lead is not None or fix is not None or len(next_runs) == _NEAR)


def _find_lead(
    app: "App", teller: RunTeller, failed: StoredRun, next_runs: Sequence[StoredRun], causes: Sequence[str]
) -> Lead | None:
    """Return what worked in the place of a failed call, or made it work again; None: nothing did, or it is not known."""
    call, error = teller.call_of(failed), teller.result_of(failed).text
    if not failed.run.hashes(KeyKind.ERROR):
        return None
    between, is_changed = None, False
    # A file that was changed makes no option or program known.
    is_of_form, is_of_output = _is_of_form(causes), is_position(error)
    for stored in next_runs:
        if stored.run.hashes(KeyKind.FILE):
            if not is_of_form:
                return None
            is_changed = True
        if stored.run.failed or stored.run.hashes(KeyKind.FILE):
            continue
        other = teller.call_of(stored)
        if is_of_output and teller.result_of(stored).text.strip() in NO_OUTPUT:
            continue
        if name_call(other) == name_call(call):
            if directory_of(other) != directory_of(call):
                continue
            # The same call works again: what was called in between did it.
            return _make_call_lead(app, teller, failed, between, causes) if between is not None and not is_changed else None
        if _is_other_form(call, other, causes):
            return _make_call_lead(app, teller, failed, stored, causes)
        if _may_remedy(other, error):
            between = stored
    return None


def _may_remedy(call: Event, error: str) -> bool:
    """Return whether a command may have ended an error: an installer of what the error names, or one like `npm install`."""
    line = line_of(call.metadata.get("command", ""))
    invocation = parse_command(line).invocation.split() if line else []
    arguments = [word.strip("\"'") for word in line.split() if word not in invocation]
    if not line or not arguments:
        return bool(line) and invocation == line.split()
    return "install" in invocation and any(len(word) >= _LEAST_ARGUMENT and word in error for word in arguments)


def _is_other_form(call: Event, other: Event, causes: Sequence[str]) -> bool:
    """Return whether another call does the same as a failed one, without what that failed on."""
    command, other_command = call.metadata.get("command", ""), other.metadata.get("command", "")
    if command and other_command:
        return set(causes).isdisjoint(list_possible_causes(other)) and does_same(command, other_command, causes)
    file, other_file = file_of(call), file_of(other)
    if not (file and other_file) or command or other_command or call.metadata.get("tool") != other.metadata.get("tool"):
        return False
    names = base_name(file).lower(), base_name(other_file).lower()
    return file != other_file and _share_root(call, other) and SequenceMatcher(None, *names).ratio() >= _LIKE_NAME


def _share_root(call: Event, other: Event) -> bool:
    """Return whether the files of two calls lie below the directory of the first, or in one folder."""
    root = call.metadata.get("cwd", "")
    paths = [posixpath.normpath(posixpath.join(root, list_files(each)[0].replace("\\", "/"))) for each in (call, other)]
    folders = {posixpath.dirname(path) for path in paths}
    return len(folders) == 1 or (bool(root) and all(path.startswith(root.rstrip("/") + "/") for path in paths))


def _is_of_form(causes: Sequence[str]) -> bool:
    """Return whether a call failed on an option or a program, wherever it ran."""
    return any(cause.startswith(("-", PROGRAM)) for cause in causes)


def _make_call_lead(app: "App", teller: RunTeller, failed: StoredRun, working: StoredRun, causes: Sequence[str]) -> Lead | None:
    """Return the lead to a call that worked; None where its words cannot say what it does in another way."""
    failed_call, call = teller.call_of(failed), teller.call_of(working)
    proof, directory = teller.tell_call("works", working), directory_of(failed_call)
    name = tell_from(directory, call)
    text = cite(f"{_describe_failure(app, teller, failed)}; then `", name, "` worked", proof.grip)
    if not name or not _tells_difference(text, failed_call, call, name):
        return None
    topic_words = sorted(causes) if failed_call.metadata.get("command", "") else [file_of(failed_call)]
    hint = Hint(
        kind=HintKind.COMMAND,
        subject="",
        text=text,
        grip_id=proof.grip,
        evidence=(failed.run.call, failed.run.result, working.run.call),
        topic=hash_topic(HintKind.COMMAND, *(topic_words or map(drop_moves, (name_call(failed_call), name)))),
        remedy=invocation_of(call),
        remedy_name=hash_call(name_call(call)),
    )
    is_bound = directory == directory_of(call) and not _is_of_form(causes) and bool(failed_call.metadata.get("command", ""))
    return replace(_make_failure_lead(teller, failed, hint), directory=directory if is_bound else "")


def _tells_difference(text: str, failed: Event, call: Event, name: str) -> bool:
    """Return whether a text quotes each word that a call has and a failed one has not; of a file its whole name."""
    if not call.metadata.get("command", ""):
        return name in text
    different = shape_of(name) - shape_of(failed.metadata.get("command", ""))
    return {word for word in different if "#" not in word} <= words_of(text.rpartition("; then `")[2])


def _make_fix_lead(app: "App", teller: RunTeller, fix: Fix) -> Lead:
    proof = teller.tell_call("ended", fix.change)
    before = f"{_describe_failure(app, teller, fix.failed, fix.printed)}; it ended with {fix.tool} {fix.file}: `"
    hint = Hint(
        kind=HintKind.ERROR,
        subject="",
        text=cite(before, fix.new_line, "`", proof.grip),
        grip_id=proof.grip,
        evidence=(fix.failed.run.call, fix.failed.run.result, fix.change.run.call),
        topic=hash_topic(HintKind.ERROR, fix.finding),
    )
    return replace(_make_failure_lead(teller, fix.failed, hint), error=fix.finding)


def _make_failure_lead(teller: RunTeller, failed: StoredRun, hint: Hint) -> Lead:
    shape = shape_of(teller.call_of(failed).metadata.get("command", ""))
    error = name_error(teller.result_of(failed).text)
    return Lead(hint, frozenset({failed.session_id}), failed.run.hashes(KeyKind.COMMAND), shape, error)


def _describe_failure(app: "App", teller: RunTeller, failed: StoredRun, line: str = "") -> str:
    day = app.calendar.day_of(failed.run.start_ms)
    line = line or describe_error(teller.result_of(failed).text)
    return f"`{shorten(name_call(teller.call_of(failed)), SUBJECT_WIDTH)}` failed here on {day} ({shorten(line, ERROR_WIDTH)})"


def _as_error(lead: Lead) -> Lead:
    return replace(lead, hint=replace(lead.hint, kind=HintKind.ERROR))


def cite(prefix: str, quoted: str, suffix: str, grip: str) -> str:
    """Return a text with its citation; the quotation in it is shortened to fit `MOST_BYTES`, as far as that goes."""
    width = min(len(quoted), _QUOTED)
    while True:
        cited = f"{break_citations(prefix + shorten(quoted, width) + suffix)} [{grip}]"
        if len(cited.encode()) <= MOST_BYTES or width <= _LEAST_QUOTED:
            return cited
        width -= 10


def hash_topic(kind: HintKind, *words: str) -> int:
    """Return a number that is equal for hints that say the same of the same."""
    return hash_parts("hint", kind, *words, bits=60)
