"""Decides which events may leave, and in what form, by what is shared and what projects are called at that moment.

Invariants
1. An event leaves only if the project it is shown under is shared, and it is shown there by a way that existed when it was
   shared: a project that is made another's name later, by a person or a guess, waits until it is shared once more.
2. It passes the gate by today's rules; what those refuse, and what belongs to a call that they refuse, stays.
3. It leaves under the name that is shared, never under another that it was recorded with.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import field, replace

from memory_mcp.app import App
from memory_mcp.base.dataclass import dataclass
from memory_mcp.importers.base import ImportReport
from memory_mcp.model.event import Event, EventDraft, EventType, make_carried_draft
from memory_mcp.model.ids import hash_parts
from memory_mcp.model.project import ProjectNames
from memory_mcp_team.sharing.files import SharedProject, Sharing

#: Events before a result among which its call is looked for.
_NEAR = 200


def make_route_digest(names: ProjectNames, recorded: str, session_id: str) -> str:
    """Return a digest of the rules that name a session's project.

    `recorded` is the name they were recorded with; see `ProjectNames.split_key`.
    """
    return f"{hash_parts('way', names.split_key(recorded, session_id), bits=64):016x}"


def make_rules_digest(sharing: Sharing, space: str, names: ProjectNames) -> str:
    """Return a digest of shared projects and rules for names.

    While it stays, no event is looked at again.
    """
    shared_projects = [f"{name} {project.ways}" for name, project in sorted(sharing.projects.items()) if project.space == space]
    return f"{hash_parts('rules', *shared_projects, *map(repr, (*names.aliases, *names.splits)), bits=60):x}"


@dataclass(slots=True)
class LeavingFilter:
    """Decides which events may leave to a space now."""

    app: App
    projects: Mapping[str, SharedProject]
    #: Events that are kept back by a rule, by reason.
    kept_back: Counter[str] = field(default_factory=Counter)

    @classmethod
    def for_space(cls, app: App, sharing: Sharing, space: str) -> "LeavingFilter":
        """Return the filter for the projects that are shared with a space."""
        return cls(app, {name: project for name, project in sharing.projects.items() if project.space == space})

    def find_project(self, event: Event) -> str:
        """Return the shared project as which an event may leave, or "".

        The gate is not asked.
        """
        name, shared = self._find_shown_project(event)
        return name if shared is not None and self._make_route(event) in shared.ways else ""

    def find_waiting_project(self, event: Event) -> str:
        """Return the project for which an event waits, or ""."""
        name, shared = self._find_shown_project(event)
        return name if shared is not None and self._make_route(event) not in shared.ways else ""

    def has_unshared_sessions(self) -> bool:
        """Return whether a session waits for its project."""
        names = self.app.storage.projects.names
        for _, recorded, session, _ in self.app.storage.projects.list_streams():
            shared = self.projects.get(names.display_name(recorded, session))
            if shared is not None and make_route_digest(names, recorded, session) not in shared.ways:
                return True
        return False

    def _find_shown_project(self, event: Event) -> tuple[str, SharedProject | None]:
        # By the names now, and not those when it was read.
        name = self.app.storage.projects.names.display_name(_get_recorded_project(event), event.session_id)
        return name, self.projects.get(name) if name else None

    def _make_route(self, event: Event) -> str:
        return make_route_digest(self.app.storage.projects.names, _get_recorded_project(event), event.session_id)

    def clean_leaving(self, events: Iterable[Event]) -> list[tuple[Event, EventDraft]]:
        """Return the events that may leave, with their drafts.

        What the gate refuses is counted in `kept_back`; unshared events are not.
        """
        report, leaving = ImportReport(), list[tuple[Event, EventDraft]]()
        for event in events:
            project = self.find_project(event)
            if not project:
                continue
            as_recorded, capture = make_carried_draft(event), self.app.gate.capture
            if why := capture.find_refusal(as_recorded) or self._find_call_refusal(event):
                report.dropped[why] += 1
            elif (clean := self.app.gate.clean_draft(replace(as_recorded, project=project), report)) is not None:
                leaving.append((event, clean))
        self.kept_back.update(report.dropped)
        return leaving

    def _find_call_refusal(self, event: Event) -> str:
        """Return why a result's call may not leave, or "".

        The gate only knows calls that it saw lately; here the 200 events before the result are looked through.
        """
        capture, call = self.app.gate.capture, event.metadata.get("tool_use_id", "")
        if event.type is not EventType.TOOL_RESULT or not call or not (capture.paths or capture.projects or capture.tools):
            return ""
        earlier, _ = self.app.storage.events.get_neighbours(event, _NEAR, 0)
        calls = (e for e in reversed(earlier) if e.type is EventType.TOOL_CALL and e.metadata.get("tool_use_id") == call)
        call_event = next(calls, None)
        return capture.find_refusal(make_carried_draft(call_event)) if call_event is not None else ""


def _get_recorded_project(event: Event) -> str:
    return event.project if event.recorded_project is None else event.recorded_project
