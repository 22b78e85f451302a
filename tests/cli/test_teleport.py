"""`teleport` and the index commands of `admin`, on real index files."""

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from memory_mcp.app import App
from memory_mcp.cli import render
from memory_mcp.cli.commands.registry import COMMANDS
from memory_mcp.model.sentinel import CLOSE, OPEN
from tests.cli.conftest import FILLERS, Cli, Told, events, held, on
from tests.files import read_at_rest
from tests.requirements import requirement


@pytest.fixture(scope="module")
def indexed(built: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[App]:
    """The small memory with its keyword index, which stays open; tests only read it."""
    flags = {"teleport.enabled": True, "embedder.model": ""}
    with held(built, tmp_path_factory.mktemp("indexed"), **flags) as app:
        app.accelerators.catch_up()
        yield app


@pytest.fixture(autouse=True)
def switched_on(own_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The indexes, which the other tests do without."""
    assert own_home
    monkeypatch.setenv("MEMORY_MCP_TELEPORT__ENABLED", "true")
    # Both sides cost twice as much; whoever tests meaning says which model is to have it.
    monkeypatch.setenv("MEMORY_MCP_EMBEDDER__MODEL", "")


@pytest.fixture
def jump(indexed: App, cli: Cli) -> Cli:
    """The command line on the memory that is indexed."""
    return on(indexed, cli)


@pytest.fixture
def ready(indexed: App, tmp_path: Path) -> Path:
    """A copy of the small memory, with its index, that may be changed."""
    shutil.copytree(indexed.settings.storage.directory, tmp_path / "ready")
    return tmp_path / "ready"


def ids(found: dict[str, Any]) -> list[str]:
    return [r.get("node") or r["grip"] for r in found["results"]]


# search


@pytest.mark.usefixtures("processes")
@requirement("us:US-09", "us:US-10", "bm25:FR-05.1", "bm25:FR-05.4", "bm25:session-search-output")
def test_results_are_shown_as_blocks_with_score_type_level_keywords_date_and_quote(jump: Cli) -> None:
    done = jump("teleport", "search", "JWT", "token", "expiration")
    assert done.status == 0
    assert (done.out.splitlines()[0], done.out.splitlines()[-1]) == (OPEN, CLOSE)
    lines = done.text.splitlines()
    head = re.fullmatch(r"Results \((\d+) of (\d+) found, \d+\.\d ms\)", lines[0])
    assert head
    assert int(head[1]) <= int(head[2])
    heads = [line for line in lines if re.match(r"  \d+\. \S+ \(score: [01]\.\d\d\)$", line)]
    assert len(heads) == int(head[1])
    node = next(i for i, line in enumerate(lines) if "toc:segment:2026-01-30" in line)
    block = lines[node + 1 : node + 7]
    assert block[0].startswith("     Type: toc_node (bm25 score: ")
    assert block[1] == "     Level: segment"
    assert block[2].startswith("     Keywords: ")
    assert "JWT" in block[2]
    assert block[3].startswith("     Date: 2026-01-30 14:")
    assert block[5].startswith('     > "')


def test_nothing_found_is_an_answer(jump: Cli) -> None:
    done = jump("teleport", "search", "xylophone")
    assert (done.status, done.text.startswith("Results (0 of 0 found, ")) == (0, True)


@pytest.mark.parametrize(
    "argv",
    [
        ("search",),
        ("search", "  "),
        ("search", "?!..."),
        ("search", "a", "--query", "b"),
        ("search", "a", "--limit", "0"),
        ("search", "a", "--type", "event"),
        ("search", "a", "--level", "decade"),
        ("search", "a", "--kind", "gossip"),
        ("vector", "a", "--min-similarity", "2"),
        ("hybrid", ""),
    ],
)
def test_wrong_requests_end_with_status_two(jump: Cli, argv: tuple[str, ...]) -> None:
    done = jump("teleport", *argv)
    assert (done.status, done.out) == (2, "")
    assert not re.match(r"[A-Z_]+: ", done.err)
    assert len(done.err.splitlines()) == 1


# the index is built and brought up to date where no daemon does it


@requirement("bm25:FR-01.5")
def test_an_index_that_is_missing_is_built_before_the_first_answer_and_what_was_stored_since_is_found(
    cli: Cli, copy: Path
) -> None:
    assert not (copy / "indexes" / "bm25").exists()
    assert cli("teleport", "search", "Kerberos", "--data-dir", str(copy), "--json").data["results"]
    current = (copy / "indexes" / "bm25" / "CURRENT").read_text()
    assert current.startswith("gen-")
    event = {"session_id": "new", "timestamp": "2026-02-11T10:00:00Z", "role": "user", "text": "The theodolite is broken."}
    (copy.parent / "new.jsonl").write_text(json.dumps(event) + "\n")
    assert cli("ingest", str(copy.parent / "new.jsonl"), "--data-dir", str(copy)).status == 0
    found = cli("teleport", "search", "theodolite", "--data-dir", str(copy), "--json").data
    assert {"node" in r for r in found["results"]} == {True, False}


@requirement("bm25:FR-08.1", "bm25:FR-08.2")
@pytest.mark.parametrize("key", ["teleport.enabled", "teleport.bm25.enabled"])
def test_a_layer_that_is_switched_off_ends_with_status_three_and_says_how_to_enable_it(
    copy: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch, key: str
) -> None:
    monkeypatch.setenv("MEMORY_MCP_" + key.upper().replace(".", "__"), "false")
    done = cli("teleport", "search", "JWT", "--data-dir", str(copy))
    assert (done.status, done.out) == (3, "")
    assert done.err.startswith(f"BM25 index not enabled. Enable with {key} = true")


def test_the_vector_layer_says_that_it_has_no_model(jump: Cli) -> None:
    done = jump("teleport", "vector", "JWT")
    assert done.status == 3
    assert done.err.startswith("Vector index not enabled. No model: embedder.model is empty")


def test_hybrid_works_with_one_side_and_says_that_it_is_partial(jump: Cli) -> None:
    found = jump("teleport", "hybrid", "JWT expiration", "--json").data
    assert found["partial"] is True
    assert found["notices"] == ["partial: vector could not answer (no model: embedder.model is empty)"]
    assert ids(found) == ids(jump("teleport", "search", "JWT expiration", "--json").data)
    assert "Note: partial: vector could not answer" in jump("teleport", "hybrid", "JWT expiration").text


# status


STATUS = {f"{i}_{what}" for i in ("bm25", "vector") for what in ("enabled", "healthy", "doc_count")} | {"message"}


@requirement("us:US-06", "bm25:NFR-04.2")
def test_the_status_shows_both_indexes_by_the_names_of_the_specification(jump: Cli) -> None:
    data = jump("teleport", "status", "--json").data
    assert set(data) >= STATUS
    assert (data["bm25_enabled"], data["bm25_healthy"]) == (True, True)
    assert (data["vector_enabled"], data["vector_healthy"], data["vector_doc_count"]) == (True, False, 0)
    assert data["message"].endswith("vector: no model: embedder.model is empty")
    detail = data["indexes"]["bm25"]
    assert sum(detail["documents"].values()) == data["bm25_doc_count"] > FILLERS
    assert detail["size_bytes"] > 1000
    lines = jump("teleport", "status").out.splitlines()
    assert lines[0] == "bm25: enabled, healthy"
    assert re.match(r"  documents:    [\d,]+ toc_node, [\d,]+ grip", lines[1])
    assert jump("admin", "index-stats", "--json").data["indexes"]["bm25"]["health"] == "healthy"
    assert jump("admin", "index-stats").out.splitlines()[:2] == lines[:2]
    assert "vector: enabled, no model: embedder.model is empty" in lines
    assert [line.split(":")[0].strip() for line in lines[1:5]] == ["documents", "size", "generation", "last commit"]


def test_a_status_of_what_is_switched_off_says_so(copy: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MEMORY_MCP_TELEPORT__ENABLED", "false")
    lines = cli("teleport", "status", "--data-dir", str(copy)).out.splitlines()
    assert lines == [f"{name}: not enabled, disabled (teleport.enabled = false)" for name in ("bm25", "vector")]


@requirement("contract:tier-4-keyword")
def test_the_tier_rises_with_the_keyword_index(jump: Cli) -> None:
    data = jump("retrieval", "status", "--json").data
    assert (data["tier"], data["name"]) == (4, "Keyword")
    lines = jump("retrieval", "status").out.splitlines()
    assert re.fullmatch(r"  - bm25:    healthy \(\d+ docs\)", lines[lines.index("Available Layers:") + 1])
    assert "  - hybrid:  vector: no model: embedder.model is empty" in lines


@requirement("contract:status-output-counts")
def test_with_a_model_both_documents_and_vectors_count(told: Told, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MEMORY_MCP_EMBEDDER__MODEL")
    cli = told([*events()][-5:])
    status = cli("teleport", "status", "--json").data
    assert status["vector_healthy"] is True
    lines = cli("retrieval", "status").out.splitlines()
    assert lines[2] == "Current Tier:    2 (Hybrid)"
    assert f"  - bm25:    healthy ({status['bm25_doc_count']} docs)" in lines
    assert f"  - vector:  healthy ({status['vector_doc_count']} vectors)" in lines
    near = cli("teleport", "vector", "refresh token rotation", "--min-similarity", "0.5", "--json").data
    assert near["results"]
    assert all(r["similarity"] >= 0.5 for r in near["results"])
    both = cli("teleport", "hybrid", "refresh token rotation", "--json").data
    assert (both["partial"], both.get("notices", [])) == (False, [])
    pruned = cli("admin", "prune-vector", "--age-days", "1", "--level", "day", "--json").data
    assert set(pruned["pruned"]) == {"day"}
    made = cli("admin", "rebuild-index", "--json").data["rebuilt"]
    assert made["vector"]["documents"] == made["bm25"]["documents"] == status["vector_doc_count"]


# admin


@pytest.mark.usefixtures("processes")
@requirement("us:US-05", "us:US-11", "bm25:FR-06.1", "tele:TELE-05", "bm25:FR-06.2", "bm25:FR-02.5")
def test_an_index_is_built_anew_and_the_command_says_what_it_made_and_the_documents_so_far(
    cli: Cli, copy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[tuple[float, str]] = []
    monkeypatch.setattr(render.Progress, "at", lambda _, fraction, note="": told.append((fraction, note)))
    done = cli("admin", "rebuild-index", "--type", "bm25", "--data-dir", str(copy), "--json")
    assert done.status == 0
    assert set(done.data["rebuilt"]) == {"bm25"}
    assert done.data["rebuilt"]["bm25"]["documents"] > FILLERS
    assert len(told) > 2
    assert [fraction for fraction, _ in told] == sorted(fraction for fraction, _ in told)
    assert all(0 <= fraction <= 1 for fraction, _ in told)
    assert told[-1][1] == f"{done.data['rebuilt']['bm25']['documents']:,} documents"
    before = cli("teleport", "search", "harbour", "--data-dir", str(copy), "--json").data
    again = cli("admin", "rebuild-index", "--data-dir", str(copy))
    assert re.match(r"bm25: [\d,]+ documents in \d+\.\d\d s, [\d,]+ a second", again.out)
    after = cli("teleport", "search", "harbour", "--data-dir", str(copy), "--json").data
    assert ids(after) == ids(before)
    assert cli("admin", "rebuild-index", "--type", "grips", "--data-dir", str(copy)).status == 2
    refused = cli("admin", "rebuild-index", "--type", "vector", "--data-dir", str(copy))
    assert (refused.status, refused.err.startswith("Vector index not enabled. No model")) == (3, True)


@pytest.mark.usefixtures("processes")
@requirement("bm25:risk-index-corruption")
def test_a_damaged_index_is_reported_and_a_rebuild_mends_it(cli: Cli, ready: Path) -> None:
    victim, content = max(read_at_rest(ready / "indexes" / "bm25" / "parts").items(), key=lambda item: len(item[1]))
    data = bytearray(content)
    data[len(data) // 2] ^= 0xFF
    victim.write_bytes(bytes(data))
    stats = cli("admin", "index-stats", "--data-dir", str(ready), "--json").data["indexes"]["bm25"]
    assert (stats["enabled"], stats["healthy"], stats["health"]) == (True, False, "unhealthy")
    assert stats["reason"] == f"{victim.name} of the index is damaged"
    assert cli("retrieval", "status", "--data-dir", str(ready), "--json").data["tier"] == 5
    assert cli("search", "JWT", "--data-dir", str(ready), "--json").data["results"]
    assert cli("admin", "rebuild-index", "--data-dir", str(ready)).status == 0
    assert cli("admin", "index-stats", "--data-dir", str(ready), "--json").data["indexes"]["bm25"]["healthy"] is True


@pytest.mark.usefixtures("processes")
@requirement("bm25:FR-09.3", "bm25:FR-09.5", "bm25:FR-09.6", "bm25:risk-index-size")
def test_pruning_leaves_old_documents_out_of_the_index_and_nothing_out_of_the_memory(cli: Cli, ready: Path) -> None:
    built = cli("admin", "index-stats", "--data-dir", str(ready), "--json").data["indexes"]["bm25"]
    before, whole = sum(built["documents"].values()), built["size_bytes"]
    done = cli("admin", "prune-bm25", "--age-days", "1", "--level", "segment", "--data-dir", str(ready), "--json").data
    assert set(done["pruned"]) == {"segment"}
    stats = cli("admin", "index-stats", "--data-dir", str(ready), "--json").data["indexes"]["bm25"]
    assert sum(stats["documents"].values()) == before - sum(done["pruned"].values())
    assert stats["documents"]["grip"] == 0
    assert stats["size_bytes"] < whole
    assert stats["pruned"] == done["pruned"]
    assert stats["last_prune_at"]
    assert not cli("teleport", "search", "JWT", "--type", "grip", "--data-dir", str(ready), "--json").data["results"]
    assert cli("search", "JWT", "--data-dir", str(ready), "--json").data["results"]
    answer = cli("ask", "JWT", "--all", "--data-dir", str(ready), "--json").data
    assert answer["results"]
    assert any("leaves out what ended before" in notice for notice in answer["explanation"]["notices"])
    shown = cli("retrieval", "status", "--data-dir", str(ready)).out
    assert "bm25:    partial (" in shown
    assert "leaves out 100.0% of all segments" in shown
    assert "bm25: enabled, partial: leaves out 100.0%" in cli("admin", "index-stats", "--data-dir", str(ready)).out
    again = cli("admin", "rebuild-index", "--data-dir", str(ready), "--json").data["rebuilt"]["bm25"]["documents"]
    assert again == before


@pytest.mark.parametrize("argv", [(), ("--age-days", "0"), ("--age-days", "9", "--level", "month"), ("--age-days", "x")])
def test_a_prune_that_says_nothing_sensible_is_refused(jump: Cli, argv: tuple[str, ...]) -> None:
    assert jump("admin", "prune-bm25", *argv).status == 2


# inside the daemon


@pytest.mark.usefixtures("processes")
def test_an_index_is_built_anew_as_in_the_daemon_on_a_memory_that_is_open_already(jump: Cli) -> None:
    assert jump("admin", "rebuild-index", "--json").data["rebuilt"]["bm25"]["documents"] > FILLERS


def test_a_daemon_is_asked_for_every_command_that_reads_an_index() -> None:
    from memory_mcp.__main__ import FORWARDED

    assert {"teleport", "admin stats", "retrieval", "embedder status"} <= FORWARDED
    assert set(COMMANDS) >= {f.split()[0] for f in FORWARDED}


HOLD = """
import sys
from memory_mcp.app import App
from memory_mcp.config import load
app = App(load({}, {"storage.data_dir": sys.argv[1], "teleport.enabled": True, "embedder.model": ""}))
app.accelerators.catch_up()
print("open", flush=True)
sys.stdin.read()
"""


@requirement("bm25:risk-lockfile")
@pytest.mark.usefixtures("processes")
def test_an_index_whose_owner_was_killed_is_no_longer_locked(cli: Cli, copy: Path) -> None:
    words = [sys.executable, "-c", HOLD, str(copy)]
    owner = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert owner.stdin is not None
    assert owner.stdout is not None
    assert owner.stdout.readline() == "open\n"
    assert cli("teleport", "search", "Kerberos", "--data-dir", str(copy)).status == 3
    owner.kill()
    owner.wait()
    owner.stdin.close()
    owner.stdout.close()
    assert cli("teleport", "search", "Kerberos", "--data-dir", str(copy), "--json").data["results"]
