"""The contract of a client: where its files are, what they hold, and which edits make it use this memory.

A client returns a list of edits; `engine.py` makes and records them, `undo.py` reverts them. One more file of a client, a
hook or a plugin, is one more edit in its list.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from enum import StrEnum
from pathlib import Path, PurePath, PurePosixPath, PureWindowsPath
from typing import Any, ClassVar

from memory_mcp.base.dataclass import dataclass
from memory_mcp.base.errors import InstallRefused
from memory_mcp.install.command import Server, hook_words, shell_line


class Level(StrEnum):
    """Whose configuration: the user's, or the working directory's project."""

    USER = "user"
    PROJECT = "project"


class Format(StrEnum):
    """How a file is written."""

    #: With or without comments and trailing commas.
    JSON = "json"
    TOML = "toml"


#: The events of Claude Code and Codex that are recorded, and that before a call, at which a hint may be given.
CLAUDE_CODE_EVENTS = (
    *("SessionStart", "UserPromptSubmit", "PreToolUse", "PostToolUse", "PostToolUseFailure", "Stop"),
    *("SubagentStart", "SubagentStop", "PreCompact", "PostCompact", "SessionEnd"),
)
#: Codex reports a failure as any other result.
CODEX_EVENTS = tuple(event for event in CLAUDE_CODE_EVENTS if event != "PostToolUseFailure")
GEMINI_EVENTS = ("SessionStart", "BeforeAgent", "AfterTool", "AfterAgent", "SessionEnd")
#: How long a client waits for our hook at most, seconds; Gemini CLI takes milliseconds.
_PATIENCE_S, _PATIENCE_MS = 10, 10_000


@dataclass(frozen=True, slots=True)
class Environment:
    """What paths depend on: platform, environment, home and working directory."""

    platform: str
    environ: Mapping[str, str]
    home: str
    cwd: str

    def make_path(self, *parts: str) -> PurePath:
        """Return the parts joined as a path of this platform."""
        return PureWindowsPath(*parts) if self.platform == "win32" else PurePosixPath(*parts)

    def at_home(self, *parts: str) -> PurePath:
        """Return the parts joined below the user's home."""
        return self.make_path(self.home, *parts)

    def in_project(self, *parts: str) -> PurePath:
        """Return the parts joined below the working directory."""
        return self.make_path(self.cwd, *parts)

    def find_folder(self, variable: str, *otherwise: str) -> PurePath:
        """Return the folder that a variable names, else `otherwise` at home."""
        value = self.environ.get(variable, "")
        return self.make_path(value) if value and self.make_path(value).is_absolute() else self.at_home(*otherwise)

    def app_folder(self, name: str) -> PurePath:
        """Return the configuration folder of a desktop program called `name`."""
        if self.platform == "win32":
            return self.find_folder("APPDATA", "AppData", "Roaming") / name
        if self.platform == "darwin":
            return self.at_home("Library", "Application Support", name)
        return self.find_folder("XDG_CONFIG_HOME", ".config") / name


@dataclass(frozen=True, slots=True)
class Order:
    """What to install, and where."""

    environment: Environment
    server: Server
    level: Level = Level.USER
    name: str = "memory"
    #: Passed to hooks where they are not the default: the data directory and the settings file.
    data_dir: Path | None = None
    config: Path | None = None
    hooks: bool = True


@dataclass(frozen=True, slots=True)
class SetKey:
    """One entry of a configuration file: `value` at the path `keys`."""

    path: PurePath
    format: Format
    keys: tuple[str, ...]
    value: Any
    #: Whether the entry is a server: another program's is not overwritten, and ours is not added under a second name.
    is_server: bool = False


@dataclass(frozen=True, slots=True)
class AddItem:
    """One more item of an array in a JSON file."""

    path: PurePath
    keys: tuple[str, ...]
    item: Any
    #: The client as the command `hook` calls it, by which our own are known.
    client: str


@dataclass(frozen=True, slots=True)
class PlaceFile:
    """A whole file of ours; another of that name is left alone."""

    path: PurePath
    text: str


Edit = SetKey | AddItem | PlaceFile


@dataclass(frozen=True, slots=True)
class Plugin:
    """An enabled plugin that starts this memory or runs hooks."""

    #: As its client lists it.
    name: str
    #: The file that switches it on.
    path: Path
    #: Its servers that start this memory, by their names.
    servers: Mapping[str, Mapping[str, Any]]
    #: Events whose hook is ours.
    events: frozenset[str]


class Client(ABC):
    """A program that can use this memory.

    To add one: a subclass and a line in clients.py.
    """

    #: Its name on the command line, and its title for people.
    name: ClassVar[str]
    title: ClassVar[str]
    #: Names by which it may be found on the PATH.
    commands: ClassVar[tuple[str, ...]] = ()
    format: ClassVar[Format] = Format.JSON
    #: The object of its configuration that holds servers by their names.
    keys: ClassVar[tuple[str, ...]] = ("mcpServers",)
    #: What an entry calls an address and its headers, and the kind that it names of an address and of a command; "" names none.
    address_key: ClassVar[str] = "url"
    headers_key: ClassVar[str] = "headers"
    address_type: ClassVar[str] = ""
    command_type: ClassVar[str] = ""
    #: The client as the command `hook` calls it, where its hooks are installed; else "".
    hook_client: ClassVar[str] = ""
    #: Whether its configuration takes servers by their address.
    takes_addresses: ClassVar[bool] = True
    #: The next step for its user.
    then: ClassVar[str] = ""
    #: Where its user trusts hooks, where the client asks for that.
    trust: ClassVar[str] = ""
    #: How its user takes out a plugin: a command before the plugin's name, or where to look.
    plugin_removal: ClassVar[str] = ""

    @abstractmethod
    def list_folders(self, environment: Environment) -> Sequence[PurePath]:
        """Return paths that exist once the client has been run."""

    @abstractmethod
    def list_configs(self, environment: Environment, level: Level) -> Sequence[PurePath]:
        """Return the files that may hold the client's servers, best first.

        Empty: it has no configuration at this level.
        """

    def server_keys(self, environment: Environment) -> Sequence[tuple[str, ...]]:
        """Return the key paths of the user's servers that this folder sees.

        An install writes below the first, `self.keys`; status and uninstall look below all.
        """
        del environment
        return [self.keys]

    def make_entry(self, server: Server, level: Level) -> dict[str, Any]:
        """Return the entry of a server in its configuration."""
        del level
        if server.url:
            kind = {"type": self.address_type} if self.address_type else {}
            return {**kind, self.address_key: server.url, self.headers_key: server.headers}
        return local(server, **({"type": self.command_type} if self.command_type else {}))

    def list_hook_edits(self, order: Order) -> Sequence[Edit]:
        """Return the edits that make the client record its sessions."""
        del order
        return ()

    def find_plugins(self, environment: Environment) -> Sequence[Plugin]:
        """Return the enabled plugins that bring this memory; reads files."""
        del environment
        return ()

    def count_untrusted(self, environment: Environment, level: str) -> int:
        """Return how many hooks of a level wait for trust."""
        del environment, level
        return 0

    def list_edits(self, order: Order) -> list[Edit]:
        """Return all edits of an order, the server's entry first.

        Raises InstallRefused for an address if the client takes none, and for a level without a configuration.
        """
        if order.server.url and not self.takes_addresses:
            raise InstallRefused(f"{self.title} takes no addresses in its configuration", "Leave --http out.")
        file = self.choose_config(order.environment, order.level)
        server = SetKey(file, self.format, (*self.keys, order.name), self.make_entry(order.server, order.level), is_server=True)
        return [server, *(self.list_hook_edits(order) if order.hooks else ())]

    def choose_config(self, environment: Environment, level: Level) -> PurePath:
        """Return the first existing file of `list_configs`, else the first.

        Raises InstallRefused if there is none at this level.
        """
        files = self.list_configs(environment, level)
        if not files:
            raise InstallRefused(f"{self.title} has no configuration for one project", "Leave --project out.")
        return next((file for file in files if Path(file).exists()), files[0])

    def hook_items(self, order: Order, file: PurePath, events: Sequence[str]) -> list[Edit]:
        """Return one edit per event that adds our hook."""
        line = shell_line(hook_words(self.hook_client, order.data_dir, order.config), order.environment.platform)
        patience = _PATIENCE_MS if self.hook_client == "gemini" else _PATIENCE_S
        item = {"hooks": [{"type": "command", "command": line, "timeout": patience}]}
        return [AddItem(file, ("hooks", event), item, self.hook_client) for event in events]


def local(server: Server, **more: Any) -> dict[str, Any]:
    """Return a command's entry as most clients write it."""
    fields = {**more, "command": server.command, "args": list(server.args)}
    return fields | ({"env": dict(server.env)} if server.env else {})
