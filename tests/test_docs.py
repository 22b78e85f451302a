"""What the documents say is so: links lead somewhere, every setting, tool and command is documented, examples parse."""

import argparse
import importlib.util
import json
import re
import subprocess
import sys
from functools import cache
from pathlib import Path
from types import ModuleType

import pytest
from mkdocs.commands import build
from mkdocs.config import load_config

from memory_mcp.base import extensions
from memory_mcp.base.failpoints import FAILPOINTS
from memory_mcp.capture.hooks.base import NO_TEXT, Envelope
from memory_mcp.capture.hooks.claude_code import ClaudeCodeHooks
from memory_mcp.cli.main import build_parser
from memory_mcp.config import iter_keys
from memory_mcp.importers.registry import IMPORTERS
from memory_mcp.install.clients import CLIENTS
from tests.files import load_script

pytestmark = pytest.mark.skipif(
    extensions.find(extensions.SETTINGS, "team") is None, reason="the documents are of the whole distribution"
)
ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
PAGES = sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / "docs").rglob("*.md"))


#: Lines that the README may have: whoever looks for more finds a page.
LONGEST_README = 120


def settings_table() -> str:
    """The table of settings, from the same metadata the program reads."""
    rows = ["| Setting | Default | Meaning |", "|---|---|---|"]
    for key, field in iter_keys():
        default = json.dumps(field.default) if field.default != "" else '""'
        rows.append(f"| `{key}` | `{default}` | {field.metadata['help']} |")
    return "\n".join(rows)


@pytest.mark.parametrize("name", ["README.md", "ARCHITECTURE.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", *PAGES])
def test_every_relative_link_leads_to_a_file(name: str) -> None:
    text = (ROOT / name).read_text(encoding="utf-8")
    links = re.findall(r"(?:\]\(|href=\")(?!https?://|#)([^)#\"]+)", text)
    assert [link for link in links if not (ROOT / name).parent.joinpath(link).exists()] == []


@cache
def reference() -> ModuleType:
    """The script that makes the reference pages; it lies beside them, in no package."""
    return load_script(ROOT / "docs" / "reference.py")


def test_the_reference_pages_say_what_the_program_has() -> None:
    wanted = reference().pages()
    assert list(reference().READINGS) == list(IMPORTERS), "each reader has one line of what it reads"
    assert {path.name for path in wanted} == {path.name for path in (ROOT / "docs" / "reference").glob("*.md")}
    stale = [path.name for path, text in wanted.items() if path.read_text(encoding="utf-8") != text]
    assert stale == [], "out of date: run python docs/reference.py"


def test_the_site_builds_without_a_warning(tmp_path: Path) -> None:
    """It is told of dead links, dead anchors and pages that no menu leads to."""
    build.build(load_config(str(ROOT / "mkdocs.yml"), strict=True, site_dir=str(tmp_path / "site")))
    assert len(list((tmp_path / "site").rglob("index.html"))) == len(PAGES)


def test_the_settings_table_is_generated_from_the_settings() -> None:
    page = (ROOT / "docs" / "reference" / "settings.md").read_text(encoding="utf-8")
    assert f"\n\n{settings_table()}\n\n" in page


def test_every_command_is_documented() -> None:
    page = (ROOT / "docs" / "reference" / "commands.md").read_text(encoding="utf-8")
    documented = set()
    for section in page.split("\n### ")[1:]:
        name, *rows = [line for line in section.splitlines() if line.strip() and not line.startswith("## ")]
        documented.add(name)
        below = [found[1].strip() for row in rows[1:] if (found := re.match(r"\| `([a-z0-9 -]+)", row))]
        documented |= {f"{name} {words}" for words in below}
    assert list_commands("memory-mcp", whole_parser()) <= documented


def list_commands(name: str, parser: argparse.ArgumentParser) -> set[str]:
    """The full names of all commands below one."""
    commands = {f"{name} {word}": command for word, command in reference().commands_of(parser).items()}
    return set(commands).union(*(list_commands(full, command) for full, command in commands.items()))


def test_the_readme_is_short_and_leads_to_every_client() -> None:
    assert len(README.splitlines()) <= LONGEST_README
    blocks = "\n".join(re.findall(r"<details>.*?</details>", README, re.S))
    assert [name for name in CLIENTS if not re.search(rf"<code>(?:memory-mcp install )?{name}</code>", blocks)] == []


def test_the_numbers_of_the_readme_can_be_measured_again() -> None:
    rows = [line for line in README.split("## Five numbers")[1].split("\n## ")[0].splitlines() if line.startswith("| ")][1:]
    programs = [re.findall(r"python -m (bench\.\w+)", row) for row in rows]
    assert len(rows) == 5
    assert all(programs)
    assert [p for several in programs for p in several if importlib.util.find_spec(p) is None] == []


@cache
def whole_parser() -> argparse.ArgumentParser:
    """The program's, which takes a tenth of a second to make."""
    return build_parser()


def unknown_options(words: list[str]) -> set[str]:
    """Options of a written command that the program does not have there."""
    parser = whole_parser()
    for word in words:
        parser = reference().commands_of(parser).get(word, parser)
    known: set[str] = reference().options_of(parser)
    return {word.partition("=")[0] for word in words if word.startswith("--")} - known


@pytest.mark.parametrize("name", ["README.md", "CONTRIBUTING.md", "SECURITY.md", *PAGES])
def test_every_option_of_a_written_command_exists(name: str) -> None:
    text = (ROOT / name).read_text(encoding="utf-8")
    written = re.findall(r"(?:^|`|\$ |<code>)memory-mcp ([^`\n<#]*)", text, re.M)
    assert {line: wrong for line in written if (wrong := unknown_options(line.split()))} == {}


@pytest.mark.parametrize("name", ["README.md", "CONTRIBUTING.md", "SECURITY.md", *PAGES])
def test_every_command_and_setting_that_a_page_names_exists(name: str) -> None:
    text = (ROOT / name).read_text(encoding="utf-8")
    text = text.split("\n## Removed\n")[0]
    commands = reference().commands_of(whole_parser())
    named = re.findall(r"(?:^|`|\$ |<code>)memory-mcp ([a-z][a-z-]*)", text, re.M)
    assert [c for c in named if c not in commands] == []
    keys = [key for key, _ in iter_keys()]
    sections = {key.split(".")[0] for key in keys}
    settings = [
        s for s in re.findall(r"`([a-z_]+(?:\.[a-z_0-9]+)+)[` ]", text) if s.split(".")[0] in sections and not s.endswith(".json")
    ]
    assert [s for s in settings if not any(key == s or key.startswith(f"{s}.") for key in keys)] == []


def test_every_tool_is_documented() -> None:
    page = (ROOT / "docs" / "reference" / "tools.md").read_text(encoding="utf-8")
    tools = json.loads((ROOT / "tests" / "interaction" / "tools.json").read_text(encoding="utf-8"))
    names = list(tools)
    assert [n for n in names if f"\n### {n}\n" not in page and f"\n| `{n}` |" not in page] == []
    told = (ROOT / "docs" / "retrieval.md").read_text(encoding="utf-8")
    assert [n for n in names if f"`{n}`" not in told] == []


def test_the_example_configuration_names_a_command_that_exists() -> None:
    server = json.loads((ROOT / "mcp.json.example").read_text(encoding="utf-8"))["mcpServers"]["memory"]
    assert server["command"] == "memory-mcp"
    assert "memory-mcp = " in (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    build_parser().parse_args(server["args"])


def test_the_hooks_that_are_shown_name_a_command_and_events_that_exist() -> None:
    text = (ROOT / "docs" / "recording.md").read_text(encoding="utf-8")
    shown = text.split("<!-- hooks -->")[1].split("<!-- /hooks -->")[0].split("```json")[1].split("```")[0]
    wanted = json.loads(shown)["hooks"]
    assert {h["command"] for several in wanted.values() for one in several for h in one["hooks"]} == {
        "memory-mcp hook claude-code"
    }
    for event in wanted:
        payload = {
            "session_id": "s",
            "cwd": "/x",
            "hook_event_name": event,
            "prompt": "p",
            "source": "startup",
            "trigger": "auto",
        }
        payload |= {"tool_name": "Bash", "tool_use_id": "t", "tool_input": {"command": "ls"}, "tool_response": {"stdout": "x"}}
        payload |= {"error": "e", "last_assistant_message": "m", "agent_id": "a", "compact_summary": "c", "reason": "other"}
        heard = ClaudeCodeHooks().parse_payload(json.dumps(payload), Envelope("1-a", 1_767_225_600_000))
        # Before a call nothing is kept; a hint may be given.
        assert heard.drafts or heard.skip_reason in (f"{event} with {NO_TEXT}", "PreToolUse")


def test_ci_runs_exactly_the_test_command_of_the_readme() -> None:
    command = README.split("## Tests")[1].split("```sh")[1].split("```")[0].strip()
    assert command in (ROOT / ".ci" / "run").read_text(encoding="utf-8")


def test_every_failpoint_is_used_where_it_says() -> None:
    source = "\n".join(p.read_text(encoding="utf-8") for p in (ROOT / "src").rglob("*.py") if p.name != "failpoints.py")
    assert [name for name in FAILPOINTS if f'failpoint("{name}")' not in source] == []


def test_no_registry_host_or_machine_path_is_named() -> None:
    names = ["README.md", "ARCHITECTURE.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", *PAGES]
    names += ["constraints.txt", "pyproject.toml", ".ci/run", ".pre-commit-config.yaml", "mkdocs.yml"]
    tracked = [ROOT / name for name in names]
    found = (path for folder in ("packaging", ".github") for path in (ROOT / folder).rglob("*") if path.is_file())
    # What Python compiled beside a script that another test runs is no text.
    tracked += [path for path in found if path.parent.name != "__pycache__"]
    pattern = re.compile(
        r"index-url|extra-index|https?://[^\s)]*(?:pypi|mirror|registry)|\b(?:ghcr|docker|quay)\.io\b|/root/|/tmp/\w"
    )
    assert [p.name for p in tracked if pattern.search(p.read_text(encoding="utf-8"))] == []


# the map


@pytest.mark.usefixtures("processes")
def test_the_map_is_short_every_package_has_a_page_and_the_list_of_changes_is_as_made() -> None:
    assert len((ROOT / "ARCHITECTURE.md").read_bytes()) <= 15_000
    packages = [
        path.parent for path in (ROOT / "src").glob("memory_mcp*/*/__init__.py") if path.parent.parent.name == "memory_mcp"
    ]
    pages = [package / "README.md" for package in packages if package.name != "samples"]
    pages.append(ROOT / "src" / "memory_mcp_team" / "README.md")
    assert [str(page) for page in pages if not page.is_file() or len(page.read_text(encoding="utf-8").splitlines()) > 40] == []
    for page in pages:
        folder = page.parent
        named = re.findall(r"^\| (`.+?) \|", page.read_text(encoding="utf-8"), re.M)
        files = [name for row in named for name in re.findall(r"`([\w/.]+)`", row)]
        present = {path.relative_to(folder).as_posix() for path in folder.rglob("*")}
        missing = [name for name in files if name.rstrip("/") not in present and not any(p.endswith(f"/{name}") for p in present)]
        assert missing == [], folder.name
    done = subprocess.run([sys.executable, ROOT / "tools" / "changes.py", "--check"], check=False)
    assert done.returncode == 0, "python tools/changes.py"
