"""Removes what is to be forgotten from every table of a memory, in one transaction; the caller derives again what depends on it.

Invariants: those of the engine `duckdb` (`storage/duckdb/erasing.py`), and
1. Every process notices that the memory is not what it was, and reads again what it keeps of it (`head.resets`).
"""

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

from memory_mcp.base.failpoints import failpoint
from memory_mcp.model.ids import event_key
from memory_mcp.storage import forgotten
from memory_mcp.storage.archive import SYNCED
from memory_mcp.storage.forgotten import EVENT_COLUMNS, READ_LIMIT, Findings
from memory_mcp.storage.rows import event_columns
from memory_mcp.storage.values import Cleaner, ErasureResult
from memory_mcp_team.postgres.archive import count_events
from memory_mcp_team.postgres.connection import Connection, Reader, Row, Writer, own
from memory_mcp_team.postgres.database import uuid_of, uuids_of
from memory_mcp_team.postgres.events import EVENT_TYPES
from memory_mcp_team.postgres.toc import subtract_segment_terms

_SQL_PARTS = {
    "own": own(),
    "keys": "= ANY(%(keys)s::bigint[])",
    "ids": "= ANY(%(ids)s::uuid[])",
    "names": "= ANY(%(names)s::text[])",
    "list": "%(list)s::text[]",
}
_LATER_EVENTS = f"{forgotten.EVENTS_AFTER.format(own=own(), after='%(after)s')} LIMIT {READ_LIMIT}"
_COLUMNS = ", ".join(EVENT_COLUMNS)
_IDS, _STREAMS = "ANY(%(ids)s::uuid[])", "ANY(%(streams)s::bigint[])"
_ELSEWHERE = "ALL(%(streams)s::bigint[])"
_POSITIONS = f"""SELECT name,
    (SELECT count(*) FROM event e WHERE {own("e")} AND e.seq <= c.value::bigint AND e.stream <> {_ELSEWHERE})
  FROM checkpoint c WHERE {own("c")} AND starts_with(name, %(synced)s)"""
_DERIVED = f"SELECT count(*) FROM event WHERE {own()} AND seq <= %(derived)s AND stream <> {_ELSEWHERE}"
#: Rows are taken out before any is put in: no number is there twice.
_RENUMBER = f"""WITH taken AS (DELETE FROM event WHERE {own()} AND seq >= %(first)s RETURNING *),
    placed AS (SELECT *, row_number() OVER (ORDER BY stream = {_STREAMS}, seq) - 1 + %(first)s AS place FROM taken)
  INSERT INTO event (tenant, space, {_COLUMNS})
  SELECT tenant, space, place, {", ".join(EVENT_COLUMNS[1:])} FROM placed"""
_RENAME_PAIRS = f"""UPDATE duplicate d SET {{column}} = m.new FROM unnest(%(old)s::uuid[], %(new)s::uuid[]) m(old, new)
  WHERE {own("d")} AND d.{{column}} = m.old"""


def erase_forgotten(con: Connection, keep: Cleaner, dry: bool, after: int) -> ErasureResult:
    """Remove what `keep` does not keep, or with `dry` count it.

    Events above the number `after` are looked through before other writers have to wait. If another process has renumbered
    events since, all are looked through again, while writers wait. `resets` rises.
    """
    findings, resets = Findings(after), con.get_head().resets
    findings.look_through(lambda seq: con.rows(_LATER_EVENTS, after=seq), keep)
    if dry:
        with con.open_reader() as reader:
            erased = _Erasing(reader, keep, findings).run()
            erased.last_seq = con.get_head().last_event
            return erased
    with con.open_writer() as writer:
        if writer.head.resets != resets:
            # Events may have other numbers than those that were looked through.
            findings = Findings()
        erased = _Erasing(writer, keep, findings).run()
        writer.head.resets += 1
        erased.last_seq = writer.head.last_event
        failpoint("forget.before_commit")
    failpoint("forget.erased")
    return erased


class _Erasing(forgotten.Eraser):
    """One pass inside the caller's transaction; with a reader only counted."""

    _keys = dict.fromkeys((*forgotten.CLEANED, *forgotten.DROPPED), "number") | {
        "pin": "target",
        "checkpoint": "name",
        "project_alias": "old",
    }

    def __init__(self, rows: Reader | Writer, keep: Cleaner, findings: Findings) -> None:
        super().__init__(keep, findings, dry=not isinstance(rows, Writer))
        self._reader = rows
        if isinstance(rows, Writer):
            self._add_changes, self._subtract_sets = rows.add_changes, partial(subtract_segment_terms, rows)

    @property
    def _writer(self) -> Writer:
        assert isinstance(self._reader, Writer)
        return self._reader

    def _fetch_rows(self, statement: str, **values: Any) -> list[Row]:
        text, parameters = _format_statement(statement, values)
        return self._reader.rows(text, **parameters)

    def _iter_rows(self, statement: str) -> Iterator[Row]:
        for rows in self._reader.iter_slices(statement.format(**_SQL_PARTS), READ_LIMIT):
            yield from rows

    def _execute_write(self, statement: str, **values: Any) -> None:
        text, parameters = _format_statement(statement, values)
        self._writer.execute(text, **parameters)

    def _rewrite_events(self) -> None:
        """Remove and change events, then renumber from the first concerned one on.

        Events of the streams concerned come after all others; positions are set to the unconcerned events before them.
        """
        writer = self._writer
        streams, gone, changed = list(self._findings.streams), uuids_of(self._findings.removed), uuids_of(self._findings.changed)
        sql = f"SELECT min(seq) FROM event WHERE {own()} AND stream = {_STREAMS}"
        first = (writer.row(sql, streams=streams) or (None,))[0]
        writer.execute(f"DELETE FROM duplicate WHERE {own()} AND (event_id = {_IDS} OR canonical = {_IDS})", ids=gone)
        writer.execute(f"DELETE FROM event WHERE {own()} AND event_id = {_IDS}", ids=[*gone, *changed])
        self._put_changed(writer)
        # Whoever counts in numbers of events goes on where it was; what was touched comes to everybody again.
        for name, position in writer.rows(_POSITIONS, streams=streams, synced=SYNCED):
            sql = f"UPDATE checkpoint SET value = %(place)s WHERE {own()} AND name = %(name)s"
            writer.execute(sql, name=name, place=str(position))
        (writer.head.derived,) = writer.rows(_DERIVED, derived=writer.head.derived, streams=streams)[0]
        if first is not None:
            writer.add_changes(self._findings.make_changes(first))
            writer.execute(_RENUMBER, streams=streams, first=first)
        count_events(writer)

    def _put_changed(self, writer: Writer) -> None:
        """Store changed events under new ids, and rename pairs.

        One whose new id is stored already is left out, with its pairs.
        """
        changed = self._findings.changed
        new = {old: event_key(event.event_id) for old, (_, event) in changed.items()}
        sql = f"SELECT event_id FROM event WHERE {own()} AND event_id = {_IDS}"
        stored_keys = {row[0] for row in writer.rows(sql, ids=uuids_of(new.values()))}
        kept_keys: dict[int, int] = {}
        for old, key in new.items():
            if key not in stored_keys:
                stored_keys.add(key)
                kept_keys[old] = key
        duplicate_keys = uuids_of(old for old in new if old not in kept_keys)
        writer.execute(f"DELETE FROM duplicate WHERE {own()} AND (event_id = {_IDS} OR canonical = {_IDS})", ids=duplicate_keys)
        lists = event_columns([changed[old][1] for old in kept_keys], 1)
        lists[:2] = [changed[old][0] for old in kept_keys], uuids_of(kept_keys.values())
        writer.insert_rows("event", _COLUMNS, EVENT_TYPES, lists)
        moved = [(old, key) for old, key in kept_keys.items() if old != key]
        for column in ("event_id", "canonical") if moved else ():
            id_pairs = {"old": [uuid_of(old) for old, _ in moved], "new": [uuid_of(key) for _, key in moved]}
            writer.execute(_RENAME_PAIRS.format(column=column), **id_pairs)


def _format_statement(statement: str, values: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    parameters = {name: uuids_of(value) if name == "ids" else value for name, value in values.items()}
    return statement.format(**{name: f"%({name})s" for name in values} | _SQL_PARTS), parameters
