"""ProjectStore on PostgreSQL: two small tables of rules, kept in memory, and what events and cuts say of projects.

Invariants
1. What another process recorded or stored is in force here as soon as the head was read again; while nothing changed, `names`
   is the same object.
"""

import threading
from collections.abc import Callable, Sequence
from dataclasses import field

from memory_mcp.base.dataclass import dataclass
from memory_mcp.model.event import ROOT_COMMIT, Event
from memory_mcp.model.project import Alias, ProjectNames, Split
from memory_mcp.storage.rows import activity_of, daily_of, folder_of, root_commit_in
from memory_mcp.storage.values import Activity, DailyActivity
from memory_mcp_team.postgres.connection import Connection, own
from memory_mcp_team.postgres.memories import Head

_ALIAS, _ALIAS_TYPES = "old, new, author, at_ms", ("text", "text", "text", "bigint")
_SPLIT, _SPLIT_TYPES = "project, session_id, folder, new, at_ms", ("text", "text", "text", "text", "bigint")
_ALIASES = f"SELECT {_ALIAS} FROM project_alias WHERE {own()} ORDER BY at_ms, old"
_SPLITS = f"SELECT {_SPLIT} FROM project_split WHERE {own()} ORDER BY at_ms, number"
_BETWEEN = "seq > %(after)s AND seq <= %(to)s"
_SESSION_STARTS = f"""SELECT DISTINCT ON (project, session_id) project, session_id, metadata FROM event
  WHERE {own()} AND {_BETWEEN} AND project = ANY(%(projects)s::text[]) ORDER BY project, session_id, seq"""
_RECORDED = f"SELECT DISTINCT project FROM event WHERE {own()}"
_BRANCH = f"""SELECT 1 FROM event WHERE {own()} AND project = %(project)s AND strpos(metadata, '"branch":"') > 0 LIMIT 1"""
_ROOTS = f"""SELECT project, (array_agg(metadata ORDER BY seq DESC))[1] FROM event
  WHERE {own()} AND type = 'user_message' AND project <> '' AND strpos(metadata, '"{ROOT_COMMIT}":"') > 0
  GROUP BY project ORDER BY min(seq)"""
_STREAMS = f"""SELECT e.stream, e.project, e.session_id, s.project
  FROM (SELECT stream, min(project) AS project, min(session_id) AS session_id FROM event WHERE {own()} GROUP BY stream) e
  JOIN (SELECT DISTINCT stream, project FROM segment_cut WHERE {own()}) s ON s.stream = e.stream"""
_ACTIVITY = f"""SELECT {{column}}, sum(events)::bigint, count(DISTINCT session_id), min(start_ts), max(end_ts),
  array_agg(DISTINCT {{other}}) FILTER (WHERE {{other}} <> '') FROM segment_cut WHERE {own()} GROUP BY {{column}}"""

_OF = f"""{own()} AND (%(project)s::text IS NULL OR project = %(project)s)
  AND (%(agent)s::text IS NULL OR agent = %(agent)s)"""
#: One row for each day, project and agent, and one for all; `level` has a bit for each column that is not grouped by.
_DAILY = f"""SELECT grouping(day, month, project, agent) AS level, coalesce(day, project, agent, ''),
  sum(events)::bigint, count(DISTINCT session_id), coalesce(month, '')
FROM (SELECT day, left(day, 7) AS month, project, agent, events, session_id FROM segment_cut
      WHERE {_OF} AND day >= %(first)s AND day < %(after)s) cut
GROUP BY GROUPING SETS ((day), (project), (agent), (), (month, project), (month, agent))"""
_YEARS = f"SELECT DISTINCT left(day, 4)::integer FROM segment_cut WHERE {_OF} ORDER BY 1"


@dataclass(slots=True)
class _CachedRules:
    names: ProjectNames
    #: When they were read, as `Head.noted` says it.
    notes_stamp: tuple[int, int]
    #: Number of the event up to which it is known where sessions began.
    last_seq: int = 0

    def are_current(self, head: Head) -> bool:
        """Return whether they hold by this head."""
        return self.notes_stamp == head.notes_stamp and (
            self.last_seq >= head.last_event or not self.names.names_needing_folders()
        )


@dataclass(slots=True)
class _RecordedNames:
    names: set[str] = field(default_factory=set)
    resets: int = -1
    last_seq: int = 0


class PostgresProjects:
    """Rules for names of projects, kept in memory; a `ProjectStore`."""

    def __init__(self, con: Connection, renamed: Callable[[], None]) -> None:
        self._con = con
        self._on_rename = renamed
        #: Never held while `renamed` is called.
        self._lock = threading.Lock()
        self._rules: _CachedRules | None = None
        self._recorded_names = _RecordedNames()

    @property
    def names(self) -> ProjectNames:
        head, rules = self._con.get_head(), self._rules
        if rules is not None and rules.are_current(head):
            return rules.names
        with self._lock:
            old_rules = self._rules
            rules = self._read_rules(old_rules, head.notes_stamp)
            watched, to = rules.names.names_needing_folders(), head.last_event
            if watched and to > rules.last_seq:
                for row in self._con.rows(_SESSION_STARTS, projects=sorted(watched), after=rules.last_seq, to=to):
                    rules.names.note_start_folder(row[0], row[1], folder_of(row[2]))
                rules.last_seq = to
            self._rules = rules
        if old_rules is not None and rules.names is not old_rules.names:
            self._on_rename()
        return rules.names

    def drop_rules(self) -> None:
        """Have the rules read again, and all recorded names looked at."""
        with self._lock:
            self._rules = self._rules and _CachedRules(self._rules.names, (-1, -1))
            self._recorded_names = _RecordedNames(self._recorded_names.names)

    def _read_rules(self, old_rules: _CachedRules | None, noted: tuple[int, int]) -> _CachedRules:
        if old_rules is not None and old_rules.notes_stamp == noted:
            return old_rules
        with self._con.open_reader() as reader:
            aliases = [Alias(*row) for row in reader.rows(_ALIASES)]
            splits = [Split(*row) for row in reader.rows(_SPLITS)]
        if old_rules is not None and (list(old_rules.names.aliases), list(old_rules.names.splits)) == (aliases, splits):
            # What was erased or loaded may have renumbered events.
            return _CachedRules(old_rules.names, noted, old_rules.last_seq if old_rules.notes_stamp[0] == noted[0] else 0)
        return _CachedRules(ProjectNames(aliases, splits), noted)

    def note_stored(self, events: Sequence[Event]) -> list[Event]:
        """Note where sessions began if a rule asks for it."""
        names = self.names
        watched = names.names_needing_folders()
        for event in events:
            if event.project in watched:
                names.note_start_folder(event.project, event.session_id, event.metadata.get("cwd", ""))
        return [event.with_display_project(names.display_name(event.project, event.session_id)) for event in events]

    def take_new_names(self) -> list[str]:
        head = self._con.get_head()
        with self._lock:
            last = self._recorded_names
            after = last.last_seq if last.resets == head.resets else 0
            if after >= head.last_event:
                return []
            rows = self._con.rows(f"{_RECORDED} AND {_BETWEEN}", after=after, to=head.last_event)
            fresh = {row[0] for row in rows} - last.names
            self._recorded_names = _RecordedNames(last.names | fresh, head.resets, head.last_event)
        return sorted(fresh - {""})

    def list_recorded(self) -> list[str]:
        return sorted({row[0] for row in self._con.rows(_RECORDED)} - {""})

    def has_branch(self, project: str) -> bool:
        return self._con.row(_BRANCH, project=project) is not None

    def get_root_commits(self) -> dict[str, str]:
        return {row[0]: root_commit_in(row[1]) for row in self._con.rows(_ROOTS)}

    def list_streams(self) -> list[tuple[int, str, str, str]]:
        return [(row[0], row[1], row[2], row[3]) for row in self._con.rows(_STREAMS)]

    def list_projects(self) -> list[Activity]:
        return [activity_of(row) for row in self._con.rows(_ACTIVITY.format(column="project", other="agent"))]

    def list_agents(self) -> list[Activity]:
        return [activity_of(row) for row in self._con.rows(_ACTIVITY.format(column="agent", other="project"))]

    def daily_activity(
        self, first_day: str, after_day: str, project: str | None = None, agent: str | None = None
    ) -> DailyActivity:
        parameters = {"first": first_day, "after": after_day, "project": project, "agent": agent}
        rows = sorted(self._con.rows(_DAILY, **parameters), key=lambda row: (row[0], row[4], row[1]))
        return daily_of(rows)

    def list_years(self, project: str | None = None, agent: str | None = None) -> list[int]:
        return [row[0] for row in self._con.rows(_YEARS, project=project, agent=agent)]

    def add_alias(self, alias: Alias) -> None:
        with self._con.open_writer() as writer:
            writer.execute(f"DELETE FROM project_alias WHERE {own()} AND old = %(old)s", old=alias.old)
            row = [alias.old, alias.new, alias.author, alias.at_ms]
            writer.insert_rows("project_alias", _ALIAS, _ALIAS_TYPES, [[value] for value in row])
            writer.head.notes += 1

    def drop_alias(self, old: str) -> None:
        with self._con.open_writer() as writer:
            writer.execute(f"DELETE FROM project_alias WHERE {own()} AND old = %(old)s", old=old)
            writer.head.notes += 1

    def add_splits(self, splits: Sequence[Split]) -> None:
        rows = [(s.project, s.session_id, s.folder, s.new, s.at_ms) for s in splits]
        with self._con.open_writer() as writer:
            writer.insert_rows("project_split", _SPLIT, _SPLIT_TYPES, [list(column) for column in zip(*rows, strict=True)])
            writer.head.notes += 1

    def drop_splits(self, new: str) -> None:
        with self._con.open_writer() as writer:
            writer.execute(f"DELETE FROM project_split WHERE {own()} AND new = %(new)s", new=new)
            writer.head.notes += 1
