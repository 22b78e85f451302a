"""Topics from files to quotations, through the installed command and a server of its own process."""

import json
from pathlib import Path
from typing import Any

from mcp import Client

from tests import topics
from tests.acceptance.conftest import Command
from tests.acceptance.test_end_to_end import ask, call
from tests.daemon.inside import ALONE, as_installed, run_inside

#: What is said in sessions of which no word says anything.
_WORDLESS = ("ok", "👍", "...", "yes", "🎉 🎉")


def _wordless(count: int) -> str:
    """Sessions of one message without a word that counts, of a client's project, as JSONL."""
    rows = (
        {"id": f"w{n}", "session_id": f"w{n}", "timestamp": f"2026-02-{n % 28 + 1:02}T{n % 9 + 8:02}:00:00Z", "role": "user"}
        for n in range(count)
    )
    return "".join(json.dumps({**row, "text": _WORDLESS[n % len(_WORDLESS)]}) + "\n" for n, row in enumerate(rows))


def test_segments_without_words_belong_to_no_topic_and_a_graph_a_tenth_behind_is_being_renewed(
    environment: dict[str, str], tmp_path: Path
) -> None:
    alone = environment | ALONE | {"MEMORY_MCP_SERVER__SCOPE": "all", "MEMORY_MCP_TELEPORT__ENABLED": "false"}

    def run(*words: str, stdin: str = "") -> dict[str, Any]:
        done = run_inside([*words, "--json"], alone, tmp_path, stdin, begin=as_installed)
        assert done.returncode == 0, done.stderr
        return dict(json.loads(done.stdout))

    (tmp_path / "events.jsonl").write_text(topics.lines() + _wordless(60), encoding="utf-8")
    run("ingest", str(tmp_path / "events.jsonl"))
    run("admin", "rebuild-index", "--type", "topics")
    status = run("topics", "status")
    assert (status["healthy"], status["segments"]) == (True, 132)
    assert status["unassigned"] >= 60
    shown = run("topics", "top", "--fine", "--limit", "50")["topics"] + run("topics", "top")["topics"]
    assert all(topic["keywords"] for topic in shown)
    assert sum(topic["mentions"] for topic in run("topics", "top", "--fine", "--limit", "50")["topics"]) <= 72
    assert run("topics", "explore", "photosynthesis in orchids")["notices"][0].startswith("no topic fits")

    (tmp_path / "more.jsonl").write_text(_wordless(80), encoding="utf-8")
    run("ingest", str(tmp_path / "more.jsonl"))

    async def talk(client: Client) -> None:
        told = await call(client, "get_topic_graph_status")
        assert (told["healthy"], told["behind"] >= 16) == (False, True)
        assert told["message"].startswith("being renewed")
        for tool, arguments in (
            ("topics_by_query", {"query": "invoice"}),
            ("intelligent_search", {"query": "recurring themes?"}),
        ):
            found = await call(client, tool, **arguments)
            notices = found.get("notices") or found["explanation"]["notices"]
            assert any(notice.startswith("topics are being renewed") for notice in notices)

    # With so many wanted none are looked for again while this asks.
    ask(alone | {"MEMORY_MCP_SERVER__PROFILE": "full", "MEMORY_MCP_TOPICS__MIN_SEGMENTS": "10000"}, talk, "serve")


def test_topics_are_found_asked_for_and_cited_by_real_processes(
    command: Command, environment: dict[str, str], tmp_path: Path
) -> None:
    # The server is started in the directory of these tests, of which this memory knows nothing.
    environment |= {"MEMORY_MCP_SERVER__SCOPE": "all", "MEMORY_MCP_TELEPORT__ENABLED": "false"}
    (tmp_path / "events.jsonl").write_text(topics.lines(), encoding="utf-8")
    ingested = run_inside(["ingest", str(tmp_path / "events.jsonl")], environment, tmp_path, begin=as_installed)
    assert ingested.returncode == 0
    done = command("admin", "rebuild-index", "--type", "topics", "--json")
    while "being looked for already" in done.stderr:
        done = command("admin", "rebuild-index", "--type", "topics", "--json")
    assert done.returncode == 0, done.stderr
    built = json.loads(done.stdout)["rebuilt"]["topics"]
    assert built["documents"] == 72

    async def talk(client: Client) -> None:
        status = await call(client, "get_retrieval_status")
        assert next(layer for layer in status["layers"] if layer["name"] == "topics")["healthy"] is True
        found = await call(client, "topics_by_query", query="why do invoice mails go out twice")
        assert "invoice" in found["topics"][0]["label"]
        node = found["topics"][0]["nodes"][0]
        proof = await call(client, "expand_grip", grip_id=node["grip"])
        assert (proof["verified"], proof["grip"]["quote"]) == (True, node["text"])
        whole = await client.read_resource(f"memory://topic/{found['topics'][0]['topic_id']}")
        assert json.loads(whole.contents[0].text)["topic"]["mentions"] == topics.WEEKS  # type: ignore[union-attr]

    ask(environment, talk, "serve")
    # A pipe gets plain text, from the daemon and without one alike.
    shown = command("topics", "top")
    assert shown.returncode == 0
    assert "\x1b" not in shown.stdout
    assert run_inside(["daemon", "stop"], environment, tmp_path).returncode == 0
    assert shown.stdout == run_inside(["topics", "top"], environment | ALONE, tmp_path).stdout
