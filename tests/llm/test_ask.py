"""Asking an endpoint and a command: shapes, keys, failures, patience, and nobody else who is told."""

import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from memory_mcp.model.sentinel import opens_own_session
from memory_mcp.tree.llm.ask import asker, patiently
from memory_mcp.tree.llm.prompt import Prompt
from memory_mcp.tree.llm.reply import Refused, Reply, Unavailable
from memory_mcp.tree.llm.settings import SummarizerSettings
from tests.llm.scripted import USED, Drip, Script, Status, scripted
from tests.waiting import until

PROMPT = Prompt("Say it better.", "what was recorded")
AT_ONCE = {"Retry-After": "0"}


def settings(script: Script, provider: str = "openai", **more: Any) -> SummarizerSettings:
    return SummarizerSettings(provider=provider, url=script.url, model="small", **more)


def tried(using: SummarizerSettings, retries: int = 0) -> Reply:
    return patiently(asker(using, None), PROMPT, retries, threading.Event())


def test_an_endpoint_like_openais_is_asked_in_its_shape_and_no_key_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "found")
    with scripted("hello") as script:
        assert tried(settings(script)) == Reply("hello", *USED, estimated=False)
    [asked] = script.asked
    assert asked.path == "/v1/chat/completions"
    assert [m["role"] for m in asked.body["messages"]] == ["system", "user"]
    assert (asked.body["model"], asked.data) == ("small", "what was recorded")
    assert "found" not in str(asked.headers)
    assert "Authorization" not in asked.headers


def test_an_endpoint_like_anthropics_is_asked_in_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_KEY", "k-1")
    with scripted("hello") as script:
        script.url = script.url.removesuffix("/v1")
        assert tried(settings(script, "anthropic", api_key_env="MY_KEY")) == Reply("hello", *USED, estimated=False)
    [asked] = script.asked
    headers = {name.lower(): value for name, value in asked.headers.items()}
    assert (asked.path, headers["x-api-key"], headers["anthropic-version"]) == ("/v1/messages", "k-1", "2023-06-01")
    assert (asked.body["system"], [m["role"] for m in asked.body["messages"]]) == (PROMPT.task, ["user"])


def test_the_named_key_is_sent_and_one_that_is_not_there_is_missed_before_anything_is_sent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("MY_KEY", "k-1")
    with scripted() as script:
        tried(settings(script, api_key_env="MY_KEY"))
        assert script.asked[0].headers["Authorization"] == "Bearer k-1"
        monkeypatch.delenv("MY_KEY")
        with pytest.raises(Unavailable, match=r"the variable MY_KEY \(summarizer\.api_key_env\) is not set"):
            tried(settings(script, api_key_env="MY_KEY"), retries=3)
        assert script.connections == 1


def test_tokens_that_nobody_tells_are_estimated_and_said_to_be() -> None:
    with scripted("hello") as script:
        script.usage = False
        assert tried(settings(script)) == Reply("hello", PROMPT.tokens, 2, estimated=True)


@pytest.mark.parametrize("status", [429, 500, 503, 529])
def test_what_passes_is_tried_again_as_often_as_allowed(status: int) -> None:
    with scripted(Status(status, AT_ONCE), Status(status, AT_ONCE), "at last") as script:
        assert tried(settings(script), retries=2).text == "at last"
        script.steps.extend([Status(status, AT_ONCE)] * 9)
        with pytest.raises(Unavailable, match=f"HTTP {status}"):
            tried(settings(script), retries=2)
        assert len(script.asked) == 6


def test_waits_grow_and_end_when_nobody_wants_the_answer_any_more() -> None:
    waits: list[float] = []

    class Watched(threading.Event):
        def wait(self, timeout: float | None = None) -> bool:
            waits.append(timeout or 0)
            return len(waits) == 3

    def never(prompt: Prompt, stopped: threading.Event) -> Reply:
        raise Unavailable("HTTP 503", again=True, tokens_in=7)

    with pytest.raises(Unavailable) as error:
        patiently(never, PROMPT, 10, Watched())
    assert waits == [1.0, 2.0, 4.0]
    assert error.value.tokens_in == 21


def test_an_endpoint_that_wants_a_long_rest_gets_it() -> None:
    with scripted(Status(429, {"Retry-After": "3600"})) as script:
        with pytest.raises(Unavailable, match="HTTP 429"):
            tried(settings(script), retries=5)
        assert len(script.asked) == 1


@pytest.mark.parametrize("status", [400, 413, 422])
def test_a_prompt_that_is_refused_is_not_repeated(status: int) -> None:
    with scripted(Status(status)) as script:
        with pytest.raises(Refused, match=f"HTTP {status}"):
            tried(settings(script), retries=5)
        assert len(script.asked) == 1


@pytest.mark.parametrize(("status", "step"), [(401, "api_key_env"), (403, "api_key_env"), (404, r"summarizer\.model")])
def test_what_only_a_person_can_put_right_is_said(status: int, step: str) -> None:
    with scripted(Status(status)) as script, pytest.raises(Unavailable, match=f"HTTP {status}.*{step}"):
        tried(settings(script), retries=5)


def test_no_redirect_is_followed() -> None:
    with scripted() as other, scripted(Status(307, {"Location": other.url + "/chat/completions"})) as script:
        with pytest.raises(Unavailable, match="redirects are not followed"):
            tried(settings(script), retries=5)
        assert (len(script.asked), other.connections) == (1, 0)


def test_no_proxy_of_the_environment_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    with scripted() as proxy, scripted("direct") as script:
        for name in ("http_proxy", "HTTP_PROXY", "all_proxy"):
            monkeypatch.setenv(name, proxy.url)
        assert tried(settings(script)).text == "direct"
        assert proxy.connections == 0


def test_a_silent_endpoint_is_left_after_the_time_it_has_and_its_tokens_count() -> None:
    late = threading.Event()
    with scripted(late) as script:
        with pytest.raises(Unavailable, match="no answer in time") as error:
            tried(settings(script, timeout_secs=1))
        late.set()
    assert (error.value.tokens_in, error.value.again) == (PROMPT.tokens, True)


def test_an_answer_that_comes_drop_by_drop_gets_no_more_time_than_silence() -> None:
    with scripted(Drip()) as script, pytest.raises(Unavailable, match="no answer in time"):
        tried(settings(script, timeout_secs=1))


def test_an_endpoint_that_is_not_there_is_said_to_be_unreachable() -> None:
    with scripted() as script:
        gone = settings(script)
    with pytest.raises(Unavailable, match="not reached: ConnectionRefusedError"):
        tried(gone)


def test_an_answer_of_another_form_is_refused() -> None:
    with scripted(Status(200)) as script, pytest.raises(Refused, match="not the form"):
        tried(settings(script))


# a command

COMMAND = """
import os, sys
sys.stderr.write("nothing of this is read")
asked = sys.stdin.read()
{then}
"""


def command(tmp_path: Path, then: str, **more: Any) -> Reply:
    script = tmp_path / "model.py"
    script.write_text(COMMAND.format(then=then), encoding="utf-8")
    using = SummarizerSettings(provider="command", command=f"{sys.executable} '{script}'", **more)
    return patiently(asker(using, tmp_path), PROMPT, 0, threading.Event())


def test_a_command_gets_the_marked_prompt_and_the_sign_for_hooks_and_runs_in_our_folder(tmp_path: Path) -> None:
    told = command(tmp_path, "print(os.environ['MEMORY_MCP_SUMMARIZING'], os.getcwd(), asked, sep='|')")
    sign, place, asked = told.text.split("|", 2)
    assert (sign, Path(place)) == ("1", tmp_path)
    assert asked.strip() == PROMPT.whole
    assert opens_own_session(asked)
    assert told.estimated


@pytest.mark.parametrize(
    ("then", "error", "reason"),
    [
        ("sys.exit(3)", Unavailable, "the command ended with status 3"),
        ("pass", Refused, "the command answered nothing"),
        ("import time; time.sleep(600)", Unavailable, "no answer in time"),
        ("print('x' * 3_000_000, flush=True); import time; time.sleep(600)", Unavailable, "no answer in time"),
    ],
)
def test_a_command_that_fails_hangs_or_floods_is_left(tmp_path: Path, then: str, error: type[Exception], reason: str) -> None:
    with pytest.raises(error, match=reason):
        command(tmp_path, then, timeout_secs=2)


def test_a_command_that_is_not_there_is_not_tried_again() -> None:
    with pytest.raises(Unavailable, match="cannot be started: No such file") as error:
        patiently(
            asker(SummarizerSettings(provider="command", command="no-such-command-here"), None), PROMPT, 5, threading.Event()
        )
    assert not error.value.again


def test_a_command_ends_with_whatever_it_started_when_its_answer_is_no_longer_wanted(tmp_path: Path) -> None:
    noted = tmp_path / "pid"
    then = f"import subprocess; p = subprocess.Popen(['sleep', '600']); open({str(noted)!r}, 'w').write(str(p.pid)); p.wait()"
    (tmp_path / "model.py").write_text(COMMAND.format(then=then), encoding="utf-8")
    using = SummarizerSettings(provider="command", command=f"{sys.executable} '{tmp_path / 'model.py'}'")

    class Noted(threading.Event):
        def is_set(self) -> bool:
            return noted.exists() and noted.read_text() != ""

    with pytest.raises(Unavailable, match="stopped"):
        asker(using, None)(PROMPT, Noted())
    state = Path(f"/proc/{noted.read_text()}/stat")
    if Path("/proc/self/stat").exists():
        # Killed is not yet gone.
        until(lambda: not state.exists() or state.read_text().rpartition(")")[2].split()[0] == "Z", "for its end")
