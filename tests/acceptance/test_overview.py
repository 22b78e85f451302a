"""What was worked on, asked of the installed program in several languages, and what a new session is told of it."""

import datetime as dt
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import ClientSession, stdio_client

from bench.place import Place
from memory_mcp.model.tokens import estimate_tokens
from tests.daemon.inside import SERVED, Beside
from tests.daemon.places import needs_proc
from tests.waiting import until

pytestmark = needs_proc

SHOP, QUAY = "/home/dev/shop", "/home/dev/quay"
TODAY = dt.datetime.now(dt.UTC).replace(hour=9, minute=0, second=0, microsecond=0) - dt.timedelta(days=1)
MARCH = TODAY.replace(year=TODAY.year - 1, month=3, day=10)


def lines(session: str, cwd: str, begin: dt.datetime, *turns: tuple[str, Any]) -> str:
    """A transcript of Claude Code: texts of a person and of the agent, and the agent's calls with their results."""
    made: list[dict[str, Any]] = []
    for number, (role, content) in enumerate(turns):
        at = begin + dt.timedelta(minutes=number)
        common = {"sessionId": session, "cwd": cwd, "timestamp": at.isoformat(), "uuid": f"{session}-{number}"}
        made.append({**common, "type": role, "message": {"role": role, "content": content}})
    return "".join(json.dumps(line) + "\n" for line in made)


def run(number: int, command: str, printed: str, *, failed: bool = False) -> tuple[tuple[str, Any], tuple[str, Any]]:
    call = {"type": "tool_use", "id": f"t{number}", "name": "Bash", "input": {"command": command}}
    result = {"type": "tool_result", "tool_use_id": f"t{number}", "content": printed, "is_error": failed}
    return ("assistant", [call]), ("user", [result])


def exits() -> tuple[tuple[str, Any], ...]:
    command = "<command-name>/exit</command-name><command-message>exit</command-message><command-args></command-args>"
    return ("user", command), ("user", "<local-command-stdout>See ya!</local-command-stdout>")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """A memory of two projects, one of them with more work, and of a month long ago."""
    root = tmp_path_factory.mktemp("overview")
    sessions = root / "sessions"
    sessions.mkdir()
    retry = lines(
        *("retry", SHOP, TODAY, ("user", "Fix the retry queue of the shop: it gives up after one attempt.")),
        ("assistant", "We decided to retry three times with growing pauses."),
        *run(1, "make", "error: queue.py:3: name is not defined", failed=True),
        ("user", "we fail build"),
        *run(2, "make", "built"),
        ("assistant", "Fixed the retry queue: three attempts now, and the build works again."),
        ("user", "thanks a lot!"),
        ("assistant", "You're welcome."),
        *exits(),
    )
    ledger = lines(
        *("ledger", SHOP, TODAY - dt.timedelta(days=1), ("user", "Move the ledger of the shop into two tables.")),
        ("assistant", "Moved the ledger into the tables bookings and balances."),
    )
    bollards = lines(
        *("bollards", QUAY, TODAY - dt.timedelta(days=2), ("user", "Count the bollards of the northern quay.")),
        *run(3, "wc -l bollards", "17"),
    )
    march = lines(
        *("march", QUAY, MARCH, ("user", "Paint the quay wall of the harbour in yellow.")),
        ("assistant", "Painted the quay wall yellow; the paint lasts ten years."),
    )
    for name, text in (("retry", retry), ("ledger", ledger), ("bollards", bollards), ("march", march)):
        (sessions / f"{name}.jsonl").write_text(text, encoding="utf-8")
    with Beside(root, idle=60, more=SERVED) as made:
        made.ok("import", "claude-code", str(sessions))
        yield made


def ask(place: Place, directory: str = "", **arguments: Any) -> dict[str, Any]:
    """The answer of a server on stdio, as a client that works in `directory` starts it."""
    server = place.server()
    server.env = {**(server.env or {}), "CLAUDE_PROJECT_DIR": directory} if directory else server.env

    async def call() -> dict[str, Any]:
        async with stdio_client(server) as (read, write), ClientSession(read, write) as session:
            await session.initialize()
            answer = await session.call_tool("intelligent_search", arguments)
            assert isinstance(answer.structured_content, dict), answer
            return answer.structured_content

    return anyio.run(call)


def texts(project: dict[str, Any], part: str) -> list[str]:
    return [line["text"] for line in project.get(part, ())]


def test_what_was_worked_on_is_told_by_project_newest_first_with_grips(place: Place) -> None:
    answer = ask(place, query="What have I been working on?", scope="all")
    shop, quay = answer["projects"]
    assert (shop["project"], shop["sessions"], quay["project"]) == ("shop", 2, "quay")
    assert texts(shop, "asked") == [
        "Fix the retry queue of the shop: it gives up after one attempt.",
        "Move the ledger of the shop into two tables.",
    ]
    assert "Fixed the retry queue: three attempts now, and the build works again." in texts(shop, "done")
    assert texts(shop, "decided") == ["We decided to retry three times with growing pauses."]
    # A command of the client, a complaint that was fixed and thanks are no open ends; a turn that was cut off is one.
    assert "open" not in shop
    assert [(line["text"], line["why"]) for line in quay["open"]] == [
        ("Count the bollards of the northern quay.", "not finished")
    ]
    assert answer["results"] == []
    assert estimate_tokens(json.dumps(answer, ensure_ascii=False, separators=(",", ":"))) <= 700
    for line in (*shop["asked"], *shop["done"], *shop["decided"], *quay["open"]):
        assert line["grip"].startswith("grip:")
        assert line["text"][:20] in place.ok("show", line["grip"])


@pytest.mark.parametrize("query", ["Where did we stop?", "Wo haben wir aufgehört?", "¿Dónde lo dejamos?", "どこまでやったっけ？"])
def test_inside_a_project_it_tells_of_that_alone_in_any_language(place: Place, query: str) -> None:
    [project] = ask(place, SHOP, query=query)["projects"]
    assert ask(place, query=query, project="shop")["projects"] == [project]
    assert project["project"] == "shop"
    assert len(project["asked"]) == 2


@pytest.mark.parametrize(
    "query", ["What did I work on in March {}?", "Woran habe ich im März {} gearbeitet?", "Sur quoi ai-je travaillé en mars {} ?"]
)
def test_with_a_time_it_tells_of_that_time_and_of_nothing_open_since_done(place: Place, query: str) -> None:
    answer = ask(place, query=query.format(MARCH.year), scope="all")
    [project] = answer["projects"]
    assert (project["project"], project["when"]) == ("quay", f"{MARCH:%Y-%m-%d}")
    assert texts(project, "asked") == ["Paint the quay wall of the harbour in yellow."]
    assert "open" not in project


def test_a_question_for_something_in_particular_is_answered_as_ever(place: Place) -> None:
    answer = ask(place, query="What have I been working on in the ledger?", scope="all")
    assert "projects" not in answer
    assert any("ledger" in result["quote"] for result in answer["results"])


def test_the_command_line_and_today_tell_the_same_without_a_next_step_where_nothing_is_open(place: Place) -> None:
    told = place.ok("ask", "what have I been working on", "--all")
    assert "asked" in told
    assert "Count the bollards of the northern quay. (not finished)" in told
    assert "No results" not in told
    shop, quay = json.loads(place.ok("today", "--json"))["projects"]
    assert "next_step" not in shop
    assert "open" not in shop
    assert quay["next_step"]["label"] == "not finished"


def test_a_new_session_is_told_no_false_next_step(place: Place, tmp_path: Path) -> None:
    place.ok("scheduler", "run", "render_briefings")
    until(lambda: list((place.directory / "briefings").glob("*")), "for the briefings")
    payload = {
        "hook_event_name": "SessionStart",
        "session_id": "new",
        "source": "startup",
        "cwd": SHOP,
        "transcript_path": str(tmp_path),
    }
    context = json.loads(place.run("hook", "claude-code", stdin=json.dumps(payload)).stdout)["hookSpecificOutput"][
        "additionalContext"
    ]
    assert "Fix the retry queue of the shop" in context
    for text in ("/exit", "we fail build", "thanks", "not answered", "not finished"):
        assert text not in context
    quay = json.dumps({**payload, "cwd": QUAY})
    context = json.loads(place.run("hook", "claude-code", stdin=quay).stdout)["hookSpecificOutput"]["additionalContext"]
    assert "asked (not finished)" in context
