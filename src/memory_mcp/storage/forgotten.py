"""What a forgetting removes from a store or changes in it; shared by the engines.

Statements here are spelled in the common part of the engines' SQL. `{own}` is the condition that a row belongs to the
memory, `{keys}`, `{ids}` and `{names}` a comparison with a list (segment or stream keys, event or grip keys, texts), and
any other name in braces the parameter of that name.
"""

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from typing import Any, ClassVar

from memory_mcp.base.dataclass import dataclass
from memory_mcp.model.calendar import rollup_targets, span_of
from memory_mcp.model.change import ChangeKind
from memory_mcp.model.event import Event, renamed_key
from memory_mcp.model.ids import NodeId, event_id_from, event_key, grip_id_from, node_key
from memory_mcp.storage.rows import EVENT, event_columns, event_of, members_of
from memory_mcp.storage.values import Cleaner, ErasureResult

Row = tuple[Any, ...]
#: Events that are read at once.
READ_LIMIT = 2000
#: Text columns of tables beside the tree: in `CLEANED` the words are removed, in `DROPPED` the whole row.
CLEANED = {
    "superseded": ("reason", "author"),
    "spending": ("reason", "model"),
    "pin": ("set_by",),
    "audit": ("author", "subject", "reason"),
}
DROPPED = {
    "checkpoint": ("name", "value"),
    "topic_label": ("label", "author"),
    "project_alias": ("old", "new", "author"),
    "project_split": ("project", "session_id", "folder", "new"),
}
#: A table that not every engine has; of it a row goes as those of `DROPPED` do, but for a rejected one, which loses this.
HINTS = "hint"
HINT_WORDS: Mapping[str, str | int] = {
    **dict.fromkeys(("session_id", "project", "subject", "text", "grip_id", "evidence"), ""),
    **dict.fromkeys(("call", "remedy", "call_name", "remedy_name"), 0),
}
#: Events behind a number of arrival, in order.
EVENTS_AFTER = f"SELECT seq, {EVENT} FROM event WHERE {{own}} AND seq > {{after}} ORDER BY seq"
#: Table, column and what is counted of rows that hang on a quotation.
BY_GRIP = (("usage", "grip_id", "openings"), ("superseded", "old_id", "superseded"), ("pin", "target", "pins"))
#: Tables whose rows are filed under the key of a node.
_OF_NODES = ("node", "bullet", "bullet_grip", "term_delta", "tool_run")
#: In the order in which `event_columns` returns them.
EVENT_COLUMNS = (
    *("seq", "event_id", "ts", "stream", "session_id", "agent", "project", "thread", "speaker", "type", "role", "trust"),
    *("source", "source_id", "content", "text", "metadata"),
)


@dataclass(frozen=True, slots=True)
class RemovedEvent:
    """A removed event, as far as later steps need it."""

    event_id: str
    ts: int
    stream: int
    project: str
    session_id: str


@dataclass(slots=True)
class Findings:
    """Events to remove or change, as far as they were looked through."""

    #: Number of the last event that was looked at.
    last_seq: int = 0
    #: By event key; changed ones by the key that they had: their number of arrival, and the event as it will be.
    removed: dict[int, RemovedEvent] = field(default_factory=dict)
    changed: dict[int, tuple[int, Event]] = field(default_factory=dict)
    #: Streams they belong to, before and after.
    streams: set[int] = field(default_factory=set)

    def look_through(self, read: Callable[[int], Sequence[Sequence[Any]]], keep: Cleaner) -> None:
        """Look through later events, and note which to remove or change.

        `read` returns some events after a number of arrival, [] at the end: each row is its number and the columns
        `EVENT`. A changed event is noted under the id that an import would give it now.
        """
        while rows := read(self.last_seq):
            for seq, *row in rows:
                event = event_of(row)
                cleaned = keep.clean_event(event)
                if cleaned is None:
                    self.remove_event(event)
                elif cleaned is not event:
                    changed_event = replace(cleaned, event_id=event_id_from(_renamed_key(event, cleaned)))
                    self.streams |= {event.stream, changed_event.stream}
                    self.changed[event_key(event.event_id)] = (seq, changed_event)
            self.last_seq = rows[-1][0]

    def make_changes(self, first: int) -> list[tuple[ChangeKind, str]]:
        """Return the outbox entries: each removed id, then `first` as moved.

        Removed is also the former id of a changed event whose id is another now. `first` is the lowest number of arrival
        that is another event's now.
        """
        renamed_keys = [key for key, (_, event) in self.changed.items() if event_key(event.event_id) != key]
        gone = [(ChangeKind.EVENT_DROPPED, str(event_id_from(key))) for key in (*self.removed, *renamed_keys)]
        return [*gone, (ChangeKind.EVENTS_MOVED, str(first))]

    def remove_event(self, event: Event) -> None:
        """Note that an event is removed whole; its stream is concerned."""
        key = event_key(event.event_id)
        self.streams.add(event.stream)
        self.changed.pop(key, None)
        self.removed[key] = RemovedEvent(event.event_id, event.timestamp, event.stream, event.project, event.session_id)


class Eraser(ABC):
    """One pass over a store that counts what is forgotten, and removes it.

    It runs inside the caller's transaction. Subclasses run the statements and number the remaining events again.
    """

    #: For each table of `CLEANED` and `DROPPED` the column that tells its rows apart.
    _keys: ClassVar[Mapping[str, str]]
    #: Writes entries (kind, subject) of the outbox, inside the caller's transaction; may be missing in a dry run.
    _add_changes: Callable[[Sequence[tuple[ChangeKind, str]]], object]
    #: Subtracts the term sets of segments (keys), whose cuts and terms are there still, from their projects' frequencies;
    #: may be missing in a dry run.
    _subtract_sets: Callable[[Sequence[int]], None]

    def __init__(self, keep: Cleaner, findings: Findings, dry: bool) -> None:
        """Remove what `keep` does not keep; with `dry` only count it."""
        self._keep, self._findings, self._dry = keep, findings, dry
        self.erased = ErasureResult()

    @abstractmethod
    def _fetch_rows(self, statement: str, **parameters: Any) -> Sequence[Row]:
        """Run a statement, spelled as the module says; return its rows.

        `parameters` has the value of each name in braces but `own`: lists for `keys`, `ids`, `names` and `list`, single values
        for others.
        """

    def _iter_rows(self, statement: str) -> Iterable[Row]:
        """Return maybe very many rows of a statement with no parameter but {own}."""
        return self._fetch_rows(statement)

    def _execute_write(self, statement: str, **parameters: Any) -> None:
        """Run a statement that writes; never in a dry run."""
        self._fetch_rows(statement, **parameters)

    @abstractmethod
    def _rewrite_events(self) -> None:
        """Remove and change events; number the sessions concerned last.

        Their entries for the outbox, the pairs they take part in and the positions that count events are written as
        well.
        """

    def run(self) -> ErasureResult:
        """Look through new events; count, and remove, what is forgotten.

        Counts are by kind: events, events with a value, duplicates, nodes, segments, bullets, term sets, texts by agents
        or models, grips, openings, superseded, pins, topic labels, and "TABLE rows" of tables beside the tree. The stored
        answers to requests are removed by every run that is not dry, even if nothing else is. Nothing is committed: that
        is the caller's. The result's `last_seq` is left at 0.
        """
        self._findings.look_through(lambda seq: self._fetch_rows(f"{EVENTS_AFTER} LIMIT {READ_LIMIT}", after=seq), self._keep)
        self._follow_pairs()
        self.erased.removed_events += [(event.event_id, event.ts) for event in self._findings.removed.values()]
        self.erased.changed_events += [
            (event_id_from(key), event.timestamp) for key, (_, event) in self._findings.changed.items()
        ]
        nodes = self._collect_nodes()
        self._add_count("nodes", len(nodes))
        self._remove_grips()
        # A person's words for a topic may tell of a session from which an event goes, if it holds that.
        streams = list({event.stream for event in self._findings.removed.values()})
        cuts = {key for (key,) in self._fetch_rows("SELECT key FROM segment_cut WHERE {own} AND stream {keys}", keys=streams)}
        topics = self._fetch_rows("SELECT topic_id, members FROM topic WHERE {own}")
        topic_ids = [topic_id for topic_id, members in topics if not cuts.isdisjoint(members_of(members))]
        self._remove_named("topic labels", "topic_label", "topic_id", topic_ids)
        for table, columns in CLEANED.items():
            self._clean_table(table, columns, drop=False)
        for table, columns in DROPPED.items():
            self._clean_table(table, columns, drop=True)
        if not self._dry:
            self._execute_write("DELETE FROM request WHERE {own}")
            if not self.erased.is_empty:
                self._erase_nodes(nodes)
                self._rewrite_events()
                self._drop_empty_projects()
        return self.erased

    def _add_count(self, kind: str, number: int) -> None:
        self.erased.counts[kind] = self.erased.counts.get(kind, 0) + number

    def _fetch_number(self, statement: str, **parameters: Any) -> int:
        return int(self._fetch_rows(statement, **parameters)[0][0])

    def _holds_forgotten(self, *texts: str) -> bool:
        return any(self._keep.clean_text(text) != text for text in texts)

    def _follow_pairs(self) -> None:
        """Remove both events of a pair that a hook and a transcript recorded.

        A copy in another session stays, and is shown from now on; one that was forgotten itself goes by itself.
        """
        pairs = self._fetch_rows("SELECT event_id, canonical FROM duplicate WHERE {own}")
        gone = self._findings.removed
        partners = {b if a in gone else a: gone[a if a in gone else b].session_id for a, b in pairs if (a in gone) != (b in gone)}
        for row in self._fetch_rows(f"SELECT {EVENT} FROM event WHERE {{own}} AND event_id {{ids}}", ids=list(partners)):
            event = event_of(row)
            if event.session_id == partners[event_key(event.event_id)]:
                self._findings.remove_event(event)
            else:
                self._findings.streams.add(event.stream)
        self._add_count("events", len(gone))
        self._add_count("events with a value", len(self._findings.changed))
        self._add_count("duplicates", sum(a in gone or b in gone for a, b in pairs))

    def _collect_nodes(self) -> list[int]:
        """Return the keys of nodes to remove or write again; count their parts.

        These are the nodes of the sessions concerned, all periods above them, and whatever holds a forgotten value. A
        session of which a node or a bullet holds one is concerned too. Nothing is removed.
        """
        # Every version: an earlier one may say what the current one does not.
        nodes = self._iter_rows("SELECT key, title, summary, keywords, agents, projects, author FROM node WHERE {own}")
        affected_keys = {r[0] for r in nodes if self._holds_forgotten(*_iter_texts(r[1:]))}
        bullets = self._iter_rows("SELECT key, text, project, agent FROM bullet WHERE {own}")
        affected_keys |= {r[0] for r in bullets if self._holds_forgotten(*r[1:])}
        streams = self._fetch_rows("SELECT stream FROM segment_cut WHERE {own} AND key {keys}", keys=list(affected_keys))
        self._findings.streams.update(stream for (stream,) in streams)
        cuts = self._fetch_rows(
            "SELECT key, day FROM segment_cut WHERE {own} AND stream {keys}", keys=list(self._findings.streams)
        )
        self._add_count("segments", len(cuts))
        self.erased.segments.update(key for key, _ in cuts)
        self.erased.days.update(day for _, day in cuts)
        doomed = list(
            affected_keys | self.erased.segments | {node_key(p) for day in self.erased.days for p in rollup_targets(day)}
        )
        periods = "SELECT DISTINCT node_id FROM node WHERE {own} AND level <> 'segment' AND key {keys}"
        for (node_id,) in self._fetch_rows(periods, keys=list(affected_keys)):
            self.erased.days.add(span_of(NodeId(node_id))[0].isoformat())
        for table, kind in (("bullet", "bullets"), ("term_delta", "term sets")):
            self._add_count(kind, self._fetch_number(f"SELECT count(*) FROM {table} WHERE {{own}} AND key {{keys}}", keys=doomed))
        refined = "SELECT count(*) FROM node WHERE {own} AND current AND author <> 'extractive' AND author <> '' AND key {keys}"
        self._add_count("texts by agents or models", self._fetch_number(refined, keys=doomed))
        return doomed

    def _remove_named(self, kind: str, table: str, column: str, names: Sequence[str]) -> None:
        where = f"FROM {table} WHERE {{own}} AND {column} {{names}}"
        self._add_count(kind, self._fetch_number(f"SELECT count(*) {where}", names=names))
        if not self._dry:
            self._execute_write(f"DELETE {where}", names=names)

    def _remove_grips(self) -> None:
        """Count and remove quotations of events that go or change.

        With them openings, records of what they replaced, and pins. A record whose new statement goes stays without it
        and without its reason; audit entries that name a removed grip lose their reason.
        """
        sql = "SELECT grip_id FROM grip WHERE {own} AND (event_start {ids} OR event_end {ids})"
        grips = [row[0] for row in self._fetch_rows(sql, ids=[*self._findings.removed, *self._findings.changed])]
        names = [grip_id_from(key) for key in grips]
        self._add_count("grips", len(grips))
        for table, column, kind in BY_GRIP:
            self._remove_named(kind, table, column, names)
        if not self._dry:
            # Why something was corrected tells of what stood in its place.
            self._execute_write("UPDATE superseded SET new_id = NULL, reason = '' WHERE {own} AND new_id {names}", names=names)
            self._execute_write(
                "UPDATE audit SET reason = '' WHERE {own} AND string_to_array(subject, ' ') && {list}", list=names
            )
            for table in ("bullet_grip", "grip"):
                self._execute_write(f"DELETE FROM {table} WHERE {{own}} AND grip_id {{ids}}", ids=grips)

    def _clean_table(self, table: str, columns: Sequence[str], drop: bool) -> None:
        """Clean rows that hold a forgotten value, or with `drop` remove them."""
        key = self._keys[table]
        rows = self._iter_rows(f"SELECT {key}, {', '.join(columns)} FROM {table} WHERE {{own}}")
        matching_rows = [row for row in rows if self._holds_forgotten(*(part for part in row[1:] if part))]
        self._add_count(table.replace("_", " ") + " rows", len(matching_rows))
        where = f"WHERE {{own}} AND {key} = {{row}}"
        sets = ", ".join(f"{column} = {{{column}}}" for column in columns)
        for row in () if self._dry else matching_rows:
            if drop:
                self._execute_write(f"DELETE FROM {table} {where}", row=row[0])
            else:
                cleaned = {column: self._keep.clean_text(part) for column, part in zip(columns, row[1:], strict=True)}
                self._execute_write(f"UPDATE {table} SET {sets} {where}", row=row[0], **cleaned)

    def _erase_nodes(self, nodes: Sequence[int]) -> None:
        """Remove nodes (keys) and the cuts of the streams concerned.

        An outbox entry is written for each node, their terms are subtracted from the frequencies of projects, and
        frequencies of projects without any cut are removed.
        """
        ids = sorted(
            row[0] for row in self._fetch_rows("SELECT DISTINCT node_id FROM node WHERE {own} AND key {keys}", keys=nodes)
        )
        self._add_changes([(ChangeKind.NODE_DROPPED, node_id) for node_id in ids])
        self._subtract_sets(list(self.erased.segments))
        for table in _OF_NODES:
            self._execute_write(f"DELETE FROM {table} WHERE {{own}} AND key {{keys}}", keys=nodes)
        self._execute_write("DELETE FROM node_parent WHERE {own} AND child {keys}", keys=nodes)
        self._execute_write("DELETE FROM segment_cut WHERE {own} AND stream {keys}", keys=list(self._findings.streams))
        # A name under which nothing is filed any more has rows that make nothing together.
        self._execute_write("DELETE FROM frequency WHERE {own} AND project NOT IN (SELECT project FROM segment_cut WHERE {own})")

    def _drop_empty_projects(self) -> None:
        """Remove rules, positions and audit subjects of emptied projects.

        Only projects of removed events are looked at. Rules are aliases and splits that name them, positions those
        whose name holds the project's, also with "-" in the place of all but ASCII letters and digits.
        """
        remaining_projects = {project for (project,) in self._fetch_rows("SELECT DISTINCT project FROM event WHERE {own}")}
        for project in {event.project for event in self._findings.removed.values()} - remaining_projects - {""}:
            either = "WHERE {own} AND (old = {name} OR new = {name})"
            for name in {project}.union(
                *self._fetch_rows(f"SELECT old, new FROM project_alias {either}", name=project)
            ) - remaining_projects:
                sql = "UPDATE audit SET subject = '' WHERE {own} AND {name} = ANY(string_to_array(subject, ' '))"
                self._execute_write(sql, name=name)
            self._execute_write(f"DELETE FROM project_alias {either}", name=project)
            self._execute_write("DELETE FROM project_split WHERE {own} AND (project = {name} OR new = {name})", name=project)
            # Clients name folders of session files after a project's path, which stored positions then name.
            for spelled in {project, re.sub(r"[^A-Za-z0-9]", "-", project)}:
                self._execute_write("DELETE FROM checkpoint WHERE {own} AND strpos(name, {name}) > 0", name=spelled)


def _renamed_key(previous: Event, changed: Event) -> int:
    return renamed_key(event_key(previous.event_id), previous.source, previous, changed)


def clean_row(keep: Cleaner, table: str, row: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return a copied row without what was forgotten, or None.

    The row itself where it holds nothing of it. A changed event gets the id that an import would give it; a row of a
    table in `DROPPED` goes if any of its values holds something forgotten. Rows are judged alone: pairs, nodes and
    quotations are not followed.
    """
    if table == "event":
        event = event_of([row[name] for name in EVENT.split(", ")])
        cleaned = keep.clean_event(event)
        if cleaned is None or cleaned is event:
            return None if cleaned is None else row
        changed_event = replace(cleaned, event_id=event_id_from(_renamed_key(event, cleaned)))
        columns = event_columns([changed_event], row["seq"])
        return {**row, **dict(zip(EVENT_COLUMNS, (column[0] for column in columns), strict=True))}
    cleaned_row = {name: _clean_cell(keep, value) for name, value in row.items()}
    if cleaned_row == dict(row):
        return row
    if table == HINTS:
        return strip_hint(row)
    return None if table in DROPPED else cleaned_row


def strip_hint(row: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return what stays of a hint whose words are forgotten: that its topic was rejected, else None."""
    return {**row, **{name: value for name, value in HINT_WORDS.items() if name in row}} if row["rejected"] else None


def _clean_cell(keep: Cleaner, value: Any) -> Any:
    if isinstance(value, str):
        return keep.clean_text(value)
    return [_clean_cell(keep, item) for item in value] if isinstance(value, list) else value


def _iter_texts(columns: Iterable[Any]) -> Iterator[str]:
    """Yield the texts of a row; lists may come as one text."""
    for column in columns:
        yield from (column,) if isinstance(column, str) else column
