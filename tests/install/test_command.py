"""Through the command as it is installed, with a home that nobody has lived in."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from memory_mcp.install.clients import CLIENTS
from tests.daemon.inside import as_installed, run_inside
from tests.waiting import PATIENCE

COMMAND = Path(sys.executable).with_name("memory-mcp")


class Home:
    def __init__(self, root: Path) -> None:
        self.root, self.project = root / "home", root / "project"
        self.root.mkdir()
        self.project.mkdir()
        self.environ = {"HOME": str(self.root), "PATH": "/usr/bin:/bin", "LANG": "C.UTF-8"}

    def run(self, *words: str, status: int = 0) -> str:
        done = run_inside(words, self.environ, self.project, "", as_installed)
        assert done.returncode == status, (done.stdout, done.stderr)
        return done.stdout if status == 0 or done.stdout else done.stderr

    def json(self, *words: str, status: int = 0) -> Any:
        return json.loads(self.run(*words, "--json", status=status))

    def put(self, name: str, text: str) -> Path:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return path

    def tree(self) -> dict[str, bytes | None]:
        paths = sorted(self.root.rglob("*"))
        return {str(path.relative_to(self.root)): path.read_bytes() if path.is_file() else None for path in paths}


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)


def test_install_status_and_uninstall_of_all_that_are_found(home: Home) -> None:
    home.put(".claude/settings.json", '{\n  "model": "opus" // mine\n}\n')
    home.put(".codex/config.toml", 'model = "x"\n')
    home.put(".config/zed/settings.json", '// Zed\n{\n  "theme": "x",\n}\n')
    before = home.tree()
    told = home.run("install", "all")
    installed = [line for line in told.splitlines() if line.endswith(": installed")]
    assert installed == ["Claude Code: installed", "Codex: installed", "Zed: installed"]
    entry = json.loads((home.root / ".claude.json").read_text())["mcpServers"]["memory"]
    assert entry == {"type": "stdio", "command": str(COMMAND), "args": ["serve"]}
    status = {one["client"]: one for one in home.json("install", "--status")["clients"]}
    assert [name for name, one in status.items() if one["configured"]] == ["claude-code", "codex", "zed"]
    assert all(server["runs"] for one in status.values() for server in one["servers"])
    assert status["claude-code"]["hooks"] == {"user": [11, 11]}
    assert "nothing to change" in home.run("install", "codex")
    undone = home.run("uninstall", "all")
    # What to do to have it in force is no advice for who took it out.
    assert "until then it goes on with what it had" in undone
    assert "trust the hooks" not in undone
    assert home.tree() == before


def test_a_dry_run_shows_a_diff_and_writes_nothing(home: Home) -> None:
    home.put(".codex/config.toml", 'model = "x"\n')
    home.put(".gemini/settings.json", "{}")
    before = home.tree()
    shown = home.run("install", "all", "--dry-run")
    assert "+[mcp_servers.memory]" in shown
    assert '+    "memory": {' in shown
    assert "Codex: would be installed" in shown
    assert home.tree() == before
    home.run("install", "all")
    installed = home.tree()
    assert "-[mcp_servers.memory]" in home.run("uninstall", "all", "--dry-run")
    assert home.tree() == installed


def test_with_all_the_others_go_on_where_one_cannot(home: Home) -> None:
    home.put(".codex/config.toml", "model = ")
    home.put(".gemini/settings.json", "{}")
    told = home.run("install", "all", status=1)
    assert "Codex: nothing was written." in told
    assert "append to" in told
    assert "Gemini CLI: installed" in told
    assert "memory" in (home.root / ".gemini" / "settings.json").read_text()


@pytest.mark.usefixtures("processes")
def test_the_data_directory_and_the_settings_file_are_carried_through(home: Home, tmp_path: Path) -> None:
    config = home.put("own.toml", "")
    home.run("install", "claude-code", "--data-dir", str(tmp_path / "my data"), "--config", str(config))
    entry = json.loads((home.root / ".claude.json").read_text())["mcpServers"]["memory"]
    assert entry["env"] == {"MEMORY_MCP_STORAGE__DATA_DIR": str(tmp_path / "my data"), "MEMORY_MCP_CONFIG": str(config)}
    hooks = json.loads((home.root / ".claude" / "settings.json").read_text())["hooks"]
    line = hooks["Stop"][0]["hooks"][0]["command"]
    payload = json.dumps({"session_id": "s", "hook_event_name": "Stop", "cwd": "/", "last_assistant_message": "m"})
    done = subprocess.run(["sh", "-c", line], input=payload, text=True, env=home.environ, capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert len(list((tmp_path / "my data" / "spool" / "new").iterdir())) == 1


def test_over_http_the_token_is_in_the_file_and_nowhere_on_the_screen(home: Home) -> None:
    home.put(".config/memory-mcp/config.toml", "[server]\nhttp = true\nhttp_port = 9123\n")
    before = home.tree()
    assert "Bearer <token>" in home.run("install", "vscode", "--http", "--dry-run")
    assert home.tree() == before
    told = home.run("install", "vscode", "--http", "--json")
    token = (home.root / ".local/share/memory-mcp/token").read_text().strip()
    entry = json.loads((home.root / ".config/Code/User/mcp.json").read_text())["servers"]["memory"]
    assert entry == {"type": "http", "url": "http://127.0.0.1:9123/mcp", "headers": {"Authorization": f"Bearer {token}"}}
    assert token not in told + home.run("install", "vscode", "--dry-run") + home.run("uninstall", "vscode", "--dry-run")
    assert "closed" not in told
    assert "Leave --http out" in home.run("install", "claude-desktop", "--http", status=2)
    assert "Leave --project or --http out" in home.run("install", "vscode", "--http", "--project", status=2)


def test_a_project_has_its_own_configuration(home: Home) -> None:
    home.run("install", "claude-code", "--project")
    made = sorted(str(path.relative_to(home.project)) for path in home.project.rglob("*") if path.is_file())
    assert made == [".claude/settings.local.json", ".mcp.json"]
    assert "no configuration for one project" in home.run("install", "windsurf", "--project", status=2)
    home.run("uninstall", "claude-code", "--project")
    assert list(home.project.iterdir()) == []
    assert home.tree() == {}


def test_install_alone_shows_how_every_client_is(home: Home) -> None:
    assert home.run("install") == home.run("install", "--status")
    assert home.tree() == {}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["install", "claude"], "Did you mean claude-code?"),
        (["install", "all"], "no client that this fits was found here"),
        (["install", "zed", "--name", "my memory"], "Use letters, digits"),
        (["uninstall", "vs-code"], "Did you mean vscode?"),
    ],
)
def test_a_mistake_is_told_with_the_next_step(home: Home, words: list[str], said: str) -> None:
    assert said in home.run(*words, status=2)
    assert home.tree() == {}


def test_what_is_not_found_is_prepared_for_and_said_and_all_leaves_out_whom_it_does_not_fit(home: Home) -> None:
    told = home.run("install", "--help")
    assert [name for name in CLIENTS if name not in told] == []
    assert home.tree() == {}
    assert "not found here" in home.run("install", "zed")
    assert (home.root / ".config/zed/settings.json").is_file()
    home.put(".config/Claude/x", "")
    home.put(".cursor/x", "")
    told = home.run("install", "all", "--project")
    assert "Cursor: installed" in told
    assert "Claude Desktop" not in told


@pytest.mark.usefixtures("processes")
def test_several_at_once_take_nothing_from_each_other(home: Home) -> None:
    names = ("cursor", "vscode", "gemini", "windsurf")
    before = home.tree()
    running = [
        subprocess.Popen([str(COMMAND), "install", name], env=home.environ, cwd=home.project, stdout=subprocess.DEVNULL)
        for name in names
    ]
    assert [one.wait(PATIENCE) for one in running] == [0, 0, 0, 0]
    assert [one["client"] for one in home.json("install", "--status")["clients"] if one["configured"]] == list(names)
    home.run("uninstall", "all")
    assert home.tree() == before
