"""Segments for display: titles, statements with speaker and citation, requests and work done."""

from collections.abc import Mapping, Sequence

from memory_mcp.model.calendar import EVERY_DAY
from memory_mcp.model.event import Event, Role, Trust, is_recap
from memory_mcp.model.grip import CONTRADICTION_AUTHOR, Grip, Supersession
from memory_mcp.model.ids import EventId, GripId, span_grip_id
from memory_mcp.model.segment import Segment
from memory_mcp.model.toc import EXTRACTIVE, TocBullet, TocNode
from memory_mcp.storage.base import Storage
from memory_mcp.tree.derive.grips import covering_grips
from memory_mcp.tree.toc.doings import NOTHING, QuotedSpan, WorkDone
from memory_mcp.tree.toc.open_ends import OpenEnd
from memory_mcp.tree.toc.statements import QuotedStatement, StretchView, without_settled
from memory_mcp.tree.toc.work_reader import WorkReader


def load_stretches(
    storage: Storage, cuts: Sequence[Segment], most: int, in_full: int = 0, reader: WorkReader | None = None
) -> list[StretchView]:
    """Return at most `most` segments with statements.

    They are in the order of `cuts`; those of subagents are left out. The first `most` with bullets are looked at: fewer are
    returned if all statements of some were revoked. The events of the first `in_full` are read, so that these also tell
    what was asked and done, and with them the ends of their sessions as far as `cuts` hold them; a `reader` may know that.
    """
    main_cuts = [cut for cut in cuts if not cut.thread]
    nodes = storage.toc.get_nodes([cut.node_id for cut in main_cuts])
    cuts_with_nodes = [(cut, nodes[cut.node_id]) for cut in main_cuts if cut.node_id in nodes and nodes[cut.node_id].bullets]
    cited = storage.grips.get_grips({grip for _, node in cuts_with_nodes[:most] for b in node.bullets for grip in b.grip_ids})
    quoted_events = storage.events.get_events({e for g in cited.values() for e in (g.event_id_start, g.event_id_end)})
    speakers = _speakers_of(cited, quoted_events)
    superseded = storage.superseded.get_successors(set(speakers))
    with_statements = [
        (cut, node, statements)
        for cut, node in cuts_with_nodes[:most]
        if (statements := _node_statements(node, speakers, superseded))
    ]
    in_full_cuts = [cut for cut, *_ in with_statements[:in_full]]
    builds = {node_id: node.built for node_id, node in nodes.items()}
    doings, stream_ends = (reader or WorkReader(storage)).read(in_full_cuts, main_cuts, builds)
    newest = {cut.stream: cut.key for cut, *_ in sorted(with_statements, key=lambda entry: entry[0].start)}
    ends_of_cut = {newest[stream]: ends_of_stream for stream, ends_of_stream in stream_ends.items()}
    quotations = [words for entry in doings.values() for words in (entry.first_request, entry.closing_words)]
    quotations += [end.words for ends_of_stream in ends_of_cut.values() for end in ends_of_stream]
    grips = storage.grips.grips_by_event({words.event.event_id for words in quotations if words is not None})
    built = [
        _make_stretch(cut, node, statements, doings.get(cut.key, NOTHING), ends_of_cut.get(cut.key, ()), grips)
        for cut, node, statements in with_statements
    ]
    by_project: dict[str, list[StretchView]] = {}
    for (cut, *_), stretch in zip(with_statements, built, strict=True):
        by_project.setdefault(cut.project, []).append(stretch)
    return [without_settled(stretch, by_project[cut.project]) for (cut, *_), stretch in zip(with_statements, built, strict=True)]


def _speakers_of(grips: Mapping[GripId, Grip], events: Mapping[EventId, Event]) -> dict[GripId, str]:
    """Grips that quote tool output or a missing event have no speaker."""
    speaker_of_event = {event_id: speaker for event_id, event in events.items() if (speaker := speaker_of(event)) is not None}
    return {
        grip_id: speaker_of_event[grip.event_id_start]
        for grip_id, grip in grips.items()
        if {grip.event_id_start, grip.event_id_end} <= speaker_of_event.keys()
    }


def latest_cuts(storage: Storage, project: str, most: int) -> list[Segment]:
    """Return at most `most` of a project's newest cuts."""
    days, latest, step = storage.toc.list_days(project, *EVERY_DAY)[::-1], list[Segment](), 1
    while days and len(latest) < most:
        # Few days hold enough of a busy project; of a quiet one most are read, and not one by one.
        block, days = days[:step], days[step:]
        latest += storage.toc.list_day_segments(block[-1], f"{block[0]}~", project)
        step *= 4
    return sorted(latest, key=lambda cut: cut.start, reverse=True)[:most]


def speaker_of(event: Event) -> str | None:
    """Return an event's speaker, the agent for a recap; None for tool output."""
    if event.trust is Trust.AGENT_NOTE and event.role is not Role.USER:
        return "note"
    return "agent" if is_recap(event) else {Role.USER: "user", Role.ASSISTANT: "agent"}.get(event.role)


def _node_statements(
    node: TocNode, speakers: Mapping[GripId, str], superseded: Mapping[GripId, Supersession]
) -> tuple[QuotedStatement, ...]:
    refined = node.author != EXTRACTIVE
    return tuple(
        QuotedStatement(
            b.text, "agent" if refined else speakers[b.grip_ids[0]], b.grip_ids[0], b.kind, _find_contradiction(b, superseded)
        )
        for b in node.bullets
        if b.grip_ids and (refined or all(grip in speakers for grip in b.grip_ids))
        if not all(grip in superseded and superseded[grip].author != CONTRADICTION_AUTHOR for grip in b.grip_ids)
    )


def _find_contradiction(bullet: TocBullet, superseded: Mapping[GripId, Supersession]) -> str:
    supersession = superseded.get(bullet.grip_ids[0])
    return supersession.new or "" if supersession is not None and supersession.words == bullet.text else ""


def _make_stretch(
    cut: Segment,
    node: TocNode,
    statements: tuple[QuotedStatement, ...],
    doings: WorkDone,
    ends: Sequence[OpenEnd],
    grips: Mapping[EventId, Sequence[Grip]],
) -> StretchView:
    def cite_words(words: QuotedSpan) -> QuotedStatement:
        stored = covering_grips(grips.get(words.event.event_id, ()), words.event, words.start, words.end)
        grip = stored[0].grip_id if stored else span_grip_id(words.event.event_id, words.start, words.end)
        return QuotedStatement(words.text, words.speaker, grip)

    return StretchView(
        *(node.start_ms, node.title, statements, cut.session_id, node.author != EXTRACTIVE),
        first_request=None if doings.first_request is None else cite_words(doings.first_request),
        closing_words=None if doings.closing_words is None else cite_words(doings.closing_words),
        open_ends=tuple((cite_words(end.words), end.cause.value) for end in ends),
        work=doings,
        node_id=node.node_id,
        agent=cut.agent,
        end_ms=node.end_ms,
    )
