"""Topics: topics_by_query, and with the full profile the steps from one topic to its segments, to others, and its label."""

from typing import Annotated

from mcp.server.mcpserver import Context
from mcp.server.mcpserver.tools import Tool
from mcp.types import CallToolResult
from pydantic import Field

from memory_mcp.model.topic import MAX_LABEL
from memory_mcp.requests.indexes import GetTopicGraphStatus
from memory_mcp.requests.limits import RESULTS
from memory_mcp.requests.one_topic import LabelTopic, RelatedTopics, TopicNodes
from memory_mcp.requests.topics import FITTING, TopicsByQuery, TopTopics
from memory_mcp.server import arguments, wire_topics
from memory_mcp.server.caller import agent_of
from memory_mcp.server.tools.kit import SETS, Group, tool

_TopicId = Annotated[str, Field(description="topic:<id>, as topics_by_query gives it", max_length=300)]


class Topics(Group):
    """Find topics by a query."""

    def tools(self) -> list[Tool]:
        """In the order offered."""
        return [tool(self.topics_by_query, "Topics")]

    async def topics_by_query(
        self,
        query: arguments.Query,
        limit: arguments.Limit = FITTING.default,
        token_budget: arguments.Tokens = None,
        project: arguments.Project = "",
        scope: arguments.Scope = "",
    ) -> Annotated[CallToolResult, wire_topics.TopicsAnswer]:
        """Topics of the memory about a query: when they were talked about, in which nodes, and related topics.

        For overviews and recurring themes. Needs the topic graph; see get_retrieval_status.
        """
        return await self._kit.ask(TopicsByQuery(query, limit, token_budget or 0, project, scope))


class TopicSteps(Group):
    """Read and label topics one by one (full profile)."""

    def tools(self) -> list[Tool]:
        """In the order offered."""
        return [
            tool(self.get_top_topics, "Most important topics"),
            tool(self.get_toc_nodes_for_topic, "Nodes of a topic"),
            tool(self.get_related_topics, "Related topics"),
            tool(self.label_topic, "Label a topic", SETS),
            tool(self.get_topic_graph_status, "Topic graph status"),
        ]

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
    ) -> Annotated[CallToolResult, wire_topics.TopTopicsAnswer]:
        """What the memory is about: areas by importance, with mentions week by week; with since or until, of that time."""
        return await self._kit.ask(TopTopics(fine, limit, cursor, since, until, agent, project, scope))

    async def get_toc_nodes_for_topic(
        self,
        topic_id: _TopicId,
        limit: arguments.Limit = RESULTS.default,
        cursor: arguments.Cursor = "",
        project: arguments.Project = "",
        scope: arguments.Scope = "",
    ) -> Annotated[CallToolResult, wire_topics.TopicNodesAnswer]:
        """The segments that are about a topic, most relevant first, each with statements about it and their grips."""
        return await self._kit.ask(TopicNodes(topic_id, limit, cursor, project, scope))

    async def get_related_topics(
        self,
        topic_id: _TopicId,
        limit: arguments.Limit = RESULTS.default,
        project: arguments.Project = "",
        scope: arguments.Scope = "",
    ) -> Annotated[CallToolResult, wire_topics.RelatedTopicsAnswer]:
        """Topics similar to one, talked about beside it, or above and below it, the strongest relation first."""
        return await self._kit.ask(RelatedTopics(topic_id, limit, project, scope))

    async def label_topic(
        self,
        ctx: Context,
        topic_id: _TopicId,
        label: Annotated[str, Field(description=f"At most {MAX_LABEL} characters; empty: its own words again")] = "",
        project: arguments.Project = "",
        scope: arguments.Scope = "",
    ) -> Annotated[CallToolResult, wire_topics.LabelledTopic]:
        """Give a topic a better label, seen within this scope and marked as an agent's."""
        return await self._kit.write(LabelTopic(topic_id, label, project, scope, agent_of(ctx)))

    async def get_topic_graph_status(self) -> Annotated[CallToolResult, wire_topics.TopicGraphStatus]:
        """Whether the topic graph can be used, how many topics it holds, and how far it is behind."""
        return await self._kit.ask(GetTopicGraphStatus())
