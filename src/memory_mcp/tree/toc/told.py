"""Segments for display: titles, statements with speaker and citation, requests and work done."""

from collections.abc import Mapping, Sequence

from memory_mcp.model.calendar import EVERY_DAY
from memory_mcp.model.event import Event, Role, Trust, is_recap
from memory_mcp.model.exchange import TurnKind, classify_turns, is_prompt
from memory_mcp.model.grip import CONTRADICTION_AUTHOR, Grip, Supersession
from memory_mcp.model.ids import EventId, GripId, span_grip_id
from memory_mcp.model.segment import Segment
from memory_mcp.model.toc import EXTRACTIVE, TocBullet, TocNode
from memory_mcp.storage.base import Storage
from memory_mcp.tree.derive.grips import covering
from memory_mcp.tree.toc.doings import NOTHING, Doings, Words, doings_of
from memory_mcp.tree.toc.open_ends import OpenEnd, open_ends
from memory_mcp.tree.toc.statements import Said, Stretch, without_settled

#: Last segments of a session that are read for what it leaves open.
TAIL = 4


def stretches(storage: Storage, cuts: Sequence[Segment], most: int, in_full: int = 0) -> list[Stretch]:
    """Return at most `most` segments that hold statements, in the order of `cuts`; those of subagents are left out.

    The first `most` with bullets are looked at: fewer are returned if all statements of some were revoked.
    The events of the first `in_full` are read, so that these also tell what was asked and done, and with them the ends of
    their sessions as far as `cuts` hold them.
    """
    own = [cut for cut in cuts if not cut.thread]
    nodes = storage.toc.get_nodes([cut.node_id for cut in own])
    told = [(cut, nodes[cut.node_id]) for cut in own if cut.node_id in nodes and nodes[cut.node_id].bullets]
    cited = storage.grips.get_grips({grip for _, node in told[:most] for b in node.bullets for grip in b.grip_ids})
    ends = storage.events.get_events({e for g in cited.values() for e in (g.event_id_start, g.event_id_end)})
    # The speaker of each grip, of its first event; those that quote tool output or a missing event have none.
    said_by = {event_id: speaker for event_id, event in ends.items() if (speaker := speaker_of(event)) is not None}
    speakers = {i: said_by[g.event_id_start] for i, g in cited.items() if {g.event_id_start, g.event_id_end} <= said_by.keys()}
    over = storage.superseded.get_successors(set(speakers))
    said = [(cut, node, found) for cut, node in told[:most] if (found := _said(node, speakers, over))]
    in_full_cuts = [cut for cut, *_ in said[:in_full]]
    doings, stream_ends = _events_of(storage, in_full_cuts, own)
    newest = {cut.stream: cut.key for cut, *_ in sorted(said, key=lambda each: each[0].start)}
    left_open = {newest[stream]: several for stream, several in stream_ends.items()}
    quoted = [words for each in doings.values() for words in (each.asked, each.closing)]
    quoted += [end.words for several in left_open.values() for end in several]
    grips = storage.grips.grips_by_event({words.event.event_id for words in quoted if words is not None})
    made = [
        _stretch(cut, node, found, doings.get(cut.key, NOTHING), left_open.get(cut.key, ()), grips) for cut, node, found in said
    ]
    by_project: dict[str, list[Stretch]] = {}
    for (cut, *_), stretch in zip(said, made, strict=True):
        by_project.setdefault(cut.project, []).append(stretch)
    return [without_settled(stretch, by_project[cut.project]) for (cut, *_), stretch in zip(said, made, strict=True)]


def _events_of(
    storage: Storage, cuts: Sequence[Segment], own: Sequence[Segment]
) -> tuple[dict[int, Doings], dict[int, tuple[OpenEnd, ...]]]:
    """Return what happened in each cut, by its key, and by stream what its end leaves open, as far as `own` holds that."""
    tails = {stream: _tail_of(stream, own) for stream in dict.fromkeys(cut.stream for cut in cuts)}
    to_read = {cut.key: cut for several in (cuts, *tails.values()) for cut in several}
    stored = storage.events.events_by_segment(list(to_read.values())) if to_read else {}
    events = {key: _work_in(several) for key, several in stored.items()}
    doings = {cut.key: doings_of(events.get(cut.key, [])) for cut in cuts}
    ends = {stream: open_ends([event for cut in tail for event in events.get(cut.key, [])]) for stream, tail in tails.items()}
    return doings, ends


def _work_in(events: Sequence[Event]) -> list[Event]:
    """Return events in order without the exchanges in which the memory was asked: they are no work, and leave nothing open."""
    turns = classify_turns(events)
    kept: list[Event] = []
    is_question = False
    for event in events:
        if is_prompt(event):
            is_question = bool(turns.get(event.event_id, TurnKind.PLAIN) & TurnKind.TO_MEMORY)
        if not is_question:
            kept.append(event)
    return kept


def _tail_of(stream: int, cuts: Sequence[Segment]) -> list[Segment]:
    """Return the last `TAIL` cuts of a stream in order, those without statements included: they may answer what came before."""
    return sorted((cut for cut in cuts if cut.stream == stream), key=lambda cut: cut.start)[-TAIL:]


def latest_cuts(storage: Storage, project: str, most: int) -> list[Segment]:
    """Return at most `most` of a project's cuts, the newest, newest first. Reads whole days, so that some more may be read."""
    days, found, step = storage.toc.list_days(project, *EVERY_DAY)[::-1], list[Segment](), 1
    while days and len(found) < most:
        # Few days hold enough of a busy project; of a quiet one most are read, and not one by one.
        block, days = days[:step], days[step:]
        found += storage.toc.list_day_segments(block[-1], f"{block[0]}~", project)
        step *= 4
    return sorted(found, key=lambda cut: cut.start, reverse=True)[:most]


def speaker_of(event: Event) -> str | None:
    """Return the speaker of an event: note, user or agent; None for tool output and the like. A recap is the agent's."""
    if event.trust is Trust.AGENT_NOTE and event.role is not Role.USER:
        return "note"
    return "agent" if is_recap(event) else {Role.USER: "user", Role.ASSISTANT: "agent"}.get(event.role)


def _said(node: TocNode, speakers: Mapping[GripId, str], over: Mapping[GripId, Supersession]) -> tuple[Said, ...]:
    """Return a node's statements without revoked ones; a contradicted one names the later statement.

    Those that rest on tool output are left out too. A refined node's words are its writer's, whatever they
    rest on, and never the user's.
    """
    refined = node.author != EXTRACTIVE
    return tuple(
        Said(b.text, "agent" if refined else speakers[b.grip_ids[0]], b.grip_ids[0], b.kind, _otherwise(b, over))
        for b in node.bullets
        if b.grip_ids and (refined or all(grip in speakers for grip in b.grip_ids))
        if not all(grip in over and over[grip].author != CONTRADICTION_AUTHOR for grip in b.grip_ids)
    )


def _otherwise(bullet: TocBullet, over: Mapping[GripId, Supersession]) -> str:
    """Return the later grip that contradicts a bullet's first grip, if that was marked for these very words; "" for none."""
    found = over.get(bullet.grip_ids[0])
    return found.new or "" if found is not None and found.words == bullet.text else ""


def _stretch(
    cut: Segment,
    node: TocNode,
    said: tuple[Said, ...],
    doings: Doings,
    ends: Sequence[OpenEnd],
    grips: Mapping[EventId, Sequence[Grip]],
) -> Stretch:
    """Return a segment for display with its statements and what was asked, done and left; `grips` are by event."""

    def cite(words: Words) -> Said:
        """Return words (a span of an event's text) with the stored grip that covers them best, or one for exactly them."""
        stored = covering(grips.get(words.event.event_id, ()), words.event, words.start, words.end)
        grip = stored[0].grip_id if stored else span_grip_id(words.event.event_id, words.start, words.end)
        return Said(words.text, words.speaker, grip)

    return Stretch(
        *(node.start_ms, node.title, said, cut.session_id, node.author != EXTRACTIVE),
        asked=None if doings.asked is None else cite(doings.asked),
        closing=None if doings.closing is None else cite(doings.closing),
        open_ends=tuple((cite(end.words), end.cause.value) for end in ends),
        doings=doings,
        node_id=node.node_id,
        agent=cut.agent,
        end_ms=node.end_ms,
    )
