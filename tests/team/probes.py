"""Every way to ask a team's server, with a caller's own ids and words, another's, or nobody's; what each answer gives away."""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.daemon.http_client import Caller
from tests.team.tenants import Handles, Owner, Tenants, word

Arguments = dict[str, Any]
#: What a value is replaced by before two answers are compared.
_PARTS = ("span", "grip", "event", "node", "topic", "project", "session", "agent", "speaker", "text")
#: Times that a call took: two answers differ in them.
_VOLATILE = re.compile(r'(ms|used)"?: ?[0-9.]+')


@dataclass
class Watched(Caller):
    """A caller whose every answer is searched for what belongs to others."""

    tenants: Tenants = field(default_factory=Tenants)
    #: Spaces that the caller may see.
    mine: frozenset[Owner] = frozenset()
    leaks: list[str] = field(default_factory=list)
    #: Answers so far, and those that held a word of the caller's own that was not asked with.
    answers: int = 0
    own: int = 0

    def send(self, method: str, path: str, body: bytes | None = None, **headers: str) -> tuple[int, dict[str, str], bytes]:
        """See Caller."""
        status, told, answer = super().send(method, path, body, **headers)
        asked = f"{method} {path} {self.headers() | headers} {(body or b'').decode('utf-8', 'replace')}"
        text = f"{status} {told} {answer.decode('utf-8', 'replace')}"
        if found := self.tenants.foreign(text, self.mine, asked):
            self.leaks.append(f"{sorted(found)} in the answer {text[:2000]} to {asked[:600]}")
        self.answers += 1
        self.own += bool(self.tenants.foreign(text, self.tenants.all - self.mine, asked))
        return status, told, answer


def honest(own: Handles) -> dict[str, Arguments]:
    """Arguments with which each tool answers about a caller's own memory; none of them takes anything away."""
    query, everything = own.text, {"scope": "all"}
    named = {"query": query, **everything, "detail": "full"}
    return {
        "intelligent_search": named,
        "teleport_search": named,
        "vector_teleport": named,
        "hybrid_search": named,
        "topics_by_query": {"query": query, **everything},
        "search_children": {"query": query, **everything, "child_level": "segment"},
        "search_node": {"node_id": own.node, "query": query, **everything},
        "recall_for": {"file": own.text, **everything},
        "continue_session": everything,
        "handoff": everything,
        "navigate": {"query": query, **everything},
        "plan_query": {"query": query},
        "classify_query": {"query": query},
        "get_retrieval_status": {"detail": "full"},
        "browse_toc": {"node_id": "toc:year:2026", **everything},
        "get_toc_root": dict(everything),
        "get_node": {"node_id": own.node, **everything, "detail": "full"},
        "get_events": {**everything, "detail": "full"},
        "expand_grip": {"grip_id": own.grip},
        "get_teleport_status": {},
        "get_vector_index_status": {},
        "get_topic_graph_status": {},
        "get_top_topics": {**everything, "fine": True},
        "get_toc_nodes_for_topic": {"topic_id": own.topic},
        "get_related_topics": {"topic_id": own.topic},
        "refine_due": dict(everything),
        "refine_show": {"node_id": own.node},
        "list_projects": {},
        "list_agents": {},
        "get_agent_activity": {"since": "2026-01-01", "until": "2026-02-01", **everything},
        "list_spaces": {},
        "search_spaces": {"query": query},
        "remember": {"text": f"Note that the {own.text} is sold."},
        "ingest_events": {"events": [{"session_id": own.session, "role": "user", "text": f"Sold: {own.text}.", "id": "e1"}]},
        "pin": {"id": own.grip},
        "label_topic": {"topic_id": own.topic, "label": own.text},
        "refine_summary": {
            "node_id": own.node,
            "title": f"Where is the {own.text}",
            "bullets": [{"text": f"The {own.text} is kept in the cellar.", "grip_ids": [own.grip]}],
        },
        "correct": {"grip_id": own.span, "text": f"The {own.text} is kept in the attic."},
        "retract": {"grip_id": own.grip},
        "alias_project": {"project": own.project, "same_as": own.project},
        "split_project": {"project": own.project, "sessions": ["none"]},
        "undo_project": {"project": own.project},
        "forget": {"value": own.text, "dry_run": True},
        "rebuild_index": {"index_type": "bm25"},
        "prune_index": {"index_type": "bm25", "age_days": 3000},
        "pause_capture": {},
        "resume_capture": {},
    }


#: Which of another's values an argument of that name is forged with.
_FORGED: Mapping[str, tuple[str, ...]] = {
    "grip_id": ("grip", "span"),
    "node_id": ("node",),
    "parent_id": ("node",),
    "event_id": ("event",),
    "event": ("event",),
    "session_id": ("session",),
    "session": ("session",),
    "topic_id": ("topic",),
    "topic": ("topic",),
    "project": ("project",),
    "same_as": ("project",),
    "agent": ("agent",),
    "speaker": ("speaker",),
    "query": ("text",),
    "value": ("text",),
    "why_not": ("grip", "span", "node", "event", "topic"),
    "id": ("grip", "span", "node", "topic"),
}
#: Tools that store what they are told: another's words would be the caller's own from then on.
_STORES = frozenset({"remember", "ingest_events", "label_topic"})


def forged(tool: str, known: Mapping[str, Any], own: Handles, other: Handles) -> Iterator[tuple[str, Arguments]]:
    """A tool's honest arguments with one of them replaced by another's, and what was replaced."""
    base = honest(own)[tool]
    for name, parts in _FORGED.items():
        if name not in known or (tool in _STORES and name != "topic_id"):
            continue
        for part in parts:
            if tool == "forget":
                # In earnest: what is another's is not there to be forgotten.
                yield f"{name}={part}", {name: getattr(other, part), "dry_run": False}
            else:
                yield f"{name}={part}", {**base, name: getattr(other, part)}
    if tool == "search_spaces":
        yield "spaces", {**base, "spaces": [word("n", other.owner)]}
    if tool == "split_project":
        yield "sessions", {**base, "sessions": [other.session]}
    if tool == "refine_summary":
        yield "bullets", {**base, "bullets": [{"text": "The cellar is dry.", "grip_ids": [other.grip, other.span]}]}


def alike(answer: object, handles: Handles) -> str:
    """An answer with what was asked for made the same whoever it belongs to."""
    text = json.dumps(answer, sort_keys=True)
    for part in _PARTS:
        value = getattr(handles, part)
        for spelled in (value, value.lower(), value.rpartition(":")[2]):
            text = text.replace(spelled, f"<{part}>")
    return _VOLATILE.sub("<time>", text.replace(word("n", handles.owner), "<space>"))


@dataclass(frozen=True)
class Probe:
    """A request of the protocol, by name."""

    name: str
    ask: Callable[[Caller, Handles], object]
    #: Whether the value is looked for: words are compared with all that there is, and near ones are found for any.
    looks: bool = False


def _resource(form: str) -> Probe:
    return Probe(f"resource {form}", lambda caller, of: caller.ask("resources/read", uri=f"memory://{form.format(of=of)}"))


def _prompt(name: str, argument: str, part: str) -> Probe:
    def ask(caller: Caller, of: Handles) -> object:
        return caller.ask("prompts/get", name=name, arguments={argument: getattr(of, part)})

    return Probe(f"prompt {name}", ask, looks=part == "text")


def _completion(name: str, part: str) -> Probe:
    ref = {"type": "ref/resource", "uri": "memory://session/{+session_id}"}

    def ask(caller: Caller, of: Handles) -> object:
        typed = getattr(of, part)
        values = (typed, typed[:-2], typed.rpartition("/")[2])
        return [caller.ask("completion/complete", ref=ref, argument={"name": name, "value": value}) for value in values]

    return Probe(f"completion {name}", ask)


#: Each with another's values instead of the caller's own.
PROBES = (
    *(
        _resource(form)
        for form in ("toc/{of.node}", "grip/{of.grip}", "grip/{of.span}", "session/{of.session}", "topic/{of.topic}")
    ),
    *(_resource(form) for form in ("toc/toc:root/{of.event}", "session/{of.agent}", "grip/{of.event}", "toc/{of.project}")),
    *(_prompt(name, argument, "text") for name, argument in (("recall", "topic"), ("what_did_we_decide", "about"))),
    _prompt("weekly_digest", "week", "node"),
    _prompt("continue_session", "session_id", "session"),
    *(_completion(name, name) for name in ("project", "agent")),
    _completion("session_id", "session"),
    _completion("node_id", "node"),
    _completion("topic_id", "topic"),
)


def look_around(caller: Caller) -> None:
    """Everything that is asked without a value."""
    for method in ("tools/list", "resources/list", "resources/templates/list", "prompts/list"):
        assert "error" not in caller.ask(method)
    for uri in ("status", "toc/toc:root", "toc/toc:year:2026", "toc/2026-W02", "nothing"):
        caller.ask("resources/read", uri=f"memory://{uri}")
    for name in ("weekly_digest", "continue_session"):
        caller.ask("prompts/get", name=name, arguments={})
    for name in ("project", "agent", "session_id", "node_id", "topic_id", "week"):
        ref = {"type": "ref/resource", "uri": "memory://session/{+session_id}"}
        caller.ask("completion/complete", ref=ref, argument={"name": name, "value": ""})
    params = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
    hello = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}
    assert caller.send("POST", "/mcp", json.dumps(hello).encode())[0] == 200
    for path in "/health/live /health/ready /metrics /share /share/team /share/team/changes / /mcp /nothing".split():
        caller.send("GET", path)
