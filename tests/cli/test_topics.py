"""`topics`: pictures on a terminal, plain words on a pipe, and every way from a theme down to its quotations."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from memory_mcp.app import App
from memory_mcp.cli.main import main
from memory_mcp.model.sentinel import OPEN
from tests import topics
from tests.cli.conftest import Cli, held, isolate, on_a_terminal


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The data directory of a memory whose topics were found by the first question."""
    room = tmp_path_factory.mktemp("topics")
    (room / "events.jsonl").write_text(topics.lines(), encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        isolate(patch, room / "home")
        patch.setenv("MEMORY_MCP_TELEPORT__ENABLED", "true")
        assert main(["ingest", str(room / "events.jsonl"), "--data-dir", str(room / "data"), "--json"]) == 0
        assert main(["topics", "top", "--data-dir", str(room / "data"), "--json"]) == 0
    return room / "data"


@pytest.fixture(autouse=True)
def with_vectors(monkeypatch: pytest.MonkeyPatch) -> None:
    """As most people have it; other tests of commands do without."""
    monkeypatch.setenv("MEMORY_MCP_TELEPORT__ENABLED", "true")


@pytest.fixture(scope="module")
def small(place: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[App]:
    with held(place, tmp_path_factory.mktemp("small"), **{"teleport.enabled": True}) as app:
        yield app


@pytest.mark.usefixtures("processes")
def test_the_first_question_finds_topics_where_no_process_did(memory: Cli) -> None:
    lines = memory("topics", "status").out.splitlines()
    assert lines[0] == "topics: enabled, healthy"
    assert "  grouped by:   meaning and shared words" in lines
    assert lines[1] == f"  topics:       {memory('topics', 'status', '--json').data['topic_count']} in 72 segments"


def test_top_draws_a_bar_and_the_weeks_on_a_terminal(place: Path, monkeypatch: pytest.MonkeyPatch, memory: Cli) -> None:
    shown = on_a_terminal(monkeypatch, "topics", "top", "--data-dir", str(place))
    [first, *_] = memory("topics", "top", "--json").data["topics"]
    row = next(line for line in shown.splitlines() if "1. " in line)
    assert "██████████" in row
    assert set("▁▂▃▄▅▆▇█") & set(row.split("█ ")[-1])
    assert f"{first['importance']:.3g}" in row
    assert first["topic_id"] in shown
    assert "\x1b[" in shown
    assert OPEN not in shown
    assert not set("▁█") & set(on_a_terminal(monkeypatch, "topics", "top", "--data-dir", str(place), no_color="1"))


def test_top_is_plain_and_fenced_on_a_pipe(memory: Cli) -> None:
    done = memory("topics", "top", "--fine", "--limit", "3")
    assert done.out.splitlines()[0] == OPEN
    assert done.text.splitlines()[0].startswith("3 of ")
    assert not set("█▁·\x1b") & set(done.out)
    data = memory("topics", "top", "--fine", "--limit", "3", "--json").data
    for place, topic in enumerate(data["topics"], 1):
        assert f"  {place}. {topic['label']} (importance {topic['importance']:.3g})  {topic['topic_id']}" in done.text
        assert f"     By week: {' '.join(map(str, topic['weeks']))}" in done.text
    rest = memory("topics", "top", "--fine", "--limit", "3", "--cursor", data["next_cursor"], "--json").data
    assert not {t["topic_id"] for t in rest["topics"]} & {t["topic_id"] for t in data["topics"]}


def test_explore_unfolds_words_down_to_quotations(memory: Cli) -> None:
    text = memory("topics", "explore", "invoice", "mail", "twice").text
    data = memory("topics", "explore", "invoice", "mail", "twice", "--json").data
    [first, *_] = data["topics"]
    assert text.splitlines()[0].startswith(f"1. {first['label']}  fit ")
    for node in first["nodes"]:
        assert f"   - {node['when'].replace('T', ' ')}  {node['title']}" in text
        assert f"       {node['node_id']}" in text
        assert f"       [{node['grip']}]" in text
    opened = memory("query", "expand-grip", first["nodes"][0]["grip"], "--json").data
    assert opened["verified"] is True


def test_one_topic_is_told_whole_and_leads_on(memory: Cli) -> None:
    topic = memory("topics", "top", "--fine", "--limit", "1", "--json").data["topics"][0]
    whole = memory("topics", "explore", topic["topic_id"]).text
    assert whole.splitlines()[0].startswith(topic["label"])
    for part in ("   By week: ", "   Related:", "   History:"):
        assert part in whole
    nodes = memory("topics", "nodes", topic["topic_id"], "--limit", "2").text.splitlines()
    assert nodes[0] == f"{topic['label']}  2 of {topic['mentions']} segments"
    assert nodes[-1].startswith("More: --cursor ")
    [head, *related] = memory("topics", "related", topic["topic_id"]).text.splitlines()
    assert head == topic["label"]
    assert all(line.startswith("   - ") and "topic:" in line for line in related)


def test_a_label_and_a_pin_are_given_and_taken_back(memory: Cli) -> None:
    topic = memory("topics", "top", "--fine", "--json").data["topics"][-1]["topic_id"]
    assert memory("topics", "label", topic, "what", "I", "call", "it").text == f"{topic}  what I call it"
    assert memory("topics", "pin", topic).out == f"{topic}  pinned\n"
    first = memory("topics", "top", "--fine", "--limit", "1").text
    assert "what I call it" in first
    assert ", pinned" in first
    assert memory("topics", "label", topic).text.endswith(" (its own words)")
    assert memory("topics", "pin", topic, "--off").out == f"{topic}  not pinned\n"
    refused = memory("topics", "pin", "2026-02")
    assert (refused.status, refused.err.startswith("not a topic id: '2026-02'")) == (2, True)


def test_a_project_is_shown_in_its_own_words(memory: Cli) -> None:
    shown = {p: memory("topics", "explore", "hosts", "drained", "rollout", "--project", p).text for p in ("shop", "billing")}
    assert "kingfisher" in shown["shop"]
    assert "peregrine" in shown["billing"]
    assert "peregrine" not in shown["shop"]
    assert "kingfisher" not in shown["billing"]


@pytest.mark.slow  # in the short form: indexes by `admin`, in test_teleport.py; topics by `topics status`, above.
def test_topics_stand_among_the_indexes(memory: Cli) -> None:
    made = memory("admin", "rebuild-index", "--type", "topics", "--json").data["rebuilt"]
    assert (set(made), made["topics"]["documents"]) == ({"topics"}, 72)
    lines = memory("admin", "rebuild-index").out.splitlines()
    assert [line.split(":")[0] for line in lines] == ["bm25", "vector", "topics"]
    assert lines[2].startswith(f"topics: {made['topics']['topics']} topics in 72 segments, in ")
    stats = memory("admin", "index-stats", "--json").data["indexes"]
    assert list(stats) == ["bm25", "vector", "topics"]
    assert stats["topics"] == memory("topics", "status", "--json").data
    assert "topics: enabled, healthy" in memory("admin", "index-stats").out
    assert f"  - topics:  healthy ({made['topics']['topics']} topics)" in memory("retrieval", "status").out


def test_too_few_segments_and_a_layer_that_is_off_are_told_with_what_to_do(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "few.jsonl").write_text("\n".join(topics.lines().splitlines()[:36]), encoding="utf-8")
    here = ("--data-dir", str(tmp_path / "few"))
    cli("ingest", str(tmp_path / "few.jsonl"), *here)
    few = cli("topics", "top", *here)
    assert (few.status, few.out) == (3, "")
    assert "Topics are looked for from 50 segments on; there are 12; use search_children meanwhile." in few.err
    assert cli("topics", "status", *here).out.startswith(
        "topics: enabled, topics are looked for from 50 segments on; there are 12"
    )
    monkeypatch.setenv("MEMORY_MCP_TOPICS__ENABLED", "false")
    off = cli("topics", "explore", "rollout", *here)
    assert off.status == 3
    assert off.err.startswith("Topic graph not enabled. Enable with topics.enabled = true;")
    assert json.loads(cli("topics", "status", "--json", *here).out)["enabled"] is False


def test_a_question_that_explores_tells_its_themes_before_its_results(memory: Cli) -> None:
    said = memory("ask", "what are the recurring themes?", "--all").out
    shown = [line for line in said.splitlines() if line.startswith("* ")]
    assert shown
    assert all("segment" in line and "topic:" in line for line in shown)
    assert said.index("* ") < said.index("1. ")
    assert memory("ask", "what are the recurring themes?", "--all", "--json").data["themes"][0]["theme"] in shown[0]
