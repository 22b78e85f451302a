"""What contributors are told: every command they are to run exists and takes its options; templates and hooks load."""

import importlib.util
import re
import shlex
import shutil
import subprocess
import sys
import textwrap
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml
from pre_commit.clientlib import load_config

from tests.packaging.conftest import ROOT
from tests.waiting import PATIENCE

PROGRAMS = Path(sys.executable).parent
GITHUB = ROOT / ".github"
CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
FORMS = {path.stem: path for path in sorted((GITHUB / "ISSUE_TEMPLATE").glob("*.yml")) if path.stem != "config"}
RECORDS = sorted((ROOT / "docs" / "decisions").glob("*.md"))


def lines_of(text: str) -> list[str]:
    """The commands of a document's shell blocks, without what is said of them."""
    blocks = re.findall(r"^ *```sh\n(.*?)^ *```", text, re.M | re.S)
    lines = [line for block in blocks for line in textwrap.dedent(block).splitlines()]
    return [re.sub(r"\s{2,}#.*", "", line) for line in lines if line.strip()]


@cache
def helped(*command: str) -> str:
    """What a command says of itself."""
    done = subprocess.run([*command, "--help"], cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def is_path(word: str) -> bool:
    return word == "." or "/" in word or word.endswith((".py", ".txt"))


def program(words: list[str]) -> tuple[list[str], list[str]]:
    """A written command as one that runs here, and its arguments."""
    first, *rest = words
    if first.rpartition("/")[2] in ("python", "python3"):
        if rest[0] == "-m":
            assert importlib.util.find_spec(rest[1]) is not None, rest[1]
            # `python -m tests` takes the arguments of pytest.
            return [sys.executable, "-m", "pytest" if rest[1] == "tests" else rest[1]], rest[2:]
        assert (ROOT / rest[0]).is_file(), rest[0]
        return [sys.executable, rest[0]], rest[1:]
    found = shutil.which(first.removeprefix(".venv/bin/"), path=str(PROGRAMS) if "/" in first else None)
    assert found is not None or first == "npx", first
    return [found or first], rest


def wrong_in(line: str) -> list[str]:
    """Options and paths of a written command that are not there."""
    command, arguments = program(shlex.split(line))
    if line.startswith(("git ", "npx ")):
        return []
    missing = [w for w in arguments if is_path(w) and not w.startswith(("dist", ".venv")) and not (ROOT / w).exists()]
    plain = next((i for i, w in enumerate(arguments) if w.startswith("-") or is_path(w)), len(arguments))
    options = [w for w in arguments if w.startswith("-")]
    if not options and not plain:
        return missing
    text = helped(*command, *arguments[:plain])
    return missing + [o for o in options if not re.search(rf"(?<![\w-]){re.escape(o)}(?![\w-])", text)]


@pytest.mark.parametrize("line", lines_of(CONTRIBUTING))
def test_every_command_that_contributors_are_told_exists_and_takes_its_options(line: str) -> None:
    assert wrong_in(line) == []


@pytest.mark.parametrize(
    ("line", "wrong"),
    [
        (".venv/bin/ruff format --chekc .", ["--chekc"]),
        (".venv/bin/python -m pytest tests/tocs --slow", ["tests/tocs"]),
        (".venv/bin/python -m tests --slwo", ["--slwo"]),
        (".venv/bin/memory-mcp try --simple", ["--simple"]),
    ],
)
def test_a_wrong_option_or_path_is_found(line: str, wrong: list[str]) -> None:
    assert wrong_in(line) == wrong


@pytest.mark.parametrize("line", [".venv/bin/nothing", "python -m nothing_like_it", "python packaging/nothing.py"])
def test_a_program_that_is_not_there_is_found(line: str) -> None:
    with pytest.raises(AssertionError):
        wrong_in(line)


def test_the_tests_that_are_named_as_an_example_are_some_but_not_all() -> None:
    [line] = [line for line in lines_of(CONTRIBUTING) if " -k " in line]
    command, arguments = program(shlex.split(line))
    collect = [*command, "--collect-only", "-q", "-p", "no:cacheprovider", *arguments]
    done = subprocess.run(collect, cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert done.returncode == 0, done.stdout
    assert "deselected" in done.stdout


@pytest.mark.parametrize("line", [line for line in lines_of(CONTRIBUTING) if line.startswith("git grep")])
def test_what_contributors_are_told_to_look_for_is_found(line: str) -> None:
    done = subprocess.run(shlex.split(line), cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE, check=False)
    if "not a git repository" in done.stderr:
        pytest.skip("no clone")
    assert done.stdout.startswith("tests/"), done.stderr


@pytest.mark.parametrize("path", [ROOT / "CONTRIBUTING.md", GITHUB / "pull_request_template.md"], ids=lambda path: path.name)
def test_every_program_and_file_in_a_sentence_is_there(path: Path) -> None:
    text = re.sub(r"```.*?```", "", path.read_text(encoding="utf-8"), flags=re.S)
    spans = [" ".join(span.split()) for span in re.findall(r"`([^`]+)`", text)]
    named = [span for span in spans if is_path(span) and " " not in span and not span.startswith(".venv") and "NNNN" not in span]
    assert len(named) > 1
    assert [one for one in named if not any((base / one).exists() for base in (ROOT, ROOT / "src" / "memory_mcp"))] == []
    commands = [span for span in spans if span.startswith("python ")]
    assert commands
    assert [one for one in commands if wrong_in(one)] == []


# hooks and templates


def test_the_hooks_before_a_commit_are_the_projects_own_tools() -> None:
    [repo] = load_config(str(ROOT / ".pre-commit-config.yaml"))["repos"]
    assert repo["repo"] == "local"
    assert [hook["id"] for hook in repo["hooks"]] == ["ruff-check", "ruff-format", "mypy", "import-contracts"]
    assert {hook["language"] for hook in repo["hooks"]} == {"system", "unsupported"} & {
        hook["language"] for hook in repo["hooks"]
    }
    assert [hook["id"] for hook in repo["hooks"] if wrong_in(hook["entry"])] == []
    for hook in repo["hooks"][2:]:
        assert hook["pass_filenames"] is False
        assert re.search(hook["files"], "src/memory_mcp/base/text.py")
        assert re.search(hook["files"], "pyproject.toml")


def test_the_contributors_tools_have_one_version_each() -> None:
    pins = (ROOT / "constraints.txt").read_text(encoding="utf-8").lower().replace("_", "-")
    assert [tool for tool in ("ruff", "mypy", "import-linter", "pre-commit") if not re.search(rf"^{tool}==", pins, re.M)] == []
    assert "additional_dependencies" not in (ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", FORMS)
def test_an_issue_form_loads(name: str) -> None:
    """What GitHub asks of a form, as far as these go."""
    form: dict[str, Any] = yaml.safe_load(FORMS[name].read_text(encoding="utf-8"))
    assert set(form) == {"name", "description", "labels", "body"}
    assert {part["type"] for part in form["body"]} <= {"markdown", "textarea", "input", "checkboxes"}
    asked = [part for part in form["body"] if part["type"] != "markdown"]
    assert len({part["id"] for part in asked}) == len(asked) > 1
    assert all(part["attributes"]["label"] for part in asked)
    assert any(part.get("validations", {}).get("required") for part in asked)


def test_a_bug_report_asks_for_doctor_without_anything_private() -> None:
    assert set(FORMS) == {"bug", "feature"}
    parts = {part.get("id"): part for part in yaml.safe_load(FORMS["bug"].read_text(encoding="utf-8"))["body"]}
    assert "`memory-mcp doctor`" in parts["doctor"]["attributes"]["label"]
    assert "private" in parts["doctor"]["attributes"]["description"]
    assert parts["clean"]["attributes"]["options"][0]["required"] is True
    assert "SECURITY.md" in parts[None]["attributes"]["value"]
    assert yaml.safe_load((GITHUB / "ISSUE_TEMPLATE" / "config.yml").read_text(encoding="utf-8")) == {
        "blank_issues_enabled": False
    }


# decisions


def test_records_of_decisions_are_numbered_and_have_the_same_parts() -> None:
    assert [path.name[:5] for path in RECORDS] == [f"{number:04}-" for number in range(1, len(RECORDS) + 1)]
    for number, path in enumerate(RECORDS, 1):
        text = path.read_text(encoding="utf-8")
        assert re.match(rf"# {number}\. \S.*\n\n20\d\d-\d\d-\d\d[.;]", text), path.name
        heads = " ".join(re.findall(r"^## (.*)$", text, re.M))
        assert heads in ("Options Numbers Decision What would change it", "Options and numbers Decision What would change it"), (
            path.name
        )


def test_security_says_what_the_settings_are() -> None:
    from memory_mcp.config import iter_keys

    text = (ROOT / "SECURITY.md").read_text(encoding="utf-8")
    defaults = {key: field.default for key, field in iter_keys()}
    off = {"server.http": False, "server.scope_lock": False, "server.forget_by_tool": False, "sync.directory": ""}
    assert {key: defaults[key] for key in off} == off
    assert defaults["server.http_host"] == "127.0.0.1"
    assert {"`server.scope_lock`", "`server.forget_by_tool`", "`<private>`"} <= set(re.findall(r"`[^`\n]+`", text))
