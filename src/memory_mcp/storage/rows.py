"""Turn rows into stored things and back; no SQL runs here."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, replace
from typing import Any

import numpy as np

from memory_mcp.model.calendar import TimeWindow, TocLevel
from memory_mcp.model.event import ROOT_COMMIT, Event, EventType, Role, Trust, content_hash
from memory_mcp.model.frozen import find_maker
from memory_mcp.model.grip import Grip
from memory_mcp.model.ids import NodeId, TopicId, event_id_from, event_key, grip_id_from, make_key
from memory_mcp.model.ledger import ModelCall, Outcome
from memory_mcp.model.project import ProjectNames
from memory_mcp.model.segment import Segment
from memory_mcp.model.toc import MemoryKind, TocBullet, TocNode
from memory_mcp.model.tool_run import KeyKind, StoredRun, ToolRun
from memory_mcp.model.topic import TopicChange, TopicRecord
from memory_mcp.storage.values import Activity, ActivityCount, DailyActivity, MonthCount, SessionInfo, StoreStats

EVENT = "event_id, ts, session_id, agent, project, thread, speaker, type, role, trust, source, source_id, text, metadata"
SEGMENT = (
    "stream, cut_no, session_id, project, thread, agent, day, start_ts, start_id, end_ts, end_id, events, tokens, open, cutter"
)
NODE = (
    "key, node_id, level, version, start_ms, end_ms, title, summary, keywords, kind, salience, sessions, events, agents, "
    "projects, author, built"
)
GRIP = "grip_id, event_start, event_end, span_start, span_end, quote_hash, ts, segment"
TOPIC = "topic_id, born_ms, is_area, members, merged_into, is_over, turns"
SPENT = "at_ms, node_id, written_from, model, tokens_in, tokens_out, estimated, outcome, reason, ms"

_NODE_FIELDS = [f.name for f in fields(TocNode)]
_make_event, _make_node, _make_bullet = find_maker(Event), find_maker(TocNode), find_maker(TocBullet)
# Calling an enum takes three times as long.
_TYPES, _ROLES, _TRUSTS, _KINDS = ({member.value: member for member in kind} for kind in (EventType, Role, Trust, MemoryKind))
_decode_json = json.JSONDecoder().raw_decode
_BULLETS, _PINNED, _LEVEL, _KIND = map(_NODE_FIELDS.index, ("bullets", "pinned", "level", "kind"))
_TUPLES = tuple(map(_NODE_FIELDS.index, ("keywords", "agents", "projects")))
#: Tables whose rows are counted for a store's facts, besides `event`.
COUNTED = ("duplicate", "segment_cut", "node", "bullet", "grip", "term_delta", "outbox")


def pack(metadata: Mapping[str, str]) -> str:
    """Return metadata as stored: compact JSON, sorted keys; "" for none."""
    return json.dumps(dict(metadata), ensure_ascii=False, separators=(",", ":"), sort_keys=True) if metadata else ""


def metadata_of(packed: str) -> dict[str, str]:
    """Return metadata from their stored form; raises ValueError if invalid."""
    if not packed:
        return {}
    # As `pack` wrote it nothing is around the object; looking for white space there takes half of the time.
    metadata: dict[str, str]
    if packed[0] == "{":
        metadata, end = _decode_json(packed)
        if end == len(packed):
            return metadata
    metadata = json.loads(packed)
    return metadata


def event_of(row: Sequence[Any]) -> Event:
    """Return an event from `EVENT` columns, under its recorded project.

    Raises ValueError for an unknown type, role or trust, or for invalid metadata.
    """
    key, timestamp, session_id, agent, project, thread, speaker, kind, role, trust, source, source_id, text, metadata = row
    return _make_event(
        event_id_from(key),
        session_id,
        timestamp,
        _TYPES.get(kind) or EventType(kind),
        _ROLES.get(role) or Role(role),
        _TRUSTS.get(trust) or Trust(trust),
        text,
        source,
        source_id,
        agent,
        project,
        thread,
        speaker,
        metadata_of(metadata),
        None,
    )


def event_columns(events: Sequence[Event], first_seq: int) -> list[list[Any]]:
    """Return columns for an insert into event, numbered from `first_seq`."""
    return [
        list(range(first_seq, first_seq + len(events))),
        [event_key(e.event_id) for e in events],
        [e.timestamp for e in events],
        [e.stream for e in events],
        [e.session_id for e in events],
        [e.agent for e in events],
        [e.project for e in events],
        [e.thread for e in events],
        [e.speaker for e in events],
        [e.type.value for e in events],
        [e.role.value for e in events],
        [e.trust.value for e in events],
        [e.source for e in events],
        [e.source_id for e in events],
        [content_hash(e.text) for e in events],
        [e.text for e in events],
        [pack(e.metadata) for e in events],
    ]


def segment_of(row: Sequence[Any]) -> Segment:
    """Return a cut from a row of `SEGMENT` columns."""
    # The columns are in the order of the fields.
    start, end = (row[7], event_id_from(row[8])), (row[9], event_id_from(row[10]))
    values = [*row[:7], start, end, *row[11:]]
    return Segment(*values)


def segment_columns(segments: Sequence[Segment]) -> list[list[Any]]:
    """Return columns for an insert into segment_cut."""
    return [
        [s.key for s in segments],
        [s.stream for s in segments],
        [s.cut_no for s in segments],
        [s.session_id for s in segments],
        [s.project for s in segments],
        [s.thread for s in segments],
        [s.agent for s in segments],
        [s.day for s in segments],
        [s.start[0] for s in segments],
        [event_key(s.start[1]) for s in segments],
        [s.end[0] for s in segments],
        [event_key(s.end[1]) for s in segments],
        [s.events for s in segments],
        [s.tokens for s in segments],
        [s.open for s in segments],
        [s.cutter for s in segments],
    ]


def node_of(row: Sequence[Any], bullets: Sequence[TocBullet], pinned: bool) -> TocNode:
    """Return the node of a `NODE` row.

    Raises ValueError for an unknown level or kind.
    """
    return TocNode(
        node_id=NodeId(row[1]),
        level=TocLevel(row[2]),
        version=row[3],
        start_ms=row[4],
        end_ms=row[5],
        title=row[6],
        summary=row[7],
        keywords=tuple(row[8]),
        kind=MemoryKind(row[9]),
        salience=row[10],
        session_count=row[11],
        event_count=row[12],
        agents=tuple(row[13]),
        projects=tuple(row[14]),
        author=row[15],
        built=row[16],
        bullets=tuple(bullets),
        pinned=pinned,
    )


def pack_node(node: TocNode) -> bytes:
    """Return a node with its bullets as JSON, as not pinned."""
    values: list[Any] = [getattr(node, name) for name in _NODE_FIELDS]
    values[_PINNED] = False
    values[_BULLETS] = [[b.text, b.grip_ids, b.kind, b.project, b.agent] for b in node.bullets]
    return json.dumps(values, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass")


def unpack_node(packed: str | bytes, with_bullets: bool = True) -> TocNode:
    """Return the node of `pack_node`; raises ValueError for other text."""
    values: list[Any] = json.loads(packed)
    if len(values) != len(_NODE_FIELDS):
        raise ValueError("a node of other fields")
    values[_BULLETS] = tuple(
        _make_bullet(text, tuple(grips), _KINDS.get(kind) or MemoryKind(kind), project, agent)
        for text, grips, kind, project, agent in (values[_BULLETS] if with_bullets else ())
    )
    for place in _TUPLES:
        values[place] = tuple(values[place])
    values[_LEVEL] = TocLevel(values[_LEVEL])
    values[_KIND] = _KINDS.get(values[_KIND]) or MemoryKind(values[_KIND])
    return _make_node(*values)


def bullet_of(text: str, kind: str, project: str, agent: str, grips: Sequence[int]) -> TocBullet:
    """Return a bullet; `grips` are the keys of its quotations.

    Raises ValueError for an unknown kind.
    """
    return TocBullet(text, tuple(grip_id_from(g) for g in grips), MemoryKind(kind), project, agent)


def node_columns(nodes: Sequence[TocNode], keys: Sequence[int], built: int) -> list[list[Any]]:
    """Return columns for an insert into node; `built` numbers the build."""
    return [
        list(keys),
        [n.node_id for n in nodes],
        [n.level.value for n in nodes],
        [n.version for n in nodes],
        [True] * len(nodes),
        [n.start_ms for n in nodes],
        [n.end_ms for n in nodes],
        [n.title for n in nodes],
        [n.summary for n in nodes],
        [list(n.keywords) for n in nodes],
        [n.kind.value for n in nodes],
        [n.salience for n in nodes],
        [n.session_count for n in nodes],
        [n.event_count for n in nodes],
        [list(n.agents) for n in nodes],
        [list(n.projects) for n in nodes],
        [n.author for n in nodes],
        [built] * len(nodes),
    ]


def grip_of(row: Sequence[Any]) -> Grip:
    """Return a grip from a row of `GRIP` columns."""
    # The columns are in the order of the fields.
    return Grip(grip_id_from(row[0]), event_id_from(row[1]), event_id_from(row[2]), *row[3:])


def grip_columns(grips: Sequence[Grip], keys: Sequence[int]) -> list[list[Any]]:
    """Return columns for an insert into grip; `keys` are 128-bit."""
    return [
        list(keys),
        [event_key(g.event_id_start) for g in grips],
        [event_key(g.event_id_end) for g in grips],
        [g.span_start for g in grips],
        [g.span_end for g in grips],
        [g.quote_hash for g in grips],
        [g.timestamp for g in grips],
        [g.segment for g in grips],
    ]


#: Columns of a run's key with its place, as `runs_of_rows` reads them.
RUN = "r.key, r.call, r.result, r.failed, r.kind, r.hash, s.stream, s.project, s.session_id"


def run_columns(runs: Sequence[ToolRun]) -> list[list[Any]]:
    """Return columns for an insert into tool_run, a row for each key."""
    rows = [
        (run.segment, event_key(run.call), event_key(run.result), run.failed, int(kind), value)
        for run in runs
        for kind, value in run.keys
    ]
    return [list(column) for column in zip(*rows, strict=True)] or [[] for _ in range(6)]


def runs_of_rows(rows: Iterable[Sequence[Any]]) -> list[StoredRun]:
    """Return runs from rows of their keys, in the order of the first row of each."""
    grouped: dict[tuple[int, int], list[Sequence[Any]]] = {}
    for row in rows:
        grouped.setdefault((row[1], row[2]), []).append(row)
    runs = []
    for several in grouped.values():
        key, call, result, failed, _, _, stream, project, session_id = several[0]
        keys = tuple((KeyKind(row[4]), row[5]) for row in several)
        run = ToolRun(key, event_id_from(call), event_id_from(result), failed, keys)
        runs.append(StoredRun(run, stream, project, session_id))
    return runs


def group_by_stream(rows: Iterable[Sequence[Any]], streams: Iterable[int]) -> dict[int, list[StoredRun]]:
    """Return the runs of rows by their stream, with an empty list for a stream without any."""
    by_stream: dict[int, list[StoredRun]] = {stream: [] for stream in streams}
    for stored in runs_of_rows(rows):
        by_stream[stored.stream].append(stored)
    return by_stream


def bound_keys(window: TimeWindow | None, last: int) -> tuple[int, int]:
    """Return the first key of a window and the one behind its last; 0 and `last` without a window."""
    return (make_key(window.start_ms, 0), make_key(window.end_ms, 0)) if window else (0, last)


def sessions_of(rows: Iterable[Sequence[Any]], names: ProjectNames) -> list[SessionInfo]:
    """Return sessions from rows, with display names of projects.

    A row has session, recorded project, agent, first and last time, and events. A session recorded under two names of one project
    is one session: at the first row's position, with its agent, and with times and events of both.
    """
    sessions: dict[tuple[str, str], SessionInfo] = {}
    for session_id, recorded, *values in rows:
        session = SessionInfo(session_id, names.display_name(recorded, session_id), *values)
        if earlier := sessions.get((session_id, session.project)):
            start, end = min(earlier.start_ms, session.start_ms), max(earlier.end_ms, session.end_ms)
            session = replace(earlier, start_ms=start, end_ms=end, events=earlier.events + session.events)
        sessions[session_id, session.project] = session
    return list(sessions.values())


def activity_of(row: Sequence[Any]) -> Activity:
    """Return the activity of a row: name, counts, times, other names."""
    return Activity(row[0], row[1], row[2], row[3], row[4], tuple(sorted(row[5] or ())))


def daily_of(rows: Sequence[Sequence[Any]]) -> DailyActivity:
    """Return the activity of rows: level, name, events, sessions, month.

    `level` is what SQL's `grouping(day, month, project, agent)` returns: a bit for each column that is not grouped
    by. Without a row for the total, events and sessions are 0.
    """
    by_day, by_project, by_agent, total, project_by_month, agent_by_month = 0b0111, 0b1101, 0b1110, 0b1111, 0b1001, 0b1010
    days, projects, agents = (
        tuple(ActivityCount(*row[1:4]) for row in rows if row[0] == level) for level in (by_day, by_project, by_agent)
    )
    events, sessions = next(((row[2] or 0, row[3]) for row in rows if row[0] == total), (0, 0))
    by_month = (
        tuple(MonthCount(row[1], row[4], row[2]) for row in rows if row[0] == level)
        for level in (project_by_month, agent_by_month)
    )
    return DailyActivity(days, projects, agents, events, sessions, *by_month)


def stats_of(
    rows: Iterable[Sequence[Any]], store_id: str, timezone: str, schema_version: int, size_bytes: int = 0, derived_to: int = 0
) -> StoreStats:
    """Return a store's facts from a row for each table.

    A row has the table's name, its rows, and the first and last time of its events; `event` must be among them. `text_bytes` and
    `last_seq` are left at 0 for the caller to fill in.
    """
    rows_by_table = {table: fields for table, *fields in rows}
    _, first, last = rows_by_table["event"]
    return StoreStats(
        rows={table: fields[0] for table, fields in rows_by_table.items()},
        size_bytes=size_bytes,
        text_bytes=0,
        store_id=store_id,
        timezone=timezone,
        schema_version=schema_version,
        first_ms=first,
        last_ms=last,
        derived_to=derived_to,
        last_seq=0,
    )


def folder_of(metadata: str) -> str:
    """Return the working directory that stored metadata name, or ""."""
    return str(json.loads(metadata).get("cwd", "")) if metadata else ""


def root_commit_in(metadata: str) -> str:
    """Return the root commit that stored metadata name, or ""."""
    return str(json.loads(metadata).get(ROOT_COMMIT, ""))


def topic_of(row: Sequence[Any]) -> TopicRecord:
    """Return a topic from a row of `TOPIC` columns."""
    topic_id, born_ms, is_area, members, merged_into, is_over, turns = row
    happened = tuple(TopicChange(at_ms, what, TopicId(other) if other else None) for at_ms, what, other in json.loads(turns))
    into = TopicId(merged_into) if merged_into else None
    return TopicRecord(TopicId(topic_id), born_ms, is_area, members_of(members), into, is_over, happened)


def topic_columns(topics: Sequence[TopicRecord]) -> list[list[Any]]:
    """Return columns for an insert into topic, in the order of `TOPIC`."""
    return [
        [t.topic_id for t in topics],
        [t.born_ms for t in topics],
        [t.is_area for t in topics],
        [np.array(t.members, dtype="<u8").tobytes() for t in topics],
        [t.merged_into for t in topics],
        [t.is_over for t in topics],
        [json.dumps([[turn.at_ms, turn.kind, turn.other] for turn in t.changes]) for t in topics],
    ]


def members_of(column: bytes) -> tuple[int, ...]:
    """Return the segment keys of a stored column (little-endian uint64)."""
    return tuple(np.frombuffer(column, dtype="<u8").tolist())


def spent_of(row: Sequence[Any]) -> ModelCall:
    """Return a model call from a row of `SPENT` columns.

    Raises ValueError for an unknown outcome.
    """
    at_ms, node_id, written_from, model, tokens_in, tokens_out, estimated, outcome, reason, ms = row
    subject = (at_ms, NodeId(node_id), written_from, model)
    return ModelCall(*subject, tokens_in, tokens_out, estimated, Outcome(outcome), reason, ms)


def spent_row(spent: ModelCall) -> list[Any]:
    """Return the values of a model call, in the order of `SPENT`."""
    subject = [spent.at_ms, spent.node_id, spent.written_from, spent.model, spent.tokens_in, spent.tokens_out, spent.estimated]
    return [*subject, spent.outcome.value, spent.reason, spent.ms]
