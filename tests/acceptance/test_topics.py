"""Topics from files to quotations, through the installed command and a server of its own process."""

import json
from pathlib import Path

from mcp import Client

from tests import topics
from tests.acceptance.conftest import Command
from tests.acceptance.test_end_to_end import ask, call
from tests.daemon.inside import ALONE, as_installed, run_inside


def test_topics_are_found_asked_for_and_cited_by_real_processes(
    command: Command, environment: dict[str, str], tmp_path: Path
) -> None:
    # The server is started in the directory of these tests, of which this memory knows nothing.
    environment |= {"MEMORY_MCP_SERVER__SCOPE": "all", "MEMORY_MCP_TELEPORT__ENABLED": "false"}
    (tmp_path / "events.jsonl").write_text(topics.lines(), encoding="utf-8")
    ingested = run_inside(["ingest", str(tmp_path / "events.jsonl")], environment, tmp_path, begin=as_installed)
    assert ingested.returncode == 0
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
