from dataclasses import replace
from pathlib import Path

import pytest

from memory_mcp.install import engine, undo
from memory_mcp.install.base import Client, Environment, Level, Order
from memory_mcp.install.command import Server
from memory_mcp.install.engine import Change
from memory_mcp.install.state import State


class Machine:
    """A home, a project and the state of install, all of this test alone."""

    def __init__(self, root: Path) -> None:
        self.home, self.project, self.config = root / "home", root / "project", root / "config"
        self.home.mkdir()
        self.project.mkdir()
        self.place = Environment("linux", {"PATH": ""}, str(self.home), str(self.project))
        self.order = Order(self.place, Server("/opt/memory-mcp", ("serve",)))

    @property
    def state(self) -> State:
        return State(self.config / "memory-mcp" / "install")

    def install(self, client: Client, **changed: object) -> list[Change]:
        return engine.install(client, replace(self.order, **changed), self.state)  # type: ignore[arg-type]

    def uninstall(self, client: Client, *levels: Level) -> list[Change]:
        return undo.uninstall(client, self.place, levels or tuple(Level), self.state)

    def config_of(self, client: Client, level: Level = Level.USER) -> Path:
        return Path(client.choose_config(self.place, level))

    def tree(self) -> dict[str, bytes | None]:
        """Every file and folder there is, with what it holds."""
        return {
            str(path.relative_to(root)): path.read_bytes() if path.is_file() else None
            for root in (self.home, self.project, self.config)
            for path in sorted(root.rglob("*"))
        }


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)
