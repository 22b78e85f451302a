"""Requests about one topic: everything about it, its segments, what it is related to, and its label."""

import datetime as dt
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

from memory_mcp.base.dataclass import dataclass
from memory_mcp.base.errors import InvalidQuery, NotFound
from memory_mcp.model.ids import parse_topic_id
from memory_mcp.model.ledger import AuditEntry
from memory_mcp.model.toc import AGENT
from memory_mcp.model.topic import MAX_LABEL
from memory_mcp.requests import arguments
from memory_mcp.requests.entry import Effect, answers
from memory_mcp.requests.limits import RESULTS, Argument
from memory_mcp.requests.response import Recalled, offset_of, take_fitting
from memory_mcp.requests.scope import Caller, Scoped, scope_of
from memory_mcp.requests.topic_shapes import (
    WEEKS,
    RelatedTopic,
    Segments,
    TopicInfo,
    TopicSegment,
    info_of,
    next_cursor,
    related_of,
)

if TYPE_CHECKING:
    from memory_mcp.app import App

#: Keywords, segments and related topics of a topic that is opened, and statements of each segment.
_KEYWORDS, _OPENED, _BULLETS = 12, 10, 3


TopicId = Annotated[str, Argument("topic:<id>, as topics_by_query gives it", longest=300)]


@dataclass(frozen=True, slots=True)
class GetTopic:
    """One topic with everything that is known of it."""

    topic_id: str
    project: arguments.Project = ""
    scope: arguments.Scope = ""


@dataclass(frozen=True, slots=True)
class TopicNodes:
    """The segments that are about a topic, most relevant first, each with statements about it and their grips."""

    topic_id: TopicId
    limit: Annotated[int, arguments.most("segments", RESULTS)] = RESULTS.default
    cursor: arguments.NextCursor = ""
    project: arguments.Project = ""
    scope: arguments.Scope = ""


@dataclass(frozen=True, slots=True)
class RelatedTopics:
    """Topics similar to one, talked about beside it, or above and below it, the strongest relation first."""

    topic_id: TopicId
    limit: Annotated[int, arguments.most("topics", RESULTS)] = RESULTS.default
    project: arguments.Project = ""
    scope: arguments.Scope = ""


@dataclass(frozen=True, slots=True)
class LabelTopic:
    """Give a topic a better label, seen within this scope and marked as an agent's."""

    topic_id: TopicId
    label: Annotated[str, Argument(f"At most {MAX_LABEL} characters; empty: its own words again")] = ""
    project: arguments.Project = ""
    scope: arguments.Scope = ""
    by: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Turned:
    """Something that happened to a topic when the memory was grouped anew, and the other topic that took part."""

    #: A local day.
    when: str
    what: str
    topic_id: str = ""
    label: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class WeekOfTopic:
    """A week in which a topic is mentioned."""

    #: Its first local day.
    week: str
    mentions: int


@dataclass(frozen=True, slots=True, kw_only=True)
class WholeTopic(Recalled):
    """A topic, its most relevant segments, what it is related to and what happened to it."""

    topic: TopicInfo
    nodes: Sequence[TopicSegment]
    related: Sequence[RelatedTopic]
    history: Sequence[Turned] = ()
    #: In order; weeks without a mention are left out.
    by_week: Sequence[WeekOfTopic] = ()
    scope: str
    notices: Sequence[str] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundNodes(Recalled):
    """Segments of a topic; `total` is how many there are."""

    topic_id: str
    label: str
    nodes: Sequence[TopicSegment]
    total: int
    next_cursor: str = ""
    scope: str
    notices: Sequence[str] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundRelated(Recalled):
    """Topics related to one, the strongest relation first."""

    topic_id: str
    label: str
    related: Sequence[RelatedTopic]
    scope: str
    notices: Sequence[str] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Labelled(Recalled):
    """The label that a scope sees now, and who gave it."""

    topic_id: str
    label: str
    labelled_by: Annotated[str, "agent; left out for the topic's own words"] = ""
    scope: str
    notices: Sequence[str] = ()


@answers("get_topic", GetTopic)
def get_topic(app: "App", request: GetTopic, caller: Caller) -> WholeTopic:
    """Return a topic with its segments, relations, history and mentions.

    At most `_OPENED` segments and related topics. Segments are also cut to the default token budget. A topic that was merged
    into another is answered by that one, with a notice. Raises NotFound where the scope holds none of that id, InvalidQuery for
    an invalid argument, LayerUnavailable where there is no topic graph.
    """
    opened = _Opened(app, request.topic_id, scope_of(app, request.project, request.scope, caller))
    graph, topic, view = opened.read_graph, opened.topic, opened.read_view
    links, _ = graph.list_links(topic.topic_id, view, _OPENED)
    history = []
    for turn in graph.topic_history(topic.topic_id):
        label = ""
        with suppress(NotFound):  # the scope does not see that topic
            label = graph.get_topic(turn.other, view).label if turn.other else ""
        when = app.calendar.day_of(turn.at_ms)
        history.append(Turned(when=when, what=turn.kind, topic_id=turn.other or "", label=label))
    return WholeTopic(
        topic=replace(
            info_of(app, topic, _KEYWORDS), events=topic.events, weeks=graph.weekly_mentions(topic.topic_id, view, WEEKS)
        ),
        nodes=take_fitting(app, Segments(app, opened.scoped).segments(topic, links, _BULLETS), 0),
        related=[related_of(relation) for relation in graph.find_related(topic.topic_id, view, _OPENED)],
        history=history,
        by_week=[
            WeekOfTopic(week=dt.date.fromordinal(day).isoformat(), mentions=mentions)
            for day, mentions in graph.mentions_by_week(topic.topic_id, view)
        ],
        scope=opened.scoped.words,
        notices=opened.notices,
    )


@answers("get_toc_nodes_for_topic", TopicNodes, "Nodes of a topic")
def topic_nodes(app: "App", request: TopicNodes, caller: Caller) -> FoundNodes:
    """Return a page of a topic's segments, most relevant first.

    At most `limit`, within the default token budget. Raises InvalidQuery also for a cursor of another question, NotFound and
    LayerUnavailable; as `get_topic`.
    """
    limit = RESULTS.check(request.limit)
    opened = _Opened(app, request.topic_id, scope_of(app, request.project, request.scope, caller))
    topic, question = opened.topic, ("get_toc_nodes_for_topic", opened.topic.topic_id, opened.scoped.words)
    offset = offset_of(request.cursor, *question)
    links, total = opened.read_graph.list_links(topic.topic_id, opened.read_view, limit, offset)
    nodes = take_fitting(app, Segments(app, opened.scoped).segments(topic, links, _BULLETS), 0)
    return FoundNodes(
        topic_id=topic.topic_id,
        label=topic.label,
        nodes=nodes,
        total=total,
        next_cursor=next_cursor(offset + len(nodes), total if nodes else 0, question),
        scope=opened.scoped.words,
        notices=opened.notices,
    )


@answers("get_related_topics", RelatedTopics, "Related topics")
def related_topics(app: "App", request: RelatedTopics, caller: Caller) -> FoundRelated:
    """Return at most `limit` related topics, strongest relation first; raises as `get_topic`."""
    limit = RESULTS.check(request.limit)
    opened = _Opened(app, request.topic_id, scope_of(app, request.project, request.scope, caller))
    return FoundRelated(
        topic_id=opened.topic.topic_id,
        label=opened.topic.label,
        related=[
            related_of(relation) for relation in opened.read_graph.find_related(opened.topic.topic_id, opened.read_view, limit)
        ],
        scope=opened.scoped.words,
        notices=opened.notices,
    )


@answers("label_topic", LabelTopic, "Label a topic", Effect.SETS)
def label_topic(app: "App", request: LabelTopic, caller: Caller) -> Labelled:
    """Give a topic a label in a scope; "" removes it.

    It is cleaned of secrets, white space runs and unprintable characters. An empty project is not widened to all. Raises
    InvalidQuery also for a label that is too long or refused, NotFound and LayerUnavailable; as `get_topic`.
    """
    label = "".join(c for c in " ".join(app.gate.clean_text(request.label).split()) if c.isprintable())
    if request.label.strip() and not label:
        raise InvalidQuery("the label is refused: own output", "Nothing was changed. Say it in words of your own.")
    if len(label) > MAX_LABEL:
        raise InvalidQuery(f"label is too long: at most {MAX_LABEL} characters", "Nothing was changed.")
    opened = _Opened(app, request.topic_id, scope_of(app, request.project, request.scope, caller, widens=False))
    topic = app.topics.label_topic(opened.topic.topic_id, label, opened.scoped.project, AGENT)
    if topic.label != opened.topic.label:
        app.storage.audit.record_entry(AuditEntry("label", app.clock.now_ms(), app.gate.clean_name(request.by), topic.topic_id))
    return Labelled(
        topic_id=topic.topic_id,
        label=topic.label,
        labelled_by=topic.labelled_by,
        scope=opened.scoped.words,
        notices=opened.notices,
    )


class _Opened:
    """One topic as a scope sees it; NotFound where that holds none of its segments."""

    def __init__(self, app: "App", topic_id: str, scoped: Scoped) -> None:
        """Find the topic; a merged one gives its successor, with notice.

        Raises InvalidQuery for an invalid id, NotFound where the scope holds none of its segments,
        LayerUnavailable without a topic graph.
        """
        self.scoped = scoped
        requested_id = parse_topic_id(topic_id)
        self.read_graph, self.read_view = app.topics.read_graph(), app.topics.read_view(scoped.project)
        self.topic = self.read_graph.get_topic(requested_id, self.read_view)
        now = self.topic.topic_id
        self.notices = [] if now == requested_id else [f"{requested_id} was merged into {now}, which is shown"]
