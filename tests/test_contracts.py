"""The import contracts see what they are for: each is broken on purpose, in a copy of the program."""

import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.waiting import PATIENCE

pytestmark = pytest.mark.usefixtures("processes")

ROOT = Path(__file__).resolve().parents[1]
CONTRACTS = {
    one["id"]: one
    for one in tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]["contracts"]
}
#: By the full name of a package, its files from the highest floor to the lowest.
ROOMS: dict[str, list[str]] = {
    f"{package}.{name}": floors
    for table, package in (("rooms", "memory_mcp"), ("team_rooms", "memory_mcp_team"))
    for name, floors in CONTRACTS[table]["rows"].items()
}
IMPORTERS = {table: CONTRACTS[table]["rows"] for table in ("engines", "owners")}
PACKAGES = sorted(".".join(path.parent.relative_to(ROOT / "src").parts) for path in (ROOT / "src").rglob("__init__.py"))


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """The program's Python files and the linter's configuration, to be changed."""
    for name in ("pyproject.toml", "tests/__init__.py", "tests/contracts.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copyfile(ROOT / name, tmp_path / name)
    other = shutil.ignore_patterns("__pycache__", "*.[!p]*")
    shutil.copytree(ROOT / "src", tmp_path / "src", ignore=other, copy_function=shutil.copyfile)
    return tmp_path


def broken(copy: Path) -> str:
    """What the linter says of a copy that it must refuse, a line for each thing."""
    command = [str(Path(sys.executable).with_name("lint-imports")), "--no-cache", "--no-logo"]
    env = dict(os.environ, PYTHONPATH=str(copy / "src"), COLUMNS="500")
    done = subprocess.run(command, cwd=copy, env=env, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "Contracts: " in done.stdout, done.stdout + done.stderr
    return done.stdout


def module(copy: Path, name: str) -> Path:
    """The file of a module of a full name."""
    path = copy.joinpath("src", *name.split("."))
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


def inside(room: str) -> str:
    """How the contract of a package is called: by its name in its root."""
    return room.partition(".")[2]


def test_a_file_without_a_place_a_package_without_a_row_and_an_import_of_what_has_an_owner_are_refused(copy: Path) -> None:
    for package in PACKAGES:
        copy.joinpath("src", *package.split("."), "planted.py").write_text('"""New."""\n', encoding="utf-8")
    folder = copy / "src" / "memory_mcp" / "capture" / "sown"
    folder.mkdir()
    for name in ("__init__.py", "inside.py"):
        (folder / name).write_text('"""New."""\n', encoding="utf-8")
    names = [name for rows in IMPORTERS.values() for name in rows]
    with module(copy, "memory_mcp.base.clock").open("a", encoding="utf-8") as file:
        file.writelines(f"\nimport {name if '.' not in name else f'memory_mcp.{name}'}\n" for name in names)
    said = broken(copy)
    assert sorted(re.findall(r"^- (\S+)\.planted$", said, re.M)) == PACKAGES
    assert "memory_mcp.capture.sown has no row\n" in said
    assert "- memory_mcp.capture.sown\n" in said
    assert re.findall(r"^Importers of (\S+)$", said, re.M) == names


def test_a_row_sees_an_import_of_a_higher_floor_in_its_room(copy: Path) -> None:
    upwards = {room: (floors[0].split(" | ")[0], floors[-1].split(" | ")[0]) for room, floors in ROOMS.items() if len(floors) > 1}
    for room, (high, low) in upwards.items():
        with module(copy, f"{room}.{low}").open("a", encoding="utf-8") as file:
            file.write(f"\nimport {room}.{high}\n")
    assert set(re.findall(r"^Inside (\S+)$", broken(copy), re.M)) >= {inside(room) for room in upwards}


def test_a_row_sees_files_of_one_floor_that_import_each_other(copy: Path) -> None:
    beside = {room: floors[-1].split(" | ")[:2] for room, floors in ROOMS.items() if "|" in "".join(floors[-1:])}
    for room, (one, other) in beside.items():
        with module(copy, f"{room}.{one}").open("a", encoding="utf-8") as file:
            file.write(f"\nimport {room}.{other}\n")
    assert set(re.findall(r"^Inside (\S+)$", broken(copy), re.M)) >= {inside(room) for room in beside}


def test_every_forbidden_import_one_of_a_higher_floor_and_a_circle_are_refused(copy: Path) -> None:
    """One source of each contract imports the last thing that it must not; one imports a room above, which leads back."""
    forbidding = [contract for contract in CONTRACTS.values() if contract["type"] == "forbidden"]
    pairs = [(one["source_modules"][0], one["forbidden_modules"][-1]) for one in forbidding]
    for source, imported in pairs:
        with module(copy, source).open("a", encoding="utf-8") as file:
            file.write(f"\nimport {imported}\n")
    said = broken(copy)
    assert [one["name"] for one in forbidding if f"{one['name']} BROKEN\n" not in said] == []
    assert [name for name in ("floors", "acyclic") if f"{CONTRACTS[name]['name']} BROKEN\n" not in said] == []
    assert [pair for pair in pairs if "{} is not allowed to import {}:\n".format(*pair) not in said] == []


def test_what_lists_the_files_of_a_room_lists_them_all() -> None:
    """Layers are exhaustive wherever they stand: the floors say so, and the rooms are made so."""
    layered = [one for one in CONTRACTS.values() if one["type"] == "layers"]
    assert [one["id"] for one in layered] == ["floors", "team_floors"]
    assert all(one["exhaustive"] for one in layered)
    assert sorted(ROOMS) == [one for one in PACKAGES if "." in one]
