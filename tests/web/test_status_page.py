"""The page Status tells what the requests tell: layers, queues, clients, disk, jobs, what leaves the machine, pauses."""

import html
import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from memory_mcp.requests.capturing import PauseCapture, ResumeCapture
from memory_mcp.requests.clients import ListClients
from memory_mcp.requests.jobs import ListJobs, PauseJob, ResumeJob
from memory_mcp.requests.overview import GetOverview
from memory_mcp.requests.status import GetStatus
from memory_mcp.web.rendering import duration, size
from tests.web.acting import BILLING, SHOP, Served, followed, forms, served, visited
from tests.web.visitor import Visitor


@pytest.fixture(scope="module")
def memory(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(tmp_path_factory.mktemp("status") / "data") as made:
        yield made


@pytest.fixture(scope="module")
def visitor(memory: Served) -> Visitor:
    return memory.visit()


def section(page: str, title: str) -> str:
    """The part of a page under a heading."""
    return page.split(f"<h2>{title}</h2>", 1)[1].split("<h2>", 1)[0]


def words(part: str) -> str:
    return html.unescape(" ".join(re.sub("<[^>]*>", " ", part).split()))


def test_every_layer_is_there_with_its_state_and_what_would_enable_it(memory: Served, visitor: Visitor) -> None:
    found, page = memory.ask(GetStatus("full")), visitor.page("status")
    said = words(page.split("Layers and what waits", 1)[1])
    for layer in found["layers"]:
        state = "works" if layer["healthy"] else layer.get("reason", "off")
        assert f"{layer['name']} {'works' if layer['healthy'] else ''}".strip() in said
        assert state in said
        assert layer.get("enable_with", "") in said
        assert all(text in said for text in layer["contract"].values())
    assert f"Tier {found['tier']}: {found['name']}." in said


def test_what_needs_a_look_comes_first_then_clients_and_layers_and_jobs_are_folded(memory: Served, visitor: Visitor) -> None:
    page = visitor.page("status")
    main = words(page.split('tabindex="-1">', 1)[1])
    broken = [one["name"] for one in memory.ask(GetStatus("full"))["layers"] if one["enabled"] and not one["healthy"]]
    looks = [main.index(f"{name}: ") for name in broken] or [main.index("All fine. The last event is from")]
    order = [*looks, *map(main.index, ("Recorded by", "Layers and what waits", "Jobs"))]
    assert order == sorted(order)
    assert page.count('<details class="card"><summary>') == 2


def test_nothing_leaves_the_machine_unless_a_setting_says_so(memory: Served, visitor: Visitor) -> None:
    assert "Nothing." in words(section(visitor.page("status"), "What leaves this machine"))
    app = memory.door.app
    before = app.settings
    app.settings = replace(before, sync=replace(before.sync, directory="/somewhere/shared"))
    try:
        said = words(section(visitor.page("status"), "What leaves this machine"))
    finally:
        app.settings = before
    assert "Nothing." not in said
    assert "/somewhere/shared (setting sync.directory )" in said


def test_clients_disk_and_backups_are_those_of_the_overview(memory: Served, visitor: Visitor) -> None:
    page, found = visitor.page("status"), memory.ask(GetOverview())
    said = words(section(page, "Recorded by"))
    for client in found["clients"]:
        assert f"{client['events_last_day']:,} {client['events']:,}" in said
        assert client["agent"] in said
    assert f"Database {size(found['disk']['database'])}" in words(section(page, "Disk"))
    assert "There is none yet; one is made every day" in words(section(page, "Backups"))
    assert "No secret was found" in words(section(page, "Secrets taken out"))


def test_programs_are_listed_with_their_hooks(
    memory: Served, visitor: Visitor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("CLAUDE_CONFIG_DIR", "CODEX_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "No program that could use the memory was found" in visitor.page("status")
    (tmp_path / ".claude.json").write_text(json.dumps({"mcpServers": {"memory": {"command": "/gone/memory-mcp"}}}))
    (tmp_path / ".claude").mkdir()
    hook = {"type": "command", "command": "memory-mcp hook claude-code"}
    (tmp_path / ".claude" / "settings.json").write_text(json.dumps({"hooks": {"Stop": [{"hooks": [hook]}]}}))
    [one] = [found for found in memory.ask(ListClients())["clients"] if found["client"] == "claude-code"]
    assert (one["uses_memory"], one["hooks_on"], one["hooks"] > 1) == (True, 1, True)
    said = words(section(visitor.page("status"), "Programs and their hooks"))
    assert f"{one['title']} yes it would start /gone/memory-mcp, which is not there 1 of {one['hooks']} on" in said


def test_a_backup_is_made_from_the_page(memory: Served, visitor: Visitor) -> None:
    [form] = forms(section(visitor.page("status"), "Backups"), "run-job")
    page = followed(visitor, visitor.act("run-job", **form))
    assert memory.ask(GetOverview())["backups"]["count"] == 1
    assert "1 backup" in words(section(page, "Backups"))
    visitor.act("run-job", **form)
    assert memory.ask(GetOverview())["backups"]["count"] == 1


def test_jobs_are_listed_with_what_became_of_them_and_the_fitting_buttons(memory: Served, visitor: Visitor) -> None:
    memory.ask(PauseJob("roll_up"))
    try:
        part = visitor.page("status").split("<summary>Jobs</summary>", 1)[1]
    finally:
        memory.ask(ResumeJob("roll_up"))
    names = [one["name"] for one in memory.ask(ListJobs())["jobs"]]
    assert [form["name"] for form in forms(part, "run-job")] == names
    assert [form["name"] for form in forms(part, "resume-job")] == ["roll_up"]
    assert [form["name"] for form in forms(part, "pause-job")] == [name for name in names if name != "roll_up"]
    assert "paused" in words(part)


def test_what_is_paused_is_told_and_resumed_there(memory: Served, visitor: Visitor) -> None:
    assert "No project is paused, and none is excluded." in words(section(visitor.page("status"), "Not recorded"))
    memory.ask(PauseCapture(BILLING))
    part = section(visitor.page("status"), "Not recorded")
    assert "billing is paused" in words(part)
    [form] = forms(part, "resume")
    followed(visitor, visitor.act("resume", **form))
    assert memory.ask(GetOverview())["paused"] == []
    memory.ask(ResumeCapture(SHOP))


def test_parts_that_change_are_fetched_alone(visitor: Visitor) -> None:
    page = visitor.page("status")
    for address in re.findall(r'data-live="([^"]+)"', page):
        reply = visitor.send("GET", html.unescape(address), X_Part="1", X_Live="1")
        assert reply.status == 200
        assert "<html" not in reply.text
        assert reply.text.strip() in page or len(forms(reply.text, "run-job")) > 5
    assert len(re.findall("data-live=", page)) == 2


def test_an_empty_memory_says_what_to_do_next(tmp_path: Path) -> None:
    with visited(tmp_path / "data") as (_, visitor):
        assert "Nothing was recorded yet. memory-mcp setup begins to record." in words(visitor.page("status"))
        assert "No project was recorded yet." in words(visitor.page("projects"))
        assert "Nothing was done to the memory itself yet." in words(visitor.page("audit"))


def test_durations_are_told_in_their_two_largest_units() -> None:
    told = [duration(seconds) for seconds in (0, 59.9, 60, 3661, 86_400, 90_061)]
    assert told == ["0 s", "59 s", "1 min", "1 h 1 min", "1 d", "1 d 1 h"]
