"""From a raw transcript to a verified quotation, through the real server and a real client."""

import asyncio
import json
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from mcp import Client, StdioServerParameters

from tests.acceptance.conftest import SAMPLES, Command
from tests.daemon.inside import ALONE, BARE, as_installed, run_inside
from tests.requirements import requirement
from tests.waiting import PATIENCE

TRANSCRIPT = next(SAMPLES.rglob("*.jsonl"))
QUESTION = "Why did the nightly export write 0 rows, and what did we decide about the cursor?"


def ask(environment: dict[str, str], talk: Callable[[Client], Awaitable[None]], *arguments: str) -> None:
    """Start the server as a client does, and talk to it."""

    async def session() -> None:
        command = ["-m", "memory_mcp", *arguments]
        server = StdioServerParameters(command=sys.executable, args=command, env=environment)
        async with Client(server, read_timeout_seconds=PATIENCE) as client:
            await talk(client)

    asyncio.run(asyncio.wait_for(session(), PATIENCE))


async def call(client: Client, tool: str, **arguments: Any) -> dict[str, Any]:
    result = await client.call_tool(tool, arguments)
    assert not result.is_error, result.content
    assert isinstance(result.structured_content, dict)
    return result.structured_content


def stored_texts() -> list[str]:
    """What was said in the transcript, read from its raw lines."""
    texts = []
    for line in TRANSCRIPT.read_text(encoding="utf-8").splitlines():
        if line.endswith("}"):
            content = json.loads(line)["message"]["content"]
            texts += [content] if isinstance(content, str) else [p["text"] for p in content if p["type"] == "text"]
    return texts


@requirement("plan:success-find-x", "plan:integration-provenance", "plan:integration-expand-grip")
@requirement("plan:success-no-index", "plan:goal-no-index", "contract:agentic-no-dependencies")
def test_a_transcript_becomes_a_cited_and_verified_answer(command: Command, environment: dict[str, str], tmp_path: Path) -> None:
    blocked = {"PYTHONPATH": str(without_engines(tmp_path))}
    done = command("import", "claude-code", str(SAMPLES), "--json", env=blocked)
    assert (done.returncode, json.loads(done.stdout)["built"]["events"]) == (0, 10)

    async def talk(client: Client) -> None:
        found = await call(client, "intelligent_search", query=QUESTION, scope="all", detail="full")
        first = found["results"][0]
        assert first["grip_ids"]
        assert found["explanation"]["method_used"] == "agentic"
        assert found["explanation"]["tier_used"] == 5
        for grip_id in first["grip_ids"]:
            expanded = await call(client, "expand_grip", grip_id=grip_id)
            assert expanded["verified"] is True
            assert any(expanded["grip"]["quote"] in text for text in stored_texts())
        proof = await call(client, "expand_grip", grip_id=first["grip_ids"][0], token_budget=9000)
        assert proof["grip"]["quote"] == first["quote"]
        shown = proof["events_before"] + proof["excerpt_events"] + proof["events_after"]
        assert any("cursor" in event["text"] for event in shown)
        assert "AKIAIOSFODNN7EXAMPLE" not in json.dumps(await call(client, "browse_toc"))

    # Without arguments, it serves; test_topics.py says so.
    ask(environment | blocked, talk)
    walked = run_inside(["navigate", QUESTION], environment | blocked, tmp_path, begin=as_installed)
    assert walked.returncode == 0
    assert "cursor" in walked.stdout.split("## Evidence")[1]


def test_a_second_process_is_told_who_holds_the_memory(command: Command, environment: dict[str, str], tmp_path: Path) -> None:
    async def talk(client: Client) -> None:
        await call(client, "browse_toc")
        refused = await asyncio.to_thread(command, "search", "anything")
        assert refused.returncode == 3
        assert refused.stdout == ""
        assert refused.stderr.startswith("the data directory ")
        assert "is in use by `memory-mcp serve --in-process` (process " in refused.stderr
        assert "Traceback" not in refused.stderr
        looked = run_inside(["doctor"], environment, tmp_path)
        assert (looked.returncode, "warn  lock: " in looked.stdout) == (0, True)

    ask(environment | BARE, talk, "serve", "--in-process")
    assert run_inside(["search", "anything"], environment | ALONE, tmp_path).returncode == 0


def test_a_reader_that_has_enough_ends_the_command_quietly(environment: dict[str, str], tmp_path: Path) -> None:
    assert run_inside(["import", "claude-code", str(SAMPLES)], environment | ALONE, tmp_path).returncode == 0
    script = f"{sys.executable} -m memory_mcp query events --all --limit 1000 | head -n 1; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(
        ["bash", "-c", script],
        env=environment | ALONE,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=True,
    )
    assert (len(done.stdout.splitlines()), done.stdout.splitlines()[-1], done.stderr) == (2, "0", "")


def without_engines(tmp_path: Path) -> Path:
    """A folder for PYTHONPATH in which every index engine is a module that refuses to be imported."""
    place = tmp_path / "blocked"
    place.mkdir()
    for name in ("bm25s", "usearch", "model2vec", "numba"):
        (place / f"{name}.py").write_text(f"raise ImportError('{name} is blocked')\n")
    script, only = [sys.executable, "-c", "import bm25s"], {"PYTHONPATH": str(place)}
    proof = subprocess.run(script, env=only, capture_output=True, text=True, check=False)
    assert "bm25s is blocked" in proof.stderr
    return place
