"""Over PostgreSQL odd arguments are taken or refused as over the other engine, and every handler answers in our words."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from memory_mcp_team.access.permissions import Role
from tests.daemon.places import needs_proc
from tests.interaction.odd import check_odd_arguments
from tests.team.servers import Server, Team, serving
from tests.team.test_readers import COUNTED

pytestmark = needs_proc


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, company: Team) -> Iterator[Server]:
    with serving(tmp_path_factory.mktemp("odd"), company.url, {"MEMORY_MCP_SERVER__PROFILE": "full", **COUNTED}) as made:
        yield made


def test_odd_arguments_are_taken_or_refused_in_our_words(company: Team, server: Server, pytestconfig: pytest.Config) -> None:
    caller = server.caller(company.member("odd", "ann", team=Role.WRITER))
    caller.ok("remember", text="The walnut fell into the harbor.", project="/home/ann/pier")

    def ask(method: str, **params: Any) -> str:
        # No header carries such a name: the names of tools, prompts and resources are usual ones there.
        if method == "resources/read":
            params["uri"] = params["uri"].encode("ascii", "ignore").decode().replace("\0", "%00")
        return json.dumps(caller.ask(method, **params))

    check_odd_arguments(ask, caller.ask("tools/list")["tools"], pytestconfig.getoption("slow"))
    assert "walnut" in json.dumps(caller.ok("get_events", scope="all"))


@pytest.mark.parametrize("argument", ["project", "idempotency_key", "text"])
def test_a_nul_is_stored_as_no_engine_refuses_it(company: Team, server: Server, argument: str) -> None:
    caller = server.caller(company.member("nul", "ann", team=Role.WRITER))
    caller.ok("remember", **{"text": f"walnut of {argument}", argument: f"a\0walnut of {argument}"})
    assert f"walnut of {argument}" in json.dumps(caller.ok("get_events", scope="all"))


def test_who_names_no_space_and_has_none_is_told_so_by_every_handler(company: Team, server: Server) -> None:
    caller = server.caller(company.member("nowhere", "eve"))
    ref = {"type": "ref/resource", "uri": "memory://toc/{+node_id}"}
    told = [
        caller.ask("completion/complete", ref=ref, argument={"name": "node_id", "value": ""}),
        caller.ask("prompts/get", name="recall", arguments={"topic": "walnut"}),
        caller.ask("resources/read", uri="memory://status"),
        caller.call("get_events"),
    ]
    for answer in map(json.dumps, told):
        assert "space" in answer, answer
        assert "Traceback" not in answer
        assert "INTERNAL" not in answer
    assert "Traceback" not in server.log


@pytest.mark.parametrize("space", ["%00", "a%00b", "%ff"])
def test_an_odd_address_names_no_space(company: Team, server: Server, space: str, tmp_path: Path) -> None:
    caller = server.caller(company.member("paths", "ann", team=Role.WRITER))
    message = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}).encode()
    for path in (f"/spaces/{space}/mcp", f"/share/{space}", f"/share/{space}/changes"):
        status, _, body = caller.send("POST" if "mcp" in path else "GET", path, message if "mcp" in path else None)
        assert status < 500, (path, status, body)
        assert b"Traceback" not in body
