"""What is forgotten through one server is gone from the others: from their files, their memory and their answers."""

import json
from pathlib import Path
from typing import Any

from memory_mcp.requests.forget import Forget, forget
from memory_mcp.requests.scope import Caller as Anybody
from memory_mcp_team.access.permissions import Role
from memory_mcp_team.server.open_memories import MemoryKey
from memory_mcp_team.server.run import TeamServer
from tests.daemon.http_client import Caller
from tests.factories import draft
from tests.files import read_at_rest
from tests.team.servers import Team
from tests.team.test_open_memories import as_caller, ask, principal, server_of
from tests.waiting import until

VALUE = "quagmirezephyr7719"
#: The parts of it that an index may keep for themselves.
SPELLED = (VALUE.encode(), VALUE.upper().encode(), b"quagmirezephyr")


#: Some sessions, two of which tell the value.
SAID = (
    ("s1", f"We decided that the door code is {VALUE} from now on."),
    ("s1", "The door is painted green."),
    ("s2", f"The cellar has the same door code: {VALUE}."),
    ("s2", "The cellar is dry in summer."),
    ("s3", "The roof was repaired by a carpenter."),
    ("s4", "The garden has three apple trees."),
)


def say(caller: Caller) -> None:
    events = [
        {"session_id": session, "role": "user", "text": text, "id": f"e{n}", "timestamp": f"2026-01-0{n + 1}T10:00:00Z"}
        for n, (session, text) in enumerate(SAID)
    ]
    assert caller.ok("ingest_events", events=events)["stored"] == len(events)


def wait_for_the_index(caller: Caller, cache: Path) -> None:
    until(lambda: tells(results(caller)), "for a search")
    until(lambda: list_index_files(cache), "for files of the index")


def holding(folder: Path) -> list[str]:
    """Files below a folder that hold the value, or a name of it."""
    contents = read_at_rest(folder).items()
    return [str(file.relative_to(folder)) for file, raw in contents if any(part.lower() in raw.lower() for part in SPELLED)]


def list_index_files(folder: Path) -> list[Path]:
    """Return the files of keyword indexes below a folder; they hold ids and numbers of what was said, no words."""
    return [file for file in read_at_rest(folder) if "bm25" in file.parts]


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


def test_it_is_gone_from_files_of_memories_that_are_closed_or_whose_server_was_away(tmp_path: Path, team: Team) -> None:
    team.member("shop", "ann", team=Role.ADMIN, project_shop=Role.ADMIN)
    ann = principal(team, "shop", "ann")
    here, beside = as_caller(ann, "team"), as_caller(ann, "project_shop")
    caches = [tmp_path / name / "cache" for name in ("b", "c")]

    def indexed(server: TeamServer, cache: Path) -> None:
        until(lambda: VALUE in str(ask(server.host, here, VALUE)), "for a search")
        until(lambda: list_index_files(cache), "for files of the index")

    # In this process: the second server keeps one memory open at a time, the third one comes and goes.
    few = {"topics.min_segments": "2"}
    one_at_a_time = few | {"team.server.open_spaces": "1"}
    with server_of(team, tmp_path / "a") as first, server_of(team, tmp_path / "b", one_at_a_time) as second:
        with first.host.lend_as(ann, here.space, writing=True) as app:
            app.append([draft(text, session=session, source_id=f"e{n}") for n, (session, text) in enumerate(SAID)], "jsonl")
        with first.opened.lend_memory(MemoryKey(ann.tenant, here.space.space)) as memory:
            memory.app.derivation.run()
        second.follower.start()
        indexed(second, caches[0])
        with server_of(team, tmp_path / "c", few) as third:
            third.follower.start()
            indexed(third, caches[1])
        ask(second.host, beside, "anything")
        until(lambda: second.opened.closed_total > 0, "for the space to be closed")
        closed, away = map(list_index_files, caches)
        assert closed

        with first.host.lend_as(ann, here.space, writing=True) as app:
            assert forget(app, Forget(value=VALUE, dry_run=False, is_person=True), Anybody()).forgotten
        until(lambda: not any(file.exists() for file in closed), "for the folder of the closed space to go")
        assert all(file.exists() for file in away)
        with server_of(team, tmp_path / "c", few) as third:
            third.follower.start()
            until(lambda: not any(file.exists() for file in away), "for a server that was away")
        assert "painted green" in str(ask(second.host, here, "door painted green"))
        assert VALUE not in str(ask(second.host, here, VALUE))
        assert [holding(cache) for cache in caches] == [[], []]
