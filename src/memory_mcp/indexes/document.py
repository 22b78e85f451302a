"""Make index documents from a node with its events and grips. Pure, for child processes.

A *unit* is replaced as a whole: a segment with its grips, or a period. All documents of a unit are in one
shard, so that a grip's neighbours do not depend on when it was indexed.

Change here: what gets indexed of a node or grip.
"""

from collections.abc import Iterator, Mapping, Sequence

from memory_mcp.base.dataclass import dataclass
from memory_mcp.indexes.base import DocType, Visibility
from memory_mcp.indexes.keys import grip_doc, message_name, node_doc, session_name
from memory_mcp.model.calendar import TocLevel
from memory_mcp.model.event import Event
from memory_mcp.model.exchange import TurnKind, classify_turns, only_requests, question_share
from memory_mcp.model.grip import Grip, join_quote
from memory_mcp.model.ids import EventId, node_key
from memory_mcp.model.segment import Segment
from memory_mcp.model.toc import TocNode
from memory_mcp.tree.derive.build import searchable_pieces

#: Version of what is indexed of a node or grip; part of every index's fingerprint.
DOCUMENT_VERSION = 6


@dataclass(frozen=True, slots=True)
class Source:
    """A unit as read from the store; a period has only a node."""

    node: TocNode
    segment: Segment | None = None
    events: tuple[Event, ...] = ()
    grips: tuple[Grip, ...] = ()
    #: What follows in the stream of a segment that ends before the reply to its last prompt.
    following_events: tuple[Event, ...] = ()


@dataclass(frozen=True, slots=True)
class IndexDocument:
    """One document: its texts and the values that filters read."""

    #: See `keys`.
    key: tuple[int, int]
    doc_type: DocType
    level: TocLevel
    start_ms: int
    end_ms: int
    project: str
    visible: Visibility
    agents: tuple[str, ...]
    speakers: tuple[str, ...]
    kind: str
    #: Texts for the keyword index.
    words: tuple[str, ...]
    #: Text for the vector index.
    gist: str
    #: For a grip: the low 64 bits of its event's key; 0: a message of its own.
    message: int = 0
    #: For a grip: role of the speaker (user, assistant, system, tool); "" for a node.
    role: str = ""
    #: For a grip: share of its characters in questions, 0..255.
    question_share: int = 0
    #: For a grip: the turn of its message; for a segment or period of nothing but requests: UNANSWERED.
    turn: TurnKind = TurnKind.PLAIN


@dataclass(frozen=True, slots=True)
class Unit:
    """A unit's documents; grips by time."""

    key: int
    level: TocLevel
    end_ms: int
    nodes: tuple[IndexDocument, ...]
    grips: tuple[IndexDocument, ...]
    #: Name of a segment's session; 0 for a period.
    session: int = 0

    @property
    def size(self) -> int:
        """Number of documents."""
        return len(self.nodes) + len(self.grips)


def unit_of(source: Source, with_words: bool = True) -> Unit:
    """Return the documents of one unit.

    A period has nodes alone: the whole, then one for each project (sorted) of its bullets. The grips of a segment
    are by time; questions to the memory have none, and their words are no part of the segment's. Without
    `with_words` the segment's document lacks the texts of its events, which are slow to split. Raises KeyError when
    an event that begins a grip is missing.
    """
    node = source.node
    if source.segment is None:
        node_texts = _node_texts(node)
        nodes = [_period_document(node, "", Visibility.UNSCOPED, node_texts, _keyword_texts(node_texts, node))]
        for project in sorted({b.project for b in node.bullets}):
            project_texts = tuple(b.text for b in node.bullets if b.project == project)
            nodes.append(_period_document(node, project, Visibility.SCOPED, project_texts, project_texts))
        return Unit(node_key(node.node_id), node.level, node.end_ms, tuple(nodes), ())
    texts = {e.event_id: e for e in source.events}
    turns = classify_turns((*source.events, *source.following_events), source.segment.is_begin)
    quotable = (g for g in source.grips if not turns.get(g.event_id_start, TurnKind.PLAIN) & TurnKind.TO_MEMORY)
    grips = sorted(quotable, key=lambda g: (g.timestamp, texts[g.event_id_start].order, g.span_start, g.grip_id))
    kinds = {g: b.kind.value for b in reversed(node.bullets) for g in b.grip_ids}
    documents = tuple(_grip_document(g, texts, source.segment, kinds.get(g.grip_id, ""), turns) for g in grips)
    session = session_name(source.segment.session_id)
    return Unit(
        source.segment.key,
        node.level,
        node.end_ms,
        (_segment_document(node, source, grips, turns, with_words),),
        documents,
        session,
    )


def subject_of(node: TocNode) -> str:
    """Return a node's title without its date."""
    return node.title.split(" · ", 1)[-1]


def _node_texts(node: TocNode) -> tuple[str, ...]:
    return tuple(t for t in (subject_of(node), *(b.text for b in node.bullets), " ".join(node.keywords)) if t)


def gist_of(node: TocNode) -> str:
    """Return the text of a node for the vector index."""
    return " \n".join(_node_texts(node))


def _keyword_texts(texts: Sequence[str], node: TocNode) -> tuple[str, ...]:
    """Leave out the summary, which repeats the bullets (measured: bench.judged)."""
    return (*texts, " ".join(node.keywords)) if node.keywords else tuple(texts)


def _segment_document(
    node: TocNode, source: Source, grips: Sequence[Grip], turns: Mapping[EventId, TurnKind], with_words: bool
) -> IndexDocument:
    assert source.segment is not None
    spans: dict[EventId, list[tuple[int, int]]] = {}
    for grip in grips:
        if grip.event_id_start == grip.event_id_end:
            spans.setdefault(grip.event_id_start, []).append((grip.span_start, grip.span_end))
    heard = [e for e in source.events if not turns.get(e.event_id, TurnKind.PLAIN) & TurnKind.TO_MEMORY]
    requests = only_requests(source.events, source.segment.is_begin, source.following_events)
    node_texts = () if requests else _node_texts(node)
    speakers = tuple(sorted({e.speaker for e in source.events if e.speaker}))
    texts = (text for e in heard for text in _cut_texts(e, spans.get(e.event_id, ()))) if with_words else ()
    return IndexDocument(
        key=node_doc(node.node_id),
        doc_type=DocType.NODE,
        level=node.level,
        start_ms=node.start_ms,
        end_ms=node.end_ms,
        project=source.segment.project,
        visible=Visibility.ALWAYS,
        agents=node.agents,
        speakers=speakers,
        kind=node.kind.value,
        words=(*(_keyword_texts(node_texts, node) if node_texts else ()), *texts),
        gist=" \n".join(node_texts),
        turn=TurnKind.UNANSWERED if requests else TurnKind.PLAIN,
    )


def _cut_texts(event: Event, spans: Sequence[tuple[int, int]]) -> Iterator[str]:
    """Yield an event's texts, cut at the ends of its grips.

    Quoted words are then split into terms once for both. Pieces of white space and spans that overlap an earlier
    one are skipped. Grips are cut between words, so that no word is lost.
    """
    for piece in searchable_pieces(event):
        if piece is not event.text:
            yield piece
            continue
        at = 0
        for start, end in spans:
            if start >= at:
                yield from (t for t in (piece[at:start], piece[start:end]) if t and not t.isspace())
                at = end
        if tail := piece[at:]:
            yield tail


def _period_document(
    node: TocNode, project: str, visible: Visibility, texts: Sequence[str], words: tuple[str, ...]
) -> IndexDocument:
    scoped = visible is Visibility.SCOPED
    project_bullets = [b for b in node.bullets if b.project == project] if scoped else []
    return IndexDocument(
        key=node_doc(node.node_id, project if scoped else None),
        doc_type=DocType.NODE,
        level=node.level,
        start_ms=node.start_ms,
        end_ms=node.end_ms,
        project=project,
        visible=visible,
        agents=tuple(sorted({b.agent for b in project_bullets if b.agent})) if scoped else node.agents,
        speakers=(),
        kind=node.kind.value,
        words=words,
        gist=" \n".join(texts),
        turn=TurnKind.UNANSWERED if node.holds_requests else TurnKind.PLAIN,
    )


def _grip_document(
    grip: Grip, events: Mapping[EventId, Event], segment: Segment, kind: str, turns: Mapping[EventId, TurnKind]
) -> IndexDocument:
    """Raises KeyError without its first event."""
    first = events[grip.event_id_start]
    last = events.get(grip.event_id_end) if grip.event_id_end != grip.event_id_start else None
    quote = join_quote(first.text, last.text if last else None, grip.span_start, grip.span_end)
    return IndexDocument(
        key=grip_doc(grip.grip_id),
        doc_type=DocType.GRIP,
        level=TocLevel.SEGMENT,
        start_ms=grip.timestamp,
        end_ms=grip.timestamp,
        project=segment.project,
        visible=Visibility.ALWAYS,
        agents=(first.agent,) if first.agent else (),
        speakers=(first.speaker,) if first.speaker else (),
        kind=kind,
        words=(first.speaker, quote) if first.speaker else (quote,),
        gist=f"{first.speaker}: {quote}" if first.speaker else quote,
        message=message_name(first.event_id),
        role=first.role.value,
        question_share=round(255 * question_share(quote)),
        turn=turns.get(first.event_id, TurnKind.PLAIN),
    )
