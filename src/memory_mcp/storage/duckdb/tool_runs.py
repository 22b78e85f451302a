"""ToolRunStore on DuckDB: a narrow table of numbers, a row for each key by which a run is found."""

from collections.abc import Iterable

from memory_mcp.model.calendar import TimeWindow
from memory_mcp.model.ids import event_id_from
from memory_mcp.model.tool_run import FailureTally, KeyKind, StoredRun
from memory_mcp.storage.duckdb.connection import Connection
from memory_mcp.storage.rows import RUN, bound_keys, group_by_stream, runs_of_rows

#: Above every key.
_LAST = (1 << 127) - 1
_FOUND = f"""WITH found AS (
    SELECT DISTINCT t.call, t.result, t.key, c.stream, c.project, c.session_id
    FROM tool_run t JOIN segment_cut c ON c.key = t.key
    WHERE t.kind = ? AND list_contains(?::BIGINT[], t.hash) AND (?::VARCHAR IS NULL OR c.project = ?)
      AND t.call >= ?::HUGEINT AND t.call < ?::HUGEINT
    ORDER BY t.call DESC LIMIT ?)
  SELECT {RUN} FROM tool_run r JOIN found s ON s.call = r.call AND s.result = r.result AND s.key = r.key
  ORDER BY r.call DESC, r.result, r.kind, r.hash"""
#: The first call of a session is the one that was called first.
_TALLY = """WITH used AS (
    SELECT t.hash, c.session_id, arg_min(t.failed, t.call) AS first, bool_or(t.failed) AS failed,
      max(t.call) FILTER (t.failed) AS last
    FROM tool_run t JOIN segment_cut c ON c.key = t.key
    WHERE t.kind = ? AND (?::VARCHAR IS NULL OR c.project = ?) AND t.call >= ?::HUGEINT AND t.call < ?::HUGEINT GROUP BY ALL)
  SELECT hash, count(*), count(*) FILTER (failed) AS failing, count(*) FILTER (first), max(last) FROM used GROUP BY hash
  HAVING failing >= ? ORDER BY failing DESC, max(last) DESC, hash LIMIT ?"""
_OF_STREAMS = f"""SELECT {RUN} FROM tool_run r JOIN segment_cut s ON s.key = r.key
  WHERE s.stream IN (SELECT unnest(?::BIGINT[])) ORDER BY r.result, r.call, r.kind, r.hash"""

_FAILED = f"""SELECT {RUN} FROM tool_run r JOIN segment_cut s ON s.key = r.key
  WHERE r.failed AND s.project = ? ORDER BY r.call DESC, r.result, r.kind, r.hash"""


class DuckToolRuns:
    """Calls of tools with their outcomes."""

    def __init__(self, con: Connection) -> None:
        self._con = con

    def find_runs(
        self, kind: KeyKind, hashes: Iterable[int], project: str | None, limit: int, window: TimeWindow | None = None
    ) -> list[StoredRun]:
        values = list(hashes)
        if not values:
            return []
        parameters = [int(kind), values, project, project, *bound_keys(window, _LAST), limit]
        return runs_of_rows(self._con.fetch_rows(_FOUND, parameters))

    def tally_failures(
        self, kind: KeyKind, project: str | None, window: TimeWindow, least: int, limit: int
    ) -> list[FailureTally]:
        rows = self._con.fetch_rows(_TALLY, [int(kind), project, project, *bound_keys(window, _LAST), least, limit])
        return [FailureTally(value, used, failing, first, event_id_from(last)) for value, used, failing, first, last in rows]

    def list_stream_runs(self, streams: Iterable[int]) -> dict[int, list[StoredRun]]:
        numbers = list(streams)
        return group_by_stream(self._con.fetch_rows(_OF_STREAMS, [numbers]) if numbers else (), numbers)

    def list_failed_runs(self, project: str) -> list[StoredRun]:
        return runs_of_rows(self._con.fetch_rows(_FAILED, [project]))
