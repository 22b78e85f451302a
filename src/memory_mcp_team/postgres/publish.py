"""Writes one build: cuts, nodes, bullets, grips, term rows, outbox entries and the checkpoint, in one transaction."""

from collections.abc import Iterable, Sequence
from typing import Any

from memory_mcp.base.failpoints import failpoint
from memory_mcp.model.calendar import TocLevel, level_of
from memory_mcp.model.change import ChangeKind
from memory_mcp.model.grip import Grip
from memory_mcp.model.ids import NodeId, grip_key, node_key
from memory_mcp.model.segment import Segment
from memory_mcp.storage.builds import VERSIONS_KEPT, make_bullet_columns, make_changes, make_parent_columns, select_outdated
from memory_mcp.storage.records import DERIVER
from memory_mcp.storage.rows import NODE, grip_columns, node_columns, segment_columns
from memory_mcp.storage.values import Build
from memory_mcp_team.postgres.connection import Connection, Row, Writer, own
from memory_mcp_team.postgres.database import uuids_of
from memory_mcp_team.postgres.outbox import put_checkpoint
from memory_mcp_team.postgres.tool_runs import write_runs

_CUT = (
    ("key", "bigint"), ("stream", "bigint"), ("cut_no", "integer"), ("session_id", "text"), ("project", "text"),
    ("thread", "text"), ("agent", "text"), ("day", "text"), ("start_ts", "bigint"), ("start_id", "uuid"), ("end_ts", "bigint"),
    ("end_id", "uuid"), ("events", "integer"), ("tokens", "integer"), ("open", "boolean"), ("cutter", "integer"),
)  # fmt: skip
_GRIP = (
    ("grip_id", "uuid"), ("event_start", "uuid"), ("event_end", "uuid"), ("span_start", "integer"), ("span_end", "integer"),
    ("quote_hash", "bigint"), ("ts", "bigint"), ("segment", "bigint"),
)  # fmt: skip
_PARENT = (("child", "bigint"), ("parent", "bigint"), ("child_id", "text"), ("start_ms", "bigint"))
_NODE = NODE.replace("version,", "version, current,")
_NODE_TYPES = (
    *("bigint", "text", "text", "integer", "boolean", "bigint", "bigint", "text", "text", "text[]", "text"),
    *("double precision", "integer", "integer", "text[]", "text[]", "text", "bigint"),
)
_BULLET, _BULLET_TYPES = "key, version, pos, text, kind, project, agent", ("bigint", "integer", "integer", *["text"] * 4)
_LINK, _LINK_TYPES = "key, version, pos, place, grip_id", ("bigint", *["integer"] * 3, "uuid")
_CURRENT_NODES = f"SELECT node_id FROM node WHERE {own()} AND current AND key = ANY(%(keys)s::bigint[])"
_RETIRE_NODES = f"UPDATE node SET current = false WHERE {own()} AND current AND key = ANY(%(keys)s::bigint[])"
_UPDATE_COUNTS = f"""UPDATE node n SET sessions = m.sessions, events = m.events, built = %(built)s
  FROM unnest(%(keys)s::bigint[], %(sessions)s::integer[], %(events)s::integer[]) m(key, sessions, events)
  WHERE {own("n")} AND n.current AND n.key = m.key"""
_DROP_VERSIONS = f"""DELETE FROM {{table}} o USING unnest(%(keys)s::bigint[], %(last)s::integer[]) m(key, version)
  WHERE {own("o")} AND o.key = m.key AND o.version <= m.version"""
_MOVE_GRIPS = f"""UPDATE grip g SET segment = m.segment FROM unnest(%(ids)s::uuid[], %(segments)s::bigint[]) m(id, segment)
  WHERE {own("g")} AND g.grip_id = m.id AND g.segment <> m.segment"""
#: Rows of one statement; more are written in several, so that no statement's parameters grow without bound.
_ROWS = 5000


def write_build(con: Connection, build: Build) -> int:
    """Write a build in one transaction; return its last outbox number.

    Segments whose cut or terms are written without a node get an outbox entry too, unless their cut is as it was. Stored grips
    stay as they are, but for their segment with `relist`.
    """
    with con.open_writer() as writer:
        changes = make_changes(build.nodes)
        same = {s.node_id for s in build.segments}.difference(put_cuts(writer, build.segments))
        if unnamed_ids := list_unnamed(build) - same:
            changes += make_republished(writer, unnamed_ids)
        built = writer.add_changes(changes)
        _put_nodes(writer, build, built)
        if build.count_updates:
            keys = [node_key(n.node_id) for n in build.count_updates]
            sessions, events = [n.session_count for n in build.count_updates], [n.event_count for n in build.count_updates]
            writer.send_later(_UPDATE_COUNTS, built=built, keys=keys, sessions=sessions, events=events)
        _put_grips(writer, build)
        if build.reset_terms:
            reset = [node_key(n) for n in build.reset_terms]
            writer.send_later(f"DELETE FROM term_delta WHERE {own()} AND key = ANY(%(keys)s::bigint[])", keys=reset)
        if build.reset_frequencies:
            writer.send_later(f"DELETE FROM frequency WHERE {own()}")
        terms: list[list[Any]] = [[node_key(t.node_id) for t in build.terms], [t.hashes for t in build.terms]]
        writer.insert_rows("term_delta", "key, hashes", ("bigint", "bytea"), terms)
        by_project: list[tuple[Any, ...]] = [(f.project, f.hashes, f.counts) for f in build.frequencies]
        columns = [list(column) for column in zip(*by_project, strict=True)]
        writer.insert_rows("frequency", "project, hashes, counts", ("text", "bytea", "bytea"), columns)
        write_runs(writer, build)
        if build.derived_to is not None:
            put_checkpoint(writer, DERIVER, str(build.derived_to))
        failpoint("derive.before_commit")
    failpoint("derive.committed")
    return built


def list_unnamed(build: Build) -> set[NodeId]:
    """Return segments that a build writes without a node."""
    ids = (*(s.node_id for s in build.segments), *build.reset_terms, *(t.node_id for t in build.terms))
    return {i for i in ids if level_of(i) is TocLevel.SEGMENT} - {n.node_id for n in build.nodes}


def make_republished(writer: Writer, ids: Iterable[NodeId]) -> list[tuple[ChangeKind, str]]:
    """Return outbox entries of the segments that have a node."""
    rows = writer.rows(_CURRENT_NODES, keys=[node_key(i) for i in ids])
    return [(ChangeKind.SEGMENT_PUBLISHED, node_id) for (node_id,) in rows]


def put_cuts(writer: Writer, segments: Sequence[Segment]) -> list[NodeId]:
    """Replace cuts; return the ids of those that changed."""
    by_key = {s.key: s for s in segments}
    columns = segment_columns(list(by_key.values()))
    columns[9], columns[11] = uuids_of(columns[9]), uuids_of(columns[11])
    written: list[Row] = []
    for start in range(0, len(by_key), _ROWS):
        written += writer.rows(_PUT_CUTS, **_slice_columns(_CUT, columns, start))
    return [by_key[key].node_id for (key,) in written]


def upsert_rows(writer: Writer, table: str, columns: Sequence[tuple[str, str]], lists: Sequence[list[Any]], key: str) -> None:
    """Write rows given as lists, one for each column.

    A row with the key of a stored one replaces it; with the key "" stored rows stay. No key may be there twice in one call.
    """
    text = _make_upsert(table, columns, key)
    for start in range(0, len(lists[0]), _ROWS):
        writer.send_later(text, **_slice_columns(columns, lists, start))


def _make_upsert(table: str, columns: Sequence[tuple[str, str]], key: str) -> str:
    names = ", ".join(name for name, _ in columns)
    arrays = ", ".join(f"%({name})s::{kind}[]" for name, kind in columns)
    fresh = ", ".join(f"{name} = excluded.{name}" for name, _ in columns)
    on = f"(tenant, space, {key}) DO UPDATE SET {fresh}" if key else "DO NOTHING"
    return f"""INSERT INTO {table} (tenant, space, {names}) SELECT %(tenant)s, %(space)s, {names}
      FROM unnest({arrays}) given({names}) ON CONFLICT {on}"""


def _slice_columns(columns: Sequence[tuple[str, str]], lists: Sequence[list[Any]], start: int) -> dict[str, list[Any]]:
    return {name: rows[start : start + _ROWS] for (name, _), rows in zip(columns, lists, strict=True)}


#: A cut that is as it was is not written, and not named.
_PUT_CUTS = f"""{_make_upsert("segment_cut", _CUT, "key")}
  WHERE ({", ".join(f"segment_cut.{name}" for name, _ in _CUT)}) IS DISTINCT FROM ({", ".join(f"excluded.{n}" for n, _ in _CUT)})
  RETURNING key"""


def _put_nodes(writer: Writer, build: Build, built: int) -> None:
    nodes = build.nodes
    if not nodes:
        return
    keys = [node_key(n.node_id) for n in nodes]
    if replaced := [key for key, n in zip(keys, nodes, strict=True) if n.version > 1]:
        writer.send_later(_RETIRE_NODES, keys=replaced)
    writer.insert_rows("node", _NODE, _NODE_TYPES, node_columns(nodes, keys, built))
    bullets, links = make_bullet_columns(nodes)
    writer.insert_rows("bullet", _BULLET, _BULLET_TYPES, bullets)
    if links:
        writer.insert_rows("bullet_grip", _LINK, _LINK_TYPES, [*links[:4], uuids_of(links[4])])
    aged = select_outdated(nodes)
    for table in ("bullet", "bullet_grip", "node") if aged else ():
        last = [n.version - VERSIONS_KEPT for n in aged]
        writer.send_later(_DROP_VERSIONS.format(table=table), keys=[node_key(n.node_id) for n in aged], last=last)
    listed = [n for n in nodes if n.version == 1 or build.relist]
    if build.relist:
        unlist = f"DELETE FROM node_parent WHERE {own()} AND child = ANY(%(keys)s::bigint[])"
        writer.send_later(unlist, keys=[node_key(n.node_id) for n in listed])
    if listed and (columns := make_parent_columns(listed)):
        upsert_rows(writer, "node_parent", _PARENT, columns, "parent, child")


def _put_grips(writer: Writer, build: Build) -> None:
    grips: Sequence[Grip] = list({g.grip_id: g for g in build.grips}.values())
    if not grips:
        return
    columns = grip_columns(grips, [grip_key(g.grip_id)[0] for g in grips])
    columns[:3] = map(uuids_of, columns[:3])
    upsert_rows(writer, "grip", _GRIP, columns, "")
    if build.relist:
        writer.send_later(_MOVE_GRIPS, ids=columns[0], segments=columns[7])
