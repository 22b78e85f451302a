"""What others wrote is never lost: refusals, edits in between, entries of others, crashes, and what is left behind."""

import json
import tomllib
from dataclasses import replace
from pathlib import Path

import pytest

from memory_mcp.base.errors import InstallRefused
from memory_mcp.install import engine
from memory_mcp.install.base import AddItem, Client, Edit, Format, Level, Order, PlaceFile
from memory_mcp.install.clients import CLIENTS, ClaudeCode, Gemini
from memory_mcp.install.command import Server, hook_words, shell_line
from memory_mcp.install.edit import files
from memory_mcp.install.status import statuses
from tests.install.conftest import Machine
from tests.install.samples import json_samples

CLAUDE, CODEX, VSCODE = CLIENTS["claude-code"], CLIENTS["codex"], CLIENTS["vscode"]
by_name = pytest.mark.parametrize("client", CLIENTS.values(), ids=lambda client: client.name)


def put(path: Path, text: str | bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode() if isinstance(text, str) else text)


def entry_text(client: Client, entry: dict[str, object], name: str = "memory") -> str:
    if client.format is Format.TOML:
        return "".join(f"[{client.keys[0]}.{name}]\n" + "".join(f"{k} = {json.dumps(v)}\n" for k, v in entry.items()))
    return json.dumps({client.keys[0]: {name: entry}}, indent=2)


def values(client: Client, path: Path) -> dict[str, dict[str, dict[str, object]]]:
    text = path.read_text(encoding="utf-8")
    return dict(tomllib.loads(text) if client.format is Format.TOML else json.loads(text))


# refusals


@by_name
@pytest.mark.parametrize("data", [b"{ broken [", b"\xff\xfe{\x00}\x00", b"\xe9"], ids=["broken", "UTF-16", "Latin-1"])
def test_what_cannot_be_read_is_named_with_what_to_paste_and_left(machine: Machine, client: Client, data: bytes) -> None:
    path = machine.config_of(client)
    put(path, data)
    before = machine.tree()
    with pytest.raises(InstallRefused) as refused:
        machine.install(client)
    assert str(path) in refused.value.message
    assert refused.value.hint
    if data.startswith(b"{"):
        assert "/opt/memory-mcp" in refused.value.hint
    assert machine.tree() == before


@by_name
def test_a_file_that_is_read_only_is_not_replaced(machine: Machine, client: Client) -> None:
    path = machine.config_of(client)
    put(path, "")
    path.chmod(0o444)
    with pytest.raises(InstallRefused, match="is read-only") as refused:
        machine.install(client)
    assert "/opt/memory-mcp" in refused.value.hint
    assert path.read_bytes() == b""


@by_name
def test_a_server_of_another_program_is_not_overwritten(machine: Machine, client: Client) -> None:
    path = machine.config_of(client)
    put(path, entry_text(client, {"command": "npx", "args": ["@modelcontextprotocol/server-memory"]}))
    was = path.read_bytes()
    with pytest.raises(InstallRefused, match="not ours") as refused:
        machine.install(client)
    assert "--name" in refused.value.hint
    assert path.read_bytes() == was
    machine.install(client, name="mine")
    assert set(values(client, path)[client.keys[0]]) == {"memory", "mine"}
    machine.uninstall(client)
    assert path.read_bytes() == was


def test_one_file_that_cannot_be_changed_keeps_all_of_a_client_unchanged_and_a_folder_in_its_place_is_refused(
    machine: Machine,
) -> None:
    put(machine.home / ".claude" / "settings.json", "{ broken")
    with pytest.raises(InstallRefused, match=r"settings\.json cannot be read as its client would: line 1, column 3"):
        machine.install(CLAUDE)
    assert not machine.config_of(CLAUDE).exists()
    machine.config_of(VSCODE).mkdir(parents=True)
    with pytest.raises(InstallRefused, match="is not a file"):
        machine.install(VSCODE)


# what was there by hand


@by_name
def test_an_entry_of_ours_by_hand_is_brought_up_to_date_and_comes_back(machine: Machine, client: Client) -> None:
    path = machine.config_of(client)
    by_hand: dict[str, object] = {"command": "memory-mcp", "args": ["serve"]}
    if client.name == "opencode":
        by_hand = {"type": "local", "command": ["memory-mcp", "serve"]}
    put(path, entry_text(client, by_hand))
    was = path.read_bytes()
    machine.install(client)
    assert values(client, path)[client.keys[0]]["memory"] == client.make_entry(machine.order.server, Level.USER)
    machine.uninstall(client)
    assert path.read_bytes() == was
    machine.install(client)
    path.write_bytes(path.read_bytes() + b"\n")
    machine.uninstall(client)
    assert values(client, path)[client.keys[0]]["memory"] == by_hand


@by_name
def test_an_entry_of_ours_under_another_name_is_enough(machine: Machine, client: Client) -> None:
    path = machine.config_of(client)
    put(path, entry_text(client, dict(client.make_entry(machine.order.server, Level.USER)), "mine").replace("env = {}\n", ""))
    was = path.read_bytes()
    changes = machine.install(client, hooks=False)
    assert path.read_bytes() == was
    assert any("already under the name mine" in note for change in changes for note in change.notes)


@by_name
def test_what_its_user_added_to_the_entry_stays(machine: Machine, client: Client) -> None:
    path = machine.config_of(client)
    words = ["--config", "/c", "serve", "--profile", "full"]
    by_hand: dict[str, object] = {"command": "/old/memory-mcp", "args": words, "timeout": 9}
    environment = "environment" if client.name == "opencode" else "env"
    if client.name == "opencode":
        by_hand = {"type": "local", "command": ["/old/memory-mcp", *words], "timeout": 9}
    put(path, entry_text(client, by_hand))
    machine.install(client)
    entry = values(client, path)[client.keys[0]]["memory"]
    assert entry["command"] == (["/opt/memory-mcp", *words] if client.name == "opencode" else "/opt/memory-mcp")
    assert entry.get("args", words) == words
    assert entry["timeout"] == 9
    machine.install(client, server=replace(machine.order.server, env={"MEMORY_MCP_STORAGE__DATA_DIR": "/d"}), data_dir=Path("/d"))
    machine.install(client, server=replace(machine.order.server, command="/new/memory-mcp"))
    entry = values(client, path)[client.keys[0]]["memory"]
    assert entry[environment] == {"MEMORY_MCP_STORAGE__DATA_DIR": "/d"}
    assert str(entry["command"]).count("/new/memory-mcp") == 1
    written = b"".join(data or b"" for data in machine.tree().values())
    assert b"--data-dir /d" in written or b'"--data-dir", "/d"' in written or not client.hook_client
    machine.uninstall(client)
    assert values(client, path)[client.keys[0]]["memory"] == by_hand


def test_hooks_by_hand_are_not_doubled(machine: Machine) -> None:
    path = machine.home / ".claude" / "settings.json"
    commands = ("memory-mcp hook claude-code", "x")
    group = {"matcher": "", "hooks": [{"type": "command", "command": command} for command in commands]}
    put(path, json.dumps({"hooks": {"Stop": [group]}}))
    was = path.read_bytes()
    changes = machine.install(CLAUDE)
    assert json.loads(path.read_bytes())["hooks"]["Stop"] == [group]
    assert [note for change in changes for note in change.notes] == ["hooks.Stop runs memory-mcp already"]
    machine.uninstall(CLAUDE)
    assert path.read_bytes() == was


def test_what_nobody_remembers_is_recognised_and_taken_out(machine: Machine) -> None:
    settings, config = machine.home / ".claude" / "settings.json", machine.config_of(CLAUDE)
    other = {"hooks": [{"type": "command", "command": "x"}]}
    ours = {"hooks": [{"type": "command", "command": "memory-mcp hook claude-code"}]}
    both = {"hooks": [*ours["hooks"], *other["hooks"]]}
    put(settings, json.dumps({"hooks": {"Stop": [other, ours], "SessionEnd": [ours], "PreCompact": [both]}}))
    put(config, json.dumps({"mcpServers": {"memory": {"command": "memory-mcp", "args": ["serve"]}, "b": {"command": "b"}}}))
    changes = machine.uninstall(CLAUDE)
    assert json.loads(settings.read_bytes()) == {"hooks": {"Stop": [other], "PreCompact": [other]}}
    assert json.loads(config.read_bytes()) == {"mcpServers": {"b": {"command": "b"}}}
    assert all(machine.state.backup(change.path).is_file() for change in changes)
    assert machine.uninstall(CLAUDE) == []


# what others do in between


@by_name
def test_a_command_that_moved_is_brought_up_to_date(machine: Machine, client: Client) -> None:
    path = machine.config_of(client)
    put(path, entry_text(client, {"command": "b"}, "other"))
    was = path.read_bytes()
    machine.install(client)
    moved = Server("/elsewhere/memory-mcp", ("serve",))
    changes = machine.install(client, server=moved)
    assert changes[0].action == "updated"
    assert values(client, path)[client.keys[0]]["memory"] == client.make_entry(moved, Level.USER)
    machine.uninstall(client)
    assert path.read_bytes() == was


@by_name
def test_an_entry_changed_by_its_user_still_goes_and_one_put_in_its_place_stays(machine: Machine, client: Client) -> None:
    path = machine.config_of(client)
    machine.install(client)
    entry = dict(client.make_entry(machine.order.server, Level.USER))
    put(path, entry_text(client, {**entry, "disabled": True}).replace("env = {}\n", ""))
    machine.uninstall(client)
    assert not path.exists()
    machine.install(client)
    put(path, entry_text(client, {"command": "npx", "args": ["other"]}))
    was = path.read_bytes()
    with pytest.raises(InstallRefused, match="not ours"):
        machine.install(client)
    machine.uninstall(client)
    assert path.read_bytes() == was


def test_hooks_of_a_command_that_moved_are_brought_up_to_date(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    path = machine.home / ".claude" / "settings.json"
    put(path, '{"hooks": {"Stop": [{"hooks": [{"type": "command", "command": "x"}]}]}}')
    was = path.read_bytes()
    machine.install(CLAUDE)
    monkeypatch.setattr("memory_mcp.install.command.executable", lambda: ("/new place/memory-mcp", []))
    machine.install(CLAUDE)
    written = path.read_bytes()
    assert written.count(b"'/new place/memory-mcp' hook claude-code") == written.count(b" hook claude-code") == 11
    assert path.read_bytes().count(b'"x"') == 1
    machine.uninstall(CLAUDE)
    assert path.read_bytes() == was


def test_an_entry_for_one_folder_is_seen_and_goes(machine: Machine) -> None:
    path = machine.config_of(CLAUDE)
    here = {"mcpServers": {"memory": {"command": "memory-mcp", "args": ["serve"]}}, "history": []}
    put(path, json.dumps({"projects": {str(machine.project): here, "/other": {}}}))
    [server] = next(one for one in statuses(machine.place, machine.state) if one.client == "claude-code").servers
    assert (server.level, server.name) == ("folder", "memory")
    machine.uninstall(CLAUDE)
    assert json.loads(path.read_bytes()) == {"projects": {str(machine.project): {**here, "mcpServers": {}}, "/other": {}}}


def test_what_was_added_in_between_stays_and_an_install_over_it_does_not_bring_the_old_file_back(machine: Machine) -> None:
    path = machine.config_of(CLAUDE)
    put(path, '{"numStartups": 1}')
    machine.install(CLAUDE)
    told = json.loads(path.read_bytes())
    put(path, json.dumps({**told, "numStartups": 2, "projects": {"/p": {}}}, indent=2))
    changes = machine.uninstall(CLAUDE)
    assert path.read_text() == '{\n  "numStartups": 2,\n  "projects": {\n    "/p": {}\n  }\n}'
    assert "changed since" in changes[0].notes[0]
    path = machine.config_of(VSCODE)
    put(path, '{\n  "inputs": []\n}\n')
    machine.install(VSCODE)
    put(path, path.read_text().replace('"inputs": []', '"inputs": [1]'))
    machine.install(VSCODE, server=Server("/elsewhere/memory-mcp", ("serve",)))
    machine.uninstall(VSCODE)
    assert path.read_text() == '{\n  "inputs": [1]\n}\n'


def test_a_file_that_another_program_writes_in_that_moment_is_read_again(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = machine.config_of(VSCODE)
    put(path, '{"inputs": []}')
    real = files.read_content
    raced: list[int] = []

    def read(asked: Path) -> files.Content:
        found = real(asked)
        if asked == path and not raced:
            raced.append(path.write_bytes(b'{"inputs": [1]}'))
        return found

    monkeypatch.setattr(files, "read_content", read)
    machine.install(VSCODE)
    assert json.loads(path.read_bytes())["inputs"] == [1]
    machine.uninstall(VSCODE)
    assert path.read_bytes() == b'{"inputs": [1]}'


def test_a_write_that_fails_leaves_nothing_to_take_back(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    path = machine.config_of(VSCODE)
    put(path, '{"inputs": []}')
    before = machine.tree()
    real = files.replace

    def crash(where: Path, was: bytes | None, data: bytes) -> None:
        if where == path:
            raise OSError(28, "No space left on device")
        real(where, was, data)

    monkeypatch.setattr(files, "replace", crash)
    with pytest.raises(InstallRefused, match="No space left"):
        machine.install(VSCODE)
    monkeypatch.setattr(files, "replace", real)
    assert path.read_bytes() == b'{"inputs": []}'
    machine.uninstall(VSCODE)
    assert machine.tree() == before


# several of them


def test_two_clients_of_one_file_share_the_entry_until_the_last_goes(machine: Machine) -> None:
    copilot = CLIENTS["copilot"]
    path = machine.config_of(copilot, Level.PROJECT)
    put(path, '{ "mcpServers": {} }')
    was = path.read_bytes()
    machine.install(CLAUDE, level=Level.PROJECT, hooks=False)
    installed = path.read_bytes()
    assert [change.action for change in machine.install(copilot, level=Level.PROJECT)] == ["unchanged"]
    machine.uninstall(CLAUDE)
    assert path.read_bytes() == installed
    machine.uninstall(copilot)
    assert path.read_bytes() == was


def test_levels_are_taken_back_one_by_one_or_together(machine: Machine) -> None:
    before = machine.tree()
    machine.install(CLAUDE)
    machine.install(CLAUDE, level=Level.PROJECT)
    machine.uninstall(CLAUDE, Level.USER)
    assert not machine.config_of(CLAUDE).exists()
    assert (machine.project / ".mcp.json").exists()
    machine.install(CLAUDE)
    machine.uninstall(CLAUDE)
    assert machine.tree() == before


@by_name
def test_a_plan_writes_nothing_and_the_status_tells_what_is_there(machine: Machine, client: Client) -> None:
    assert [one for one in statuses(machine.place, machine.state) if one.found or one.configured] == []
    put(machine.config_of(client), "")
    before = machine.tree()
    changes = engine.plan(client, machine.order, machine.state)
    assert all(change.diff() for change in changes)
    assert machine.tree() == before
    machine.install(client)
    before = machine.tree()
    found = {one.client: one for one in statuses(machine.place, machine.state)}[client.name]
    assert machine.tree() == before
    assert found.configured
    assert found.found
    [server] = found.servers
    assert (server.level, server.path, server.name, server.runs) == (Level.USER, str(machine.config_of(client)), "memory", False)
    wanted = client.list_hook_edits(machine.order)
    assert found.hooks == ({Level.USER: (len(wanted), len(wanted))} if wanted else {})
    assert found.recording is (bool(wanted) and not client.trust)
    assert dict(found.untrusted) == ({Level.USER: len(wanted)} if client.trust else {})
    put(machine.config_of(client), "{ broken")
    found = {one.client: one for one in statuses(machine.place, machine.state)}[client.name]
    assert len(found.unreadable) == 1


def test_the_state_is_for_this_user_alone_and_a_broken_one_is_named(machine: Machine) -> None:
    put(machine.config_of(VSCODE), "{}")
    machine.install(VSCODE)
    directory = machine.state.directory
    for path in [directory, *directory.rglob("*")]:
        assert path.stat().st_mode & 0o077 == 0 or path.name == "lock", path
    (directory / "state.json").write_text("{")
    with pytest.raises(InstallRefused, match=r"state\.json cannot be read"):
        _ = machine.state


# whole files


class WithPlugin(ClaudeCode):
    """A client that has a file of ours beside its servers."""

    text = "// memory-mcp\n"

    def list_hook_edits(self, order: Order) -> list[Edit]:
        return [PlaceFile(order.environment.at_home(".claude", "plugins", "memory.js"), self.text)]


def test_a_file_of_ours_is_placed_updated_and_removed_and_one_that_somebody_made_their_own_stays(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    client, before = WithPlugin(), machine.tree()
    path = machine.home / ".claude" / "plugins" / "memory.js"
    machine.install(client)
    assert path.read_text() == client.text
    monkeypatch.setattr(WithPlugin, "text", "// memory-mcp 2\n")
    machine.install(client)
    assert path.read_text() == "// memory-mcp 2\n"
    machine.uninstall(client)
    assert machine.tree() == before
    put(path, "// mine\n")
    with pytest.raises(InstallRefused, match="not as memory-mcp wrote it"):
        machine.install(client)
    path.unlink()
    machine.install(client)
    put(path, "// mine\n")
    machine.uninstall(client)
    assert path.read_text() == "// mine\n"
    assert not machine.config_of(client).exists()


def test_an_order_for_another_name_leaves_the_first(machine: Machine) -> None:
    machine.install(VSCODE)
    machine.install(VSCODE, name="second", server=replace(machine.order.server, env={"X": "1"}))
    assert set(json.loads(machine.config_of(VSCODE).read_bytes())["servers"]) == {"memory", "second"}
    machine.uninstall(VSCODE)
    assert not machine.config_of(VSCODE).exists()


class InOneFile(Gemini):
    """A client whose servers and hooks stand in the same file."""

    hook_client = "gemini"

    def list_hook_edits(self, order: Order) -> list[Edit]:
        path = self.choose_config(order.environment, order.level)
        line = shell_line(hook_words("gemini", order.data_dir, order.config), "linux")
        items = [{"matcher": "*", "hooks": [{"type": "command", "command": line}]}]
        return [AddItem(path, ("hooks", event), item, "gemini") for event in ("SessionStart", "AfterTool") for item in items]


@pytest.mark.parametrize("data", json_samples(("mcpServers",)).values(), ids=json_samples(("mcpServers",)))
def test_servers_and_hooks_may_stand_in_one_file(machine: Machine, data: bytes) -> None:
    client = InOneFile()
    path = machine.config_of(client)
    put(path, data)
    before = machine.tree()
    changes = machine.install(client)
    assert len(changes) == 1
    assert path.read_bytes().count(b"hook gemini") == 2
    machine.uninstall(client)
    assert machine.tree() == before


@pytest.mark.parametrize("undoes", [False, True], ids=["installs", "installs and takes it back"])
def test_a_folder_goes_whoever_made_it_and_whoever_was_the_first_to_write(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, undoes: bool
) -> None:
    """One has made the folders, and another comes first to its turn."""
    before = machine.tree()
    make = files.make_folder

    def overtaken(folder: Path) -> list[Path]:
        monkeypatch.setattr(files, "make_folder", make)
        made = make(folder)
        machine.install(VSCODE)
        if undoes:
            machine.uninstall(VSCODE)
        return made

    monkeypatch.setattr(files, "make_folder", overtaken)
    machine.install(CODEX)
    for client in (VSCODE, CODEX):
        machine.uninstall(client)
    assert machine.tree() == before
    assert not machine.config.exists()
