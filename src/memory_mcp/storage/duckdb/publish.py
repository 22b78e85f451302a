"""Writes a build in one transaction, its own or the next."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import Any

import duckdb

from memory_mcp.base.dataclass import dataclass
from memory_mcp.base.errors import StorageError
from memory_mcp.base.failpoints import failpoint
from memory_mcp.model.change import Change
from memory_mcp.model.grip import Grip
from memory_mcp.model.ids import NodeId, event_key, grip_key, node_key
from memory_mcp.model.segment import Segment
from memory_mcp.model.toc import TocNode
from memory_mcp.storage.builds import VERSIONS_KEPT, make_bullet_columns, make_changes, make_parent_columns, select_outdated
from memory_mcp.storage.duckdb.connection import Connection
from memory_mcp.storage.duckdb.keyed_file import GRIPS
from memory_mcp.storage.duckdb.keyed_rows import KeyedRows
from memory_mcp.storage.duckdb.names import join_names
from memory_mcp.storage.duckdb.outbox import Numbers, insert_changes, put_checkpoint
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
#: Columns of `_NODE` that a build does not say of each node.
_CURRENT, _BUILT = 4, 17
_COUNTED = """UPDATE node SET sessions = m.sessions, events = m.events, built = m.built
  FROM (SELECT unnest(?::BIGINT[]) AS key, unnest(?::INTEGER[]) AS sessions, unnest(?::INTEGER[]) AS events,
    unnest(?::BIGINT[]) AS built) m
  WHERE node.current AND node.key = m.key"""
_MOVED = """UPDATE grip SET segment = m.segment
  FROM (SELECT unnest(?::HUGEINT[]) AS id, unnest(?::BIGINT[]) AS segment) m
  WHERE grip.grip_id = m.id AND grip.segment <> m.segment"""
#: A build of so many nodes takes some 20 ms. With `relist` it may have thousands of grips beside: without the optimizer each
#: is compared with every stored one.
_FEW_NODES = 12
_OLD = f"""key IN {_IN} AND version <=
  (SELECT n.version FROM node n WHERE n.current AND n.key = {{table}}.key) - {VERSIONS_KEPT}"""


@dataclass(frozen=True, slots=True)
class NumberedBuild:
    """A build whose changes are numbered, and what it adds to or replaces in the store."""

    #: The number of its last change.
    number: int
    build: Build
    changes: Sequence[Change]
    #: The cuts of its segments as they were, by key.
    old_cuts: Mapping[int, Segment]
    #: The columns of its grips that are not stored.
    grips: list[list[Any]]


class BuildWriter:
    """Writes the builds of one store."""

    def __init__(self, con: Connection, numbers: Numbers, recent: RecentGrips, keyed: KeyedRows) -> None:
        self._con, self._numbers, self._recent, self._keyed = con, numbers, recent, keyed

    def publish(self, build: Build, old_cuts: Mapping[int, Segment], settle: Callable[[], None]) -> int:
        """Write `build` in one transaction; return its number.

        `settle` is called once it is committed. `old_cuts` has the stored cuts of the build's segments by key. Old versions of
        nodes are removed now and then; grips that are stored already stay as they are, but for their segment with `relist`.
        One that may wait, and for which nothing has to be read, is published at once and written with the next transaction.
        Raises StorageError for one that may be derived from reads without what waited, whose place it would take.
        """
        if self._con.reads_behind.has_any:
            raise StorageError("what was derived lacks what could not be stored in time", "It is derived again by itself.")
        if build.may_wait and (number := self._defer(build, old_cuts, settle)) is not None:
            return number
        # A reader that needs what waits would wait for the whole of a large build.
        with self._con.begin_transaction(is_small=len(build.nodes) <= _FEW_NODES and not build.relist) as con:
            new_grips, uncertain = _select_new_grips(build, self._recent)
            _drop_stored(con, new_grips, uncertain)
            numbered = self._number(build, old_cuts, new_grips, settle)
            write_builds(con, [numbered])
            failpoint("derive.before_commit")
        failpoint("derive.committed")
        return numbered.number

    def _defer(self, build: Build, old_cuts: Mapping[int, Segment], settle: Callable[[], None]) -> int | None:
        """Publish a build whose rows are written later; return its number, None if that was not done."""
        resets = build.relist or build.reset_terms or build.reset_frequencies or build.reset_runs
        is_plain = 0 < len(build.nodes) <= _FEW_NODES and not resets
        with self._con.hold_for_log() as may_defer:
            new_grips, uncertain = _select_new_grips(build, self._recent)
            deferred = self._con.deferred
            if deferred is None or not may_defer or not is_plain or uncertain:
                return None
            failpoint("derive.before_commit")
            numbered = self._number(build, dict(old_cuts), new_grips, settle)
            deferred.add_build(numbered, write_builds)
            self._numbers.settle_waiting()
            self._con.commits += 1
        if deferred.is_full:
            with self._con.hold_writes():
                pass
        failpoint("derive.committed")
        return numbered.number

    def _number(
        self, build: Build, old_cuts: Mapping[int, Segment], new_grips: Mapping[int, Grip], settle: Callable[[], None]
    ) -> NumberedBuild:
        """Number the changes of a build, and have what is in memory follow once it is committed."""
        numbers = self._numbers
        grips = grip_columns([*new_grips.values()], [*new_grips])
        numbers.once_committed(settle)
        changes = numbers.number_changes(make_changes(build.nodes))
        if build.relist and build.grips:
            numbers.once_committed(partial(self._keyed.distrust, GRIPS))
            numbers.once_committed(self._recent.drop_all)
        numbers.once_committed(partial(self._recent.add_grips, new_grips.values()))
        numbers.once_committed(partial(self._keyed.note_rows, GRIPS, zip(*grips, strict=True)))
        if build.derived_to is not None:
            numbers.once_committed(partial(numbers.note_derived, build.derived_to))
        return NumberedBuild(numbers.last_change, build, changes, old_cuts, grips)


def write_builds(con: duckdb.DuckDBPyConnection, builds: Sequence[NumberedBuild]) -> None:
    """Write the rows of builds, in order, as if each were written by itself, in the transaction of `con`."""
    changes = [change for b in builds for change in b.changes]
    if changes:
        insert_changes(con, changes)
    _write_cuts(con, builds)
    _write_nodes(con, builds)
    grips = [list(chain.from_iterable(columns)) for columns in zip(*(b.grips for b in builds), strict=True)]
    if grips[0]:
        insert_columns(con, "grip", _GRIP, grips)
    for build in (b.build for b in builds):
        if build.relist and build.grips:
            con.execute(_MOVED, [[grip_key(g.grip_id)[0] for g in build.grips], [g.segment for g in build.grips]])
        if build.reset_terms:
            con.execute(f"DELETE FROM term_delta WHERE key IN {_IN}", [[node_key(n) for n in build.reset_terms]])
        if build.reset_frequencies:
            con.execute("DELETE FROM frequency")
        if build.reset_runs:
            con.execute(f"DELETE FROM tool_run WHERE key IN {_IN}", [list(build.reset_runs)])
    if terms := [t for b in builds for t in b.build.terms]:
        insert_columns(con, "term_delta", ("BIGINT", "BLOB"), [[node_key(t.node_id) for t in terms], [t.hashes for t in terms]])
    for f in (f for b in builds for f in b.build.frequencies):
        run_parsed(con, "INSERT INTO frequency VALUES (?, ?, ?)", [f.project, f.hashes, f.counts])
    runs = run_columns([run for b in builds for run in b.build.runs])
    if runs[0]:
        insert_columns(con, "tool_run", _RUN, runs)
    derived = [b.build.derived_to for b in builds if b.build.derived_to is not None]
    if derived:
        put_checkpoint(con, DERIVER, str(derived[-1]))


def _write_cuts(con: duckdb.DuckDBPyConnection, builds: Sequence[NumberedBuild]) -> None:
    """Write the last form of each cut; a single stored one is updated."""
    cuts = {cut.key: cut for b in builds for cut in b.build.segments}
    new_keys = {cut.key for b in builds for cut in b.build.segments if cut.key not in b.old_cuts}
    stored_keys = {key for b in builds for key in b.old_cuts} - new_keys
    if len(cuts) == 1 and (cut := next(iter(cuts.values()))).key in stored_keys:
        values = [cut.project, cut.end[0], event_key(cut.end[1]), cut.events, cut.tokens, cut.open, cut.key]
        run_parsed(con, _GROWN, values)
        return
    replaced = [key for key in cuts if key in stored_keys]
    if replaced:
        con.execute(f"DELETE FROM segment_cut WHERE key IN {_IN}", [replaced])
    if cuts:
        insert_columns(con, "segment_cut", CUT_TYPES, segment_columns([*cuts.values()]))


def _count_nodes(con: duckdb.DuckDBPyConnection, builds: Sequence[NumberedBuild]) -> list[tuple[TocNode, int]]:
    """Return the nodes to insert, with their builds; update the counts of stored ones."""
    built_nodes: list[tuple[TocNode, int]] = []
    last_indexes: dict[NodeId, int] = {}
    updates: dict[int, tuple[int, int, int]] = {}
    for b in builds:
        for node in b.build.nodes:
            last_indexes[node.node_id] = len(built_nodes)
            built_nodes.append((node, b.number))
        for node in b.build.count_updates:
            if (index := last_indexes.get(node.node_id)) is None:
                updates[node_key(node.node_id)] = (node.session_count, node.event_count, b.number)
            else:
                fresh = replace(built_nodes[index][0], session_count=node.session_count, event_count=node.event_count)
                built_nodes[index] = (fresh, b.number)
    if updates:
        run_parsed(con, _COUNTED, [list(updates), *map(list, zip(*updates.values(), strict=True))])
    return built_nodes


def _write_nodes(con: duckdb.DuckDBPyConnection, builds: Sequence[NumberedBuild]) -> None:
    """Write nodes as versions, the last of each as the current one, and remove outdated ones.

    Only new nodes are listed under their parents, all with `relist`.
    """
    built_nodes = _count_nodes(con, builds)
    if not built_nodes:
        return
    nodes, numbers = [node for node, _ in built_nodes], [number for _, number in built_nodes]
    keys = [node_key(n.node_id) for n in nodes]
    first_versions = {key: n.version for key, n in reversed([*zip(keys, nodes, strict=True)])}
    replaced = [key for key, version in first_versions.items() if version > 1]
    if replaced:
        # Compared with constants it is planned faster than as a join.
        is_few = len(replaced) <= _FEW_NODES
        condition, parameters = (f"IN ({', '.join('?' * len(replaced))})", replaced) if is_few else (f"IN {_IN}", [replaced])
        run_parsed(con, f"UPDATE node SET current = false WHERE current AND key {condition}", parameters)
    columns = node_columns(nodes, keys, 0)
    last_indexes = {key: index for index, key in enumerate(keys)}
    columns[_CURRENT], columns[_BUILT] = [last_indexes[key] == index for index, key in enumerate(keys)], numbers
    insert_columns(con, "node", _NODE, [list(map(join_names, c)) if isinstance(c[0], list) else c for c in columns])
    bullets, links = make_bullet_columns(nodes)
    if bullets:
        insert_columns(con, "bullet", _BULLET, bullets)
    if links:
        # Rows of a bullet keep the order of its grips by themselves: there is no column for their place.
        insert_columns(con, "bullet_grip", _BULLET_GRIP, [*links[:3], links[4]])
    _remove_outdated(con, [*{n.node_id: n for n in select_outdated(nodes)}.values()])
    is_relisted = any(b.build.relist for b in builds)
    listed = [n for n in nodes if n.version == 1 or is_relisted]
    if is_relisted:
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


def _select_new_grips(build: Build, recent: RecentGrips) -> tuple[dict[int, Grip], list[int]]:
    """Return the grips that are not stored, by key, and the keys of those among them that may be."""
    stored_flags = [(g, recent.is_stored(g)) for g in {g.grip_id: g for g in build.grips}.values()]
    new_grips = {grip_key(g.grip_id)[0]: g for g, is_stored in stored_flags if not is_stored}
    return new_grips, [grip_key(g.grip_id)[0] for g, is_stored in stored_flags if is_stored is None]


def _drop_stored(con: duckdb.DuckDBPyConnection, new_grips: dict[int, Grip], uncertain: Sequence[int]) -> None:
    """Take out of `new_grips` those of the `uncertain` ones that are stored."""
    if uncertain:
        sql = "SELECT grip_id FROM grip WHERE grip_id IN (SELECT unnest(?::HUGEINT[]))"
        for row in con.execute(sql, [uncertain]).fetchall():
            del new_grips[row[0]]
