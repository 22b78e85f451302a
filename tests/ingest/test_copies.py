"""One utterance is one event, whatever sessions hold it and whichever is read first: over every reader."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from memory_mcp.app import App
from memory_mcp.config import Settings
from memory_mcp.importers.draft_rows import unpack_drafts
from memory_mcp.importers.jsonl import mapping_of
from memory_mcp.importers.registry import IMPORTERS
from memory_mcp.importers.settings import IngestSettings
from memory_mcp.model.event import EventDraft, EventType
from memory_mcp.requests.carrying import page
from memory_mcp.requests.events import GetEvents, get_events
from memory_mcp.requests.forget import Forget, forget
from memory_mcp.requests.material import of_session
from memory_mcp.requests.scope import Caller, Scoped
from memory_mcp.storage.settings import StorageSettings
from memory_mcp.storage.values import Scope
from memory_mcp.tree.toc.check import check_store
from tests.fakes import FakeClock
from tests.ingest.suite import at, read, session_of, write

COUNT = 6
MINUTE = 60_000
#: What an event is in the copy of its session.
Copying = Callable[[EventDraft], EventDraft]


def same_ids(draft: EventDraft) -> EventDraft:
    """Under the name that sorts first: what is read first is not what is shown."""
    return replace(draft, session_id=f"0-{draft.session_id}")


def new_ids(draft: EventDraft) -> EventDraft:
    return replace(same_ids(draft), source_id=f"{draft.source_id}x" if draft.source_id else "")


def new_ids_and_times(draft: EventDraft) -> EventDraft:
    time = None if draft.timestamp is None else draft.timestamp + 90 * MINUTE
    return replace(new_ids(draft), timestamp=time)


@pytest.fixture(scope="module")
def originals(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[EventDraft]]:
    """A session of each reader in the registry."""
    found = {}
    for name, kind in IMPORTERS.items():
        importer = kind(IngestSettings())
        file = session_of(name)(tmp_path_factory.mktemp(name), COUNT)
        drafts = [draft for step in read(importer, file)[0] for draft in step.drafts]
        assert len(drafts) >= COUNT, name
        # Sessions of two readers may have one name.
        found[name] = [replace(draft, session_id=f"{name}-{draft.session_id}") for draft in drafts]
    return found


@contextmanager
def opened(folder: Path | None = None) -> Iterator[App]:
    storage = StorageSettings(timezone="UTC") if folder is None else StorageSettings(data_dir=str(folder), timezone="UTC")
    app = App(Settings(storage=storage), FakeClock(), in_memory=folder is None)
    try:
        yield app
    finally:
        app.close()


def exported(app: App) -> list[str]:
    found = page(app, {})
    assert found["next"] == found["to"]
    return sorted(json.dumps(mapping_of(draft), sort_keys=True) for draft in unpack_drafts(found["rows"]))


def outcomes(originals: dict[str, list[EventDraft]], copying: Copying, folder: Path) -> list[list[str]]:
    """What is exported after both orders, in one import and in two, the second by another process."""
    results = []
    for is_copy_first in (False, True):
        with opened() as app:
            for name, drafts in originals.items():
                copies = [copying(draft) for draft in drafts]
                app.append([*copies, *drafts] if is_copy_first else [*drafts, *copies], name)
            app.derivation.run()
            assert not list(check_store(app.storage, app.calendar))
            results.append(exported(app))
        halves: list[Copying] = [copying, lambda draft: draft]
        for step in halves if is_copy_first else halves[::-1]:
            with opened(folder / str(is_copy_first)) as app:
                for name, drafts in originals.items():
                    app.append([step(draft) for draft in drafts], name)
                app.derivation.run()
                assert not list(check_store(app.storage, app.calendar))
                last = exported(app)
        results.append(last)
    return results


@pytest.mark.parametrize("copying", [same_ids, new_ids, new_ids_and_times])
def test_a_copied_session_is_exported_once_in_whatever_order_it_is_read(
    copying: Copying, originals: dict[str, list[EventDraft]], tmp_path: Path
) -> None:
    first, *others = outcomes(originals, copying, tmp_path)
    assert len(first) == sum(map(len, originals.values()))
    assert all(other == first for other in others)


def test_a_copy_can_be_read_by_its_own_session_and_forgetting_it_forgets_all_of_it(
    originals: dict[str, list[EventDraft]], tmp_path: Path
) -> None:
    name, drafts = "claude-code", originals["claude-code"]
    own, copied = drafts[0].session_id, f"0-{drafts[0].session_id}"
    with opened(tmp_path) as app:
        app.append(drafts, name)
        again = app.append([same_ids(draft) for draft in drafts], name)
        tail = replace(
            drafts[-1], session_id=copied, text="Only the fork has this.", timestamp=(drafts[-1].timestamp or 0) + MINUTE
        )
        app.append([replace(tail, source_id="tail")], name)
        app.derivation.run()
        assert (len(again.new_ids), len(again.known_ids)) == (0, COUNT)
        told = {s: [e.text for e in get_events(app, GetEvents(session_id=s), Caller("")).events] for s in (own, copied)}
        assert told == {own: [d.text for d in drafts], copied: [*(d.text for d in drafts), "Only the fork has this."]}
        assert len(app.storage.events.list_events(Scope())) == COUNT + 1
        # A session of copies alone is told of by the one that shows them.
        assert of_session(app, own, Scoped(None), 2000).about.startswith(f"session {copied}")
        # Whichever of the two is named, both go, and no copy comes back.
        event = app.storage.events.list_events(Scope(), own)[2]
        forget(app, Forget(event=event.event_id, dry_run=False, is_person=True), Caller(""))
        more = [replace(new_ids(draft), session_id="another") for draft in drafts]
        app.append(more, name)
        assert event.text not in [e.text for e in app.storage.events.list_events(Scope())]
        assert len(app.storage.events.list_events(Scope())) == COUNT


def test_a_session_is_compared_with_another_as_that_is_by_now(originals: dict[str, list[EventDraft]], tmp_path: Path) -> None:
    def told_as(session: str, hours: int) -> list[EventDraft]:
        return [
            replace(d, session_id=session, source_id=f"{session}{n}", timestamp=(d.timestamp or 0) + hours * 60 * MINUTE)
            for n, d in enumerate(originals["claude-code"])
        ]

    first, second, third, fourth = (told_as(session, hours) for hours, session in enumerate("abcd"))
    with opened(tmp_path) as app:
        # The beginning of the first is read, then it goes on.
        for drafts in (first[:-1], second[:-1], first[-1:], third):
            app.append(drafts, "claude-code")
        assert [e.session_id for e in app.storage.events.list_events(Scope())] == ["a"] * COUNT
        event = app.storage.events.list_events(Scope(), "a")[2]
        forget(app, Forget(event=event.event_id, dry_run=False, is_person=True), Caller(""))
        app.append(fourth, "claude-code")
        told = app.storage.events.list_events(Scope(), "d")
        shown = {*app.storage.events.find_duplicates(e.event_id for e in told).values()}
        # Nothing is hidden by what was forgotten meanwhile.
        assert len(told) == COUNT
        assert app.storage.events.get_events(shown).keys() == shown


@pytest.mark.parametrize("copying", [same_ids, new_ids, new_ids_and_times])
@pytest.mark.parametrize("is_copy_first", [False, True])
def test_copies_of_what_a_hook_recorded_too_are_shown_once(
    copying: Copying, is_copy_first: bool, originals: dict[str, list[EventDraft]]
) -> None:
    drafts = originals["claude-code"]
    with opened() as app:
        app.append([replace(draft, source_id=f"h{draft.source_id}") for draft in drafts], "hook:claude-code")
        app.derivation.run()
        halves: list[Copying] = [copying, lambda draft: draft]
        for step in halves if is_copy_first else halves[::-1]:
            app.append([step(draft) for draft in drafts], "claude-code")
            app.derivation.run()
        assert [e.text for e in app.storage.events.list_events(Scope())] == [draft.text for draft in drafts]
        assert not list(check_store(app.storage, app.calendar))


def test_what_is_said_again_later_is_another_event(originals: dict[str, list[EventDraft]]) -> None:
    with opened() as app:
        for name, drafts in originals.items():
            timed = [draft for draft in drafts if draft.timestamp is not None][:1]
            later = [
                replace(d, timestamp=(d.timestamp or 0) + 19 * MINUTE, source_id=d.source_id and f"{d.source_id}x") for d in timed
            ]
            app.append(drafts, name)
            assert len(app.append(later, name).new_ids) == len(timed), name
            assert len(
                app.append([replace(d, session_id="other", timestamp=(d.timestamp or 0) + 1) for d in later], name).new_ids
            ) == len(timed)
        # The same task done again has other calls.
        called = replace(originals["claude-code"][0], type=EventType.TOOL_CALL, metadata={"tool_use_id": "toolu_1"})
        for number in range(2):
            run = [replace(d, timestamp=(d.timestamp or 0) + number * MINUTE) for d in originals["codex"]]
            call = replace(called, metadata={"tool_use_id": f"toolu_{number}"}, timestamp=(run[0].timestamp or 0) + 500)
            app.append(
                [replace(d, session_id=f"cron{number}", source_id=f"{number}{d.text}") for d in [*run[:3], call, *run[3:]]],
                "grok",
            )
        assert (
            len(
                [
                    e
                    for e in app.storage.events.list_events(Scope(), limit=10_000)
                    if e.source == "grok" and "cron" in e.session_id
                ]
            )
            == 14
        )


def codex(session: str, start: int, *, parent: str = "", slow: int = 1) -> Iterator[str]:
    """A rollout of four messages, each `slow` seconds after the other; a fork begins with those of its parent, stamped anew."""
    heads = [{"id": session, "forked_from_id": parent} if parent else {"id": session}, *([{"id": parent}] if parent else [])]
    for head in heads:
        yield json.dumps({"timestamp": at(start), "type": "session_meta", "payload": {**head, "cwd": "/srv/shop"}})
    words = ["plan it", "planned", *([f"go on in {session}", "done"] if parent else ["and then", "that"])]
    for n, text in enumerate(words):
        role = "assistant" if n % 2 else "user"
        content = [{"type": "output_text" if n % 2 else "input_text", "text": text}]
        payload = {"type": "message", "role": role, "content": content}
        yield json.dumps({"timestamp": at(start + n * slow), "type": "response_item", "payload": payload})


@pytest.mark.parametrize("is_fork_first", [False, True])
def test_a_slow_fork_of_codex_is_compared_with_its_parent_by_its_words(is_fork_first: bool, tmp_path: Path) -> None:
    own, fork = (
        write(tmp_path / "rollout-a.jsonl", *codex("a", 0)),
        write(tmp_path / "rollout-b.jsonl", *codex("b", 900, parent="a", slow=5)),
    )
    with opened() as app:
        for file in (fork, own) if is_fork_first else (own, fork):
            app.run_import("codex", [file])
        found = [(e.session_id, e.text) for e in app.storage.events.list_events(Scope())]
        assert found == [*(("a", t) for t in ("plan it", "planned", "and then", "that")), ("b", "go on in b"), ("b", "done")]
        assert [e.text for e in app.storage.events.list_events(Scope(), "b")] == ["plan it", "planned", "go on in b", "done"]
