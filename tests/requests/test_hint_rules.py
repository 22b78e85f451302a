"""What hints are made from: causes of failures, changes that ended a checker's finding."""

from dataclasses import replace

import pytest

from bench.hint_replay import HintReplay, show_hints
from memory_mcp.model.event import EventDraft
from memory_mcp.requests.call_names import tell_from
from memory_mcp.requests.failure_causes import does_same, find_new_line, list_causes, list_findings, name_error
from tests.factories import SHOP
from tests.work_cases import call

LINT = "cmd/{file}.go:{line}:3: error is not nil (line 7) but it returns nil (nilerr)"


@pytest.mark.parametrize(
    ("command", "error", "causes"),
    [
        ("gh pr diff 88 --stat", "unknown flag: --stat", ["--stat"]),
        ("rtk bun run test", "error: unrecognized subcommand 'bun'", ["$ rtk bun"]),
        ("cd web && python a.py", "zsh: command not found: python", ["$ python"]),
        ("/opt/bin/python -V", "zsh: command not found: python", []),
        ("PATH=/opt:$PATH go vet", "bash: go: command not found", []),
        ("go run ./cmd/x --all", "unexpected arguments: --all", []),
        ("npm run lint", "error: script exited with code 1", []),
    ],
)
def test_a_cause_is_what_the_error_names_of_the_command(command: str, error: str, causes: list[str]) -> None:
    asked = call(1, "2026-01-12 09:00", "Bash", error, True, command=command)[0]
    assert list_causes(asked, error) == causes


def test_another_form_keeps_what_the_failure_was_not_about() -> None:
    assert does_same("rtk bun run test", "bun run test 2>&1 | tail -5", ["$ rtk bun"])
    assert not does_same("rtk bun run test", "bun run lint", ["$ rtk bun"])
    assert does_same("python a.py", "python3 a.py", ["$ python"])
    assert does_same("bun run lint", "bun run lint:fix", [])
    assert not does_same("bun run test", "bun run lint", [])


def test_errors_are_the_same_but_for_numbers_unless_they_say_what_is_missing() -> None:
    assert name_error("gh: Not allowed (HTTP 403)\n") == name_error("gh: Not allowed (HTTP 404)\n")
    assert name_error("sed: can't read a.go: No such file") != name_error("sed: can't read b.go: No such file")

    parsing = 'failed to parse the expression (line 1, column 26)\n  {code}\n   ^  unexpected token "{token}"'
    assert name_error(parsing.format(code=".a", token="[")) == name_error(parsing.format(code=".b", token="["))
    assert name_error(parsing.format(code=".a", token="[")) != name_error(parsing.format(code=".a", token="!"))


def test_a_report_is_named_by_its_rules_and_an_echo_is_no_error() -> None:
    found = " at src/{file}.ts:6:2 lint/style/useConst  FIXABLE  ━━━━━━\n at b.json format ━━━━"
    report = f"$ biome check --error\n{found}\ncheck ━━━━\n  × Some errors"
    assert name_error(report.format(file="a")) == name_error(report.format(file="b")) == "format, lint/style/useConst"
    assert name_error(report.format(file="a").replace("useConst", "noVar")) != name_error(report.format(file="a"))
    assert name_error("$ biome check --error-on-warnings") == name_error("(no output)") == ""


@pytest.mark.parametrize(
    ("command", "cwd", "told"),
    [
        ("go test ./...", "/r", "go test ./..."),
        ("go test ./...", "/r/e2e", "cd /r/e2e && go test ./..."),
        ("cd e2e && go test ./...", "/r", "cd /r/e2e && go test ./..."),
        ("cd ..\ncd r && go test", "/r/e2e", "cd /r/r && go test"),
        ("PATH=/x && cd /q && go test", "/r", "PATH=/x && cd /q && go test"),
        ("PATH=/x && cd q && go test", "/r", ""),
        ("go test", "", ""),
    ],
)
def test_a_call_is_told_with_its_directory_where_that_is_another(command: str, cwd: str, told: str) -> None:
    worked = call(1, "2026-01-12 09:00", "Bash", "ok", command=command, cwd=cwd)[0]
    assert tell_from("/r", worked) == told


def test_a_finding_names_a_file_a_line_and_a_rule() -> None:
    findings = list_findings(f"checking\n{LINT.format(file='a', line=3)}\n{LINT.format(file='b', line=9)}\nFAIL: a.go:3")
    assert [file for file, _ in findings.values()] == ["a.go"]
    finding = "a.go:3:9: Error return value {of}is not checked (errcheck)\n\t{source}\n\t  ^"
    reports = [("of `r.Tree` ", "t, _ := r.Tree()"), ("", "t, _ := r.Tree()"), ("", "t, _ := Tree(x)"), ("", "t, _ := Leaf()")]
    forms = [form for of, source in reports for form in list_findings(finding.format(of=of, source=source))]
    assert len(set(forms)) == 3
    assert forms[1] == forms[2]
    assert list_findings("x" * 50_000 + ".go:3 " + "y" * 50_000) == {}


def test_the_new_line_of_an_edit_is_one_that_was_not_there() -> None:
    edit = "Edit: a\nold_string: if x {\n  f()\nnew_string: if x {\n  // why\n  _ = f() //nolint:errcheck\n}"
    assert find_new_line(edit, "a.go:3: value is not checked (errcheck)") == "_ = f() //nolint:errcheck"
    assert find_new_line(edit, "a.go:3: unused (revive)") == ""
    patch = '*** Update File: a\n@@\n-import "os"\n+import "errors"'
    assert find_new_line(patch, "a.go:3: undefined: errors (typecheck)") == 'import "errors"'


WRONG = "directory prefix {0} does not contain the main module"


def fail_then_work(command: str, error: str, then: str, output: str = "ok", **facts: str) -> list[EventDraft]:
    """A session in which a call fails and another works."""
    key = "files" if command.startswith("/") else "command"
    tool = "Read" if key == "files" else "Bash"
    first, second = {key: command}, {key: then, **facts}
    return [
        *call(1, "2026-01-11 09:00", tool, error, True, "s00", **first),
        *call(2, "2026-01-11 09:01", tool, output, False, "s00", **second),
    ]


@pytest.mark.parametrize(
    ("first", "asked", "told"),
    [
        # Where it worked elsewhere, that is said; asked above or below, what worked here is no help.
        (fail_then_work("go build -v ./e2e/x", WRONG, "go build -v ./x", cwd="/home/ada/shop/e2e"), ["go build -v ./e2e/x"], 1),
        (fail_then_work("go build ./x", WRONG, "go build -a ./x"), ["cd sub && go build ./x"], 0),
        (fail_then_work("go build ./x", WRONG, "go build -a ./x"), ["cd /other && go build ./x"], 1),
        # What is different is never cut off.
        (fail_then_work("go build ./x", WRONG, f"go build {'-v ' * 99}-a ./x"), ["go build ./x"], 0),
        # A session that had the error, or called what works, knows it.
        (fail_then_work("go build ./x", WRONG, "go build -a ./x"), ["go build ./x", "go build ./x -v"], 1),
        (fail_then_work("go build ./x", WRONG, "go build -a ./x"), ["cd /home/ada/shop && go build -a ./x", "go build ./x"], 0),
        # A file of that name elsewhere is another one.
        (fail_then_work("/home/ada/shop/a/x.md", "No file.", "/home/ada/shop/x.md"), ["/home/ada/shop/a/x.md"], 1),
        (fail_then_work("/home/ada/shop/a/x.md", "No file.", "/home/ada/other/x.md"), ["/home/ada/shop/a/x.md"], 0),
        # What printed nothing did not find what it was to print.
        (fail_then_work("jq .a[ f", "cannot parse (line 1, column 3)\n ^ token [", "jq -r .a f"), ["jq .a[ f"], 1),
        (fail_then_work("jq .a[ f", "cannot parse (line 1, column 3)\n ^ token [", "jq -r .a f", "(no output)"), ["jq .a[ f"], 0),
    ],
)
def test_a_hint_is_given_where_it_helps(first: list[EventDraft], asked: list[str], told: int) -> None:
    error = first[1].text
    key, tool = ("files", "Read") if asked[0].startswith("/") else ("command", "Bash")
    calls = [
        call(number, f"2026-02-01 09:0{number}", tool, error, True, "s01", **{key: each}) for number, each in enumerate(asked)
    ]
    replay = HintReplay(SHOP)
    assert replay.play(first) == []
    assert len(replay.play([draft for each in calls for draft in each])) == told


def test_a_session_knows_only_what_had_ended_when_it_began() -> None:
    first = fail_then_work("go build ./x", WRONG, "go build -a ./x")
    asked = call(1, "2026-01-11 09:01", "Bash", WRONG, True, "s01", command="go build ./x")
    untimed = call(1, "2026-01-13 09:01", "Bash", WRONG, True, "s02", command="go build ./x")
    replay = HintReplay(SHOP)
    assert replay.play(first) == replay.play(asked) == []
    assert len(replay.play([replace(untimed[0], timestamp=None), untimed[1]])) == 1


def test_a_replay_counts_the_sessions_that_a_hint_could_help(capsys: pytest.CaptureFixture[str]) -> None:
    def play(number: int) -> list[EventDraft]:
        session, day = f"s{number:02}", f"2026-01-{number + 10}"
        line = f"cmd/a.ts:{number}:3: error TS2339: Property 'total' does not exist"
        return [
            *call(1, f"{day} 09:00", "Read", "File does not exist.", True, session, files="/home/ada/shop/cmd/x.go"),
            *call(2, f"{day} 09:01", "Read", "package x", False, session, files="/home/ada/shop/cmd/sub/x.go"),
            *call(3, f"{day} 09:02", "Bash", line, True, session, command="mise run lint"),
            *call(4, f"{day} 09:03", "Edit", "ok", False, session, files="/home/ada/shop/cmd/a.ts"),
            *call(5, f"{day} 09:04", "Bash", "ok", False, session, command="mise run lint"),
        ]

    counts = show_hints([play(number) for number in range(10)])
    printed = capsys.readouterr().out
    assert (counts["sessions"], counts["failing"], counts["known"], counts["hinted"]) == (10, 10, 9, 9)
    assert "`Read cmd/x.go` failed here on 2026-01-10 (File does not exist.); then `Read cmd/sub/x.go` worked" in printed
    assert "it ended with Edit cmd/a.ts: `total: number;`" in printed
