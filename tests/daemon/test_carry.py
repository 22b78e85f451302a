"""Memories carried from one place to another by commands: exported and taken back, merged, kept in step."""

import json
import re
import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import duckdb
import pytest

from bench.place import Place
from memory_mcp.app import App
from memory_mcp.config import Settings
from memory_mcp.indexes.settings import TeleportSettings
from memory_mcp.requests.registry import load_entry, respond
from memory_mcp.requests.scope import Caller
from memory_mcp.storage.settings import StorageSettings
from tests.daemon.inside import BARE, Inside
from tests.daemon.places import NO_INDEXES, needs_proc

pytestmark = needs_proc
PLACES = NO_INDEXES

#: Texts that would end what they stand in, if that were told by them.
NASTY = (
    "Look:\n```text\ninside\n```\n<!-- memory-mcp {} -->\n```text\nforged\n```\n",
    "--> </details><script>alert(1)</script> [[Other]] %% ^grip-1\n---\n# Heading",
    "````\nfour\n`````\r\nfive, and a carriage return\r inside \u2028 and a separator",
    "Trailing line feeds\n\n",
    "مرحبا 日本語 🙂 and a ``` run",
)
Make = Callable[[str], Place]


@pytest.fixture
def make(tmp_path: Path) -> Make:
    """Places by name, whose commands open the memory themselves."""
    return lambda name: Inside(tmp_path / name, more=BARE)


def said(session: str, *texts: str, day: str = "2026-01-30", project: str = "github.com/acme/harbour") -> str:
    """Lines for `ingest`, of one session."""
    told = [
        {
            "session_id": session,
            "timestamp": f"{day}T09:{n:02}:00.123Z",
            "role": ("user", "assistant")[n % 2],
            "text": text,
            "project": project,
            "agent": "tests",
            "thread": "sub" if n == 1 else "",
            "speaker": "Ada" if n == 0 else "",
            "metadata": {"cwd": "/srv/harbour"},
        }
        for n, text in enumerate(texts)
    ]
    return "".join(json.dumps(t) + "\n" for t in told)


def say(place: Place, *sessions: str) -> None:
    place.ok("ingest", "-", stdin="".join(sessions))


def held(place: Place) -> dict[str, dict[str, Any]]:
    """Every event of a place by its id, as its own export tells it."""
    lines = [json.loads(line) for line in place.ok("export").split("\n") if line]
    found = {line["event_id"]: line for line in lines}
    assert len(found) == len(lines)
    return found


@pytest.fixture(scope="module")
def history(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A memory of three sessions, which nobody has open."""
    place = Inside(tmp_path_factory.mktemp("history"), more=BARE)
    jwt = said("jwt", "The JWT expires one hour early.", "We decided to keep HS256 and fix the clock offset.")
    other = said("other", "The printer of the shop is out of toner.", day="2026-02-03", project="github.com/acme/shop")
    say(place, jwt, said("nasty", *NASTY, day="2026-02-01"), other)
    return place.directory


def test_an_export_as_jsonl_comes_back_as_the_same_events(make: Make, tmp_path: Path, history: Path) -> None:
    here, there = make("here"), make("there")
    shutil.copytree(history, here.directory)
    place = tmp_path / "all.jsonl"
    assert json.loads(here.ok("export", str(place), "--json"))["events"] == 8
    there.ok("import", "jsonl", str(place))
    assert held(there) == held(here)
    assert json.loads(there.ok("import", "jsonl", str(place), "--json"))["new"] == 0
    # Its own events are known where they came from, too.
    copied = tmp_path / "again.jsonl"
    copied.write_bytes(place.read_bytes())
    assert json.loads(here.ok("import", "jsonl", str(copied), "--json"))["new"] == 0
    told = here.run("export", str(place))
    assert told.returncode == 2
    assert "is there already" in told.stderr
    here.ok("export", str(place), "--force", "--project", "shop")
    assert [json.loads(line)["session_id"] for line in place.read_text().splitlines()] == ["other"]


def test_a_folder_of_days_comes_back_as_the_same_events(make: Make, tmp_path: Path, history: Path) -> None:
    here, there = make("here"), make("there")
    shutil.copytree(history, here.directory)
    folder = tmp_path / "vault"
    here.ok("export", str(folder), "--format", "markdown")
    days = sorted(folder.iterdir())
    assert [file.name for file in days] == ["2026-01-30.md", "2026-02-01.md", "2026-02-03.md"]
    first, nasty, _ = (file.read_text() for file in days)
    assert 'next: "[[2026-02-01]]"' in first
    assert 'previous: "[[2026-01-30]]"' in nasty
    assert 'projects: ["github.com/acme/harbour"]' in first
    assert 'agents: ["tests"]' in first
    blocks = re.findall(r"^\^(grip-[a-z0-9-]+)$", first, re.M)
    assert blocks
    assert all(f"[[#^{block}|" in first for block in blocks)
    assert_nothing_breaks_out(nasty)
    there.ok("import", "markdown", str(folder))
    assert held(there) == held(here)
    assert json.loads(there.ok("import", "auto", str(folder), "--json"))["new"] == 0
    # An export is replaced by the next, what is none is not.
    here.ok("export", str(folder), "--format", "markdown")
    days[0].write_text("my own diary")
    told = here.run("export", str(folder), "--format", "markdown")
    assert told.returncode == 2
    assert "is no export" in told.stderr
    assert days[0].read_text() == "my own diary"


def assert_nothing_breaks_out(text: str) -> None:
    """Outside of fences no line has anything that stored text brought."""
    fence, outside = "", []
    for line in text.split("\n"):
        if not fence and (opening := re.fullmatch(r"(`{3,})text", line)):
            fence = opening[1]
        elif fence:
            fence = "" if line == fence else fence
        elif not line.startswith("<!-- memory-mcp {") and not line.startswith("---"):
            outside.append(re.sub(r"\\.", "", line))
    assert not fence
    rest = "\n".join(outside)
    assert "<" not in rest
    assert "%%" not in rest
    assert "[[Other" not in rest
    assert "`" not in rest
    assert [line for line in outside if line.startswith("# ")] == ["# 2026-02-01"]


def test_no_file_claims_more_trust_or_another_time(make: Make, tmp_path: Path) -> None:
    place = make("here")
    say(place, said("one", "A first word."))
    [known] = held(place).values()
    forged = tmp_path / "forged.jsonl"
    lines = [
        {**known, "timestamp": known["timestamp"] + 1000},
        {**known, "source": "<b>"},
        {**known, "trust": "user"},
        {**known, "text": "Another text under the same id."},
    ]
    forged.write_text("".join(json.dumps(line) + "\n" for line in lines))
    done = json.loads(place.ok("import", "jsonl", str(forged), "--json"))
    assert (done["new"], sum(done["skipped"].values())) == (1, 3)
    assert held(place)[known["event_id"]] == known


@contextmanager
def opened(place: Place) -> Iterator[App]:
    """Its memory, opened in this process."""
    app = App(Settings(storage=StorageSettings(str(place.directory), "UTC"), teleport=TeleportSettings(enabled=False)))
    yield app
    app.close()


def quotes(app: App, grip_ids: Iterable[str]) -> dict[str, str]:
    """The words of citations, each of which can be opened."""
    return {one: respond(app, load_entry("expand_grip").request(grip_id=one), Caller()).grip.quote for one in grip_ids}


def test_two_memories_merged_hold_the_union_of_both(beside: Place, make: Make, history: Path) -> None:
    place, here, there = beside, Inside(beside.root, more=BARE), make("there")
    shutil.copytree(history, there.directory)
    own = said("own", "The anchor of the boat is rusty.", "We decided to replace the anchor chain.", day="2026-02-05")
    say(here, own, said("jwt", "The JWT expires one hour early."))
    [day] = [d["node_id"] for d in json.loads(there.ok("timeline", "--json", "--all"))["days"] if "01-30" in d["node_id"]]
    with opened(there) as app:
        respond(app, load_entry("pin").request(day), Caller())
        named = {grip for node in app.storage.toc.iter_nodes() for bullet in node.bullets for grip in map(str, bullet.grip_ids)}
        quoted = quotes(app, named)
    there.ok("projects", "alias", "github.com/acme/shop", "github.com/acme/harbour")
    both = held(here) | held(there)
    assert quoted
    told = json.loads(here.ok("merge", str(there.directory), "--dry-run", "--json"))
    assert (told["new"], told["known"]) == (7, 1)
    assert len(held(here)) == 3
    # With a daemon that has the memory they are merged into.
    place.ok("daemon", "start")
    merged = json.loads(place.ok("merge", str(there.directory), "--json"))
    place.stop()
    assert (merged["new"], merged["known"]) == (7, 1)
    assert merged["beside"]["pins"] == 1
    assert merged["beside"]["project names"] == 1
    assert held(here) == both
    with opened(here) as app:
        assert quotes(app, quoted) == quoted
    again = json.loads(here.ok("merge", str(there.directory), "--json"))
    assert again["new"] == 0
    assert not any(again["beside"].values())
    assert json.loads(here.ok("admin", "check", "--json"))["findings"] == []


def test_a_backup_of_another_memory_is_merged_with_its_trust(make: Make, tmp_path: Path, history: Path) -> None:
    here, there = make("here"), make("there")
    shutil.copytree(history, there.directory)
    kept = tmp_path / "there.archive"
    there.ok("backup", str(kept))
    assert json.loads(here.ok("merge", str(kept), "--json"))["new"] == 8
    assert held(here) == held(there)
    assert here.run("merge", str(tmp_path / "nothing")).returncode != 0


def texts(place: Place) -> list[str]:
    return sorted(event["text"] for event in held(place).values())


@pytest.mark.parametrize("where", ["here", "there"])
@pytest.mark.few(1)
def test_a_merge_doubles_nothing_that_had_something_taken_out_of_it(make: Make, where: str) -> None:
    here, there = make("here"), make("there")
    whole, marked = "The code of the gate is walnut-8841-harbour, keep it.", "The code of the gate is [forgotten], keep it."
    gate, lock = said("gate", whole, "The gate is green."), f"The lock is {marked}"
    # A mark alone takes no other message's place, though both were sent at one moment.
    say(here, gate, said("moment", lock))
    say(there, gate, said("moment", lock), said("moment", lock.replace("[forgotten]", "blue")))
    (here if where == "here" else there).ok("forget", "--value", "walnut-8841-harbour", "--yes")
    before = texts(here)
    told = json.loads(here.ok("merge", str(there.directory), "--dry-run", "--json"))
    merged = json.loads(here.ok("merge", str(there.directory), "--json"))
    assert (told["new"], told["known"]) == (merged["new"], merged["known"]) == (1, 3)
    assert texts(here) == sorted([*before, lock.replace("[forgotten]", "blue")])


def test_a_merge_doubles_nothing_whose_secret_was_stored_before_its_rule(make: Make) -> None:
    here, there = make("here"), make("there")
    key = "AKIA" + "QYLPMN5HHHFPZAM2"
    say(there, said("first", f"The key is {key} for now."))
    say(here, said("first", "The key is PLACEHOLDER for now."))
    con = duckdb.connect(str(here.directory / "memory.duckdb"))
    con.execute("UPDATE event SET text = replace(text, 'PLACEHOLDER', ?)", [key])
    con.close()
    assert json.loads(here.ok("merge", str(there.directory), "--json"))["known"] == 1
    assert json.loads(there.ok("merge", str(here.directory), "--json"))["known"] == 1
    assert [len(texts(place)) for place in (here, there)] == [1, 1]


def sync(place: Place, folder: Path) -> dict[str, Any]:
    done: dict[str, Any] = json.loads(place.ok("sync", str(folder), "--json"))
    return done


def test_machines_converge_through_a_shared_folder_in_any_order(make: Make, tmp_path: Path, history: Path) -> None:
    here, there, third = make("here"), make("there"), make("third")
    folder = tmp_path / "shared"
    shutil.copytree(history, here.directory)
    say(there, said("own", "The anchor of the boat is rusty.", "We decided to replace the anchor chain.", day="2026-02-05"))
    assert sync(here, folder)["written"] == 8
    assert sync(there, folder)["new"] == 8
    assert sync(there, folder) == {"written": 0, "new": 0, "known": 0, "waiting": 0, "refused": [], "machines": 1}
    say(here, said("jwt", "The JWT expires one hour early.", "We decided to keep HS256 and fix the clock offset.", "And now?"))
    assert sync(third, folder)["new"] == 10
    assert sync(here, folder)["new"] == 2
    for place in (third, there, here):
        sync(place, folder)
    assert held(here) == held(there) == held(third)
    assert len(held(here)) == 11
    # What came from others was not written once more.
    assert sum(sync(place, folder)["written"] for place in (here, there, third)) == 0
    assert len(list(folder.glob("machine-*/*.archive"))) == 3


def test_a_file_copied_by_half_waits_for_its_rest(make: Make, tmp_path: Path) -> None:
    here, there = make("here"), make("there")
    folder, copied = tmp_path / "shared", tmp_path / "copied"
    say(here, said("long", *(f"Message {n}: " + f"{n * 7919 % 1009:04}" * 2000 for n in range(59))))
    sync(here, folder)
    [whole] = folder.glob("machine-*/*.archive")
    half = copied / whole.parent.name / whole.name
    half.parent.mkdir(parents=True)
    taken = 0
    for part in (30, len(whole.read_bytes()) // 2, len(whole.read_bytes()) - 5):
        half.write_bytes(whole.read_bytes()[:part])
        done = sync(there, copied)
        assert done["waiting"] == (1 if part < len(whole.read_bytes()) - 5 else done["waiting"])
        taken += done["new"]
        assert len([e for e in held(there).values() if e["session_id"] == "long"]) == taken
    half.write_bytes(whole.read_bytes())
    done = sync(there, copied)
    assert done["waiting"] == 0
    assert taken + done["new"] == 59
    assert held(there) == held(here)


def test_an_export_holds_what_its_time_agent_and_project_name(make: Make, tmp_path: Path) -> None:
    place = make("here")
    told = [
        {"session_id": f"s{n}", "timestamp": f"2026-02-0{n + 1}T12:00:00Z", "role": "user", "text": f"Said {n}.", "agent": agent}
        | {"project": f"github.com/acme/{project}"}
        for n, (agent, project) in enumerate([("a", "one"), ("b", "one"), ("a", "two"), ("b", "two")])
    ]
    place.ok("ingest", "-", stdin="".join(json.dumps(t) + "\n" for t in told))
    asked = {
        "--since 2026-02-03": "23",
        "--until 2026-02-02": "01",
        "--since 2026-02-02 --until 2026-02-03": "12",
        "--agent b": "13",
        "--project two --agent a": "2",
    }
    for words, numbers in asked.items():
        lines = place.ok("export", *words.split()).splitlines()
        assert "".join(json.loads(line)["session_id"][1:] for line in lines) == numbers, words
    folder = tmp_path / "vault"
    place.ok("export", str(folder), "--format", "markdown", "--since", "2026-02-02", "--agent", "b")
    assert sorted(file.name for file in folder.iterdir()) == ["2026-02-02.md", "2026-02-04.md"]
