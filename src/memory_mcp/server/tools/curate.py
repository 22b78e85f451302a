"""Writing tools of the full profile: ingest_events, refine_summary, pin."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, Any

from mcp.server.mcpserver import Context
from mcp.server.mcpserver.tools import Tool
from mcp.types import CallToolResult
from pydantic import BaseModel, ConfigDict, Field

from memory_mcp.app import App
from memory_mcp.errors import InvalidQuery, NotFound, ResourceExhausted
from memory_mcp.ingest.base import ImportReport
from memory_mcp.ingest.gate import Gate
from memory_mcp.ingest.jsonl import draft_of
from memory_mcp.model.calendar import TocLevel, span_of
from memory_mcp.model.event import Event, EventDraft, EventType, Role, Trust
from memory_mcp.model.ids import ROOT, GripId, NodeId, segment_key_of
from memory_mcp.model.segment import Segment
from memory_mcp.model.toc import TocBullet, TocNode
from memory_mcp.requests.times import times_of
from memory_mcp.server import wire
from memory_mcp.server.caller import agent_of, request_key
from memory_mcp.server.tools.kit import ADDS, SETS, Kit, answer, tool
from memory_mcp.storage.values import Build, Request
from memory_mcp.toc.build import segment_title
from memory_mcp.toc.rollup import period_name

#: Kind of source: the same event ingested by a tool or imported from a file is one event.
_SOURCE = "jsonl"
_MOST_EVENTS = 500
_AUTHOR = "agent"


class BulletArgument(BaseModel):
    """A statement and the grips that prove it."""

    model_config = ConfigDict(extra="forbid")

    text: Annotated[str, Field(max_length=2000)]
    grip_ids: Annotated[list[str], Field(min_length=1, max_length=20)]


class Curate:
    """The three."""

    def __init__(self, kit: Kit) -> None:
        self._kit = kit

    def tools(self) -> list[Tool]:
        """In the order offered."""
        return [
            tool(self.ingest_events, "Ingest events", SETS),
            tool(self.refine_summary, "Refine a summary", ADDS),
            tool(self.pin, "Pin", SETS),
        ]

    async def ingest_events(
        self,
        ctx: Context,
        events: Annotated[
            list[dict[str, Any]],
            Field(description="Each: session_id, timestamp, role, text; id, speaker, type, agent, project, metadata optional"),
        ],
    ) -> Annotated[CallToolResult, wire.Ingested]:
        """Store events of a conversation, all or none. An event seen before changes nothing."""
        if len(events) > _MOST_EVENTS:
            raise ResourceExhausted(f"{len(events)} events at once", f"Send at most {_MOST_EVENTS} per call.")
        agent, key = agent_of(ctx), request_key(ctx, "")

        def work(app: App) -> wire.Ingested:
            drafts = [self._draft(e, number, len(events), agent) for number, e in enumerate(events, 1)]
            request = Request(f"ingest:{key}") if key else None
            outcome = app.write(drafts, _SOURCE, Trust.IMPORTED, request)
            new: list[str] = [*outcome.new] if outcome.replay is None else outcome.replay.split()
            return wire.Ingested(stored=len(new), known=len(drafts) - len(new), event_ids=new)

        return answer(await self._kit.host.write(work))

    def _draft(self, event: dict[str, Any], number: int, count: int, agent: str) -> EventDraft:
        """What an event leaves open is the caller's."""
        try:
            draft = draft_of(event)
        except InvalidQuery as error:
            raise InvalidQuery(f"event {number} of {count}: {error.message}", f"{error.hint} Nothing was stored.") from None
        return replace(draft, agent=draft.agent or agent, project=draft.project or self._kit.project)

    async def refine_summary(
        self,
        ctx: Context,
        node_id: Annotated[str, Field(max_length=300)],
        title: Annotated[str, Field(description="The gist; its date is added", max_length=200)],
        bullets: Annotated[list[BulletArgument], Field(min_length=1, max_length=20)],
    ) -> Annotated[CallToolResult, wire.Refined]:
        """Give a node a better title and bullets, marked as an agent's. Every bullet names grips that lie inside the node."""
        agent = agent_of(ctx)

        def work(app: App) -> wire.Refined:
            with app.derivation.publishing:
                before = app.tree.node(times_of(app).node_id(node_id))
                node = _refined(app, before, title, bullets, agent)
                # A call that is sent again finds its own words and leaves them.
                if replace(node, version=before.version, built=before.built) == before:
                    return wire.Refined(node_id=node.node_id, version=before.version, author=before.author)
                app.storage.toc.publish(Build(nodes=(node,)))
                app.derivation.run()
            return wire.Refined(node_id=node.node_id, version=node.version, author=node.author)

        return answer(await self._kit.host.write(work))

    async def pin(
        self,
        ctx: Context,
        id: Annotated[str, Field(description="Node or grip id", max_length=300)],  # noqa: A002 - the argument's public name
        on: bool = True,
    ) -> Annotated[CallToolResult, wire.Pinned]:
        """Pin a node or grip, so that it counts for more; on=false lets go."""
        agent = agent_of(ctx)

        def work(app: App) -> wire.Pinned:
            target = app.evidence.expand(id, 0, 0).grip_id if id.startswith("grip:") else _pinnable(app, id)
            app.storage.toc.set_pin(target, on, agent)
            return wire.Pinned(id=target, pinned=on)

        return answer(await self._kit.host.write(work))


def _pinnable(app: App, given: str) -> NodeId:
    node = app.tree.node(times_of(app).node_id(given))
    if node.node_id == ROOT:
        raise InvalidQuery("the root cannot be pinned", "Pin a year, month, week, day, segment or grip.")
    return node.node_id


def _refined(app: App, before: TocNode, title: str, bullets: Sequence[BulletArgument], agent: str) -> TocNode:
    """The next version of the node with the agent's words, cleaned as any write is, and its proofs checked."""
    if before.node_id == ROOT:
        raise InvalidQuery("the root has no summary", "Refine a year, month, week, day or segment.")
    gate = Gate()
    name = period_name(before.node_id) if before.level is not TocLevel.SEGMENT else ""
    gist = _clean(gate, title).removeprefix(f"{name} · ")
    made = []
    for bullet in bullets:
        cuts = [_cut_of(app, grip, before) for grip in bullet.grip_ids]
        grips = tuple(dict.fromkeys(grip for grip, _ in cuts))
        made.append(TocBullet(_clean(gate, bullet.text), grips, project=cuts[0][1].project, agent=agent))
    whole = f"{name} · {gist}" if name else segment_title(app.calendar, before.start_ms, gist)
    return replace(before, title=whole, bullets=tuple(made), author=_AUTHOR, version=before.version + 1)


def _clean(gate: Gate, text: str) -> str:
    draft = EventDraft(session_id="refine", role=Role.ASSISTANT, type=EventType.NOTE, text=text, timestamp=0)
    outcome = gate.check(draft, ImportReport())
    if isinstance(outcome, str):
        raise InvalidQuery(f"a text is refused: {outcome}", "Say it in words of your own.")
    return " ".join(outcome.text.split())


def _cut_of(app: App, given: str, node: TocNode) -> tuple[GripId, Segment]:
    """The grip and the segment its first event lies in; refused unless that segment lies inside the node."""
    try:
        found = app.evidence.expand(given, 0, 0)
    except NotFound:
        raise NotFound(f"no grip {given}", "Every bullet must name existing grips: see get_node and search results.") from None
    cut = _holding(app.storage.toc.cuts([found.excerpt[0].stream]), found.excerpt[0])
    if cut is None or not _inside(cut, node):
        raise InvalidQuery(f"grip {given} lies outside {node.node_id}", "A bullet may only rest on what its node holds.")
    return found.grip_id, cut


def _holding(cuts: dict[int, list[Segment]], event: Event) -> Segment | None:
    return next((c for c in cuts.get(event.stream, ()) if c.start <= event.order <= c.end), None)


def _inside(cut: Segment, node: TocNode) -> bool:
    if node.level is TocLevel.SEGMENT:
        return cut.key == segment_key_of(node.node_id)
    first, after = span_of(node.node_id)
    return first.isoformat() <= cut.day < after.isoformat()
