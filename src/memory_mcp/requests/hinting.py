"""Chooses what is worth saying at a call of a tool; reads nothing."""

import re
from collections.abc import Iterable, Iterator, Set
from dataclasses import replace

from memory_mcp.base.dataclass import dataclass
from memory_mcp.model.event import EventDraft
from memory_mcp.model.hint import Hint
from memory_mcp.model.tool_run import KeyKind, make_hashes
from memory_mcp.requests.call_names import directory_of, hash_call, invocation_of, is_alike, name_call, shape_of
from memory_mcp.requests.failure_causes import list_findings, list_possible_causes, name_error
from memory_mcp.requests.file_history import is_same_file
from memory_mcp.requests.hint_leads import MOST_BYTES, Lead, Leads
from memory_mcp.tree.outcomes.runs import base_name, list_files, name_invocation

_PATCHED = re.compile(r"^\*\*\* (?:Add|Update|Delete) File: (.+)$", re.M)
#: What a call that writes a file brings along, in the spelling of any client.
_CONTENT = re.compile(r"^(?:contents?|new_?str(?:ing)?|old_?str(?:ing)?|file_text|insert_text|edits|patch|diff): ?", re.M | re.I)
_PATH = re.compile(r"^(?:filePath|file_path|absolute_path|path): (.+)$", re.M)


@dataclass(frozen=True, slots=True)
class Action:
    """A call of a tool as a hook tells of it: before it ran, or with how it failed."""

    session_id: str
    project: str
    call: EventDraft
    #: What it failed with; "": it did not run yet.
    error: str = ""

    @property
    def files(self) -> list[str]:
        """The files that are written."""
        call = self.call
        if patched := _PATCHED.findall(call.metadata.get("command", "") or call.text):
            return [file.strip() for file in patched]
        # A tool that takes a path and no content reads.
        return (list_files(call) or _PATH.findall(call.text)) if _CONTENT.search(call.text) else []

    @property
    def error_names(self) -> Set[str]:
        """What it failed with, without what varies: its error, and what a checker found."""
        return {name_error(self.error), *list_findings(self.error)} - {""} if self.error else frozenset()

    @property
    def programs(self) -> frozenset[int]:
        """The keys of its programs, or of its tool."""
        metadata = self.call.metadata
        return make_hashes(KeyKind.COMMAND, name_invocation(metadata.get("tool", ""), metadata.get("command", ""))[1])


class SessionKnowledge:
    """What one session knows: topics of its hints, hashes of its calls, and normal forms of its errors."""

    def __init__(self, topics: Iterable[int] = ()) -> None:
        self.topics = set(topics)
        self.calls: set[int] = set()
        self.errors: set[str] = set()

    def add_action(self, action: Action) -> None:
        """Note a call, or what it failed with."""
        if action.error:
            self.errors |= action.error_names
        else:
            self.calls.add(hash_call(name_call(action.call)))

    def withdraw_hint(self, hint: Hint, action: Action) -> None:
        """Forget that a hint was told, and the error that it was told at."""
        self.topics.discard(hint.topic)
        self.errors -= action.error_names

    def covers(self, lead: Lead, action: Action) -> bool:
        """Return whether nothing of a lead is new to the session."""
        is_tried = bool(action.error) and lead.hint.remedy_name in self.calls
        return is_tried or lead.hint.topic in self.topics or lead.error in self.errors


def find_hints(leads: Leads, action: Action, knowledge: SessionKnowledge) -> Iterator[Hint]:
    """Yield what may be said before a call or after its failure, the most useful first.

    The subject is the whole call as it came, with what may be secret in it.
    """
    if not action.error and hash_call(name_call(action.call)) in knowledge.calls:
        # The session made this very call before: it knows how that goes.
        return
    directory = directory_of(action.call)
    for lead in _list_error_leads(leads, action) if action.error else _list_call_leads(leads, action):
        is_elsewhere = bool(lead.directory) and _is_within(lead.directory, directory)
        if (
            action.session_id not in lead.sessions
            and not is_elsewhere
            and not knowledge.covers(lead, action)
            and len(lead.hint.text.encode()) <= MOST_BYTES
        ):
            file = action.files[0] if lead.file_name and action.files else ""
            yield replace(lead.hint, subject=file or name_call(action.call), call=invocation_of(action.call))


def _list_call_leads(leads: Leads, action: Action) -> Iterator[Lead]:
    for file in action.files:
        for lead in leads.files.get(base_name(file).lower(), ()):
            if is_same_file(lead.file_name, file) and ("/" in lead.file_name or _is_unique(file, lead)):
                yield lead
    programs, shape = action.programs, shape_of(action.call.metadata.get("command", ""))
    for cause in list_possible_causes(action.call):
        yield from _sort_by_shape((lead for lead in leads.calls.get(cause, ()) if lead.programs & programs), shape)


def _is_within(directory: str, other: str) -> bool:
    """Return whether one of two directories lies in the other; two that lie apart may be copies of one."""
    return directory != other and (f"{directory}/".startswith(f"{other}/") or f"{other}/".startswith(f"{directory}/"))


def _is_unique(file: str, lead: Lead) -> bool:
    """Return whether no other file of that name was changed here."""
    return all(is_same_file(file, path) for path in lead.changed)


def _list_error_leads(leads: Leads, action: Action) -> Iterator[Lead]:
    """Yield what worked after the same error of a like call, or ended what the same program reported."""
    programs, shape = action.programs, shape_of(action.call.metadata.get("command", ""))
    same = (lead for lead in leads.errors.get(name_error(action.error), ()) if lead.programs & programs)
    yield from _sort_by_shape((lead for lead in same if is_alike(lead.shape, shape)), shape)
    for finding in list_findings(action.error) if leads.findings else ():
        yield from (lead for lead in leads.findings.get(finding, ()) if lead.programs & programs)


def _sort_by_shape(leads: Iterable[Lead], shape: frozenset[str]) -> list[Lead]:
    """Return leads of the calls that are most like one first, of equal ones the newest."""
    return sorted(leads, key=lambda lead: len(lead.shape ^ shape))
