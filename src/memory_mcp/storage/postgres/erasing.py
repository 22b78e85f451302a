"""What is to be forgotten out of every table of a memory, in one transaction; what is derived of the rest is derived again.

Invariants: those of the engine `duckdb` (`storage/duckdb/erasing.py`), and
1. Every process notices that the memory is not what it was, and reads again what it keeps of it (`head.resets`).
"""

from collections.abc import Iterator, Sequence

from memory_mcp.failpoints import failpoint
from memory_mcp.model.calendar import rollup_targets, span_of
from memory_mcp.model.change import ChangeKind
from memory_mcp.model.ids import NodeId, event_id_from, event_key, grip_id_from, node_key
from memory_mcp.storage.archive import SYNCED
from memory_mcp.storage.forgotten import BY_GRIP, CLEANED, DROPPED, EVENT_COLUMNS, READ, Look, spellings
from memory_mcp.storage.postgres.archive import count_events
from memory_mcp.storage.postgres.connection import Connection, Reader, Row, Writer, own
from memory_mcp.storage.postgres.keys import uuid_of, uuids_of
from memory_mcp.storage.postgres.terms import without_sets
from memory_mcp.storage.rows import EVENT, event_columns, event_of, members_of
from memory_mcp.storage.values import Cleaner, Erased

_BEHIND = f"SELECT seq, {EVENT} FROM event WHERE {own()} AND seq > %(after)s ORDER BY seq LIMIT {READ}"
_EVENT_TYPES = ("bigint", "uuid", "bigint", "bigint", *["text"] * 10, "bigint", "text", "text")
_COLUMNS = ", ".join(EVENT_COLUMNS)
_KEYS, _IDS, _NAMES = "ANY(%(keys)s::bigint[])", "ANY(%(ids)s::uuid[])", "ANY(%(names)s::text[])"
_STREAMS = "ANY(%(streams)s::bigint[])"
#: What tells the rows of a table apart that have no number.
_KEY_OF = {"pin": "target", "checkpoint": "name", "project_alias": "old"}
_TEXTS_OF_NODES = f"SELECT key, title, summary, keywords, agents, projects, author FROM node WHERE {own()}"
_REFINED = f"""SELECT count(*) FROM node
  WHERE {own()} AND current AND author <> 'extractive' AND author <> '' AND key = {_KEYS}"""
_ELSEWHERE = "ALL(%(streams)s::bigint[])"
_PLACES = f"""SELECT name,
    (SELECT count(*) FROM event e WHERE {own("e")} AND e.seq <= c.value::bigint AND e.stream <> {_ELSEWHERE})
  FROM checkpoint c WHERE {own("c")} AND starts_with(name, %(synced)s)"""
_DERIVED = f"SELECT count(*) FROM event WHERE {own()} AND seq <= %(derived)s AND stream <> {_ELSEWHERE}"
#: Rows are taken out before any is put in: no number is there twice.
_NUMBER_ANEW = f"""WITH taken AS (DELETE FROM event WHERE {own()} AND seq >= %(first)s RETURNING *),
    placed AS (SELECT *, row_number() OVER (ORDER BY stream = {_STREAMS}, seq) - 1 + %(first)s AS place FROM taken)
  INSERT INTO event (tenant, space, {_COLUMNS})
  SELECT tenant, space, place, {", ".join(EVENT_COLUMNS[1:])} FROM placed"""
_RENAMED = f"""UPDATE duplicate d SET {{column}} = m.new FROM unnest(%(old)s::uuid[], %(new)s::uuid[]) m(old, new)
  WHERE {own("d")} AND d.{{column}} = m.old"""
_RETRACTED = f"UPDATE superseded SET new_id = NULL, reason = '' WHERE {own()} AND new_id = {_NAMES}"
_UNTOLD = f"UPDATE audit SET reason = '' WHERE {own()} AND string_to_array(subject, ' ') && %(names)s::text[]"
_UNNAMED = f"UPDATE audit SET subject = '' WHERE {own()} AND %(name)s = ANY(string_to_array(subject, ' '))"


def erase(con: Connection, keep: Cleaner, dry: bool, after: int) -> Erased:
    """See Storage. Events are looked through before others wait, and those that came meanwhile while they do."""
    look, resets = Look(after), con.head().resets
    look.go_on(lambda seq: con.rows(_BEHIND, after=seq), keep)
    if dry:
        with con.reading() as reader:
            erased = _Erasing(reader, keep, look).run()
            erased.last_seq = con.head().last_event
            return erased
    with con.writing() as writer:
        if writer.head.resets != resets:
            # Events may have other numbers than those that were looked through.
            look = Look()
        erased = _Erasing(writer, keep, look).run()
        erased.last_seq = writer.head.last_event
        failpoint("forget.before_commit")
    failpoint("forget.erased")
    return erased


class _Erasing:
    """One pass over a memory, inside the caller's transaction: with a reader, what goes is counted alone."""

    def __init__(self, rows: Reader | Writer, keep: Cleaner, look: Look) -> None:
        self._reader, self._keep, self._look = rows, keep, look
        self._writer = rows if isinstance(rows, Writer) else None
        self.erased = Erased()

    def run(self) -> Erased:
        """Look, count, and unless it is a dry run, erase."""
        self._look.go_on(lambda seq: self._reader.rows(_BEHIND, after=seq), self._keep)
        self._follow_pairs()
        self.erased.gone += [(going.event_id, going.ts) for going in self._look.gone.values()]
        self.erased.changed += [(event_id_from(key), event.timestamp) for key, (_, event) in self._look.changed.items()]
        nodes = self._doomed_nodes()
        self._count("nodes", len(nodes))
        self._grips()
        self._labels()
        for table, columns in CLEANED.items():
            self._texts(table, columns, drop=False)
        for table, columns in DROPPED.items():
            self._texts(table, columns, drop=True)
        if self._writer is not None:
            self._writer.run(f"DELETE FROM request WHERE {own()}")
            if not self.erased.nothing:
                self._erase_nodes(self._writer, nodes)
                self._rewrite_events(self._writer)
                self._vanished(self._writer)
            self._writer.head.resets += 1
        return self.erased

    def _count(self, kind: str, number: int) -> None:
        self.erased.counts[kind] = self.erased.counts.get(kind, 0) + number

    def _one(self, sql: str, **parameters: object) -> int:
        row = self._reader.row(sql, **parameters)
        return int(row[0]) if row else 0

    def _each(self, sql: str) -> Iterator[Row]:
        for rows in self._reader.stream(sql, READ):
            yield from rows

    def _follow_pairs(self) -> None:
        """A message told by a hook and by a transcript goes as a whole."""
        pairs = self._reader.rows(f"SELECT event_id, canonical FROM duplicate WHERE {own()}")
        gone = self._look.gone
        others = [b if a in gone else a for a, b in pairs if (a in gone) != (b in gone)]
        for row in self._reader.rows(f"SELECT {EVENT} FROM event WHERE {own()} AND event_id = {_IDS}", ids=uuids_of(others)):
            self._look.drop(event_of(row))
        self._count("events", len(gone))
        self._count("events with a value", len(self._look.changed))
        self._count("duplicates", sum(a in gone or b in gone for a, b in pairs))

    def _doomed_nodes(self) -> list[int]:
        """Keys of the nodes that are told again or go: of the sessions, all periods above them, and whatever holds a value."""
        # Every version: an earlier one may tell what the current one does not.
        told = {r[0] for r in self._each(_TEXTS_OF_NODES) if self._has(r[1], r[2], r[6], *r[3], *r[4], *r[5])}
        bullets = self._each(f"SELECT key, text, project, agent FROM bullet WHERE {own()}")
        told |= {r[0] for r in bullets if self._has(*r[1:])}
        streams = self._reader.rows(f"SELECT stream FROM segment_cut WHERE {own()} AND key = {_KEYS}", keys=list(told))
        self._look.streams.update(stream for (stream,) in streams)
        sql = f"SELECT key, day FROM segment_cut WHERE {own()} AND stream = {_STREAMS}"
        cuts = self._reader.rows(sql, streams=list(self._look.streams))
        self._count("segments", len(cuts))
        self.erased.segments.update(key for key, _ in cuts)
        self.erased.days.update(day for _, day in cuts)
        doomed = list(told | self.erased.segments | {node_key(p) for day in self.erased.days for p in rollup_targets(day)})
        sql = f"SELECT DISTINCT node_id FROM node WHERE {own()} AND level <> 'segment' AND key = {_KEYS}"
        for (node_id,) in self._reader.rows(sql, keys=list(told)):
            self.erased.days.add(span_of(NodeId(node_id))[0].isoformat())
        for table, kind in (("bullet", "bullets"), ("term_delta", "term sets")):
            self._count(kind, self._one(f"SELECT count(*) FROM {table} WHERE {own()} AND key = {_KEYS}", keys=doomed))
        self._count("texts by agents or models", self._one(_REFINED, keys=doomed))
        return doomed

    def _has(self, *texts: str) -> bool:
        return any(self._keep.clean(text) != text for text in texts)

    def _grips(self) -> None:
        """Quotations of what goes or changes, and everything that hangs on their ids."""
        ids = uuids_of([*self._look.gone, *self._look.changed])
        sql = f"SELECT grip_id FROM grip WHERE {own()} AND (event_start = {_IDS} OR event_end = {_IDS})"
        grips = [row[0] for row in self._reader.rows(sql, ids=ids)]
        names = [grip_id_from(key) for key in grips]
        self._count("grips", len(grips))
        for table, column, kind in BY_GRIP:
            where = f"FROM {table} WHERE {own()} AND {column} = {_NAMES}"
            self._count(kind, self._one(f"SELECT count(*) {where}", names=names))
            if self._writer:
                self._writer.run(f"DELETE {where}", names=names)
        if self._writer:
            # Why something was corrected tells of what stood in its place.
            self._writer.run(_RETRACTED, names=names)
            self._writer.run(_UNTOLD, names=names)
            for table in ("bullet_grip", "grip"):
                self._writer.run(f"DELETE FROM {table} WHERE {own()} AND grip_id = {_IDS}", ids=uuids_of(grips))

    def _labels(self) -> None:
        """Labels of topics that hold a session from which something goes: somebody's own words, which may tell of it."""
        streams = list({going.stream for going in self._look.gone.values()})
        sql = f"SELECT key FROM segment_cut WHERE {own()} AND stream = {_STREAMS}"
        cuts = {key for (key,) in self._reader.rows(sql, streams=streams)}
        topics = self._reader.rows(f"SELECT topic_id, members FROM topic WHERE {own()}")
        told = [topic_id for topic_id, members in topics if not cuts.isdisjoint(members_of(members))]
        where = f"FROM topic_label WHERE {own()} AND topic_id = {_NAMES}"
        self._count("topic labels", self._one(f"SELECT count(*) {where}", names=told))
        if self._writer:
            self._writer.run(f"DELETE {where}", names=told)

    def _texts(self, table: str, columns: Sequence[str], drop: bool) -> None:
        """Rows beside the tree whose words hold a value."""
        key = _KEY_OF.get(table, "number")
        rows = self._each(f"SELECT {key}, {', '.join(columns)} FROM {table} WHERE {own()}")
        found = [row for row in rows if self._has(*(part for part in row[1:] if part))]
        self._count(table.replace("_", " ") + " rows", len(found))
        if self._writer is not None:
            self._clean(self._writer, table, columns, found, drop)

    def _clean(self, writer: Writer, table: str, columns: Sequence[str], found: Sequence[Row], drop: bool) -> None:
        where = f"WHERE {own()} AND {_KEY_OF.get(table, 'number')} = %(row)s"
        sets = ", ".join(f"{column} = %({column})s" for column in columns)
        for row in found:
            if drop:
                writer.run(f"DELETE FROM {table} {where}", row=row[0])
            else:
                cleaned = {column: self._keep.clean(part) for column, part in zip(columns, row[1:], strict=True)}
                writer.run(f"UPDATE {table} SET {sets} {where}", row=row[0], **cleaned)

    def _erase_nodes(self, writer: Writer, nodes: Sequence[int]) -> None:
        keys = list(nodes)
        sql = f"SELECT DISTINCT node_id FROM node WHERE {own()} AND key = {_KEYS}"
        ids = sorted(row[0] for row in writer.rows(sql, keys=keys))
        writer.change([(ChangeKind.NODE_DROPPED, node_id) for node_id in ids])
        without_sets(writer, list(self.erased.segments))
        for table in ("node", "bullet", "bullet_grip", "term_delta"):
            writer.run(f"DELETE FROM {table} WHERE {own()} AND key = {_KEYS}", keys=keys)
        writer.run(f"DELETE FROM node_parent WHERE {own()} AND child = {_KEYS}", keys=keys)
        writer.run(f"DELETE FROM segment_cut WHERE {own()} AND stream = {_STREAMS}", streams=list(self._look.streams))
        # A name under which nothing is filed any more has rows that make nothing together.
        filed = f"SELECT project FROM segment_cut WHERE {own()}"
        writer.run(f"DELETE FROM frequency WHERE {own()} AND project NOT IN ({filed})")

    def _rewrite_events(self, writer: Writer) -> None:
        """Take out what goes, put in what changed, and let the sessions concerned arrive again behind all others."""
        streams, gone, changed = list(self._look.streams), uuids_of(self._look.gone), uuids_of(self._look.changed)
        sql = f"SELECT min(seq) FROM event WHERE {own()} AND stream = {_STREAMS}"
        first = (writer.row(sql, streams=streams) or (None,))[0]
        writer.run(f"DELETE FROM duplicate WHERE {own()} AND (event_id = {_IDS} OR canonical = {_IDS})", ids=gone)
        writer.run(f"DELETE FROM event WHERE {own()} AND event_id = {_IDS}", ids=[*gone, *changed])
        self._put_changed(writer)
        # Whoever counts in numbers of events goes on where it was; what was touched comes to everybody again.
        for name, place in writer.rows(_PLACES, streams=streams, synced=SYNCED):
            sql = f"UPDATE checkpoint SET value = %(place)s WHERE {own()} AND name = %(name)s"
            writer.run(sql, name=name, place=str(place))
        writer.head.derived = self._counted(writer, streams)
        if first is not None:
            writer.change(self._look.news(first))
            writer.run(_NUMBER_ANEW, streams=streams, first=first)
        count_events(writer)

    def _counted(self, writer: Writer, streams: list[int]) -> int:
        row = writer.row(_DERIVED, derived=writer.head.derived, streams=streams)
        return int(row[0]) if row else 0

    def _put_changed(self, writer: Writer) -> None:
        """Put in what changed, but for what an import of its source has stored already."""
        changed = self._look.changed
        new = {old: event_key(event.event_id) for old, (_, event) in changed.items()}
        sql = f"SELECT event_id FROM event WHERE {own()} AND event_id = {_IDS}"
        there = {row[0] for row in writer.rows(sql, ids=uuids_of(new.values()))}
        put: dict[int, int] = {}
        for old, key in new.items():
            if key not in there:
                there.add(key)
                put[old] = key
        left = uuids_of(old for old in new if old not in put)
        writer.run(f"DELETE FROM duplicate WHERE {own()} AND (event_id = {_IDS} OR canonical = {_IDS})", ids=left)
        lists = event_columns([changed[old][1] for old in put], 1)
        lists[:2] = [changed[old][0] for old in put], uuids_of(put.values())
        writer.insert("event", _COLUMNS, _EVENT_TYPES, lists)
        moved = [(old, key) for old, key in put.items() if old != key]
        for column in ("event_id", "canonical") if moved else ():
            given = {"old": [uuid_of(old) for old, _ in moved], "new": [uuid_of(key) for _, key in moved]}
            writer.run(_RENAMED.format(column=column), **given)

    def _vanished(self, writer: Writer) -> None:
        """Other names and marks of projects of which nothing is left."""
        left = {row[0] for row in writer.rows(f"SELECT DISTINCT project FROM event WHERE {own()}")}
        for project in {going.project for going in self._look.gone.values()} - left - {""}:
            sql = f"SELECT old, new FROM project_alias WHERE {own()} AND (old = %(name)s OR new = %(name)s)"
            for name in {project}.union(*writer.rows(sql, name=project)) - left:
                writer.run(_UNNAMED, name=name)
            writer.run(f"DELETE FROM project_alias WHERE {own()} AND (old = %(name)s OR new = %(name)s)", name=project)
            writer.run(f"DELETE FROM project_split WHERE {own()} AND (project = %(name)s OR new = %(name)s)", name=project)
            for spelled in spellings(project):
                writer.run(f"DELETE FROM checkpoint WHERE {own()} AND strpos(name, %(name)s) > 0", name=spelled)
