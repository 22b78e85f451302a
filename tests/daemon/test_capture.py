"""What is never recorded: excluded paths, projects and tools, and what is said in a pause, through every door."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from mcp import ClientSession, stdio_client

from bench.place import Place
from tests.daemon.inside import Beside
from tests.daemon.places import DAEMON, NO_INDEXES, needs_proc
from tests.files import read_at_rest
from tests.waiting import until

pytestmark = needs_proc


RULES = {
    "MEMORY_MCP_INGEST__EXCLUDE_PATHS": "**/sealed, *.pem, ~/den, {}, C:\\Users\\u\\den, /home/u/caf\u00e9",
    "MEMORY_MCP_INGEST__EXCLUDE_PROJECTS": "acme/private-*",
    "MEMORY_MCP_INGEST__EXCLUDE_TOOLS": "mcp__mail__*",
}

BEFORE = json.dumps({"session_id": "x", "role": "user", "text": "before", "timestamp": 1_767_225_600_000})


def raw(place: Place) -> bytes:
    """Every byte that the data directory holds."""
    return b"".join(read_at_rest(place.directory).values())


def hook(place: Place, event: str, **told: Any) -> None:
    payload = {"hook_event_name": event, "session_id": "s", "cwd": "/home/u/open", **told}
    done = place.run("hook", "claude-code", stdin=json.dumps(payload))
    assert (done.returncode, done.stderr) == (0, "")


def transcript(folder: Path) -> Path:
    """A session of Claude Code that reads an excluded file, asks an excluded tool and does one thing that may be kept."""
    uses = [
        ("u1", "Read", {"file_path": "/home/u/open/keys/server.pem"}, "alder-pem-content"),
        ("u2", "Bash", {"command": "cat ./sealed/notes.txt"}, "beech-vault-content"),
        ("u3", "mcp__mail__list", {"box": "in"}, "cedar-mail-content"),
        ("u4", "Bash", {"command": "ls docs"}, "dogwood-open-content"),
    ]
    rows: list[dict[str, Any]] = []
    for number, (ident, name, given, content) in enumerate(uses):
        common = {"sessionId": "t", "cwd": "/home/u/open", "timestamp": f"2026-03-01T10:0{number}:00Z"}
        block = {"type": "tool_use", "id": ident, "name": name, "input": given}
        answer = {"type": "tool_result", "tool_use_id": ident, "content": content}
        rows.append({"type": "assistant", "uuid": f"a{ident}", "message": {"role": "assistant", "content": [block]}, **common})
        rows.append({"type": "user", "uuid": f"b{ident}", "message": {"role": "user", "content": [answer]}, **common})
    elsewhere = {"sessionId": "v", "cwd": "/home/u/sealed/app", "timestamp": "2026-03-01T11:00:00Z"}
    rows.append({"type": "user", "uuid": "c", "message": {"role": "user", "content": "elm-session-content"}, **elsewhere})
    path = folder / "t.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


@pytest.fixture(scope="module")
def excluding(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """One that excludes paths, projects and tools, among them a folder beside its own, to which a link leads."""
    root = tmp_path_factory.mktemp("excluding")
    kept = root / "my vault"
    kept.mkdir()
    (root / "link").symlink_to(kept)
    rules = {name: value.format(kept) for name, value in RULES.items()}
    with Beside(root, more=DAEMON | NO_INDEXES | rules) as made:
        yield made


def test_what_is_excluded_never_reaches_the_disk_by_hook_import_ingest_or_tool(excluding: Place, tmp_path: Path) -> None:
    place = excluding
    told = json.loads(place.ok("import", "claude-code", str(transcript(tmp_path)), "--json"))
    assert told["dropped"] == {"excluded path": 5, "excluded tool": 2}
    mail = {"tool_use_id": "m", "tool_name": "mcp__mail__read", "tool_input": {}, "tool_response": "fir-mail-content"}
    hook(place, "PostToolUse", **mail)
    hook(place, "UserPromptSubmit", prompt="gorse-vault-prompt", cwd="/home/u/sealed")
    hook(place, "UserPromptSubmit", prompt="hazel-open-prompt")
    until(lambda: place.spooled() == 0)
    line = {"session_id": "i", "timestamp": "2026-03-01T12:00:00Z", "role": "user"}
    private = {**line, "text": "iris-private-line", "project": "github.com/acme/private-one"}
    place.ok("ingest", "-", stdin="".join(json.dumps(x) + "\n" for x in ({**line, "text": "juniper-open-line"}, private)))
    found = raw(place)
    assert all(word in found for word in (b"dogwood-open", b"hazel-open", b"juniper-open"))
    for word in ("alder-pem", "beech-vault", "cedar-mail", "elm-session", "fir-mail", "gorse-vault", "iris-private"):
        assert word.encode() not in found


def test_a_path_is_excluded_however_a_command_spells_it(excluding: Place) -> None:
    place, root = excluding, excluding.root
    kept = root / "my vault"
    commands = (
        "cat $HOME/den/n",
        'cat "${HOME}/den/n"',
        f"curl file://{root}/home/den/n",
        "curl -d @~/den/n x",
        "scp host:~/den/n .",
        f'cat "{kept}/n"',
        f"cat {str(kept).replace(' ', chr(92) + ' ')}/n",
        f"cat {root}/link/n",
        "type C:\\\\Users\\\\u\\\\den\\\\n",
        "cat /home/u/cafe\u0301/n",
    )
    for number, command in enumerate([*commands, "cat /home/u/open/n"]):
        told = {"tool_use_id": f"u{number}", "tool_name": "Bash", "tool_input": {"command": command}}
        hook(place, "PostToolUse", **told, tool_response={"stdout": f"osprey-{number}-content"})
    place.ok("ingest", "-", stdin=BEFORE)
    until(lambda: place.spooled() == 0)
    found = raw(place)
    assert [number for number in range(len(commands) + 1) if f"osprey-{number}-content".encode() in found] == [len(commands)]


def test_a_transcript_of_a_paused_time_is_not_recorded_by_a_later_import(excluding: Place, tmp_path: Path) -> None:
    place = excluding
    place.ok("ingest", "-", stdin=BEFORE)
    place.ok("pause", "--project", "*")
    begin = json.loads((place.directory / "pauses.json").read_text())["pauses"][-1]["begin"]
    place.ok("resume", "--project", "*")
    rows = [
        {"session_id": "z", "role": "user", "timestamp": at, "text": t} for at, t in ((begin - 5000, "poplar"), (begin, "quince"))
    ]
    path = tmp_path / "z.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    told = json.loads(place.ok("import", "jsonl", str(path), "--json"))
    assert (told["new"], told["dropped"]) == (1, {"recording is paused": 1})
    place.ok("resume", "--project", "*")


@pytest.mark.anyio
async def test_a_pause_holds_for_hooks_imports_and_tools_and_what_was_said_in_it_stays_out(excluding: Place) -> None:
    place = excluding
    place.ok("ingest", "-", stdin=BEFORE)
    hook(place, "UserPromptSubmit", prompt="kelp-before-pause")
    told = json.loads(place.ok("pause", "--project", "/home/u/open", "--for", "2h", "--json"))
    assert (told["paused"], told["all_paused"]) == (True, ["/home/u/open"])
    hook(place, "UserPromptSubmit", prompt="larch-in-pause")
    hook(place, "UserPromptSubmit", prompt="maple-elsewhere", cwd="/home/u/other")
    assert "recording of /home/u/open is paused until" in place.ok("retrieval", "status")
    async with stdio_client(place.server()) as (read, write), ClientSession(read, write) as client:
        await client.initialize()
        event = {
            "session_id": "y",
            "role": "user",
            "text": "nettle-tool",
            "timestamp": 1_767_225_600_000,
            "project": "/home/u/open",
        }
        refused = await client.call_tool("ingest_events", {"events": [event]})
        assert refused.is_error
        assert "recording is paused" in refused.content[0].text  # type: ignore[union-attr]
        assert "memory-mcp resume" in refused.content[0].text  # type: ignore[union-attr]
        resumed = await client.call_tool("resume_capture", {"project": "/home/u/open"})
        assert resumed.structured_content == {"project": "/home/u/open", "paused": False}
    hook(place, "UserPromptSubmit", prompt="oak-after-pause")
    until(lambda: place.spooled() == 0)
    found = raw(place)
    assert all(word in found for word in (b"kelp-before", b"maple-elsewhere", b"oak-after"))
    assert b"larch-in-pause" not in found
    assert b"nettle-tool" not in found


def test_a_damaged_file_of_pauses_is_told_and_mutes_nobody(excluding: Place) -> None:
    place = excluding
    place.ok("ingest", "-", stdin=BEFORE)
    (place.directory / "pauses.json").write_bytes(b"\xa4\x00")
    [notice] = json.loads(place.ok("retrieval", "status", "--json"))["notices"]
    assert "pauses.json cannot be read" in notice
    assert "pause again" in notice
    assert "before" in place.ok("query", "events", "--all")
    (place.directory / "pauses.json").unlink()
