"""ProjectStore on DuckDB: two small tables of rules, kept in memory, and what events and cuts say of projects."""

from collections.abc import Callable, Sequence

from memory_mcp.model.event import ROOT_COMMIT, Event
from memory_mcp.model.project import Alias, ProjectNames, Split
from memory_mcp.storage.duckdb.connection import Connection
from memory_mcp.storage.duckdb.stamps import Activities
from memory_mcp.storage.rows import activity_of, daily_of, folder_of, root_commit_in
from memory_mcp.storage.values import Activity, DailyActivity

_BEGAN = """SELECT project, session_id, arg_min(metadata, seq) FROM event
WHERE project IN (SELECT unnest(?::VARCHAR[])) GROUP BY project, session_id"""
_ROOTS = f"""SELECT project, arg_max(metadata, seq) FROM event
WHERE type = 'user_message' AND project <> '' AND contains(metadata, '"{ROOT_COMMIT}":"') GROUP BY project ORDER BY min(seq)"""
_ACTIVITY = """SELECT {column}, sum(events)::BIGINT, count(DISTINCT session_id), min(start_ts), max(end_ts),
  list(DISTINCT {other} ORDER BY {other}) FILTER (WHERE {other} <> '') FROM segment_cut GROUP BY {column}"""

_OF = "(? IS NULL OR project = ?) AND (? IS NULL OR agent = ?)"
#: One row for each day, project and agent, and one for all; `level` has a bit for each column that is not grouped by.
_DAILY = f"""SELECT grouping(day, month, project, agent) AS level, coalesce(day, project, agent, ''),
  sum(events)::BIGINT, count(DISTINCT session_id), coalesce(month, '')
FROM (SELECT *, left(day, 7) AS month FROM segment_cut WHERE day >= ? AND day < ? AND {_OF})
GROUP BY GROUPING SETS ((day), (project), (agent), (), (month, project), (month, agent)) ORDER BY 1, 5, 2"""
_YEARS = f"SELECT DISTINCT left(day, 4)::INTEGER FROM segment_cut WHERE {_OF} ORDER BY 1"


class DuckProjects:
    """Rules for project names, in memory, and what is recorded of projects."""

    def __init__(self, con: Connection, changed: Callable[[], None]) -> None:
        """Read the rules; call `changed` after each write of a rule."""
        self._con = con
        self._changed = changed
        #: What `list_projects` reads from the cuts; whoever writes these drops it.
        self.activities = Activities()
        self._known: set[str] | None = None
        self._fresh: set[str] = set()
        self._names = self._read()

    @property
    def names(self) -> ProjectNames:
        return self._names

    def drop_rules(self) -> None:
        """Read the rules again, without calling `changed`."""
        self._names = self._read()

    def _read(self) -> ProjectNames:
        aliases = [
            Alias(*row) for row in self._con.fetch_rows("SELECT old, new, author, at_ms FROM project_alias ORDER BY at_ms, rowid")
        ]
        columns = "project, session_id, folder, new, at_ms"
        splits = [Split(*row) for row in self._con.fetch_rows(f"SELECT {columns} FROM project_split ORDER BY at_ms, rowid")]
        watched = ProjectNames(aliases, splits).names_needing_folders()
        rows = self._con.fetch_rows(_BEGAN, [sorted(watched)]) if watched else []
        return ProjectNames(aliases, splits, {(row[0], row[1]): folder_of(row[2]) for row in rows})

    def take(self, events: Sequence[Event]) -> list[Event]:
        """Return newly stored events with present project names.

        Notes in which folder their sessions began, where a rule asks for it, and which recorded names are new.
        """
        names, watched = self._names, self._names.names_needing_folders()
        for event in events:
            if event.project in watched:
                names.note_start_folder(event.project, event.session_id, event.metadata.get("cwd", ""))
        if self._known is not None:
            fresh = {event.project for event in events} - self._known
            self._fresh |= fresh
            self._known |= fresh
        return [event.with_display_project(names.display_name(event.project, event.session_id)) for event in events]

    def take_new_names(self) -> list[str]:
        if self._known is None:
            self._known = {row[0] for row in self._con.fetch_rows("SELECT DISTINCT project FROM event")}
            self._fresh |= self._known
        fresh, self._fresh = self._fresh, set()
        return sorted(fresh - {""})

    def list_recorded(self) -> list[str]:
        return sorted({row[0] for row in self._con.fetch_rows("SELECT DISTINCT project FROM event")} - {""})

    def has_branch(self, project: str) -> bool:
        sql = """SELECT 1 FROM event WHERE project = ? AND contains(metadata, '"branch":"') LIMIT 1"""
        return self._con.fetch_row(sql, [project]) is not None

    def get_root_commits(self) -> dict[str, str]:
        return {row[0]: root_commit_in(row[1]) for row in self._con.fetch_rows(_ROOTS)}

    def list_streams(self) -> list[tuple[int, str, str, str]]:
        """Return streams; the recorded project is that of any event."""
        sql = """SELECT e.stream, e.project, e.session_id, s.project
                 FROM (SELECT stream, any_value(project) AS project, any_value(session_id) AS session_id
                       FROM event GROUP BY stream) e
                 JOIN (SELECT DISTINCT stream, project FROM segment_cut) s ON s.stream = e.stream"""
        return [(row[0], row[1], row[2], row[3]) for row in self._con.fetch_rows(sql)]

    def list_projects(self) -> list[Activity]:
        sql = _ACTIVITY.format(column="project", other="agent")
        return list(self.activities.get_value(lambda: tuple(map(activity_of, self._con.fetch_rows(sql)))))

    def list_agents(self) -> list[Activity]:
        return [activity_of(row) for row in self._con.fetch_rows(_ACTIVITY.format(column="agent", other="project"))]

    def daily_activity(
        self, first_day: str, after_day: str, project: str | None = None, agent: str | None = None
    ) -> DailyActivity:
        return daily_of(self._con.fetch_rows(_DAILY, [first_day, after_day, project, project, agent, agent]))

    def list_years(self, project: str | None = None, agent: str | None = None) -> list[int]:
        return [row[0] for row in self._con.fetch_rows(_YEARS, [project, project, agent, agent])]

    def add_alias(self, alias: Alias) -> None:
        with self._con.begin_transaction() as con:
            con.execute("DELETE FROM project_alias WHERE old = ?", [alias.old])
            con.execute("INSERT INTO project_alias VALUES (?, ?, ?, ?)", [alias.old, alias.new, alias.author, alias.at_ms])
        self._follow()

    def drop_alias(self, old: str) -> None:
        with self._con.begin_transaction() as con:
            con.execute("DELETE FROM project_alias WHERE old = ?", [old])
        self._follow()

    def add_splits(self, splits: Sequence[Split]) -> None:
        with self._con.begin_transaction() as con:
            for s in splits:
                row = [s.project, s.session_id, s.folder, s.new, s.at_ms]
                con.execute("INSERT INTO project_split VALUES (?, ?, ?, ?, ?)", row)
        self._follow()

    def drop_splits(self, new: str) -> None:
        with self._con.begin_transaction() as con:
            con.execute("DELETE FROM project_split WHERE new = ?", [new])
        self._follow()

    def _follow(self) -> None:
        self.drop_rules()
        self._changed()
