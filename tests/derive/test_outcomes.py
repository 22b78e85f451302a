"""Normal forms of commands and errors, and calls with their outcomes as the deriver stores them."""

import re
import time
from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_mcp.app import App
from memory_mcp.model.tool_run import KeyKind, StoredRun, make_keys
from memory_mcp.storage.settings import StorageSettings
from memory_mcp.tree.derive import missing_runs
from memory_mcp.tree.outcomes.commands import parse_command
from memory_mcp.tree.outcomes.failures import ended_by_person, ends_in_failure, error_signs, normalize_line, telling_line
from tests.factories import SHOP
from tests.toc.helpers import memory, rebuild, run_sql
from tests.work_cases import AGAIN, ERROR, FIRST, SECOND, THIRD

COMMANDS = {
    "cd /x && npm run build 2>&1 | head -50": "npm run build",
    'FOO=1 timeout 30 go test ./... -race -run "TestX"': "go test -race -run",
    "git commit -m \"$(cat <<'EOF'\nfix: it\nEOF\n)\" && git push": "git commit -m",
    ".venv/bin/python -m pytest -q tests/test_x.py": "python pytest -m -q",
    "uv run pytest -x; echo $?": "uv run pytest -x",
    "/usr/bin/make -j8 all": "make -j8",
    "sudo -E apt-get install foo": "apt-get install",
    "grep -rn 'a|b && c' src": "grep -rn",
    "cd web": "cd web",
    "": "",
}


@pytest.mark.parametrize(("line", "form"), COMMANDS.items(), ids=[line[:20] or "nothing" for line in COMMANDS])
def test_a_command_keeps_its_program_subcommand_and_flags(line: str, form: str) -> None:
    assert parse_command(line).invocation == form


def test_variables_that_are_set_for_a_command_are_named() -> None:
    assert parse_command("CI=1 NODE_ENV='a b' npm test").variables == ("CI", "NODE_ENV")


WORDS = st.from_regex(r"[a-z]{2,8}", fullmatch=True)
PATHS = st.builds(
    lambda parts, end: "/" + "/".join(parts) + f".{end}", st.lists(WORDS, min_size=1, max_size=4), WORDS.map(lambda w: w[:3])
)
NUMBERS = st.integers(0, 10**6).map(str)
HASHES = st.from_regex(r"[0-9a-f]{7,39}[0-9]", fullmatch=True)
TIMES = st.datetimes().map(lambda at: at.isoformat() + "Z")
QUOTED = st.one_of(*[st.from_regex(rf"{q}[a-zA-Z0-9_. /-]{{1,20}}{q}", fullmatch=True) for q in "'\"`"])
ADDRESSES = st.builds(lambda host, port: f"https://{host}.example.com:{port}/x", WORDS, st.integers(1, 65535))
TEMPLATES = (
    "error: cannot open {path}: no such file or directory",
    "{path}:{number}:{number}: undefined reference to {quoted}",
    "fatal: could not read from {address} after {number} attempts",
    "ValueError: commit {hash} is not reachable from {quoted}",
    "{time} ERROR worker {number} died while it read {path}",
)
VALUES = st.fixed_dictionaries(
    {"path": PATHS, "number": NUMBERS, "hash": HASHES, "time": TIMES, "quoted": QUOTED, "address": ADDRESSES}
)


@given(st.sampled_from(TEMPLATES), VALUES, VALUES)
def test_an_error_has_one_form_whatever_its_paths_numbers_hashes_times_addresses_and_values(
    template: str, one: dict[str, str], other: dict[str, str]
) -> None:
    form = normalize_line(template.format(**one))
    assert form
    assert form == normalize_line(template.format(**other))
    assert form == normalize_line(form) or not re.search(r"\d", form)


def test_different_errors_have_different_forms() -> None:
    forms = [
        normalize_line(
            template.format(path="/a/b.c", number="1", hash="abc1234", time="10:00", quoted="'q'", address="http://x/y")
        )
        for template in TEMPLATES
    ]
    assert len(set(forms)) == len(TEMPLATES)


def test_the_telling_lines_of_an_error_are_known_again_among_others_and_empty_ones_say_nothing() -> None:
    assert set(error_signs(ERROR)) & set(error_signs(f"> shop@1.2 build\n> tsc\n\n{AGAIN}\nDone in 12 s"))
    assert telling_line(f"> build\n{AGAIN}").startswith("lib/order.ts(240,11): error TS2339")
    assert error_signs("Exit code 1") == error_signs("") == ()
    assert error_signs("Request failed with status code 404") == error_signs("Request failed with status code 500") != ()
    assert error_signs("Path does not exist: /a/[lang]/(shop)/x.tsx") == error_signs("Path does not exist: /b/y.ts") != ()


@pytest.mark.parametrize(
    ("line", "other"),
    [
        ('./session_test.go:5:2: "path/filepath" imported and not used', 'a/b.go:14:2: "x.io/y" imported and not used'),
        ("list/data.go:685:2: declared and not used: repo (typecheck)", "a.go:44:19: declared and not used: removed (typecheck)"),
        ("cli/rewind.go:579:13: undefined: agent", "cli/strategy.go:201:14: undefined: checkpoint"),
        ("src/a.ts:12:3 - `cart` has 3 occurrences, name it", "lib/order.ts:2:9 - `order` has 4 occurrences, name it"),
    ],
)
def test_a_line_with_its_place_in_a_file_is_an_error_whatever_names_it_speaks_of(line: str, other: str) -> None:
    report = "Exit code 1\n# shop\n{}\n\tcart := 1\n\t     ^\n1 issues:\n[lint] ERROR task failed"
    shared = set(error_signs(report.format(line))) & set(error_signs(report.format(other)))
    assert len(shared - set(error_signs(report.format("")))) == 1
    assert telling_line(report.format(line), shared - {"lint error task failed"}) == line


@pytest.mark.parametrize(
    ("line", "other"),
    [
        ("config.yaml:3: name: alpha", "lib/other.yaml:77: name: gamma"),
        ("src/z.py:10: def total", "src/b.py:20:    def total"),
        ("src/a.py:10:    total = 1", "src/c.py:99:    total = 1"),
        ("docs/a.md:7: TODO: foo", "docs/b.md:9: TODO: bar"),
    ],
)
def test_a_line_that_a_search_printed_is_no_error(line: str, other: str) -> None:
    report = "{}\ngrep: missing: No such file or directory"
    assert set(error_signs(report.format(line))) & set(error_signs(other)) == set()
    assert set(error_signs(report.format(line))) == set(error_signs(report.format("")))


@pytest.mark.slow
@pytest.mark.parametrize(
    "piece", ["a.", "a", "a-", "a@", "/a", "\\", "\"'`", "1.1:", "x.y.Error", "a://", "<<< | ;", "a.b:1: ", ": a"]
)
def test_no_text_takes_long(piece: str) -> None:
    begun = time.thread_time()
    error_signs(piece * 8000)
    parse_command(piece * 8000)
    assert time.thread_time() - begun < 0.1


def test_what_a_person_or_a_pipe_ends_is_told_from_a_failure() -> None:
    assert ended_by_person("The user doesn't want to proceed with this tool use. The tool use was rejected")
    assert not ended_by_person("The user table does not exist")
    assert ends_in_failure("ok  pkg/a\nFAIL\tpkg/b\t0.3s\nFAIL\n")
    assert ends_in_failure("boom\nexit status 1")
    assert not ends_in_failure("exit status 0")
    assert not ends_in_failure("FAIL: was mended\nall passed")


def stored_runs(app: App) -> list[StoredRun]:
    by_stream = app.storage.tool_runs.list_stream_runs({cut.stream for cut in app.storage.toc.iter_cuts()})
    return sorted((stored for several in by_stream.values() for stored in several), key=lambda stored: stored.run.call)


def test_following_event_by_event_in_one_go_and_rebuilding_come_to_the_same_runs(kept_in: Callable[[], StorageSettings]) -> None:
    whole = memory([*FIRST, *SECOND], where=kept_in())
    followed = memory(where=kept_in())
    for each in (*FIRST, *SECOND):
        followed.write([each], "test")
        followed.derivation.run()
    expected = stored_runs(whole)
    assert len(expected) == 6
    assert stored_runs(followed) == expected
    run_sql(whole, "DELETE FROM tool_run")
    rebuild(whole)
    assert stored_runs(whole) == expected


def test_runs_that_an_earlier_version_lacks_are_derived_from_where_it_was_stopped(
    monkeypatch: pytest.MonkeyPatch, kept_in: Callable[[], StorageSettings]
) -> None:
    app = memory([*FIRST, *SECOND, *THIRD], where=kept_in())
    expected = stored_runs(app)
    monkeypatch.setattr(missing_runs, "_CHUNK", 1)
    run_sql(app, "DELETE FROM tool_run")
    app.storage.outbox.set_position(missing_runs.MISSING, "1")
    checks, publishing = iter([False, True]), lambda: app.derivation.publishing
    assert missing_runs.derive_missing_runs(app.storage, publishing, lambda: next(checks)) == 1
    left = len(list(app.storage.toc.iter_cuts())) - 1
    assert missing_runs.derive_missing_runs(app.storage, publishing, lambda: False) == left > 0
    assert stored_runs(app) == expected
    assert missing_runs.derive_missing_runs(app.storage, publishing, lambda: False) == 0


def test_calls_and_results_of_one_moment_are_runs_in_whatever_order_they_are_told() -> None:
    same = [replace(each, timestamp=FIRST[1].timestamp, source_id=str(at)) for at, each in enumerate(FIRST) if each.metadata]
    assert len(stored_runs(memory(same))) == 5


def test_a_run_is_found_by_its_error_and_not_from_another_project() -> None:
    app = memory([*FIRST, *SECOND, *THIRD])
    hashes = [value for _, value in make_keys(KeyKind.ERROR, error_signs(AGAIN))]
    found = app.storage.tool_runs.find_runs(KeyKind.ERROR, hashes, None, 10)
    assert [stored.session_id for stored in found] == ["s2", "s1", "s1"]
    assert all(stored.run.failed and stored.run.took_ms == 1000 for stored in found)
    assert app.storage.tool_runs.find_runs(KeyKind.ERROR, hashes, SHOP, 1) == found[:1]
    assert app.storage.tool_runs.find_runs(KeyKind.ERROR, hashes, "github.com/acme/billing", 10) == []
