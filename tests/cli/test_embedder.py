"""`embedder`: the installed command, a hub on loopback, a memory with its indexes, and a daemon that takes up the choice."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from memory_mcp.config import load
from memory_mcp.embed.models import BUNDLED
from tests.cli.conftest import Cli, Outcome
from tests.embed.hub import Hub, serving
from tests.indexes.models import static_model

NAME = "someone/tiny"
ENGLISH = (
    "The harbour master counted the boats this morning.",
    "Please paint the buoys before the season begins.",
    "The login page shows an error after the upgrade.",
    "We agreed to release on Thursday and not earlier.",
    "My daughter plays the piano at the school concert.",
    "The invoice for the new compressor has been paid.",
)


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[Hub]:
    (tmp_path / "published").mkdir()
    folder = static_model(tmp_path / "published" / "tiny", words=[f"word{n}" for n in range(3000)])
    (folder / "onnx.bin").write_bytes(b"another format of the same weights" * 1000)
    other = tmp_path / "published" / "transformer"
    other.mkdir()
    (other / "config.json").write_text("{}", encoding="utf-8")
    with serving(Hub({NAME: folder, "someone/transformer": other})) as found:
        yield found


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return tmp_path / "data"


def run(data: Path, *argv: str, **environment: str) -> Outcome:
    """The installed command, in a process of its own; without what loading a model in this one has set."""
    inherited = {k: v for k, v in os.environ.items() if k != "HF_HUB_OFFLINE"}
    done = subprocess.run(
        [sys.executable, "-m", "memory_mcp", *argv, "--data-dir", str(data)],
        env=inherited | environment,
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )
    return Outcome(done.returncode, done.stdout, done.stderr)


def ingest(cli: Cli, file: Path, sessions: list[list[str]]) -> None:
    """A memory of some conversations, a day apart."""
    rows = [
        {
            "id": f"{day}-{n}",
            "session_id": f"s{day}",
            "timestamp": f"2026-0{1 + day // 28}-{1 + day % 28:02d}T10:{n:02d}:00Z",
            "role": ("user", "assistant")[n % 2],
            "text": text,
        }
        for day, said in enumerate(sessions)
        for n, text in enumerate(said)
    ]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    assert cli("ingest", str(file)).status == 0


# fetch and list


@pytest.mark.usefixtures("processes")
def test_a_model_is_fetched_whole_listed_and_chosen_for_every_data_directory_and_progress_of_a_slow_download_is_told(
    hub: Hub, data: Path, cli: Cli, own_home: Path
) -> None:
    assert "someone/tiny" not in cli("embedder", "list", "--data-dir", str(data)).out
    hub.pause = 1.2
    done = run(data, "embedder", "fetch", NAME, "--json", HF_ENDPOINT=hub.address)
    assert (done.status, done.data["fetched"], done.data["kind"]) == (0, True, "hub")
    assert re.search(r"fetching someone/tiny: \d+%", done.err)
    folder = data / "models" / "someone--tiny"
    assert {f.name for f in folder.iterdir()} >= {"config.json", "tokenizer.json", "model.safetensors"}
    assert not (folder / "onnx.bin").exists()
    assert not (folder / ".cache").exists()
    assert [f.name for f in (data / "models").iterdir()] == ["someone--tiny"]
    listed = cli("embedder", "list", "--json", "--data-dir", str(data)).data
    assert [(m["name"], m["in_use"]) for m in listed["models"]] == [(BUNDLED, True), (NAME, False)]
    assert "minishlab/potion-base-8M" in {m["name"] for m in listed["fetchable"]}
    asked = len(hub.asked)
    again = run(data, "embedder", "fetch", NAME, HF_ENDPOINT=hub.address)
    assert "on this machine already" in again.out
    assert len(hub.asked) == asked
    assert cli("embedder", "use", NAME, "--data-dir", str(data)).status == 0
    chosen = cli("embedder", "list", "--json", "--data-dir", str(own_home / "another")).data
    assert [(m["name"], m["in_use"]) for m in chosen["models"]] == [(BUNDLED, False), (NAME, True)]


@pytest.mark.usefixtures("processes")
def test_without_a_network_nothing_changes_and_the_way_by_hand_is_told(data: Path) -> None:
    done = run(data, "embedder", "fetch", "potion-base-8M", HF_ENDPOINT="http://127.0.0.1:9")
    assert (done.status, done.out) == (3, "")
    assert done.err.startswith("minishlab/potion-base-8M could not be fetched: ")
    assert "copy the model's folder here and say: memory-mcp embedder use FOLDER" in done.err
    assert list((data / "models").iterdir()) == []


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("someone/nothing", "the hub has no public model someone/nothing"),
        ("someone/transformer", "is not a model2vec model: it has no tokenizer"),
    ],
)
@pytest.mark.usefixtures("processes")
def test_what_is_no_model_is_refused_and_leaves_nothing(hub: Hub, data: Path, name: str, told: str) -> None:
    done = run(data, "embedder", "fetch", name, HF_ENDPOINT=hub.address)
    assert (done.status, done.out) == (2, "")
    assert told in done.err
    assert list((data / "models").iterdir()) == []


@pytest.mark.usefixtures("processes")
def test_an_offline_hub_is_not_asked_and_a_download_that_breaks_off_leaves_nothing(hub: Hub, data: Path) -> None:
    done = run(data, "embedder", "fetch", NAME, HF_ENDPOINT=hub.address, HF_HUB_OFFLINE="1")
    assert (done.status, hub.asked) == (3, [])
    hub.breaks_off = True
    assert run(data, "embedder", "fetch", NAME, HF_ENDPOINT=hub.address).status == 3
    assert list((data / "models").iterdir()) == []


@pytest.mark.parametrize("name", [BUNDLED, "./here"])
def test_what_lies_on_this_machine_needs_no_fetching(cli: Cli, name: str) -> None:
    assert "needs no fetching" in cli("embedder", "fetch", name).err


# use


def test_the_choice_is_written_into_the_settings_which_keep_the_rest(cli: Cli, tmp_path: Path, own_home: Path) -> None:
    folder = static_model(tmp_path / "mine")
    config = own_home / ".config" / "memory-mcp" / "config.toml"
    config.parent.mkdir(parents=True)
    config.write_text('# my own notes\n[server]\nprofile = "full"  # all tools\n', encoding="utf-8")
    config.chmod(0o640)
    done = cli("embedder", "use", str(folder), "--json")
    assert (done.status, done.data["settings_file"], done.data["daemon_restarted"]) == (0, str(config), False)
    text = config.read_text(encoding="utf-8")
    assert text.startswith('# my own notes\n[server]\nprofile = "full"  # all tools\n')
    assert config.stat().st_mode & 0o777 == 0o640
    assert load({"HOME": str(own_home)}).embedder.model == str(folder)
    assert cli("embedder", "use", BUNDLED).status == 0
    assert load({"HOME": str(own_home)}).embedder.model == BUNDLED
    assert [f.name for f in config.parent.iterdir()] == ["config.toml"]


def test_what_cannot_be_used_changes_nothing(cli: Cli, tmp_path: Path, own_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = own_home / ".config" / "memory-mcp" / "config.toml"
    assert cli("embedder", "use", "potion-base-8M").err.startswith("the model minishlab/potion-base-8M is not on")
    assert "has no config.json" in cli("embedder", "use", str(tmp_path)).err
    assert "no model is called 'bundel'" in cli("embedder", "use", "bundel").err
    monkeypatch.setenv("MEMORY_MCP_EMBEDDER__MODEL", BUNDLED)
    assert "goes before the settings file" in cli("embedder", "use", BUNDLED).err
    assert not config.exists()
    monkeypatch.delenv("MEMORY_MCP_EMBEDDER__MODEL")
    config.parent.mkdir(parents=True)
    config.write_text("[server\n", encoding="utf-8")
    assert cli("embedder", "use", BUNDLED).status == 2
    assert config.read_text(encoding="utf-8") == "[server\n"


@pytest.mark.parametrize(("what", "told"), [("tokenizer", "cannot be loaded"), ("type", "numbers of type F9X"), ("wide", "2048")])
def test_a_model_that_cannot_be_used_is_not_chosen(cli: Cli, tmp_path: Path, own_home: Path, what: str, told: str) -> None:
    folder = static_model(tmp_path / "bad", dimensions=2048 if what == "wide" else 32)
    if what == "tokenizer":
        (folder / "tokenizer.json").write_text("garbage", encoding="utf-8")
    elif what == "type":
        raw = (folder / "model.safetensors").read_bytes()
        (folder / "model.safetensors").write_bytes(raw.replace(b'"F32"', b'"F9X"'))
    done = cli("embedder", "use", str(folder))
    assert (done.status, done.out) == (3, "")
    assert told in done.err
    assert not (own_home / ".config").exists()


def test_a_settings_file_is_made_line_ends_stay_and_what_is_chosen_already_changes_nothing(cli: Cli, tmp_path: Path) -> None:
    config = tmp_path / "own.toml"
    config.write_bytes(b'# notes\r\n[server]\r\nprofile = "full"\r\n')
    folder = static_model(tmp_path / "mine")
    assert cli("embedder", "use", str(folder), "--config", str(config)).status == 0
    written = config.read_bytes()
    assert written.startswith(b'# notes\r\n[server]\r\nprofile = "full"\r\n')
    assert "is in use already" in cli("embedder", "use", str(folder), "--config", str(config)).out
    assert config.read_bytes() == written
    assert cli("embedder", "use", str(folder)).status == 0
    checked = cli("config", "check")
    assert (checked.status, "embedder.model (file)" in checked.out) == (0, True)


# status


def test_the_status_tells_the_model_and_what_it_leaves_to_keywords(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MEMORY_MCP_TELEPORT__ENABLED", "true")
    said = [*ENGLISH, "Мы снова покрасили буи и посчитали лодки в гавани.", "我们修复了登录超时的错误，然后重新部署了服务。"]
    ingest(cli, tmp_path / "events.jsonl", [[text] for text in said])
    found = cli("embedder", "status", "--json").data
    assert (found["name"], found["kind"], found["dimensions"], found["healthy"]) == (BUNDLED, "bundled", 256, True)
    assert found["documents"] > 2 * len(said)
    # Of each of the two its segment and its grip, and whatever period they fill most of.
    unknown = found["unknown_documents"]
    assert 4 <= unknown < found["documents"] / 2
    assert found["unknown_share"] == pytest.approx(unknown / found["documents"], abs=0.0001)
    lines = cli("embedder", "status").out.splitlines()
    assert lines[0] == "model: bundled"
    assert any(line.startswith("  left to keywords") and f": {unknown} (" in line for line in lines)
    near = cli("teleport", "vector", "гавани", "--json").data
    assert near["results"] == []
    both = cli("teleport", "hybrid", "гавани", "--json").data
    assert both["results"]
    assert both["partial"] is False


def test_the_status_says_why_there_is_no_model(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MEMORY_MCP_TELEPORT__ENABLED", "true")
    monkeypatch.setenv("MEMORY_MCP_EMBEDDER__MODEL", "potion-base-8M")
    found = cli("embedder", "status", "--json").data
    assert (found["setting"], found["healthy"]) == ("potion-base-8M", False)
    assert "is not on this machine. Fetch it: memory-mcp embedder fetch minishlab/potion-base-8M" in found["reason"]
    monkeypatch.setenv("MEMORY_MCP_EMBEDDER__MODEL", "")
    assert cli("embedder", "status").out.splitlines()[0] == "model: none"
