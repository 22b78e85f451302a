"""What is to be forgotten out of every table, in one transaction; what is derived of the rest is derived again by the caller.

Events are looked through before it, while others write; the transaction looks at what came meanwhile.

Invariants
1. Sessions that lose or change an event, and those of which a text tells of one, are derived anew: their events arrive again,
   behind all others.
2. Events are numbered from 1 without gaps, before and after.
3. A changed event has the id that an import of its source gives it now, so that no second copy comes.
4. Whoever follows the store is told of every node that goes.
"""

from collections.abc import Callable, Sequence
from typing import Any

import duckdb

from memory_mcp.model.calendar import rollup_targets, span_of
from memory_mcp.model.change import ChangeKind
from memory_mcp.model.ids import NodeId, event_id_from, event_key, grip_id_from, node_key
from memory_mcp.storage.archive import SYNCED
from memory_mcp.storage.duckdb.connection import Row, insert
from memory_mcp.storage.duckdb.events import EVENT_TYPES
from memory_mcp.storage.duckdb.outbox import DERIVER, Numbers, add_changes
from memory_mcp.storage.duckdb.terms import without_sets
from memory_mcp.storage.forgotten import BY_GRIP, CLEANED, DROPPED, READ, Look, spellings
from memory_mcp.storage.rows import EVENT, event_columns, event_of, members_of
from memory_mcp.storage.values import Cleaner, Erased

_KEYS, _IDS = "(SELECT unnest(?::BIGINT[]))", "(SELECT unnest(?::HUGEINT[]))"


def behind(rows: Callable[[str, list[Any]], list[Row]]) -> Callable[[int], list[Row]]:
    """Return what reads events behind a number, by way of something that runs statements."""
    sql = f"SELECT seq, {EVENT} FROM event WHERE seq > ? ORDER BY seq LIMIT {READ}"
    return lambda seq: rows(sql, [seq])


class Erasing:
    """One pass over the store, inside the caller's transaction."""

    def __init__(self, con: duckdb.DuckDBPyConnection, numbers: Numbers, keep: Cleaner, dry: bool, look: Look) -> None:
        """`look`: what was looked through before."""
        self._con, self._numbers, self._keep, self._dry = con, numbers, keep, dry
        self.erased = Erased()
        self._look = look

    def run(self) -> Erased:
        """Look, count, and unless it is a dry run, erase."""
        self._look.go_on(behind(lambda sql, given: self._con.execute(sql, given).fetchall()), self._keep)
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
        if not self._dry:
            self._con.execute("DELETE FROM request")
        if not self._dry and not self.erased.nothing:
            self._erase_nodes(nodes)
            self._rewrite_events()
            self._vanished()
        return self.erased

    def _count(self, kind: str, number: int) -> None:
        self.erased.counts[kind] = self.erased.counts.get(kind, 0) + number

    def _follow_pairs(self) -> None:
        """A message told by a hook and by a transcript goes as a whole."""
        pairs = self._con.execute("SELECT event_id, canonical FROM duplicate").fetchall()
        gone = self._look.gone
        others = [b if a in gone else a for a, b in pairs if (a in gone) != (b in gone)]
        for row in self._con.execute(f"SELECT {EVENT} FROM event WHERE event_id IN {_IDS}", [others]).fetchall():
            self._look.drop(event_of(row))
        self._count("events", len(gone))
        self._count("events with a value", len(self._look.changed))
        self._count("duplicates", sum(a in gone or b in gone for a, b in pairs))

    def _doomed_nodes(self) -> list[int]:
        """Keys of the nodes that are told again or go: of the sessions, all periods above them, and whatever holds a value."""
        # Every version: an earlier one may tell what the current one does not.
        rows = self._con.execute("SELECT key, title, summary, keywords, agents, projects, author FROM node").fetchall()
        told = {r[0] for r in rows if self._has(r[1], r[2], r[6], *r[3], *r[4], *r[5])}
        rows = self._con.execute("SELECT key, text, project, agent FROM bullet").fetchall()
        told |= {r[0] for r in rows if self._has(*r[1:])}
        streams = self._con.execute(f"SELECT stream FROM segment_cut WHERE key IN {_KEYS}", [list(told)]).fetchall()
        self._look.streams.update(stream for (stream,) in streams)
        sql = f"SELECT key, day FROM segment_cut WHERE stream IN {_KEYS}"
        cuts = self._con.execute(sql, [list(self._look.streams)]).fetchall()
        self._count("segments", len(cuts))
        self.erased.segments.update(key for key, _ in cuts)
        self.erased.days.update(day for _, day in cuts)
        doomed = told | self.erased.segments | {node_key(p) for day in self.erased.days for p in rollup_targets(day)}
        sql = f"SELECT DISTINCT node_id FROM node WHERE level <> 'segment' AND key IN {_KEYS}"
        periods = [NodeId(node_id) for (node_id,) in self._con.execute(sql, [list(told)]).fetchall()]
        self.erased.days.update(span_of(period)[0].isoformat() for period in periods)
        for table in ("bullet", "term_delta"):
            sql = f"SELECT count(*) FROM {table} WHERE key IN {_KEYS}"
            self._count({"bullet": "bullets", "term_delta": "term sets"}[table], self._one(sql, [list(doomed)]))
        refined = f"SELECT count(*) FROM node WHERE current AND author <> 'extractive' AND author <> '' AND key IN {_KEYS}"
        self._count("texts by agents or models", self._one(refined, [list(doomed)]))
        return list(doomed)

    def _has(self, *texts: str) -> bool:
        return any(self._keep.clean(text) != text for text in texts)

    def _one(self, sql: str, parameters: list[Any]) -> int:
        row = self._con.execute(sql, parameters).fetchone()
        return int(row[0]) if row else 0

    def _grips(self) -> None:
        """Quotations of what goes or changes, and everything that hangs on their ids."""
        keys = [*self._look.gone, *self._look.changed]
        sql = f"SELECT grip_id FROM grip WHERE event_start IN {_IDS} OR event_end IN {_IDS}"
        grips = [row[0] for row in self._con.execute(sql, [keys, keys]).fetchall()]
        names = [grip_id_from(key) for key in grips]
        self._count("grips", len(grips))
        for table, column, kind in BY_GRIP:
            where = f"FROM {table} WHERE {column} IN (SELECT unnest(?::VARCHAR[]))"
            self._count(kind, self._one(f"SELECT count(*) {where}", [names]))
            if not self._dry:
                self._con.execute(f"DELETE {where}", [names])
        if not self._dry:
            # Why something was corrected tells of what stood in its place.
            sql = "UPDATE superseded SET new_id = NULL, reason = '' WHERE new_id IN (SELECT unnest(?::VARCHAR[]))"
            self._con.execute(sql, [names])
            sql = "UPDATE audit SET reason = '' WHERE list_has_any(string_split(subject, ' '), ?::VARCHAR[])"
            self._con.execute(sql, [names])
            self._con.execute(f"DELETE FROM bullet_grip WHERE grip_id IN {_IDS}", [grips])
            self._con.execute(f"DELETE FROM grip WHERE grip_id IN {_IDS}", [grips])

    def _labels(self) -> None:
        """Labels of topics that hold a session from which something goes: somebody's own words, which may tell of it."""
        sql = f"SELECT key FROM segment_cut WHERE stream IN (SELECT stream FROM event WHERE event_id IN {_IDS})"
        cuts = {key for (key,) in self._con.execute(sql, [list(self._look.gone)]).fetchall()}
        topics = self._con.execute("SELECT topic_id, members FROM topic").fetchall()
        told = [topic_id for topic_id, members in topics if not cuts.isdisjoint(members_of(members))]
        where = "FROM topic_label WHERE topic_id IN (SELECT unnest(?::VARCHAR[]))"
        self._count("topic labels", self._one(f"SELECT count(*) {where}", [told]))
        if not self._dry:
            self._con.execute(f"DELETE {where}", [told])

    def _texts(self, table: str, columns: Sequence[str], drop: bool) -> None:
        """Rows beside the tree whose words hold a value."""
        listed = ", ".join(columns)
        rows = self._con.execute(f"SELECT rowid, {listed} FROM {table}").fetchall()
        found = [row for row in rows if self._has(*(part for part in row[1:] if part))]
        self._count(table.replace("_", " ") + " rows", len(found))
        if self._dry or not found:
            return
        if drop:
            self._con.execute(f"DELETE FROM {table} WHERE rowid IN {_KEYS}", [[row[0] for row in found]])
            return
        sets = ", ".join(f"{column} = ?" for column in columns)
        for row in found:
            self._con.execute(f"UPDATE {table} SET {sets} WHERE rowid = ?", [*(self._keep.clean(p) for p in row[1:]), row[0]])

    def _erase_nodes(self, nodes: Sequence[int]) -> None:
        ids = self._con.execute(f"SELECT DISTINCT node_id FROM node WHERE key IN {_KEYS} ORDER BY node_id", [nodes]).fetchall()
        add_changes(self._con, self._numbers, [(ChangeKind.NODE_DROPPED, node_id) for (node_id,) in ids])
        without_sets(self._con, list(self.erased.segments))
        for table in ("node", "bullet", "bullet_grip", "term_delta"):
            self._con.execute(f"DELETE FROM {table} WHERE key IN {_KEYS}", [nodes])
        self._con.execute(f"DELETE FROM node_parent WHERE child IN {_KEYS}", [nodes])
        self._con.execute(f"DELETE FROM segment_cut WHERE stream IN {_KEYS}", [list(self._look.streams)])
        # A name under which nothing is filed any more has rows that make nothing together.
        self._con.execute("DELETE FROM frequency WHERE project NOT IN (SELECT project FROM segment_cut)")

    def _rewrite_events(self) -> None:
        """Take out what goes, put in what changed, and let the sessions concerned arrive again behind all others."""
        con, streams = self._con, list(self._look.streams)
        gone, changed = list(self._look.gone), self._look.changed
        if first := self._one(f"SELECT coalesce(min(seq), 0) FROM event WHERE stream IN {_KEYS}", [streams]):
            add_changes(con, self._numbers, self._look.news(first))
        con.execute(f"DELETE FROM duplicate WHERE event_id IN {_IDS} OR canonical IN {_IDS}", [gone, gone])
        con.execute(f"DELETE FROM event WHERE event_id IN {_IDS}", [[*gone, *changed]])
        for old, (seq, event) in changed.items():
            key = event_key(event.event_id)
            if self._one("SELECT count(*) FROM event WHERE event_id = ?", [key]):
                con.execute("DELETE FROM duplicate WHERE event_id = ? OR canonical = ?", [old, old])
                continue
            insert(con, "event", EVENT_TYPES, event_columns([event], seq))
            con.execute("UPDATE duplicate SET event_id = ? WHERE event_id = ?", [key, old])
            con.execute("UPDATE duplicate SET canonical = ? WHERE canonical = ?", [key, old])
        # Whoever counts in numbers of events goes on where it was; what was touched comes to everybody again.
        places = con.execute(
            f"""SELECT name, (SELECT count(*) FROM event WHERE seq <= value::BIGINT AND stream NOT IN {_KEYS})
                FROM checkpoint WHERE name = ? OR starts_with(name, ?)""",
            [streams, DERIVER, SYNCED],
        ).fetchall()
        con.execute(
            f"""UPDATE event SET seq = n.place FROM (
                  SELECT event_id, row_number() OVER (ORDER BY stream IN {_KEYS}, seq) AS place FROM event) n
                WHERE event.event_id = n.event_id AND event.seq <> n.place""",
            [streams],
        )
        for name, place in places:
            con.execute("UPDATE checkpoint SET value = ? WHERE name = ?", [str(place), name])

    def _vanished(self) -> None:
        """Other names and marks of projects of which nothing is left."""
        left = {p for (p,) in self._con.execute("SELECT DISTINCT project FROM event").fetchall()}
        for project in {going.project for going in self._look.gone.values()} - left - {""}:
            named = self._con.execute(
                "SELECT old, new FROM project_alias WHERE old = ? OR new = ?", [project, project]
            ).fetchall()
            for name in {project}.union(*named) - left:
                self._con.execute("UPDATE audit SET subject = '' WHERE list_contains(string_split(subject, ' '), ?)", [name])
            self._con.execute("DELETE FROM project_alias WHERE old = ? OR new = ?", [project, project])
            self._con.execute("DELETE FROM project_split WHERE project = ? OR new = ?", [project, project])
            for spelled in spellings(project):
                self._con.execute("DELETE FROM checkpoint WHERE contains(name, ?)", [spelled])
