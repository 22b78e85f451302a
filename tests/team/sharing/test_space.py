"""A space behind the routes, over each engine: batches, cursors, forgetting and what members may, asked as the routes ask it."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from memory_mcp.app import App
from memory_mcp.base.errors import InvalidQuery, ResourceExhausted
from memory_mcp.capture.log import EventLog
from memory_mcp.config import Settings
from memory_mcp.indexes.settings import TeleportSettings
from memory_mcp.model.event import Event, make_carried_draft
from memory_mcp.model.ids import EventId
from memory_mcp.storage.settings import StorageSettings
from memory_mcp_team.errors import PermissionDenied
from memory_mcp_team.sharing.space import SpaceMember, describe_permissions, read_changes, receive_batch
from memory_mcp_team.sharing.wire import events_to_json
from tests.factories import draft
from tests.fakes import FakeClock

ALICE, BOB, ZOE = SpaceMember("alice", "writer"), SpaceMember("bob", "writer"), SpaceMember("zoe", "admin")
READER = SpaceMember("rita", "reader")


@pytest.fixture
def space(kept_in: Callable[[], StorageSettings], tmp_path: Path) -> Iterator[App]:
    opened = App(Settings(storage=replace(kept_in(), data_dir=str(tmp_path)), teleport=TeleportSettings(enabled=False)))
    yield opened
    opened.close()


def events(*texts: str, session: str = "s1", source_id: str = "") -> list[Event]:
    """Events as a laptop has them."""
    drafts = [
        draft(text, at=1768212000000 + n * 1000, session=session, source_id=f"{source_id}{n}" if source_id else "")
        for n, text in enumerate(texts)
    ]
    return EventLog(_Nothing(), FakeClock()).make_events(drafts, "jsonl")  # type: ignore[arg-type]


class _Nothing:
    """A store that knows no event."""

    def find_tails(self, _: Sequence[int]) -> dict[int, EventId]:
        return {}


def batch(*told_events: Event, **more: Any) -> dict[str, Any]:
    return {"cursor": "7", "events": events_to_json(make_carried_draft(event) for event in told_events), **more}


def pulled(space: App, after: str = "") -> tuple[list[str], list[str], str]:
    """Texts and gone ids behind a cursor, page by page, and the cursor behind them."""
    texts, gone = list[str](), list[str]()
    while True:
        page = read_changes(space, after)
        texts += [str(one["text"]) for one in page["events"]]
        gone += page["gone"]
        after = page["cursor"]
        if not page["more"]:
            return texts, gone, after


def test_a_batch_is_stored_once_and_says_who_published_it_whatever_it_says_itself(space: App) -> None:
    [one] = events("A statement.")
    lying = replace(one, metadata={"shared_by": "zoe"})
    first, again = receive_batch(space, batch(lying), ALICE), receive_batch(space, batch(one), BOB)
    assert [(a["stored"], a["known"], a["cursor"]) for a in (first, again)] == [(1, 0, "7"), (0, 1, "7")]
    [told_back] = read_changes(space, "")["events"]
    assert (told_back["metadata"], told_back["speaker"], told_back["event_id"]) == ({"shared_by": "alice"}, "alice", one.event_id)


def test_a_cursor_goes_on_behind_what_was_read_also_when_events_were_forgotten(space: App) -> None:
    early, late = events("Early.", session="s1"), events("Late one.", "Late two.", session="s2")
    receive_batch(space, batch(*early, *late), ALICE)
    texts, _, cursor = pulled(space)
    assert sorted(texts) == ["Early.", "Late one.", "Late two."]
    assert pulled(space, cursor)[:2] == ([], [])
    assert receive_batch(space, {"gone": [late[0].event_id]}, ALICE)["forgotten"] == 1
    # What lies behind the first that moved comes once more, what lies before it does not.
    assert pulled(space, cursor)[:2] == (["Late two."], [late[0].event_id])
    assert pulled(space)[:2] == (["Early.", "Late two."], [])
    assert pulled(space, "999999.abc.999999.def~x")[0] == ["Early.", "Late two."]
    assert pulled(space, "nonsense")[0] == ["Early.", "Late two."]


@pytest.mark.parametrize("source_id", ["m", ""])
def test_a_copy_with_marks_takes_the_words_out_of_the_one_that_is_stored(space: App, source_id: str) -> None:
    [one] = events("The code is tulip-4711 for now.", source_id=source_id)
    [cut] = events("The code is [forgotten] for now.", source_id=source_id)
    receive_batch(space, batch(one), ALICE)
    cursor = pulled(space)[2]
    refused = receive_batch(space, batch(cut), BOB)
    assert (refused["forgotten"], [r["needs"] for r in refused["refused"]]) == (0, ["admin"])
    assert receive_batch(space, batch(cut), ALICE)["forgotten"] == 1
    assert receive_batch(space, batch(cut), ALICE)["forgotten"] == 0
    texts, gone, _ = pulled(space, cursor)
    assert texts == ["The code is [forgotten] for now."]
    assert gone == ([] if source_id else [one.event_id])
    # It does not come back from a memory that has it still.
    receive_batch(space, batch(one), BOB)
    assert "tulip" not in str(pulled(space)[0])


def test_members_forget_their_own_and_admins_everything(space: App) -> None:
    mine, other = events("Said by alice.", session="s1"), events("Also said by alice.", session="s2")
    receive_batch(space, batch(*mine, *other), ALICE)
    assert receive_batch(space, {"gone": [mine[0].event_id]}, BOB)["refused"] == [
        {"what": "forget", "event": mine[0].event_id, "needs": "admin"}
    ]
    assert receive_batch(space, {"gone": [mine[0].event_id]}, ZOE)["forgotten"] == 1
    assert receive_batch(space, {"gone": [other[0].event_id]}, ALICE)["forgotten"] == 1
    assert pulled(space)[0] == []
    # What was forgotten is not published again.
    assert receive_batch(space, batch(*mine), BOB)["left_out"] == {"it was forgotten": 1}


def test_readers_publish_nothing_and_what_is_no_batch_is_refused(space: App) -> None:
    with pytest.raises(PermissionDenied):
        receive_batch(space, batch(*events("x")), READER)
    with pytest.raises(InvalidQuery):
        receive_batch(space, {"events": "all of them"}, ALICE)
    with pytest.raises(ResourceExhausted):
        receive_batch(space, {"events": [{}] * 501}, ALICE)
    assert receive_batch(space, {"events": [{}, 7, {"text": "no id"}]}, ALICE)["left_out"] == {"no such event": 3}
    nameless = replace(events("Of no project.")[0], project="")
    assert receive_batch(space, batch(nameless), ALICE)["left_out"] == {"no project": 1}
    assert describe_permissions(space, "team", READER)["may"] == ["read"]
