"""Every request asked at both doors, the server's tools and the command line: the same responses and the same errors."""

import io
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from typing import Any

import pytest
from mcp import Client

from memory_mcp.app import App
from memory_mcp.cli import render
from memory_mcp.cli.commands.base import SESSION, Session
from memory_mcp.cli.main import perform
from memory_mcp.config import ServerSettings, Settings
from memory_mcp.indexes.topics import keeper
from memory_mcp.requests import plain
from memory_mcp.requests.registry import REQUESTS, load_entry, respond
from memory_mcp.requests.scope import Caller
from memory_mcp.search.layers.base import Query
from memory_mcp.storage.settings import StorageSettings
from tests.factories import BILLING, SHOP, SITE, a_day_of_drafts, ms
from tests.fakes import FakeClock
from tests.indexes.topics.conftest import Here
from tests.interaction.conftest import Door
from tests.requirements import requirement


@dataclass(frozen=True)
class Command:
    """How a request is written on the command line."""

    words: tuple[str, ...]
    #: Arguments that stand without a flag.
    plain: tuple[str, ...] = ()
    #: Flags that are not called as their arguments are.
    flags: Mapping[str, str] = field(default_factory=dict)


_FILTERED = {"doc_type": "type"}
COMMANDS = {
    "intelligent_search": Command(("ask",), ("query",)),
    "recall_for": Command(("how",), ("command",)),
    "handoff": Command(("handoff",), ("session_id",)),
    "teleport_search": Command(("teleport", "search"), ("query",), _FILTERED),
    "vector_teleport": Command(("teleport", "vector"), ("query",), _FILTERED),
    "hybrid_search": Command(("teleport", "hybrid"), ("query",), _FILTERED),
    "expand_grip": Command(("query", "expand-grip"), ("grip_id",)),
    "browse_toc": Command(("query", "browse"), ("node_id",)),
    "get_node": Command(("query", "node"), ("node_id",)),
    "get_toc_root": Command(("query", "root")),
    "get_events": Command(("query", "events"), flags={"session_id": "session", "node_id": "node", "event_id": "event"}),
    "search_children": Command(("search",), ("query",), {"parent_id": "parent", "child_level": "level"}),
    "search_node": Command(("search",), ("query",), {"node_id": "node"}),
    "navigate": Command(("navigate",), ("query",), {"node_id": "node"}),
    "plan_query": Command(("retrieval", "plan"), ("query",)),
    "classify_query": Command(("retrieval", "classify"), ("query",)),
    "get_retrieval_status": Command(("retrieval", "status")),
    "get_teleport_status": Command(("teleport", "status")),
    "refine_due": Command(("refine", "due")),
    "refine_show": Command(("refine", "show"), ("node_id",)),
    "refine_summary": Command(("refine", "write"), ("node_id",)),
    "prune_index": Command(("admin",)),
    "topics_by_query": Command(("topics", "explore"), ("query",)),
    "get_top_topics": Command(("topics", "top")),
    "get_toc_nodes_for_topic": Command(("topics", "nodes"), ("topic_id",)),
    "get_related_topics": Command(("topics", "related"), ("topic_id",)),
    "get_topic_graph_status": Command(("topics", "status")),
    "label_topic": Command(("topics", "label"), ("topic_id", "label")),
    "pin": Command(("topics", "pin"), ("id",)),
    "forget": Command(("forget",)),
    "list_projects": Command(("projects",)),
    "list_agents": Command(("agents",)),
    "get_agent_activity": Command(("activity",)),
    "alias_project": Command(("projects", "alias"), ("project", "same_as")),
    "pause_capture": Command(("pause",), (), {"duration": "for"}),
    "resume_capture": Command(("resume",)),
    "undo_project": Command(("projects", "undo"), ("project",)),
    "correct": Command(("correct",), ("grip_id", "text")),
    "retract": Command(("retract",), ("grip_id",)),
}
#: What is not paused is recorded: nothing is to be done, and nothing is wrong. There is always a root.
NEVER_REFUSED = {"resume_capture", "get_toc_root"}
#: No command asks these alone: agents write, one builds several indexes and shows how far it is, another has the status of
#: both, a person splits a project in the explorer.
TOOLS_ALONE = {
    "continue_session",
    "reject_hint",
    "rebuild_index",
    "get_vector_index_status",
    "split_project",
    "remember",
    "ingest_events",
}
#: The explorer's pages alone ask these: how they show what other requests and commands tell.
PAGES_ALONE = {"export_shown", "list_runs", "list_paused", "list_clients"}
#: No tool asks these: one is for the person who pays, one for whoever looks after a memory, the other is what a resource reads.
COMMANDS_ALONE = {
    "get_spend": Command(("spend",)),
    "audit": Command(("admin", "audit")),
    "get_today": Command(("today",)),
    "list_hints": Command(("hints",)),
    "get_friction": Command(("rules", "list")),
    "get_timeline": Command(("timeline",)),
    "list_excluded": Command(("exclude", "list")),
    "exclude": Command(("exclude", "add")),
    "include": Command(("exclude", "remove")),
    "get_overview": Command(("admin", "overview")),
    "list_jobs": Command(("scheduler", "status")),
    "run_job": Command(("scheduler", "run"), ("name",)),
    "pause_job": Command(("scheduler", "pause"), ("name",)),
    "resume_job": Command(("scheduler", "resume"), ("name",)),
    "get_topic_map": Command(("topics", "map")),
    "get_topic": Command(("topics", "explore"), ("topic_id",)),
}
#: A quotation of the small history.
GRIP = "the newest grip"
#: The segment it lies in.
SEGMENT = "the newest segment"
#: The event that it quotes.
EVENT = "the newest event"
#: The topic that the shop talks about most.
TOPIC = "the shop's topic"
NO_GRIP = "grip:1768986120000:0123456789abcdef"
NO_TOPIC = "topic:0123456789ab"
FOUND: list[tuple[str, dict[str, Any]]] = [
    ("intelligent_search", {"query": "what did we decide about the retry queue last week"}),
    (
        "intelligent_search",
        {"query": "retry queue", "since": "2026-02-02", "until": "last Tuesday", "limit": 3, "project": "billing"},
    ),
    ("intelligent_search", {"query": "where is the idempotency key", "intent": "explore", "mode": "sequential", "scope": "all"}),
    ("intelligent_search", {"query": "retry queue", "token_budget": 300, "tz": "America/New_York"}),
    ("intelligent_search", {"query": "xylophone", "why_not": GRIP}),
    ("intelligent_search", {"query": "retry queue", "role": "user", "detail": "full", "bounds": {"max_nodes_visited": 40}}),
    ("recall_for", {"command": "pytest", "scope": "all"}),
    ("handoff", {"scope": "all"}),
    ("teleport_search", {"query": "retry queue", "doc_type": "grip", "limit": 3}),
    ("teleport_search", {"query": "retry queue", "role": "assistant", "until": "2026-W05"}),
    ("teleport_search", {"query": "retry queue", "level": "day", "since": "2026-02", "detail": "full", "project": "billing"}),
    ("vector_teleport", {"query": "retry queue", "min_similarity": 0.2, "scope": "all"}),
    ("hybrid_search", {"query": "retry queue", "agent": "codex"}),
    ("expand_grip", {"grip_id": GRIP}),
    ("expand_grip", {"grip_id": GRIP, "before": 1, "after": 0, "token_budget": 200}),
    ("browse_toc", {}),
    ("browse_toc", {"node_id": "2026-01", "limit": 3}),
    ("browse_toc", {"node_id": "2026-W05", "project": "billing"}),
    ("browse_toc", {"node_id": "last week", "scope": "all"}),
    ("get_node", {"node_id": "toc:month:2026:02"}),
    ("get_node", {"node_id": "2026-02", "limit": 2, "detail": "full"}),
    ("get_node", {"node_id": "2026-02-12", "detail": "full", "project": SHOP}),
    ("get_toc_root", {}),
    ("get_toc_root", {"scope": "all"}),
    ("get_events", {"since": "yesterday"}),
    ("get_events", {"since": "2026-02-09", "until": "last Tuesday", "limit": 7, "project": "acme/billing"}),
    ("get_events", {"session_id": "billing-2026-02-12"}),
    ("get_events", {"since": 1_770_000_000_000, "token_budget": 400}),
    ("get_events", {"node_id": SEGMENT, "scope": "all", "detail": "full", "text_limit": 40}),
    ("get_events", {"event_id": EVENT, "before": 3, "after": 2, "detail": "full"}),
    ("get_events", {"event_id": EVENT, "offset": 5, "text_limit": 20}),
    ("search_children", {"query": "refresh token rotation", "child_level": "segment"}),
    ("search_children", {"query": "decided cause", "parent_id": "last week", "limit": 3, "fields": ["title", "bullets"]}),
    ("search_children", {"query": "decided cause", "parent_id": "2026", "token_budget": 300, "scope": "all"}),
    ("search_children", {"query": "xylophone", "parent_id": "2026", "project": "shop"}),
    ("search_node", {"query": "decided cause", "node_id": "2026-01"}),
    ("search_node", {"query": "xylophone", "node_id": "2026-W06", "fields": ["summary"], "limit": 2}),
    ("navigate", {"query": "the refresh token rotation decided last week"}),
    ("navigate", {"query": "decided cause", "node_id": "2026-W05", "limit": 2, "project": "billing"}),
    ("navigate", {"query": "decided cause", "since": "last week", "bounds": {"max_nodes_visited": 4, "max_token_budget": 300}}),
    ("navigate", {"query": "xylophone", "as_of": "2026-01-30", "scope": "all"}),
    ("navigate", {"query": "decided cause of the failed test", "role": "user", "scope": "all"}),
    ("plan_query", {"query": "what did we decide about the queue last week", "without": ["bm25"]}),
    ("plan_query", {"query": "where is `parse_ledger`", "intent": "explore", "mode": "parallel", "as_of": "yesterday"}),
    ("classify_query", {"query": "why did it fail on Tuesday", "as_of": "2026-01-30", "tz": "America/New_York"}),
    ("classify_query", {"query": "quickly: the retry queue", "timeout_ms": 300}),
    ("get_retrieval_status", {}),
    ("get_retrieval_status", {"detail": "full"}),
    ("get_teleport_status", {}),
    ("refine_due", {}),
    ("refine_due", {"day": "last week", "limit": 3, "project": "billing"}),
    ("refine_due", {"day": "2026-02-12", "scope": "all"}),
    ("refine_show", {"node_id": "2026-02-12"}),
    ("refine_show", {"node_id": SEGMENT, "token_budget": 1000, "scope": "all"}),
    (
        "refine_summary",
        {"node_id": SEGMENT, "title": "The retry queue", "bullets": [{"text": "Told anew.", "grip_ids": [GRIP]}], "scope": "all"},
    ),
    (
        "refine_summary",
        {
            "node_id": "2026-02",
            "title": "A month of three projects",
            "bullets": [{"text": "We decided on an outbox.", "grip_ids": [GRIP], "kind": "decision"}],
            "summary": "All three went on.",
            "keywords": ["outbox", "queue"],
            "scope": "all",
        },
    ),
    ("prune_index", {"index_type": "bm25", "age_days": 10_000}),
    ("prune_index", {"index_type": "vector", "age_days": 10_000, "level": "day"}),
    ("topics_by_query", {"query": "why does the checkout time out"}),
    ("topics_by_query", {"query": "invoices and the ledger", "limit": 2, "project": "billing"}),
    ("topics_by_query", {"query": "fonts, dark mode and carts", "token_budget": 400, "scope": "all"}),
    ("topics_by_query", {"query": "xylophone"}),
    ("get_top_topics", {}),
    ("get_top_topics", {"limit": 2, "scope": "all"}),
    ("get_top_topics", {"fine": True}),
    ("get_top_topics", {"since": "2026-02-02", "until": "last Tuesday", "agent": "codex", "project": "billing"}),
    ("get_toc_nodes_for_topic", {"topic_id": TOPIC}),
    ("get_toc_nodes_for_topic", {"topic_id": TOPIC, "limit": 3, "project": "shop"}),
    ("get_related_topics", {"topic_id": TOPIC, "limit": 1, "scope": "all"}),
    ("get_topic_graph_status", {}),
    ("label_topic", {"topic_id": TOPIC, "label": "checkout under load"}),
    ("label_topic", {"topic_id": TOPIC, "label": "what the shop does", "project": "shop"}),
    ("label_topic", {"topic_id": TOPIC, "scope": "all"}),
    ("pin", {"id": TOPIC}),
    ("forget", {"value": "retry queue"}),
    ("forget", {"project": "shop", "since": "2026-01-20"}),
    ("forget", {"topic": TOPIC}),
    ("pin", {"id": TOPIC, "on": False}),
    ("list_projects", {}),
    ("list_agents", {}),
    ("get_agent_activity", {}),
    ("get_agent_activity", {"days": 7, "agent": "codex", "scope": "all"}),
    ("get_agent_activity", {"since": "2026-01", "until": "2026-02-03", "project": "shop"}),
    ("get_agent_activity", {"since": "2019", "until": "2020"}),
    ("alias_project", {"project": "site", "same_as": "shop"}),
    ("list_projects", {"limit": 3}),
    ("undo_project", {"project": SITE}),
    ("pause_capture", {"project": "shop", "duration": "2h"}),
    ("resume_capture", {"project": SHOP}),
    ("correct", {"grip_id": GRIP, "text": "The outbox is not used.", "reason": "measured again", "kind": "decision"}),
    ("retract", {"grip_id": GRIP, "reason": "nobody meant it"}),
]
PAGED: list[tuple[str, dict[str, Any]]] = [
    ("intelligent_search", {"query": "can you find out why", "limit": 2}),
    ("browse_toc", {"node_id": "2026-02", "limit": 1}),
    ("get_events", {"since": "2026-02-09", "limit": 9}),
    ("get_events", {"node_id": SEGMENT, "limit": 2, "scope": "all"}),
    ("get_node", {"node_id": "2026-02", "limit": 1, "detail": "full"}),
    ("search_children", {"query": "decided cause", "child_level": "segment", "limit": 4}),
    ("get_top_topics", {"fine": True, "limit": 1}),
    ("get_toc_nodes_for_topic", {"topic_id": TOPIC, "limit": 2}),
    ("list_projects", {"limit": 1}),
]
NO_PROOF = {"text": "Made up.", "grip_ids": [NO_GRIP]}
REFUSED: list[tuple[str, dict[str, Any], str]] = [
    ("recall_for", {"command": " "}, "INVALID_ARGUMENT: nothing was asked for"),
    ("handoff", {"session_id": "none"}, "NOT_FOUND: no session none"),
    ("intelligent_search", {"query": " "}, "INVALID_ARGUMENT: the query is empty"),
    ("intelligent_search", {"query": "a", "since": "soonish"}, "INVALID_ARGUMENT: invalid since: 'soonish'"),
    ("intelligent_search", {"query": "a", "intent": "guess"}, "INVALID_ARGUMENT: intent must be 'explore', 'answer'"),
    ("intelligent_search", {"query": "a", "limit": 101}, "INVALID_ARGUMENT: limit must be at most 100"),
    ("intelligent_search", {"query": "a", "cursor": "zzz"}, "INVALID_ARGUMENT: the cursor is damaged"),
    ("intelligent_search", {"query": "a", "detail": "huge"}, "INVALID_ARGUMENT: detail must be 'lean' or 'full'"),
    ("intelligent_search", {"query": "a", "token_budget": -1}, "INVALID_ARGUMENT: token_budget must be at least 0"),
    ("intelligent_search", {"query": "a", "role": "boss"}, "INVALID_ARGUMENT: role must be 'user', 'assistant' or 'tool'"),
    ("intelligent_search", {"query": "a", "speaker": "nobody"}, "INVALID_ARGUMENT: unknown speaker: 'nobody'"),
    ("intelligent_search", {"query": "a", "why_not": "2019-W01"}, "NOT_FOUND: no node toc:week:2019-W01"),
    ("teleport_search", {"query": "a", "role": "boss"}, "INVALID_ARGUMENT: role must be 'user', 'assistant' or 'tool'"),
    ("teleport_search", {"query": "a", "level": "decade"}, "INVALID_ARGUMENT: level must be 'year', 'month'"),
    ("teleport_search", {"query": "a", "doc_type": "page"}, "INVALID_ARGUMENT: doc_type must be 'toc_node' or 'grip'"),
    ("vector_teleport", {"query": "a", "min_similarity": 2}, "INVALID_ARGUMENT: min_similarity must be at most 1"),
    ("hybrid_search", {"query": "a", "project": "nobody"}, "INVALID_ARGUMENT: no project is called 'nobody'"),
    ("expand_grip", {"grip_id": "nonsense"}, "INVALID_ARGUMENT: "),
    ("expand_grip", {"grip_id": NO_GRIP}, "NOT_FOUND: no grip grip:1768986120000"),
    ("expand_grip", {"grip_id": NO_GRIP, "before": 51}, "INVALID_ARGUMENT: before must be at most 50"),
    ("browse_toc", {"node_id": "nonsense"}, "INVALID_ARGUMENT: not a node id"),
    ("browse_toc", {"node_id": "2019-05"}, "NOT_FOUND: no node toc:month:2019-05"),
    ("browse_toc", {"node_id": "2026-W60"}, "NOT_FOUND: no node toc:week:2026-W60"),
    ("browse_toc", {"limit": 0}, "INVALID_ARGUMENT: limit must be at least 1"),
    ("browse_toc", {"limit": 1001}, "INVALID_ARGUMENT: limit must be at most 1000"),
    ("browse_toc", {"cursor": "nonsense"}, "INVALID_ARGUMENT: the cursor is damaged"),
    ("browse_toc", {"project": "nobody"}, "INVALID_ARGUMENT: no project is called 'nobody'. Projects: "),
    ("get_node", {"node_id": "toc:segment:2026-02-12:0123456789ab"}, "NOT_FOUND: no node toc:segment:2026-02-12:0123456789ab"),
    ("get_events", {"since": "soonish"}, "INVALID_ARGUMENT: invalid since: 'soonish'"),
    ("get_events", {"until": "2026-13"}, "INVALID_ARGUMENT: invalid until: '2026-13'"),
    ("get_events", {"since": "2026-02-01", "until": "2026-01-01"}, "INVALID_ARGUMENT: since must lie before until"),
    ("get_events", {"cursor": "zzz"}, "INVALID_ARGUMENT: the cursor is damaged"),
    ("get_events", {"limit": 0}, "INVALID_ARGUMENT: limit must be at least 1"),
    ("get_events", {"node_id": "2026-02"}, "INVALID_ARGUMENT: toc:month:2026-02 is no segment"),
    ("get_events", {"event_id": "01M3VEG5803EZ85JF0X1NGH2ZA"}, "NOT_FOUND: no event 01M3VEG5803EZ85JF0X1NGH2ZA"),
    ("get_events", {"event_id": "01M3VEG5803EZ85JF0X1NGH2ZA", "since": "yesterday"}, "INVALID_ARGUMENT: event_id names one"),
    ("get_events", {"before": 3}, "INVALID_ARGUMENT: before, after and offset belong to event_id"),
    ("get_events", {"event_id": "nonsense"}, "INVALID_ARGUMENT: "),
    ("get_events", {"detail": "huge"}, "INVALID_ARGUMENT: detail must be 'lean' or 'full'"),
    ("get_node", {"node_id": "2026-02", "cursor": "nonsense"}, "INVALID_ARGUMENT: the cursor is damaged"),
    ("get_events", {"project": "ill"}, "INVALID_ARGUMENT: no project is called 'ill'"),
    ("search_children", {"query": " "}, "INVALID_ARGUMENT: the query is empty"),
    ("search_children", {"query": "a", "limit": 101}, "INVALID_ARGUMENT: limit must be at most 100"),
    ("search_children", {"query": "a", "child_level": "decade"}, "INVALID_ARGUMENT: child_level must be 'year', 'month'"),
    ("search_children", {"query": "a", "fields": ["body"]}, "INVALID_ARGUMENT: fields.0 must be 'title'"),
    (
        "search_children",
        {"query": "a", "parent_id": "2026-02-12", "child_level": "month"},
        "INVALID_ARGUMENT: month is not below",
    ),
    ("search_node", {"query": "a", "node_id": "2019"}, "NOT_FOUND: no node toc:year:2019"),
    ("search_node", {"query": "a", "node_id": "2026", "token_budget": -1}, "INVALID_ARGUMENT: token_budget must be at least 0"),
    ("navigate", {"query": ""}, "INVALID_ARGUMENT: the query is empty"),
    ("navigate", {"query": "a", "node_id": "2019-W01"}, "NOT_FOUND: no node toc:week:2019-W01"),
    ("navigate", {"query": "a", "role": "nobody"}, "INVALID_ARGUMENT:"),
    ("navigate", {"query": "a", "speaker": "nobody"}, "INVALID_ARGUMENT: unknown speaker: 'nobody'"),
    ("navigate", {"query": "a", "limit": 0}, "INVALID_ARGUMENT: limit must be at least 1"),
    ("navigate", {"query": "a", "until": "soon"}, "INVALID_ARGUMENT: invalid until: 'soon'"),
    ("navigate", {"query": "a", "project": "nobody"}, "INVALID_ARGUMENT: no project is called 'nobody'"),
    ("plan_query", {"query": "a", "intent": "guess"}, "INVALID_ARGUMENT: intent must be 'explore', 'answer'"),
    ("plan_query", {"query": "a", "mode": "fast"}, "INVALID_ARGUMENT: mode must be 'sequential', 'parallel' or 'hybrid'"),
    ("plan_query", {"query": "a", "without": ["bm52"]}, "INVALID_ARGUMENT: "),
    ("plan_query", {"query": "a", "as_of": "soon"}, "INVALID_ARGUMENT: invalid as_of: 'soon'"),
    ("classify_query", {"query": "a", "tz": "Middle/Earth"}, "INVALID_ARGUMENT: unknown time zone: 'Middle/Earth'"),
    ("get_retrieval_status", {"detail": "huge"}, "INVALID_ARGUMENT: detail must be 'lean' or 'full'"),
    ("refine_due", {"day": "soonish"}, "INVALID_ARGUMENT: invalid day: 'soonish'"),
    ("refine_due", {"limit": 0}, "INVALID_ARGUMENT: limit must be at least 1"),
    ("refine_show", {"node_id": "toc:root"}, "INVALID_ARGUMENT: the root has no summary"),
    ("refine_show", {"node_id": "2019-05"}, "NOT_FOUND: no node toc:month:2019-05"),
    ("refine_show", {"node_id": "2026", "token_budget": 10}, "INVALID_ARGUMENT: token_budget must be at least 1000"),
    ("refine_summary", {"node_id": "2019", "title": "x1", "bullets": [NO_PROOF]}, "NOT_FOUND: no node toc:year:2019"),
    ("refine_summary", {"node_id": "2026", "title": " ", "bullets": [NO_PROOF]}, "INVALID_ARGUMENT: title is empty"),
    ("refine_summary", {"node_id": "2026", "title": "x1", "bullets": [NO_PROOF]}, "NOT_FOUND: no grip grip:1768986120000"),
    ("prune_index", {"index_type": "bm25", "age_days": 0}, "INVALID_ARGUMENT: age_days must be at least 1"),
    (
        "prune_index",
        {"index_type": "vector", "age_days": 3, "level": "month"},
        "INVALID_ARGUMENT: level must be 'segment', 'day'",
    ),
    ("topics_by_query", {"query": " "}, "INVALID_ARGUMENT: the query is empty"),
    ("topics_by_query", {"query": "a", "limit": 101}, "INVALID_ARGUMENT: limit must be at most 100"),
    ("topics_by_query", {"query": "a", "token_budget": -1}, "INVALID_ARGUMENT: token_budget must be at least 0"),
    ("topics_by_query", {"query": "a", "project": "nobody"}, "INVALID_ARGUMENT: no project is called 'nobody'"),
    ("get_top_topics", {"since": "soonish"}, "INVALID_ARGUMENT: invalid since: 'soonish'"),
    ("get_top_topics", {"limit": 0}, "INVALID_ARGUMENT: limit must be at least 1"),
    ("get_top_topics", {"cursor": "nonsense"}, "INVALID_ARGUMENT: the cursor is damaged"),
    ("get_toc_nodes_for_topic", {"topic_id": "carts"}, "INVALID_ARGUMENT: not a topic id: 'carts'. Topic ids look like"),
    ("get_toc_nodes_for_topic", {"topic_id": NO_TOPIC}, f"NOT_FOUND: no such topic: {NO_TOPIC}. topics_by_query and"),
    ("get_toc_nodes_for_topic", {"topic_id": TOPIC, "project": "billing"}, "NOT_FOUND: no such topic: topic:"),
    ("get_related_topics", {"topic_id": NO_TOPIC}, f"NOT_FOUND: no such topic: {NO_TOPIC}"),
    ("get_related_topics", {"topic_id": TOPIC, "limit": 101}, "INVALID_ARGUMENT: limit must be at most 100"),
    ("label_topic", {"topic_id": TOPIC, "label": "x" * 51}, "INVALID_ARGUMENT: label is too long: at most 50 characters"),
    ("label_topic", {"topic_id": NO_TOPIC, "label": "x"}, f"NOT_FOUND: no such topic: {NO_TOPIC}"),
    ("pin", {"id": NO_TOPIC}, f"NOT_FOUND: no such topic: {NO_TOPIC}"),
    ("forget", {}, "INVALID_ARGUMENT: say what is to be forgotten"),
    ("forget", {"value": "a-1"}, "INVALID_ARGUMENT: a value to forget needs at least 4"),
    ("forget", {"session": "nobody"}, "NOT_FOUND: no such session: nobody"),
    ("forget", {"event": "01M3VEG5803EZ85JF0X1NGH2ZA"}, "NOT_FOUND: no such event"),
    ("list_projects", {"limit": 0}, "INVALID_ARGUMENT: limit must be at least 1"),
    ("get_agent_activity", {"days": 3, "since": "yesterday"}, "INVALID_ARGUMENT: days goes without since and until"),
    ("get_agent_activity", {"days": 3661}, "INVALID_ARGUMENT: days must be at most 3660"),
    ("get_agent_activity", {"since": "soonish"}, "INVALID_ARGUMENT: invalid since: 'soonish'"),
    ("get_agent_activity", {"project": "nobody"}, "INVALID_ARGUMENT: no project is called 'nobody'"),
    ("alias_project", {"project": "nobody", "same_as": "shop"}, "INVALID_ARGUMENT: no project is called 'nobody'"),
    ("alias_project", {"project": "shop", "same_as": "nobody"}, "INVALID_ARGUMENT: no project is called 'nobody'"),
    ("alias_project", {"project": "shop", "same_as": "shop"}, "INVALID_ARGUMENT: "),
    ("correct", {"grip_id": "nonsense", "text": "a"}, "INVALID_ARGUMENT: "),
    ("correct", {"grip_id": GRIP, "text": " "}, "INVALID_ARGUMENT: the text is empty"),
    ("correct", {"grip_id": NO_GRIP, "text": "a"}, "NOT_FOUND: no grip grip:1768986120000"),
    ("retract", {"grip_id": NO_GRIP}, "NOT_FOUND: no grip grip:1768986120000"),
    ("pause_capture", {"project": "shop", "duration": "soon"}, "INVALID_ARGUMENT: 'soon' is no duration"),
    ("undo_project", {"project": "nobody"}, "NOT_FOUND: nothing was said of 'nobody' that could be taken back"),
]


@dataclass
class Doors:
    """One open memory and both ways into it, for a caller who works on a project or on none."""

    app: App
    caller: str

    def tool(self, name: str, arguments: dict[str, Any]) -> tuple[dict[str, Any] | None, str]:
        """Return the structured answer of a tool, or the text of its error."""
        found = Door(self.app, "auto", self.caller).call(name, **arguments)
        [block] = found.content
        return (None, str(block.text)) if found.is_error else (found.structured_content, "")  # type: ignore[union-attr]

    def command(self, name: str, arguments: dict[str, Any]) -> tuple[dict[str, Any] | None, str]:
        """Return the JSON of the command, or the line of its error."""
        out, err = io.StringIO(), io.StringIO()
        terminal = render.TERMINAL.set(render.Terminal(out, err))
        session = SESSION.set(Session(self.app, "/", {"CLAUDE_PROJECT_DIR": self.caller}, lambda: None))
        try:
            status = perform([*argv(name, arguments), "--json"])
        finally:
            SESSION.reset(session)
            render.TERMINAL.reset(terminal)
        assert bool(status) is not bool(out.getvalue()), err.getvalue()
        return (None, err.getvalue().strip()) if status else (json.loads(out.getvalue()), "")


def argv(name: str, arguments: Mapping[str, Any]) -> list[str]:
    """Return a request as it is typed."""
    command = (COMMANDS | COMMANDS_ALONE)[name]
    if name == "refine_summary":
        words = {key: value for key, value in arguments.items() if key not in ("node_id", "scope")}
        everywhere = ["--all"] if "scope" in arguments else []
        return [*command.words, str(arguments["node_id"]), f"--text={json.dumps(words)}", *everywhere]
    typed = [*command.words, *([f"prune-{arguments['index_type']}"] if name == "prune_index" else [])]
    for key, value in arguments.items():
        text = ",".join(value) if isinstance(value, list) else str(value)
        if key == "index_type":
            continue
        if key == "bounds":
            typed += [f"--{bound.replace('_', '-')}={limit}" for bound, limit in value.items()]
        elif key == "scope":
            typed += ["--all"]
        elif key == "fine":
            typed += ["--fine"]
        elif key == "on":
            typed += [] if value else ["--off"]
        elif key in command.plain:
            typed += [text]
        else:
            typed += [f"--{command.flags.get(key, key).replace('_', '-')}={text}"]
    return typed


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Iterator[App]:
    """Days of four weeks of three projects, 480 events; today is the Monday after."""
    place = tmp_path_factory.mktemp("doors")
    storage = StorageSettings(str(place / "data"), "Europe/Berlin")
    made = App(Settings(storage=storage, server=ServerSettings(profile="full")), FakeClock(ms("2026-02-16 09:00")))
    made.settings_file = place / "config.toml"
    days = ("01-21", "01-29", "01-30", "02-03", "02-05", "02-09", "02-10", "02-11", "02-12", "02-13")
    made.write([d for day in days for d in a_day_of_drafts(f"2026-{day}")], "jsonl")
    made.derivation.run()
    made.accelerators.catch_up()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(keeper, "Child", Here)
        made.topics.rebuild_graph()
    yield made
    made.close()


CALLERS = {"nowhere": "", "in a project": SHOP}
#: What these leave behind is what later questions find: they are asked for both.
LASTING = {"correct", "retract"}


def by_turns(asked: list[tuple[str, dict[str, Any]]]) -> pytest.MarkDecorator:
    """Requests for either caller; the short form asks every other one for one of them."""
    slow = [pytest.mark.slow]
    sets = [
        pytest.param(
            caller, name, arguments, id=f"{where}-{name} {arguments}", marks=slow * (name not in LASTING and (number + turn) % 2)
        )
        for turn, (where, caller) in enumerate(CALLERS.items())
        for number, (name, arguments) in enumerate(asked)
    ]
    return pytest.mark.parametrize(("doors", "name", "arguments"), sets, indirect=["doors"])


@pytest.fixture(params=list(CALLERS.values()), ids=list(CALLERS))
def doors(app: App, request: pytest.FixtureRequest) -> Doors:
    return Doors(app, str(request.param))


def newest_grip(app: App) -> str:
    """Return the citation of the newest statement of the memory."""
    [best] = app.ask(Query("retry queue", 1)).hits
    return str(best.grip_ids[0])


def stood_for(app: App, arguments: dict[str, Any]) -> dict[str, Any]:
    """Return arguments with what the names of a grip, a segment and a topic stand for."""
    grip = newest_grip(app) if any(name in str(arguments) for name in (GRIP, SEGMENT, EVENT)) else ""
    found = segment_id_of(app, grip) if grip else ""
    event = app.evidence.expand_grip(grip, 0, 0).excerpt[0].event_id if grip else ""
    topic = topic_of(app) if TOPIC in str(arguments) else ""
    told = json.dumps(arguments)
    for name, stands_for in ((GRIP, grip), (SEGMENT, found), (EVENT, event), (TOPIC, topic)):
        told = told.replace(f'"{name}"', f'"{stands_for}"')
    return dict(json.loads(told))


def topic_of(app: App, project: str = SHOP) -> str:
    """Return the topic that a project talks about most."""
    return str(app.topics.read_graph().list_topics(app.topics.read_view(project), 1, areas=False)[0][0].topic_id)


def segment_id_of(app: App, grip: str) -> str:
    """Return the segment that holds a citation."""
    key = app.evidence.expand_grip(grip, 0, 0).node_segment
    assert key is not None
    return str(app.storage.toc.get_segments([key])[key].node_id)


def timeless(response: dict[str, Any] | None) -> dict[str, Any]:
    """Return a response without what it took."""
    assert response is not None
    return {name: value for name, value in response.items() if name != "search_time_ms"}


def test_every_request_is_asked_here() -> None:
    assert set(COMMANDS) == {name for name, _ in FOUND}
    alone = TOOLS_ALONE | PAGES_ALONE | set(COMMANDS_ALONE)
    assert {name for name, _ in FOUND} | alone >= set(REQUESTS)
    assert {name for name, *_ in ALONE} == set(COMMANDS_ALONE)
    takes_nothing = {name for name in REQUESTS if not fields(load_entry(name).request)}
    assert {name for name, *_ in REFUSED} | alone | takes_nothing | NEVER_REFUSED == set(REQUESTS)


@requirement("bm25:FR-05.2", "bm25:FR-05.3", "plan:cli-search-parent")
@by_turns(FOUND)
def test_a_request_has_the_same_response_at_both_doors(doors: Doors, name: str, arguments: dict[str, Any]) -> None:
    arguments = stood_for(doors.app, arguments)
    told, error = doors.tool(name, arguments)
    assert not error
    assert steady(timeless(told)) == steady(timeless(doors.command(name, arguments)[0]))


#: Fields whose values pass with the time, and what is free on the disk.
PASSING = ("ms", "elapsed_ms", "search_time_ms", "score_parts", "free", "size_bytes")


def steady(value: Any) -> Any:
    """Return a response without what differs from one call to the next: how long something took, and how old that makes it."""
    if isinstance(value, list):
        return [steady(one) for one in value]
    if not isinstance(value, dict):
        return value
    kept = {name: steady(one) for name, one in value.items() if name not in PASSING}
    if isinstance(disk := kept.get("disk"), dict):
        # The daemon copies rows meanwhile.
        kept["disk"] = {name: size for name, size in disk.items() if name not in ("other", "total")}
    elapsed = kept.get("timeout_ms")
    return {**kept, "timeout_ms": {"limit": elapsed["limit"]}} if isinstance(elapsed, dict) else kept


@by_turns(PAGED)
def test_a_cursor_of_one_door_goes_on_at_the_other(doors: Doors, name: str, arguments: dict[str, Any]) -> None:
    arguments = stood_for(doors.app, arguments)
    first, _ = doors.tool(name, arguments)
    assert first is not None
    second, error = doors.command(name, {**arguments, "cursor": first["next_cursor"]})
    assert second is not None, error
    assert doors.tool(name, {**arguments, "cursor": first["next_cursor"]})[0] == second
    assert doors.tool(name, {**arguments, "cursor": second["next_cursor"]})[0] not in (None, first, second)


@pytest.mark.parametrize("name", dict.fromkeys(name for name, *_ in REFUSED))
def test_a_request_is_refused_in_the_same_words_at_both_doors(app: App, name: str) -> None:
    doors, refused = Doors(app, ""), [(stood_for(app, arguments), error) for asked, arguments, error in REFUSED if asked == name]

    async def ask(client: Client) -> list[Any]:
        return [await client.call_tool(name, arguments) for arguments, _ in refused]

    for (arguments, error), found in zip(refused, Door(app, "auto").run(ask), strict=True):
        [block] = found.content
        assert found.is_error, arguments
        assert block.text.startswith(error), arguments
        assert block.text.startswith(doors.command(name, arguments)[1]), arguments


SPAN = "INVALID_ARGUMENT: days goes without since and until"
NO_JOB = "INVALID_ARGUMENT: no job is called 'rollup'. Jobs: "
#: What only a command asks: arguments, arguments that are wrong, and how the error begins; "" where none can be wrong.
ALONE: list[tuple[str, dict[str, Any], dict[str, Any], str]] = [
    ("get_spend", {}, {"days": 0}, "INVALID_ARGUMENT: days must be at least 1."),
    ("list_hints", {}, {"limit": 0}, "INVALID_ARGUMENT: limit must be at least 1"),
    ("get_friction", {"limit": 2, "project": "shop"}, {"limit": 21}, "INVALID_ARGUMENT: limit must be at most 20"),
    ("get_today", {"limit": 2, "project": "shop"}, {"limit": 0}, "INVALID_ARGUMENT: limit must be at least 1"),
    ("exclude", {"path": "~/private"}, {"path": "a", "tool": "b"}, "INVALID_ARGUMENT: name exactly one project, path or tool"),
    ("list_excluded", {}, {}, ""),
    ("include", {"path": "~/private"}, {"path": "a, b"}, "INVALID_ARGUMENT: invalid pattern: 'a, b'. Patterns are"),
    ("get_overview", {}, {}, ""),
    ("get_timeline", {}, {"days": 0}, "INVALID_ARGUMENT: days must be at least 1"),
    ("get_timeline", {"since": "2026-02", "until": "last Tuesday", "project": "shop"}, {"days": 3, "since": "2026"}, SPAN),
    ("list_jobs", {}, {}, ""),
    ("run_job", {"name": "roll_up"}, {"name": "rollup"}, NO_JOB),
    ("pause_job", {"name": "roll_up"}, {"name": "rollup"}, NO_JOB),
    ("resume_job", {"name": "roll_up"}, {"name": "rollup"}, NO_JOB),
    ("audit", {}, {"limit": 0}, "INVALID_ARGUMENT: limit must be at least 1"),
    ("get_topic_map", {"limit": 2, "project": "shop"}, {"limit": 0}, "INVALID_ARGUMENT: limit must be at least 1"),
    ("get_topic", {"topic_id": TOPIC}, {"topic_id": NO_TOPIC}, f"NOT_FOUND: no such topic: {NO_TOPIC}."),
]


@pytest.mark.parametrize(("name", "arguments", "wrong", "error"), ALONE, ids=[name for name, *_ in ALONE])
def test_what_only_a_command_asks_is_answered_or_refused_in_its_words(
    app: App, name: str, arguments: dict[str, Any], wrong: dict[str, Any], error: str
) -> None:
    doors, arguments = Doors(app, ""), stood_for(app, arguments)
    told, again = doors.command(name, arguments)[0], respond(app, load_entry(name).request(**arguments), Caller(""))
    assert told is not None
    # What was changed by the first is not changed by the second.
    told.pop("changed", None)
    assert steady(told) == steady(plain.as_json(again))
    assert not error or doors.command(name, wrong)[1].startswith(error)


def test_a_project_is_bound_to_and_left_alike(app: App) -> None:
    doors = Doors(app, SHOP)
    for arguments, scope in (({}, SHOP), ({"scope": "all"}, "all projects"), ({"project": "billing"}, BILLING)):
        for found in (doors.tool("browse_toc", arguments), doors.command("browse_toc", arguments)):
            assert found[0] is not None
            assert found[0]["scope"] == scope
