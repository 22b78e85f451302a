"""What one laptop publishes another one has, once, as it was, and marked as its publisher's; forgetting and correcting travel."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from memory_mcp.app import App
from memory_mcp.base.errors import InvalidQuery
from memory_mcp.model.event import EventDraft, Role
from memory_mcp.requests import correct
from memory_mcp.storage.values import Scope
from memory_mcp_team.sharing import requests as share
from memory_mcp_team.sharing import run, taking
from memory_mcp_team.sharing.files import ShareFolder
from memory_mcp_team.sharing.wire import parse_events
from tests.factories import BILLING, SHOP, draft
from tests.team.sharing.conftest import ANYONE, Laptop, Make
from tests.team.sharing.server import Server

CAUSE = "The cause of the slow invoices was a missing index on the ledger table."


def published(laptop: Make) -> Laptop:
    """Alice's, who shared one statement."""
    one = laptop("alice")
    one.say(draft(CAUSE, at="2026-01-12 09:01", role=Role.ASSISTANT))
    assert one.join(SHOP).exchange().sent_count == 1
    return one


def test_a_second_laptop_gets_what_the_first_published_once_with_ids_times_and_who_said_it(laptop: Make) -> None:
    one, two = laptop("alice"), laptop("bob", "reader")
    [asked, told] = one.say(
        draft("Why are invoices slow?", at="2026-01-12 09:00", source_id="m1"),
        draft(CAUSE, at="2026-01-12 09:01", role=Role.ASSISTANT, metadata={"model": "m"}),
    )
    one.join(SHOP)
    assert (one.exchange().sent_count, one.exchange().sent_count) == (2, 0)
    two.join()
    assert (two.exchange().taken_count, two.exchange().taken_count) == (2, 0)
    before, now = one.app.storage.events.get_events([asked, told]), two.app.storage.events.get_events([asked, told])
    marked = {"shared_by": "alice"}
    assert now == {
        asked: replace(before[asked], speaker="alice", metadata=marked),
        told: replace(before[told], metadata={"model": "m", **marked}),
    }
    state = two.status()
    assert ([(c.project, c.came) for c in state.came], state.people, state.role) == ([(SHOP, 2)], {"alice": 2}, "reader")
    [project] = one.status().projects
    assert (project.project, project.left, project.would_leave) == (SHOP, 2, 0)


def test_what_a_server_sends_without_a_publisher_never_passes_for_an_event_of_this_machine(
    laptop: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    published(laptop)

    def parse_unmarked(rows: Sequence[Any]) -> tuple[list[EventDraft], int]:
        return [replace(draft, metadata={}) for draft in parse_events(rows)[0]], 0

    monkeypatch.setattr(taking, "parse_events", parse_unmarked)
    two = laptop("bob", "reader")
    two.join()
    assert [two.exchange().taken_count for _ in range(2)] == [1, 0]
    [event] = two.app.storage.events.list_events(Scope(project=SHOP))
    assert event.metadata == {"shared_by": two.status().space}


def test_a_reader_who_shares_a_project_is_told_that_nothing_leaves(laptop: Make) -> None:
    published(laptop)
    two = laptop("bob", "reader")
    two.say(draft("Readers say things as well.", at="2026-01-12 09:02"))
    two.join()
    shared = share.share_project(two.app, share.ShareProject(SHOP), ANYONE)
    assert [("role writer" in note) for note in shared.notes] == [True]
    assert (two.exchange().sent_count, two.exchange().taken_count) == (0, 0)
    [project] = two.status().projects
    assert (project.left, project.would_leave, project.needs) == (0, 0, "writer")


def test_the_number_told_when_a_project_is_shared_leaves_out_what_came_and_a_run_that_was_waited_for_is_told_as_well(
    laptop: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two = published(laptop), laptop("bob")
    two.join()
    assert two.exchange().taken_count == 1
    two.say(draft("Which ledger was that?", at="2026-01-12 09:02"))
    [note] = share.share_project(two.app, share.ShareProject(SHOP), ANYONE).notes
    assert note.endswith(": 1")
    one.say(draft("The one of the shop.", at="2026-01-12 09:03"))
    one.exchange()
    once = run.exchange_once

    def after_another(app: App, *, agreed: bool) -> run.RunOutcome | None:
        once(app)
        return once(app, agreed=agreed)

    monkeypatch.setattr(run, "exchange_once", after_another)
    done = share.share_now(two.app, share.ShareNow(), ANYONE)
    assert (done.left, done.came) == (1, 1)


def test_what_came_is_not_sent_back_and_what_both_have_is_there_once(laptop: Make) -> None:
    one, two = laptop("alice"), laptop("bob")
    both = draft("Both laptops imported this.", source_id="same")
    one.say(both)
    two.say(both, draft("Only on the second.", at="2026-01-12 10:00"))
    one.join(SHOP).exchange()
    two.join(SHOP)
    assert (two.exchange().sent_count, two.exchange().sent_count) == (2, 0)
    one.exchange()
    assert one.texts() == two.texts() == ["Both laptops imported this.", "Only on the second."]
    assert one.status().projects[0].would_leave == two.status().projects[0].would_leave == 0


def test_secrets_that_were_stored_before_a_rule_was_known_do_not_leave(laptop: Make) -> None:
    one, two = laptop("alice"), laptop("bob")
    secret = "ghp_" + "a1B2c3D4e5F6g7H8i9J0" + "k1L2m3N4o5P6q7R8"
    # As an older version stored it.
    one.app.log.append(
        [draft(f"Use {secret} to push.", source_id="s"), draft(f"And {secret} again", at="2026-01-12 10:00")], "jsonl"
    )
    one.app.derivation.run()
    one.join(SHOP).exchange()
    two.join().exchange()
    assert len(two.texts()) == 2
    assert not [text for text in two.texts() if secret in text]
    one.exchange()
    assert len(one.texts()) == 2


def test_forgotten_events_and_values_leave_the_space_and_the_other_laptops_and_the_rest_stays(laptop: Make) -> None:
    one, two, third = laptop("alice"), laptop("bob"), laptop("carol")
    [gone, *_] = one.say(
        draft("Delete me please, I should not have said it."),
        draft("The door code of the office is tulip-4711 until spring.", session="s2", source_id="m1"),
        draft("Else.", session="s3"),
        draft("That of the cellar is tulip-4711, too.", session="s4"),
    )
    two.say(draft("My own note: tulip-4711", project=BILLING, session="mine"))
    one.join(SHOP).exchange()
    two.join().exchange()
    one.forget(event=gone)
    one.exchange()
    two.exchange()
    assert (one.status().forgotten_there, two.status().forgotten_here) == (1, 1)
    one.forget(value="tulip-4711")
    one.exchange()
    two.exchange()
    rest = ["That of the cellar is [forgotten], too.", "The door code of the office is [forgotten] until spring."]
    assert one.texts() == ["Else.", *rest]
    # What was never shared is nobody else's to take.
    assert two.texts() == ["Else.", "My own note: tulip-4711", *rest]
    assert one.exchange() == two.exchange()
    third.join().exchange()
    assert third.texts() == one.texts()


@pytest.mark.slow  # in the short form: roles, in test_space.py.
def test_a_forgetting_that_takes_another_role_is_refused_and_said(laptop: Make) -> None:
    one, two, admin = laptop("alice"), laptop("bob"), laptop("zoe", "admin")
    [said] = one.say(draft("Alice said this, and only she or an admin takes it out."))
    one.join(SHOP).exchange()
    two.join().exchange()
    two.forget(event=said)
    two.exchange()
    assert two.texts() == []
    assert two.status().refused == [{"what": "forget", "event": said, "needs": "admin"}]
    one.exchange()
    assert len(one.texts()) == 1
    admin.join().exchange()
    admin.forget(event=said)
    admin.exchange()
    one.exchange()
    assert one.texts() == []


def test_a_retraction_and_a_correction_travel_and_the_last_one_holds(laptop: Make) -> None:
    one, two = laptop("alice"), laptop("bob", "curator")
    [said] = one.say(draft(CAUSE))
    one.join(SHOP).exchange()
    two.join().exchange()
    two.add(SHOP)
    [grip] = [g.grip_id for g in one.app.storage.grips.grips_by_event([said])[said]]
    correct.retract(one.app, correct.Retract(grip, "measured again", by="claude"), ANYONE)
    one.exchange()
    two.exchange()
    [held] = two.app.storage.superseded.list_recorded()
    assert (held.old, held.new, held.reason, held.author) == (grip, None, "measured again", "alice")
    told = correct.correct(two.app, correct.Correct(grip, "The cause was the network.", by="bob"), ANYONE)
    two.exchange()
    one.exchange()
    assert one.app.storage.superseded.get_successors([grip])[grip].new == told.grip_id
    assert one.app.evidence.expand_grip(told.grip_id, 0, 0).quote == "The cause was the network."


def test_own_events_that_others_forgot_stay_until_a_person_agrees_when_they_are_many(laptop: Make) -> None:
    one, admin = laptop("alice"), laptop("zoe", "admin")
    one.say(*(draft(f"Statement number {n} of a long session.", at=1768212000000 + n) for n in range(101)))
    one.join(SHOP).exchange()
    admin.join().exchange()
    admin.forget(session="s1")
    admin.exchange()
    assert "until you agree" in one.exchange().error
    assert (len(one.texts()), one.status().held) == (101, 101)
    assert one.exchange(agreed=True).error == ""
    assert (one.texts(), one.status().held) == ([], 0)


def test_what_was_forgotten_on_the_server_is_told_to_those_who_were_away_for_long(laptop: Make) -> None:
    one, two = laptop("alice"), laptop("bob")
    ids = one.say(*(draft(f"Fact {n} about the shop.", session=f"s{n}", at=1768212000000 + n * 3600000) for n in range(4)))
    one.join(SHOP).exchange()
    two.join().exchange()
    for n in (3, 1):
        one.forget(event=ids[n])
        one.exchange()
    one.say(draft("Said behind the forgetting.", session="s9"))
    one.exchange()
    two.exchange()
    assert two.texts() == one.texts()


@pytest.mark.slow  # in the short form: a server that ends, in test_processes.py.
def test_being_offline_is_normal_and_said_since_when(laptop: Make, server: Server) -> None:
    one = laptop("alice")
    one.say(draft("Said online."))
    one.join(SHOP).exchange()
    server.kill()
    one.say(draft("Said offline.", session="s2"))
    done = one.exchange()
    assert (done.sent_count, done.error) == (0, "")
    assert "does not answer" in done.offline
    state = one.status()
    assert (bool(state.offline_since), state.error, state.projects[0].would_leave) == (True, "", 1)
    server.start()
    assert one.exchange().sent_count == 1
    assert one.status().offline_since == ""


def test_a_key_is_kept_for_its_user_alone_and_told_to_nobody(laptop: Make) -> None:
    one = laptop("alice").join()
    files = sorted((one.folder / "share").iterdir())
    assert [(f.name, f.stat().st_mode & 0o777) for f in files] == [
        (name, 0o600) for name in ("key", "progress.json", "share.json")
    ]
    assert ShareFolder(one.folder).key == "alice-writer"
    assert "alice-writer" not in repr(one.status()) + repr(share.ShareTo("u", "alice-writer")) + files[1].read_text()
    share.share_off(one.app, share.ShareOff(), ANYONE)
    assert ShareFolder(one.folder).key == ""


def test_a_key_that_does_not_count_a_space_that_is_not_seen_and_an_address_that_is_none_or_not_safe_are_refused(
    laptop: Make, server: Server
) -> None:
    one = laptop("alice")
    for url in ("http://memory.example.org", "ftp://x", "https://u:p@x", "https://", "https://x/?a=1"):
        with pytest.raises(InvalidQuery):
            share.share_to(one.app, share.ShareTo(url, "k", "team"), ANYONE)
    with pytest.raises(Exception, match="does not accept the key"):
        share.share_to(one.app, share.ShareTo(server.url, "nobody"), ANYONE)
    with pytest.raises(InvalidQuery, match="no space 'other'"):
        share.share_to(one.app, share.ShareTo(server.url, "alice-writer", "other"), ANYONE)
    assert ShareFolder(one.folder).load_sharing().url == ""
