"""Forgetting as it is shipped: the installed command before a real daemon, and a search of every byte of the data directory.

What is around it, differs only in what is forgotten, or where it was killed, is asked of commands in this process; of indexes
there is the one of words, which holds text: `test_field_forgotten.py` and `test_forget_kinds.py` have all of them.
"""

import json
import random
import shutil
from collections.abc import Iterator
from pathlib import Path

import anyio
import pytest
from mcp import Client, stdio_client

from bench.place import Place
from memory_mcp.base import paths
from memory_mcp.base.failpoints import FAILPOINTS
from memory_mcp.capture.respelling import normalize_key
from memory_mcp.capture.tombstones import MARK, ForgetRequest, TimeRange, Tombstones
from memory_mcp.model.orders import CUT_FLAG
from tests.acceptance import leftovers
from tests.daemon.inside import ALONE, WORDS, Beside, Inside, run_inside
from tests.daemon.places import killed, node_of
from tests.waiting import until

VALUE = "Bluefin Harbour-77"
KEY = normalize_key(VALUE)
SPELLINGS = (
    "Bluefin Harbour-77",
    "bLUEFIN hARBOUR-77",
    "Bluefin \t Harbour 77",
    "Вluеfіn Наrbоur-77",
    "Blue\u200bfin Har\u00adbour-7\u20607",
)
SIBLING = "The orchard is watered on Mondays because the pump from Oakfield is loud."
PARAPHRASE = "The berth of the blue tuna has the number seventy-seven."
DAY = 1_769_760_000_000


#: Where files stand that the daemon writes anew whenever it likes, and where those that stay as they are.
WORKED_IN = ("memory.duckdb", "indexes/bm25", "briefings")
PLANTED = (
    *("backups/", "spool/bad", "spool/tmp", "spool/import", "daemon.log", "damaged", "before-restore", "memory.schema-5"),
    ".config/memory-mcp/install",
)


def told(number: int, text: str, session: str, name: str = "") -> str:
    row = {"session_id": session, "timestamp": DAY + number * 60_000, "role": "user", "text": text, "agent": "claude-code"}
    return json.dumps(row | {"project": "/home/anna/boats"} | ({"id": name} if name else {}))


@pytest.fixture(scope="module")
def history(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Sessions that say it in every spelling, with ids and without, one whose fields do, and one that says other things."""
    lines = [told(n, f"We decided to call berth {n} {s} and paint it.", "s1", f"a{n}") for n, s in enumerate(SPELLINGS)]
    lines += [told(10 + n, f"Remember: {s} is where the boat number {n} lies.", "s2") for n, s in enumerate(SPELLINGS)]
    field = {"speaker": f"of {VALUE}", "metadata": {"branch": SPELLINGS[3]}, "thread": f"t {VALUE}"}
    lines += [json.dumps(json.loads(told(20, "A line whose fields tell it.", "s3", "f1")) | field)]
    lines += [told(30, SIBLING, "s4", "n1"), told(31, PARAPHRASE, "s4", "n2")]
    path = tmp_path_factory.mktemp("told") / "history.jsonl"
    path.write_text("\n".join(lines), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def ingested(tmp_path_factory: pytest.TempPathFactory, history: Path) -> Path:
    """A data directory with it, an index and a backup, which nobody has open."""
    made = Inside(tmp_path_factory.mktemp("ingested"), more=WORDS | ALONE)
    made.ok("ingest", str(history))
    made.ok("admin", "rebuild-index", "--type", "bm25")
    made.ok("backup")
    return made.directory


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    with Beside(tmp_path, more=WORDS) as made:
        yield made


@pytest.fixture
def alone(tmp_path: Path) -> Place:
    """The same data directory, opened by commands themselves."""
    return Inside(tmp_path, more=WORDS | ALONE)


@pytest.fixture
def filled(alone: Place, ingested: Path) -> Place:
    """A copy of what was ingested, opened so."""
    shutil.copytree(ingested, alone.directory)
    return alone


def holding(place: Place) -> dict[str, int]:
    """Files that hold the value in any spelling, by their place in the data directory or the home."""
    return leftovers.holding([place.directory, place.home], VALUE)


def plant_files(place: Place) -> None:
    """What other parts of the program keep: refused and half-written payloads, pieces of an import, logs, older copies."""
    data = place.directory
    for folder in ("spool/bad", "spool/tmp", "spool/import", "damaged/1", "briefings", "before-restore-1"):
        (data / folder).mkdir(parents=True, exist_ok=True)
    escaped = json.dumps({"prompt": f"about {SPELLINGS[3]}"})
    (data / "spool/bad/1-1").write_text(f'{{"v": 9}}\n{escaped}', encoding="utf-8")
    (data / "spool/tmp/1-2").write_text(f'{{"v": 1}}\n{{"prompt": "{SPELLINGS[1]}', encoding="utf-8")
    (data / "spool/import" / f"{'0' * 32}-000000-000001").write_text(f"{VALUE}\n", encoding="utf-8")
    (data / "damaged/1/memory.duckdb").write_text(SPELLINGS[2], encoding="utf-8")
    (data / "before-restore-1/memory.duckdb").write_text(SPELLINGS[2], encoding="utf-8")
    (data / "memory.schema-5.backup.duckdb").write_text(VALUE, encoding="utf-8")
    (data / "briefings/old.md").write_text(SPELLINGS[4], encoding="utf-8")
    with (data / "daemon.log").open("a", encoding="utf-8") as log:
        log.write(f"2026 ERROR it said {SPELLINGS[1]}\n")
    (data / "daemon.log.1").write_text(f"an older line with {VALUE}\n", encoding="utf-8")
    copies = place.home / ".config/memory-mcp/install/backups"
    copies.mkdir(parents=True)
    (copies / "settings.json").write_text(json.dumps({"note": VALUE}), encoding="utf-8")


def plant(place: Place) -> None:
    """Also in the words of an agent, and in files."""
    [first, *_] = json.loads(place.ok("ask", "boat number", "--all", "--json"))["results"]
    node = node_of(place, first["grip"])
    words = {"title": f"Named {VALUE}", "bullets": [{"text": f"It lies at {SPELLINGS[1]}", "grip_ids": [first["grip"]]}]}
    place.ok("refine", "write", node, f"--text={json.dumps(words)}")
    plant_files(place)


def spoken(place: Place) -> str:
    return place.ok("query", "events", "--all", "--json", "--limit", "100")


def assert_gone(place: Place, when: str) -> None:
    assert holding(place) == {}, when
    events = spoken(place)
    assert KEY not in normalize_key(events), when
    # Controls: what stands beside it is whole, and other words for it are found.
    assert SIBLING in events, when
    assert events.count(MARK) >= 2 * len(SPELLINGS), when
    assert "seventy-seven" in place.ok("ask", "which number has the berth of the blue tuna?", "--all"), when
    assert "every invariant holds" in place.ok("admin", "check"), when


def test_a_value_in_five_spellings_leaves_every_place(place: Place, filled: Place, history: Path, tmp_path: Path) -> None:
    plant(place)
    before = holding(place)
    for kind in (*WORKED_IN, *PLANTED):
        assert any(name.startswith(kind) for name in before), (kind, before)

    tried = json.loads(place.ok("forget", "--value", "--json", stdin=VALUE))
    assert not tried["forgotten"]
    assert tried["counts"]["events with a value"] == 2 * len(SPELLINGS) + 1
    assert not [kind for kind in tried["counts"] if "row" in kind]
    # Each place with its words around it, and how ordinary the value is.
    assert len(tried["events"]) == 2 * len(SPELLINGS) + 1
    assert all(MARK in event["words"] and KEY not in normalize_key(event["words"]) for event in tried["events"])
    assert tried["events"][0]["words"] == f"We decided to call berth 0 {MARK} and paint it."
    assert tried["notices"] == ["The value occurs in 11 of 13 stored events (84.6%)."]
    after = holding(place)
    assert {name: after.get(name) for name in before if name.startswith(PLANTED)}.items() <= before.items()
    # The daemon may have moved what its log, an index or a briefing holds into another file of the same kind.
    for kind in WORKED_IN:
        assert any(name.startswith(kind) for name in after), (kind, after)
    installed = Place(place.root, more=place.settings)
    done = json.loads(installed.ok("forget", "--value", "--json", "--yes", stdin=SPELLINGS[1]))
    assert done["forgotten"]
    assert_gone(place, "right after")
    # A text that was cut says so, wherever it is shown.
    shown = place.ok("ask", "boat number 3 lies", "--all", "--json")
    cut = next(result for result in json.loads(shown)["results"] if MARK in result["quote"])
    assert cut["flag"] == CUT_FLAG
    expanded = place.ok("query", "expand-grip", cut["grip"])
    assert CUT_FLAG in expanded
    assert "exactly these words" not in expanded
    # What is said again in any spelling comes in without it: `test_field_forgotten.py` has every other way back.
    place.ok("ingest", str(shutil.copy(history, tmp_path / "again.jsonl")))
    place.ok("ingest", "-", stdin=told(50, f"By another door: {SPELLINGS[3]}", "s9", "z1"))
    assert_gone(place, "said again")
    audit = (place.directory / paths.TOMBSTONES).read_bytes() + (place.directory / paths.TOMBSTONES_KEY).read_bytes()
    assert b"bluefin" not in audit.lower()


def test_an_event_a_session_and_a_project_go_with_all_derived_of_them_and_a_sibling_stays(filled: Place, history: Path) -> None:
    place = filled
    place.ok("ingest", "-", stdin=told(60, SIBLING.replace("orchard", "meadow"), "s8", "m1").replace("boats", "meadow"))
    before = json.loads(spoken(place))["events"]
    event = before[0]["event_id"]
    left = len(before)
    # Each holds the one before: what is gone already does not go again.
    for which, given, gone in (("event", event, 1), ("session", "s1", 4), ("project", "boats", 8)):
        assert json.loads(place.ok("forget", f"--{which}", given, "--yes", "--json"))["counts"]["events"] == gone
        left -= gone
        place.ok("ingest", str(shutil.copy(history, place.root / f"again-{which}.jsonl")))
        events = spoken(place)
        assert (events.count('"event_id"'), event in events) == (left, False), which
    assert "meadow is watered" in events
    assert "every invariant holds" in place.ok("admin", "check")
    assert event not in place.ok("ask", "berth 0 painted", "--all")


#: What is named, and an ordinary line that the event which goes has in common with others.
ORDINARY = {
    "event": "def load_configuration_from_file(path: str) -> Configuration:",
    "grip": "所有测试都在服务器上每天晚上运行。",
    "session": "Все проверки запускаются на сервере каждую ночь.",
    "project": "All tests of the service run on the server once in the night, by themselves.",
    "since": "raise ConfigurationError(f'{path} holds no section {section!r} of {application.name}')",
}
#: What only the event that goes says, in another order each time.
OWN = "pump meadow ledger gasket rope lantern harbour signal quarry budget cursor fence copper violin ferry kettle heath".split()


def test_forgetting_one_thing_changes_no_other_and_only_what_restates_it_is_refused(alone: Place, tmp_path: Path) -> None:
    place = alone
    own = {kind: " ".join(random.Random(kind).sample([*OWN, *OWN], 2 * len(OWN))) for kind in ORDINARY}
    texts = {kind: f"We agreed in the {kind} talk: {own[kind]}.\n{line}" for kind, line in ORDINARY.items()}
    lines = [told(1440 * n, text, f"goes-{n}").replace("boats", f"p{n}") for n, text in enumerate(texts.values())]
    lines += [told(700 + n, f"I read it:\n{line}\nand it is fine.", f"stays-{n}") for n, line in enumerate(ORDINARY.values())]
    file = tmp_path / "both.jsonl"
    file.write_text("\n".join(lines), encoding="utf-8")
    place.ok("ingest", str(file))

    def stored() -> dict[str, dict[str, object]]:
        return {event["event_id"]: event for event in map(json.loads, place.ok("export").splitlines())}

    for n, (kind, line) in enumerate(ORDINARY.items()):
        before = stored()
        [event_id] = [i for i, event in before.items() if event["text"] == texts[kind]]
        found = json.loads(place.ok("ask", f"we agreed in the {kind} talk", "--all", "--json"))["results"]
        grip = next(one["grip"] for one in found if own[kind][:20] in one["quote"])
        names = {
            "event": (event_id,),
            "grip": ("--grip", grip),
            "session": ("--session", f"goes-{n}"),
            "project": ("--project", f"p{n}"),
        }
        at = DAY + 1440 * n * 60_000
        named = names.get(kind) or ("--since", str(at), "--until", str(at + 1000))
        preview = json.loads(place.ok("forget", *named, "--json"))
        assert (preview["counts"]["events"], preview["counts"].get("events with a value", 0)) == (1, 0), kind
        assert preview["events"][0]["words"].startswith(f"We agreed in the {kind} talk")
        place.ok("forget", *named, "--yes")
        left = {i: event for i, event in before.items() if i != event_id}
        assert stored() == left, kind
        later = [told(9000 + n, f"Why is this so:\n{line}\nI think it is {n}.", f"later-{n}").replace("boats", "other")]
        later += [told(9100 + n, f"As was said: {texts[kind][9:]} Noted.", f"restated-{n}")]
        place.ok("ingest", "-", stdin="\n".join(later))
        place.ok("ingest", str(shutil.copy(file, tmp_path / f"again-{n}.jsonl")))
        [new] = [event for i, event in stored().items() if i not in left]
        assert new["text"] == f"Why is this so:\n{line}\nI think it is {n}.", kind


def test_lines_that_an_earlier_version_forgot_are_ordinary_again_and_named_values_are_not(alone: Place) -> None:
    place, line, name = alone, ORDINARY["event"], "the berth of Bluefin Harbour at the north end"
    place.ok("ingest", "-", stdin=told(1, SIBLING, "s1"))
    place.ok("forget", "--value", "--yes", stdin=name)
    tombstones = Tombstones(place.directory)
    tombstones.add(ForgetRequest(ranges=[TimeRange(0, 1, session="none")]))
    tombstones.add(ForgetRequest(values=[line]))
    # As versions before wrote the event behind its lines.
    with (place.directory / paths.TOMBSTONES).open("a", encoding="ascii") as file:
        file.write(json.dumps({"event": ["0" * 32]}) + "\n")
    assert tombstones.clean_text(line) != line
    place.ok("ingest", "-", stdin=told(2, f"See {line} at {name}.", "s2"))
    assert f"See {line} at {MARK}." in [json.loads(row)["text"] for row in place.ok("export").splitlines()]


@pytest.mark.parametrize("point", sorted((p for p in FAILPOINTS if p.startswith("forget.")), key="forget.erased".__ne__))
@pytest.mark.few(1)
def test_a_killed_forget_is_carried_on(place: Place, filled: Place, point: str) -> None:
    killed(filled, point, "forget", "--value", "--yes", stdin=VALUE)
    place.ok("timeline")
    until(lambda: not (place.directory / "forgetting.json").exists())
    place.ok("query", "events", "--all")
    assert_gone(place, point)
    assert "acknowledged events: all there" in run_inside(["doctor"], place.environment(), place.home).stdout


@pytest.mark.parametrize(
    ("point", "missing"), [("forget.noted", 13), ("forget.before_commit", 8), ("forget.erased", 8), ("forget.swept", 8)]
)
@pytest.mark.few(2)
def test_a_database_lost_while_something_is_forgotten_is_a_loss_of_all_but_that(
    filled: Place, history: Path, point: str, missing: int
) -> None:
    killed(filled, point, "forget", "--session", "s1", "--yes")
    for file in filled.directory.glob("memory.duckdb*"):
        file.unlink()
    assert f"{missing} acknowledged events are missing" in filled.run("timeline").stderr
    assert not (filled.directory / "forgetting.json").exists()
    # Nobody has acknowledged it, also not the forgetting that was carried on.
    assert f"{missing} acknowledged events are missing" in filled.run("timeline").stderr
    filled.ok("ingest", str(shutil.copy(history, filled.root / "again.jsonl")))
    told = filled.run("timeline").stderr
    assert ("missing" in told) == (point == "forget.noted"), told


def test_what_would_empty_the_memory_is_refused(alone: Place, tmp_path: Path) -> None:
    place = alone
    many = [told(n, f"The test of part {n} says that the code is {n % 7}.", f"m{n // 40}", f"m{n}") for n in range(100)]
    file = tmp_path / "many.jsonl"
    file.write_text("\n".join(many), encoding="utf-8")
    place.ok("ingest", str(file))
    for value in ("code", "the code is", "ode i"):
        refused = place.run("forget", "--value", "--yes", stdin=value)
        assert refused.returncode != 0
        assert "occurs in 100% of stored events" in refused.stderr
        assert "forget the event, session or project" in refused.stderr
    for times in (("--since", "2000-01-01"), ("--until", "2100-01-01"), ("--since", "2000-01-01", "--until", "2100-01-01")):
        refused = place.run("forget", *times, "--yes")
        assert refused.returncode != 0
        assert "that time holds everything" in refused.stderr
    for nothing in (("--topic", ""), ("--value", " "), ("--event", "")):
        assert place.run("forget", *nothing, "--yes").returncode != 0
    assert not (place.directory / paths.TOMBSTONES).exists()
    assert json.loads(place.ok("forget", "--value", "--yes", "--json", stdin="part 77"))["counts"]["events with a value"] == 1


WRITERS, WRITES = 2, 9


def test_others_read_and_write_while_something_is_forgotten(place: Place, filled: Place, tmp_path: Path) -> None:
    many = [
        told(100 + n, f"Line {n} of the log of the harbour, with the tide and the wind.", f"m{n // 40}", f"m{n}")
        for n in range(200)
    ]
    more = tmp_path / "more.jsonl"
    more.write_text("\n".join(many), encoding="utf-8")
    filled.ok("ingest", str(more))
    place.ok("daemon", "start")
    given = place.server("serve")

    async def client(number: int, ended: anyio.Event, seen: dict[str, int]) -> None:
        async with Client(stdio_client(given)) as one:
            for turn in range(WRITES):
                text = f"Writer {number} says {turn}: the berth is {VALUE if turn % 3 == 0 else 'free'}."
                stored = await one.call_tool("remember", {"text": text})
                asked = {"query": "the tide in the harbour"} if turn % 2 else {}
                found = await one.call_tool("intelligent_search" if asked else "browse_toc", asked)
                seen["stored"] += not stored.is_error
                seen["read"] += not found.is_error
            await ended.wait()

    async def main() -> dict[str, int]:
        seen, ended = {"stored": 0, "read": 0}, anyio.Event()
        async with anyio.create_task_group() as group:
            for number in range(WRITERS):
                group.start_soon(client, number, ended, seen)
            # A process: commands in this one change its folder and output, in which the clients run.
            installed = Place(place.root, more=place.settings)
            done = await anyio.to_thread.run_sync(lambda: installed.run("forget", "--value", "--yes", stdin=VALUE))
            assert done.returncode == 0, done.stderr
            ended.set()
        return seen

    seen = anyio.run(main)
    assert seen == {"stored": WRITERS * WRITES, "read": WRITERS * WRITES}
    place.ok("forget", "--value", "--yes", stdin=VALUE)
    assert holding(place) == {}
    events = place.ok("query", "events", "--all", "--json", "--limit", "100", "--since", "yesterday")
    for number in range(WRITERS):
        for turn in range(WRITES):
            assert f"Writer {number} says {turn}:" in events, (number, turn)
    assert "every invariant holds" in place.ok("admin", "check")
    assert "acknowledged events: all there" in run_inside(["doctor"], place.environment(), place.home).stdout
