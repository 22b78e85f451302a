"""TocStore on PostgreSQL."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from memory_mcp.base.clock import Clock
from memory_mcp.model.calendar import TimeWindow, TocLevel, level_of
from memory_mcp.model.change import ChangeKind
from memory_mcp.model.ids import NodeId, day_id, node_key, segment_id
from memory_mcp.model.segment import Segment
from memory_mcp.model.toc import EXTRACTIVE, LLM, TocNode
from memory_mcp.storage.rows import NODE, SEGMENT, bullet_of, node_of, segment_of
from memory_mcp.storage.values import Build, Freshness, Scope, Tally
from memory_mcp_team.postgres.connection import Connection, Writer, own
from memory_mcp_team.postgres.kept import MOST, cache_cuts, cache_stamps
from memory_mcp_team.postgres.publish import list_unnamed, make_republished, publish, put, put_cuts
from memory_mcp_team.postgres.terms import PostgresTerms

_KEYS = "= ANY(%(keys)s::bigint[])"
_CUTS = f"SELECT {SEGMENT} FROM segment_cut WHERE {own()}"
_BY_STREAM = f"{_CUTS} AND stream = ANY(%(streams)s::bigint[]) ORDER BY stream, start_ts, start_id"
_HEADS = f"SELECT {NODE} FROM node WHERE {own()} AND current AND key {_KEYS}"
#: A node and what hangs on it in one statement, so that all of it is of one moment: bullets as arrays, a place in each for
#: every bullet; grips as two arrays, the bullet of each and their 16 bytes one after the other.
_WHOLE = f"""SELECT {", ".join(f"n.{column}" for column in NODE.split(", "))},
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
_PINNED = """INSERT INTO pin (tenant, space, target, set_by, at_ms) VALUES (%(tenant)s, %(space)s, %(target)s, %(by)s, %(at)s)
  ON CONFLICT (tenant, space, target) DO UPDATE SET set_by = excluded.set_by, at_ms = excluded.at_ms"""
_LED = f"""UPDATE grip g SET segment = m.new FROM unnest(%(gone)s::bigint[], %(to)s::bigint[]) m(old, new)
  WHERE {own("g")} AND g.segment = m.old"""
_FILED = "unnest(%(keys)s::bigint[], %(days)s::text[], %(ids)s::text[], %(parents)s::bigint[]) m(key, day, id, parent)"
#: Nodes of one statement when all of them are read.
_AT_ONCE = 1000


class PostgresToc(PostgresTerms):
    """Layer 1 of one memory, a `TocStore`.

    Cuts and stamps of segments are kept in memory.
    """

    def __init__(self, con: Connection, clock: Clock) -> None:
        super().__init__(con)
        self._clock = clock
        self._cuts, self._stamps = cache_cuts(con), cache_stamps(con)

    def current_version(self) -> int:
        """Return the number of the last change, cheaply."""
        return self._con.head().last_change

    def publish_build(self, build: Build) -> int:
        """Write a build with its outbox entries; return its number.

        What is kept in memory is dropped where a segment is written without its node.
        """
        built = publish(self._con, build)
        if list_unnamed(build):
            self.reread()
        return built

    def reread(self) -> None:
        """Drop what is kept in memory, so that the tables are read."""
        self._cuts.drop_value()
        self._stamps.drop_value()

    def get_cuts(self, streams: Iterable[int]) -> dict[int, list[Segment]]:
        """Return all cuts of some streams, by stream and start."""
        cuts: dict[int, list[Segment]] = {stream: [] for stream in streams}
        for segment in map(segment_of, self._con.rows(_BY_STREAM, streams=list(cuts)) if cuts else ()):
            cuts[segment.stream].append(segment)
        return cuts

    def iter_cuts(self) -> Iterator[Segment]:
        """Yield every cut, ordered by stream and start."""
        yield from map(segment_of, self._con.rows(f"{_CUTS} ORDER BY stream, start_ts, start_id"))

    def get_segments(self, keys: Iterable[int]) -> dict[int, Segment]:
        """Return the existing cuts of these segment keys, by key."""
        key_list = list(keys)
        if (cached := self._cuts.find_current()) is not None:
            return {key: cached.by_key[key] for key in key_list if key in cached.by_key}
        sql = f"SELECT key, {SEGMENT} FROM segment_cut WHERE {own()} AND key {_KEYS}"
        rows = self._con.rows(sql, keys=key_list) if key_list else ()
        return {row[0]: segment_of(row[1:]) for row in rows}

    def list_segments(self, scope: Scope) -> list[Segment]:
        """Return the cuts whose own time meets a scope, by start.

        From memory unless there are more than 50,000 cuts.
        """
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
        """Return the latest version of a node, also by a former id."""
        visited: set[NodeId] = set()
        while node_id not in visited:
            visited.add(node_id)
            if node := self.get_nodes([node_id]):
                return next(iter(node.values()))
            row = self._con.row(f"SELECT new FROM alias WHERE {own()} AND old = %(old)s", old=node_id)
            node_id = NodeId(row[0]) if row else node_id
        return None

    def get_nodes(self, ids: Iterable[NodeId]) -> dict[NodeId, TocNode]:
        """Return the latest versions of nodes by present id, with bullets and pins."""
        keys = list({node_key(i) for i in ids})
        return {n.node_id: n for n in self._read_whole(keys)} if keys else {}

    def _read_whole(self, keys: Sequence[int]) -> Iterator[TocNode]:
        for row in self._con.rows(_WHOLE, keys=keys):
            pinned, places, texts, kinds, projects, agents, quoted, ids = row[17:]
            grips: dict[int, list[int]] = {}
            for at, index in enumerate(quoted or ()):
                grips.setdefault(index, []).append(int.from_bytes(ids[16 * at : 16 * at + 16], "big"))
            bullets = zip(places or (), texts or (), kinds or (), projects or (), agents or (), strict=True)
            bullet_rows = [bullet_of(text, kind, project, agent, grips.get(at, ())) for at, text, kind, project, agent in bullets]
            yield node_of(row, bullet_rows, pinned)

    def get_heads(self, ids: Iterable[NodeId]) -> dict[NodeId, TocNode]:
        """Return the same as `get_nodes`, but without bullets and pins."""
        keys = list({node_key(i) for i in ids})
        return {n.node_id: n for row in self._con.rows(_HEADS, keys=keys) if (n := node_of(row, (), False))} if keys else {}

    def list_refined(self) -> list[NodeId]:
        """Return the ids of the current nodes that an agent has written."""
        return [node_id for node_id, author in self.get_authors().items() if not author.startswith(LLM)]

    def get_authors(self) -> dict[NodeId, str]:
        """Return the author of each current node not by the summarizer."""
        sql = f"SELECT node_id, author FROM node WHERE {own()} AND current AND author <> %(plain)s"
        return {NodeId(row[0]): row[1] for row in self._con.rows(sql, plain=EXTRACTIVE)}

    def get_stamps(self, ids: Iterable[NodeId]) -> dict[NodeId, tuple[int, int, int]]:
        """Return build number, term row count and last term row of nodes."""
        cached, id_list = self._stamps.get_current(), list(ids)
        stamps = {i: cached[i][1] for i in id_list if i in cached}
        if missing := {node_key(i) for i in id_list if i not in stamps}:
            read = {NodeId(r[1]): (r[0], (r[2], r[3], r[4])) for r in self._con.rows(_STAMPS, keys=list(missing))}
            stamps |= {i: stamp for i, (_, stamp) in read.items()}
            if len(cached) + len(read) <= MOST:
                cached |= {i: stamp for i, stamp in read.items() if level_of(i) is TocLevel.SEGMENT}
        return stamps

    def child_ids(self, parent: NodeId) -> list[NodeId]:
        """Return a node's children by time; for the root, the years."""
        sql = f"SELECT child_id FROM node_parent WHERE {own()} AND parent = %(parent)s ORDER BY start_ms, child_id"
        return [NodeId(row[0]) for row in self._con.rows(sql, parent=node_key(parent))]

    def list_ids(self, level: TocLevel, window: TimeWindow | None = None, project: str | None = None) -> list[NodeId]:
        """Return the ids of a level that begin in the window, by time."""
        where, parameters = ["level = %(level)s"], dict[str, Any](level=level.value)
        if window:
            where.append("start_ms >= %(start)s AND start_ms < %(end)s")
            parameters |= {"start": window.start_ms, "end": window.end_ms}
        if project is not None:
            where.append("%(project)s = ANY(projects)")
            parameters["project"] = project
        sql = f"SELECT node_id FROM node WHERE {own()} AND current AND {' AND '.join(where)} ORDER BY start_ms, node_id"
        return [NodeId(row[0]) for row in self._con.rows(sql, **parameters)]

    def tally_days(self, first_day: str, after_day: str, project: str | None) -> Tally:
        """Return counts and names of a span of days' segments.

        From memory unless there are more than 50,000 cuts.
        """
        if (cached := self._cuts.get_current()) is not None:
            return cached.tally_days(first_day, after_day, project)
        sql, parameters = (_TALLY, {}) if project is None else (f"{_TALLY} AND project = %(project)s", {"project": project})
        row = self._con.row(sql, first=first_day, after=after_day, **parameters)
        sessions, events, segments, tokens, agents, projects = row or (0, 0, 0, 0, None, None)
        name_lists = (tuple(sorted(set(names or ()) - {""})) for names in (agents, projects))
        return Tally(sessions, events, segments, tokens, *name_lists)

    def list_salient(self, first_day: str, after_day: str, project: str, limit: int) -> list[NodeId]:
        """Return up to `limit` ids of a project's most salient segments."""
        rows = self._con.rows(_SALIENT, project=project, first=first_day, after=after_day, limit=limit)
        return [NodeId(row[0]) for row in rows]

    def count_segments_by_day(self, project: str | None = None) -> list[tuple[str, int]]:
        """Return every day that has segments, with their number, in order."""
        if (cached := self._cuts.get_current()) is not None:
            return cached.count_by_day(project)
        where, parameters = _make_project_condition(project)
        rows = self._con.rows(
            f"SELECT day, count(*) FROM segment_cut WHERE {own()} {where} GROUP BY day ORDER BY day", **parameters
        )
        return [(row[0], row[1]) for row in rows]

    def list_days(self, project: str | None, first_day: str, after_day: str) -> list[str]:
        """Return the days of a span that have a segment, in order.

        From memory unless there are more than 50,000 cuts; `project` None: of any.
        """
        if (cached := self._cuts.get_current()) is not None:
            return cached.list_days(first_day, after_day, project)
        where, parameters = _make_project_condition(project)
        sql = f"SELECT DISTINCT day FROM segment_cut WHERE {own()} {where} AND day >= %(first)s AND day < %(after)s ORDER BY day"
        return [row[0] for row in self._con.rows(sql, first=first_day, after=after_day, **parameters)]

    def list_day_segments(self, first_day: str, after_day: str, project: str | None) -> list[Segment]:
        """Return the cuts filed under a span of days, by start.

        From memory unless there are more than 50,000 cuts; `project` None: of any.
        """
        if (cached := self._cuts.get_current()) is not None:
            return cached.list_between(first_day, after_day, project)
        where, parameters = _make_project_condition(project)
        sql = f"""SELECT {SEGMENT} FROM segment_cut WHERE {own()} {where} AND day >= %(first)s AND day < %(after)s
                  ORDER BY start_ts, start_id"""
        return [segment_of(row) for row in self._con.rows(sql, first=first_day, after=after_day, **parameters)]

    def get_freshness(self) -> Freshness:
        """Return the highest build number of each day's segments and period."""
        with self._con.open_reader() as reader:
            days, periods = reader.rows(_FRESH_DAYS), reader.rows(_FRESH_PERIODS)
        return Freshness({r[0]: r[1] for r in days}, {NodeId(r[0]): r[1] for r in periods})

    def set_pin(self, target: str, on: bool, by: str) -> None:
        """Pin a node or grip id in the name of `by`, or unpin it."""
        with self._con.open_writer() as writer:
            if on:
                writer.run(_PINNED, target=target, by=by, at=self._clock.now_ms())
            else:
                writer.run(f"DELETE FROM pin WHERE {own()} AND target = %(target)s", target=target)

    def list_pins(self) -> frozenset[str]:
        """Return every node and grip id that is pinned."""
        return frozenset(row[0] for row in self._con.rows(f"SELECT target FROM pin WHERE {own()}"))

    def drop_nodes(self, ids: Iterable[NodeId]) -> None:
        """Remove nodes with bullets and term sets, noting each."""
        with self._con.open_writer() as writer:
            _drop_nodes(writer, list(dict.fromkeys(ids)))

    def replace_cuts(self, cuts: Sequence[Segment], leads: Mapping[NodeId, NodeId]) -> None:
        """Store cuts under their keys, and remove the nodes in `leads`.

        What is kept in memory is dropped.
        """
        with self._con.open_writer() as writer:
            if leads:
                gone, to = ([node_key(i) for i in ids] for ids in (leads, leads.values()))
                writer.run(f"DELETE FROM segment_cut WHERE {own()} AND key {_KEYS}", keys=gone)
                writer.run(_LED, gone=gone, to=to)
                _drop_nodes(writer, list(leads))
                columns = (("old", "text"), ("new", "text"))
                put(writer, "alias", columns, [list(leads), list(leads.values())], "old")
            writer.add_changes(make_republished(writer, put_cuts(writer, cuts)))
        self.reread()

    def move_segments(self, days: Mapping[int, str]) -> None:
        """File segments (by key) under other days, noting each."""
        ids = [segment_id(day, key) for key, day in days.items()]
        parents = [node_key(day_id(day)) for day in days.values()]
        parameters = {"keys": list(days), "days": list(days.values()), "ids": ids, "parents": parents}
        with self._con.open_writer() as writer:
            writer.add_changes([(ChangeKind.SEGMENT_PUBLISHED, i) for i in ids])
            writer.run(f"UPDATE segment_cut t SET day = m.day FROM {_FILED} WHERE {own('t')} AND t.key = m.key", **parameters)
            writer.run(f"UPDATE node t SET node_id = m.id FROM {_FILED} WHERE {own('t')} AND t.key = m.key", **parameters)
            parent = (
                f"UPDATE node_parent t SET parent = m.parent, child_id = m.id FROM {_FILED} WHERE {own('t')} AND t.child = m.key"
            )
            writer.run(parent, **parameters)

    def iter_nodes(self) -> Iterator[TocNode]:
        """Yield the latest version of every node with bullets and pins."""
        rows = self._con.rows(f"SELECT key FROM node WHERE {own()} AND current ORDER BY level, start_ms, node_id")
        keys = [row[0] for row in rows]
        for start in range(0, len(keys), _AT_ONCE):
            part = keys[start : start + _AT_ONCE]
            nodes = {node_key(n.node_id): n for n in self._read_whole(part)}
            yield from (nodes[key] for key in part if key in nodes)


def _make_project_condition(project: str | None) -> tuple[str, dict[str, str]]:
    return ("", {}) if project is None else ("AND project = %(project)s", {"project": project})


def _drop_nodes(writer: Writer, ids: Sequence[NodeId]) -> None:
    """Remove nodes with bullets, terms and places under their parents, and note each, in the writer's transaction."""
    keys = list({node_key(i) for i in ids})
    writer.add_changes([(ChangeKind.NODE_DROPPED, i) for i in ids])
    for table in ("node", "bullet", "bullet_grip", "term_delta"):
        writer.run(f"DELETE FROM {table} WHERE {own()} AND key {_KEYS}", keys=keys)
    writer.run(f"DELETE FROM node_parent WHERE {own()} AND child {_KEYS}", keys=keys)
