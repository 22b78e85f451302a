"""The clients: what their user has set up, how they say which servers they have, how they take one prompt without a terminal."""

import json
import subprocess
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar

from tests.acceptance.clients.machine import Machine

_LOOKS = 3


class Driven(ABC):
    """One client on a machine, asked by a script and answered by a scripted model."""

    name: ClassVar[str]
    package: ClassVar[str]
    command: ClassVar[str]
    #: What of its list of servers says that ours is connected.
    connected: ClassVar[str]
    #: Words of its own that a person sets or answers before the first session.
    environ: ClassVar[dict[str, str]] = {}

    def __init__(self, machine: Machine, address: str) -> None:
        self.machine = machine
        machine.environ = {name: value.format(address=address) for name, value in self.environ.items()}
        self.set_up(address)

    @abstractmethod
    def set_up(self, address: str) -> None:
        """What its user has before this program comes: a login, a model."""

    @abstractmethod
    def listed(self) -> Sequence[str]:
        """The words that list its servers."""

    @abstractmethod
    def asked(self, prompt: str) -> Sequence[str]:
        """The words that ask it in a session of its own."""

    def review(self) -> None:
        """What its user does once after `install`: mostly nothing."""
        return

    def version(self) -> str:
        """As it says itself."""
        return self.machine.run(self.command, "--version").stdout.strip()

    def servers(self) -> str:
        """The line about ours in its list of servers; the whole list when ours is not connected.

        The first connection of all starts the background process. Gemini CLI waits five seconds for it, which a machine that
        is busy with something else may take: then the list is looked at again.
        """
        for _ in range(_LOOKS):
            done = self.machine.run(self.command, *self.listed())
            told = done.stdout + done.stderr
            if found := [line.strip() for line in told.splitlines() if "memory" in line and self.connected in line]:
                return found[0]
        return told

    def ask(self, prompt: str) -> str:
        """One session with one prompt; what it printed."""
        done = self.machine.run(self.command, *self.asked(prompt))
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout + done.stderr


class ClaudeCode(Driven):
    """Anthropic's."""

    name, package, command, connected = "claude-code", "@anthropic-ai/claude-code", "claude", "✔ Connected"
    environ: ClassVar[dict[str, str]] = {
        "ANTHROPIC_BASE_URL": "{address}",
        "ANTHROPIC_API_KEY": "any",
        # Otherwise the tools of servers are offered only after the model has looked for them.
        "ENABLE_TOOL_SEARCH": "false",
        "DISABLE_AUTOUPDATER": "1",
        "DISABLE_TELEMETRY": "1",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    }

    def set_up(self, address: str) -> None:
        """Nothing: its user's key is in the environment."""

    def listed(self) -> Sequence[str]:
        """See `Driven`."""
        return ("mcp", "list")

    def asked(self, prompt: str) -> Sequence[str]:
        """With leave for the tools of our server, which a person gives when first asked."""
        return ("-p", prompt, "--model", "claude-sonnet-4-5", "--allowedTools", "mcp__memory", "mcp__plugin_memory_memory")


class Codex(Driven):
    """OpenAI's. Its list says of a server that it is switched on: it tries none."""

    name, package, command, connected = "codex", "@openai/codex", "codex", "enabled"

    def set_up(self, address: str) -> None:
        """A provider, with which there is no login."""
        folder = self.machine.home / ".codex"
        folder.mkdir()
        table = f'[model_providers.scripted]\nname = "scripted"\nbase_url = "{address}/v1"\nwire_api = "responses"\n'
        (folder / "config.toml").write_text(f'model = "scripted"\nmodel_provider = "scripted"\n\n{table}', encoding="utf-8")

    def listed(self) -> Sequence[str]:
        """See `Driven`."""
        return ("mcp", "list")

    def review(self) -> None:
        """The hooks are looked at and trusted, as in a terminal by /hooks: the same requests to its own server."""
        with self.machine.start(self.command, "app-server") as server:
            self._request(server, "initialize", {"clientInfo": {"name": "review", "title": "review", "version": "1"}})
            listed = self._request(server, "hooks/list", {"cwds": [str(self.machine.project)]})
            hooks = [hook for entry in listed["data"] for hook in entry["hooks"]]
            assert {hook["trustStatus"] for hook in hooks} == {"untrusted"}
            state = {hook["key"]: {"trusted_hash": hook["currentHash"]} for hook in hooks}
            edit = {"keyPath": "hooks.state", "value": state, "mergeStrategy": "upsert"}
            self._request(server, "config/batchWrite", {"edits": [edit]})
            server.terminate()

    @staticmethod
    def _request(server: "subprocess.Popen[str]", method: str, params: dict[str, Any]) -> dict[str, Any]:
        assert server.stdin is not None
        assert server.stdout is not None
        server.stdin.write(json.dumps({"id": method, "method": method, "params": params}) + "\n")
        server.stdin.flush()
        for line in server.stdout:
            message = json.loads(line)
            if message.get("id") == method:
                found: dict[str, Any] = message["result"]
                return found
        raise AssertionError(f"no answer to {method}")

    def asked(self, prompt: str) -> Sequence[str]:
        """Without a terminal the first request to the model goes out before servers have answered, unless one is waited for."""
        return ("exec", "--skip-git-repo-check", "-c", "mcp_servers.memory.required=true", prompt)


class Gemini(Driven):
    """Google's."""

    name, package, command, connected = "gemini", "@google/gemini-cli", "gemini", "Connected"
    environ: ClassVar[dict[str, str]] = {
        "GOOGLE_GEMINI_BASE_URL": "{address}",
        "GEMINI_API_KEY": "any",
        # A person is asked once whether the folder is to be trusted; in others no server is started.
        "GEMINI_CLI_TRUST_WORKSPACE": "true",
    }

    def set_up(self, address: str) -> None:
        """How its user logs in."""
        folder = self.machine.home / ".gemini"
        folder.mkdir()
        settings = {"security": {"auth": {"selectedType": "gemini-api-key"}}, "privacy": {"usageStatisticsEnabled": False}}
        (folder / "settings.json").write_text(json.dumps(settings, indent=2), encoding="utf-8")

    def listed(self) -> Sequence[str]:
        """See `Driven`."""
        return ("mcp", "list")

    def asked(self, prompt: str) -> Sequence[str]:
        """With a model of its own, since another one would be asked which, and with leave for tools."""
        return ("-y", "-m", "gemini-2.5-flash", "-p", prompt)


class Opencode(Driven):
    """The open one."""

    name, package, command, connected = "opencode", "opencode-ai", "opencode", "connected"

    def set_up(self, address: str) -> None:
        """A provider with a model."""
        folder = self.machine.home / ".config/opencode"
        folder.mkdir(parents=True)
        model = {"name": "one", "tool_call": True, "limit": {"context": 100_000, "output": 4_000}}
        options = {"baseURL": f"{address}/v1", "apiKey": "any"}
        scripted = {"npm": "@ai-sdk/openai-compatible", "name": "scripted", "options": options, "models": {"one": model}}
        settings = {
            "model": "scripted/one",
            "small_model": "scripted/one",
            "autoupdate": False,
            "provider": {"scripted": scripted},
        }
        (folder / "opencode.json").write_text(json.dumps(settings, indent=2), encoding="utf-8")

    def listed(self) -> Sequence[str]:
        """See `Driven`."""
        return ("mcp", "list")

    def asked(self, prompt: str) -> Sequence[str]:
        """See `Driven`."""
        return ("run", prompt)


CLIENTS: tuple[type[Driven], ...] = (ClaudeCode, Codex, Gemini, Opencode)
