"""Refining as it is shipped: the installed command and a client on stdio, both before one daemon; hooks, spool and briefing."""

import datetime as dt
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from mcp import Client

from bench.place import Place
from tests.daemon.inside import BARE, SERVED, WORDS, Beside, Inside
from tests.daemon.places import copied, needs_proc
from tests.daemon.test_pump import call, talk
from tests.sessions import DAYS, lines, sessions, stretch
from tests.waiting import until

pytestmark = needs_proc

TITLE = "Mooring of the zeppelin: ropes replaced"
TEXT = "Zeppelins moor by starboard ropes, not by chains."
REFINE = {"MEMORY_MCP_HOOKS__REFINE": "true"}


@pytest.fixture(scope="module")
def origin(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data directory that is filled once."""
    made = Inside(tmp_path_factory.mktemp("origin"), more=BARE)
    made.ok("ingest", "-", stdin=lines(sessions()))
    return made.directory


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory, origin: Path) -> Iterator[Place]:
    """A filled memory with an index for tests that use stretches of their own, or change nothing."""
    with copied(origin, tmp_path_factory.mktemp("shared"), WORDS, kind=Beside) as made:
        yield made


def told(place: Place, *words: str, stdin: str = "") -> dict[str, Any]:
    return dict(json.loads(place.ok(*words, "--json", stdin=stdin)))


def refinement(shown: dict[str, Any]) -> str:
    """New words for what `refine show` showed, on two of its grips."""
    grips = [grip for line in shown["events"] for grip in line.get("grip_ids", ())]
    return json.dumps({"title": TITLE, "bullets": [{"text": TEXT, "grip_ids": [grips[0], grips[-1]], "kind": "decision"}]})


def everything(place: Place) -> str:
    """What the tree says on all levels."""
    ids = [
        "2026",
        "2026-01",
        "2026-W04",
        *DAYS,
        *(one["node_id"] for d in DAYS for one in told(place, "query", "browse", d)["children"]),
    ]
    return json.dumps([told(place, "query", "node", i)["node"] for i in ids]).casefold()


# the command


def test_the_command_walks_a_day_and_what_it_writes_takes_the_place_of_the_old_text(shared: Place) -> None:
    due = told(shared, "refine", "due", "--day", DAYS[1])["due"]
    assert [(one["events"], one["level"]) for one in due] == [(12, "segment")] * 3
    assert "okapi" in everything(shared)
    shown = told(shared, "refine", "show", due[1]["node_id"], "--token-budget", "2000")
    assert shown["left_out"] == 0 if "left_out" in shown else len(shown["events"]) == 12
    program = Place(shared.root, more=shared.settings)
    written = told(program, "refine", "write", due[1]["node_id"], stdin=refinement(shown))
    assert written["title"] == f"{shown['title'][:16]} · {TITLE}"
    assert shared.status()["running"] is True
    assert "okapi" not in everything(shared)
    assert "zeppelin" in json.dumps(told(shared, "query", "browse", "2026")).casefold()

    def is_indexed() -> bool:
        done = shared.run("teleport", "search", "zeppelins", "--type", "toc_node", "--json")
        return not done.returncode and bool(json.loads(done.stdout)["results"])

    until(is_indexed, "the index has the new text")
    assert [one["node_id"] for one in told(shared, "refine", "due", "--day", DAYS[1])["due"]] == [
        due[0]["node_id"],
        due[2]["node_id"],
    ]


def test_the_command_reads_a_file_and_writes_where_no_daemon_may_run(origin: Path, tmp_path: Path) -> None:
    with copied(origin, tmp_path, BARE, kind=Inside) as place:
        node = told(place, "refine", "due", "--day", DAYS[0])["due"][0]["node_id"]
        file = tmp_path / "refined.json"
        file.write_text(refinement(told(place, "refine", "show", node)), encoding="utf-8")
        assert TITLE in place.ok("refine", "write", node, str(file))
        assert place.processes() == {}
        assert "pangolin" not in place.ok("query", "node", node, "--json").casefold()


def test_input_that_does_not_fit_is_refused_with_a_next_step_and_changes_nothing(shared: Place) -> None:
    before = everything(shared)
    [node] = told(shared, "refine", "due", "--limit", "1")["due"]
    for given, said in (
        ("", "not JSON: "),
        ("{", "not JSON: "),
        ("[]", "the refinement is no JSON object"),
        ('{"title": "x", "bulets": []}', "the refinement: unknown field 'bulets'"),
        ('{"title": 7, "bullets": []}', "title is no text"),
        ('{"title": "x"}', "bullets is empty"),
        ('{"title": "x", "bullets": ["a"]}', "bullets.0 is no JSON object"),
        ('{"title": "x", "bullets": [{"text": "a"}]}', "bullets.0.grip_ids is empty"),
        ('{"title": "x", "bullets": [{"text": "a", "grip_ids": "b"}]}', "bullets.0.grip_ids is no list"),
        (
            '{"title": "x", "bullets": [{"text": "a", "grip_ids": ["grip:1768986120000:0123456789abcdef"]}]}',
            "no grip grip:1768986120000:0123456789abcdef",
        ),
    ):
        done = shared.run("refine", "write", node["node_id"], stdin=given)
        assert (done.returncode, done.stdout) == (2, ""), given
        assert done.stderr.startswith(said), given
        assert "Nothing was changed." in done.stderr, given
        assert "Traceback" not in done.stderr, given
    assert everything(shared) == before


def test_other_wrong_words_are_refused_too(shared: Place) -> None:
    [node] = told(shared, "refine", "due", "--limit", "1")["due"]
    for words, said in (
        (("refine", "due", "--day", "soonish"), "invalid day: 'soonish'"),
        (("refine", "show", "toc:segment:2026-01-20:0123456789ab"), "no node"),
        (("refine", "show", node["node_id"], "--token-budget", "5"), "token_budget must be at least 1000"),
        (("refine", "write", node["node_id"], "/nowhere/at/all.json"), "/nowhere/at/all.json cannot be read"),
    ):
        done = shared.run(*words)
        assert done.returncode != 0, words
        assert said in done.stderr, words


# a client on stdio


def test_a_client_of_the_full_profile_does_the_same_in_three_calls(shared: Place) -> None:
    async def work(client: Client) -> tuple[dict[str, Any], dict[str, Any]]:
        [one] = (await call(client, "refine_due", day=DAYS[0], limit=1))["due"]
        shown = await call(client, "refine_show", node_id=one["node_id"], token_budget=2000)
        await call(client, "refine_summary", node_id=one["node_id"], **json.loads(refinement(shown)))
        return shown, await call(client, "get_node", node_id=one["node_id"])

    shown, node = talk(shared, work)
    assert "pangolin" in shown["title"].casefold()
    assert node["node"]["title"] == f"{shown['title'][:16]} · {TITLE}"
    assert node["node"]["bullets"][0]["text"] == TEXT
    assert "pangolin" not in everything(shared)
    # The command sees what the tool wrote.
    assert shown["node_id"] not in json.dumps(told(shared, "refine", "due"))


def test_a_shared_day_keeps_what_is_told_of_the_other_project_and_its_words_follow(shared: Place) -> None:
    def billing(number: int, text: str) -> str:
        at = f"{DAYS[0]}T{10 + number}:15:00Z"
        return json.dumps({"session_id": f"b{number}", "timestamp": at, "role": "user", "text": text, "project": "billing"})

    ledger = ("We decided that the ledger is kept in the vault.", "We decided to print invoices on Mondays, never on Fridays.")
    shared.ok("ingest", "-", stdin="\n".join(billing(n, text) for n, text in enumerate(ledger)))

    def bullets() -> list[dict[str, Any]]:
        return list(told(shared, "query", "node", DAYS[0], "--all")["node"]["bullets"])

    def is_of(project: str, bullet: dict[str, Any]) -> bool:
        segment = told(shared, "query", "expand-grip", bullet["grip_ids"][0])["grip"]["node_id"]
        return project in str(told(shared, "query", "node", segment, "--all")["node"]["projects"])

    def of(project: str) -> list[str]:
        return [b["text"] for b in bullets() if is_of(project, b)]

    before = of("billing")
    assert before
    assert of("shop") != [TEXT]
    grip = next(b["grip_ids"][0] for b in bullets() if is_of("shop", b))

    async def work(client: Client) -> None:
        bullets = [{"text": TEXT, "grip_ids": [grip]}]
        await call(client, "refine_summary", node_id=DAYS[0], title=TITLE, bullets=bullets, scope="all")

    talk(shared, work)
    assert of("shop") == [TEXT]
    assert of("billing") == before
    # What comes later of the other project is told, and the agent's words stay.
    said = "We decided that the ledger of the okapi is written twice a day, never more often."
    shared.ok("ingest", "-", stdin=billing(5, said))
    shared.ok("admin", "rebuild-toc")
    assert of("shop") == [TEXT]
    assert any("okapi" in text for text in of("billing"))
    assert told(shared, "query", "node", DAYS[0], "--all")["node"]["author"] == "agent"
    assert "every invariant holds" in shared.ok("admin", "check")


# hooks


def hook(place: Place, event: str, session: str, **more: Any) -> str:
    project = place.home / "shop"
    project.mkdir(exist_ok=True)
    payload = {"session_id": session, "cwd": str(project), "hook_event_name": event, **more}
    done = place.run("hook", "claude-code", stdin=json.dumps(payload))
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def a_session(place: Place, session: str, matter: str, ending: str) -> None:
    """A session as its hooks tell it, enough of it to be refined."""
    plan = "First the reader, then the writer, then the tests, each in a commit of its own. " * 12
    hook(place, "UserPromptSubmit", session, prompt=f"The {matter} reader drops the last line. Find out why. {plan}")
    for number in range(4):
        answer = {"stdout": f"FAILED test_{matter}_{number}: 11 rows"}
        given = {
            "tool_name": "Bash",
            "tool_use_id": f"{session}{number}",
            "tool_input": {"command": f"pytest -k {matter}{number}"},
        }
        hook(place, "PostToolUse", session, tool_response=answer, **given)
    hook(place, "Stop", session, last_assistant_message=f"Fixed: the last {matter} line is flushed. {plan}")
    hook(place, "UserPromptSubmit", session, prompt=f"Never change the {matter} format. {plan}")
    if ending == "SessionEnd":
        hook(place, "SessionEnd", session, reason="other")


def briefing(place: Place, session: str) -> str:
    """What a session that begins is told, once everything is stored and written down."""
    until(lambda: not list((place.directory / "spool" / "new").glob("*")), "for the spool")
    told(place, "refine", "due")
    place.ok("scheduler", "run", "render_briefings")
    printed = hook(place, "SessionStart", session, source="startup")
    return str(json.loads(printed)["hookSpecificOutput"]["additionalContext"]) if printed else ""


def test_a_session_that_is_compacted_or_ends_leaves_a_request_and_the_next_is_told_until_it_is_refined(tmp_path: Path) -> None:
    """What nobody asked for, of a session that told no end, is asked for by the next compaction."""
    with Beside(tmp_path, more=SERVED | REFINE) as place:
        begin = (dt.datetime.now(dt.UTC) - dt.timedelta(days=1)).strftime("%Y-%m-%d %H:%M")
        place.ok("ingest", "-", stdin=lines(stretch("quokka", begin, "one", str(place.home / "shop"))))
        assert "unsummarised" not in briefing(place, "two")
        hook(place, "PreCompact", "two", trigger="auto", custom_instructions="")
        assert "\n1 stretch is unsummarised: /memory:refine\n" in briefing(place, "three")
        a_session(place, "four", "narwhal", "SessionEnd")
        assert "\n2 stretches are unsummarised: /memory:refine\n" in briefing(place, "five")
        for one in told(place, "refine", "due")["due"]:
            shown = told(place, "refine", "show", one["node_id"])
            place.ok("refine", "write", one["node_id"], stdin=refinement(shown))
        left = briefing(place, "six")
        assert "unsummarised" not in left
        assert "Mooring of the zeppelin" in left


@pytest.mark.slow  # in the short form: a compaction, above.
def test_a_compaction_leaves_a_request_too_also_where_it_says_nothing(tmp_path: Path) -> None:
    with Beside(tmp_path, more=SERVED) as place:
        place.ok("daemon", "start")
        a_session(place, "one", "quokka", "SessionEnd")
        # Switched off nothing is asked and nothing is told.
        assert "unsummarised" not in briefing(place, "two")
        place.stop()
    with Beside(tmp_path, more=SERVED | REFINE) as place:
        place.ok("daemon", "start")
        assert "unsummarised" not in briefing(place, "three")
        hook(place, "PreCompact", "three", trigger="auto", custom_instructions="")
        assert "\n1 stretch is unsummarised: /memory:refine\n" in briefing(place, "four")
        place.stop()
    with Beside(tmp_path, more=SERVED) as place:
        place.ok("daemon", "start")
        assert "unsummarised" not in briefing(place, "five")
