"""Bundle, registry, formula: they repeat pyproject.toml and nothing else, and their own tools find nothing wrong."""

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest

from memory_mcp import __version__
from tests.files import load_script
from tests.packaging.conftest import PROJECT, ROOT, Built, tool
from tests.packaging.test_wheel import away, run
from tests.skills.conftest import tools_of
from tests.waiting import PATIENCE

FOLDER = ROOT / "packaging"
MANIFEST = json.loads((FOLDER / "mcpb" / "manifest.json").read_text(encoding="utf-8"))
SERVER = json.loads((FOLDER / "server.json").read_text(encoding="utf-8"))
#: The packer's version that the long form runs.
MCPB = "@anthropic-ai/mcpb@2.1.2"


def script() -> ModuleType:
    """packaging/manifests.py: a script in no package, because `packaging` is a library's name."""
    return load_script(FOLDER / "manifests.py")


def check() -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(FOLDER / "manifests.py"), "--check"]
    return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)


def test_every_file_that_repeats_pyproject_says_the_same() -> None:
    done = check()
    assert (done.returncode, done.stderr) == (0, "")


def test_another_version_name_or_address_would_be_noticed_in_every_file_that_repeats_it() -> None:
    manifests = script()
    said = manifests.facts()
    assert (said.name, said.version) == (PROJECT["name"], __version__)
    changed = {
        "version": "9.9.9",
        "name": "other-name",
        "repository": "https://example.com/other",
        "mcp_name": "com.example/other",
        "description": "Other: words",
        "title": "Other",
        "licence": "MIT",
    }
    now = manifests.written(said)

    def differing(**other: str) -> set[str]:
        return {path.name for path, text in manifests.written(replace(said, **other)).items() if text != now[path]}

    noticed = {key: differing(**{key: value}) for key, value in changed.items()}
    bundle = {"manifest.json", "pyproject.toml"}
    assert noticed["version"] == bundle | {"server.json", "memory-mcp.rb", "Dockerfile", "plugin.json"}
    assert noticed["name"] == {"pyproject.toml", "server.json", "memory-mcp.rb", "Dockerfile"}
    assert noticed["repository"] == {"manifest.json", "server.json", "memory-mcp.rb", "Dockerfile"}
    assert noticed["mcp_name"] == {"server.json", "Dockerfile", "README.md"}
    assert noticed["description"] == {"manifest.json", "server.json", "memory-mcp.rb"}
    assert noticed["title"] == {"server.json"}
    assert noticed["licence"] == {"manifest.json", "Dockerfile"}


def test_a_release_has_the_checksums_of_what_was_built(tmp_path: Path) -> None:
    manifests = script()
    said = manifests.facts()
    with pytest.raises(SystemExit, match=re.escape(said.sdist)):
        manifests.release(tmp_path, said)
    (tmp_path / said.sdist).write_bytes(b"source")
    (tmp_path / manifests.BUNDLE).write_bytes(b"bundle")
    manifests.release(tmp_path, said, "example.com/memory-mcp")
    assert f'sha256 "{hashlib.sha256(b"source").hexdigest()}"' in (tmp_path / "memory-mcp.rb").read_text(encoding="utf-8")
    published = json.loads((tmp_path / "server.json").read_text(encoding="utf-8"))
    *before, bundle, image = published["packages"]
    assert before == SERVER["packages"]
    assert bundle["fileSha256"] == hashlib.sha256(b"bundle").hexdigest()
    assert image["identifier"] == f"example.com/memory-mcp:{__version__}"
    assert_fits_the_registry(published)


def test_a_tag_is_released_when_it_is_the_version_and_the_changelog_has_its_date() -> None:
    manifests = script()
    said = replace(manifests.facts(), version="1.2.3")
    older = "## [1.2.2] - 2026-01-02\n\n- Older.\n"
    assert manifests.notes("v1.2.3", said, f"# Changelog\n\n## [1.2.3] - 2026-02-03\n\n### Fixed\n- It.\n\n{older}") == (
        "### Fixed\n- It.\n"
    )
    for tag, changelog in (
        ("v1.2.4", "## [1.2.4] - 2026-02-03\n- It.\n"),
        ("1.2.3", "## [1.2.3] - 2026-02-03\n- It.\n"),
        ("v1.2.3", "## [1.2.3]\n- It.\n"),
        ("v1.2.3", f"## [1.2.3] - 2026-02-03\n\n{older}"),
        ("v1.2.3", f"## [Unreleased]\n- It.\n\n{older}"),
    ):
        with pytest.raises(SystemExit):
            manifests.notes(tag, said, changelog)


def test_server_json_fits_the_registry() -> None:
    assert_fits_the_registry(SERVER)


def assert_fits_the_registry(server: dict[str, object]) -> None:
    """What the registry's schema of 2025-12-11 and its rules for publishing ask of the parts that we use."""
    assert set(server) <= {"$schema", "name", "title", "description", "repository", "version", "packages"}
    assert re.fullmatch(r"[a-zA-Z0-9.-]+/[a-zA-Z0-9._-]+", str(server["name"]))
    assert 1 <= len(str(server["description"])) <= 100
    assert 1 <= len(str(server["title"])) <= 100
    assert re.fullmatch(r"\d+\.\d+\.\d+(?:[a-z.-]\S*)?", str(server["version"]))
    assert isinstance(server["packages"], list)
    for package in server["packages"]:
        assert package["registryType"] in ("pypi", "oci", "mcpb")
        assert package["transport"] == {"type": "stdio"}
        assert package["identifier"]
        for given in package.get("packageArguments", []) + package.get("runtimeArguments", []):
            assert given["type"] == "positional" or given["name"].startswith("-")
        assert "runtimeHint" in package or "runtimeArguments" not in package
    assert f"<!-- mcp-name: {server['name']} -->" in (ROOT / "README.md").read_text(encoding="utf-8").split("\n## ")[0]


def test_the_runner_finds_a_command_of_the_packages_own_name() -> None:
    """Clients of the registry start `uvx IDENTIFIER`, which looks for a command called so."""
    [package] = [p for p in SERVER["packages"] if p["registryType"] == "pypi"]
    assert PROJECT["scripts"][package["identifier"]] == PROJECT["scripts"]["memory-mcp"]


def test_the_bundle_names_the_tools_that_there_are_by_default() -> None:
    assert [one["name"] for one in MANIFEST["tools"]] == [one.name for one in tools_of("default")]
    assert (FOLDER / "mcpb" / MANIFEST["server"]["entry_point"]).is_file()
    assert MANIFEST["server"]["mcp_config"]["args"][-1].endswith(MANIFEST["server"]["entry_point"])


def test_the_formula_is_ruby() -> None:
    ruby = tool("ruby", "Debian's package ruby")
    run([ruby, "-c", str(FOLDER / "homebrew" / "memory-mcp.rb")], ROOT, dict(os.environ))


@pytest.mark.slow
def test_the_packer_accepts_the_bundle_and_the_bundle_serves(built: Built, tmp_path: Path) -> None:
    """Packed and unpacked by its own tool, then started by uv as a host does, with the wheel that was just built."""
    npx = tool("npx", "Node.js")
    env = dict(os.environ, npm_config_cache=str(tmp_path / "npm"))
    asked = subprocess.run(
        [npx, "--yes", MCPB, "--version"], env=env, capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    if asked.returncode != 0:
        pytest.skip(f"{MCPB} cannot be fetched: {asked.stderr.strip()[-200:]}")
    source, packed, unpacked = tmp_path / "mcpb", tmp_path / "memory-mcp.mcpb", tmp_path / "unpacked"
    shutil.copytree(FOLDER / "mcpb", source)
    assert "passes" in run([npx, "--yes", MCPB, "validate", str(source / "manifest.json")], tmp_path, env)
    run([npx, "--yes", MCPB, "pack", str(source), str(packed)], tmp_path, env)
    run([npx, "--yes", MCPB, "unpack", str(packed), str(unpacked)], tmp_path, env)
    assert {path.name for path in unpacked.iterdir()} >= {"manifest.json", "pyproject.toml", "server.py"}
    config = MANIFEST["server"]["mcp_config"]
    words = [word.replace("${__dirname}", str(unpacked)) for word in config["args"]]
    uv = tool(config["command"], 'pip install -e ".[packages]"')
    own = away(tmp_path, UV_FIND_LINKS=str(built.wheel.parent), UV_PYTHON=sys.executable, UV_CACHE_DIR=str(tmp_path / "uv"))
    hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
    line = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello}) + "\n"
    with subprocess.Popen([uv, *words], cwd=tmp_path, env=own, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as host:
        assert host.stdin is not None
        assert host.stdout is not None
        host.stdin.write(line)
        host.stdin.flush()
        answer = json.loads(host.stdout.readline())
        host.stdin.close()
    assert (answer["result"]["serverInfo"]["version"], host.returncode) == (__version__, 0)
