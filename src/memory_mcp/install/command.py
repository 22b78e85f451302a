"""How clients start this program: its command, server entry and hook line. Standard library only."""

import itertools
import os
import re
import shlex
import shutil
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from memory_mcp import paths

NAME = "memory"
DATA_DIR = paths.PREFIX + "STORAGE__DATA_DIR"
CONFIG = paths.PREFIX + "CONFIG"
#: A word of a command line that starts this program: the command by any path, or the module behind "-m".
_OURS = re.compile(r"(?:^|[\\/\"'\s])memory-mcp(?:\.exe|\.cmd)?(?=$|[\"'\s])|(?:^|\s)memory_mcp(?=$|\s)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Server:
    """A server for a client's configuration: a command, or an address with a token."""

    command: str = ""
    args: tuple[str, ...] = ()
    env: dict[str, str] = field(default_factory=dict)
    url: str = ""
    token: str = field(default="", repr=False)

    @property
    def headers(self) -> dict[str, str]:
        """The HTTP headers of every request."""
        return {"Authorization": f"Bearer {self.token}"}


def executable() -> tuple[str, list[str]]:
    """Return the absolute path of the command, and the arguments that must come first."""
    for place in (Path(sys.argv[0]), Path(sys.executable).with_name("memory-mcp"), Path(shutil.which("memory-mcp") or "")):
        if place.name.startswith("memory-mcp") and place.is_file():
            return str(place.absolute()), []
    return str(Path(sys.executable).absolute()), ["-m", "memory_mcp"]


def local_server(data_dir: Path | None, config: Path | None = None) -> Server:
    """Return our stdio server, with its data directory and settings file where they are not the defaults."""
    command, first = executable()
    told = {DATA_DIR: data_dir, CONFIG: config}
    return Server(command, (*first, "serve"), {name: str(path.absolute()) for name, path in told.items() if path is not None})


def client_config(data_dir: Path | None) -> dict[str, Any]:
    """Return the `mcpServers` object that most clients read."""
    server = local_server(data_dir)
    shown: dict[str, Any] = {"command": server.command, "args": list(server.args)}
    return {"mcpServers": {NAME: shown | ({"env": server.env} if server.env else {})}}


def claude_line(data_dir: Path | None) -> str:
    """Return the shell line that adds the server to Claude Code."""
    server = local_server(data_dir)
    settings = [part for name, value in server.env.items() for part in ("-e", f"{name}={value}")]
    return shlex.join(["claude", "mcp", "add", NAME, *settings, "--", server.command, *server.args])


def hook_line(client: str, data_dir: Path | None, config: Path | None, platform: str) -> str:
    """Return the line that a client's shell runs for each event."""
    return shell_line(hook_words(client, data_dir, config), platform)


def hook_words(client: str, data_dir: Path | None, config: Path | None) -> list[str]:
    """Return the hook command as a program and its arguments."""
    command, first = executable()
    words = [command, *first, "hook", client]
    for option, path in (("--data-dir", data_dir), ("--config", config)):
        words += [option, str(path.absolute())] if path is not None else []
    return words


def shell_line(words: list[str], platform: str) -> str:
    """Return words as a shell line; on Windows one that bash, which drops backslashes, and cmd both read."""
    if platform != "win32":
        return shlex.join(words)
    plain = [word.replace("\\", "/") for word in words]
    return " ".join(word if re.fullmatch(r"[\w./:=-]+", word) else f'"{word}"' for word in plain)


def starts_us(entry: object) -> bool:
    """Whether a server's entry in any client's configuration starts this program."""
    words = _words(entry)
    if not words or (len(words) > 1 and "serve" not in words):
        return False
    # Another program's package is named memory-mcp too: as an argument the name counts only behind -m or --from.
    behind = [word for before, word in itertools.pairwise(words) if before == "-m" or "--from" in words]
    return bool(_OURS.search(words[0])) or "memory_mcp" in behind or "memory-mcp" in behind


def _words(entry: object) -> list[str]:
    """Return the command and arguments of an entry, in any client's format."""
    if not isinstance(entry, dict):
        return []
    inner = entry.get("command")
    told, args = (inner.get("path"), inner.get("args")) if isinstance(inner, dict) else (inner, entry.get("args"))
    words = [told] if isinstance(told, str) else told if isinstance(told, list) else []
    return [word for word in [*words, *(args if isinstance(args, list) else [])] if isinstance(word, str)]


def brought_up(there: dict[str, Any], entry: dict[str, Any]) -> dict[str, Any]:
    """Return `entry` merged into an existing one of ours, keeping keys, environment and arguments that its user added."""
    if not starts_us(entry):
        return entry
    environments = {
        key: {**there.get(key, {}), **entry.get(key, {})} for key in ("env", "environment") if there.get(key) or entry.get(key)
    }
    told = {**there, **entry, **environments}
    command = entry["command"]
    if isinstance(command, list):
        told["command"] = command[:1] + _arguments(_words(there), command[1:])
    else:
        told["args"] = _arguments(_words(there), entry["args"])
    return told


def _arguments(there: list[str], ours: list[str]) -> list[str]:
    """Return the arguments of `there` that follow our command, behind the arguments before "serve" in `ours`."""
    starter = next(i for i, word in enumerate(there) if _OURS.search(word))
    kept = there[starter + 1 :]
    return ours[: ours.index("serve")] + kept if "serve" in kept else ours


def told_paths(there: object) -> dict[str, Path]:
    """Return the data directory and settings file in an entry's environment, by variable name."""
    if not isinstance(there, dict):
        return {}
    environ = {**(there.get("env") or {}), **(there.get("environment") or {})}
    return {name: Path(environ[name]) for name in (DATA_DIR, CONFIG) if isinstance(environ.get(name), str)}


def runs_our_hook(item: object, client: str) -> bool:
    """Whether a hook's entry, or one inside it, runs our hook for `client`."""
    if isinstance(item, list):
        return any(runs_our_hook(one, client) for one in item)
    if isinstance(item, dict):
        return is_our_hook(item, client) or any(runs_our_hook(one, client) for one in item.values() if isinstance(one, list))
    return False


def is_our_hook(item: object, client: str) -> bool:
    """Whether a hook's entry itself runs this program for `client`."""
    line = item.get("command") if isinstance(item, dict) else None
    return isinstance(line, str) and bool(_OURS.search(line)) and f" hook {client}" in " ".join(line.split()).replace('"', "")


def command_of(entry: dict[str, Any]) -> str:
    """Return the program that a server's entry starts; "" where it starts none."""
    return next(iter(_words(entry) if entry.get("command") else []), "")


def found(command: str) -> str:
    """Return the executable of a command's name or path; "" where there is none."""
    if "/" in command or "\\" in command:
        return command if Path(command).is_file() and os.access(command, os.X_OK) else ""
    return shutil.which(command) or ""
