"""What was said about a file, and who changed it for which request."""

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from memory_mcp.base.scope import find_head
from memory_mcp.model.event import Event, EventType, Role
from memory_mcp.model.ids import segment_key_of
from memory_mcp.model.toc import MemoryKind
from memory_mcp.model.tool_run import KeyKind, StoredRun, make_hashes
from memory_mcp.requests.run_history import Recollection
from memory_mcp.requests.run_statements import RunTeller, Statement, path_below
from memory_mcp.storage.records import StoredStatement
from memory_mcp.tree.outcomes.commands import list_moves
from memory_mcp.tree.outcomes.runs import base_name, files_of
from memory_mcp.tree.summarize.decisions import PICKERS
from memory_mcp.tree.summarize.kinds import cues_of, kind_of
from memory_mcp.tree.summarize.sentences import clean_text, find_spans
from memory_mcp.tree.toc.doings import QuotedSpan, is_telling, request_of

if TYPE_CHECKING:
    from memory_mcp.app import App

#: Changes of files of this name that are read, sessions of them that are told, and statements.
_MOST_RUNS, _TOLD, _SAID = 60, 2, 4
#: Renames that are followed.
_RENAMES = 3
#: Events that hold what was said.
_SPOKEN = frozenset({EventType.USER_MESSAGE, EventType.ASSISTANT_MESSAGE, EventType.ASSISTANT_STOP, EventType.NOTE})
_PATH = re.compile(r"[\w@+.~$\\/-]+")
#: A line of a list of files: the file, a dash, and what was done to it or is in it.
_ENTRY = re.compile(r"\W*\S+[*`]* +(?:-{1,2}|–|—) ")
#: Kinds of statements that stay true, the most binding first; the others come last.
_KINDS = (MemoryKind.CONSTRAINT, MemoryKind.DECISION, MemoryKind.PREFERENCE, MemoryKind.PROCEDURE, MemoryKind.DEFINITION)
#: Segments of a stream, back from a change, in which its request is looked for.
_SEGMENTS = 4


def recall_file(app: "App", path: str, project: str | None, directory: str) -> Recollection:
    """Return what was said about a file and who changed it: known or not seen.

    First what was said about it and still holds, then who changed it last and what for. `directory` is where a caller on this
    machine works: it is asked for names that the file had or has.
    """
    teller = RunTeller(app, project)
    names = [path, *app.later_changes.list_names(path, project, directory)[:_RENAMES]]
    below = path_in_project(path, project, directory)
    changes, names = list_changes(app, teller, names, project, below=below)
    is_of_one = len({stored.project for stored in changes}) == 1
    names += [below] if "/" in below and is_of_one and below not in names else []
    holding = {each.grip: each for name in names for each in _list_holding(app, teller, name, project)}
    statements = [*list(holding.values())[:_SAID], *_tell_changes(app, teller, changes)]
    return Recollection("known" if statements else "not_seen", statements)


def path_in_project(path: str, project: str | None, directory: str) -> str:
    """Return a file's path below its repository; "" where it is none, or lies elsewhere.

    The repository is that of `directory`, where a caller on this machine works; without it a project's own path.
    """
    head = find_head(directory) if directory else None
    root = _unify(head[0] if head is not None else directory or project or "")
    below = path_below(_unify(path), root) if _is_absolute(root) else ""
    return "" if _is_absolute(below) or below == _unify(path) else below


def list_changes(
    app: "App", teller: RunTeller, names: Sequence[str], project: str | None, limit: int = _MOST_RUNS, below: str = ""
) -> tuple[list[StoredRun], list[str]]:
    """Return the changes of a file, newest first, and the paths that it had, the present one first.

    For each path the newest `limit` changes of files of that name are read. `below` is the file's path in its repository: a
    session that was carried from another machine names it under another root. Every repository may have a file of that path:
    it counts in one project alone, that of the file's own changes if it has any.
    """
    paths, changes, carried = list(names), list[StoredRun](), list[StoredRun]()
    for name in paths:
        hashes = make_hashes(KeyKind.FILE, [base_name(name)])
        runs = app.storage.tool_runs.find_runs(KeyKind.FILE, hashes, project, limit)
        teller.read_runs(runs)
        for stored in runs:
            call = teller.call_of(stored)
            moved = [old for old, new in list_moves(call.metadata.get("command", "")) if is_same_file(name, new)]
            if moved or any(is_same_file(name, file) for file in files_of(call)):
                changes.append(stored)
            elif any(_is_below(below, file, call) for file in files_of(call)):
                carried.append(stored)
            # What it was called before counts too, as far as that is another name.
            paths += [old for old in moved if old not in paths and len(paths) <= _RENAMES]
    projects = {stored.project for stored in changes or carried}
    changes += [stored for stored in carried if projects == {stored.project}]
    return sorted(dict.fromkeys(changes), key=lambda stored: stored.run.call, reverse=True), paths


def is_same_file(path: str, other: str) -> bool:
    """Return whether two paths may name one file: one ends in the parts of the other."""
    parts, other_parts = ([part for part in re.split(r"[\\/]", text) if part not in ("", ".")] for text in (path, other))
    shorter = min(len(parts), len(other_parts))
    return shorter > 0 and parts[-shorter:] == other_parts[-shorter:]


def _is_below(below: str, file: str, call: Event) -> bool:
    """Return whether a call's file has a path in the repository, by the roots that the call tells of."""
    roots = (call.metadata.get("cwd", ""), call.project)
    # A name alone is that of a file in each directory.
    return "/" in below and any(path_below(_unify(file), _unify(root)) == below for root in roots)


def _unify(path: str) -> str:
    """Return a path with slashes of one kind."""
    return path.replace("\\", "/").removeprefix("./")


def _is_absolute(path: str) -> bool:
    return path.startswith("/") or path[1:3] == ":/"


def find_requests(app: "App", teller: RunTeller, runs: Iterable[StoredRun]) -> dict[StoredRun, QuotedSpan]:
    """Return the person's last request before each call, in its stream; each segment is read once."""
    all_runs = list(runs)
    pending = [stored for stored in all_runs if stored.run.call not in teller.requests]
    segments = app.storage.toc.get_segments([stored.run.segment for stored in pending]) if pending else {}
    cuts = app.storage.toc.get_cuts({segment.stream for segment in segments.values()}) if segments else {}
    earlier_cuts = {
        stored: [cut for cut in cuts[segment.stream] if cut.start <= segment.start][: -_SEGMENTS - 1 : -1]
        for stored in pending
        if (segment := segments.get(stored.run.segment)) is not None
    }
    teller.read_runs(pending)
    teller.requests |= dict.fromkeys((stored.run.call for stored in pending), None)
    for distance in range(_SEGMENTS):
        cut_of_run = {stored: cuts[distance] for stored, cuts in earlier_cuts.items() if distance < len(cuts)}
        by_segment = app.storage.events.events_by_segment(list({cut.key: cut for cut in cut_of_run.values()}.values()))
        for stored, cut in cut_of_run.items():
            if (request := _last_request(by_segment.get(cut.key, ()), teller.call_of(stored))) is not None:
                teller.requests[stored.run.call] = request
                del earlier_cuts[stored]
        if not earlier_cuts:
            break
    return {stored: request for stored in all_runs if (request := teller.requests[stored.run.call]) is not None}


def _last_request(events: Sequence[Event], call: Event) -> QuotedSpan | None:
    for event in reversed(events):
        if event.order < call.order and (request := request_of(event)) is not None and is_telling(request.text):
            return request
    return None


def _tell_changes(app: "App", teller: RunTeller, changes: Sequence[StoredRun]) -> Iterator[Statement]:
    """Yield the last change of each of the latest sessions, and its request."""
    last_by_session: dict[str, StoredRun] = {}
    for stored in changes:
        if not stored.run.failed:
            last_by_session.setdefault(stored.session_id, stored)
    for session, stored in list(last_by_session.items())[:_TOLD]:
        call = teller.call_of(stored)
        by = f" by {call.agent}" if call.agent else ""
        yield teller.tell_call("changed", stored, after=f"{by}, session {session}")
        if request := find_requests(app, teller, [stored]).get(stored):
            yield teller.tell_event("asked", request.text, request.event, stored)


def _list_holding(app: "App", teller: RunTeller, path: str, project: str | None) -> list[Statement]:
    """Return statements that bind a file and still hold; binding kinds first, then the newest."""
    naming = app.storage.superseded.list_statements((), rf"(?:^|[^\w.-]){re.escape(base_name(path).lower())}(?:$|[^\w/-])")
    in_scope = [each for each in naming if (project is None or each.project == project) and each.kind in _KINDS]
    successors = app.storage.superseded.get_successors(each.grip_id for each in in_scope)
    current = [each for each in in_scope if each.grip_id not in successors]
    grips = app.storage.grips.get_grips([each.grip_id for each in current])
    events = app.storage.events.get_events({grip.event_id_start for grip in grips.values()})
    sources = {grip_id: events.get(grip.event_id_start) for grip_id, grip in grips.items()}
    holding = [each for each in current if (source := sources.get(each.grip_id)) and _binds_file(each, source, path)]
    holding.sort(key=lambda each: each.node_id, reverse=True)
    holding.sort(key=lambda each: _KINDS.index(MemoryKind(each.kind)))
    return [_tell_stored(app, teller, each) for each in holding[:_SAID]]


def _binds_file(stored: StoredStatement, source: Event, path: str) -> bool:
    """Return whether a statement was said of a file by a person or an agent, and is of its kind where it names the file.

    What a tool printed decides nothing, save the choice that a person made in a list. A bullet may join several sentences, and
    an agent's list of files tells what was done to each.
    """
    if source.metadata.get("tool") not in PICKERS and (source.type not in _SPOKEN or source.role is Role.TOOL):
        return False
    naming = [text for text in _list_sentences(stored.text) if _names_file(text, path)]
    if source.role is not Role.ASSISTANT and stored.kind == MemoryKind.DECISION:
        return bool(naming)
    kinds = {kind_of(text, cues_of(text)) for text in naming if not _ENTRY.match(text)}
    return not kinds.isdisjoint(_KINDS)


def _list_sentences(text: str) -> list[str]:
    return [clean_text(text[span.start : span.end]) for span in find_spans(text)] or [text]


def _names_file(text: str, path: str) -> bool:
    """Return whether a text names a file by its name, and not another one of that name by its folder."""
    name = base_name(path).casefold()
    mentions = (mention.rstrip(".") for mention in _PATH.findall(text))
    return any(base_name(each).casefold() == name and is_same_file(path, each) for each in mentions)


def _tell_stored(app: "App", teller: RunTeller, stored: StoredStatement) -> Statement:
    key = segment_key_of(stored.node_id)
    segments = app.storage.toc.get_segments([key] if key is not None else [])
    at_ms = segments[key].start[0] if key in segments else None
    return teller.make_statement(stored.kind, stored.text, stored.grip_id, at_ms, stored.project)
