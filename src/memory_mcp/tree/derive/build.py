"""Build nodes, grips and terms from segments with their events. Pure."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from memory_mcp.base.dataclass import dataclass
from memory_mcp.base.text import hashes_in
from memory_mcp.model.calendar import Calendar, TocLevel
from memory_mcp.model.event import Event, EventType
from memory_mcp.model.exchange import only_requests, without_questions
from memory_mcp.model.grip import Grip
from memory_mcp.model.ids import EventId, GripId, encode_base32, hash_parts
from memory_mcp.model.segment import Segment
from memory_mcp.model.toc import (
    EXTRACTIVE,
    KIND_SALIENCE,
    REQUESTS_SALIENCE,
    MemoryKind,
    TocBullet,
    TocNode,
    author_digest,
    is_by_agent,
    make_agent_author,
)
from memory_mcp.model.tool_run import ToolRun
from memory_mcp.tree.derive.grips import covering_grips, cut_grips, span_grip
from memory_mcp.tree.outcomes.runs import runs_of
from memory_mcp.tree.summarize.base import BulletDraft, Summarizer

#: Grips named by one bullet at most.
_GRIPS_PER_BULLET = 2
#: Characters of a digest, five bits each.
_DIGEST = 12


@dataclass(frozen=True, slots=True)
class SegmentWork:
    """One segment to derive: all its events in order, and its node as published before."""

    segment: Segment
    events: tuple[Event, ...]
    former_node: TocNode | None = None
    #: The recap that covers it, which may be in a later segment of its stream.
    recap: Event | None = None
    #: Hashes of its first sentences. They are among its terms, so that they are counted for the whole store.
    openings: frozenset[int] = frozenset()
    #: Those of them that it shares with many other segments.
    repeated: frozenset[int] = frozenset()
    #: The events whose tool runs are not stored yet; None: of all of them.
    fresh: frozenset[EventId] | None = None


@dataclass(frozen=True, slots=True)
class DerivedSegment:
    """The result of one segment; `hashes`: its terms, `(n,) uint32` sorted, as bytes."""

    segment: Segment
    node: TocNode
    grips: tuple[Grip, ...]
    hashes: bytes
    #: Those that are to be stored; with `resets_runs` in the place of all stored ones.
    runs: tuple[ToolRun, ...] = ()
    resets_runs: bool = False


def derive_segments(batch: Sequence[SegmentWork], calendar: Calendar, summarizer: Summarizer) -> list[DerivedSegment]:
    """Return every segment of a batch derived, in order."""
    return [derive_segment(work, calendar, summarizer) for work in batch]


def derive_segment(work: SegmentWork, calendar: Calendar, summarizer: Summarizer) -> DerivedSegment:
    """Return node, grips and terms of one segment.

    Nothing is stored. The words that an agent or a still valid language model wrote stay (see `keep_refinement`); everything
    else follows from the events. The version is one above that of the node before.
    """
    segment, events = work.segment, work.events
    grips = grips_of(events, segment.key)
    summary = summarizer.summarize(without_questions(events), work.recap, work.repeated)
    by_id = {e.event_id: e for e in events}
    elsewhere = [work.recap] if work.recap and work.recap.event_id not in by_id else []
    bullets = tuple(_make_bullet(b, by_id, grips, segment, elsewhere) for b in summary.bullets)
    kind = max((b.kind for b in bullets), key=lambda k: KIND_SALIENCE[k], default=MemoryKind.OBSERVATION)
    node = TocNode(
        node_id=segment.node_id,
        level=TocLevel.SEGMENT,
        start_ms=segment.start[0],
        end_ms=segment.end[0],
        title=segment_title(calendar, segment.start[0], summary.title),
        summary=summary.summary,
        bullets=bullets,
        keywords=summary.keywords,
        version=work.former_node.version + 1 if work.former_node else 1,
        kind=kind,
        salience=REQUESTS_SALIENCE if only_requests(events, segment.is_begin) else salience_of(bullets),
        session_count=1,
        event_count=len(events),
        agents=tuple(sorted({e.agent for e in events if e.agent})),
        projects=(segment.project,) if segment.project else (),
    )
    node = keep_refinement(node, work.former_node, partial(source_of_events, events))
    resets = work.fresh is None and work.former_node is not None
    runs = runs_of(events, segment.key, work.fresh)
    return DerivedSegment(segment, node, tuple(grips), hashes_of(events, work.openings), runs, resets)


def segment_title(calendar: Calendar, start_ms: int, gist: str) -> str:
    """Return date and time (YYYY-MM-DD HH:MM), " · ", then the gist."""
    return f"{calendar.to_local(start_ms):%Y-%m-%d %H:%M} · {gist}"


def salience_of(bullets: Sequence[TocBullet]) -> float:
    """Return the mean of the two most salient kinds, 0..1; 0.3 without bullets."""
    best = sorted((KIND_SALIENCE[b.kind] for b in bullets), reverse=True)[:2]
    return round(sum(best) / len(best), 3) if best else 0.3


def keep_refinement(node: TocNode, former: TocNode | None, source: Callable[[], str]) -> TocNode:
    """Return `node` with words written for its former version.

    The words of a language model are kept while `source()`, the digest of what the node is written from, is unchanged. An
    agent's are kept always, with its keywords; bullets of projects that it did not write about are the derived ones.
    """
    if former is None or former.author == EXTRACTIVE:
        return node
    digest_then = author_digest(former.author)
    if digest_then:
        return with_text_of(former, node) if digest_then == source() else node
    # None of an agent's words is the summarizer's; a language model gives no keywords.
    refined = replace(with_text_of(former, node), keywords=former.keywords)
    return with_others(refined, former.author_bullets, node.bullets)


def with_others(node: TocNode, agent_bullets: Sequence[TocBullet], derived: Sequence[TocBullet]) -> TocNode:
    """Return an agent's bullets, then those of other projects.

    The author of an agent's node says how many of the bullets are its own.
    """
    covered_projects = {bullet.project for bullet in agent_bullets}
    bullets = (*agent_bullets, *(bullet for bullet in derived if bullet.project not in covered_projects))
    author = make_agent_author(len(agent_bullets), len(bullets)) if is_by_agent(node.author) else node.author
    return replace(node, bullets=bullets, author=author)


def with_text_of(source_node: TocNode, node: TocNode) -> TocNode:
    """Return `node` with the words of `source_node`."""
    return replace(
        node,
        title=source_node.title,
        summary=source_node.summary,
        bullets=source_node.bullets,
        kind=source_node.kind,
        salience=source_node.salience,
        author=source_node.author,
    )


def source_of_events(events: Sequence[Event]) -> str:
    """Return a digest, 12 characters, of a segment's events."""
    return _short_digest("events", *(e.event_id for e in events))


def source_of_children(children: Sequence[TocNode]) -> str:
    """Return a digest, 12 characters, of a period's children.

    Of each its id, number of events and end count. A child that a language model puts into other words leaves
    its parents as good as they were.
    """
    parts: list[str] = []
    for child in sorted(children, key=lambda n: n.node_id):
        parts += [child.node_id, str(child.event_count), str(child.end_ms)]
        if is_by_agent(child.author):
            parts += [child.title, *(b.text for b in child.bullets)]
    return _short_digest("children", *parts)


def _short_digest(*parts: str) -> str:
    return encode_base32(hash_parts(*parts, bits=5 * _DIGEST), _DIGEST)


def grips_of(events: Sequence[Event], segment: int) -> list[Grip]:
    """Return the grips of a segment's events, in order."""
    calls = {e.metadata["tool_use_id"]: e for e in events if e.type is EventType.TOOL_CALL and "tool_use_id" in e.metadata}
    grips: list[Grip] = []
    for event in events:
        grips += cut_grips(event, calls.get(event.metadata.get("tool_use_id", "")), segment)
    return grips


def hashes_of(events: Sequence[Event], openings: Collection[int] = ()) -> bytes:
    """Return hashes of terms and openings: sorted uint32, as bytes."""
    term_hashes = hashes_in(*map(searchable_text, events)).union(openings)
    return np.sort(np.fromiter(term_hashes, dtype="<u4", count=len(term_hashes))).tobytes()


def searchable_text(event: Event) -> str:
    """Return the text by which an event is found."""
    return " \n".join(searchable_pieces(event))


def searchable_pieces(event: Event) -> list[str]:
    """Return an event's speaker, words, branch and file names."""
    extra = [event.metadata[k] for k in ("branch", "file", "files") if k in event.metadata]
    return [event.speaker, event.text, *extra] if event.speaker else [event.text, *extra]


def _make_bullet(
    draft: BulletDraft, events: Mapping[EventId, Event], grips: list[Grip], segment: Segment, elsewhere: Sequence[Event]
) -> TocBullet:
    """Return a bullet with up to two grips that prove it.

    Where no stored grip covers its words, one is made and added to `grips`. Events `elsewhere` have their grips in another
    segment. Raises KeyError for a source that is no event of either.
    """
    chosen: list[GripId] = []
    for source in draft.sources:
        other = next((e for e in elsewhere if e.event_id == source.event_id), None)
        if other is not None:
            chosen += [
                g.grip_id for g in covering_grips(cut_grips(other, None, segment.key), other, source.start, source.end)[:1]
            ]
            continue
        event = events[source.event_id]
        cover = covering_grips(grips, event, source.start, source.end)
        if not cover:
            cover = [span_grip(event, source.start, source.end, segment.key)]
            grips.append(cover[0])
        chosen.append(cover[0].grip_id)
    unique = tuple(dict.fromkeys(chosen))[:_GRIPS_PER_BULLET]
    return TocBullet(draft.text, unique, draft.kind, segment.project, segment.agent)
