"""Forgetting as it is shipped: the installed command before a real daemon, and a search of every byte of the data directory."""

import json
import re
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.place import Place
from memory_mcp import paths
from memory_mcp.archive.blocks import Archive
from memory_mcp.archive.frames import Damaged
from memory_mcp.failpoints import FAILPOINTS, VARIABLE
from memory_mcp.ingest.respelling import key_of
from memory_mcp.ingest.tombstones import MARK
from tests.daemon.places import DAEMON
from tests.waiting import until

VALUE = "Bluefin Harbour-77"
KEY = key_of(VALUE)
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


def told(number: int, text: str, session: str, name: str = "") -> str:
    row = {"session_id": session, "timestamp": DAY + number * 60_000, "role": "user", "text": text, "agent": "claude-code"}
    return json.dumps(row | {"project": "/home/anna/boats"} | ({"id": name} if name else {}))


@pytest.fixture
def history(tmp_path: Path) -> Path:
    """Sessions that say it in every spelling, with ids and without, one whose fields do, and one that says other things."""
    lines = [told(n, f"We decided to call berth {n} {s} and paint it.", "s1", f"a{n}") for n, s in enumerate(SPELLINGS)]
    lines += [told(10 + n, f"Remember: {s} is where the boat number {n} lies.", "s2") for n, s in enumerate(SPELLINGS)]
    field = {"speaker": f"of {VALUE}", "metadata": {"branch": SPELLINGS[3]}, "thread": f"t {VALUE}"}
    lines += [json.dumps(json.loads(told(20, "A line whose fields tell it.", "s3", "f1")) | field)]
    lines += [told(30, SIBLING, "s4", "n1"), told(31, PARAPHRASE, "s4", "n2")]
    path = tmp_path / "history.jsonl"
    path.write_text("\n".join(lines), encoding="utf-8")
    return path


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    with Place(tmp_path, idle=60, more=DAEMON) as made:
        yield made


def holding(place: Place) -> dict[str, int]:
    """Files that hold the value in any spelling, by their place in the data directory or the home; archives are unpacked."""
    found: dict[str, int] = {}
    for root in (place.directory, place.home):
        for path in sorted(p for p in root.rglob("*") if p.is_file()):
            raw = path.read_bytes()
            if path.suffix == ".archive":
                with Archive(path) as archive:
                    rows = [str(row) for b in archive if not isinstance(b, Damaged) for row in b.mappings()]
                raw = "\n".join(rows).encode("utf-8", "replace")
            texts = [raw.decode(code, "ignore") for code in ("utf-8", "utf-16-le")]
            texts.append(re.sub(r"\\u([0-9a-f]{4})", lambda m: chr(int(m[1], 16)), texts[0]))
            count = max(key_of(text).count(KEY) for text in texts)
            if count:
                found[str(path.relative_to(root))] = count
    return found


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


def fill(place: Place, history: Path) -> None:
    place.ok("ingest", str(history))
    place.ok("admin", "rebuild-index", "--type", "bm25")
    place.ok("backup")
    [first, *_] = json.loads(place.ok("ask", "boat number", "--all", "--json"))["results"]
    node = json.loads(place.ok("query", "expand-grip", first["grip"], "--json"))["grip"]["node_id"]
    words = {"title": f"Named {VALUE}", "bullets": [{"text": f"It lies at {SPELLINGS[1]}", "grip_ids": [first["grip"]]}]}
    place.ok("refine", "write", node, f"--text={json.dumps(words)}")
    plant_files(place)


def spoken(place: Place) -> str:
    return place.ok("query", "events", "--all", "--json", "--limit", "100")


def assert_gone(place: Place, when: str) -> None:
    assert holding(place) == {}, when
    events = spoken(place)
    assert KEY not in key_of(events), when
    # Controls: what stands beside it is whole, and other words for it are found.
    assert SIBLING in events, when
    assert events.count(MARK) >= 2 * len(SPELLINGS), when
    assert "seventy-seven" in place.ok("ask", "which number has the berth of the blue tuna?", "--all"), when
    assert "every invariant holds" in place.ok("admin", "check"), when


def test_a_value_in_five_spellings_leaves_every_place_and_does_not_come_back(place: Place, history: Path, tmp_path: Path) -> None:
    fill(place, history)
    before = holding(place)
    kinds = ("memory.duckdb", "indexes/bm25", "backups/", "spool/bad", "spool/tmp", "spool/import", "daemon.log", "briefings")
    for kind in (*kinds, "damaged", "before-restore", "memory.schema-5", ".config/memory-mcp/install"):
        assert any(name.startswith(kind) for name in before), (kind, before)
    shutil.copytree(place.directory / "backups", tmp_path / "older")

    tried = json.loads(place.ok("forget", "--value", "--json", stdin=VALUE))
    assert not tried["forgotten"]
    assert tried["counts"]["events with a value"] == 2 * len(SPELLINGS) + 1
    assert holding(place) == before
    done = json.loads(place.ok("forget", "--value", "--json", "--yes", stdin=SPELLINGS[1]))
    assert done["forgotten"]
    assert_gone(place, "right after")
    count = spoken(place).count('"event_id"')

    place.ok("admin", "rebuild-toc")
    place.ok("admin", "rebuild-index")
    assert_gone(place, "rebuilt")
    place.stop()
    assert_gone(place, "restarted")
    again = tmp_path / "again.jsonl"
    shutil.copy(history, again)
    place.ok("ingest", str(again))
    place.ok("ingest", "-", stdin=told(50, f"By another door: {SPELLINGS[3]}", "s9", "z1"))
    assert_gone(place, "imported again")
    assert spoken(place).count('"event_id"') == count + 1
    place.ok("admin", "compact")
    place.ok("restore", str(tmp_path / "older"))
    shutil.rmtree(next(place.directory.glob("before-restore-*")))
    # The next daemon may be building them already.
    until(lambda: place.run("admin", "rebuild-index").returncode == 0)
    assert_gone(place, "restored")
    place.ok("ingest", str(again))
    assert spoken(place).count('"event_id"') == count
    audit = (place.directory / paths.TOMBSTONES).read_bytes() + (place.directory / paths.TOMBSTONES_KEY).read_bytes()
    assert b"bluefin" not in audit.lower()


@pytest.mark.parametrize("which", ["session", "event", "project"])
def test_an_event_and_all_derived_of_it_go_and_a_sibling_stays(place: Place, history: Path, tmp_path: Path, which: str) -> None:
    place.ok("ingest", str(history))
    place.ok("ingest", "-", stdin=told(60, SIBLING.replace("orchard", "meadow"), "s8", "m1").replace("boats", "meadow"))
    event = json.loads(spoken(place))["events"][0]
    given = {"session": "s1", "event": event["event_id"], "project": "boats"}[which]
    gone = {"session": 5, "event": 1, "project": 13}[which]
    before = spoken(place).count('"event_id"')
    assert json.loads(place.ok("forget", f"--{which}", given, "--json"))["counts"]["events"] == gone
    place.ok("forget", f"--{which}", given, "--yes")
    again = tmp_path / "again.jsonl"
    shutil.copy(history, again)
    place.ok("ingest", str(again))
    events = spoken(place)
    assert events.count('"event_id"') == before - gone
    assert event["event_id"] not in events
    assert "meadow is watered" in events
    assert "every invariant holds" in place.ok("admin", "check")
    assert event["event_id"] not in place.ok("ask", "berth 0 painted", "--all")


@pytest.mark.parametrize("point", sorted(p for p in FAILPOINTS if p.startswith("forget.")))
def test_a_killed_forget_is_carried_on(tmp_path: Path, history: Path, point: str) -> None:
    with Place(tmp_path, idle=60, more=DAEMON) as place:
        place.ok("ingest", str(history))
        place.ok("backup")
        place.stop()
    alone = {"MEMORY_MCP_SERVER__DAEMON": "false"}
    with Place(tmp_path, more=alone | {VARIABLE: point}) as killed:
        assert killed.run("forget", "--value", "--yes", stdin=VALUE).returncode == -signal.SIGKILL
    with Place(tmp_path, idle=60, more=DAEMON) as place:
        place.ok("timeline")
        until(lambda: not (place.directory / "forgetting.json").exists())
        place.ok("query", "events", "--all")
        assert_gone(place, point)
        assert "acknowledged events: all there" in place.run("doctor").stdout
