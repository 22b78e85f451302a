"""Wheel and sdist: what they are called and hold, that they pass for the index, and that what they install works."""

import email
import hashlib
import os
import re
import subprocess
import sys
import tarfile
import zipfile
from email.message import Message
from pathlib import Path

import pytest

from memory_mcp import __version__
from tests.packaging.conftest import DOWNLOAD_PATIENCE, PROJECT, ROOT, Built, build, tool
from tests.waiting import PATIENCE

NAME = PROJECT["name"]
PACKAGES = {"memory_mcp", "memory_mcp_team"}
MODEL = "memory_mcp/embed/bundled"


def contents(wheel: Path) -> dict[str, str]:
    """Every file of a wheel, with the hash of what it holds."""
    with zipfile.ZipFile(wheel) as opened:
        return {name: hashlib.sha256(opened.read(name)).hexdigest() for name in opened.namelist()}


def metadata(wheel: Path) -> Message:
    with zipfile.ZipFile(wheel) as opened:
        inside = next(n for n in opened.namelist() if n.endswith(".dist-info/METADATA"))
        return email.message_from_bytes(opened.read(inside))


def entry_points(wheel: Path) -> str:
    with zipfile.ZipFile(wheel) as opened:
        return opened.read(next(n for n in opened.namelist() if n.endswith("entry_points.txt"))).decode()


def test_the_wheel_is_called_otherwise_than_the_command_and_has_the_version_of_the_code(built: Built) -> None:
    told = metadata(built.wheel)
    assert (NAME, told["Name"], told["Version"]) == ("memory-mcp-tree", "memory-mcp-tree", __version__)
    assert "version" not in PROJECT
    assert "memory-mcp = memory_mcp.__main__:main" in entry_points(built.wheel)


def test_the_wheel_holds_the_program_and_the_model_with_its_licences_and_no_tests(built: Built) -> None:
    held = set(contents(built.wheel))
    assert {name.split("/")[0] for name in held} == {*PACKAGES, f"memory_mcp_tree-{__version__}.dist-info"}
    assert held >= {f"{MODEL}/{name}" for name in ("model.safetensors", "tokenizer.json", "config.json", "LICENSE", "NOTICE")}
    licences = f"memory_mcp_tree-{__version__}.dist-info/licenses"
    assert held >= {f"{licences}/LICENSE", f"{licences}/src/{MODEL}/LICENSE", f"{licences}/src/{MODEL}/NOTICE"}
    files = {p.relative_to(ROOT / "src").as_posix() for p in (ROOT / "src").rglob("*") if p.is_file()}
    files = {name for name in files if "__pycache__" not in name and name.split("/")[0] in PACKAGES}
    assert {name for name in held if name.split("/")[0] in PACKAGES} == files


def test_the_sdist_builds_the_same_wheel(built: Built, tmp_path: Path) -> None:
    with tarfile.open(built.sdist) as opened:
        opened.extractall(tmp_path, filter="data")
    source = tmp_path / f"memory_mcp_tree-{__version__}"
    for name in (
        "tests",
        "docs",
        "packaging",
        "skills/memory-query/SKILL.md",
        "plugin/skills/memory-query/SKILL.md",
        "README.md",
        "CONTRIBUTING.md",
        "SECURITY.md",
        ".pre-commit-config.yaml",
        "ARCHITECTURE.md",
        "constraints.txt",
        "mkdocs.yml",
    ):
        assert (source / name).exists(), name
    build(source, tmp_path / "again", "wheel")
    assert contents(next((tmp_path / "again").glob("*.whl"))) == contents(built.wheel)


def test_twine_finds_nothing_to_complain_of(built: Built) -> None:
    command = [sys.executable, "-m", "twine", "--no-color", "check", "--strict", str(built.wheel), str(built.sdist)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert (done.returncode, done.stdout.count("PASSED")) == (0, 2), done.stdout + done.stderr


def away(tmp_path: Path, **more: str) -> dict[str, str]:
    """An environment with a home of its own, in which nothing of the checkout is found."""
    home = tmp_path / "home"
    home.mkdir(exist_ok=True)
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("MEMORY_MCP_", "PYTHON", "XDG_"))}
    return kept | {"HOME": str(home), "TMPDIR": str(tmp_path), "MEMORY_MCP_SERVER__IDLE_EXIT_SECS": "1"} | more


def run(command: list[str], cwd: Path, env: dict[str, str], patience: float = PATIENCE) -> str:
    """What a command prints; AssertionError when it fails."""
    done = subprocess.run(
        command, cwd=cwd, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=patience, check=False
    )
    assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
    return done.stdout


def test_what_the_wheel_holds_is_enough_to_keep_and_find_something(built: Built, tmp_path: Path) -> None:
    """The wheel unpacked, beside the libraries of this environment."""
    place = tmp_path / "wheel"
    with zipfile.ZipFile(built.wheel) as opened:
        opened.extractall(place)
    env = away(tmp_path, PYTHONPATH=str(place), MEMORY_MCP_SERVER__DAEMON="false")
    where = run([sys.executable, "-c", "import memory_mcp; print(memory_mcp.__file__)"], tmp_path, env)
    assert Path(where.strip()).is_relative_to(place)
    (tmp_path / "said.jsonl").write_text(
        '{"session_id": "s", "timestamp": "2026-01-05T09:00:00Z", "role": "user", "text": "The ferry leaves at nine."}\n'
    )
    for words in (("ingest", "said.jsonl"), ("ask", "ferry")):
        said = run([sys.executable, "-m", "memory_mcp", *words, "--json"], tmp_path, env)
    assert "The ferry leaves at nine." in said


@pytest.mark.slow  # in the short form: the wheel unpacked, above.
def test_the_wheel_installed_into_a_fresh_environment_is_enough_to_try_it(built: Built, tmp_path: Path) -> None:
    env = away(tmp_path)
    run([sys.executable, "-m", "venv", str(tmp_path / "venv")], tmp_path, env)
    programs = tmp_path / "venv" / ("Scripts" if os.name == "nt" else "bin")
    pins = ["-c", str(ROOT / "constraints.txt")]
    run([str(programs / "python"), "-m", "pip", "install", "-q", *pins, str(built.wheel)], tmp_path, env, DOWNLOAD_PATIENCE)
    assert run([str(programs / "memory-mcp"), "--version"], tmp_path, env) == f"memory-mcp {__version__}\n"
    assert run([str(programs / "memory-mcp"), "try"], tmp_path, env).count("(verified: stored word for word)") == 3


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("uvx", ["--from", "{wheel}", "memory-mcp"]),
        ("uvx", ["--from", "{wheel}", "memory-mcp-tree"]),
        ("pipx", ["run", "--spec", "{wheel}", "memory-mcp"]),
    ],
)
def test_the_command_runs_without_being_installed(name: str, words: list[str], built: Built, tmp_path: Path) -> None:
    command = [tool(name, 'pip install -e ".[packages]"'), *(w.format(wheel=built.wheel) for w in words), "--version"]
    env = away(tmp_path, UV_PYTHON=sys.executable, PIPX_HOME=str(tmp_path / "pipx"), PIPX_DEFAULT_PYTHON=sys.executable)
    assert run(command, tmp_path, env, DOWNLOAD_PATIENCE).endswith(f"memory-mcp {__version__}\n")


# the name, in what we tell people

INSTALLS = r"(?:pip3?|pipx|uv(?:[ ]tool|[ ]pip)?)[ ]+(?:install|add|run|upgrade|inject)\b|\buvx\b"
#: A command that fetches a distribution called as the command is: on the index that is somebody else's program.
STRANGER = re.compile(
    rf"(?:{INSTALLS})(?![^\n|;&`]*--(?:from|spec))[^\n|;&`]*?(?<![\w./=-])memory[-_.]mcp(?![\w-]|\.[a-z])", re.I
)
#: The same as a client's configuration: "command": "uvx", "args": ["memory-mcp"].
CONFIGURED = re.compile(r'"uvx",?\s*"args":\s*\[\s*"memory[-_.]mcp"', re.I)
TEXTS = (".md", ".py", ".json", ".toml", ".yml", ".yaml", ".rb", ".txt", ".example", "Dockerfile", "run")


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("pip install memory-mcp", True),
        ("python3 -m pip install -U 'memory_mcp'", True),
        ("`uv tool install memory-mcp`", True),
        ("uvx memory-mcp serve", True),
        ("pipx run memory-mcp", True),
        ("pip install memory-mcp[dev]", True),
        ("pip install memory-mcp-tree", False),
        ("uvx --from memory-mcp-tree memory-mcp serve", False),
        ("pipx install memory-mcp-tree && memory-mcp try", False),
        ("pip install -q -c constraints.txt . && .venv/bin/memory-mcp try", False),
        ("pipx run --spec memory-mcp-tree memory-mcp", False),
        ("pipx install ./dist/memory_mcp_tree-0.1.0-py3-none-any.whl", False),
    ],
)
def test_a_line_that_would_fetch_a_strangers_program_is_recognised(text: str, wrong: bool) -> None:
    assert bool(STRANGER.search(text)) == wrong


def test_no_text_tells_anyone_to_fetch_a_strangers_program() -> None:
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False, timeout=PATIENCE)
    names = listed.stdout.split("\n") if listed.returncode == 0 else []
    texts = {n: ROOT / n for n in names if n.endswith(TEXTS) and n != f"tests/packaging/{Path(__file__).name}"}
    assert names == [] or "README.md" in texts
    wrong = [
        f"{name}: {found[0]}"
        for name, path in texts.items()
        if path.is_file()
        for text in [path.read_text(encoding="utf-8")]
        if (found := STRANGER.search(text) or CONFIGURED.search(text))
    ]
    assert wrong == []
