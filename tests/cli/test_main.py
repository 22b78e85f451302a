"""The argument tree, exit statuses, and what reaches which stream."""

import datetime as dt
import io
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from memory_mcp import __version__
from memory_mcp.app import App
from memory_mcp.cli.commands import registry
from memory_mcp.cli.main import build_parser, main
from memory_mcp.config import load
from memory_mcp.importers.own_output import remove_own_output
from memory_mcp.model.sentinel import MARK
from tests.cli.conftest import EVENTS, Cli, Told, said
from tests.daemon.inside import SERVED, Beside
from tests.waiting import PATIENCE

AT = dt.datetime(2026, 3, 1, 10, tzinfo=dt.UTC)


def test_help_begins_with_a_few_commands_and_all_are_listed_in_groups(cli: Cli) -> None:
    short = cli("--help")
    assert short.status == 0
    assert re.findall(r"^  ([a-z]+)  ", short.out, re.M) == [*registry.FIRST]
    assert "memory-mcp --help --all" in " ".join(short.out.split())
    assert cli("help").out == short.out
    assert cli("help", "show").out == cli("show", "--help").out
    shown = cli("--help", "--all").out
    assert cli("--version").out == f"memory-mcp {__version__}\n"
    described = [*registry.FIRST, *(name for names in registry.GROUPS.values() for name in names)]
    assert re.findall(r"^  ([a-z]+)  ", shown, re.M) == described
    assert len(described) == 30
    named = [name for names in registry.group_further().values() for name in names]
    assert sorted([*described, *named]) == sorted(registry.describe_commands())
    for title, names in registry.group_further().items():
        assert f"{title}: {', '.join(names)}" in " ".join(shown.split())


@pytest.mark.usefixtures("processes")
def test_building_the_arguments_loads_no_engine() -> None:
    script = (
        "import sys; from memory_mcp.cli.main import build_parser; build_parser(); "
        "print([m for m in ('duckdb', 'mcp', 'numpy', 'rich', 'pydantic', 'anyio', 'memory_mcp.app') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=PATIENCE, check=True)
    assert done.stdout.strip() == "[]"


#: Runs the program and says on stderr which modules that loaded.
LOADED = """
import sys
from memory_mcp.__main__ import main
sys.argv = ["memory-mcp", *sys.argv[1:]]
try:
    sys.exit(main())
finally:
    print(*sys.modules, file=sys.stderr)
"""
#: What a command line needs before any command is known.
_FRONT = "__main__ cli cli.commands cli.commands.base cli.commands.registry cli.main cli.render base base.environment base.errors"
FRONT = {"memory_mcp", "memory_mcp.model", "memory_mcp.model.sentinel", *(f"memory_mcp.{name}" for name in _FRONT.split())}
LIGHT = {"memory_mcp.base.paths", "memory_mcp.service.client.door", "memory_mcp.base.machine", "memory_mcp.base.ownership"}
#: What looks through every line that is printed; on the standard library alone.
FENCE = {"memory_mcp.base.patterns", "memory_mcp.model.fencing", "memory_mcp.model.lookalikes"}


@pytest.mark.parametrize(
    ("argv", "ours"),
    [
        ("--help", set()),
        ("--version", set()),
        ("config --help", {"memory_mcp.cli.commands.config"}),
        (
            "daemon status",
            {
                "memory_mcp.cli.commands.daemon",
                "memory_mcp.service",
                "memory_mcp.service.client",
                "memory_mcp.service.client.link",
                *LIGHT,
                *FENCE,
            },
        ),
    ],
)
@pytest.mark.usefixtures("processes")
def test_help_version_and_status_load_next_to_nothing(argv: str, ours: set[str], tmp_path: Path) -> None:
    with Beside(tmp_path, more=SERVED) as place:
        if argv == "daemon status":
            place.ok("daemon", "start")
        command = [sys.executable, "-c", LOADED, "--data-dir", str(place.directory), *argv.split()]
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=True)
    assert done.stdout
    loaded = set(done.stderr.split())
    assert {m for m in loaded if m.split(".")[0] == "memory_mcp"} == FRONT | ours
    assert not {"dataclasses", "inspect", "asyncio", "ssl", "email.message"} & loaded


def test_help_is_the_same_whether_one_command_was_loaded_or_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    whole = build_parser()
    assert build_parser([]).format_help() == whole.format_help()
    for name, parser in whole.choices().items():
        one = build_parser([name])
        assert one.format_help() == whole.format_help()
        assert one.choices()[name].format_help() == parser.format_help()


def test_every_command_explains_itself(cli: Cli) -> None:
    for name in build_parser().choices():
        shown = cli(name, "--help")
        assert shown.status == 0
        about = registry.describe_commands()[name]
        assert " ".join(shown.out.split()).count(about[0].upper() + about[1:] + ".") == 1


@pytest.mark.usefixtures("processes")
def test_a_group_without_a_word_shows_its_state_and_what_else_it_does(memory: Cli) -> None:
    for name, alone in registry.STATE_COMMANDS.items():
        done = memory(name)
        assert done.status == 0, name
        assert f"Also: memory-mcp {name} " in done.err, name
        assert memory(name, "--json").data.keys() == memory(*alone.split(), "--json").data.keys()


@pytest.mark.parametrize("before", [True, False])
def test_flags_stand_before_or_after_the_command(cli: Cli, copy: Path, before: bool) -> None:
    flags = ("--data-dir", str(copy), "--json")
    argv = (*flags, "query", "root") if before else ("query", "root", *flags)
    assert cli(*argv).data["node"]["events"] == EVENTS


def test_an_unknown_command_names_the_nearest(cli: Cli) -> None:
    done = cli("serch", "x")
    assert (done.status, "Did you mean search (" in done.err) == (2, True)


#: By command: what is no request, as it is typed behind it.
WRONG = {
    "search": (
        *("", "--query '  '", "a --query b", "a --level decade", "a --limit 0", "a --limit many", "a --cursor nonsense"),
        *("x --fields colour", "a --node toc:year:2026 --parent toc:year:2026", "a --node toc:year:1999", "a --parent nonsense"),
    ),
    "query": (
        *("node toc:day:1999-01-01", "node toc:day:2026-02-31", "nodes", "browse --limit 0", "expand-grip what"),
        *("expand-grip grip:1:0000000000000000", "expand-grip grip:1:0000000000000000 --before -1"),
        *("events --since 2026-02-01 --until 2026-01-01", "events --cursor nonsense", "events --limit 0"),
    ),
    "navigate": ("''", "x --limit 0", "x --beam-width 9", "x --since soonish"),
}


@pytest.mark.parametrize("line", [f"{command} {words}" for command, several in WRONG.items() for words in several])
def test_a_wrong_request_ends_with_status_two_and_one_line(memory: Cli, line: str) -> None:
    done = memory(*shlex.split(line))
    assert (done.status, done.out) == (2, "")
    assert not re.match(r"[A-Z_]+: ", done.err)
    assert len(done.err.splitlines()) == 1


def test_without_arguments_a_terminal_gets_help(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", type("Terminal", (io.StringIO,), {"isatty": lambda self: True})())
    assert "usage: memory-mcp" in cli().out


def test_without_arguments_a_pipe_gets_the_server(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    served: list[object] = []

    def serve(args: object) -> int:
        served.append(args)
        return 0

    monkeypatch.setattr(sys, "stdin", io.StringIO())
    monkeypatch.setattr("memory_mcp.cli.commands.daemon.run_serve", serve)
    assert cli().status == 0
    assert len(served) == 1


def test_a_locked_store_ends_with_status_three_and_the_holder(cli: Cli, tmp_path: Path) -> None:
    app = App(load({}, {"storage.data_dir": str(tmp_path / "data")}))
    try:
        done = cli("query", "root", "--data-dir", str(tmp_path / "data"))
    finally:
        app.close()
    assert done.status == 3
    assert done.err.startswith("the data directory ")
    assert "process " in done.err


def test_ctrl_c_ends_with_status_130(cli: Cli, monkeypatch: pytest.MonkeyPatch, copy: Path) -> None:
    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("memory_mcp.cli.commands.base.open_memory", stop)
    done = cli("query", "root", "--data-dir", str(copy))
    assert (done.status, done.err) == (130, "stopped\n")


def test_an_unusable_directory_is_one_line_with_status_one(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    done = cli("query", "root", "--data-dir", str(tmp_path / "file" / "below"))
    assert (done.status, len(done.err.splitlines())) == (1, 1)


def test_tracebacks_are_shown_only_when_asked_for(cli: Cli, monkeypatch: pytest.MonkeyPatch, copy: Path) -> None:
    assert "Traceback" not in cli("query", "node", "x", "--data-dir", str(copy)).err
    monkeypatch.setenv("MEMORY_MCP_DEBUG", "1")
    assert "Traceback" in cli("query", "node", "x", "--data-dir", str(copy)).err


def test_an_empty_memory_tells_what_to_do_first(cli: Cli) -> None:
    done = cli("search", "anything", "--data-dir", "new")
    assert (done.status, "memory-mcp import, or set everything up: memory-mcp setup" in done.err) == (0, True)


@pytest.mark.parametrize(
    "argv",
    [
        ("search", "JWT"),
        ("navigate", "JWT"),
        ("query", "root"),
        ("query", "events"),
        ("timeline",),
        ("today",),
        ("query", "node", "toc:year:2026"),
    ],
)
def test_what_is_recalled_carries_its_mark_and_never_comes_back(memory: Cli, argv: tuple[str, ...]) -> None:
    assert remove_own_output(memory(*argv).out) == ""
    assert MARK in memory(*argv, "--json").out


def test_stored_control_characters_never_reach_the_terminal(told: Told) -> None:
    ask = told([said("s", AT, "user", "The \x1b[31mred\x1b[0m \x07 alarm rang")])
    day = "toc:day:2026-03-01"
    for argv in (("search", "alarm"), ("navigate", "alarm"), ("query", "events"), ("timeline",), ("query", "node", day)):
        out = ask(*argv).out
        assert "alarm" in out
        assert not {"\x1b", "\x07"} & set(out)


def test_the_project_of_the_working_directory_bounds_a_search(
    told: Told, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = tmp_path / "harbour"
    here.mkdir()
    ask = told(
        [said(name, AT, "user", f"an alarm in {name}", project) for name, project in (("a", str(here)), ("b", "/elsewhere"))]
    )
    assert len(ask("search", "alarm", "--json").data["results"]) == 2
    monkeypatch.chdir(here)
    bound = ask("search", "alarm", "--json")
    assert (len(bound.data["results"]), "--all searches every project" in bound.err) == (1, True)
    assert len(ask("search", "alarm", "--all", "--json").data["results"]) == 2


def test_neither_a_tag_nor_metadata_of_its_own_hides_a_message(told: Told) -> None:
    """Keys of ours that users' data hold are theirs: with our prefix they are renamed, without it they mean nothing to us."""
    own = {f"{start}{key}": value for start in ("", "memory-mcp:") for key, value in _OWN_KEYS.items()}
    ask = told(
        [
            said("a", AT, "user", "[JIRA-12] The login page shows a blank screen after the session expires"),
            {**said("b", AT, "user", "The photo importer drops the orientation of portrait pictures"), "metadata": own},
        ]
    )
    titles = ask("timeline").out
    assert "login page" in titles
    assert "photo importer" in titles
    (event,) = ask("query", "events", "--session", "b", "--detail", "full", "--json").data["events"]
    assert set(event["metadata"]) == {key if key in _OWN_KEYS and key != "shared_by" else f"~{key}" for key in own}


#: What the program itself may write beside an event's words.
_OWN_KEYS = {
    "record": "notice",
    "compact_summary": "true",
    "leaf": "m9",
    "shared_by": "zoe",
    "pids": "1",
    "kind": "decision",
    "time": "noon",
}


def test_a_stdout_that_is_not_utf8_is_written_to(copy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    raw = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(raw, encoding="ascii"))
    assert main(["timeline", "--data-dir", str(copy)]) == 0
    assert main(["search", "JWT", "--data-dir", str(copy), "--json"]) == 0
    sys.stdout.flush()
    assert raw.getvalue().isascii()
