"""Whoever may only read is answered by every reading tool, whatever waits to be derived: reading writes nothing as the reader."""

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from memory_mcp_team.access.permissions import ACTS, LOWEST_ROLES, Role
from memory_mcp_team.server.open_memories import MemoryKey
from tests.daemon.http_client import Caller
from tests.daemon.places import needs_proc
from tests.team.probes import honest
from tests.team.servers import Team, serving
from tests.team.tenants import Handles, nobodys
from tests.team.test_open_memories import server_of
from tests.waiting import until

pytestmark = needs_proc

#: Tools that need topics, of which there are none below 50 segments.
OF_TOPICS = ("get_top_topics", "get_related_topics", "get_toc_nodes_for_topic", "topics_by_query")
NO_TOPICS = "UNAVAILABLE: Topic graph not enabled yet"
#: What asks for a segment, and what for a year, which are not there before anything is derived.
OF_A_SEGMENT, OF_A_YEAR = ("get_node", "refine_show", "search_node", "toc/{node}"), ("browse_toc", "toc/toc:year:2026")
COUNTED = {
    "MEMORY_MCP_RANKING__USAGE": "true",
    **{f"MEMORY_MCP_TEAM__LIMITS__STANDARD__{name}_PER_MINUTE": "0" for name in ("CALLS", "MEMBER_CALLS", "SEARCHES")},
}


def say(caller: Caller, own: Handles, number: int) -> None:
    event = {"session_id": own.session, "role": "user", "id": f"e{number}", "project": own.project, "agent": own.agent}
    event |= {"text": f"We keep the {own.text} in cellar {number}.", "timestamp": f"2026-01-05T10:0{number}:00Z"}
    assert caller.ok("ingest_events", events=[event])["stored"] == 1


def ask_everything(caller: Caller, own: Handles) -> dict[str, str]:
    """Of every reading tool that failed, the error's first sentence; once the indexes, which each server makes, are there."""

    def answers(tool: str) -> bool:
        return not caller.call(tool, **honest(own)[tool]).get("isError")

    for tool in ("teleport_search", "vector_teleport"):
        until(partial(answers, tool), f"for the index of {tool}")
    failed = {}
    tools = {tool["name"] for tool in caller.ask("tools/list")["tools"]}
    readable = {tool for tool in tools if LOWEST_ROLES[ACTS.get(tool, ACTS["get_node"])] is Role.READER} & set(honest(own))
    assert len(readable) > 20
    for tool in sorted(readable):
        answer = caller.call(tool, **honest(own)[tool])
        if "error" in answer or answer.get("isError"):
            failed[tool] = reason(answer)
    for uri in ("status", "toc/toc:root", "toc/toc:year:2026", f"session/{own.session}", f"grip/{own.grip}", f"toc/{own.node}"):
        answer = caller.ask("resources/read", uri=f"memory://{uri}")
        if "error" in answer:
            failed[uri] = reason(answer)
    for prompt in ("weekly_digest", "continue_session"):
        answer = caller.ask("prompts/get", name=prompt, arguments={})
        if "error" in answer:
            failed[prompt] = reason(answer)
    return failed


def reason(answer: dict[str, Any]) -> str:
    text = answer["error"]["message"] if "error" in answer else answer["content"][0]["text"]
    return str(text).partition(". ")[0]


def missing(own: Handles, is_derived: bool) -> dict[str, str]:
    """What is told by the tools that have nothing to show yet; every other one answers."""
    expected = dict.fromkeys(OF_TOPICS, NO_TOPICS)
    for names, node in () if is_derived else ((OF_A_SEGMENT, own.node), (OF_A_YEAR, "toc:year:2026")):
        expected |= {name.format(node=node): f"NOT_FOUND: no node {node} here" for name in names}
    return expected


def segment(team: Team, tenant: str) -> str:
    [(node,)] = team.rows(tenant, "SELECT node_id FROM node WHERE level = 'segment'")
    return str(node)


def test_a_reader_is_answered_by_every_reading_tool_while_what_others_wrote_waits_to_be_derived(
    tmp_path: Path, team: Team
) -> None:
    ann, bob = team.member("acme", "ann", team=Role.WRITER), team.member("acme", "bob", team=Role.READER)
    idle = COUNTED | {"MEMORY_MCP_TEAM__SERVER__WORKERS": "0"}
    own = replace(nobodys(), space_name="team")
    with serving(tmp_path / "a", team.url, idle) as lazy:
        say(lazy.caller(ann), own, 1)
        reader = lazy.caller(bob)
        # Nobody derives: every question of the reader meets an event that waits.
        [found] = reader.ok("intelligent_search", query=own.text, scope="all")["results"]
        own = replace(own, grip=found["grip"], span=found["grip"])
        event = reader.ok("expand_grip", grip_id=own.grip)["grip"]["event_id_start"]
        own = replace(own, event=event)
        assert ask_everything(reader, own) == missing(own, is_derived=False)
        assert team.rows("acme", "SELECT derived FROM head") == [(0,)]
        # By another server, of which one that derives itself is asked in test_servers.py.
        with server_of(team, tmp_path / "b") as busy, busy.opened.lend_memory(MemoryKey(1, 1)) as memory:
            memory.app.derivation.run()
        own = replace(own, node=segment(team, "acme"))
        say(lazy.caller(ann), own, 2)
        assert ask_everything(reader, own) == missing(own, is_derived=True)
    # Openings are counted whoever opened; nothing was refused behind a reader's back.
    assert team.rows("acme", "SELECT count(*) > 0 FROM usage") == [(True,)]
    assert "could not be" not in lazy.log
    assert "not in the database" not in lazy.log
