"""What is forgotten through one server is gone from the others: from their files, their memory and their answers."""

import json
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from memory_mcp.team.who import Role
from tests.daemon.http_client import Caller
from tests.daemon.places import needs_proc
from tests.team.servers import Pair, Team, serving
from tests.waiting import until

pytestmark = needs_proc

VALUE = "quagmirezephyr7719"
#: The parts of it that an index may keep for themselves.
SPELLED = (VALUE.encode(), VALUE.upper().encode(), b"quagmirezephyr")
MORE = {
    "MEMORY_MCP_SERVER__FORGET_BY_TOOL": "true",
    "MEMORY_MCP_TOPICS__MIN_SEGMENTS": "2",
    **{f"MEMORY_MCP_TEAM__LIMITS__STANDARD__{name}_PER_MINUTE": "0" for name in ("CALLS", "MEMBER_CALLS", "SEARCHES")},
}


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("servers")


@pytest.fixture(scope="module")
def pair(root: Path, company: Team) -> Iterator[Pair]:
    """Two servers, of which the second one keeps one memory open at a time."""
    one_at_a_time = MORE | {"MEMORY_MCP_TEAM__SERVER__OPEN_SPACES": "1"}
    with serving(root / "a", company.url, MORE) as first, serving(root / "b", company.url, one_at_a_time) as second:
        yield first, second


def say(caller: Caller) -> None:
    """Some sessions, two of which tell the value."""
    said = [
        ("s1", f"We decided that the door code is {VALUE} from now on."),
        ("s1", "The door is painted green."),
        ("s2", f"The cellar has the same door code: {VALUE}."),
        ("s2", "The cellar is dry in summer."),
        ("s3", "The roof was repaired by a carpenter."),
        ("s4", "The garden has three apple trees."),
    ]
    events = [
        {"session_id": session, "role": "user", "text": text, "id": f"e{n}", "timestamp": f"2026-01-0{n + 1}T10:00:00Z"}
        for n, (session, text) in enumerate(said)
    ]
    assert caller.ok("ingest_events", events=events)["stored"] == len(events)


def wait_for_the_index(caller: Caller, cache: Path) -> None:
    until(lambda: tells(results(caller)), "for a search")
    until(lambda: holding(cache), "for files of the index")


def holding(folder: Path) -> list[str]:
    """Files below a folder that hold the value, or a name of it."""
    found = []
    for place, _, names in os.walk(folder):
        for file in (Path(place) / name for name in names):
            # Files come and go while the server works.
            with suppress(FileNotFoundError):
                held = file.read_bytes().lower()
                if any(part.lower() in held for part in SPELLED):
                    found.append(str(file.relative_to(folder)))
    return found


def tells(answer: object) -> bool:
    return VALUE in json.dumps(answer)


def results_of(caller: Caller, query: str) -> object:
    return caller.call("teleport_search", query=query, scope="all").get("structuredContent", {}).get("results")


def results(caller: Caller) -> object:
    """What a search for the value itself gives; a question is no answer, and is left out."""
    return results_of(caller, VALUE)


def answers(caller: Caller) -> dict[str, Any]:
    """What every way of looking gives, of those that show what was said."""
    found: dict[str, Any] = {}
    for tool in ("intelligent_search", "teleport_search", "vector_teleport", "hybrid_search"):
        found[tool] = caller.call(tool, query="door code", scope="all", detail="full")
    found["exact"] = results(caller)
    found["get_events"] = caller.call("get_events", scope="all", detail="full")
    found["browse_toc"] = caller.call("browse_toc", scope="all")
    for node in ("toc:year:2026", "toc:month:2026-01", "toc:day:2026-01-01", "toc:day:2026-01-03"):
        found[node] = caller.call("get_node", node_id=node, scope="all", detail="full")
    found["topics"] = caller.call("get_top_topics", scope="all", fine=True)
    found["by query"] = caller.call("topics_by_query", query="door code", scope="all")
    return found


def is_indexed(caller: Caller) -> bool:
    """Whether both indexes of a server have everything."""
    told = [caller.call(tool) for tool in ("get_teleport_status", "get_vector_index_status")]
    return all(one["structuredContent"].get("behind", 0) == 0 and not one.get("isError") for one in told)


def test_what_is_forgotten_on_one_server_is_gone_from_every_file_and_answer_of_the_other(
    root: Path, company: Team, pair: Pair
) -> None:
    key = company.member("acme", "ann", team=Role.ADMIN)
    here, there = (server.caller(key) for server in pair)
    say(here)
    caches = [root / name / "data" / "cache" for name in ("a", "b")]
    for caller, cache in ((here, caches[0]), (there, caches[1])):
        wait_for_the_index(caller, cache)
    day = {"node_id": "toc:day:2026-01-01", "scope": "all", "detail": "full"}
    until(lambda: all(tells(caller.call("get_node", **day)) for caller in (here, there)), "for the tree")
    before = answers(there)
    told = {"intelligent_search", "exact", "get_events", "toc:day:2026-01-01"}
    assert {name for name in told if tells(before[name])} == told

    assert here.ok("forget", value=VALUE, dry_run=False)["forgotten"] is True
    assert holding(caches[0]) == []
    until(lambda: holding(caches[1]) == [], "for the other server's files to hold it no more")
    until(lambda: not any(tells(found) for found in answers(there).values()), "for answers without it")
    until(lambda: is_indexed(there), "for its indexes")
    assert "painted green" in json.dumps(there.ok("teleport_search", query="door painted green", scope="all"))
    assert [name for name, found in answers(there).items() if tells(found)] == []
    assert holding(caches[1]) == []

    # Said again, to either, it is not kept.
    for number, caller in enumerate((there, here)):
        caller.ok("remember", text=f"Once more {number}, the door code is {VALUE}.")
    assert company.rows("acme", f"SELECT count(*) FROM event WHERE text LIKE '%{VALUE}%'") == [(0,)]
    assert company.rows("acme", "SELECT count(*) FROM event WHERE text LIKE 'Once more %[forgotten]%'") == [(2,)]
    for cache in caches:
        assert holding(cache) == []


def test_it_is_gone_from_files_of_memories_that_are_closed_or_whose_server_was_away(
    root: Path, company: Team, pair: Pair
) -> None:
    key = company.member("shop", "ann", team=Role.ADMIN, project_shop=Role.ADMIN)
    caches = [root / name / "data" / "cache" for name in ("a", "b", "c")]
    first, second = pair

    def closed() -> float:
        return float(second.get("/metrics")[1].partition('team_spaces{state="closed"} ')[2].split()[0])

    say(first.caller(key, "team"))
    with serving(root / "c", company.url, MORE) as third:
        for server, cache in zip((first, second, third), caches, strict=True):
            wait_for_the_index(server.caller(key, "team"), cache)
    before = closed()
    second.caller(key, "project_shop").call("intelligent_search", query="anything", scope="all")
    until(lambda: closed() > before, "for the space to be closed")
    assert holding(caches[1])

    assert first.caller(key, "team").ok("forget", value=VALUE, dry_run=False)["forgotten"] is True
    until(lambda: holding(caches[1]) == [], "for the folder of the closed space to go")
    assert holding(caches[2])
    with serving(root / "c", company.url, MORE):
        until(lambda: holding(caches[2]) == [], "for a server that was away")
    until(lambda: "door" in json.dumps(results_of(second.caller(key, "team"), "door painted green")), "for its indexes again")
    assert [name for name, found in answers(second.caller(key, "team")).items() if tells(found)] == []
    assert [holding(cache) for cache in caches] == [[], [], []]
