"""Reading from a replica that is behind: it says how far it is, and a caller sees what he wrote all the same."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from memory_mcp_team.access.permissions import Role
from tests import postgres
from tests.daemon.http_client import Caller
from tests.daemon.places import needs_proc
from tests.team.servers import Team, serving
from tests.waiting import until

pytestmark = needs_proc
_NOTICE = re.compile(r"read from a replica that has reached event (\d+), (\d+\.\d) seconds behind")


@pytest.fixture
def standby(cluster: postgres.Cluster) -> Iterator[postgres.Standby]:
    standby = cluster.standby()
    try:
        yield standby
    finally:
        standby.close()


def asked(caller: Caller, query: str) -> tuple[list[str], tuple[int, float] | None]:
    """The quotations of a search, and the event that the replica has reached with the seconds it is behind."""
    answer: dict[str, Any] = caller.ok("intelligent_search", query=query, scope="all")
    notices = [match for notice in answer.get("notices", ()) if (match := _NOTICE.fullmatch(notice))]
    position = (int(notices[0][1]), float(notices[0][2])) if notices else None
    return [result["quote"] for result in answer["results"]], position


def test_a_replica_tells_its_position_and_who_wrote_something_newer_reads_from_the_primary(
    tmp_path: Path, cluster: postgres.Cluster, team: Team, standby: postgres.Standby
) -> None:
    ann, bob = team.member("acme", "ann", team=Role.WRITER), team.member("acme", "bob", team=Role.READER)
    url = standby.url(team.url.split("dbname=")[1].split()[0])
    more = {"MEMORY_MCP_TEAM__REPLICA_URL": url, "MEMORY_MCP_TELEPORT__VECTOR__ENABLED": "false"}
    with serving(tmp_path / "a", team.url, more) as server:
        writer, reader = server.caller(ann), server.caller(bob)
        writer.ok("remember", text="The first pomegranate is ripe.")
        until(lambda: asked(reader, "pomegranate")[0], "for the replica to have it")
        # The position is taken before the search: what arrives between the two is found and not yet told.
        until(lambda: asked(reader, "pomegranate")[1] == (1, 0.0), "for the replica to tell that it has it")
        # The replica has what she wrote: she reads from it too.
        until(lambda: asked(writer, "pomegranate")[1] is not None, "for her to read from the replica")

        standby.pause()
        writer.ok("remember", text="The second pomegranate is sour.")
        quotes, position = asked(writer, "pomegranate")
        assert (sorted(quotes), position) == (["The first pomegranate is ripe.", "The second pomegranate is sour."], None)
        assert asked(reader, "pomegranate")[0] == ["The first pomegranate is ripe."]
        until(lambda: (asked(reader, "pomegranate")[1] or (0, 0.0))[1] >= 0.5, "for the replica to tell how far it is behind")
        position = asked(reader, "pomegranate")[1]
        assert position is not None
        assert position[0] == 1

        standby.resume()
        until(lambda: len(asked(reader, "pomegranate")[0]) == 2, "for the replica to catch up")
        until(lambda: asked(writer, "pomegranate")[1] is not None, "for her to read from the replica again")
        until(lambda: asked(reader, "pomegranate")[1] == (2, 0.0), "for it to be behind by nothing")
