"""What hooks are given reaches the disk without its secrets: with a daemon, without one, and with one that does not answer."""

import base64
import json
import os
import signal
import statistics
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from memory_mcp.base import paths
from memory_mcp.base.failpoints import VARIABLE
from memory_mcp.service.client import handing, link, spoolfile
from memory_mcp.service.client.hook import CUT_KEPT, MAX_PAYLOAD
from tests.acceptance.test_hook import (
    IN_PROCESS,
    LIMIT,
    PROMPT,
    ROOT,
    Done,
    drained,
    environment,
    hook,
    kept,
    loaded,
    payload,
    stored,
)
from tests.daemon.inside import as_installed, run_inside
from tests.daemon.places import NO_INDEXES, needs_proc
from tests.daemon.test_daemon import gone
from tests.files import read_at_rest
from tests.ingest.secret_kinds import KINDS, remains
from tests.spooled import left
from tests.waiting import until

TOKEN = "ghp_" + "16C7e42F292c6912E7710c838347Ae178B4a"
SAID = f"The token is {TOKEN}, <private>osprey</private> and the rest is for all."
SECRET = payload("UserPromptSubmit", prompt=SAID)
#: Of a hook that takes the secrets out itself, and of none other.
RULES = "memory_mcp.capture.payloads"


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return tmp_path / "data"


def start(directory: Path, **more: str) -> int:
    """The process of a daemon."""
    done = run_inside(["daemon", "start", "--json"], environment(directory, **NO_INDEXES, **more), ROOT)
    return int(json.loads(done.stdout)["pid"])


def stop(directory: Path) -> None:
    run_inside(["daemon", "stop"], environment(directory), ROOT)


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, int]]:
    """A directory and its daemon, which is ready: it has loaded what it takes secrets out with."""
    directory = tmp_path_factory.mktemp("running") / "data"
    pid = start(directory)
    try:
        assert RULES not in patient(directory, payload("Stop"))
        yield directory, pid
    finally:
        stop(directory)


@pytest.fixture
def served(running: tuple[Path, int]) -> Path:
    """The directory of that daemon, with nothing in its spool."""
    until(lambda: kept(running[0]) == [])
    return running[0]


def asked(directory: Path, *words: str) -> str:
    """What a command prints that the daemon carries out."""
    done = run_inside(words, environment(directory, MEMORY_MCP_SERVER__DAEMON="true"), ROOT, begin=as_installed)
    assert done.returncode == 0, done.stderr
    return done.stdout


def patient(directory: Path, given: bytes) -> set[str]:
    """What a hook loads that waits for the daemon for as long as a busy machine may need."""
    code = f"import sys; from memory_mcp.service.client import handing, hook; handing.PATIENCE = {LIMIT}; "
    code += "hook.main(['claude-code']); print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code], input=given, env=environment(directory), capture_output=True, timeout=LIMIT, check=True,
        cwd=ROOT,
    )  # fmt: skip
    assert done.stderr == b""
    return set(done.stdout.decode().split())


def again(directory: Path, name: str, given: bytes = SECRET, **more: str) -> None:
    """What a daemon does with a request that waited."""
    told = {"name": name, "payload": base64.b64encode(given).decode("ascii"), "told": {"cwd": str(ROOT), **more}}
    assert link.call_method(str(directory), handing.METHOD, told, LIMIT) == {handing.KEPT: True}


def raw(directory: Path) -> bytes:
    return b"".join(content for file, content in read_at_rest(directory).items() if not file.is_symlink())


def is_clean(directory: Path) -> bool:
    everything = raw(directory)
    return TOKEN[4:].encode() not in everything and b"osprey" not in everything


def payloads_of(directory: Path) -> list[bytes]:
    return [file.read_bytes().partition(b"\n")[2] for file in kept(directory)]


CLEANED = payload("UserPromptSubmit", prompt="The token is [REDACTED:github],  and the rest is for all.")


def test_without_a_daemon_no_secret_is_written(directory: Path) -> None:
    place = directory.parent / TOKEN
    place.mkdir()
    done = hook(directory, SECRET, CLAUDE_PROJECT_DIR=str(place))
    assert (done.stdout, done.stderr) == (b"", b"")
    assert payloads_of(directory) == [CLEANED]
    assert is_clean(directory)


def test_hardly_a_secret_of_any_kind_is_in_the_spool(directory: Path, pytestconfig: pytest.Config) -> None:
    # In the short form every second kind is held by an assignment, and the others are not.
    ways = [(False, True) if pytestconfig.getoption("--slow") else (n % 2 == 0,) for n in range(len(KINDS))]
    values = [v for kind, way in zip(KINDS, ways, strict=True) for held in way for v in kind.values(1, held, "spool")]
    tool = {"tool_name": "Bash", "tool_input": {"command": "cat"}}
    many = 60 if pytestconfig.getoption("--slow") else 135
    for n in range(0, len(values), many):
        said = "\n\n".join(text for text, _ in values[n : n + many])
        told = [payload("UserPromptSubmit", prompt=said), payload("PostToolUse", tool_response={"stdout": said}, **tool)]
        for given in told if pytestconfig.getoption("--slow") else told[n // many % 2 :][:1]:
            hook(directory, given)
    texts = [json.loads(one) for one in payloads_of(directory)]
    spool = "\n".join(one.get("prompt") or one["tool_response"]["stdout"] for one in texts)
    found = [text for text, secret in values if remains(secret, spool)]
    assert len(found) <= 0.03 * len(values), found[:20]


@needs_proc
def test_a_daemon_takes_the_secrets_out_before_anything_is_written_or_drained(directory: Path) -> None:
    # It dies with its first drain, when events are stored and their file is still there.
    pid = start(directory, **{VARIABLE: "drain.stored"})
    try:
        assert RULES not in patient(directory, SECRET)
        until(lambda: gone(pid))
        assert [json.loads(one) for one in payloads_of(directory)] == [json.loads(CLEANED)]
        assert is_clean(directory)
        head = json.loads(kept(directory)[0].read_bytes().partition(b"\n")[0])
        assert (head["v"], head["client"], head["cwd"]) == (1, "claude-code", str(ROOT))
        assert kept(directory)[0].stat().st_mode & 0o777 == 0o600
        assert kept(directory, "tmp") == []
    finally:
        stop(directory)
    assert drained(directory) == (0, 1, 0)
    assert kept(directory) == []
    assert stored(directory) == ["The token is [REDACTED:github],  and the rest is for all."]
    assert is_clean(directory)


def test_a_halted_daemon_holds_no_hook_up_and_what_it_does_later_stores_nothing_twice(
    served: Path, running: tuple[Path, int]
) -> None:
    # In words of its own: the same words of another test are stored once.
    given, cleaned = (one.replace(b"The token", b"The halted token") for one in (SECRET, CLEANED))
    os.kill(running[1], signal.SIGSTOP)
    try:
        assert RULES in loaded(served, given)
        (file,) = kept(served)
        assert (payloads_of(served), is_clean(served)) == ([cleaned], True)
    finally:
        os.kill(running[1], signal.SIGCONT)
    until(lambda: kept(served) == [])
    # A daemon that took the request and was halted then goes on with it when the drain has stored and removed the file.
    again(served, file.name, given)
    until(lambda: kept(served) == [])
    assert asked(served, "query", "events", "--all").count("The halted token is [REDACTED:github]") == 1
    assert is_clean(served)


def test_daemon_and_hook_make_the_same_of_a_payload(served: Path, tmp_path: Path) -> None:
    alone = tmp_path / "alone"
    assert RULES in loaded(alone, SECRET)
    [file] = kept(alone)
    head = json.loads(file.read_bytes().partition(b"\n")[0])
    asked(served, "scheduler", "pause", "drain_spool")
    try:
        again(served, file.name, pids=head["pids"])
        assert kept(served)[0].read_bytes() == file.read_bytes()
    finally:
        asked(served, "scheduler", "resume", "drain_spool")


def test_with_a_daemon_a_hook_loads_no_rules_and_little_else(served: Path) -> None:
    tool = payload("PostToolUse", tool_name="Bash", tool_input={"command": "ls"}, tool_response={"stdout": "x" * 5000})
    fresh = patient(served, tool)
    ours = {m for m in fresh if m.partition(".")[0] == "memory_mcp"}
    client = [".service.client" + name for name in ("", ".hook", ".handing", ".spoolfile")]
    needed = ("", ".base", ".base.paths", ".base.machine", ".base.environment", ".service", *client)
    assert ours == {f"memory_mcp{name}" for name in needed}
    bare = subprocess.run([sys.executable, "-c", "import sys; print(*sys.modules)"], capture_output=True, text=True, check=True)
    heavy = {"json", "re", "typing", "pathlib", "socket", "collections", "hashlib", "tomllib", "argparse", "base64"}
    assert not (fresh - set(bare.stdout.split())) & heavy


@pytest.mark.slow
def test_with_a_daemon_a_hook_costs_little_more_than_python_itself(served: Path, record_property: Any) -> None:
    resource = pytest.importorskip("resource")

    def seconds(*arguments: str, given: bytes = b"") -> float:
        """Of CPU."""
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, *arguments], input=given, env=environment(served), check=True, timeout=LIMIT, cwd=ROOT)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return float(after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime)

    tool = payload("PostToolUse", tool_name="Bash", tool_input={"command": "ls"}, tool_response={"stdout": "x" * 2000})
    alone = statistics.median(seconds("-c", "pass") for _ in range(30))
    hooked = statistics.median(seconds("-c", IN_PROCESS, "claude-code", given=tool) for _ in range(30))
    record_property("hook_over_python", round(hooked / alone, 2))
    assert hooked <= 3 * alone


def test_what_is_too_large_for_the_door_is_cleaned_by_the_hook(served: Path) -> None:
    large = payload("PostToolUse", tool_name="Read", tool_use_id="t", tool_response=f"{'words and ' * 40_000}{TOKEN}")
    assert RULES in loaded(served, large)
    assert is_clean(served)


def test_a_name_or_request_that_is_none_is_refused(served: Path) -> None:
    names = ("", "../../../x", "00000000000000000001-0123456789abcdef-../x", f"{1:020d}-{'0' * 16}-Json")
    broken: tuple[dict[str, Any], ...] = ({}, {"payload": "x"}, {"payload": 7, "told": 3})
    right = f"{1:020d}-{'0' * 16}-json"
    for request in (*({"name": name, "payload": "eA=="} for name in names), *({"name": right, **more} for more in broken)):
        with pytest.raises(link.Refused, match="no payload of a hook"):
            link.call_method(str(served), handing.METHOD, request, LIMIT)
    assert not (served.parent / "x").exists()


def test_a_daemon_that_does_not_know_the_request_leaves_the_payload_to_the_hook(served: Path) -> None:
    code = "import sys; from memory_mcp.service.client import handing, hook; handing.METHOD = 'hook/none'; "
    code += "hook.main(['claude-code']); print('memory_mcp.capture.payloads' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code], input=SECRET, env=environment(served), capture_output=True, timeout=LIMIT, check=True
    )
    assert (done.stdout.strip(), done.stderr) == (b"True", b"")
    assert is_clean(served)
    until(lambda: kept(served) == [])


# what is odd


def test_the_beginning_of_a_payload_that_is_cut_holds_no_secret_and_no_half_of_one(directory: Path) -> None:
    begun = '{"prompt": "' + TOKEN + " "
    given = (begun + "x" * (CUT_KEPT - len(begun) - 20) + f" {TOKEN} " + "words " * (MAX_PAYLOAD // 6 + 1)).encode()
    assert len(given) > MAX_PAYLOAD
    assert hook(directory, given).stderr == b""
    (file,) = kept(directory)
    head, _, rest = file.read_bytes().partition(b"\n")
    assert json.loads(head)["cut"] is True
    assert len(rest) == CUT_KEPT
    assert b"ghp_" not in rest
    assert rest.startswith(b'{"prompt": "[REDACTED:github] x')


@pytest.mark.parametrize(
    "given", [b"my token is " + TOKEN.encode(), SECRET[:-3], b"\xff" + SECRET, SECRET.decode().encode("utf-16")]
)
def test_what_cannot_be_read_is_kept_without_its_secrets(given: bytes, directory: Path) -> None:
    assert hook(directory, given).stderr == b""
    (rest,) = payloads_of(directory)
    assert b"REDACTED" in rest
    assert TOKEN[4:].encode() not in rest.replace(b"\0", b"")


def broken(directory: Path, given: bytes) -> Done:
    """A run of an installation whose rules about secrets cannot be loaded."""
    code = f"import sys; sys.modules['memory_mcp.redact.redact'] = None; {IN_PROCESS.partition('; ')[2]}"
    return subprocess.run(
        [sys.executable, "-c", code, "claude-code"], input=given, env=environment(directory), capture_output=True, timeout=LIMIT,
        check=True, cwd=ROOT,
    )  # fmt: skip


def test_where_the_rules_cannot_be_used_nothing_is_lost_and_it_is_told(directory: Path) -> None:
    done = broken(directory, SECRET)
    assert done.stderr.startswith(b"memory-mcp hook: kept as it came, with any secrets in it: ")
    assert payloads_of(directory) == [SECRET]
    assert json.loads(kept(directory)[0].read_bytes().partition(b"\n")[0])["raw"] is True
    told = doctor(directory)
    assert "1 payload with any secrets still there" in told
    assert TOKEN not in told
    assert (drained(directory), kept(directory)) == ((1, 0, 0), [])
    assert stored(directory) == ["The token is [REDACTED:github],  and the rest is for all."]
    assert is_clean(directory)


# what doctor tells


def doctor(directory: Path, *words: str) -> str:
    return run_inside(["doctor", *words], environment(directory), ROOT).stdout


def test_doctor_finds_secrets_in_payloads_that_an_older_release_left_and_shows_none(directory: Path) -> None:
    spool = paths.spool_dir(str(directory))
    hook(directory, SECRET)
    assert "no file that waits holds one" in doctor(directory, "--secrets")
    left(spool, SECRET)
    left(spool, payload("Stop", last_assistant_message=TOKEN).replace(b"ghp", b"\\u0067hp"))
    (Path(spool) / "bad").mkdir()
    (Path(spool) / "bad" / "one").write_bytes(b"{}\n" + TOKEN.encode())
    told = doctor(directory, "--secrets")
    assert f"2 files in {spool}/new with what is not to be stored: github 1" in told
    assert f"1 file in {spool}/bad with what is not to be stored: github 1" in told
    assert TOKEN not in told
    assert len(kept(directory)) == 3


def test_a_plain_payload_is_kept_as_it_came_on_every_way(directory: Path) -> None:
    hook(directory, PROMPT)
    assert payloads_of(directory) == [PROMPT]
    assert spoolfile.client_of(kept(directory)[0].name) == "claude-code"
