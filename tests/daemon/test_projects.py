"""Projects through the installed command, the background process and a real client on a pipe."""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.place import Place
from tests.daemon.inside import SERVED, Beside
from tests.daemon.places import call, needs_proc, said

pytestmark = needs_proc

SHOP, BILLING = "github.com/acme/shop", "github.com/acme/billing"


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    with Beside(tmp_path_factory.mktemp("place"), more=SERVED) as made:
        made.ok(
            "ingest", "-", stdin=said(SHOP, "The zebrafish tank leaks.", 9) + said(BILLING, "The parrot invoice is late.", 10)
        )
        yield made


def test_an_alias_of_the_command_line_is_in_force_for_a_client_until_it_is_undone(place: Place) -> None:
    both = json.loads(place.ok("projects", "--json"))
    assert [p["project"] for p in both["projects"]] == [BILLING, SHOP]
    assert "2 events in 2 sessions" in place.ok("agents")
    told = place.ok("projects", "alias", "billing", "shop")
    assert f"memory-mcp projects undo {BILLING}" in told
    question = ("intelligent_search", {"query": "parrot invoice", "detail": "full"})
    listed, found = call(place, ("serve", "--project", BILLING), {}, ("list_projects", {}), question)
    assert (listed["yours"], listed["total"]) == (SHOP, 1)
    assert found["explanation"]["scope"] == SHOP
    # The indexes may still be filing it again; whoever stands first, it is found.
    assert any("parrot" in r["quote"] for r in found["results"])
    assert "parrot" in place.ok("ask", "parrot invoice", "--project", BILLING)
    place.ok("projects", "undo", BILLING)
    listed, found = call(place, ("serve", "--project", "nothing"), {"MEMORY_MCP_PROJECT": SHOP}, ("list_projects", {}), question)
    assert (listed["yours"], listed["total"]) == (SHOP, 2), "the environment comes before the argument"
    assert all("parrot" not in r["quote"] for r in found["results"])


def test_where_nothing_is_known_of_the_directory_everything_is_searched_and_both_doors_say_so(
    place: Place, tmp_path: Path
) -> None:
    new = str(tmp_path / "new")
    more = {"CLAUDE_PROJECT_DIR": new}
    [found] = call(place, ("serve",), more, ("intelligent_search", {"query": "zebrafish tank"}))
    notice = f"nothing is stored of project {new} yet; every project was searched"
    assert notice in found["explanation"]["notices"]
    assert "zebrafish" in found["results"][0]["quote"]
    Path(new).mkdir()
    done = subprocess.run(
        [*place.command, "ask", "zebrafish tank"], env=place.environment(), cwd=new, capture_output=True, text=True, check=True
    )
    assert "zebrafish" in done.stdout
    assert f"nothing is stored of project {new} yet" in done.stderr
