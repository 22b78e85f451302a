"""Nothing leaves that nobody shared, whatever projects are called, whoever says so, and whenever."""

from dataclasses import replace

import pytest

from memory_mcp.base.errors import InvalidQuery
from memory_mcp.model.event import EventType, OriginalIdentity, Role
from memory_mcp.model.project import GUESS, PERSON, Alias, Split
from memory_mcp.requests.projects import AliasProject, SplitProject, UndoProject, alias_project, split_project, undo_project
from memory_mcp_team.sharing import requests as share
from memory_mcp_team.sharing.client import ShareClient
from memory_mcp_team.sharing.run import get_share_folder
from tests.factories import BILLING, SHOP, draft
from tests.team.sharing.conftest import ANYONE, Laptop, Make
from tests.team.sharing.server import Server

OWN = "Shared words of the shop."
SECRET = "Private words of billing."


def outside(server: Server) -> str:
    """Everything that a space tells, as it is sent."""
    with ShareClient(server.url, "zoe-admin") as client:
        return str(client.read_changes("team", ""))


def sharing(laptop: Make) -> Laptop:
    """Alice's, who shares one of two projects."""
    one = laptop("alice")
    one.say(draft(OWN), draft(SECRET, project=BILLING, session="b1"), draft("Of no project.", project="", session="n1"))
    return one.join(SHOP)


@pytest.mark.parametrize("author", [PERSON, GUESS])
@pytest.mark.few(1)
def test_a_project_that_becomes_another_name_of_a_shared_one_waits_until_that_is_said_again(
    laptop: Make, server: Server, author: str
) -> None:
    one = sharing(laptop)
    one.exchange()
    one.app.storage.projects.add_alias(Alias(BILLING, SHOP, author, 1))
    one.app.derivation.run()
    one.say(draft("Said in billing since.", project=BILLING, session="b2"))
    one.exchange()
    assert "billing" not in outside(server).lower()
    [project] = one.status().projects
    assert (project.waits, project.would_leave) == (2, 0)
    one.add(SHOP)
    assert one.exchange().sent_count == 2
    assert SECRET in outside(server)
    assert BILLING not in outside(server)


def test_a_session_that_is_split_onto_a_shared_name_waits_and_one_split_off_leaves_no_more(laptop: Make, server: Server) -> None:
    one = sharing(laptop)
    one.app.storage.projects.add_splits([Split(BILLING, "b1", "", SHOP, 1)])
    one.app.derivation.run()
    one.exchange()
    assert SECRET not in outside(server)
    one.say(draft("Said in a session that is taken out.", session="s2"))
    split_project(one.app, SplitProject(SHOP, sessions=("s2",), name="apart"), ANYONE)
    one.exchange()
    assert "taken out" not in outside(server)
    undo_project(one.app, UndoProject("apart"), ANYONE)
    one.exchange()
    assert "taken out" in outside(server)


def test_a_shared_project_that_is_shown_under_another_name_leaves_no_more(laptop: Make, server: Server) -> None:
    one = sharing(laptop)
    alias_project(one.app, AliasProject(SHOP, BILLING), ANYONE)
    one.exchange()
    assert outside(server).count("text") == 0


def test_a_session_that_changes_its_project_leaves_by_halves_with_its_subagents(laptop: Make, server: Server) -> None:
    one = laptop("alice")
    one.say(
        draft("First in the shop.", at="2026-01-12 09:00"),
        draft("Then in billing.", at="2026-01-12 09:01", project=BILLING),
        draft("A subagent in the shop.", at="2026-01-12 09:02", thread="sub1", role=Role.ASSISTANT),
        draft("A subagent in billing.", at="2026-01-12 09:03", thread="sub2", project=BILLING, role=Role.ASSISTANT),
        draft("Back in the shop.", at="2026-01-12 09:04"),
    )
    one.join(SHOP)
    assert one.exchange().sent_count == 3
    assert "billing" not in outside(server)


def test_other_projects_stay_whose_forgetting_tells_nothing_and_what_is_removed_leaves_no_more_and_stays_there(
    laptop: Make, server: Server
) -> None:
    one = sharing(laptop)
    one.exchange()
    before = outside(server)
    assert OWN in before
    assert (SECRET in before, "Of no project" in before, BILLING in before) == (False, False, False)
    with pytest.raises(InvalidQuery):
        one.add("")
    one.forget(project=BILLING)
    one.exchange()
    assert outside(server) == before
    assert one.status().forgotten_there == 0

    told = share.unshare_project(one.app, share.UnshareProject("shop"), ANYONE)
    assert "stays there" in told.notes[0]
    one.say(draft("Said afterwards.", session="s3"))
    one.exchange()
    assert ("Said afterwards" in outside(server), OWN in outside(server)) == (False, True)
    [project] = one.status().projects
    assert (project.space, project.left) == ("", 1)


def test_what_is_excluded_by_now_and_the_results_of_its_calls_stay(laptop: Make, server: Server) -> None:
    one = laptop("alice")
    call = {"tool": "Read", "files": "/home/ann/private/plan.md", "tool_use_id": "t1"}
    one.say(
        draft("Read the plan.", at="2026-01-12 09:00"),
        draft("/home/ann/private/plan.md", at="2026-01-12 09:01", role=Role.TOOL, kind=EventType.TOOL_CALL, metadata=call),
        draft("The plan is to move.", at="2026-01-12 09:02", role=Role.TOOL, metadata={"tool_use_id": "t1", "tool": "Read"}),
    )
    one.app.gate.capture = replace(one.app.gate.capture, paths=("/home/ann/private",))
    one.join(SHOP)
    assert one.exchange().sent_count == 1
    assert "plan is to move" not in outside(server)
    assert one.status().kept_back == {"excluded path": 2}


def test_private_spans_that_an_older_version_stored_stay(laptop: Make, server: Server) -> None:
    one = laptop("alice")
    one.app.log.append([draft("Before <private>my salary</private> behind.")], "jsonl")
    one.app.derivation.run()
    one.join(SHOP).exchange()
    assert "salary" not in outside(server)
    assert "Before" in outside(server)


def test_a_project_that_is_unshared_between_two_batches_leaves_no_further(
    laptop: Make, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = laptop("alice")
    one.say(*(draft(f"Statement {n}.", at=1768212000000 + n) for n in range(40)))
    one.join(SHOP)
    monkeypatch.setattr("memory_mcp_team.sharing.publishing.MAX_EVENTS", 10)
    whole = ShareClient.publish_batch

    def publish(client: ShareClient, space: str, batch: dict[str, object]) -> dict[str, object]:
        answer = whole(client, space, batch)
        if get_share_folder(one.app).load_sharing().projects:
            share.unshare_project(one.app, share.UnshareProject(SHOP), ANYONE)
        return answer

    monkeypatch.setattr(ShareClient, "publish_batch", publish)
    assert one.exchange().sent_count == 10


def test_a_member_cannot_take_out_of_a_laptop_what_the_space_does_not_have(laptop: Make, server: Server) -> None:
    """Somebody who knows the id of a private event publishes another one under it, and forgets that."""
    one, two = laptop("alice"), laptop("mallory")
    [private] = one.say(draft(SECRET, project=BILLING, session="b1"))
    forged = replace(draft("Other words.", at="2026-01-12 09:00"), original=OriginalIdentity(private, "jsonl"))
    two.app.log.append([forged], "jsonl")
    two.app.derivation.run()
    one.join()
    two.join(SHOP).exchange()
    one.exchange()
    two.forget(event=private)
    two.exchange()
    one.exchange()
    assert SECRET in one.texts()
