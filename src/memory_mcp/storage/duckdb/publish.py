"""Writes one build in one transaction."""

from collections.abc import Callable, Mapping, Sequence
from itertools import chain
from typing import Any

import duckdb

from memory_mcp.base.failpoints import failpoint
from memory_mcp.model.ids import event_key, grip_key, node_key
from memory_mcp.model.segment import Segment
from memory_mcp.model.toc import TocNode
from memory_mcp.storage.builds import VERSIONS_KEPT, make_bullet_columns, make_changes, make_parent_columns, select_outdated
from memory_mcp.storage.duckdb.connection import Connection
from memory_mcp.storage.duckdb.keyed_file import GRIPS
from memory_mcp.storage.duckdb.keyed_rows import KeyedRows
from memory_mcp.storage.duckdb.names import join_names
from memory_mcp.storage.duckdb.outbox import Numbers, add_changes, put_checkpoint
from memory_mcp.storage.duckdb.recent import RecentGrips
from memory_mcp.storage.duckdb.statements import insert_columns, run_parsed
from memory_mcp.storage.records import DERIVER
from memory_mcp.storage.rows import grip_columns, node_columns, run_columns, segment_columns
from memory_mcp.storage.values import Build

_IN = "(SELECT unnest(?::BIGINT[]))"
CUT_TYPES = (
    *("BIGINT", "BIGINT", "INTEGER", *["VARCHAR"] * 5, *["BIGINT", "HUGEINT"] * 2),
    *("INTEGER", "INTEGER", "BOOLEAN", "INTEGER"),
)
_NODE = (
    *("BIGINT", "VARCHAR", "VARCHAR", "INTEGER", "BOOLEAN", "BIGINT", "BIGINT", "VARCHAR", "VARCHAR", "VARCHAR", "VARCHAR"),
    *("DOUBLE", "INTEGER", "INTEGER", "VARCHAR", "VARCHAR", "VARCHAR", "BIGINT"),
)
_BULLET = ("BIGINT", "INTEGER", "INTEGER", *["VARCHAR"] * 4)
_BULLET_GRIP = ("BIGINT", "INTEGER", "INTEGER", "HUGEINT")
_GRIP = ("HUGEINT", "HUGEINT", "HUGEINT", "INTEGER", "INTEGER", "BIGINT", "BIGINT", "BIGINT")
_PARENT = ("BIGINT", "BIGINT", "VARCHAR", "BIGINT")
_RUN = ("BIGINT", "HUGEINT", "HUGEINT", "BOOLEAN", "TINYINT", "BIGINT")
_GROWN = "UPDATE segment_cut SET project = ?, end_ts = ?, end_id = ?, events = ?, tokens = ?, open = ? WHERE key = ?"
_COUNTED = """UPDATE node SET sessions = m.sessions, events = m.events, built = ?
  FROM (SELECT unnest(?::BIGINT[]) AS key, unnest(?::INTEGER[]) AS sessions, unnest(?::INTEGER[]) AS events) m
  WHERE node.current AND node.key = m.key"""
_MOVED = """UPDATE grip SET segment = m.segment
  FROM (SELECT unnest(?::HUGEINT[]) AS id, unnest(?::BIGINT[]) AS segment) m
  WHERE grip.grip_id = m.id AND grip.segment <> m.segment"""
#: A build of so many nodes takes some 20 ms. With `relist` it may have thousands of grips beside: without the optimizer each
#: is compared with every stored one.
_FEW_NODES = 12
_OLD = f"""key IN {_IN} AND version <=
  (SELECT n.version FROM node n WHERE n.current AND n.key = {{table}}.key) - {VERSIONS_KEPT}"""


def publish_build(
    file: Connection,
    numbers: Numbers,
    build: Build,
    old_cuts: dict[int, Segment],
    recent: RecentGrips,
    keyed: KeyedRows,
    settle: Callable[[], None],
) -> int:
    """Write `build` in one transaction; return its number.

    `settle` is called once it is committed. `old_cuts` has the stored cuts of the build's segments by key. Old versions of
    nodes are removed now and then; grips that are stored already stay as they are, but for their segment with `relist`.
    """
    # A reader that needs what waits would wait for the whole of a large build.
    with file.begin_transaction(is_small=len(build.nodes) <= _FEW_NODES and not build.relist) as con:
        numbers.once_committed(settle)
        built = add_changes(con, numbers, make_changes(build.nodes))
        _write_cuts(con, build.segments, old_cuts)
        _write_nodes(con, build, built)
        if build.count_updates:
            keys = [node_key(n.node_id) for n in build.count_updates]
            sessions, events = [n.session_count for n in build.count_updates], [n.event_count for n in build.count_updates]
            run_parsed(con, _COUNTED, [built, keys, sessions, events])
        _write_grips(con, numbers, build, recent, keyed)
        if build.reset_terms:
            con.execute(f"DELETE FROM term_delta WHERE key IN {_IN}", [[node_key(n) for n in build.reset_terms]])
        if build.reset_frequencies:
            con.execute("DELETE FROM frequency")
        if build.terms:
            terms: list[list[Any]] = [[node_key(t.node_id) for t in build.terms], [t.hashes for t in build.terms]]
            insert_columns(con, "term_delta", ("BIGINT", "BLOB"), terms)
        for f in build.frequencies:
            run_parsed(con, "INSERT INTO frequency VALUES (?, ?, ?)", [f.project, f.hashes, f.counts])
        _write_runs(con, build)
        if build.derived_to is not None:
            put_checkpoint(con, numbers, DERIVER, str(build.derived_to))
        failpoint("derive.before_commit")
    failpoint("derive.committed")
    return built


def _write_runs(con: duckdb.DuckDBPyConnection, build: Build) -> None:
    if build.reset_runs:
        con.execute(f"DELETE FROM tool_run WHERE key IN {_IN}", [list(build.reset_runs)])
    columns = run_columns(build.runs)
    if columns[0]:
        insert_columns(con, "tool_run", _RUN, columns)


def _write_cuts(con: duckdb.DuckDBPyConnection, segments: Sequence[Segment], old_cuts: Mapping[int, Segment]) -> None:
    """Write the cuts of a build; a single stored one is updated."""
    if len(segments) == 1 and (cut := segments[0]).key in old_cuts:
        values = [cut.project, cut.end[0], event_key(cut.end[1]), cut.events, cut.tokens, cut.open, cut.key]
        run_parsed(con, _GROWN, values)
        return
    replaced = [s.key for s in segments if s.key in old_cuts]
    if replaced:
        con.execute(f"DELETE FROM segment_cut WHERE key IN {_IN}", [replaced])
    if segments:
        insert_columns(con, "segment_cut", CUT_TYPES, segment_columns(segments))


def _write_nodes(con: duckdb.DuckDBPyConnection, build: Build, built: int) -> None:
    """Write nodes as current versions, and remove outdated ones.

    Only new nodes are listed under their parents, all with `relist`.
    """
    nodes = build.nodes
    if not nodes:
        return
    keys = [node_key(n.node_id) for n in nodes]
    replaced = [key for key, n in zip(keys, nodes, strict=True) if n.version > 1]
    if replaced:
        # Compared with constants it is planned faster than as a join.
        is_few = len(replaced) <= _FEW_NODES
        condition, parameters = (f"IN ({', '.join('?' * len(replaced))})", replaced) if is_few else (f"IN {_IN}", [replaced])
        run_parsed(con, f"UPDATE node SET current = false WHERE current AND key {condition}", parameters)
    columns = node_columns(nodes, keys, built)
    insert_columns(con, "node", _NODE, [list(map(join_names, c)) if isinstance(c[0], list) else c for c in columns])
    bullets, links = make_bullet_columns(nodes)
    if bullets:
        insert_columns(con, "bullet", _BULLET, bullets)
    if links:
        # Rows of a bullet keep the order of its grips by themselves: there is no column for their place.
        insert_columns(con, "bullet_grip", _BULLET_GRIP, [*links[:3], links[4]])
    _remove_outdated(con, select_outdated(nodes))
    listed = [n for n in nodes if n.version == 1 or build.relist]
    if build.relist:
        con.execute(f"DELETE FROM node_parent WHERE child IN {_IN}", [[node_key(n.node_id) for n in listed]])
    if listed:
        insert_columns(con, "node_parent", _PARENT, make_parent_columns(listed))


def _remove_outdated(con: duckdb.DuckDBPyConnection, nodes: Sequence[TocNode]) -> None:
    """Remove the older versions of nodes that were just written."""
    if not nodes:
        return
    keys = [node_key(n.node_id) for n in nodes]
    condition, parameters = _OLD, list[Any]([keys])
    if len(nodes) <= _FEW_NODES:
        # Compared with constants it takes a third of the time.
        versions = [(key, n.version - VERSIONS_KEPT) for key, n in zip(keys, nodes, strict=True)]
        condition = f"key IN ({', '.join('?' * len(keys))}) AND ({' OR '.join(['(key = ? AND version <= ?)'] * len(keys))})"
        parameters = [*keys, *chain.from_iterable(versions)]
    for table in ("bullet", "bullet_grip", "node"):
        run_parsed(con, f"DELETE FROM {table} WHERE {condition.format(table=table)}", parameters)


def _write_grips(con: duckdb.DuckDBPyConnection, numbers: Numbers, build: Build, recent: RecentGrips, keyed: KeyedRows) -> None:
    """Write those grips that are not stored; with `relist` file all under their segments."""
    stored_flags = [(g, recent.is_stored(g)) for g in {g.grip_id: g for g in build.grips}.values()]
    new_grips = {grip_key(g.grip_id)[0]: g for g, is_stored in stored_flags if not is_stored}
    uncertain = [grip_key(g.grip_id)[0] for g, is_stored in stored_flags if is_stored is None]
    if uncertain:
        sql = "SELECT grip_id FROM grip WHERE grip_id IN (SELECT unnest(?::HUGEINT[]))"
        for row in con.execute(sql, [uncertain]).fetchall():
            del new_grips[row[0]]
    columns = grip_columns(list(new_grips.values()), list(new_grips))
    if new_grips:
        insert_columns(con, "grip", _GRIP, columns)
    if build.relist and build.grips:
        con.execute(_MOVED, [[grip_key(g.grip_id)[0] for g in build.grips], [g.segment for g in build.grips]])
        numbers.once_committed(lambda: keyed.distrust(GRIPS))
        numbers.once_committed(recent.drop_all)
    numbers.once_committed(lambda: recent.add_grips(new_grips.values()))
    numbers.once_committed(lambda: keyed.note_rows(GRIPS, zip(*columns, strict=True)))
