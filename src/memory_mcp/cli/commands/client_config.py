"""What a client needs to start this program as its memory: the JSON to paste, and the line for Claude Code."""

import shlex
import shutil
import sys
from pathlib import Path
from typing import Any

NAME = "memory"
DATA_DIR = "MEMORY_MCP_STORAGE__DATA_DIR"


def executable() -> tuple[str, list[str]]:
    """The absolute path of the command, and the arguments that must come first."""
    for place in (Path(sys.argv[0]), Path(sys.executable).with_name("memory-mcp"), Path(shutil.which("memory-mcp") or "")):
        if place.name.startswith("memory-mcp") and place.is_file():
            return str(place.absolute()), []
    return str(Path(sys.executable).absolute()), ["-m", "memory_mcp"]


def client_config(data_dir: Path | None) -> dict[str, Any]:
    """The `mcpServers` object; with a data directory when it is not the usual one."""
    command, first = executable()
    server: dict[str, Any] = {"command": command, "args": [*first, "serve"]}
    if data_dir is not None:
        server["env"] = {DATA_DIR: str(data_dir.absolute())}
    return {"mcpServers": {NAME: server}}


def claude_line(data_dir: Path | None) -> str:
    """The shell line that adds it to Claude Code."""
    server = client_config(data_dir)["mcpServers"][NAME]
    settings = [part for name, value in server.get("env", {}).items() for part in ("-e", f"{name}={value}")]
    return shlex.join(["claude", "mcp", "add", NAME, *settings, "--", server["command"], *server["args"]])
