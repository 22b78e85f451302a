"""Calls with their outcomes, read from a segment's events. Pure."""

import re
from collections.abc import Collection, Iterator, Sequence

from memory_mcp.base.patterns import lazy_pattern
from memory_mcp.model.event import Event, EventDraft, EventType
from memory_mcp.model.ids import EventId
from memory_mcp.model.tool_run import KeyKind, RunKey, ToolRun, make_keys
from memory_mcp.tree.outcomes.commands import list_moves, parse_command
from memory_mcp.tree.outcomes.failures import ended_by_person, ends_in_failure, error_signs

#: Files of one call that are named.
_MOST_FILES = 8
#: Tools that change the files they name, in the spelling of any client: MultiEdit, write_to_file, str_replace, apply_patch.
_EDITS = lazy_pattern(r"edit|write|patch|replace", re.I)
_PATCH = "apply_patch"


def runs_of(events: Sequence[Event], segment: int, fresh: Collection[EventId] | None = None) -> tuple[ToolRun, ...]:
    """Return the calls of a segment that have an outcome, in order of their results.

    With `fresh` only those of which the call or the result is among these events.
    """
    waiting: dict[str, list[Event]] = {}
    for event in events:
        if event.type is EventType.TOOL_CALL and (use_id := event.metadata.get("tool_use_id", "")):
            waiting.setdefault(use_id, []).append(event)
    runs: list[ToolRun] = []
    for event in events:
        calls = waiting.get(event.metadata.get("tool_use_id", "")) if event.type is EventType.TOOL_RESULT else None
        if calls:
            call = _take_call(calls, event)
            is_fresh = fresh is None or call.event_id in fresh or event.event_id in fresh
            if is_fresh and not ended_by_person(event.text):
                failed = is_failure(event, call.metadata.get("command", ""))
                runs.append(ToolRun(segment, call.event_id, event.event_id, failed, tuple(_make_keys(call, event, failed))))
    return tuple(runs)


def _take_call(calls: list[Event], result: Event) -> Event:
    """Take the call of a result out of those with its id: the last one before it, else the first.

    Ids may come again in a session, and where a source tells only the minute, a result may stand before its call.
    """
    earlier_calls = [call for call in calls if call.order < result.order]
    call = earlier_calls[-1] if earlier_calls else calls[0]
    calls.remove(call)
    return call


def is_failure(result: Event | EventDraft, command: str = "") -> bool:
    """Return whether a result tells of a failure.

    By what the client marks, and where that is nothing or the status of a pipe's end, by what the output ends in.
    """
    status = result.metadata.get("exit_status", "") or "0"
    if result.metadata.get("is_error") == "true" or status != "0":
        return True
    return bool(command) and ("|" in command or not result.metadata.get("exit_status")) and ends_in_failure(result.text)


def changes_files(event: Event) -> bool:
    """Return whether an event calls a tool that changes files."""
    tool = event.metadata.get("tool", "")
    if event.type is not EventType.TOOL_CALL or not _EDITS.search(tool):
        return False
    return tool == _PATCH or bool(event.metadata.get("files") or event.metadata.get("file"))


def files_of(call: Event | EventDraft) -> list[str]:
    """Return the files that a call names, the first `_MOST_FILES`."""
    return list_files(call)[:_MOST_FILES]


def list_files(call: Event | EventDraft) -> list[str]:
    """Return all files that a call names."""
    file_names = call.metadata.get("files", "") or call.metadata.get("file", "")
    return [name for name in file_names.splitlines() if name]


def name_invocation(tool: str, command: str, files: Sequence[str] = ()) -> tuple[str, tuple[str, ...]]:
    """Return the normal form of a call, and its programs or the tool's name.

    `command` is a shell's command line, "" for other tools.
    """
    if command:
        form = parse_command(command)
        return form.invocation, form.programs
    name = tool.lower()
    return " ".join((name, *sorted({base_name(file) for file in files}))), (name,)


def base_name(path: str) -> str:
    """Return the last part of a path, whichever slashes it has."""
    return path.replace("\\", "/").rstrip("/").rsplit("/", 1)[-1]


def _make_keys(call: Event, result: Event, failed: bool) -> Iterator[RunKey]:
    files = files_of(call)
    command = call.metadata.get("command", "")
    invocation, programs = name_invocation(call.metadata.get("tool", ""), command, files)
    yield from make_keys(KeyKind.INVOCATION, [invocation] if invocation else [])
    if command or failed:
        yield from make_keys(KeyKind.COMMAND, programs)
    changed = files if changes_files(call) else [path for move in list_moves(command) for path in move]
    yield from make_keys(KeyKind.FILE, [base_name(file) for file in changed[: 2 * _MOST_FILES]])
    if failed:
        yield from make_keys(KeyKind.ERROR, error_signs(result.text))
