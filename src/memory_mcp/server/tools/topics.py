"""From one topic to its segments, to other topics, and its label (full profile); the default profile has topics_by_query."""

from typing import Annotated

from mcp.server.mcpserver import Context
from mcp.types import CallToolResult
from pydantic import Field

from memory_mcp.model.topic import MAX_LABEL
from memory_mcp.requests.indexes import GetTopicGraphStatus, TopicGraphStatus
from memory_mcp.requests.limits import RESULTS
from memory_mcp.requests.one_topic import FoundNodes, FoundRelated, Labelled, LabelTopic, RelatedTopics, TopicNodes
from memory_mcp.requests.topics import FoundTopics, TopTopics
from memory_mcp.server import arguments
from memory_mcp.server.caller import agent_of
from memory_mcp.server.tools.kit import SETS, Group, offered

_TopicId = Annotated[str, Field(description="topic:<id>, as topics_by_query gives it", max_length=300)]


class TopicSteps(Group):
    """Read and label topics one by one (full profile)."""

    @offered("Most important topics")
    async def get_top_topics(
        self,
        fine: Annotated[bool, Field(description="Single topics instead of the areas they belong to")] = False,
        limit: arguments.Limit = RESULTS.default,
        cursor: arguments.Cursor = "",
        since: arguments.Since = "",
        until: arguments.Until = "",
        agent: arguments.Agent = "",
        project: arguments.Project = "",
        scope: arguments.Scope = "",
    ) -> Annotated[CallToolResult, FoundTopics]:
        """What the memory is about: areas by importance, with mentions week by week; with since or until, of that time."""
        return await self._kit.ask(TopTopics(fine, limit, cursor, since, until, agent, project, scope))

    @offered("Nodes of a topic")
    async def get_toc_nodes_for_topic(
        self,
        topic_id: _TopicId,
        limit: arguments.Limit = RESULTS.default,
        cursor: arguments.Cursor = "",
        project: arguments.Project = "",
        scope: arguments.Scope = "",
    ) -> Annotated[CallToolResult, FoundNodes]:
        """The segments that are about a topic, most relevant first, each with statements about it and their grips."""
        return await self._kit.ask(TopicNodes(topic_id, limit, cursor, project, scope))

    @offered("Related topics")
    async def get_related_topics(
        self,
        topic_id: _TopicId,
        limit: arguments.Limit = RESULTS.default,
        project: arguments.Project = "",
        scope: arguments.Scope = "",
    ) -> Annotated[CallToolResult, FoundRelated]:
        """Topics similar to one, talked about beside it, or above and below it, the strongest relation first."""
        return await self._kit.ask(RelatedTopics(topic_id, limit, project, scope))

    @offered("Label a topic", SETS)
    async def label_topic(
        self,
        ctx: Context,
        topic_id: _TopicId,
        label: Annotated[str, Field(description=f"At most {MAX_LABEL} characters; empty: its own words again")] = "",
        project: arguments.Project = "",
        scope: arguments.Scope = "",
    ) -> Annotated[CallToolResult, Labelled]:
        """Give a topic a better label, seen within this scope and marked as an agent's."""
        return await self._kit.write(LabelTopic(topic_id, label, project, scope, agent_of(ctx)))

    @offered("Topic graph status")
    async def get_topic_graph_status(self) -> Annotated[CallToolResult, TopicGraphStatus]:
        """Whether the topic graph can be used, how many topics it holds, and how far it is behind."""
        return await self._kit.ask(GetTopicGraphStatus())
