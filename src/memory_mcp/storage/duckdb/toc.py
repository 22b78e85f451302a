"""TocStore on DuckDB."""

import json
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from operator import itemgetter
from typing import Any

import duckdb

from memory_mcp.base.clock import Clock
from memory_mcp.model.calendar import TimeWindow, TocLevel
from memory_mcp.model.change import ChangeKind
from memory_mcp.model.ids import NodeId, day_id, node_key, segment_id
from memory_mcp.model.segment import Segment
from memory_mcp.model.toc import EXTRACTIVE, TocBullet, TocNode
from memory_mcp.storage.base import TocStore
from memory_mcp.storage.duckdb.connection import Connection, Row
from memory_mcp.storage.duckdb.days import DaySumCache, DaySums
from memory_mcp.storage.duckdb.keyed_file import NODES, SEGMENTS
from memory_mcp.storage.duckdb.keyed_rows import KeyedRows
from memory_mcp.storage.duckdb.names import NODE
from memory_mcp.storage.duckdb.outbox import Numbers, add_changes
from memory_mcp.storage.duckdb.publish import CUT_TYPES, BuildWriter
from memory_mcp.storage.duckdb.recent import RecentGrips
from memory_mcp.storage.duckdb.stamps import (
    MAX_AT_ONCE,
    MAX_HEADS,
    MAX_NODES,
    MAX_STAMPS,
    Activities,
    NodeCache,
    PeriodIds,
    SpanCuts,
    Stamped,
    StreamCuts,
    WindowCuts,
)
from memory_mcp.storage.duckdb.statements import insert_columns
from memory_mcp.storage.duckdb.terms import DuckTerms
from memory_mcp.storage.rows import SEGMENT, bullet_of, node_of, pack_node, segment_columns, segment_of, unpack_node
from memory_mcp.storage.values import Build, Freshness, Scope, Tally

_BULLETS = "SELECT key, version, pos, text, kind, project, agent FROM bullet WHERE key IN (SELECT unnest(?::BIGINT[]))"
_GRIPS = "SELECT key, version, pos, grip_id FROM bullet_grip WHERE key IN (SELECT unnest(?::BIGINT[]))"
_TALLY = """count(DISTINCT s.session_id), sum(s.events)::BIGINT, count(*), sum(s.tokens)::BIGINT,
  list(DISTINCT s.agent ORDER BY s.agent) FILTER (WHERE s.agent <> ''),
  list(DISTINCT s.project ORDER BY s.project) FILTER (WHERE s.project <> '')"""


class DuckToc(DuckTerms, TocStore):
    """Layer 1 in the DuckDB file; what searches read often is in memory."""

    def __init__(
        self, con: Connection, numbers: Numbers, clock: Clock, grips: RecentGrips, keyed: KeyedRows, activities: Activities
    ) -> None:
        super().__init__(con)
        self._activities = activities
        self._keyed = keyed
        self._numbers, self._clock = numbers, clock
        self._pins: frozenset[str] | None = None
        self._stamps = NodeCache(self._read_stamps, MAX_STAMPS)
        self._heads = NodeCache(self._read_heads, MAX_HEADS)
        self._nodes = NodeCache(self._read_nodes, MAX_NODES, MAX_AT_ONCE)
        self._spans, self._windows = SpanCuts(), WindowCuts[Hashable]()
        self._periods = PeriodIds(self._read_periods)
        self._streams = StreamCuts(self._read_cuts)
        self._days = DaySumCache(self._read_days, con.hold_writes)
        self._grips, self._builds = grips, BuildWriter(con, numbers, grips, keyed)

    def current_version(self) -> int:
        return self._numbers.committed

    def publish_build(self, build: Build) -> int:
        """Write a build; caches follow at the commit, and are dropped on failure."""
        term_keys = list(map(node_key, [*(t.node_id for t in build.terms), *build.reset_terms]))
        node_keys = list(map(node_key, (n.node_id for n in (*build.nodes, *build.count_updates))))
        old_cuts = self.get_segments(s.key for s in build.segments)

        def settle() -> None:
            self._stamps.drop_values([*term_keys, *node_keys])
            self._heads.drop_values(node_keys)
            self._periods.drop_ids()
            # As they will be read from now on; pins are added when read.
            built = self._numbers.last_change
            fresh = {node_key(n.node_id): replace(n, built=built, pinned=False) for n in (*build.nodes, *build.count_updates)}
            self._nodes.put_values(fresh)
            self._keyed.note_rows(NODES, ((key, pack_node(node)) for key, node in fresh.items()))
            self._keyed.note_rows(SEGMENTS, zip(*segment_columns(build.segments), strict=True))
            if any(old_cuts[s.key].project != s.project for s in build.segments if s.key in old_cuts):
                self._forget_cuts()
                return
            self._activities.drop_value()
            self._windows.drop_all()
            self._spans.put_cuts(build.segments)
            self._streams.put_cuts(build.segments)
            self._days.add_cuts(build.segments, old_cuts)

        try:
            return self._builds.publish(build, old_cuts, settle)
        except BaseException:
            self.drop_caches()
            self._grips.drop_all()
            raise

    def drop_caches(self) -> None:
        """Drop what is kept in memory."""
        self._forget_nodes()
        self._forget_cuts()
        self._pins = None

    def _forget_nodes(self) -> None:
        self._stamps.drop_values()
        self._heads.drop_values()
        self._periods.drop_ids()
        self._nodes.drop_values()

    def _forget_cuts(self) -> None:
        self._activities.drop_value()
        self._windows.drop_all()
        self._spans.drop_all()
        self._streams.drop_all()
        self._days.drop_sums()

    def get_cuts(self, streams: Iterable[int]) -> dict[int, list[Segment]]:
        return self._streams.get_cuts(list(dict.fromkeys(streams)))

    def _read_cuts(self, streams: list[int]) -> dict[int, list[Segment]]:
        sql = f"""SELECT {SEGMENT} FROM segment_cut WHERE stream IN (SELECT unnest(?::BIGINT[]))
                  ORDER BY stream, start_ts, start_id"""
        cuts: dict[int, list[Segment]] = {stream: [] for stream in streams}
        for segment in map(segment_of, self._con.fetch_rows(sql, [streams])):
            cuts[segment.stream].append(segment)
        return cuts

    def iter_cuts(self) -> Iterator[Segment]:
        yield from map(segment_of, self._con.fetch_rows(f"SELECT {SEGMENT} FROM segment_cut ORDER BY stream, start_ts, start_id"))

    def _read_days(self) -> dict[str, DaySums]:
        sql = """SELECT day, sum(events)::BIGINT, count(*), sum(tokens)::BIGINT, list(DISTINCT session_id), list(DISTINCT agent),
                 list(DISTINCT project) FROM segment_cut GROUP BY day"""
        rows = self._con.fetch_rows(sql)
        return {row[0]: DaySums(row[1], row[2], row[3], set(row[4]), set(row[5]) - {""}, set(row[6])) for row in rows}

    def get_segments(self, keys: Iterable[int]) -> dict[int, Segment]:
        requested_keys = list(keys)
        segments = self._streams.find_cached(requested_keys)
        if missing := [key for key in requested_keys if key not in segments]:
            packed = self._keyed.read_values(SEGMENTS, missing)
            if packed is not None:
                return segments | {key: segment_of(json.loads(value)) for key, value in packed}
            sql = f"SELECT {SEGMENT} FROM segment_cut WHERE key IN (SELECT unnest(?::BIGINT[]))"
            segments |= {s.key: s for s in map(segment_of, self._con.fetch_rows(sql, [missing]))}
        return segments

    def list_segments(self, scope: Scope) -> list[Segment]:
        """Return cuts; they are kept in memory."""
        where, parameters = ["true"], list[Any]()
        for column, value in (("project", scope.project), ("agent", scope.agent)):
            if value is not None:
                where.append(f"{column} = ?")
                parameters.append(value)
        if scope.window:
            where.append("end_ts >= ? AND start_ts < ?")
            parameters += [scope.window.start_ms, scope.window.end_ms]
        sql = f"SELECT {SEGMENT} FROM segment_cut WHERE {' AND '.join(where)} ORDER BY start_ts, start_id"

        def read() -> list[Segment]:
            return [segment_of(row) for row in self._con.fetch_rows(sql, parameters)]

        if scope.window or scope.agent is not None:
            return self._windows.get_cuts((scope.project, scope.agent, scope.window), read)
        return self._spans.get_cuts(("", "", scope.project), read)

    def find_node(self, node_id: NodeId) -> TocNode | None:
        visited: set[NodeId] = set()
        while node_id not in visited:
            visited.add(node_id)
            nodes = self.get_nodes([node_id])
            if nodes:
                return next(iter(nodes.values()))
            row = self._con.fetch_row("SELECT new FROM alias WHERE old = ?", [node_id])
            node_id = NodeId(row[0]) if row else node_id
        return None

    def get_nodes(self, ids: Iterable[NodeId]) -> dict[NodeId, TocNode]:
        nodes = self._nodes.get_values(list({node_key(i) for i in ids}))
        pins = self.list_pins() if nodes else frozenset()
        return {n.node_id: replace(n, pinned=True) if n.node_id in pins else n for n in nodes}

    def get_heads(self, ids: Iterable[NodeId]) -> dict[NodeId, TocNode]:
        return {n.node_id: n for n in self._heads.get_values(list({node_key(i) for i in ids}))}

    def read_packed(self, keys: Sequence[int]) -> list[Row]:
        """Return existing nodes as (key, packed node), in order of keys."""
        nodes = self._read_stored(keys)
        return [(key, pack_node(nodes[key])) for key in keys if key in nodes]

    def _read_heads(self, keys: Sequence[int]) -> dict[int, TocNode]:
        packed = self._keyed.read_values(NODES, keys)
        if packed is not None:
            return {key: unpack_node(value, with_bullets=False) for key, value in packed}
        return {row[0]: node_of(row, (), False) for row in self._read_rows(list(keys))}

    def _read_rows(self, keys: list[int]) -> list[Row]:
        return self._con.fetch_rows(f"SELECT {NODE} FROM node WHERE current AND key IN (SELECT unnest(?::BIGINT[]))", [keys])

    def _read_nodes(self, keys: Sequence[int]) -> dict[int, TocNode]:
        packed = self._keyed.read_values(NODES, keys)
        return self._read_stored(keys) if packed is None else {key: unpack_node(value) for key, value in packed}

    def _read_stored(self, node_keys: Sequence[int]) -> dict[int, TocNode]:
        keys = list(node_keys)
        rows = self._read_rows(keys)
        grips: dict[tuple[int, int, int], list[int]] = {}
        for key, version, pos, grip_id in self._con.fetch_rows(_GRIPS, [keys]):
            grips.setdefault((key, version, pos), []).append(grip_id)
        current = {row[0]: row[3] for row in rows}
        bullets: dict[int, list[TocBullet]] = {}
        for key, version, pos, text, kind, project, agent in sorted(self._con.fetch_rows(_BULLETS, [keys]), key=itemgetter(0, 2)):
            if current.get(key) == version:
                bullets.setdefault(key, []).append(bullet_of(text, kind, project, agent, grips.get((key, version, pos), ())))
        return {row[0]: node_of(row, bullets.get(row[0], ()), False) for row in rows}

    def get_authors(self) -> dict[NodeId, str]:
        rows = self._con.fetch_rows("SELECT node_id, author FROM node WHERE current AND author <> ?", [EXTRACTIVE])
        return {NodeId(row[0]): row[1] for row in rows}

    def get_builds(self, ids: Iterable[NodeId]) -> dict[NodeId, int]:
        """Return build numbers; up to 150 nodes are then in memory, where `get_nodes` finds them."""
        keys = list({node_key(i) for i in ids})
        if len(keys) > MAX_AT_ONCE:
            return {node_id: stamp[0] for node_id, stamp in self._stamps.get_values(keys)}
        return {node.node_id: node.built for node in self._nodes.get_values(keys)}

    def get_stamps(self, ids: Iterable[NodeId]) -> dict[NodeId, tuple[int, int, int]]:
        return dict(self._stamps.get_values(list({node_key(i) for i in ids})))

    def _read_stamps(self, keys: Sequence[int]) -> dict[int, Stamped]:
        sql = """SELECT n.key, n.node_id, n.built, coalesce(t.rows, 0), coalesce(t.last, 0) FROM node n LEFT JOIN (
                   SELECT key, count(*) AS rows, max(rowid) AS last FROM term_delta
                   WHERE key IN (SELECT unnest(?::BIGINT[])) GROUP BY key) t ON t.key = n.key
                 WHERE n.current AND n.key IN (SELECT unnest(?::BIGINT[]))"""
        return {r[0]: (NodeId(r[1]), (r[2], r[3], r[4])) for r in self._con.fetch_rows(sql, [keys, keys])}

    def child_ids(self, parent: NodeId) -> list[NodeId]:
        sql = "SELECT child_id FROM node_parent WHERE parent = ? ORDER BY start_ms, child_id"
        return [NodeId(row[0]) for row in self._con.fetch_rows(sql, [node_key(parent)])]

    def _read_periods(self, level: TocLevel) -> list[tuple[int, NodeId]]:
        sql = "SELECT start_ms, node_id FROM node WHERE current AND level = ? ORDER BY start_ms, node_id"
        return [(row[0], NodeId(row[1])) for row in self._con.fetch_rows(sql, [level.value])]

    def list_ids(self, level: TocLevel, window: TimeWindow | None = None) -> list[NodeId]:
        if level is not TocLevel.SEGMENT:
            return self._periods.list_ids(level, window)
        bounds = "AND start_ms >= ? AND start_ms < ?" if window else ""
        sql = f"SELECT node_id FROM node WHERE current AND level = ? {bounds} ORDER BY start_ms, node_id"
        times = [window.start_ms, window.end_ms] if window else []
        return [NodeId(row[0]) for row in self._con.fetch_rows(sql, [level.value, *times])]

    def tally_with(self, first_day: str, after_day: str, cuts: Sequence[Segment]) -> Tally:
        return self._days.tally_days(first_day, after_day, cuts, self.get_segments(cut.key for cut in cuts))

    def tally_days(self, first_day: str, after_day: str, project: str | None) -> Tally:
        """Return counts; without a project from sums kept in memory."""
        if project is None:
            return self._days.tally_days(first_day, after_day)
        sql = f"""SELECT {_TALLY} FROM segment_cut s
                  WHERE s.day >= ? AND s.day < ? AND s.project = ?"""
        row = self._con.fetch_row(sql, [first_day, after_day, project]) or (0, 0, 0, 0, (), ())
        return Tally(row[0], row[1] or 0, row[2], row[3] or 0, tuple(row[4] or ()), tuple(row[5] or ()))

    def list_salient(self, first_day: str, after_day: str, project: str, limit: int) -> list[NodeId]:
        sql = """SELECT n.node_id FROM node n JOIN segment_cut s ON s.key = n.key
                 WHERE n.current AND s.project = ? AND s.day >= ? AND s.day < ?
                 ORDER BY n.salience DESC, n.start_ms DESC, n.node_id LIMIT ?"""
        return [NodeId(row[0]) for row in self._con.fetch_rows(sql, [project, first_day, after_day, limit])]

    def count_segments_by_day(self, project: str | None = None) -> list[tuple[str, int]]:
        if project is None:
            return self._days.count_segments()
        sql = "SELECT day, count(*) FROM segment_cut WHERE project = ? GROUP BY day ORDER BY day"
        return [(r[0], r[1]) for r in self._con.fetch_rows(sql, [project])]

    def list_days(self, project: str | None, first_day: str, after_day: str) -> list[str]:
        return self._days.list_days(first_day, after_day, project)

    def list_day_segments(self, first_day: str, after_day: str, project: str | None) -> list[Segment]:
        """Return segments; a month's are read together, since its days are asked for one after the other."""
        first, after = _extend_to_month(first_day, after_day)
        sql = f"""SELECT {SEGMENT} FROM segment_cut WHERE day >= ? AND day < ? AND (?::VARCHAR IS NULL OR project = ?)
                  ORDER BY start_ts, start_id"""
        parameters = [first, after, project, project]
        cuts = self._spans.get_cuts(
            (first, after, project), lambda: [segment_of(r) for r in self._con.fetch_rows(sql, parameters)]
        )
        return [cut for cut in cuts if first_day <= cut.day < after_day]

    def get_freshness(self) -> Freshness:
        days = self._con.fetch_rows(
            """SELECT s.day, max(n.built) FROM node n JOIN segment_cut s ON s.key = n.key
               WHERE n.current AND n.level = 'segment' GROUP BY s.day"""
        )
        periods = self._con.fetch_rows("SELECT node_id, built FROM node WHERE current AND level <> 'segment'")
        return Freshness({r[0]: r[1] for r in days}, {NodeId(r[0]): r[1] for r in periods})

    def set_pin(self, target: str, on: bool, by: str) -> None:
        with self._con.begin_transaction() as con:
            con.execute("DELETE FROM pin WHERE target = ?", [target])
            if on:
                con.execute("INSERT INTO pin VALUES (?, ?, ?)", [target, by, self._clock.now_ms()])
        self._pins = None

    def list_pins(self) -> frozenset[str]:
        if self._pins is None:
            self._pins = frozenset(row[0] for row in self._con.fetch_rows("SELECT target FROM pin"))
        return self._pins

    def drop_nodes(self, ids: Iterable[NodeId]) -> None:
        with self._con.begin_transaction() as con:
            self._drop_nodes(con, list(dict.fromkeys(ids)))
        self._forget_nodes()

    def _drop_nodes(self, con: duckdb.DuckDBPyConnection, ids: Sequence[NodeId]) -> None:
        keys = list({node_key(i) for i in ids})
        add_changes(con, self._numbers, [(ChangeKind.NODE_DROPPED, i) for i in ids])
        self._numbers.once_committed(lambda: self._keyed.note_rows(NODES, [(key, None) for key in keys]))
        for table in ("node", "bullet", "bullet_grip", "term_delta", "tool_run"):
            con.execute(f"DELETE FROM {table} WHERE key IN (SELECT unnest(?::BIGINT[]))", [keys])
        con.execute("DELETE FROM node_parent WHERE child IN (SELECT unnest(?::BIGINT[]))", [keys])

    def replace_cuts(self, cuts: Sequence[Segment], new_ids: Mapping[NodeId, NodeId]) -> None:
        old_keys, new_keys = ([node_key(i) for i in ids] for ids in (new_ids, new_ids.values()))
        with self._con.begin_transaction() as con:
            self._numbers.once_committed(self._keyed.distrust)
            con.execute(
                "DELETE FROM segment_cut WHERE key IN (SELECT unnest(?::BIGINT[]))", [[*old_keys, *(c.key for c in cuts)]]
            )
            if cuts:
                insert_columns(con, "segment_cut", CUT_TYPES, segment_columns(cuts))
            con.execute(
                """UPDATE grip SET segment = m.new FROM (SELECT unnest(?::BIGINT[]) AS old, unnest(?::BIGINT[]) AS new) m
                   WHERE grip.segment = m.old""",
                [old_keys, new_keys],
            )
            self._drop_nodes(con, list(new_ids))
            con.execute("DELETE FROM alias WHERE old IN (SELECT unnest(?::VARCHAR[]))", [list(new_ids)])
            if new_ids:
                insert_columns(con, "alias", ("VARCHAR", "VARCHAR"), [list(new_ids), list(new_ids.values())])
        self._grips.drop_all()
        self.drop_caches()

    def fold_terms(self, more_than: int) -> int:
        folded = super().fold_terms(more_than)
        if folded:
            self._stamps.drop_values()
        return folded

    def move_segments(self, days: Mapping[int, str]) -> None:
        """Move segments; an id with the old day still finds its node."""
        with self._con.begin_transaction() as con:
            self._numbers.once_committed(self._keyed.distrust)
            source = "(SELECT unnest(?::BIGINT[]) AS key, unnest(?::VARCHAR[]) AS day, unnest(?::VARCHAR[]) AS id) m"
            ids = [segment_id(day, key) for key, day in days.items()]
            add_changes(con, self._numbers, [(ChangeKind.SEGMENT_PUBLISHED, i) for i in ids])
            parameters: list[Any] = [list(days), list(days.values()), ids]
            con.execute(f"UPDATE segment_cut SET day = m.day FROM {source} WHERE segment_cut.key = m.key", parameters)
            con.execute(f"UPDATE node SET node_id = m.id FROM {source} WHERE node.key = m.key", parameters)
            columns = [list(days), [node_key(day_id(day)) for day in days.values()], ids]
            con.execute(
                """UPDATE node_parent SET parent = m.parent, child_id = m.id
                   FROM (SELECT unnest(?::BIGINT[]) AS key, unnest(?::BIGINT[]) AS parent, unnest(?::VARCHAR[]) AS id) m
                   WHERE node_parent.child = m.key""",
                columns,
            )
        self._forget_nodes()
        self._forget_cuts()

    def iter_nodes(self) -> Iterator[TocNode]:
        rows = self._con.fetch_rows("SELECT key FROM node WHERE current ORDER BY level, start_ms, node_id")
        keys = [row[0] for row in rows]
        for start in range(0, len(keys), 1000):
            batch = keys[start : start + 1000]
            pins, nodes = self.list_pins(), self._read_nodes(batch)
            yield from (replace(nodes[key], pinned=nodes[key].node_id in pins) for key in batch if key in nodes)


def _extend_to_month(first_day: str, after_day: str) -> tuple[str, str]:
    """Return first day and day after the last of the month that the span lies in; the span as it is if it is in several."""
    if len(first_day) != len("2026-01-31"):
        return first_day, after_day
    year, month = int(first_day[:4]), int(first_day[5:7])
    following = f"{year + month // 12:04}-{month % 12 + 1:02}-01"
    return (f"{first_day[:7]}-01", following) if after_day <= following else (first_day, after_day)
