"""`topics`: what the memory is about: areas and topics by importance, those that fit some words, one with all there is to say."""

import argparse
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from memory_mcp.base.errors import InvalidQuery
from memory_mcp.cli import render
from memory_mcp.cli.commands.base import (
    COMMAND_LINE,
    SESSION,
    Subparsers,
    add_flags,
    add_scope,
    as_json,
    ask,
    family,
    leaf,
    note_lines,
    print_result,
    read_request,
)
from memory_mcp.cli.commands.retrieval import state

if TYPE_CHECKING:
    from memory_mcp.app import App


#: A line of output: its pieces, each with the style it has on a terminal.
_Line = Sequence[tuple[str, str]]

#: Tokens of `explore` as text: people are shown more of each than an agent, who pays for it.
_FOR_PEOPLE = 3000
#: Characters of a label and of a bar beside each other.
_LABEL, _BAR = 26, 10
_NO_TOPICS = "No topics."


def add_topics(parsers: Subparsers, about: str) -> None:
    from memory_mcp.requests.one_topic import RelatedTopics, TopicNodes
    from memory_mcp.requests.topics import GetTopicMap, TopicsByQuery, TopTopics

    inner = family(parsers, "topics", about)
    leaf(inner, "status", run_status, "show whether topics can be used, and what they are made of")
    top = leaf(inner, "top", run_top, "list areas by importance, or topics, with their mentions week by week")
    add_flags(top, TopTopics)
    add_scope(top)
    drawn = leaf(inner, "map", run_map, "list the topics of each area, and how they are related; --json has it all for a drawing")
    add_flags(drawn, GetTopicMap)
    add_scope(drawn)
    explore = leaf(inner, "explore", run_explore, "show topics that fit some words, or one topic by its id, down to quotations")
    explore.add_argument("words", nargs="+", metavar="WORDS|ID", help="what the topics are to be about, or topic:<id>")
    add_flags(explore, TopicsByQuery)
    add_scope(explore)
    nodes = _add_one(inner, "nodes", run_nodes, "list the segments that are about a topic, with statements and their grips")
    add_flags(nodes, TopicNodes)
    related = _add_one(inner, "related", run_related, "list the topics that a topic belongs together with")
    add_flags(related, RelatedTopics)
    label = _add_one(inner, "label", run_label, "give a topic a label, or its own words again")
    label.add_argument("label", nargs="*", metavar="TEXT", help="its label; none: its own words again")
    pin = leaf(inner, "pin", run_pin, "pin a topic, so that it counts for more and is never left out")
    pin.add_argument("id", metavar="ID", help="topic:<id>, as top and explore show it")
    pin.add_argument("--off", action="store_true", help="let go of it")


def _add_one(inner: Subparsers, name: str, run: Any, text: str) -> argparse.ArgumentParser:
    parser = leaf(inner, name, run, text)
    parser.add_argument("topic_id", metavar="ID", help="topic:<id>, as top and explore show it")
    add_scope(parser)
    return parser


def settle(app: "App") -> None:
    """Group the topics again where that is due.

    Nothing in a daemon, and where topics cannot be used.
    """
    keeper = app.accelerators.find_topic_keeper()
    if SESSION.get() is None and keeper is not None and keeper.is_due():
        with render.Progress("looking for topics"):
            keeper.rebuild()


def run_status(args: argparse.Namespace) -> int:
    from memory_mcp.requests.indexes import GetTopicGraphStatus

    data = ask(args, GetTopicGraphStatus(), prepare=settle)
    return print_result(args, data, status_lines(data))


def run_top(args: argparse.Namespace) -> int:
    from memory_mcp.requests.topics import TopTopics

    data = ask(args, read_request(args, TopTopics), prepare=settle, hint=True)
    if render.is_terminal():
        return emit(args, data, _bar_lines(data))
    lines = [_heading(data)]
    for number, topic in enumerate(data["topics"], 1):
        lines.append(f"{number:>3}. {topic['label']} (importance {topic['importance']:.3g})  {topic['topic_id']}")
        lines += [f"     {_when(topic)}", f"     {_about(topic)}", f"     By week: {' '.join(map(str, topic['weeks']))}"]
    return emit(args, data, [[(line, "")] for line in lines])


def run_map(args: argparse.Namespace) -> int:
    from memory_mcp.requests.topics import GetTopicMap

    data = ask(args, read_request(args, GetTopicMap), prepare=settle, hint=True)
    topics = {topic["topic_id"]: topic for topic in data["topics"]}
    related: dict[str, list[str]] = {topic_id: [] for topic_id in topics}
    for relation in data.get("relations", ()):
        for topic_id, other_id in (relation["topics"], relation["topics"][::-1]):
            related[topic_id].append(f"{topics[other_id]['label']} ({_kind(relation)})")
    lines: list[_Line] = [[(_heading(data), "")]]
    for area in data.get("areas", ()):
        lines.append([(area["label"], "bold"), (f"  {area['topic_id']}", "dim")])
        for topic in (topics[topic_id] for topic_id in area["topics"]):
            lines.append([(f"   - {topic['label']}", ""), (f"  {_when(topic)}  {topic['topic_id']}", "dim")])
            if related[topic["topic_id"]]:
                lines.append([(f"       Related: {'; '.join(related[topic['topic_id']])}", "dim")])
    return emit(args, data, lines)


def run_explore(args: argparse.Namespace) -> int:
    from memory_mcp.requests.one_topic import GetTopic
    from memory_mcp.requests.topics import TopicsByQuery

    words = " ".join(args.words)
    if words.startswith("topic:") and len(words.split()) == 1:
        data = ask(args, GetTopic(words), prepare=settle, hint=True)
        return emit(args, data, whole_lines(data))
    tokens = args.token_budget or (0 if as_json(args) else _FOR_PEOPLE)
    data = ask(args, read_request(args, TopicsByQuery, query=words, token_budget=tokens), prepare=settle, hint=True)
    return emit(args, data, _topic_lines(data))


def run_nodes(args: argparse.Namespace) -> int:
    from memory_mcp.requests.one_topic import TopicNodes

    data = ask(args, read_request(args, TopicNodes, topic_id=args.topic_id), prepare=settle)
    lines = [[(data["label"], "bold"), (f"  {len(data['nodes']):,} of {render.plural(data['total'], 'segment')}", "dim")]]
    return emit(args, data, [*lines, *(line for node in data["nodes"] for line in _segment(node))])


def run_related(args: argparse.Namespace) -> int:
    from memory_mcp.requests.one_topic import RelatedTopics

    data = ask(args, read_request(args, RelatedTopics, topic_id=args.topic_id), prepare=settle)
    heading = [(data["label"], "bold"), ("" if data["related"] else "  is related to no other topic", "dim")]
    return emit(args, data, [heading, *_relation_lines(data["related"])])


def run_label(args: argparse.Namespace) -> int:
    from memory_mcp.requests.one_topic import LabelTopic

    data = ask(args, LabelTopic(args.topic_id, " ".join(args.label), by=COMMAND_LINE), prepare=settle)
    by = " (its own words)" if not data.get("labelled_by") else ""
    return emit(args, data, [[(f"{data['topic_id']}  {data['label']}{by}", "")]])


def run_pin(args: argparse.Namespace) -> int:
    from memory_mcp.requests.pins import Pin

    if not args.id.startswith("topic:"):
        raise InvalidQuery(f"not a topic id: {args.id!r}", "memory-mcp topics top lists topics with their ids.")
    data = ask(args, Pin(args.id, not args.off, COMMAND_LINE), prepare=settle)
    return print_result(args, data, [f"{data['id']}  {'pinned' if data['pinned'] else 'not pinned'}"])


def emit(args: argparse.Namespace, data: Mapping[str, Any], lines: Iterable[_Line]) -> int:
    """Print a response with its next cursor and notices."""
    more = [[(f"More: --cursor {data['next_cursor']}", "dim")]] if "next_cursor" in data else []
    all_lines = [*lines, *more, *([(note, "dim")] for note in note_lines(data))]
    if as_json(args) or not render.is_terminal():
        render.emit(as_json(args), data, ("".join(text for text, _ in line) for line in all_lines), recalled=True)
        return 0
    from rich.text import Text

    render.print_styled(Text.assemble(*((render.safe(text), style) for text, style in line)) for line in all_lines)
    return 0


def status_lines(data: Mapping[str, Any]) -> Iterator[str]:
    """Yield the state of the topic graph."""
    yield f"topics: {state(data['enabled'], data['healthy'], '' if data['healthy'] else data.get('message', ''))}"
    by = "meaning and shared words" if data.get("by_meaning") else "shared words alone"
    facts = {
        "topics": f"{data['topic_count']:,} in {render.plural(data.get('segments', 0), 'segment')}" if "behind" in data else "",
        "in none": render.plural(data["unassigned"], "segment") if data.get("unassigned") else "",
        "grouped by": by if "by_meaning" in data else "",
        "size": render.size(data["size_bytes"]) if data.get("size_bytes") else "",
        "generation": f"{data['generation']:,}" if data.get("generation") else "",
        "last commit": render.second(data.get("last_commit_at", "")),
        "left out": f"{render.plural(data['pruned'], 'topic')} of long ago" if data.get("pruned") else "",
        "behind": render.plural(data["behind"], "segment") if data.get("behind") else "",
        "last error": data.get("error", ""),
    }
    yield from (f"  {name + ':':<13} {value}" for name, value in facts.items() if value)


def _bar_lines(data: Mapping[str, Any]) -> Iterator[_Line]:
    topics, blocks = data["topics"], render.draws_blocks()
    yield [(_heading(data), "bold")]
    if not topics:
        return
    most = max(topic["importance"] for topic in topics)
    wide = min(max(len(topic["label"]) for topic in topics), _LABEL)
    for number, topic in enumerate(topics, 1):
        label = render.one_line(topic["label"], _LABEL).ljust(wide)
        # A bar is drawn of whole numbers, and importance may be below one.
        drawn = render.bar(round(topic["importance"] / most * 1000) if most else 0, 1000, _BAR, blocks)
        weeks, weight = render.spark(topic["weeks"], blocks), f" {topic['importance']:>7.3g}  "
        yield [(f"{number:>3}. ", ""), (label, "bold"), ("  ", ""), (drawn, "green"), (weight, ""), (weeks, "cyan")]
        yield [(f"     {_when(topic)}", "dim")]
        yield [(f"     {topic['topic_id']}  {_about(topic)}", "dim")]


def _heading(data: Mapping[str, Any]) -> str:
    if not data["topics"]:
        return _NO_TOPICS
    return f"{len(data['topics']):,} of {render.plural(data['total'], 'topic')}, {data['scope']}"


def _about(topic: Mapping[str, Any]) -> str:
    parts = [render.one_line(part, _LABEL) for part in topic.get("parts", ())]
    return f"of: {'; '.join(parts)}" if parts else f"about: {', '.join(topic.get('keywords', ()))}"


def _when(topic: Mapping[str, Any]) -> str:
    first, last = topic["first_mentioned"], topic["last_mentioned"]
    since = f" since {topic['since']}" if "since" in topic else ""
    span = first if first == last else f"{first} to {last}"
    marks = [topic["state"] + since, *(["pinned"] if topic.get("pinned") else [])]
    return f"{render.plural(topic['mentions'], 'mention')}, {span}, {', '.join(marks)}"


def _topic_lines(data: Mapping[str, Any]) -> Iterator[_Line]:
    if not data["topics"]:
        yield [(_NO_TOPICS, "")]
    for number, topic in enumerate(data["topics"], 1):
        fit = f"  fit {topic['score']:.2f}, importance {topic['importance']:.3g}"
        yield [(f"{number}. ", ""), (topic["label"], "bold"), (fit, "dim"), (f"  {topic['topic_id']}", "dim")]
        yield from _below(topic)
        for node in topic.get("nodes", ()):
            yield from _node(node)
            yield from _statement(node.get("text", ""), [node["grip"]] if "grip" in node else [])
        if "related" in topic:
            related = "; ".join(
                f"{other_topic['label']} ({_kind(other_topic)}, {other_topic['topic_id']})" for other_topic in topic["related"]
            )
            yield [("   Related: ", "dim"), (related, "")]
        yield [("", "")]


def whole_lines(data: Mapping[str, Any]) -> Iterator[_Line]:
    """Yield one topic with its segments, relations and history."""
    topic = data["topic"]
    yield [(topic["label"], "bold"), (f"  importance {topic['importance']:.3g}  {topic['topic_id']}", "dim")]
    yield from _below(topic)
    weeks = render.spark(topic["weeks"], blocks=True) if render.draws_blocks() else " ".join(map(str, topic["weeks"]))
    yield [("   By week: ", "dim"), (weeks, "cyan")]
    for node in data["nodes"]:
        yield from _segment(node)
    if data["related"]:
        yield [("   Related:", "dim")]
        yield from _relation_lines(data["related"])
    if "history" in data:
        yield [("   History:", "dim")]
    for turn in data.get("history", ()):
        other = " ".join(turn[name] for name in ("label", "topic_id") if name in turn)
        yield [(f"   - {turn['when']}  {turn['what']} {other}".rstrip(), "")]


def _relation_lines(related: Iterable[Mapping[str, Any]]) -> Iterator[_Line]:
    for topic in related:
        yield [(f"   - {topic['label']}", ""), (f"  {_kind(topic)}  {topic['topic_id']}", "dim")]


def _kind(relation: Mapping[str, Any]) -> str:
    return f"{relation['kind'].replace('_', ' ')} {relation['strength']:.2f}"


def _below(topic: Mapping[str, Any]) -> Iterator[_Line]:
    yield [(f"   {_when(topic)}", "")]
    if "parts" in topic:
        yield [("   Topics: ", "dim"), ("; ".join(topic["parts"]), "")]
    if "keywords" in topic:
        yield [("   Keywords: ", "dim"), (", ".join(topic["keywords"]), "")]


def _segment(node: Mapping[str, Any]) -> Iterator[_Line]:
    yield from _node(node)
    for bullet in node.get("bullets", ()):
        kind = f"{bullet['kind']}: " if "kind" in bullet else ""
        yield from _statement(f"{kind}{bullet['text']}", bullet["grip_ids"])


def _node(node: Mapping[str, Any]) -> Iterator[_Line]:
    when = node["when"].replace("T", " ")
    project = f"  {render.project_name(node['project'])}" if "project" in node else ""
    yield [(f"   - {when}", "green"), (f"  {node['title']}", ""), (f"  {node['relevance']:.2f}", "dim")]
    yield [(f"       {node['node_id']}{project}", "dim")]


def _statement(text: str, grips: Sequence[str]) -> Iterator[_Line]:
    if text:
        yield from ([(line, "")] for line in render.wrap_text(text, "       "))
    if grips:
        yield [(f"       {' '.join(f'[{grip}]' for grip in grips)}", "dim")]
