"""Secrets of every kind through every door of the shipped program; afterwards hardly one is on the disk.

The short form takes one value of each kind, through the doors by turns; `--slow` takes ten through each door.
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest
from mcp import Client

from bench.place import Place
from memory_mcp.base import paths
from tests.acceptance.test_end_to_end import ask, call
from tests.daemon.inside import ALONE, WORDS, Beside, Inside
from tests.daemon.places import DAEMON
from tests.files import read_at_rest
from tests.ingest.secret_kinds import KINDS, find_remaining
from tests.waiting import until

#: The share of values that may remain, in the text of an event.
SHARE = 0.03
TOKEN = "ghp_" + "16C7e42F292c6912E7710c838347Ae178B4a"


def planted(count: int, door: str) -> list[tuple[str, str]]:
    """Texts with a secret in each, half of them in surroundings no rule was written by."""
    return [v for kind in KINDS for held in (False, True) for v in kind.values((count + 1) // 2, held, door)]


def line(n: int, text: str, **more: str) -> str:
    told = {"session_id": f"s{n % 7}", "timestamp": f"2026-03-02T09:{n // 60 % 60:02}:{n % 60:02}Z", "role": "user", "text": text}
    return json.dumps(told | {"id": f"m{n}"} | more)


def on_disk(directory: Path) -> Iterator[str]:
    """Every byte of every file, of zeros one for many, and every text of the store, which is packed on disk."""
    for content in read_at_rest(directory).values():
        yield re.sub(rb"\0+", b"\0", content).decode("utf-8", "ignore")
    with opened(directory) as store:
        for (table,) in store.execute("SELECT table_name FROM duckdb_tables() WHERE NOT internal").fetchall():
            yield "\n".join(str(row) for row in store.execute(f'SELECT * FROM "{table}"').fetchall()).replace("\\\\", "\\")


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    """A memory of which commands build no index but that of words, and for which they start no daemon."""
    with Beside(tmp_path, more=WORDS | ALONE) as made:
        yield made


def opened(directory: Path) -> duckdb.DuckDBPyConnection:
    """The database, once the daemon that has just ended has let go of it."""
    found: list[duckdb.DuckDBPyConnection] = []

    def free() -> bool:
        try:
            found.append(duckdb.connect(str(directory / "memory.duckdb")))
        except duckdb.IOException:
            return False
        return True

    until(free)
    return found[0]


def through_file(place: Place, rows: list[str], *words: str) -> None:
    file = place.root / f"{words[0]}.jsonl"
    file.write_text("\n".join(rows))
    place.ok(*words, str(file))


@pytest.mark.parametrize("count", [2, pytest.param(10, marks=pytest.mark.slow)])
def test_hardly_a_secret_reaches_the_disk_and_none_of_a_pause_or_that_a_hook_left_unreadable(count: int, place: Place) -> None:
    """Of each door, which is told values of its own: files, hooks and the tools of a client, into one memory."""
    # In the long form there are vectors and topics too; the texts that they are made of are looked at in the short form.
    place.settings = {k: v for k, v in place.settings.items() if count == 2 or k not in WORDS} | DAEMON
    values = {door: planted(count, door) for door in ("import", "ingest", "hook", "ingest_events", "remember")}
    if count == 2:
        # One value of each kind, in both surroundings by turns, through one door; every door has its share of all of them.
        for turn, (door, both) in enumerate(values.items()):
            values[door] = [both[2 * n + n // 5 % 2] for n in range(turn, len(KINDS), 5)]
    new = Path(paths.spool_dir(str(place.directory))) / "new"
    new.mkdir(parents=True)
    (new / "00000000000000000001-bad").write_text('{"v":1,"client":"claude-code","at_ns":1}\n{"broken": "' + TOKEN)
    # One payload for many texts: a process for each would take the hour.
    for n in range(0, len(values["hook"]), 200):
        said = "\n\n".join(text for text, _ in values["hook"][n : n + 200])
        told = {"session_id": f"s{n}", "hook_event_name": "UserPromptSubmit", "prompt": said, "cwd": "/home/dev/shop"}
        place.ok("hook", "claude-code", stdin=json.dumps(told))
    for door, words in (("import", ("import", "jsonl")), ("ingest", ("ingest",))):
        through_file(place, [line(n, text, id=f"{door}{n}") for n, (text, _) in enumerate(values[door])], *words)

    async def talk(client: Client) -> None:
        for text, _ in values["remember"]:
            await call(client, "remember", text=text)
        lines = [json.loads(line(n, text, id=f"told{n}")) for n, (text, _) in enumerate(values["ingest_events"])]
        for n in range(0, len(lines), 50):
            await call(client, "ingest_events", events=lines[n : n + 50])

    ask(place.environment(), talk, "serve")
    paused = place.run("pause", "--project", f"x {TOKEN}")
    assert (paused.returncode, "holds a secret" in paused.stderr) == (2, True)
    place.ok("scheduler", "run", "drain_spool")
    place.ok("daemon", "stop")
    everything = "\n".join(on_disk(place.directory))
    assert len(list((new.parent / "bad").iterdir())) == 1
    assert TOKEN[:24] not in everything
    remaining = find_remaining((secret for rows in values.values() for _, secret in rows), everything)
    for door, told_there in values.items():
        left = [text for text, secret in told_there if secret in remaining]
        assert len(left) <= SHARE * len(told_there), (door, left[:20])


def test_no_field_keeps_a_secret_and_sessions_stay_apart(place: Place) -> None:
    fields = ("session_id", "agent", "project", "thread", "speaker", "id")
    rows = [line(n, f"hello {field}", **{field: f"x {TOKEN}{n}"}) for n, field in enumerate(fields)]
    rows += [json.dumps(json.loads(line(9, "hello key")) | {"metadata": {TOKEN: "x"}})]
    rows += [line(n, f"again {n}", session_id=f"x {TOKEN}{n}") for n in (20, 21)]
    through_file(place, rows, "import", "jsonl")
    assert not any(TOKEN[:24] in text for text in on_disk(place.directory))
    with opened(place.directory) as store:
        sessions = store.execute("SELECT count(DISTINCT session_id) FROM event WHERE text LIKE 'again%'").fetchone()
    assert sessions == (2,)


def test_doctor_counts_stored_secrets_without_showing_one(place: Place) -> None:
    through_file(place, [line(n, f"hello {n}") for n in range(3)], "import", "jsonl")
    with opened(place.directory) as store:
        # As a release that knew fewer rules would have stored it.
        store.execute("UPDATE event SET text = ? WHERE text = 'hello 1'", [f"the token is {TOKEN}"])
    for start in (False, True):
        if start:
            place.settings |= DAEMON
            place.ok("daemon", "start")
        done = Inside(place.root, more=place.settings).run("doctor", "--secrets")
        assert "github: 1 secret in 1 event" in done.stdout
        assert "memory-mcp forget --event" in done.stdout
        assert TOKEN not in done.stdout
