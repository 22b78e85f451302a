"""Settings by file, environment and flag, and what happens to a wrong one."""

import json
from pathlib import Path

import pytest

from memory_mcp.config import REMOVED, iter_keys
from tests.acceptance.conftest import SAMPLES, Command, Done
from tests.daemon.inside import ALONE, BARE, run_inside
from tests.daemon.places import DAEMON


@pytest.fixture
def inside(environment: dict[str, str], tmp_path: Path) -> Command:
    """Run `memory-mcp` in this process, which opens the store itself."""

    def run(*argv: str, env: dict[str, str] | None = None) -> Done:
        return run_inside(argv, environment | ALONE | (env or {}), tmp_path)

    return run


def segments(command: Command, data: str, *argv: str, **more: dict[str, str]) -> int:
    """How many segments the sample gives under some settings."""
    done = command("import", "claude-code", str(SAMPLES), "--data-dir", data, "--json", *argv, **more)
    assert done.returncode == 0, done.stderr
    return int(json.loads(done.stdout)["built"]["segments"])


def test_each_source_of_settings_changes_what_happens_and_the_later_wins(
    command: Command, inside: Command, home: Path, tmp_path: Path
) -> None:
    assert segments(inside, "plain") == 1
    place = home / ".config" / "memory-mcp"
    place.mkdir(parents=True)
    (place / "config.toml").write_text("[toc]\ngap_minutes = 1\n")
    by_file = segments(inside, "by-file")
    assert by_file > 1
    assert segments(inside, "by-env", env={"MEMORY_MCP_TOC__GAP_MINUTES": "30"}) == 1
    (tmp_path / "other.toml").write_text("[toc]\ngap_minutes = 30\n")
    assert segments(command, "by-flag", "--config", "other.toml", env=BARE | DAEMON) == 1
    assert {p.name for p in tmp_path.iterdir()} >= {"plain", "by-file", "by-env", "by-flag"}


def test_the_data_directory_follows_flag_before_environment(inside: Command, tmp_path: Path) -> None:
    env = {"MEMORY_MCP_STORAGE__DATA_DIR": str(tmp_path / "by-env")}
    assert inside("query", "root", env=env).returncode == 0
    assert (tmp_path / "by-env" / "memory.duckdb").exists()
    assert inside("query", "root", "--data-dir", "by-flag", env=env).returncode == 0
    assert (tmp_path / "by-flag" / "memory.duckdb").exists()


@pytest.mark.parametrize("argv", [("search", "x"), ("serve",), ("import", "claude-code", "."), ("config", "check"), ("try",)])
def test_an_unknown_setting_names_the_nearest_known_one(inside: Command, argv: tuple[str, ...]) -> None:
    done = inside(*argv, env={"MEMORY_MCP_TOC__GAP_MINUTE": "5"})
    assert (done.returncode, done.stdout) == (2, "")
    assert "unknown variable: MEMORY_MCP_TOC__GAP_MINUTE. Did you mean MEMORY_MCP_TOC__GAP_MINUTES?" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("file", "told"),
    [
        (
            "[toc]\noverlap_minutes = 9\n",
            "toc.overlap_minutes was removed. Context before a segment reaches back 5 minutes at most.",
        ),
        (
            "[teleport.vector.retention_days]\nday = 9\n",
            "teleport.vector.retention_days was removed. teleport.bm25.retention_days holds for both indexes.",
        ),
    ],
)
def test_a_setting_that_was_removed_says_what_holds_instead(inside: Command, home: Path, file: str, told: str) -> None:
    place = home / ".config" / "memory-mcp"
    place.mkdir(parents=True)
    (place / "config.toml").write_text(file)
    done = inside("config", "check")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"the setting {told} Take it out of the settings.\n"


def test_no_setting_is_both_known_and_removed() -> None:
    known = [key for key, _ in iter_keys()]
    assert [gone for gone in REMOVED if any(key == gone or key.startswith(f"{gone}.") for key in known)] == []


def test_a_value_out_of_range_is_refused(inside: Command) -> None:
    done = inside("search", "x", env={"MEMORY_MCP_RETRIEVAL__BOUNDS__BEAM_WIDTH": "9"})
    assert (done.returncode, done.stderr) == (2, "beam_width must be at most 5.\n")
