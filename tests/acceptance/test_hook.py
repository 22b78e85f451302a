"""The hook as clients run it: real processes, any input, always 0; and what it left, stored exactly once."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any
from unittest import mock

import pytest

from memory_mcp.app import App
from memory_mcp.base import paths
from memory_mcp.base.failpoints import VARIABLE
from memory_mcp.config import Settings
from memory_mcp.redact import redact as _loaded_before  # noqa: F401 - so that no child process compiles the rules
from memory_mcp.service.client.hook import CLIENTS, main
from memory_mcp.storage.settings import StorageSettings
from memory_mcp.storage.values import Scope
from tests.daemon.inside import ALONE, WORDS, run_inside
from tests.files import iter_files
from tests.spooled import left
from tests.toc.helpers import findings
from tests.waiting import until

ROOT = Path(__file__).parents[2]
LIMIT = 60
IN_PROCESS = "import sys; from memory_mcp.service.client.hook import main; sys.exit(main(sys.argv[1:]))"
#: Both ways in: the function, and the shipped program.
WAYS = {"function": ["-c", IN_PROCESS], "program": ["-m", "memory_mcp", "hook"]}
#: Each point of a drain that may be killed, and at which visit.
DRAIN_POINTS = [
    ("drain.stored", 2),
    ("drain.file_removed", 7),
    ("drain.stored", 1),
    ("drain.file_removed", 1),
    ("drain.set_aside", 1),
    ("events.before_commit", 1),
    ("events.committed", 1),
]
SESSION = "0c9a5f0e-1111-4222-8333-444455556666"
Done = subprocess.CompletedProcess[bytes]


def payload(event: str, **more: Any) -> bytes:
    told = {"session_id": SESSION, "transcript_path": "/t.jsonl", "cwd": "/home/dev/shop", "hook_event_name": event}
    return json.dumps(told | more).encode()


PROMPT = payload("UserPromptSubmit", prompt="Fix the retry queue.")


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return tmp_path / "some where" / "data"


def environment(directory: Path, **more: str) -> dict[str, str]:
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("MEMORY_MCP_", "CLAUDE_", "XDG_"))}
    nowhere = {"HOME": str(directory.parent), "MEMORY_MCP_STORAGE__TIMEZONE": "Europe/Berlin"}
    nowhere["MEMORY_MCP_SERVER__DAEMON"] = "false"
    return kept | nowhere | {"MEMORY_MCP_STORAGE__DATA_DIR": str(directory)} | more


def ran(words: Sequence[str], environ: Mapping[str, str], given: bytes = b"", command: str = sys.executable) -> Done:
    return subprocess.run([command, *words], input=given, env=environ, capture_output=True, timeout=LIMIT, check=False, cwd=ROOT)


def forked(words: Sequence[str], given: bytes, environ: Mapping[str, str]) -> Done:
    """The function in a process that has Python and the rules of secrets loaded already."""
    with TemporaryFile() as told, TemporaryFile() as out, TemporaryFile() as err:
        told.write(given)
        told.seek(0)
        pid = os.fork()
        if not pid:
            status = 70
            try:
                for number, file in enumerate((told, out, err)):
                    os.dup2(file.fileno(), number)
                sys.stdout, sys.stderr = os.fdopen(1, "w"), os.fdopen(2, "w")
                os.chdir(ROOT)
                with mock.patch.dict(os.environ, environ, clear=True):
                    status = main(words)
                sys.stdout.flush()
                sys.stderr.flush()
            finally:
                os._exit(status)
        status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        out.seek(0)
        err.seek(0)
        return Done(list(words), status, out.read(), err.read())


def hook(directory: Path, given: bytes, *arguments: str, way: str = "function", **more: str) -> Done:
    """One run; it must end well and say nothing but what a hook may say."""
    words = arguments or ("claude-code",)
    environ = environment(directory, **more)
    done = forked(words, given, environ) if way == "function" else ran([*WAYS[way], *words], environ, given)
    assert done.returncode == 0
    assert len(done.stderr.splitlines()) <= 1
    return done


def kept(directory: Path, where: str = "new") -> list[Path]:
    place = Path(paths.spool_dir(str(directory))) / where
    return sorted(place.iterdir()) if place.exists() else []


@pytest.mark.parametrize("way", WAYS)
def test_a_hook_of_a_session_that_our_summarizer_has_keeps_nothing_and_answers_nothing(directory: Path, way: str) -> None:
    given = (PROMPT, b"x" * 3_000_000, payload("SessionStart", source="startup"), payload("Stop"))
    for one in given[: 2 if way == "program" else 4]:
        done = hook(directory, one, way=way, MEMORY_MCP_SUMMARIZING="1")
        assert (done.stdout, done.stderr) == (b"", b"")
    assert not directory.exists()
    hook(directory, PROMPT, way=way)
    assert len(kept(directory)) == 1


def stored(directory: Path) -> list[str]:
    app = App(Settings(storage=StorageSettings(str(directory), "Europe/Berlin")))
    app.derivation.run()
    assert findings(app) == []
    found = [e.text for e in app.storage.events.list_events(Scope(), limit=1000)]
    app.close()
    return found


def drained(directory: Path) -> tuple[int, int, int]:
    """Payloads that were new, known and unreadable when this process drained the spool."""
    app = App(Settings(storage=StorageSettings(str(directory), "Europe/Berlin")))
    report = app.drain()
    app.close()
    return report.new, report.known, report.bad


def drain(directory: Path, **more: str) -> Done:
    return ran(["-m", "tests.acceptance.drainer", str(directory)], environment(directory, **more))


# what is kept


@pytest.mark.parametrize("way", WAYS)
def test_a_payload_is_kept_as_it_came_with_its_envelope_and_for_this_user_only(way: str, directory: Path) -> None:
    before = time.time_ns()
    given = json.dumps(json.loads(PROMPT), indent=4).encode() + b"\n\xff\n"
    done = hook(directory, given, way=way, CLAUDE_PROJECT_DIR='/home/dev/sh"op\\é\udcff')
    assert (done.stdout, done.stderr) == (b"", b"")
    (file,) = kept(directory)
    head, _, rest = file.read_bytes().partition(b"\n")
    told = json.loads(head)
    assert rest == given
    assert (told["v"], told["client"], told["project_dir"], told["cwd"]) == (
        1,
        "claude-code",
        '/home/dev/sh"op\\é\udcff',
        str(ROOT),
    )
    assert told["at_ns"] in range(before, time.time_ns())
    assert file.name.startswith(f"{told['at_ns']:020d}-")
    assert file.name.endswith("-claude-code")
    spool = Path(paths.spool_dir(str(directory)))
    assert [p.stat().st_mode & 0o777 for p in (directory, spool, spool / "tmp", spool / "new")] == [0o700] * 4
    assert file.stat().st_mode & 0o777 == 0o600
    assert kept(directory, "tmp") == []


BROKEN = {
    "nothing": (b"", 0),
    "white space": (b" \n\n", 0),
    "no JSON": (b"words", 1),
    "torn JSON": (PROMPT[:-5], 1),
    "zero bytes": (b"\0" * 100, 1),
    "bytes that are no text": (bytes(range(128, 256)) * 10, 1),
    "a list": (b"[]", 1),
    "another event": (payload("SomethingNew"), 1),
    "deep nesting": (b'{"hook_event_name": "SessionStart", "x": ' + b"[" * 100_000, 1),
    "a start without fields": (b'{"hook_event_name": "SessionStart"}', 1),
    "a start with odd fields": (b'{"hook_event_name": "SessionStart", "cwd": 7, "source": []}', 1),
    "a prompt that is none": (b'{"hook_event_name": "UserPromptSubmit", "prompt": {}}', 1),
}


@pytest.mark.parametrize("kind", BROKEN)
def test_whatever_it_is_given_it_ends_well_and_prints_nothing(kind: str, directory: Path, pytestconfig: pytest.Config) -> None:
    given, count = BROKEN[kind]
    ways = list(WAYS) if pytestconfig.getoption("--slow") else [list(WAYS)[kind in ("nothing", "bytes that are no text")]]
    for way in ways:
        assert hook(directory, given, way=way, MEMORY_MCP_HOOKS__RECALL="true").stdout == b""
    assert [f.read_bytes().partition(b"\n")[2] for f in kept(directory)] == [given] * count * len(ways)


@pytest.mark.parametrize(
    "arguments", [("nobody",), ("--data-dir",), ("claude-code", "--data-dir"), ("claude-code", "--what", "--config")]
)
def test_words_it_does_not_understand_do_not_make_it_fail(arguments: tuple[str, ...], directory: Path) -> None:
    assert hook(directory, PROMPT, *arguments).stdout == b""


def test_a_client_it_does_not_know_is_named(directory: Path) -> None:
    assert b"unknown client 'nobody'" in hook(directory, PROMPT, "nobody").stderr
    assert kept(directory) == []


def test_a_directory_named_with_the_command_is_used(directory: Path, tmp_path: Path) -> None:
    hook(directory, PROMPT, "json", f"--data-dir={tmp_path / 'other'}")
    hook(directory, PROMPT, "claude-code", "--data-dir", str(tmp_path / "other"), way="program")
    assert (len(kept(tmp_path / "other")), kept(directory)) == (2, [])


def test_a_settings_file_says_where_and_a_broken_one_does_no_harm(directory: Path, tmp_path: Path) -> None:
    settings = tmp_path / "config.toml"
    settings.write_text(f'[storage]\ndata_dir = "{tmp_path / "elsewhere"}"\n', encoding="utf-8")
    bare = environment(directory)
    del bare["MEMORY_MCP_STORAGE__DATA_DIR"]
    assert ran([*WAYS["function"], "claude-code", "--config", str(settings)], bare, PROMPT).returncode == 0
    assert len(kept(tmp_path / "elsewhere")) == 1
    start = payload("SessionStart", source="startup")
    broken = (b"[storage", b"\xff\xfe", b"storage = 7\nhooks = []", b'[hooks]\nbriefing = "yes"\nrecall = 3\n')
    for written, given in zip((*broken, broken[-1]), (PROMPT, start, start, start, PROMPT), strict=True):
        settings.write_bytes(written)
        hook(directory, given, "claude-code", "--config", str(settings))
    assert len(kept(directory)) == 5


def test_a_place_that_cannot_be_written_costs_one_line_and_no_failure(directory: Path) -> None:
    directory.parent.mkdir()
    directory.write_text("a file where the directory should be", encoding="utf-8")
    for way in WAYS:
        done = hook(directory, PROMPT, way=way)
        usual = directory.parent / ".local" / "share" / "memory-mcp"
        assert done.stderr.startswith(f"memory-mcp hook: kept in {usual}: ".encode())
        assert done.stdout == b""
    assert len(kept(usual)) == len(WAYS)


#: The shipped program for a user whose account and folder of temporary files are the arguments.
AS_USER = """
import pwd, sys
account, lasting, *sys.argv[1:] = sys.argv[1:]
pwd.getpwuid = lambda uid: pwd.struct_passwd(("u", "x", uid, uid, "", account, "/bin/sh"))
from memory_mcp.base import paths
paths._LASTING = lasting
from memory_mcp.__main__ import main
sys.exit(main())
"""


def test_whatever_the_environment_says_a_payload_is_kept_and_doctor_says_what_is_passed_over(tmp_path: Path) -> None:
    rows: list[tuple[dict[str, str], str, str]] = [
        # What is given, where the payload is kept, and what doctor says: asked once of each kind.
        ({"HOME": ""}, "account/.local/share/memory-mcp", ""),
        ({"HOME": "${HOME}"}, "account/.local/share/memory-mcp", "HOME ('${HOME}') names no folder"),
        ({"HOME": "~"}, "account/.local/share/memory-mcp", ""),
        ({"HOME": "home"}, "work/home/.local/share/memory-mcp", ""),
        ({"HOME": f"{__file__}/home"}, "account/.local/share/memory-mcp", "cannot be made; hooks keep what they are given in"),
        ({"XDG_DATA_HOME": "data"}, "home/.local/share/memory-mcp", ""),
        ({"MEMORY_MCP_DATA_DIR": "$HOME/m"}, "home/m", ""),
        ({"MEMORY_MCP_DATA_DIR": "${HOME}/m"}, "home/m", ""),
        ({"MEMORY_MCP_DATA_DIR": "$UNSET/m"}, "home/.local/share/memory-mcp", ""),
        ({"MEMORY_MCP_DATA_DIR": f"{__file__}/m"}, "home/.local/share/memory-mcp", ""),
        ({"TZ": "CET-1CEST,M3.5.0,M10.5.0/3"}, "home/.local/share/memory-mcp", ""),
        ({"TZ": "/no/zone"}, "home/.local/share/memory-mcp", "TZ names a file that names no zone"),
    ]
    for number, (given, where, words) in enumerate(rows):
        folder = tmp_path / str(number)
        for name in ("home", "account", "work", "lasting"):
            (folder / name).mkdir(parents=True)
        env = {"HOME": str(folder / "home"), "PATH": os.environ["PATH"], "MEMORY_MCP_SERVER__DAEMON": "false"} | given

        def run(words: str, stdin: bytes = b"", env: dict[str, str] = env, folder: Path = folder) -> Done:
            command = [sys.executable, "-c", AS_USER, str(folder / "account"), str(folder / "lasting"), *words.split()]
            return subprocess.run(
                command, input=stdin, env=env, cwd=folder / "work", capture_output=True, timeout=LIMIT, check=False
            )

        done = run("hook claude-code", PROMPT)
        assert (done.returncode, done.stdout) == (0, b""), given
        assert [file.parents[2] for file in iter_files(folder) if file.parent.name == "new"] == [folder / where], (
            given,
            done.stderr,
        )
        if words:
            assert words in run("doctor").stdout.decode(), given


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
def test_streams_that_are_closed_or_full_do_not_make_it_fail(directory: Path) -> None:
    command = f'"{sys.executable}" -c "{IN_PROCESS}" claude-code'
    briefing = briefed(directory, "words")
    start = payload("SessionStart", source="startup", cwd=briefing)
    for streams in ("<&-", ">&-", "<&- >&- 2>&-", ">/dev/full", ">/dev/full 2>/dev/full", "</proc/self/mem"):
        done = ran(["-c", f"{command} {streams}"], environment(directory), start, "sh")
        assert done.returncode == 0, streams
        assert b"Traceback" not in done.stderr, streams


def test_a_file_that_may_grow_no_more_leaves_nothing_behind(directory: Path) -> None:
    limited = "import resource, sys; resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000)); "
    # No other folder has more room.
    limited += "from memory_mcp.base import paths; paths.spare_dirs = lambda directory: []; "
    code = limited + "import signal; signal.signal(signal.SIGXFSZ, signal.SIG_IGN); " + IN_PROCESS
    done = ran(["-c", code, "claude-code"], environment(directory), PROMPT + b" " * 5000)
    assert done.returncode == 0
    assert b"not kept" in done.stderr
    assert kept(directory) == kept(directory, "tmp") == []


def test_a_payload_of_many_megabytes_is_read_to_its_end_and_bounded(directory: Path) -> None:
    from memory_mcp.service.client.hook import CUT_KEPT, MAX_PAYLOAD

    given = payload("PostToolUse", tool_name="Read", tool_response="x" * (MAX_PAYLOAD + 3_000_000))
    assert hook(directory, given).stderr == b""
    (file,) = kept(directory)
    head, _, rest = file.read_bytes().partition(b"\n")
    assert json.loads(head)["cut"] is True
    assert rest == given[:CUT_KEPT]


def test_help_names_the_clients() -> None:
    done = ran([*WAYS["program"], "--help"], os.environ)
    assert done.returncode == 0
    assert " or ".join(CLIENTS) in " ".join(done.stdout.decode().split())


# how little it takes


def loaded(directory: Path, given: bytes, **more: str) -> set[str]:
    code = f"{IN_PROCESS[: IN_PROCESS.index('sys.exit')]}main(['claude-code']); print(*sys.modules, file=sys.stderr)"
    done = ran(["-c", code], environment(directory, **more), given)
    assert done.returncode == 0
    return set(done.stderr.decode().split())


#: The last three fence an answer: a tool call has none.
OF_A_HOOK = (
    *("base", "service", "service.client", "model", "model.sentinel", "model.fencing", "model.lookalikes"),
    *(
        f"base.{name}"
        for name in ("environment", "paths", "patterns", "scope", "machine", "foreign_files", "ownership", "worktrees")
    ),
    *(f"service.client.{name}" for name in ("hook", "handing", "spoolfile", "link", "door")),
)
#: Where no daemon answers: what takes secrets out.
RULES = (
    "base.dataclass",
    "redact",
    "capture",
    "capture.payloads",
    *(f"redact.{name}" for name in ("own_secrets", "redact", "secret_checks")),
    *(f"redact.{name}" for name in ("secret_rules", "secret_values", "secrets_in_code", "secrets_in_text")),
)


def test_a_run_loads_nothing_but_the_standard_library(directory: Path, tmp_path: Path) -> None:
    bare = subprocess.run([sys.executable, "-c", "import sys; print(*sys.modules)"], capture_output=True, text=True, check=True)
    project = briefed(directory, "words")
    tool = payload("PostToolUse", tool_name="Bash", tool_input={}, tool_response="x")
    runs: dict[str, tuple[bytes, Mapping[str, str]]] = {
        "tool": (tool, {}),
        "prompt": (PROMPT, {}),
        "start": (payload("SessionStart", source="startup", cwd=project), {}),
        "recall": (PROMPT, {"MEMORY_MCP_HOOKS__RECALL": "true"}),
    }
    for name, (given, more) in runs.items():
        fresh = loaded(directory, given, **more) - set(bare.stdout.split())
        ours = {m for m in fresh if m.partition(".")[0] == "memory_mcp"}
        assert ours <= {"memory_mcp", *(f"memory_mcp.{n}" for n in (*OF_A_HOOK, *RULES))}, name
        assert {m.partition(".")[0] for m in fresh - ours} <= set(sys.stdlib_module_names), name


# what it answers


def briefed(directory: Path, text: str) -> str:
    """A project directory for which this was rendered ahead of time."""
    project = directory.parent / "project"
    project.mkdir(parents=True, exist_ok=True)
    file = Path(paths.briefing_file(str(directory), str(project)))
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")
    return str(project)


FENCED = "<recalled-by-memory-mcp>\nLast time: the queue \u2014 \u00e9 \U0001f600\n</recalled-by-memory-mcp>"


@pytest.mark.parametrize(("source", "way"), [("startup", "program"), ("clear", "function"), ("compact", "function")])
def test_a_session_that_begins_is_told_where_the_last_one_left_off(source: str, way: str, directory: Path) -> None:
    project = briefed(directory, FENCED)
    done = hook(directory, payload("SessionStart", source=source, cwd=project), way=way)
    assert json.loads(done.stdout) == {"hookSpecificOutput": {"hookEventName": "SessionStart", "additionalContext": FENCED}}
    assert done.stdout.isascii()
    assert len(kept(directory)) == 1


def test_the_declared_project_goes_before_the_directory(directory: Path) -> None:
    project = briefed(directory, FENCED)
    start = payload("SessionStart", source="startup", cwd="/")
    assert hook(directory, start).stdout == b""
    assert hook(directory, start, CLAUDE_PROJECT_DIR=project).stdout != b""


def test_nothing_is_told_where_nothing_is_known_or_wanted(directory: Path, tmp_path: Path) -> None:
    project = briefed(directory, FENCED)
    start = payload("SessionStart", source="startup", cwd=project)
    for given, more in (
        (payload("SessionStart", source="resume", cwd=project), {}),
        (payload("SessionStart", source="startup", cwd=str(tmp_path)), {}),
        (payload("SessionStart", source="startup"), {}),
        (start, {"MEMORY_MCP_HOOKS__BRIEFING": "false"}),
        (payload("UserPromptSubmit", prompt='say "SessionStart"', cwd=project), {}),
    ):
        done = hook(directory, given, **more)
        assert (done.stdout, done.stderr) == (b"", b"")
    assert hook(directory, start, "json").stdout == b""
    settings = tmp_path / "config.toml"
    settings.write_text("[hooks]\nbriefing = false\n", encoding="utf-8")
    assert hook(directory, start, "claude-code", "--config", str(settings)).stdout == b""
    assert hook(directory, start).stdout != b""


def test_a_briefing_is_never_longer_than_the_client_takes_and_stays_fenced(directory: Path) -> None:
    project = briefed(directory, FENCED.replace("queue", "\u00e9" * 30_000))
    told = json.loads(hook(directory, payload("SessionStart", source="startup", cwd=project)).stdout)
    text = told["hookSpecificOutput"]["additionalContext"]
    assert len(text) == 10_000
    assert text.endswith("\n</recalled-by-memory-mcp>")


def test_a_prompt_is_answered_by_nobody_when_no_daemon_runs_and_none_is_started(directory: Path) -> None:
    done = hook(directory, PROMPT, MEMORY_MCP_HOOKS__RECALL="true", CLAUDE_PROJECT_DIR="/home/dev/shop")
    assert (done.stdout, done.stderr) == (b"", b"")
    assert sorted(p.name for p in directory.iterdir()) == ["spool"]


def test_a_daemon_that_does_not_answer_holds_no_prompt_up(directory: Path) -> None:
    directory.mkdir(parents=True)
    with socket.socket(socket.AF_UNIX) as deaf:
        deaf.bind(paths.socket_path(str(directory)))
        deaf.listen()
        done = hook(directory, PROMPT, MEMORY_MCP_HOOKS__RECALL="true", MEMORY_MCP_HOOKS__RECALL_DEADLINE_MS="100")
    assert (done.stdout, done.stderr) == (b"", b"")
    assert len(kept(directory)) == 1


# exactly once


def test_many_at_once_leave_as_many_files_and_each_is_stored_once(directory: Path, pytestconfig: pytest.Config) -> None:
    many, alike = (20, 10) if pytestconfig.getoption("--slow") else (3, 3)
    # Prompts of the same words in the same moment are told apart by the ids that the client gives them.
    prompts = [payload("UserPromptSubmit", prompt=f"prompt {n}") for n in range(many)]
    prompts += [payload("UserPromptSubmit", prompt="Fix the retry queue.", prompt_id=f"p{n}") for n in range(alike)]
    running = []
    command = [sys.executable, *WAYS["function"], "claude-code"]
    for given in prompts:
        running.append((subprocess.Popen(command, stdin=subprocess.PIPE, env=environment(directory), cwd=ROOT), given))
    for one, given in running:
        one.communicate(given, timeout=LIMIT)
        assert one.returncode == 0
    assert len(kept(directory)) == many + alike
    assert kept(directory, "tmp") == []
    assert drained(directory) == (many + alike, 0, 0)
    assert kept(directory) == []
    assert sorted(stored(directory)) == sorted([f"prompt {n}" for n in range(many)] + ["Fix the retry queue."] * alike)


def left_by_hooks(directory: Path, when: str = "") -> list[str]:
    """Payloads of both kinds of client and two that cannot be read; the words that must be stored."""
    spool = paths.spool_dir(str(directory))
    words = []
    for n in range(12):
        if n in (3, 8):
            left(spool, b'{"broken')
        elif n % 4 == 2:
            left(spool, json.dumps({"session_id": "s2", "role": "user", "text": f"plain {n}{when}"}).encode(), "json")
            words.append(f"plain {n}{when}")
        else:
            left(spool, payload("UserPromptSubmit", prompt=f"prompt {n}{when}"))
            words.append(f"prompt {n}{when}")
    return sorted(words)


@pytest.mark.slow  # in the short form, the test below kills at two of them one after the other.
@pytest.mark.parametrize(("point", "visit"), DRAIN_POINTS, ids=str)
def test_killed_at_any_point_of_a_drain_everything_is_stored_once(point: str, visit: int, directory: Path) -> None:
    wanted = left_by_hooks(directory)
    assert drain(directory, **{VARIABLE: f"{point}:{visit}"}).returncode == -signal.SIGKILL
    before = stored(directory)
    assert len(before) == len(set(before))
    drained(directory)
    assert sorted(stored(directory)) == wanted
    assert kept(directory) == []
    assert [f.read_bytes().split(b"\n", 2)[2] for f in kept(directory, "bad")] == [b'{"broken'] * 2


def test_killed_again_and_again_while_hooks_go_on_everything_is_stored_once(directory: Path) -> None:
    wanted: list[str] = []
    for point in ("drain.stored:2", "drain.file_removed:1"):
        wanted += left_by_hooks(directory, f" before {point}")
        assert drain(directory, **{VARIABLE: point}).returncode == -signal.SIGKILL
    before = stored(directory)
    assert len(before) == len(set(before))
    drained(directory)
    assert sorted(stored(directory)) == sorted(wanted)
    assert (kept(directory), len(kept(directory, "bad"))) == ([], 4)


# with the daemon


def test_what_a_hook_tells_a_running_daemon_comes_back_with_a_prompt_of_another_session(directory: Path) -> None:
    said = "We agreed that invoices to Norway carry 25 percent VAT."
    question = payload("UserPromptSubmit", prompt="Which VAT percent do invoices to Norway carry?", session_id="another")
    more = WORDS | ALONE | {"MEMORY_MCP_HOOKS__RECALL": "true", "MEMORY_MCP_HOOKS__RECALL_DEADLINE_MS": "2000"}
    assert run_inside(["daemon", "start"], environment(directory, **more), ROOT).returncode == 0
    try:
        assert hook(directory, payload("UserPromptSubmit", prompt=said), way="program", **more).stdout == b""
        answers: list[bytes] = []

        def answered() -> bytes:
            answers.append(hook(directory, question, **more).stdout)
            return answers[-1]

        until(answered)
    finally:
        assert run_inside(["daemon", "stop"], environment(directory, **more), ROOT).returncode == 0
    text = json.loads(answers[-1])["hookSpecificOutput"]["additionalContext"]
    assert text.startswith("<recalled-by-memory-mcp>\n")
    assert f'user said: "{said}" [grip:' in text
    drained(directory)
    assert stored(directory).count(said) == 1
