"""How clients start this program: its command, server entry and hook line. Standard library only."""

import itertools
import os
import re
import shlex
import shutil
import sys
from dataclasses import field
from pathlib import Path
from typing import Any

from memory_mcp.base import paths
from memory_mcp.base.dataclass import dataclass

NAME = "memory"
DATA_DIR = paths.PREFIX + "STORAGE__DATA_DIR"
CONFIG = paths.PREFIX + "CONFIG"
#: A word of a command line that starts this program: the command by any path, or the module after "-m".
_OURS = re.compile(r"(?:^|[\\/\"'\s])memory-mcp(?:\.exe|\.cmd)?(?=$|[\"'\s])|(?:^|\s)memory_mcp(?=$|\s)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Server:
    """A server's entry: a command, or an address with a token."""

    command: str = ""
    args: tuple[str, ...] = ()
    env: dict[str, str] = field(default_factory=dict)
    url: str = ""
    token: str = field(default="", repr=False)

    @property
    def headers(self) -> dict[str, str]:
        """The Authorization header, also where the token is empty."""
        return {"Authorization": f"Bearer {self.token}"}


def executable() -> tuple[str, list[str]]:
    """Return a program that starts this command, and its first arguments.

    The running command, else one next to the interpreter, else one on PATH, else the interpreter with -m memory_mcp.
    """
    for program in (Path(sys.argv[0]), Path(sys.executable).with_name("memory-mcp"), Path(shutil.which("memory-mcp") or "")):
        if program.name.startswith("memory-mcp") and program.is_file():
            return str(program.absolute()), []
    return str(Path(sys.executable).absolute()), ["-m", "memory_mcp"]


def local_server(data_dir: Path | None, config: Path | None = None) -> Server:
    """Return our stdio server, with the paths in its environment."""
    command, first = executable()
    paths = {DATA_DIR: data_dir, CONFIG: config}
    return Server(command, (*first, "serve"), {name: str(path.absolute()) for name, path in paths.items() if path is not None})


def claude_line(data_dir: Path | None) -> str:
    """Return the shell line that adds our server to Claude Code."""
    server = local_server(data_dir)
    settings = [part for name, value in server.env.items() for part in ("-e", f"{name}={value}")]
    return shlex.join(["claude", "mcp", "add", NAME, *settings, "--", server.command, *server.args])


def hook_words(client: str, data_dir: Path | None, config: Path | None) -> list[str]:
    """Return the hook command as a program and its arguments."""
    command, first = executable()
    words = [command, *first, "hook", client]
    for option, path in (("--data-dir", data_dir), ("--config", config)):
        words += [option, str(path.absolute())] if path is not None else []
    return words


def shell_line(words: list[str], platform: str) -> str:
    """Return words as one shell line.

    On Windows one that bash, which drops backslashes, and cmd both read: with slashes, and words with special
    characters in double quotes.
    """
    if platform != "win32":
        return shlex.join(words)
    plain = [word.replace("\\", "/") for word in words]
    return " ".join(word if re.fullmatch(r"[\w./:=-]+", word) else f'"{word}"' for word in plain)


def starts_us(entry: object) -> bool:
    """Whether a server's entry in any client's configuration starts this program.

    Another program's package has the name too: as an argument it counts only after -m or with --from.
    """
    words = _entry_words(entry)
    if not words or (len(words) > 1 and "serve" not in words):
        return False
    # Another program's package is named memory-mcp too: as an argument the name counts only after -m or --from.
    packages = [word for option, word in itertools.pairwise(words) if option == "-m" or "--from" in words]
    return bool(_OURS.search(words[0])) or "memory_mcp" in packages or "memory-mcp" in packages


def _entry_words(entry: object) -> list[str]:
    if not isinstance(entry, dict):
        return []
    inner = entry.get("command")
    program, args = (inner.get("path"), inner.get("args")) if isinstance(inner, dict) else (inner, entry.get("args"))
    words = [program] if isinstance(program, str) else program if isinstance(program, list) else []
    return [word for word in [*words, *(args if isinstance(args, list) else [])] if isinstance(word, str)]


def merge_entry(existing: dict[str, Any], entry: dict[str, Any]) -> dict[str, Any]:
    """Return `entry` merged into an `existing` one of ours.

    What its user added is kept: keys, environment variables and arguments after `serve`.
    """
    if not starts_us(entry):
        return entry
    environments = {
        key: {**existing.get(key, {}), **entry.get(key, {})}
        for key in ("env", "environment")
        if existing.get(key) or entry.get(key)
    }
    merged = {**existing, **entry, **environments}
    command = entry["command"]
    if isinstance(command, list):
        merged["command"] = command[:1] + _merge_arguments(_entry_words(existing), command[1:])
    else:
        merged["args"] = _merge_arguments(_entry_words(existing), entry["args"])
    return merged


def _merge_arguments(existing: list[str], ours: list[str]) -> list[str]:
    """Ours before `serve`, then all that follows the program in `existing`."""
    starter = next(i for i, word in enumerate(existing) if _OURS.search(word))
    old_arguments = existing[starter + 1 :]
    return ours[: ours.index("serve")] + old_arguments if "serve" in old_arguments else ours


def read_paths(entry: object) -> dict[str, Path]:
    """Return the paths in an entry's environment, by variable."""
    if not isinstance(entry, dict):
        return {}
    environ = {**(entry.get("env") or {}), **(entry.get("environment") or {})}
    return {name: Path(environ[name]) for name in (DATA_DIR, CONFIG) if isinstance(environ.get(name), str)}


def runs_our_hook(item: object, client: str) -> bool:
    """Whether an entry, or one inside it, runs our hook."""
    if isinstance(item, list):
        return any(runs_our_hook(part, client) for part in item)
    if isinstance(item, dict):
        return is_our_hook(item, client) or any(runs_our_hook(part, client) for part in item.values() if isinstance(part, list))
    return False


def hook_options(item: object, client: str) -> set[str]:
    """Return the options of our hooks' command lines in an entry."""
    if isinstance(item, list):
        return {option for member in item for option in hook_options(member, client)}
    if not isinstance(item, dict):
        return set()
    inner = {option for member in item.values() if isinstance(member, list) for option in hook_options(member, client)}
    words = " ".join(str(item.get("command", "")).split())
    return inner | {words.partition(f" hook {client}")[2].strip()} if is_our_hook(item, client) else inner


def is_our_hook(item: object, client: str) -> bool:
    """Whether an entry's own command line runs `memory-mcp hook CLIENT`."""
    line = item.get("command") if isinstance(item, dict) else None
    return isinstance(line, str) and bool(_OURS.search(line)) and f" hook {client}" in " ".join(line.split()).replace('"', "")


def command_of(entry: dict[str, Any]) -> str:
    """Return the program that a server's entry starts."""
    return next(iter(_entry_words(entry) if entry.get("command") else []), "")


def find_executable(command: str) -> str:
    """Return the path of a command's executable, else ""."""
    if "/" in command or "\\" in command:
        return command if Path(command).is_file() and os.access(command, os.X_OK) else ""
    return shutil.which(command) or ""
