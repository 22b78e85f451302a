"""Writing tools of the full profile, and those that read for them: ingest_events, refine_*, pin, correct, retract."""

from dataclasses import dataclass, replace
from typing import Annotated, Any

from mcp.server.mcpserver import Context
from mcp.types import CallToolResult
from pydantic import BaseModel, ConfigDict, Field

from memory_mcp.app import App
from memory_mcp.base.errors import InvalidQuery, ResourceExhausted
from memory_mcp.importers.jsonl import draft_of
from memory_mcp.model.event import Trust
from memory_mcp.requests.correct import MAX_REASON, Correct, Corrected, Retract
from memory_mcp.requests.limits import MATERIAL, PAGE
from memory_mcp.requests.pins import Pin, Pinned
from memory_mcp.requests.refine import (
    MAX_BULLETS,
    MAX_GRIPS,
    MAX_KEYWORD,
    MAX_TEXT,
    MAX_TITLE,
    DueNodes,
    Refined,
    RefineDue,
    RefineSummary,
    Statement,
)
from memory_mcp.requests.refine_show import Material, RefineShow
from memory_mcp.requests.scope import project_to_store
from memory_mcp.server import arguments
from memory_mcp.server.caller import agent_of, request_key
from memory_mcp.server.tools.kit import ADDS, SETS, Group, offered
from memory_mcp.storage.values import WriteRequest
from memory_mcp.tree.summarize.keywords import MAX_KEYWORDS

#: Kind of source: the same event ingested by a tool or imported from a file is one event.
_SOURCE = "jsonl"
#: Events of one call.
_MOST_EVENTS = 500

_Grip = Annotated[str, Field(description="As results cite it", max_length=300)]
_Reason = Annotated[str, Field(max_length=MAX_REASON)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Ingested:
    """How many events were stored and known, and the ids of those that are new."""

    stored: int
    known: Annotated[int, "Stored before; unchanged"]
    event_ids: list[str]


class BulletArgument(BaseModel):
    """A statement and the grips that prove it."""

    model_config = ConfigDict(extra="forbid")

    text: Annotated[str, Field(max_length=MAX_TEXT)]
    grip_ids: Annotated[list[str], Field(min_length=1, max_length=MAX_GRIPS)]
    kind: arguments.Kind = ""


class Curate(Group):
    """Ingest events, refine summaries, pin, correct and retract (full profile)."""

    @offered("Ingest events", SETS)
    async def ingest_events(
        self,
        ctx: Context,
        events: Annotated[
            list[dict[str, Any]],
            Field(description="Each: session_id, timestamp, role, text; id, speaker, type, agent, project, metadata optional"),
        ],
    ) -> Annotated[CallToolResult, Ingested]:
        """Store events of a conversation, all or none. An event seen before changes nothing."""
        if len(events) > _MOST_EVENTS:
            raise ResourceExhausted(f"{len(events)} events at once", f"Send at most {_MOST_EVENTS} per call.")
        agent, key = agent_of(ctx), request_key(ctx, "")

        def work(app: App) -> Ingested:
            """Store all events in one write; return how many are new or known, and the ids of the new ones.

            An event has the caller's agent and project where it names none. Raises InvalidQuery for one that cannot be stored, or
            that names another project than a bound caller's.
            """
            drafts, caller = [], self._kit.caller
            for number, event in enumerate(events, 1):
                try:
                    draft = draft_of(event)
                except InvalidQuery as error:
                    text = f"event {number} of {len(events)}: {error.message}"
                    raise InvalidQuery(text, f"{error.hint} Nothing was stored.") from None
                project = project_to_store(app, draft.project, caller) if caller.locked else draft.project or caller.project
                drafts.append(replace(draft, agent=draft.agent or agent, project=project))
            request = WriteRequest(f"ingest:{key}") if key else None
            outcome = app.write(drafts, _SOURCE, Trust.IMPORTED, request)
            new: list[str] = [*outcome.new_ids] if outcome.replayed_answer is None else outcome.replayed_answer.split()
            return Ingested(stored=len(new), known=len(drafts) - len(new), event_ids=new)

        return await self._kit.carry_out(work)

    @offered("What to refine")
    async def refine_due(
        self,
        day: Annotated[str, Field(description="A day or other time, as since; empty: all", max_length=60)] = "",
        limit: arguments.Page = PAGE.default,
        project: arguments.Project = "",
        scope: arguments.Scope = "",
    ) -> Annotated[CallToolResult, DueNodes]:
        """Segments and days that are over, hold enough, and have no agent's words yet; newest first."""
        return await self._kit.ask(RefineDue(day, limit, project, scope))

    @offered("Read to refine")
    async def refine_show(
        self,
        node_id: Annotated[str, Field(max_length=300)],
        token_budget: Annotated[int, Field(ge=MATERIAL.least, le=MATERIAL.most)] = MATERIAL.default,
        project: arguments.Project = "",
        scope: arguments.Scope = "",
    ) -> Annotated[CallToolResult, Material]:
        """What refine_summary needs to know of a node, at once.

        Its title and bullets; of a segment its events with their grips, and what came before; of a period its children.
        """
        return await self._kit.ask(RefineShow(node_id, token_budget, project, scope))

    @offered("Refine a summary", ADDS)
    async def refine_summary(
        self,
        ctx: Context,
        node_id: Annotated[str, Field(max_length=300)],
        title: Annotated[str, Field(description="What was asked: what came of it; its date is added", max_length=MAX_TITLE)],
        bullets: Annotated[list[BulletArgument], Field(min_length=1, max_length=MAX_BULLETS)],
        summary: Annotated[str, Field(description="Default: made of title and bullets", max_length=MAX_TEXT)] = "",
        keywords: Annotated[
            list[Annotated[str, Field(max_length=MAX_KEYWORD)]] | None,
            Field(description="Default: read from title and bullets", max_length=MAX_KEYWORDS),
        ] = None,
        project: arguments.Project = "",
        scope: arguments.Scope = "",
    ) -> Annotated[CallToolResult, Refined]:
        """Replace a node's text by a better one, marked as an agent's. Every bullet names grips that lie inside the node."""
        statements = [Statement(b.text, b.grip_ids, b.kind) for b in bullets]
        request = RefineSummary(node_id, title, statements, summary, keywords or (), project, scope, agent_of(ctx))
        return await self._kit.write(request)

    @offered("Pin", SETS)
    async def pin(
        self,
        ctx: Context,
        id: Annotated[str, Field(description="Id of a node, grip or topic", max_length=300)],  # noqa: A002 - the argument's public name
        on: bool = True,
    ) -> Annotated[CallToolResult, Pinned]:
        """Pin a node, grip or topic, so that it counts for more; on=false lets go."""
        return await self._kit.write(Pin(id, on, agent_of(ctx)))

    @offered("Correct", ADDS)
    async def correct(
        self,
        ctx: Context,
        grip_id: _Grip,
        text: Annotated[str, Field(description="What holds instead, self-contained", max_length=100_000)],
        reason: _Reason = "",
        kind: arguments.Kind = "",
        idempotency_key: Annotated[str, Field(description="Same key: stored once", max_length=200)] = "",
    ) -> Annotated[CallToolResult, Corrected]:
        """Put another statement in the place of a recorded one, which is shown as superseded from now on."""
        key = request_key(ctx, idempotency_key)
        return await self._kit.write(Correct(grip_id, text, reason, kind, agent_of(ctx), key=key))

    @offered("Retract", SETS)
    async def retract(self, ctx: Context, grip_id: _Grip, reason: _Reason = "") -> Annotated[CallToolResult, Corrected]:
        """Mark a recorded statement as holding no more, with nothing in its place."""
        return await self._kit.write(Retract(grip_id, reason, agent_of(ctx)))
