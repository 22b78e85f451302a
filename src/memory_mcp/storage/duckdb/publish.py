"""Writes one build: cuts, nodes, bullets, grips, term rows, outbox entries and the checkpoint, in one transaction."""

from collections.abc import Sequence
from typing import Any

import duckdb

from memory_mcp.failpoints import failpoint
from memory_mcp.model.calendar import TocLevel, parents
from memory_mcp.model.change import ChangeKind
from memory_mcp.model.grip import Grip
from memory_mcp.model.ids import grip_key, node_key
from memory_mcp.model.segment import Segment
from memory_mcp.model.toc import TocNode
from memory_mcp.storage.duckdb.connection import Connection
from memory_mcp.storage.duckdb.outbox import Numbers, add_changes, put_checkpoint
from memory_mcp.storage.duckdb.rows import grip_columns, node_columns, segment_columns
from memory_mcp.storage.values import Build

#: Versions of a node that are kept, the current one included.
VERSIONS_KEPT = 3

_IN = "(SELECT unnest(?::BIGINT[]))"
_CUT = f"""INSERT INTO segment_cut SELECT {"unnest(?::BIGINT[]), " * 2} unnest(?::INTEGER[]),
  {"unnest(?::VARCHAR[]), " * 5} unnest(?::BIGINT[]), unnest(?::HUGEINT[]), unnest(?::BIGINT[]), unnest(?::HUGEINT[]),
  unnest(?::INTEGER[]), unnest(?::INTEGER[]), unnest(?::BOOLEAN[]), unnest(?::INTEGER[])"""
_NODE = """INSERT INTO node SELECT unnest(?::BIGINT[]), unnest(?::VARCHAR[]), unnest(?::VARCHAR[]), unnest(?::INTEGER[]),
  unnest(?::BOOLEAN[]), unnest(?::BIGINT[]), unnest(?::BIGINT[]), unnest(?::VARCHAR[]), unnest(?::VARCHAR[]),
  unnest(?::VARCHAR[][]), unnest(?::VARCHAR[]), unnest(?::DOUBLE[]), unnest(?::INTEGER[]), unnest(?::INTEGER[]),
  unnest(?::VARCHAR[][]), unnest(?::VARCHAR[][]), unnest(?::VARCHAR[]), unnest(?::BIGINT[])"""
_BULLET = """INSERT INTO bullet SELECT unnest(?::BIGINT[]), unnest(?::INTEGER[]), unnest(?::INTEGER[]),
  unnest(?::VARCHAR[]), unnest(?::VARCHAR[]), unnest(?::VARCHAR[]), unnest(?::VARCHAR[])"""
_BULLET_GRIP = """INSERT INTO bullet_grip SELECT unnest(?::BIGINT[]), unnest(?::INTEGER[]), unnest(?::INTEGER[]),
  unnest(?::HUGEINT[])"""
_GRIP = """INSERT INTO grip SELECT unnest(?::HUGEINT[]), unnest(?::HUGEINT[]), unnest(?::HUGEINT[]),
  unnest(?::INTEGER[]), unnest(?::INTEGER[]), unnest(?::BIGINT[]), unnest(?::BIGINT[]), unnest(?::BIGINT[])"""
_PARENT = """INSERT INTO node_parent
  SELECT unnest(?::BIGINT[]), unnest(?::BIGINT[]), unnest(?::VARCHAR[]), unnest(?::BIGINT[])"""
_OLD = f"""key IN {_IN} AND version <=
  (SELECT n.version FROM node n WHERE n.current AND n.key = {{table}}.key) - {VERSIONS_KEPT}"""


def publish(connection: Connection, numbers: Numbers, build: Build) -> int:
    """Write `build`; the build number is the last outbox number of its transaction."""
    with connection.writing() as con:
        changes = [
            (ChangeKind.SEGMENT_PUBLISHED if n.level is TocLevel.SEGMENT else ChangeKind.NODE_PUBLISHED, n.node_id)
            for n in build.nodes
        ]
        built = add_changes(con, numbers, changes)
        _cuts(con, build.segments)
        _nodes(con, build.nodes, built)
        _grips(con, build.grips)
        _terms(con, build)
        if build.derived_to is not None:
            put_checkpoint(con, "deriver", str(build.derived_to))
        failpoint("derive.before_commit")
    failpoint("derive.committed")
    return built


def _cuts(con: duckdb.DuckDBPyConnection, segments: Sequence[Segment]) -> None:
    if segments:
        con.execute(f"DELETE FROM segment_cut WHERE key IN {_IN}", [[s.key for s in segments]])
        con.execute(_CUT, segment_columns(segments))


def _nodes(con: duckdb.DuckDBPyConnection, nodes: Sequence[TocNode], built: int) -> None:
    if not nodes:
        return
    keys = [node_key(n.node_id) for n in nodes]
    replaced = [key for key, n in zip(keys, nodes, strict=True) if n.version > 1]
    if replaced:
        con.execute(f"UPDATE node SET current = false WHERE current AND key IN {_IN}", [replaced])
    con.execute(_NODE, node_columns(nodes, keys, built))
    _bullets(con, nodes, keys)
    aged = [key for key, n in zip(keys, nodes, strict=True) if n.version > VERSIONS_KEPT]
    if aged:
        for table in ("bullet", "bullet_grip", "node"):
            con.execute(f"DELETE FROM {table} WHERE {_OLD.format(table=table)}", [aged])
    _parents(con, nodes, keys)


def _bullets(con: duckdb.DuckDBPyConnection, nodes: Sequence[TocNode], keys: Sequence[int]) -> None:
    rows: list[tuple[Any, ...]] = []
    links: list[tuple[int, int, int, int]] = []
    for key, node in zip(keys, nodes, strict=True):
        for pos, b in enumerate(node.bullets):
            rows.append((key, node.version, pos, b.text, b.kind.value, b.project, b.agent))
            links += [(key, node.version, pos, grip_key(g)[0]) for g in b.grip_ids]
    if rows:
        con.execute(_BULLET, [list(c) for c in zip(*rows, strict=True)])
    if links:
        con.execute(_BULLET_GRIP, [list(c) for c in zip(*links, strict=True)])


def _parents(con: duckdb.DuckDBPyConnection, nodes: Sequence[TocNode], keys: Sequence[int]) -> None:
    rows = [
        (key, node_key(parent), n.node_id, n.start_ms)
        for key, n in zip(keys, nodes, strict=True)
        for parent in parents(n.node_id)
    ]
    con.execute(f"DELETE FROM node_parent WHERE child IN {_IN}", [list(keys)])
    con.execute(_PARENT, [list(c) for c in zip(*rows, strict=True)])


def _grips(con: duckdb.DuckDBPyConnection, grips: Sequence[Grip]) -> None:
    if not grips:
        return
    fresh = {grip_key(g.grip_id)[0]: g for g in grips}
    known = "SELECT grip_id FROM grip WHERE grip_id IN (SELECT unnest(?::HUGEINT[]))"
    for row in con.execute(known, [list(fresh)]).fetchall():
        del fresh[row[0]]
    if fresh:
        con.execute(_GRIP, grip_columns(list(fresh.values()), list(fresh)))


def _terms(con: duckdb.DuckDBPyConnection, build: Build) -> None:
    if build.reset_terms:
        con.execute(f"DELETE FROM term_delta WHERE key IN {_IN}", [[node_key(n) for n in build.reset_terms]])
    if build.reset_frequencies:
        con.execute("DELETE FROM frequency")
    if build.terms:
        con.execute(
            "INSERT INTO term_delta SELECT unnest(?::BIGINT[]), unnest(?::BLOB[])",
            [[node_key(t.node_id) for t in build.terms], [t.hashes for t in build.terms]],
        )
    for f in build.frequencies:
        con.execute("INSERT INTO frequency VALUES (?, ?, ?)", [f.project, f.hashes, f.counts])
