"""Turn matches of an index into hits: the words they stand for, and what ranking needs.

Matches that the store does not hold, or that the caller may not see, are left out. Kind, salience, pins and successors cost no
query of their own: the store keeps pins and successors in memory, nodes are given, and a kind is read from the words unless the
author gave it.

Change here: what a hit tells the ranking.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence, Set
from dataclasses import replace
from functools import lru_cache

from memory_mcp.base.text import densest, probe, term_set
from memory_mcp.capture.evidence import make_quotation, quote_grips
from memory_mcp.indexes.base import DocType, Filters, Match, PendingMatch
from memory_mcp.indexes.index_reader import IndexReader
from memory_mcp.indexes.keys import session_name
from memory_mcp.model.calendar import TocLevel
from memory_mcp.model.event import Event
from memory_mcp.model.exchange import QUESTION_MARKS, TurnKind, asks_memory, classify_turns, is_prompt
from memory_mcp.model.frozen import copy_with
from memory_mcp.model.grip import RETRACTED, Quotation, Supersession
from memory_mcp.model.ids import EventId, GripId, NodeId, parse_span_grip, span_grip_id
from memory_mcp.model.toc import MemoryKind, TocBullet, TocNode
from memory_mcp.search.layers.base import Aside, Hit, pending_hit
from memory_mcp.storage.base import Storage
from memory_mcp.tree.summarize.sentences import clean_text
from memory_mcp.tree.summarize.text_kind import read_kind
from memory_mcp.tree.toc.tree import Tree, share_of


def add_standing(hits: Sequence[Hit], nodes: Mapping[NodeId, TocNode], storage: Storage) -> list[Hit]:
    """Return `hits` with kind, salience, pin and successor.

    Salience is 0 unless the hit's node is in `nodes`.
    """
    pins = storage.toc.list_pins()
    over = {} if storage.superseded.is_empty() else _find_supersessions(hits, storage)
    return [_add_standing(hit, nodes.get(hit.node_id), pins, over) for hit in hits]


def _find_supersessions(hits: Sequence[Hit], storage: Storage) -> dict[GripId, Supersession]:
    """Return the supersessions of the quoted words by grip.

    Words cited by a span count as superseded where a superseded stored grip of that event overlaps them.
    """
    over = storage.superseded.get_successors({i for h in hits for i in _grips_of(h)})
    shown_grips = {grips[0] for h in hits if (grips := _grips_of(h)) and grips[0] not in over}
    spans = {grip: span for grip in shown_grips if (span := parse_span_grip(grip))}
    stored = storage.grips.grips_by_event({event for event, *_ in spans.values()}) if spans else {}
    ended = storage.superseded.get_successors({g.grip_id for grips in stored.values() for g in grips})
    for grip, (event, start, end) in spans.items():
        for other in stored.get(event, ()):
            if other.grip_id in ended and other.span_start < end and start < other.span_end:
                over[grip] = replace(ended[other.grip_id], old=grip)
    return over


def _add_standing(hit: Hit, node: TocNode | None, pins: frozenset[str], over: Mapping[GripId, Supersession]) -> Hit:
    """Return a hit with its standing; `over` maps superseded grips.

    A supersession counts only if it concerns the quoted words. The kind is read from the quotation, but "" without reading where
    the node is an observation and the hit has no kind.
    """
    grips = _grips_of(hit)
    ended = over.get(grips[0]) if grips else None
    if ended is not None and not (ended.applies_to(hit.quote) or ended.applies_to(clean_text(hit.quote))):
        ended = None
    # Reading kinds costs 0.1 ms a hit (measured); a node that is an observation holds no bullet of another kind.
    plain = node is not None and node.kind is MemoryKind.OBSERVATION and not hit.kind
    pinned = hit.node_id in pins or not pins.isdisjoint(grips) or hit.event_id in _events_in(pins)
    return copy_with(
        hit,
        kind="" if plain else read_kind(hit.quote, hit.kind),
        salience=node.salience if node else 0.0,
        pinned=pinned,
        superseded_by=(ended.new or RETRACTED) if ended else "",
        why_superseded=ended.reason if ended else "",
    )


@lru_cache(maxsize=2)
def _events_in(pins: frozenset[str]) -> frozenset[str]:
    """Return the events that pins name: a note can be pinned before its grips."""
    return frozenset(spanned[0] for spanned in map(parse_span_grip, pins) if spanned)


def _grips_of(hit: Hit) -> tuple[GripId, ...]:
    return (GripId(hit.grip_id), *hit.grip_ids) if hit.grip_id else hit.grip_ids


#: Length in characters of a quotation from an event that no grip covers yet.
_SPAN = 400
#: Hits, best first, that get asides.
_WITH_ASIDES = 10


def _count_probes(probes: Sequence[str], text: str) -> int:
    lower = text.lower()
    return sum(probe_text in lower for probe_text in probes)


class HitReader:
    """Reads the nodes and quotations of matches."""

    def __init__(self, storage: Storage, tree: Tree, reader: IndexReader) -> None:
        self._storage = storage
        self._tree = tree
        self._reader = reader

    def read_hits(self, matches: Sequence[Match], filters: Filters, query_terms: frozenset[str]) -> list[Hit]:
        """Return a hit for each match that the caller may see.

        A node shows its best grip, else the bullet with most of the terms, a statement's if it has any. Quotations of other
        projects than the filter's are left out.
        """
        nodes = self._read_nodes(matches, filters.project)
        cited = {g for node in nodes.values() for b in node.bullets for g in b.grip_ids[:1]}
        own_grips = {g for m in matches if m.doc_type is DocType.NODE and (g := m.grip_id or m.best_grip)}
        requests = self._reader.find_requests(cited | own_grips)
        bullets = self._choose_bullets(nodes, cited, requests, filters.excluded_sessions, query_terms)
        grips: list[GripId | None] = []
        for match in matches:
            bullet = bullets.get(match.node_id)
            first = bullet.grip_ids[0] if bullet and bullet.grip_ids else None
            grips.append(match.grip_id or match.best_grip or first)
        quotations = self.read_quotations([g for g in grips if g])
        asking = requests.intersection(g for m, g in zip(matches, grips, strict=True) if g and m.doc_type is DocType.NODE)
        hits: list[Hit] = []
        for match, grip in zip(matches, grips, strict=True):
            quotation = quotations.get(grip) if grip else None
            judged = match if match.asks or grip not in asking else replace(match, asks=True)
            hit = self._make_hit(judged, grip, nodes.get(match.node_id), quotation, bullets.get(match.node_id))
            # The index filters by project already, but is not trusted to.
            if hit and (filters.project is None or not hit.event_id or hit.project == filters.project):
                hits.append(hit)
        return add_standing(self._with_asides(hits, query_terms), nodes, self._storage)

    def _with_asides(self, hits: Sequence[Hit], query_terms: frozenset[str]) -> list[Hit]:
        first = hits[:_WITH_ASIDES]
        quoted = [GripId(h.grip_id) for h in first if h.grip_id and (not h.speaker or h.quote.rstrip().endswith(QUESTION_MARKS))]
        companions = self._reader.find_companions(quoted)
        quotations = self.read_quotations({grip for grips in companions.values() for grip in grips})
        # Splitting texts into terms would cost a third of a question's time.
        probes = [probe(term) for term in query_terms]
        hits_with_asides = []
        for hit in hits:
            pieces = [(i, quotations[i]) for i in companions.get(GripId(hit.grip_id), ()) if i in quotations]
            if pieces and all(bool(quotation.speaker) == bool(hit.speaker) for _, quotation in pieces):
                grip, quotation = max(pieces, key=lambda piece: _count_probes(probes, piece[1].quote))
                aside = Aside(quotation.quote, grip, quotation.role, quotation.speaker, quotation.event_id)
                hits_with_asides.append(copy_with(hit, asides=(aside,)))
            else:
                hits_with_asides.append(hit)
        return hits_with_asides

    def _choose_bullets(
        self,
        nodes: Mapping[NodeId, TocNode],
        cited: Set[GripId],
        requests: Set[GripId],
        excluded: frozenset[tuple[int, int]],
        query_terms: frozenset[str],
    ) -> dict[NodeId, TocBullet]:
        """Return a bullet of each node; `cited` are their first grips, `requests` those that only ask."""
        left_out = dict(excluded)
        quotations = self.read_quotations(cited) if left_out else {}
        silent = {g for g, s in quotations.items() if s.timestamp >= left_out.get(session_name(s.session_id), s.timestamp + 1)}
        bullets: dict[NodeId, TocBullet] = {}
        for node_id, node in nodes.items():
            heard = [b for b in node.bullets if silent.isdisjoint(b.grip_ids[:1])]
            statements = [b for b in heard if requests.isdisjoint(b.grip_ids[:1])] or heard
            if statements:
                bullets[node_id] = max(statements, key=lambda b: len(query_terms & term_set(b.text)))
        return bullets

    def _read_nodes(self, matches: Sequence[Match], project: str | None) -> dict[NodeId, TocNode]:
        ids = {m.node_id for m in matches}
        with_bullets = {m.node_id for m in matches if m.grip_id is None and m.best_grip is None}
        full_nodes = self._tree.nodes(list(with_bullets))
        if project is not None:
            full_nodes = {i: n if n.level is TocLevel.SEGMENT else share_of(n, project) for i, n in full_nodes.items()}
        return self._storage.toc.get_heads(ids - with_bullets) | full_nodes

    def read_quotations(self, ids: Collection[GripId]) -> dict[GripId, Quotation]:
        """Return the quotations of grips; unresolved ones are left out."""
        grips = self._storage.grips.get_grips(ids)
        events = self._storage.events.get_events({i for g in grips.values() for i in (g.event_id_start, g.event_id_end)})
        quotes = quote_grips(grips.values(), events)
        return {i: make_quotation(grips[i], events[grips[i].event_id_start], quote) for i, quote in quotes.items()}

    def _make_hit(
        self,
        match: Match,
        grip: GripId | None,
        node: TocNode | None,
        quotation: Quotation | None,
        bullet: TocBullet | None,
    ) -> Hit | None:
        if node is None or (match.doc_type is DocType.GRIP and quotation is None):
            return None
        is_node = match.doc_type is DocType.NODE
        ids = tuple(dict.fromkeys(i for i in (grip, *match.other_grips, *(bullet.grip_ids if bullet and is_node else ())) if i))
        kind = quotation.kind if quotation else ""
        if bullet and (not grip or grip in bullet.grip_ids):
            kind = bullet.kind.value
        return Hit(
            node_id=node.node_id,
            title=node.title,
            quote=quotation.quote if quotation else (bullet.text if bullet else ""),
            grip_ids=ids[:3],
            timestamp=quotation.timestamp if quotation else node.start_ms,
            session_id=quotation.session_id if quotation else "",
            project=quotation.project if quotation else (node.projects[0] if len(node.projects) == 1 else ""),
            agent=quotation.agent if quotation else "",
            role=quotation.role if quotation else "",
            speaker=quotation.speaker if quotation else "",
            score=match.score,
            parts=match.parts,
            event_id=quotation.event_id if quotation else "",
            level=node.level,
            grip_id=grip if grip and quotation and not is_node else "",
            raw=match.raw,
            similarity=match.similarity,
            keywords=node.keywords,
            kind=kind,
            asks=match.asks,
        )

    def pending_hits(self, pending_matches: Iterable[PendingMatch], query_terms: frozenset[str]) -> list[Hit]:
        """Return a hit for each event not indexed yet."""
        hits = []
        for pending in pending_matches:
            event = pending.event
            start = 0
            if len(event.text) > _SPAN:
                best = densest(event.text, _SPAN, lambda part: len(query_terms & term_set(part)))
                start = event.text.rfind(" ", max(0, best - 40), best + 1) + 1 or best
            end = min(len(event.text), start + _SPAN)
            grip = span_grip_id(event.event_id, start, end)
            hit = pending_hit(event, grip, event.text[start:end], pending.score)
            hits.append(replace(hit, grip_id=grip, raw=pending.raw))
        return add_standing(hits, {}, self._storage)


#: Events read before and after a prompt: its exchange, or enough of it.
_BEFORE, AFTER = 6, 24


def turns_of(storage: Storage, events: Iterable[Event], reader: IndexReader | None = None) -> dict[EventId, TurnKind]:
    """Return the turns of prompts and tool events; plain ones are left out.

    The index tells those of prompts that it has; each other prompt, and each that had no reply, costs a read of its neighbours.
    """
    turns: dict[EventId, TurnKind] = {}
    prompts: list[Event] = []
    for event in events:
        if asks_memory(event):
            turns[event.event_id] = TurnKind.TO_MEMORY
        elif is_prompt(event) and not event.speaker:
            prompts.append(event)
    indexed_turns = reader.find_turns(prompt.event_id for prompt in prompts) if reader is not None else {}
    for prompt in prompts:
        turn = indexed_turns.get(prompt.event_id, TurnKind.UNANSWERED)
        if turn & (TurnKind.UNANSWERED | TurnKind.DOUBTFUL):
            earlier, after = storage.events.get_neighbours(prompt, _BEFORE, AFTER)
            stretch = classify_turns([*earlier, prompt, *after], len(earlier) < _BEFORE)
            turn = stretch.get(prompt.event_id, TurnKind.PLAIN)
        turns[prompt.event_id] = turn
    return turns
