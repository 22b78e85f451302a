"""A node with its events and grips in, the documents to index out. Pure, so that child processes can do it.

A *unit* is what is replaced as a whole: a segment with its grips, or a period. All documents of a unit lie together in
one part, so that what neighbours a grip never depends on when it was indexed.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from memory_mcp.events.evidence import said_of
from memory_mcp.indexes.base import DocType, Visible
from memory_mcp.indexes.keys import grip_doc, message_name, node_doc, session_name
from memory_mcp.model.calendar import TocLevel
from memory_mcp.model.event import Event
from memory_mcp.model.grip import Grip, Said, quote_of
from memory_mcp.model.ids import EventId, node_key
from memory_mcp.model.segment import Segment
from memory_mcp.model.toc import TocNode
from memory_mcp.toc.build import pieces

#: What is indexed of a node or grip; part of every index's fingerprint.
DOCUMENT_VERSION = 3
#: A sentence with what ends it. Every text is one after the other of these, so that it is read once.
_SENTENCE = re.compile(r"[^.!?。！？\n]*(?:[.!?。！？\n]|\Z)")


@dataclass(frozen=True, slots=True)
class Source:
    """A unit as the store has it; a period has neither segment nor events nor grips."""

    node: TocNode
    segment: Segment | None = None
    events: tuple[Event, ...] = ()
    grips: tuple[Grip, ...] = ()


@dataclass(frozen=True, slots=True)
class IndexDocument:
    """One document: what it is found by, and what filters ask about it."""

    #: See `keys`.
    key: tuple[int, int]
    doc_type: DocType
    level: TocLevel
    start_ms: int
    end_ms: int
    project: str
    visible: Visible
    agents: tuple[str, ...]
    speakers: tuple[str, ...]
    kind: str
    #: Texts whose words find it.
    words: tuple[str, ...]
    #: What it is about, for its meaning.
    gist: str
    #: Of a grip: the low 64 bits of its event's key; 0: a message of its own.
    message: int = 0
    #: Of a grip: who said it (user, assistant, system, tool); "" for a node.
    role: str = ""
    #: Of a grip: the share of it that only asks, 0..255.
    asks: int = 0
    #: What a hit shows of it; None where another document of its unit has it.
    copy: TocNode | Said | None = None


@dataclass(frozen=True, slots=True)
class Unit:
    """A unit's documents; grips in order of time."""

    key: int
    level: TocLevel
    end_ms: int
    nodes: tuple[IndexDocument, ...]
    grips: tuple[IndexDocument, ...]
    #: Of a segment: names its session; 0 for a period.
    session: int = 0

    @property
    def size(self) -> int:
        """Documents in it."""
        return len(self.nodes) + len(self.grips)


def unit_of(source: Source, with_words: bool = True) -> Unit:
    """Return the documents of one unit; without `with_words` those of its segment have no event texts, which are slow to cut."""
    node = source.node
    if source.segment is None:
        return Unit(node_key(node.node_id), node.level, node.end_ms, tuple(_period(node)), ())
    texts = {e.event_id: e for e in source.events}
    grips = sorted(source.grips, key=lambda g: (g.timestamp, texts[g.event_id_start].order, g.span_start, g.grip_id))
    kinds = _kinds(node)
    documents = tuple(_grip(g, texts, source.segment, kinds.get(g.grip_id, "")) for g in grips)
    session = session_name(source.segment.session_id)
    return Unit(source.segment.key, node.level, node.end_ms, (_segment(node, source, grips, with_words),), documents, session)


def _kinds(node: TocNode) -> dict[str, str]:
    """What sort of statement each grip proves, where a bullet says so."""
    return {g: b.kind.value for b in reversed(node.bullets) for g in b.grip_ids}


def subject(node: TocNode) -> str:
    """The title without the date before it: times are filtered by, not looked for among words."""
    return node.title.split(" · ", 1)[-1]


def _said(node: TocNode) -> tuple[str, ...]:
    return tuple(t for t in (subject(node), *(b.text for b in node.bullets), " ".join(node.keywords)) if t)


def gist_of(node: TocNode) -> str:
    """What a node is about, for its meaning."""
    return " \n".join(_said(node))


def _words(said: Sequence[str], node: TocNode) -> tuple[str, ...]:
    """Keywords count twice; the summary repeats the bullets and is left out (both measured: see bench.judged)."""
    return (*said, " ".join(node.keywords)) if node.keywords else tuple(said)


def _segment(node: TocNode, source: Source, grips: Sequence[Grip], with_words: bool) -> IndexDocument:
    assert source.segment is not None
    spans: dict[EventId, list[tuple[int, int]]] = {}
    for grip in grips:
        if grip.event_id_start == grip.event_id_end:
            spans.setdefault(grip.event_id_start, []).append((grip.span_start, grip.span_end))
    said = _said(node)
    speakers = tuple(sorted({e.speaker for e in source.events if e.speaker}))
    texts = (text for e in source.events for text in _cut(e, spans.get(e.event_id, ()))) if with_words else ()
    return IndexDocument(
        key=node_doc(node.node_id),
        doc_type=DocType.NODE,
        level=node.level,
        start_ms=node.start_ms,
        end_ms=node.end_ms,
        project=source.segment.project,
        visible=Visible.ALWAYS,
        agents=node.agents,
        speakers=speakers,
        kind=node.kind.value,
        words=(*_words(said, node), *texts),
        gist=gist_of(node),
        copy=node,
    )


def _cut(event: Event, spans: Sequence[tuple[int, int]]) -> Iterator[str]:
    """An event's texts, its own cut where its grips begin and end: what is quoted is then taken apart once for both.

    Grips are cut between words, so that no word is lost by it.
    """
    for piece in pieces(event):
        if piece is not event.text:
            yield piece
            continue
        at = 0
        for start, end in spans:
            if start >= at:
                yield from (t for t in (piece[at:start], piece[start:end]) if t and not t.isspace())
                at = end
        if rest := piece[at:]:
            yield rest


def _period(node: TocNode) -> Iterable[IndexDocument]:
    """The whole for whoever searches everything, and for each project what it alone contributed."""
    said = _said(node)
    yield _of_period(node, "", Visible.UNSCOPED, said, _words(said, node))
    for project in sorted({b.project for b in node.bullets}):
        own = tuple(b.text for b in node.bullets if b.project == project)
        yield _of_period(node, project, Visible.SCOPED, own, own)


def _of_period(node: TocNode, project: str, visible: Visible, said: Sequence[str], words: tuple[str, ...]) -> IndexDocument:
    scoped = visible is Visible.SCOPED
    own = [b for b in node.bullets if b.project == project] if scoped else []
    return IndexDocument(
        key=node_doc(node.node_id, project if scoped else None),
        doc_type=DocType.NODE,
        level=node.level,
        start_ms=node.start_ms,
        end_ms=node.end_ms,
        project=project,
        visible=visible,
        agents=tuple(sorted({b.agent for b in own if b.agent})) if scoped else node.agents,
        speakers=(),
        kind=node.kind.value,
        words=words,
        gist=" \n".join(said),
        copy=None if scoped else node,
    )


def _grip(grip: Grip, events: dict[EventId, Event], segment: Segment, kind: str) -> IndexDocument:
    first = events[grip.event_id_start]
    last = events.get(grip.event_id_end) if grip.event_id_end != grip.event_id_start else None
    quote = quote_of(first.text, last.text if last else None, grip.span_start, grip.span_end)
    return IndexDocument(
        key=grip_doc(grip.grip_id),
        doc_type=DocType.GRIP,
        level=TocLevel.SEGMENT,
        start_ms=grip.timestamp,
        end_ms=grip.timestamp,
        project=segment.project,
        visible=Visible.ALWAYS,
        agents=(first.agent,) if first.agent else (),
        speakers=(first.speaker,) if first.speaker else (),
        kind=kind,
        words=(first.speaker, quote) if first.speaker else (quote,),
        gist=f"{first.speaker}: {quote}" if first.speaker else quote,
        message=message_name(first.event_id),
        role=first.role.value,
        asks=_asks(quote),
        copy=said_of(grip, first, quote),
    )


def _asks(quote: str) -> int:
    """Return the share of a text's characters that are in questions, 0..255."""
    asking = sum(len(found) for found in _SENTENCE.findall(quote) if found.endswith(("?", "？")))
    return round(255 * asking / len(quote)) if quote else 0
