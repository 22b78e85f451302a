"""TocStore on PostgreSQL."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from memory_mcp.base.clock import Clock
from memory_mcp.model.calendar import TimeWindow, TocLevel, level_of
from memory_mcp.model.change import ChangeKind
from memory_mcp.model.ids import NodeId, day_id, node_key, segment_id
from memory_mcp.model.segment import Segment
from memory_mcp.model.toc import EXTRACTIVE, TocNode
from memory_mcp.storage.base import TocStore
from memory_mcp.storage.rows import NODE, SEGMENT, bullet_of, node_of, segment_of
from memory_mcp.storage.termsets import fold_counts, fold_sets, group_sets, subtract_sets
from memory_mcp.storage.values import Build, Freshness, Scope, Tally
from memory_mcp_team.postgres.cache import MAX_CUTS, cache_cuts, cache_stamps
from memory_mcp_team.postgres.connection import Connection, Writer, own
from memory_mcp_team.postgres.publish import list_unnamed, make_republished, put_cuts, upsert_rows, write_build

_TERM_SETS = f"SELECT key, hashes FROM term_delta WHERE {own()} AND key = ANY(%(keys)s::bigint[])"
_TERMS_OF_DAYS = f"""SELECT t.hashes FROM segment_cut s JOIN term_delta t ON {own("t")} AND t.key = s.key
  WHERE {own("s")} AND s.project = %(project)s AND s.day >= %(first)s AND s.day < %(after)s"""
_MANY_SETS = f"""SELECT number, key, hashes FROM term_delta WHERE {own()} AND key IN (
  SELECT key FROM term_delta WHERE {own()} GROUP BY key HAVING count(*) > %(most)s)"""
_DROP_SETS = f"""DELETE FROM term_delta t USING unnest(%(keys)s::bigint[], %(numbers)s::bigint[]) m(key, number)
  WHERE {own("t")} AND t.key = m.key AND t.number = m.number"""
_MANY_FREQUENCIES = f"""SELECT number, project, hashes, counts FROM frequency WHERE {own()} AND project IN (
  SELECT project FROM frequency WHERE {own()} GROUP BY project HAVING count(*) > %(most)s)"""
_FREQUENCY = ("project, hashes, counts", ("text", "bytea", "bytea"))
_KEYS = "= ANY(%(keys)s::bigint[])"
_CUTS = f"SELECT {SEGMENT} FROM segment_cut WHERE {own()}"
_BY_STREAM = f"{_CUTS} AND stream = ANY(%(streams)s::bigint[]) ORDER BY stream, start_ts, start_id"
_HEADS = f"SELECT {NODE} FROM node WHERE {own()} AND current AND key {_KEYS}"
#: A node and what hangs on it in one statement, so that all of it is of one moment: bullets as arrays, a place in each for
#: every bullet; grips as two arrays, the bullet of each and their 16 bytes one after the other.
_NODES = f"""SELECT {", ".join(f"n.{column}" for column in NODE.split(", "))},
    EXISTS (SELECT FROM pin p WHERE {own("p")} AND p.target = n.node_id),
    b.places, b.texts, b.kinds, b.projects, b.agents, g.places, g.ids
  FROM node n
  LEFT JOIN LATERAL (
    SELECT array_agg(pos ORDER BY pos) AS places, array_agg(text ORDER BY pos) AS texts, array_agg(kind ORDER BY pos) AS kinds,
      array_agg(project ORDER BY pos) AS projects, array_agg(agent ORDER BY pos) AS agents
    FROM bullet WHERE {own("bullet")} AND bullet.key = n.key AND bullet.version = n.version) b ON true
  LEFT JOIN LATERAL (
    SELECT array_agg(pos ORDER BY pos, place) AS places, string_agg(uuid_send(grip_id), ''::bytea ORDER BY pos, place) AS ids
    FROM bullet_grip l WHERE {own("l")} AND l.key = n.key AND l.version = n.version) g ON true
  WHERE {own("n")} AND n.current AND n.key {_KEYS}"""
_STAMPS = f"""SELECT n.key, n.node_id, n.built, coalesce(t.rows, 0), coalesce(t.last, 0) FROM node n LEFT JOIN (
    SELECT key, count(*) AS rows, max(number) AS last FROM term_delta WHERE {own()} AND key {_KEYS} GROUP BY key
  ) t ON t.key = n.key WHERE {own("n")} AND n.current AND n.key {_KEYS}"""
_TALLY = f"""SELECT count(DISTINCT session_id), coalesce(sum(events), 0)::bigint, count(*), coalesce(sum(tokens), 0)::bigint,
    array_agg(DISTINCT agent), array_agg(DISTINCT project)
  FROM segment_cut WHERE {own()} AND day >= %(first)s AND day < %(after)s"""
_SALIENT = f"""SELECT n.node_id FROM segment_cut s JOIN node n ON {own("n")} AND n.key = s.key AND n.current
  WHERE {own("s")} AND s.project = %(project)s AND s.day >= %(first)s AND s.day < %(after)s
  ORDER BY n.salience DESC, n.start_ms DESC, n.node_id LIMIT %(limit)s"""
_FRESH_DAYS = f"""SELECT s.day, max(n.built) FROM node n JOIN segment_cut s ON {own("s")} AND s.key = n.key
  WHERE {own("n")} AND n.current AND n.level = 'segment' GROUP BY s.day"""
_FRESH_PERIODS = f"SELECT node_id, built FROM node WHERE {own()} AND current AND level <> 'segment'"
_PUT_PIN = """INSERT INTO pin (tenant, space, target, set_by, at_ms) VALUES (%(tenant)s, %(space)s, %(target)s, %(by)s, %(at)s)
  ON CONFLICT (tenant, space, target) DO UPDATE SET set_by = excluded.set_by, at_ms = excluded.at_ms"""
_MOVE_GRIPS = f"""UPDATE grip g SET segment = m.new FROM unnest(%(gone)s::bigint[], %(to)s::bigint[]) m(old, new)
  WHERE {own("g")} AND g.segment = m.old"""
_NEW_DAYS = "unnest(%(keys)s::bigint[], %(days)s::text[], %(ids)s::text[], %(parents)s::bigint[]) m(key, day, id, parent)"
_MOVE_SEGMENTS = (
    f"UPDATE segment_cut t SET day = m.day FROM {_NEW_DAYS} WHERE {own('t')} AND t.key = m.key",
    f"UPDATE node t SET node_id = m.id FROM {_NEW_DAYS} WHERE {own('t')} AND t.key = m.key",
    f"""UPDATE node_parent t SET parent = m.parent, child_id = m.id FROM {_NEW_DAYS}
      WHERE {own("t")} AND t.child = m.key""",
)
#: Nodes of one statement when all of them are read.
_AT_ONCE = 1000


class PostgresToc(TocStore):
    """Layer 1 of one memory, cuts and stamps in memory; a `TocStore`."""

    def __init__(self, con: Connection, clock: Clock) -> None:
        self._con, self._clock = con, clock
        self._cuts, self._stamps = cache_cuts(con), cache_stamps(con)

    def current_version(self) -> int:
        return self._con.get_head().last_change

    def publish_build(self, build: Build) -> int:
        built = write_build(self._con, build)
        if list_unnamed(build):
            self.drop_caches()
        return built

    def drop_caches(self) -> None:
        self._cuts.drop_value()
        self._stamps.drop_value()

    def get_cuts(self, streams: Iterable[int]) -> dict[int, list[Segment]]:
        cuts: dict[int, list[Segment]] = {stream: [] for stream in streams}
        for segment in map(segment_of, self._con.rows(_BY_STREAM, streams=list(cuts)) if cuts else ()):
            cuts[segment.stream].append(segment)
        return cuts

    def iter_cuts(self) -> Iterator[Segment]:
        yield from map(segment_of, self._con.rows(f"{_CUTS} ORDER BY stream, start_ts, start_id"))

    def get_segments(self, keys: Iterable[int]) -> dict[int, Segment]:
        key_list = list(keys)
        if (cached := self._cuts.find_current()) is not None:
            return {key: cached.by_key[key] for key in key_list if key in cached.by_key}
        sql = f"SELECT key, {SEGMENT} FROM segment_cut WHERE {own()} AND key {_KEYS}"
        rows = self._con.rows(sql, keys=key_list) if key_list else ()
        return {row[0]: segment_of(row[1:]) for row in rows}

    def list_segments(self, scope: Scope) -> list[Segment]:
        if (cached := self._cuts.get_current()) is not None:
            return cached.list_in_scope(scope)
        where, parameters = [_CUTS], dict[str, Any]()
        for column, value in (("project", scope.project), ("agent", scope.agent)):
            if value is not None:
                where.append(f"{column} = %({column})s")
                parameters[column] = value
        if scope.window:
            where.append("end_ts >= %(start)s AND start_ts < %(end)s")
            parameters |= {"start": scope.window.start_ms, "end": scope.window.end_ms}
        return [segment_of(row) for row in self._con.rows(f"{' AND '.join(where)} ORDER BY start_ts, start_id", **parameters)]

    def find_node(self, node_id: NodeId) -> TocNode | None:
        visited: set[NodeId] = set()
        while node_id not in visited:
            visited.add(node_id)
            if node := self.get_nodes([node_id]):
                return next(iter(node.values()))
            row = self._con.row(f"SELECT new FROM alias WHERE {own()} AND old = %(old)s", old=node_id)
            node_id = NodeId(row[0]) if row else node_id
        return None

    def get_nodes(self, ids: Iterable[NodeId]) -> dict[NodeId, TocNode]:
        keys = list({node_key(i) for i in ids})
        return {n.node_id: n for n in self._read_nodes(keys)} if keys else {}

    def _read_nodes(self, keys: Sequence[int]) -> Iterator[TocNode]:
        for row in self._con.rows(_NODES, keys=keys):
            pinned, places, texts, kinds, projects, agents, quoted, ids = row[17:]
            grips: dict[int, list[int]] = {}
            for at, index in enumerate(quoted or ()):
                grips.setdefault(index, []).append(int.from_bytes(ids[16 * at : 16 * at + 16], "big"))
            bullets = zip(places or (), texts or (), kinds or (), projects or (), agents or (), strict=True)
            bullet_rows = [bullet_of(text, kind, project, agent, grips.get(at, ())) for at, text, kind, project, agent in bullets]
            yield node_of(row, bullet_rows, pinned)

    def get_heads(self, ids: Iterable[NodeId]) -> dict[NodeId, TocNode]:
        keys = list({node_key(i) for i in ids})
        return {n.node_id: n for row in self._con.rows(_HEADS, keys=keys) if (n := node_of(row, (), False))} if keys else {}

    def get_authors(self) -> dict[NodeId, str]:
        sql = f"SELECT node_id, author FROM node WHERE {own()} AND current AND author <> %(plain)s"
        return {NodeId(row[0]): row[1] for row in self._con.rows(sql, plain=EXTRACTIVE)}

    def get_builds(self, ids: Iterable[NodeId]) -> dict[NodeId, int]:
        return {node_id: stamp[0] for node_id, stamp in self.get_stamps(ids).items()}

    def get_stamps(self, ids: Iterable[NodeId]) -> dict[NodeId, tuple[int, int, int]]:
        cached, id_list = self._stamps.get_current(), list(ids)
        stamps = {i: cached[i][1] for i in id_list if i in cached}
        if missing := {node_key(i) for i in id_list if i not in stamps}:
            read = {NodeId(r[1]): (r[0], (r[2], r[3], r[4])) for r in self._con.rows(_STAMPS, keys=list(missing))}
            stamps |= {i: stamp for i, (_, stamp) in read.items()}
            if len(cached) + len(read) <= MAX_CUTS:
                cached |= {i: stamp for i, stamp in read.items() if level_of(i) is TocLevel.SEGMENT}
        return stamps

    def child_ids(self, parent: NodeId) -> list[NodeId]:
        sql = f"SELECT child_id FROM node_parent WHERE {own()} AND parent = %(parent)s ORDER BY start_ms, child_id"
        return [NodeId(row[0]) for row in self._con.rows(sql, parent=node_key(parent))]

    def list_ids(self, level: TocLevel, window: TimeWindow | None = None) -> list[NodeId]:
        bounds = "AND start_ms >= %(start)s AND start_ms < %(end)s" if window else ""
        times = {"start": window.start_ms, "end": window.end_ms} if window else {}
        sql = f"SELECT node_id FROM node WHERE {own()} AND current AND level = %(level)s {bounds} ORDER BY start_ms, node_id"
        return [NodeId(row[0]) for row in self._con.rows(sql, level=level.value, **times)]

    def tally_days(self, first_day: str, after_day: str, project: str | None) -> Tally:
        if (cached := self._cuts.get_current()) is not None:
            return cached.tally_days(first_day, after_day, project)
        sql, parameters = (_TALLY, {}) if project is None else (f"{_TALLY} AND project = %(project)s", {"project": project})
        row = self._con.row(sql, first=first_day, after=after_day, **parameters)
        sessions, events, segments, tokens, agents, projects = row or (0, 0, 0, 0, None, None)
        name_lists = (tuple(sorted(set(names or ()) - {""})) for names in (agents, projects))
        return Tally(sessions, events, segments, tokens, *name_lists)

    def list_salient(self, first_day: str, after_day: str, project: str, limit: int) -> list[NodeId]:
        rows = self._con.rows(_SALIENT, project=project, first=first_day, after=after_day, limit=limit)
        return [NodeId(row[0]) for row in rows]

    def count_segments_by_day(self, project: str | None = None) -> list[tuple[str, int]]:
        if (cached := self._cuts.get_current()) is not None:
            return cached.count_by_day(project)
        where, parameters = _make_project_condition(project)
        rows = self._con.rows(
            f"SELECT day, count(*) FROM segment_cut WHERE {own()} {where} GROUP BY day ORDER BY day", **parameters
        )
        return [(row[0], row[1]) for row in rows]

    def list_days(self, project: str | None, first_day: str, after_day: str) -> list[str]:
        if (cached := self._cuts.get_current()) is not None:
            return cached.list_days(first_day, after_day, project)
        where, parameters = _make_project_condition(project)
        sql = f"SELECT DISTINCT day FROM segment_cut WHERE {own()} {where} AND day >= %(first)s AND day < %(after)s ORDER BY day"
        return [row[0] for row in self._con.rows(sql, first=first_day, after=after_day, **parameters)]

    def list_day_segments(self, first_day: str, after_day: str, project: str | None) -> list[Segment]:
        if (cached := self._cuts.get_current()) is not None:
            return cached.list_between(first_day, after_day, project)
        where, parameters = _make_project_condition(project)
        sql = f"""SELECT {SEGMENT} FROM segment_cut WHERE {own()} {where} AND day >= %(first)s AND day < %(after)s
                  ORDER BY start_ts, start_id"""
        return [segment_of(row) for row in self._con.rows(sql, first=first_day, after=after_day, **parameters)]

    def get_term_sets(self, ids: Iterable[NodeId]) -> dict[NodeId, list[bytes]]:
        by_key = {node_key(i): i for i in ids}
        term_sets: dict[NodeId, list[bytes]] = {}
        for key, hashes in self._con.rows(_TERM_SETS, keys=list(by_key)) if by_key else ():
            term_sets.setdefault(by_key[key], []).append(hashes)
        return term_sets

    def list_day_terms(self, first_day: str, after_day: str, project: str) -> list[bytes]:
        return [row[0] for row in self._con.rows(_TERMS_OF_DAYS, project=project, first=first_day, after=after_day)]

    def list_frequencies(self) -> list[tuple[str, bytes, bytes]]:
        rows = self._con.rows(f"SELECT project, hashes, counts FROM frequency WHERE {own()}")
        return [(row[0], row[1], row[2]) for row in rows]

    def fold_terms(self, more_than: int) -> int:
        with self._con.open_writer() as writer:
            gone, joined = fold_sets(writer.rows(_MANY_SETS, most=more_than), more_than)
            if joined:
                rows = [(key, number) for key, numbers in gone.items() for number in numbers]
                writer.execute(_DROP_SETS, keys=[key for key, _ in rows], numbers=[number for _, number in rows])
                writer.insert_rows("term_delta", "key, hashes", ("bigint", "bytea"), [list(joined), list(joined.values())])
            folded = list(fold_counts(writer.rows(_MANY_FREQUENCIES, most=more_than), more_than))
            for project, numbers, (hashes, counts) in folded:
                writer.execute(f"DELETE FROM frequency WHERE {own()} AND number = ANY(%(numbers)s::bigint[])", numbers=numbers)
                writer.insert_rows("frequency", *_FREQUENCY, [[project], [hashes], [counts]])
            return len(joined) + len(folded)

    def get_freshness(self) -> Freshness:
        with self._con.open_reader() as reader:
            days, periods = reader.rows(_FRESH_DAYS), reader.rows(_FRESH_PERIODS)
        return Freshness({r[0]: r[1] for r in days}, {NodeId(r[0]): r[1] for r in periods})

    def set_pin(self, target: str, on: bool, by: str) -> None:
        with self._con.open_writer() as writer:
            if on:
                writer.execute(_PUT_PIN, target=target, by=by, at=self._clock.now_ms())
            else:
                writer.execute(f"DELETE FROM pin WHERE {own()} AND target = %(target)s", target=target)

    def list_pins(self) -> frozenset[str]:
        return frozenset(row[0] for row in self._con.rows(f"SELECT target FROM pin WHERE {own()}"))

    def drop_nodes(self, ids: Iterable[NodeId]) -> None:
        with self._con.open_writer() as writer:
            _drop_nodes(writer, list(dict.fromkeys(ids)))

    def replace_cuts(self, cuts: Sequence[Segment], leads: Mapping[NodeId, NodeId]) -> None:
        with self._con.open_writer() as writer:
            if leads:
                gone, to = ([node_key(i) for i in ids] for ids in (leads, leads.values()))
                writer.execute(f"DELETE FROM segment_cut WHERE {own()} AND key {_KEYS}", keys=gone)
                writer.execute(_MOVE_GRIPS, gone=gone, to=to)
                _drop_nodes(writer, list(leads))
                columns = (("old", "text"), ("new", "text"))
                upsert_rows(writer, "alias", columns, [list(leads), list(leads.values())], "old")
            writer.add_changes(make_republished(writer, put_cuts(writer, cuts)))
        self.drop_caches()

    def move_segments(self, days: Mapping[int, str]) -> None:
        ids = [segment_id(day, key) for key, day in days.items()]
        parents = [node_key(day_id(day)) for day in days.values()]
        parameters = {"keys": list(days), "days": list(days.values()), "ids": ids, "parents": parents}
        with self._con.open_writer() as writer:
            writer.add_changes([(ChangeKind.SEGMENT_PUBLISHED, i) for i in ids])
            for update in _MOVE_SEGMENTS:
                writer.execute(update, **parameters)

    def iter_nodes(self) -> Iterator[TocNode]:
        rows = self._con.rows(f"SELECT key FROM node WHERE {own()} AND current ORDER BY level, start_ms, node_id")
        keys = [row[0] for row in rows]
        for start in range(0, len(keys), _AT_ONCE):
            part = keys[start : start + _AT_ONCE]
            nodes = {node_key(n.node_id): n for n in self._read_nodes(part)}
            yield from (nodes[key] for key in part if key in nodes)


def _make_project_condition(project: str | None) -> tuple[str, dict[str, str]]:
    return ("", {}) if project is None else ("AND project = %(project)s", {"project": project})


def _drop_nodes(writer: Writer, ids: Sequence[NodeId]) -> None:
    keys = list({node_key(i) for i in ids})
    writer.add_changes([(ChangeKind.NODE_DROPPED, i) for i in ids])
    for table in ("node", "bullet", "bullet_grip", "term_delta", "tool_run"):
        writer.execute(f"DELETE FROM {table} WHERE {own()} AND key {_KEYS}", keys=keys)
    writer.execute(f"DELETE FROM node_parent WHERE {own()} AND child {_KEYS}", keys=keys)


def subtract_segment_terms(writer: Writer, segments: Sequence[int]) -> None:
    """Subtract the term sets of segments (keys) from their projects' frequencies.

    The segments' cuts and term rows must still be there.
    """
    rows_of_sets = writer.rows(
        f"""SELECT s.project, t.key, t.hashes FROM term_delta t JOIN segment_cut s ON {own("s")} AND s.key = t.key
            WHERE {own("t")} AND t.key = ANY(%(keys)s::bigint[])""",
        keys=list(segments),
    )
    for project, sets in group_sets(rows_of_sets).items():
        rows = writer.rows(f"SELECT hashes, counts FROM frequency WHERE {own()} AND project = %(project)s", project=project)
        writer.execute(f"DELETE FROM frequency WHERE {own()} AND project = %(project)s", project=project)
        if remainder := subtract_sets(rows, sets):
            writer.insert_rows("frequency", *_FREQUENCY, [[project], *([part] for part in remainder)])
