"""Where each client's files lie on each platform, and how each writes a server."""

import json
import tomllib

import pytest

from memory_mcp.base.errors import InstallRefused
from memory_mcp.install.base import CLAUDE_CODE_EVENTS, Client, Environment, Format, Level, Order
from memory_mcp.install.clients import CLIENTS
from memory_mcp.install.command import Server, executable, is_our_hook, runs_our_hook, shell_line, starts_us
from memory_mcp.install.edit import toml
from tests.test_docs import ROOT

LINUX = Environment("linux", {}, "/home/me", "/code/p")
MAC = Environment("darwin", {}, "/Users/me", "/code/p")
WINDOWS = Environment("win32", {"APPDATA": "C:\\Users\\me\\AppData\\Roaming"}, "C:\\Users\\me", "C:\\code\\p")

FILES = {
    "claude-code": ("/home/me/.claude.json", "/Users/me/.claude.json", "C:\\Users\\me\\.claude.json"),
    "claude-desktop": (
        "/home/me/.config/Claude/claude_desktop_config.json",
        "/Users/me/Library/Application Support/Claude/claude_desktop_config.json",
        "C:\\Users\\me\\AppData\\Roaming\\Claude\\claude_desktop_config.json",
    ),
    "codex": ("/home/me/.codex/config.toml", "/Users/me/.codex/config.toml", "C:\\Users\\me\\.codex\\config.toml"),
    "cursor": ("/home/me/.cursor/mcp.json", "/Users/me/.cursor/mcp.json", "C:\\Users\\me\\.cursor\\mcp.json"),
    "vscode": (
        "/home/me/.config/Code/User/mcp.json",
        "/Users/me/Library/Application Support/Code/User/mcp.json",
        "C:\\Users\\me\\AppData\\Roaming\\Code\\User\\mcp.json",
    ),
    "gemini": ("/home/me/.gemini/settings.json", "/Users/me/.gemini/settings.json", "C:\\Users\\me\\.gemini\\settings.json"),
    "opencode": (
        "/home/me/.config/opencode/opencode.json",
        "/Users/me/.config/opencode/opencode.json",
        "C:\\Users\\me\\.config\\opencode\\opencode.json",
    ),
    "copilot": (
        "/home/me/.copilot/mcp-config.json",
        "/Users/me/.copilot/mcp-config.json",
        "C:\\Users\\me\\.copilot\\mcp-config.json",
    ),
    "windsurf": (
        "/home/me/.codeium/windsurf/mcp_config.json",
        "/Users/me/.codeium/windsurf/mcp_config.json",
        "C:\\Users\\me\\.codeium\\windsurf\\mcp_config.json",
    ),
    "zed": (
        "/home/me/.config/zed/settings.json",
        "/Users/me/.config/zed/settings.json",
        "C:\\Users\\me\\AppData\\Roaming\\Zed\\settings.json",
    ),
}
PROJECTS = {
    "claude-code": "/code/p/.mcp.json",
    "codex": "/code/p/.codex/config.toml",
    "cursor": "/code/p/.cursor/mcp.json",
    "vscode": "/code/p/.vscode/mcp.json",
    "gemini": "/code/p/.gemini/settings.json",
    "opencode": "/code/p/opencode.json",
    "copilot": "/code/p/.mcp.json",
    "zed": "/code/p/.zed/settings.json",
}
COMMAND = Server("/opt/memory-mcp", ("serve",), {"MEMORY_MCP_STORAGE__DATA_DIR": "/data"})
REMOTE = Server(url="http://127.0.0.1:8767/mcp", token="t0ken")
BEARER = {"Authorization": "Bearer t0ken"}
#: As `mcp add` of the client writes it, or as its documentation shows it.
LOCAL = {"command": "/opt/memory-mcp", "args": ["serve"], "env": {"MEMORY_MCP_STORAGE__DATA_DIR": "/data"}}
WRITTEN = {
    "claude-code": ({"type": "stdio", **LOCAL}, {"type": "http", "url": REMOTE.url, "headers": BEARER}),
    "claude-desktop": (LOCAL, None),
    "codex": (LOCAL, {"url": REMOTE.url, "http_headers": BEARER}),
    "cursor": (LOCAL, {"url": REMOTE.url, "headers": BEARER}),
    "vscode": ({"type": "stdio", **LOCAL}, {"type": "http", "url": REMOTE.url, "headers": BEARER}),
    "gemini": (LOCAL, {"url": REMOTE.url, "type": "http", "headers": BEARER}),
    "opencode": (
        {"type": "local", "command": ["/opt/memory-mcp", "serve"], "enabled": True, "environment": LOCAL["env"]},
        {"type": "remote", "url": REMOTE.url, "headers": BEARER, "oauth": False, "enabled": True},
    ),
    "copilot": (
        {"tools": ["*"], "type": "local", **LOCAL},
        {"tools": ["*"], "type": "http", "url": REMOTE.url, "headers": BEARER},
    ),
    "windsurf": (LOCAL, {"serverUrl": REMOTE.url, "headers": BEARER}),
    "zed": (LOCAL, {"url": REMOTE.url, "headers": BEARER}),
}
by_name = pytest.mark.parametrize("client", CLIENTS.values(), ids=lambda client: client.name)


@by_name
def test_a_client_keeps_its_files_where_it_looks_for_them(client: Client) -> None:
    found = tuple(str(client.list_configs(place, Level.USER)[0]) for place in (LINUX, MAC, WINDOWS))
    assert found == FILES[client.name]
    assert [str(path) for path in client.list_configs(LINUX, Level.PROJECT)[:1]] == [*filter(None, [PROJECTS.get(client.name)])]
    if not client.list_configs(LINUX, Level.PROJECT):
        with pytest.raises(InstallRefused, match="no configuration for one project"):
            client.choose_config(LINUX, Level.PROJECT)


@pytest.mark.parametrize(
    ("name", "environ", "path"),
    [
        ("claude-code", {"CLAUDE_CONFIG_DIR": "/c"}, "/c/.claude.json"),
        ("codex", {"CODEX_HOME": "/c"}, "/c/config.toml"),
        ("codex", {"CODEX_HOME": "relative"}, "/home/me/.codex/config.toml"),
        ("copilot", {"COPILOT_HOME": "/c"}, "/c/mcp-config.json"),
        ("gemini", {"GEMINI_CLI_HOME": "/c"}, "/c/.gemini/settings.json"),
        ("opencode", {"XDG_CONFIG_HOME": "/c"}, "/c/opencode/opencode.json"),
        ("zed", {"XDG_CONFIG_HOME": "/c"}, "/c/zed/settings.json"),
        ("vscode", {"XDG_CONFIG_HOME": "/c"}, "/c/Code/User/mcp.json"),
    ],
)
def test_the_environment_may_name_another_place(name: str, environ: dict[str, str], path: str) -> None:
    assert str(CLIENTS[name].list_configs(Environment("linux", environ, "/home/me", "/p"), Level.USER)[0]) == path


@by_name
def test_a_client_writes_a_server_in_its_own_way(client: Client) -> None:
    command, remote = WRITTEN[client.name]
    assert client.make_entry(COMMAND, Level.USER) == command
    assert client.takes_addresses is (remote is not None)
    if remote is None:
        with pytest.raises(InstallRefused, match="takes no addresses"):
            client.list_edits(Order(LINUX, REMOTE))
    else:
        assert client.make_entry(REMOTE, Level.USER) == remote
    assert starts_us(client.make_entry(COMMAND, Level.PROJECT if client.name in PROJECTS else Level.USER))
    if client.name == "copilot":
        # Two clients of one file write the same.
        assert client.make_entry(COMMAND, Level.PROJECT) == CLIENTS["claude-code"].make_entry(COMMAND, Level.PROJECT)


@by_name
def test_what_a_client_is_told_can_be_pasted(client: Client) -> None:
    entry = client.make_entry(COMMAND, Level.USER)
    if client.format is Format.TOML:
        assert tomllib.loads(toml.block((*client.keys, "memory"), entry)) == {"mcp_servers": {"memory": entry}}
    else:
        assert json.loads(json.dumps(entry)) == entry


def test_the_hooks_are_those_that_are_shown() -> None:
    page = (ROOT / "docs" / "recording.md").read_text(encoding="utf-8")
    shown = json.loads(page.split("<!-- hooks -->")[1].split("<!-- /hooks -->")[0].split("```json")[1].split("```")[0])
    assert tuple(shown["hooks"]) == CLAUDE_CODE_EVENTS
    assert all(runs_our_hook(items, "claude-code") for items in shown["hooks"].values())


def test_the_command_is_there() -> None:
    command, first = executable()
    assert command.startswith("/")
    assert first == []


OURS = [
    {"command": "memory-mcp", "args": ["serve"]},
    {"command": "memory-mcp"},
    {"command": "/opt/x y/memory-mcp", "args": ["--data-dir", "/d", "serve"]},
    {"command": "C:\\Users\\me\\memory-mcp.exe", "args": ["serve"]},
    {"command": "/usr/bin/python3", "args": ["-m", "memory_mcp", "serve"]},
    {"command": "uvx", "args": ["--from", "memory-mcp-tree", "memory-mcp", "serve"]},
    {"type": "local", "command": ["/opt/memory-mcp", "serve"]},
    {"command": {"path": "/opt/memory-mcp", "args": ["serve"]}},
]
#: What somebody else's package would be started by.
STRANGERS = ["memory-mcp", "serve"]
OTHERS = [
    {"command": "npx", "args": ["-y", "@modelcontextprotocol/server-memory"]},
    {"command": "npx", "args": ["memory-mcp"]},
    {"command": "uvx", "args": STRANGERS},
    {"command": "memory-mcp-server", "args": ["serve"]},
    {"command": "node", "args": ["/code/memory-mcp/index.js", "serve"]},
    {"command": "memory-mcp", "args": ["--sqlite", "x.db"]},
    {"url": "https://example.com/memory-mcp"},
    {"command": None},
    "memory-mcp",
    None,
]


@pytest.mark.parametrize(("entry", "ours"), [*((e, True) for e in OURS), *((e, False) for e in OTHERS)])
def test_servers_of_ours_are_known_from_others(entry: object, ours: bool) -> None:
    assert starts_us(entry) is ours


@pytest.mark.parametrize(
    ("line", "ours"),
    [
        ("memory-mcp hook claude-code", True),
        ("'/opt/x y/memory-mcp' hook claude-code --data-dir /d", True),
        ('"C:/x y/memory-mcp.exe" hook claude-code', True),
        ("/usr/bin/python3 -m memory_mcp hook claude-code", True),
        ("command -v memory-mcp >/dev/null && memory-mcp hook claude-code", True),
        ("memory-mcp hook json", False),
        ("other-memory-mcp-hook hook claude-code", False),
        ("say hook claude-code", False),
    ],
)
def test_hooks_of_ours_are_known_from_others(line: str, ours: bool) -> None:
    assert is_our_hook({"type": "command", "command": line}, "claude-code") is ours
    assert runs_our_hook([{"matcher": "", "hooks": [{"command": "x"}, {"command": line}]}], "claude-code") is ours


@pytest.mark.parametrize(
    ("platform", "words", "line"),
    [
        ("linux", ["/opt/x y/m", "hook", 'a"b'], "'/opt/x y/m' hook 'a\"b'"),
        ("win32", ["C:\\x y\\m.exe", "hook", "plain"], '"C:/x y/m.exe" hook plain'),
    ],
)
def test_a_shell_line_is_quoted_as_its_shell_wants(platform: str, words: list[str], line: str) -> None:
    assert shell_line(words, platform) == line
