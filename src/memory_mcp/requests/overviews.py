"""Answers what was worked on, by project: what was asked, what came of it, what was decided and is open, each with its grip."""

import itertools
import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated

from memory_mcp.base.dataclass import dataclass
from memory_mcp.model.calendar import EVERY_DAY, Calendar, TimeWindow
from memory_mcp.model.event import ExcludedSession
from memory_mcp.model.ids import NodeId, day_id, short_grip
from memory_mcp.model.segment import Segment
from memory_mcp.requests.notes import is_notes
from memory_mcp.requests.plain import size_of
from memory_mcp.requests.shapes import NO_NAME
from memory_mcp.storage.values import Scope
from memory_mcp.tree.summarize.sentences import shorten
from memory_mcp.tree.toc.accounts import AccountLine, AccountPart, account_lines
from memory_mcp.tree.toc.statements import StretchView
from memory_mcp.tree.toc.told import load_stretches
from memory_mcp.tree.toc.work_reader import TAIL

if TYPE_CHECKING:
    from memory_mcp.app import App

#: Tokens of an overview.
OVERVIEW_TOKENS = 700
#: Days that hold anything which "lately" reaches back, as for `get_today`.
_DAYS = 14
#: Projects, and sessions that are read of all together, of each at least the newest and its largest other one, and at most.
_PROJECTS, _SESSIONS, _FEWEST, _MOST = 8, 24, 2, 12
#: Notes of a project that are read for decisions.
_NOTES = 4
#: Characters of a statement, and the fewest that it is cut to: half sentences that could be more in number say less.
_WIDTH, _LEAST = 160, 110


@dataclass(frozen=True, slots=True, kw_only=True)
class OverviewLine:
    """One statement."""

    text: str
    grip: str
    #: Of what is open: in what way.
    why: str = ""
    #: What became of the code that it is about.
    since: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectOverview:
    """What happened in one project."""

    project: str
    #: The first and the last day, joined by "/" where they differ.
    when: str
    sessions: int
    asked: Annotated[tuple[OverviewLine, ...], "Requests, the newest first"] = ()
    done: Annotated[tuple[OverviewLine, ...], "What came of them"] = ()
    decided: tuple[OverviewLine, ...] = ()
    open: Annotated[tuple[OverviewLine, ...], "Without an outcome so far"] = ()


class _Project:
    """A project's segments in the time asked about, and the lines of its account."""

    def __init__(self, name: str, cuts: list[Segment]) -> None:
        self.name = name
        self.cuts = cuts
        self.lines: list[AccountLine] = []
        #: How many of the lines are shown.
        self.shown = 0
        #: How many lines it deserves beside others: the root of its events, so that a small project is not lost.
        self.weight = math.sqrt(sum(cut.events for cut in cuts))
        #: When it was worked on last.
        self.last = max(cut.end for cut in cuts)


class _ProjectShaper:
    """Shapes one project for an answer, and measures it; each form once."""

    def __init__(self, project: _Project, name: str, calendar: Calendar, cite: Callable[[str], str]) -> None:
        self.project = project
        self._name = name
        self._cite = cite
        first, last = (calendar.day_of(at) for at in (min(cut.start for cut in project.cuts)[0], project.last[0]))
        self._when = first if first == last else f"{first}/{last}"
        self._sessions = len({cut.session_id for cut in project.cuts if not is_notes(cut.session_id)})
        self._lines: dict[tuple[int, int], OverviewLine] = {}
        self._shapes: dict[tuple[int, int], tuple[ProjectOverview, int]] = {}

    def shape(self, width: int) -> tuple[ProjectOverview, int]:
        """Return the project with the lines that are shown, and its bytes as JSON."""
        key = (self.project.shown, width)
        if key not in self._shapes:
            overview = self._shape_lines(width)
            self._shapes[key] = (overview, size_of(overview))
        return self._shapes[key]

    def _shape_lines(self, width: int) -> ProjectOverview:
        parts: dict[AccountPart, list[OverviewLine]] = {part: [] for part in AccountPart}
        for number, line in enumerate(self.project.lines[: self.project.shown]):
            parts[line.part].append(self._shape_line(number, line, width))
        return ProjectOverview(
            project=self._name,
            when=self._when,
            sessions=self._sessions,
            asked=tuple(parts[AccountPart.ASKED]),
            done=tuple(parts[AccountPart.DONE]),
            decided=tuple(parts[AccountPart.DECIDED]),
            open=tuple(parts[AccountPart.OPEN]),
        )

    def _shape_line(self, number: int, line: AccountLine, width: int) -> OverviewLine:
        if (number, width) not in self._lines:
            statement = line.statement
            self._lines[number, width] = OverviewLine(
                text=shorten(statement.text, width),
                grip=self._cite(statement.grip_id),
                why=line.label if line.part is AccountPart.OPEN else "",
                since=statement.since,
            )
        return self._lines[number, width]


@dataclass(frozen=True, slots=True)
class Asked:
    """The project (None: all), the agent and the time that are asked about; without a time, the last days that hold anything."""

    project: str | None
    agent: str | None = None
    window: TimeWindow | None = None
    #: Sessions that are left out: the one that asks.
    excluded: frozenset[ExcludedSession] = frozenset()
    #: Whether grips have their time, as pages want them; an agent's answer is shorter without.
    for_page: bool = False
    #: Where a caller on this machine works.
    directory: str = ""


def overview_of(
    app: "App", request: Asked, calendar: Calendar, fits: Callable[[Sequence[int]], bool]
) -> tuple[ProjectOverview, ...]:
    """Return the projects worked on, newest first, with fitting lines.

    The more happened in one, the more lines it has. () where no agent was asked anything, or not even one fits. `fits` takes
    the bytes of each project as JSON.
    """
    projects = _projects_in(app, request)
    names = app.tree.short_names()
    activities = () if request.window is None else app.storage.projects.list_projects()
    latest = {activity.name: activity.end_ms for activity in activities}
    sessions = min(max(_SESSIONS // max(len(projects), 1), _FEWEST), _MOST)
    cuts = [cut for project in projects for cut in _cuts_to_read(project.cuts, sessions)]
    project_names = {cut.node_id: cut.project for cut in cuts}
    by_project: dict[str, list[StretchView]] = {}
    stretches = load_stretches(app.storage, cuts, len(cuts), len(cuts), app.work_reader)
    for stretch in app.later_changes.mark_stretches(stretches, request.directory):
        by_project.setdefault(project_names[NodeId(stretch.node_id)], []).append(stretch)
    for project in projects:
        # What was open then may be done by now.
        is_latest = request.window is None or latest.get(project.name, 0) < request.window.end_ms
        project.lines = account_lines(by_project.get(project.name, []), with_open=is_latest)
    projects = [project for project in projects if project.lines]
    cite = str if request.for_page else short_grip

    shapers = [_ProjectShaper(project, names.get(project.name, project.name) or NO_NAME, calendar, cite) for project in projects]

    def fits_at(width: int) -> bool:
        return fits([shaper.shape(width)[1] for shaper in shapers])

    # A name without a line says nothing.
    for project in projects:
        project.shown = 1
    while shapers and not fits_at(_LEAST):
        shapers.pop()
    _share_lines([shaper.project for shaper in shapers], lambda: fits_at(_LEAST))
    width = next((width for width in range(_WIDTH, _LEAST, -10) if fits_at(width)), _LEAST)
    return tuple(shaper.shape(width)[0] for shaper in shapers)


def _projects_in(app: "App", question: Asked) -> list[_Project]:
    window = question.window
    if window is None:
        days = app.storage.toc.list_days(question.project, *EVERY_DAY)[-_DAYS:]
        if not days:
            return []
        window = TimeWindow(app.calendar.node_window(day_id(days[0])).start_ms, app.calendar.node_window(day_id(days[-1])).end_ms)
    by_name: dict[str, list[Segment]] = {}
    for cut in app.storage.toc.list_segments(Scope(project=question.project, agent=question.agent, window=window)):
        if not cut.thread and not any(
            cut.session_id == session.session_id and cut.start[0] >= session.since_ms for session in question.excluded
        ):
            by_name.setdefault(cut.project, []).append(cut)
    projects = [_Project(name, cuts) for name, cuts in by_name.items() if not all(is_notes(cut.session_id) for cut in cuts)]
    # What belongs to no project comes last: often it was dated by its import.
    return sorted(projects, key=lambda project: (bool(project.name), project.last), reverse=True)[:_PROJECTS]


def _cuts_to_read(cuts: Sequence[Segment], most: int) -> list[Segment]:
    """Newest first: the newest session, the largest others, the latest notes."""
    sessions: dict[str, list[Segment]] = {}
    for cut in sorted(cuts, key=lambda cut: cut.start, reverse=True):
        sessions.setdefault(cut.session_id, []).append(cut)
    notes = [several for session_id, several in sessions.items() if is_notes(session_id)]
    work = [several for session_id, several in sessions.items() if not is_notes(session_id)]
    work[1:] = sorted(work[1:], key=lambda several: sum(cut.events for cut in several), reverse=True)
    chosen = [cut for several in work[:most] for cut in dict.fromkeys((*several[:TAIL], several[-1]))]
    chosen += itertools.islice((cut for several in notes for cut in several), _NOTES)
    return sorted(chosen, key=lambda cut: cut.start, reverse=True)


def _share_lines(projects: Sequence[_Project], fits: Callable[[], bool]) -> None:
    """Show more lines, one at a time, while they fit."""
    waiting = [project for project in projects if project.shown < len(project.lines)]
    while waiting:
        project = min(waiting, key=lambda candidate: (candidate.shown + 1) / candidate.weight)
        project.shown += 1
        if not fits():
            project.shown -= 1
            waiting.remove(project)
        elif project.shown == len(project.lines):
            waiting.remove(project)
