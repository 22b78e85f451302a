"""Forgetting from the pages: shown first, undone while it waits, carried out once, and the value in no page or file after it."""

import asyncio
import html
import os
import re
import signal
from collections.abc import Iterator
from pathlib import Path

import anyio
import pytest

from memory_mcp.base.errors import InvalidQuery
from memory_mcp.requests.correct import Audit
from memory_mcp.requests.events import GetEvents
from memory_mcp.requests.expand import ExpandRequest
from memory_mcp.requests.forget import Forget
from memory_mcp.web.undo import WAIT, Pending, Stage, WaitingActs
from memory_mcp.web.visits import Visits
from tests.daemon.inside import ALONE, SERVED, Beside, run_inside
from tests.daemon.places import look, needs_proc, said
from tests.files import read_at_rest
from tests.waiting import PATIENCE
from tests.web.acting import NAME, Served, followed, forms, served, until
from tests.web.visitor import Visitor, entered

_STAGE = re.compile(r'data-stage="([a-z]+)"')


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Served]:
    with served(tmp_path / "data") as made:
        yield made


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A memory of which nothing is forgotten."""
    with served(tmp_path_factory.mktemp("kept") / "data") as made:
        yield made


def held(memory: Served) -> bool:
    """Whether the name is stored."""
    return any(NAME in one["text"] for one in memory.ask(GetEvents(session_id="calls"))["events"])


def shown(visitor: Visitor, **fields: str) -> tuple[str, str]:
    """The page that shows what would go, and its address below the visit's."""
    reply = visitor.act("forget-show", token=visitor.token(), **fields)
    return followed(visitor, reply), reply.headers["location"].removeprefix(f"{visitor.base}/")


def stage(visitor: Visitor, place: str) -> str:
    found = _STAGE.search(visitor.page(place))
    assert found is not None
    return found[1]


def started(visitor: Visitor, **fields: str) -> str:
    """The address of a page where forgetting waits."""
    page, place = shown(visitor, **fields)
    [form] = forms(page, "forget")
    assert 'data-stage="waiting"' in followed(visitor, visitor.act("forget", **form))
    return place


def test_what_would_go_is_shown_first_and_nothing_is_changed(kept: Served) -> None:
    visitor = kept.visit()
    page, place = shown(visitor, value=NAME)
    tried = kept.ask(Forget(value=NAME))
    for kind, number in tried["counts"].items():
        assert f'<th scope="row">{html.escape(kind)}</th><td>{number:,}</td>' in page
    assert all(one["event_id"] in page and one["words"] in html.unescape(page) for one in tried["events"])
    assert all(notice in page for notice in tried["notices"])
    assert "Nothing was changed yet" in page
    assert NAME not in page + place
    assert held(kept)
    assert kept.clock.asked == []


def test_what_a_search_found_is_ticked_and_nothing_else_would_go(kept: Served) -> None:
    visitor = kept.visit()
    reply = visitor.act("forget-find", token=visitor.token(), words=f"{NAME} invoices")
    page = followed(visitor, reply)
    assert "Quickenbush" not in reply.headers["location"]
    ticks = dict(re.findall(r'name="(tick\.[^"]+)" value="([^"]*)"', page))
    called = next(name for name in ticks for label in page.split("</label>") if name in label and "Quickenbush" in label)
    assert ticks[called] == "calls"
    event = kept.ask(ExpandRequest(grip_id=called.removeprefix("tick.")))["grip"]["event_id_start"]
    for fields, request in (
        ({called: "calls"}, Forget(event=event)),
        # A message of a conversation that goes as a whole is not counted twice.
        ({called: "calls", "session.calls": "yes"}, Forget(session="calls")),
    ):
        page, _ = shown(visitor, **fields)
        for kind, number in kept.ask(request)["counts"].items():
            assert f'<th scope="row">{html.escape(kind)}</th><td>{number:,}</td>' in page
    page, _ = shown(visitor, **dict(list(ticks.items())[:2]))
    assert "2 things that you ticked" in page
    assert held(kept)


def test_it_waits_ten_seconds_then_goes_for_good_once_however_often_that_is_sent_as_a_person_s_act_and_is_in_no_file(
    memory: Served, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    visitor = memory.visit()
    page, place = shown(visitor, value=NAME)
    [form] = forms(page, "forget")
    for _ in range(3):
        assert 'data-stage="waiting"' in followed(visitor, visitor.act("forget", **form))
    assert held(memory)
    until(lambda: memory.clock.asked)
    assert memory.clock.asked == [WAIT] == [10.0]
    memory.clock.passed.set()
    until(lambda: stage(visitor, place) == "done", "for it to be forgotten")
    assert not held(memory)
    followed(visitor, visitor.act("forget", **form))
    assert "too late" in followed(visitor, visitor.act("undo", **form))
    assert len(memory.clock.asked) == 1
    [act] = memory.ask(Audit())["acts"]
    assert (act["what"], act["author"], act["subject"]) == ("forget", "person", "value")
    page = visitor.page(place)
    for kind, number in act["counts"].items():
        assert f'<th scope="row">{html.escape(kind)}</th><td>{number:,}</td>' in page
    for after in (place, "audit", "status", "forget", "tree", "projects"):
        assert NAME not in visitor.page(after)
    assert "Quickenbush" not in caplog.text
    holding = [file.name for file, content in read_at_rest(tmp_path / "data").items() if b"Quickenbush" in content]
    assert holding == []


def test_undo_keeps_everything_however_long_one_waits(memory: Served) -> None:
    visitor = memory.visit()
    place = started(visitor, value=NAME)
    [form] = forms(visitor.page(place), "undo")
    assert "Undone: nothing was forgotten." in followed(visitor, visitor.act("undo", **form))
    memory.clock.passed.set()
    assert stage(visitor, place) == "undone"
    # What was undone is not begun again by a form that was loaded before.
    followed(visitor, visitor.act("forget", **form))
    assert stage(visitor, place) == "undone"
    assert held(memory)
    assert memory.ask(Audit())["acts"] == []


def test_nothing_is_forgotten_where_the_door_closes_while_it_waits(memory: Served, tmp_path: Path) -> None:
    visitor = memory.visit()
    started(visitor, value=NAME)
    memory.door.stop()
    memory.clock.passed.set()
    assert held(memory)
    assert memory.ask(Audit())["acts"] == []
    assert not (tmp_path / "data" / "tombstones.jsonl").exists()


def test_another_visit_neither_sees_nor_starts_nor_undoes_it(kept: Served) -> None:
    visitor, other = kept.visit(), kept.visit()
    page, place = shown(visitor, session="calls")
    [form] = forms(page, "forget")
    assert other.get(place).status == 404
    for act in ("forget", "undo"):
        assert other.act(act, **{**form, "token": other.token()}).status == 404
    assert stage(visitor, place) == "shown"


def test_every_kind_of_thing_is_shown_and_an_address_fills_in_all_but_a_value(kept: Served) -> None:
    visitor = kept.visit()
    event = kept.ask(GetEvents(session_id="calls"))["events"][0]["event_id"]
    for fields, words in (
        ({"event": event}, f"the event {event}"),
        ({"session": "calls"}, "session calls"),
        ({"of_project": "billing", "since": "2026-02-12"}, "project billing since 2026-02-12"),
        ({"since": "2026-02-12", "until": "2026-02-12"}, "everything since 2026-02-12 until 2026-02-12"),
    ):
        page, _ = shown(visitor, **fields)
        assert words in page
        filled = visitor.page("forget", **fields)
        assert all(f'name="{name}"' in filled and f'value="{value}"' in filled for name, value in fields.items())
    assert NAME not in visitor.page("forget", value=NAME)


def test_what_cannot_be_forgotten_is_said_beside_the_form_and_the_text_is_kept(kept: Served) -> None:
    visitor = kept.visit()
    reply = visitor.act("forget-show", token=visitor.token(), value="a-1")
    assert reply.status == 400
    assert "needs at least 4" in reply.text
    assert ">a-1</textarea>" in reply.text
    reply = visitor.act("forget-show", token=visitor.token(), session="calls", value=NAME)
    assert "too much is named" in reply.text


@needs_proc
@pytest.mark.usefixtures("processes")
def test_a_daemon_that_is_killed_while_it_waits_has_forgotten_nothing(tmp_path: Path) -> None:
    """With the ten seconds that people have."""
    with Beside(tmp_path, more=SERVED) as place:
        place.ok("ingest", "-", stdin=said("calls", f"Please call {NAME} before noon.", 9))
        visitor = entered(place.ok("open", "--print").strip())
        page, _ = shown(visitor, value=NAME)
        [form] = forms(page, "forget")
        daemon = int(look(place)["pid"])
        assert visitor.act("forget", **form).status == 303
        os.kill(daemon, signal.SIGKILL)
        # A process that is killed has no command line any more when it still has its lock.
        alone = place.environment() | ALONE
        until(lambda: run_inside(("query", "root"), alone, place.home, "").returncode == 0, "its end")
        for words, is_there in ((("query", "events", "--session", "calls"), True), (("admin", "audit"), False)):
            done = run_inside(words, alone, place.home, "")
            assert done.returncode == 0, done.stderr
            assert (NAME in done.stdout, "forget" in done.stdout) == (is_there, False)


# the waiting itself


async def nothing() -> dict[str, int]:
    return {}


def test_what_takes_long_to_find_is_looked_for_behind_the_page_and_cannot_be_started_before() -> None:
    async def main() -> None:
        later, found = WaitingActs(sleep=lambda _: anyio.sleep_forever(), patience_s=0), anyio.Event()

        async def look() -> dict[str, int]:
            await found.wait()
            return {"events": 3}

        one, other = [await later.preview_act("me", {}, look, nothing) for _ in range(2)]
        later.start_wait(one)
        assert (one.stage, one.found) == (Stage.LOOKING, {})
        assert later.undo_act(other)
        found.set()
        await asyncio.gather(*(p.task for p in (one, other) if p.task), return_exceptions=True)
        assert (one.stage, one.found) == (Stage.SHOWN, {"events": 3})
        assert (other.stage, other.found) == (Stage.UNDONE, {})

    anyio.run(main)


def test_what_fails_while_it_is_looked_for_is_told() -> None:
    async def main() -> None:
        begun = anyio.Event()

        async def refused() -> dict[str, int]:
            await begun.wait()
            raise InvalidQuery("too much is named")

        one = await WaitingActs(patience_s=0).preview_act("me", {}, refused, nothing)
        begun.set()
        with pytest.raises(InvalidQuery):
            await WaitingActs(patience_s=PATIENCE).preview_act("me", {}, refused, nothing)
        assert one.task is not None
        await one.task
        assert (one.stage, one.work, one.error and one.error.message) == (Stage.FAILED, None, "too much is named")

    anyio.run(main)


def test_what_fails_is_told_and_what_it_was_about_is_dropped(caplog: pytest.LogCaptureFixture) -> None:
    async def refused() -> dict[str, int]:
        raise InvalidQuery("it stands nearly everywhere")

    async def broken() -> dict[str, int]:
        raise RuntimeError(NAME)

    async def main() -> list[Pending]:
        later = WaitingActs(sleep=lambda _: anyio.sleep(0))
        made = [await later.preview_act("me", {}, nothing, work) for work in (refused, broken)]
        for one in made:
            later.start_wait(one)
        await asyncio.gather(*(one.task for one in made if one.task))
        return made

    first, second = anyio.run(main)
    assert (first.stage, first.error and first.error.message) == (Stage.FAILED, "it stands nearly everywhere")
    assert (second.stage, second.work) == (Stage.FAILED, None)
    assert "RuntimeError" in caplog.text
    assert NAME not in caplog.text + str(second.error)


def test_what_is_undone_or_ends_with_its_door_holds_nothing_of_what_it_was_about() -> None:
    async def main() -> None:
        visits = Visits(later=WaitingActs(sleep=lambda _: anyio.sleep_forever()))
        shown_, waiting = [await visits.later.preview_act("me", {}, nothing, nothing) for _ in range(2)]
        visits.later.start_wait(waiting)
        assert visits.later.undo_act(shown_)
        visits.end_all()
        for one in (shown_, waiting):
            assert (one.stage, one.work) == (Stage.UNDONE, None)

    anyio.run(main)


def test_acts_that_wait_are_never_dropped_for_new_ones() -> None:
    async def main() -> None:
        later = WaitingActs(sleep=lambda _: anyio.sleep_forever())
        waiting = await later.preview_act("me", {}, nothing, nothing)
        later.start_wait(waiting)
        old = await later.preview_act("me", {}, nothing, nothing)
        for _ in range(100):
            await later.preview_act("me", {}, nothing, nothing)
        assert later.find_act("me", waiting.id) is waiting
        assert later.find_act("me", old.id) is None
        assert later.find_act("you", waiting.id) is None
        later.undo_all()
        assert waiting.stage is Stage.UNDONE

    anyio.run(main)
