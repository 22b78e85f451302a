"""`exclude`: patterns of what is never recorded, written into the settings file and in force in the running daemon at once."""

import json
import stat
from pathlib import Path
from typing import Any

import pytest

from bench.place import Place
from tests.daemon.inside import BARE, Beside, Inside
from tests.daemon.places import NO_INDEXES, look, needs_proc
from tests.waiting import until

pytestmark = needs_proc
PLACES, KIND = NO_INDEXES, Beside

FILE = """# Kept by hand.\r
[ingest]\r
exclude_tools = "mcp__mail__*"  # nobody's business\r
\r
[retrieval]\r
token_factor = 1.0\r
"""


@pytest.fixture
def place(lasting: Place) -> Place:
    """One daemon for all; each test begins without a settings file."""
    (lasting.home / "config.toml").unlink(missing_ok=True)
    return lasting


def hook(place: Place, prompt: str, cwd: str = "/home/u/open") -> None:
    payload = {"hook_event_name": "UserPromptSubmit", "session_id": "s", "cwd": cwd, "prompt": prompt}
    done = place.run("hook", "claude-code", stdin=json.dumps(payload))
    assert (done.returncode, done.stderr) == (0, "")


def asked(place: Place, *words: str) -> dict[str, Any]:
    return dict(json.loads(place.ok("exclude", *words, "--json")))


def test_what_is_excluded_is_recorded_no_more_from_then_on_by_the_daemon_that_runs(place: Place) -> None:
    first = look(place)["pid"]
    hook(place, "alder before", "/home/u/vault")
    until(lambda: "alder before" in place.ok("query", "events"))
    done = asked(place, "add", "--project", "/home/u/vault")
    assert (done["projects"], done["changed"], done["stored"]) == (["/home/u/vault"], True, 1)
    hook(place, "beech within", "/home/u/vault")
    hook(place, "cedar elsewhere")
    until(lambda: "cedar elsewhere" in place.ok("query", "events"))
    assert asked(place, "remove", "--project", "/home/u/vault")["projects"] == []
    hook(place, "elm after", "/home/u/vault")
    until(lambda: "elm after" in place.ok("query", "events"))
    assert "beech within" not in place.ok("query", "events", "--limit", "100")
    now = look(place)
    assert (now["pid"], now["settings_changed"]) == (first, [])
    acts = json.loads(place.ok("admin", "audit", "--json"))["acts"]
    assert [(act["what"], act["subject"]) for act in acts if "/home/u/vault" in act["subject"]] == [
        ("include", "project /home/u/vault"),
        ("exclude", "project /home/u/vault"),
    ]


def test_the_settings_file_keeps_everything_else_it_says(tmp_path: Path) -> None:
    place = Inside(tmp_path, more=BARE)
    file = place.home / "config.toml"
    file.write_bytes(FILE.encode())
    file.chmod(0o640)
    asked(place, "add", "--tool", "Web*")
    changed = FILE.replace('"mcp__mail__*"', '"mcp__mail__*, Web*"')
    assert file.read_bytes() == changed.encode()
    assert stat.S_IMODE(file.stat().st_mode) == 0o640
    asked(place, "remove", "--tool", "Web*")
    assert file.read_bytes() == FILE.encode()
    # What is excluded already, or is not, changes nothing.
    assert "changed" not in asked(place, "add", "--tool", "mcp__mail__*")
    assert "changed" not in asked(place, "remove", "--path", "*.pem")
    assert file.read_bytes() == FILE.encode()
    assert asked(place, "list")["tools"] == ["mcp__mail__*"]


def test_a_file_that_is_made_is_private_and_a_relative_path_is_that_of_the_caller(place: Place) -> None:
    file = place.home / "config.toml"
    done = asked(place, "add", "--path", "./vault")
    assert done["paths"] == [str(place.home / "vault")]
    assert done["settings_file"] == str(file)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert "never recorded: path" in place.ok("exclude", "list")
    hook(place, "fir within", str(place.home / "vault" / "app"))
    hook(place, "gorse elsewhere")
    until(lambda: "gorse elsewhere" in place.ok("query", "events"))
    assert "fir within" not in place.ok("query", "events")


def test_what_was_written_into_the_file_by_hand_is_kept_and_in_force_with_the_next_change(place: Place) -> None:
    (place.home / "config.toml").write_text('[ingest]\nexclude_projects = "acme/one"\n')
    assert asked(place, "add", "--project", "acme/two")["projects"] == ["acme/one", "acme/two"]


def test_a_variable_that_goes_before_the_file_is_named(tmp_path: Path) -> None:
    with Inside(tmp_path, more=BARE | {"MEMORY_MCP_INGEST__EXCLUDE_PROJECTS": "acme/one"}) as place:
        refused = place.run("exclude", "add", "--project", "acme/two")
        assert refused.returncode != 0
        assert "MEMORY_MCP_INGEST__EXCLUDE_PROJECTS is set, which goes before the settings file" in refused.stderr
        assert not (place.home / "config.toml").exists() or "exclude" not in (place.home / "config.toml").read_text()
        told = asked(place, "list")
        assert (told["projects"], told["overridden_by"]) == (["acme/one"], ["MEMORY_MCP_INGEST__EXCLUDE_PROJECTS"])
        assert asked(place, "add", "--path", ".env")["paths"] == [".env"]


@pytest.mark.parametrize(
    ("words", "why"),
    [
        ((), "name exactly one project, path or tool"),
        (("--path", "a,b"), "invalid pattern: 'a,b'"),
        (("--project", "sk-ant-api03-" + "Ab1" * 31 + "AA"), "the pattern holds a secret"),
    ],
)
def test_a_pattern_that_cannot_be_kept_is_refused(lasting: Place, words: tuple[str, ...], why: str) -> None:
    done = lasting.run("exclude", "add", *words)
    assert (done.returncode, done.stdout) == (2, "")
    assert why in done.stderr


def test_a_settings_file_that_cannot_be_read_is_an_error_and_nothing_changes(place: Place) -> None:
    file = place.home / "config.toml"
    file.write_text("[ingest\n")
    assert place.run("exclude", "add", "--path", ".env").returncode != 0
    assert file.read_text() == "[ingest\n"
    file.unlink()
