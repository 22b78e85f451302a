"""ToolRunStore on PostgreSQL: a narrow table of numbers, a row for each key by which a run is found."""

from collections.abc import Iterable

from memory_mcp.model.calendar import TimeWindow
from memory_mcp.model.ids import event_id_from
from memory_mcp.model.tool_run import FailureTally, KeyKind, StoredRun
from memory_mcp.storage.rows import RUN, bound_keys, group_by_stream, run_columns, runs_of_rows
from memory_mcp.storage.values import Build
from memory_mcp_team.postgres.connection import Connection, Writer, own
from memory_mcp_team.postgres.database import uuid_of, uuids_of

#: Above every key.
_LAST = (1 << 128) - 1
_FOUND = f"""WITH found AS (
    SELECT DISTINCT t.call, t.result, t.key FROM tool_run t JOIN segment_cut c ON {own("c")} AND c.key = t.key
    WHERE {own("t")} AND t.kind = %(kind)s AND t.hash = ANY(%(hashes)s::bigint[])
      AND (%(project)s::text IS NULL OR c.project = %(project)s)
      AND t.call >= %(first)s::uuid AND t.call < %(last)s::uuid
    ORDER BY t.call DESC LIMIT %(most)s)
  SELECT {RUN} FROM found f JOIN tool_run r ON {own("r")} AND r.key = f.key AND r.call = f.call AND r.result = f.result
  JOIN segment_cut s ON {own("s")} AND s.key = r.key ORDER BY r.call DESC, r.result, r.kind, r.hash"""
_TALLY = f"""WITH used AS (
    SELECT t.hash, c.session_id, (array_agg(t.failed ORDER BY t.call))[1] AS first, bool_or(t.failed) AS failed,
      max(t.call::text) FILTER (WHERE t.failed)::uuid AS last
    FROM tool_run t JOIN segment_cut c ON {own("c")} AND c.key = t.key
    WHERE {own("t")} AND t.kind = %(kind)s AND (%(project)s::text IS NULL OR c.project = %(project)s)
      AND t.call >= %(first)s::uuid AND t.call < %(last)s::uuid GROUP BY t.hash, c.session_id)
  SELECT hash, count(*), count(*) FILTER (WHERE failed), count(*) FILTER (WHERE first), max(last::text)::uuid
  FROM used GROUP BY hash
  HAVING count(*) FILTER (WHERE failed) >= %(least)s
  ORDER BY 3 DESC, 5 DESC, hash LIMIT %(most)s"""
_OF_STREAMS = f"""SELECT {RUN} FROM tool_run r JOIN segment_cut s ON {own("s")} AND s.key = r.key
  WHERE {own("r")} AND s.stream = ANY(%(streams)s::bigint[]) ORDER BY r.result, r.call, r.kind, r.hash"""
_FAILED = f"""SELECT {RUN} FROM tool_run r JOIN segment_cut s ON {own("s")} AND s.key = r.key
  WHERE {own("r")} AND r.failed AND s.project = %(project)s ORDER BY r.call DESC, r.result, r.kind, r.hash"""
_RESET = f"DELETE FROM tool_run WHERE {own()} AND key = ANY(%(keys)s::bigint[])"
_TYPES = ("bigint", "uuid", "uuid", "boolean", "smallint", "bigint")


class PostgresToolRuns:
    """Calls of tools with their outcomes; a `ToolRunStore`."""

    def __init__(self, con: Connection) -> None:
        self._con = con

    def find_runs(
        self, kind: KeyKind, hashes: Iterable[int], project: str | None, limit: int, window: TimeWindow | None = None
    ) -> list[StoredRun]:
        values = list(hashes)
        if not values:
            return []
        bounds = _name_bounds(window)
        return runs_of_rows(self._con.rows(_FOUND, kind=int(kind), hashes=values, project=project, most=limit, **bounds))

    def tally_failures(
        self, kind: KeyKind, project: str | None, window: TimeWindow, least: int, limit: int
    ) -> list[FailureTally]:
        rows = self._con.rows(_TALLY, kind=int(kind), project=project, least=least, most=limit, **_name_bounds(window))
        return [FailureTally(value, used, failing, first, event_id_from(last)) for value, used, failing, first, last in rows]

    def list_stream_runs(self, streams: Iterable[int]) -> dict[int, list[StoredRun]]:
        numbers = list(streams)
        return group_by_stream(self._con.rows(_OF_STREAMS, streams=numbers) if numbers else (), numbers)

    def list_failed_runs(self, project: str) -> list[StoredRun]:
        return runs_of_rows(self._con.rows(_FAILED, project=project))


def _name_bounds(window: TimeWindow | None) -> dict[str, str]:
    first, last = bound_keys(window, _LAST)
    return {"first": uuid_of(first), "last": uuid_of(last)}


def write_runs(writer: Writer, build: Build) -> None:
    """Write the runs of a build in place of those of the segments that it read again."""
    if build.reset_runs:
        writer.send_later(_RESET, keys=list(build.reset_runs))
    columns = run_columns(build.runs)
    columns[1], columns[2] = uuids_of(columns[1]), uuids_of(columns[2])
    writer.insert_rows("tool_run", "key, call, result, failed, kind, hash", _TYPES, columns)
