"""The clients: where each has its files, what is in them, and how it records its sessions.

Methods without a docstring have the contract of `Client`.

Change here: install into another client, or another hook or file of one.
"""

import json
import os
from collections.abc import Sequence
from importlib import resources
from pathlib import Path, PurePath
from typing import Any

from memory_mcp.install import plugins
from memory_mcp.install.base import (
    CLAUDE_CODE_EVENTS,
    CODEX_EVENTS,
    GEMINI_EVENTS,
    AddItem,
    Client,
    Edit,
    Environment,
    Format,
    Level,
    Order,
    PlaceFile,
    Plugin,
    local,
)
from memory_mcp.install.command import Server, hook_words, runs_our_hook

#: The line of opencode's plugin that names the command.
_PLUGIN_COMMAND = 'const COMMAND = ["memory-mcp", "hook", "opencode"]'


class ClaudeCode(Client):
    """Anthropic's command line client.

    A plugin brings server and hooks; settings of the user, the project and this machine switch it on and off.
    """

    name = "claude-code"
    title = "Claude Code"
    commands = ("claude",)
    address_type, command_type = "http", "stdio"
    hook_client = "claude-code"
    then = "start a new session"
    plugin_removal = "claude plugin uninstall"

    def list_folders(self, environment: Environment) -> Sequence[PurePath]:
        return (_claude_code_home(environment), *self.list_configs(environment, Level.USER))

    def list_configs(self, environment: Environment, level: Level) -> Sequence[PurePath]:
        if level is Level.PROJECT:
            return [environment.in_project(".mcp.json")]
        inside = environment.environ.get("CLAUDE_CONFIG_DIR")
        return [_claude_code_home(environment) / ".claude.json" if inside else environment.at_home(".claude.json")]

    def server_keys(self, environment: Environment) -> Sequence[tuple[str, ...]]:
        return [self.keys, ("projects", environment.cwd, *self.keys)]

    def list_hook_edits(self, order: Order) -> Sequence[Edit]:
        inside = order.environment.in_project(".claude", "settings.local.json")
        file = _claude_code_home(order.environment) / "settings.json" if order.level is Level.USER else inside
        return self.hook_items(order, file, CLAUDE_CODE_EVENTS)

    def find_plugins(self, environment: Environment) -> Sequence[Plugin]:
        inside = [environment.in_project(".claude", name) for name in ("settings.json", "settings.local.json")]
        states = plugins.read_states([_claude_code_home(environment) / "settings.json", *inside], ("enabledPlugins",))
        return plugins.find_cached_plugins(states, _claude_code_home(environment) / "plugins" / "cache")


def _claude_code_home(environment: Environment) -> PurePath:
    return environment.find_folder("CLAUDE_CONFIG_DIR", ".claude")


class ClaudeDesktop(Client):
    """Anthropic's desktop client, for programs that it starts itself alone."""

    name = "claude-desktop"
    title = "Claude Desktop"
    takes_addresses = False
    then = "quit it from its menu and start it again"
    plugin_removal = "in its settings, below Extensions:"

    def list_folders(self, environment: Environment) -> Sequence[PurePath]:
        return [environment.app_folder("Claude")]

    def list_configs(self, environment: Environment, level: Level) -> Sequence[PurePath]:
        return [environment.app_folder("Claude") / "claude_desktop_config.json"] if level is Level.USER else []

    def find_plugins(self, environment: Environment) -> Sequence[Plugin]:
        folder = environment.app_folder("Claude")
        return plugins.bundles(folder / "Claude Extensions", folder / "Claude Extensions Settings")


class Codex(Client):
    """OpenAI's command line client.

    A project's own files count if the user trusts the project, and hooks run once the user has looked at them.
    """

    name = "codex"
    title = "Codex"
    commands = ("codex",)
    format = Format.TOML
    keys = ("mcp_servers",)
    headers_key = "http_headers"
    hook_client = "codex"
    then = (
        "start a new session, and there /hooks to review and trust the hooks: until then nothing is recorded"
        " (meanwhile: memory-mcp watch on codex)"
    )
    trust = "/hooks"
    plugin_removal = "codex plugin remove"

    def list_folders(self, environment: Environment) -> Sequence[PurePath]:
        return [environment.find_folder("CODEX_HOME", ".codex")]

    def list_configs(self, environment: Environment, level: Level) -> Sequence[PurePath]:
        home = environment.find_folder("CODEX_HOME", ".codex") if level is Level.USER else environment.in_project(".codex")
        return [home / "config.toml"]

    def list_hook_edits(self, order: Order) -> Sequence[Edit]:
        file = self.list_configs(order.environment, order.level)[0].with_name("hooks.json")
        return self.hook_items(order, file, CODEX_EVENTS)

    def find_plugins(self, environment: Environment) -> Sequence[Plugin]:
        settings = [file for level in Level for file in self.list_configs(environment, level)]
        states = plugins.read_states(settings, ("plugins",), self.format)
        return plugins.find_cached_plugins(states, settings[0].parent / "plugins" / "cache")

    def count_untrusted(self, environment: Environment, level: str) -> int:
        state = plugins.read_mapping(Path(self.list_configs(environment, Level.USER)[0]), ("hooks", "state"), self.format)
        trusted = {_event_key(key) for key, member in state.items() if isinstance(member, dict) and member.get("trusted_hash")}
        if level in list(Level):
            keys = {f"{edit.path}:{_snake(edit.keys[-1])}" for edit in self._list_written(environment, Level(level))}
        else:
            events = [
                (plugin.name, event)
                for plugin in self.find_plugins(environment)
                for event in plugin.events.intersection(CODEX_EVENTS)
            ]
            keys = {f"{name}:hooks/hooks.json:{_snake(event)}" for name, event in events}
        return len({_event_key(key) for key in keys} - trusted)

    def _list_written(self, environment: Environment, level: Level) -> list[AddItem]:
        edits = [edit for edit in self.list_hook_edits(Order(environment, Server(), level)) if isinstance(edit, AddItem)]
        events = plugins.read_mapping(Path(edits[0].path), edits[0].keys[:-1])
        return [edit for edit in edits if runs_our_hook(events.get(edit.keys[-1]), self.hook_client)]


def _event_key(key: str) -> str:
    path, _, position = key.rpartition(".json:")
    plain = path if "@" in path.partition(":")[0] else os.path.realpath(path)
    return f"{plain}:{position.partition(':')[0]}"


def _snake(event: str) -> str:
    return "".join(f"_{c.lower()}" if c.isupper() and i else c.lower() for i, c in enumerate(event))


class Cursor(Client):
    """The editor and its command line client."""

    name = "cursor"
    title = "Cursor"
    commands = ("cursor", "cursor-agent")
    then = "restart it; the server is listed in its settings under MCP"

    def list_folders(self, environment: Environment) -> Sequence[PurePath]:
        return [environment.at_home(".cursor"), environment.app_folder("Cursor")]

    def list_configs(self, environment: Environment, level: Level) -> Sequence[PurePath]:
        folder = environment.at_home(".cursor") if level is Level.USER else environment.in_project(".cursor")
        return [folder / "mcp.json"]


_VSCODE_EDITIONS = ("Code", "Code - Insiders", "VSCodium")


class VSCode(Client):
    """Microsoft's editor, for Copilot's agent mode."""

    name = "vscode"
    title = "VS Code"
    commands = ("code", "code-insiders", "codium")
    keys = ("servers",)
    address_type, command_type = "http", "stdio"
    then = "reload its window, then start the server from the list MCP: List Servers"

    def list_folders(self, environment: Environment) -> Sequence[PurePath]:
        return [environment.app_folder(edition) for edition in _VSCODE_EDITIONS]

    def list_configs(self, environment: Environment, level: Level) -> Sequence[PurePath]:
        if level is Level.PROJECT:
            return [environment.in_project(".vscode", "mcp.json")]
        return [environment.app_folder(edition) / "User" / "mcp.json" for edition in _VSCODE_EDITIONS]


class Gemini(Client):
    """Google's command line client."""

    name = "gemini"
    title = "Gemini CLI"
    commands = ("gemini",)
    hook_client = "gemini"
    then = "start a new session, in a folder that you trust: in others it starts no server"

    def list_folders(self, environment: Environment) -> Sequence[PurePath]:
        return [_gemini_home(environment)]

    def list_configs(self, environment: Environment, level: Level) -> Sequence[PurePath]:
        return [(_gemini_home(environment) if level is Level.USER else environment.in_project(".gemini")) / "settings.json"]

    def make_entry(self, server: Server, level: Level) -> dict[str, Any]:
        del level
        return {"url": server.url, "type": "http", "headers": server.headers} if server.url else local(server)

    def list_hook_edits(self, order: Order) -> Sequence[Edit]:
        return self.hook_items(order, self.list_configs(order.environment, order.level)[0], GEMINI_EVENTS)


def _gemini_home(environment: Environment) -> PurePath:
    return environment.find_folder("GEMINI_CLI_HOME") / ".gemini"


#: Both are read, the second last.
_OPENCODE_FILES = ("opencode.json", "opencode.jsonc")


class OpenCode(Client):
    """The open command line client, whose plugin records sessions."""

    name = "opencode"
    title = "opencode"
    commands = ("opencode",)
    keys = ("mcp",)
    hook_client = "opencode"
    then = "start a new session"

    def list_folders(self, environment: Environment) -> Sequence[PurePath]:
        return [_opencode_home(environment), environment.find_folder("XDG_DATA_HOME", ".local", "share") / "opencode"]

    def list_configs(self, environment: Environment, level: Level) -> Sequence[PurePath]:
        folder = _opencode_home(environment) if level is Level.USER else environment.make_path(environment.cwd)
        return [folder / name for name in _OPENCODE_FILES]

    def make_entry(self, server: Server, level: Level) -> dict[str, Any]:
        del level
        if server.url:
            return {"type": "remote", "url": server.url, "headers": server.headers, "oauth": False, "enabled": True}
        fields: dict[str, Any] = {"type": "local", "command": [server.command, *server.args], "enabled": True}
        return fields | ({"environment": dict(server.env)} if server.env else {})

    def list_hook_edits(self, order: Order) -> Sequence[Edit]:
        folder = _opencode_home(order.environment) if order.level is Level.USER else order.environment.in_project(".opencode")
        # The packaged text with the hook command of this machine put in.
        text = resources.files("memory_mcp.install").joinpath("opencode_plugin.js").read_text(encoding="utf-8")
        words = json.dumps(hook_words("opencode", order.data_dir, order.config))
        return [PlaceFile(folder / "plugins" / "memory-mcp.js", text.replace(_PLUGIN_COMMAND, f"const COMMAND = {words}"))]


def _opencode_home(environment: Environment) -> PurePath:
    return environment.find_folder("XDG_CONFIG_HOME", ".config") / "opencode"


_COPILOT_TOOLS = ["*"]


class Copilot(Client):
    """GitHub's command line client."""

    name = "copilot"
    title = "Copilot CLI"
    commands = ("copilot",)
    then = "start a new session"
    plugin_removal = "copilot plugin uninstall"

    def list_folders(self, environment: Environment) -> Sequence[PurePath]:
        return [environment.find_folder("COPILOT_HOME", ".copilot")]

    def list_configs(self, environment: Environment, level: Level) -> Sequence[PurePath]:
        home = environment.find_folder("COPILOT_HOME", ".copilot")
        return [home / "mcp-config.json"] if level is Level.USER else [environment.in_project(".mcp.json")]

    def make_entry(self, server: Server, level: Level) -> dict[str, Any]:
        if level is Level.PROJECT:
            return local(server, type="stdio")
        if server.url:
            return {"tools": _COPILOT_TOOLS, "type": "http", "url": server.url, "headers": server.headers}
        return local(server, tools=_COPILOT_TOOLS, type="local")

    def find_plugins(self, environment: Environment) -> Sequence[Plugin]:
        home = environment.find_folder("COPILOT_HOME", ".copilot")
        return plugins.find_unpacked_plugins(home / "installed-plugins", home / "settings.json")


class Windsurf(Client):
    """The editor and its agent Cascade, for all projects."""

    name = "windsurf"
    title = "Windsurf"
    commands = ("windsurf",)
    address_key = "serverUrl"
    then = "press Refresh in the list of MCP servers of Cascade"

    def list_folders(self, environment: Environment) -> Sequence[PurePath]:
        return [environment.at_home(".codeium", "windsurf"), environment.app_folder("Windsurf")]

    def list_configs(self, environment: Environment, level: Level) -> Sequence[PurePath]:
        return [environment.at_home(".codeium", "windsurf", "mcp_config.json")] if level is Level.USER else []


class Zed(Client):
    """The editor, whose settings have comments and trailing commas."""

    name = "zed"
    title = "Zed"
    commands = ("zed", "zeditor", "zedit")
    keys = ("context_servers",)
    then = "open the settings of its agent panel: the server is listed there"

    def list_folders(self, environment: Environment) -> Sequence[PurePath]:
        return [_zed_home(environment)]

    def list_configs(self, environment: Environment, level: Level) -> Sequence[PurePath]:
        return [(_zed_home(environment) if level is Level.USER else environment.in_project(".zed")) / "settings.json"]


def _zed_home(environment: Environment) -> PurePath:
    if environment.platform == "win32":
        return environment.find_folder("APPDATA", "AppData", "Roaming") / "Zed"
    if environment.platform == "linux":
        return environment.find_folder("XDG_CONFIG_HOME", ".config") / "zed"
    return environment.at_home(".config", "zed")


#: In the order in which they are shown.
CLIENTS: dict[str, Client] = {
    client.name: client
    for client in (
        ClaudeCode(),
        ClaudeDesktop(),
        Codex(),
        Cursor(),
        VSCode(),
        Gemini(),
        OpenCode(),
        Copilot(),
        Windsurf(),
        Zed(),
    )
}
