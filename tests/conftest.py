"""What every part of the tree shares; kept light, because each folder that needs more has a conftest of its own."""

import gc
import itertools
import os
import sys
import tomllib
from collections import Counter
from collections.abc import Callable, Generator, Iterator
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

import hypothesis
import pytest
from hypothesis.internal.conjecture import providers

# A test that wants the background process says so; all others open the store themselves.
os.environ["MEMORY_MCP_SERVER__DAEMON"] = "false"
# Likewise for the indexes, which a server builds in the background: most tests are about what works without them.
os.environ["MEMORY_MCP_TELEPORT__ENABLED"] = "false"
# Else argparse looks for a translation of each of its words in each run of a command, some hundred files.
os.environ["LANGUAGE"] = "C"
# The processes that tests start share compiled modules; without them each spends a third of its time compiling.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

from memory_mcp.base import extensions
from tests.examples import CI
from tests.fakes import FakeClock

if TYPE_CHECKING:
    from playwright.sync_api import Browser

    from memory_mcp.app import App
    from memory_mcp.storage.base import Storage
    from memory_mcp.storage.settings import StorageSettings
    from tests.postgres import Cluster

pytest.register_assert_rewrite("tests.storage.suite", "tests.indexes.helpers")

#: Tenants of the database that tests share.
_TENANTS = itertools.count(1)
_HERE = str(Path(__file__).parent)
LONG_FORM = "a long form: run with --slow"

# The same examples in every run: a failure on one machine is a failure on all. `--slow` looks further.
_COMMON: dict[str, Any] = {
    "deadline": None,
    "database": None,
    "suppress_health_check": [hypothesis.HealthCheck.function_scoped_fixture, hypothesis.HealthCheck.too_slow],
}
# The program's own words are no examples: which are drawn would depend on what other tests have loaded, and to read its seven
# hundred modules for them takes seconds.
vars(providers)["is_local_module_file"] = lambda _path: False
hypothesis.settings.register_profile("ci", derandomize=True, max_examples=CI, **_COMMON)
hypothesis.settings.register_profile("nightly", max_examples=10 * CI, **_COMMON)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--data", type=Path, help="folder with other people's data, for the tests that measure on it")
    parser.addoption("--slow", action="store_true", help="also run the long forms, with random examples")


def pytest_configure(config: pytest.Config) -> None:
    _require_entry_points()
    hypothesis.settings.load_profile("nightly" if config.getoption("--slow", default=False) else "ci")


def _require_entry_points() -> None:
    """What is installed must have the entry points of pyproject.toml: an older installation lacks commands and settings."""
    project = tomllib.loads((Path(_HERE).parent / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    installed = metadata.distribution(project["name"]).entry_points
    declared = {(group, name, value) for group, rows in project["entry-points"].items() for name, value in rows.items()}
    if missing := declared - {(point.group, point.name, point.value) for point in installed}:
        command = f"{sys.executable} -m pip install -q --no-deps -e ."
        raise pytest.UsageError(f"entry points that are not installed: {min(missing)}. Install again: {command}")


#: Files that took a processor longest, longest first, and folders whose tests start processes: they begin first, so that no
#: worker is left alone with one.
LONGEST = (
    *("web/test_in_a_browser.py", "team/test_isolation.py", "acceptance/test_forget.py", "acceptance/test_field_forgotten.py"),
    *("daemon/test_backup.py", "team/test_servers.py", "team/sharing/test_processes.py", "team/sharing/test_exchange.py"),
)
_FIRST = ("acceptance", "daemon")

#: Tests whose parameter sets each start processes for seconds and vary only what is done to them: how many sets the short form
#: runs, the first of each; the others are left to the long form.
FAMILIES = {
    "acceptance/test_forget.py::test_a_database_lost_while_something_is_forgotten_is_a_loss_of_all_but_that": 2,
    "acceptance/test_forget.py::test_a_killed_forget_is_carried_on": 1,
    "acceptance/test_index_kill.py::test_killed_at_any_point_the_index_goes_on_as_if_nothing_had_happened": 2,
    "acceptance/test_kill.py::test_killed_at_any_point_the_store_goes_on_as_if_nothing_had_happened": 2,
    "acceptance/test_mistakes.py::test_a_mistake_is_answered_the_same_where_a_daemon_is_used": 2,
    "acceptance/test_topics_kill.py::test_killed_at_any_point_of_grouping_the_memory_goes_on_and_its_ids_lead_on": 1,
    "daemon/test_backup.py::test_a_backup_that_is_killed_leaves_the_others_and_the_next_one_whole": 1,
    "daemon/test_backup.py::test_a_restore_that_is_killed_loses_nothing_and_can_be_done_again": 1,
    "daemon/test_carry.py::test_a_merge_doubles_nothing_that_had_something_taken_out_of_it": 1,
    "daemon/test_children_killed.py::test_a_child_that_is_sent_a_signal_costs_no_more_than_its_work": 1,
    "daemon/test_damage.py::test_a_damaged_column_costs_no_more_than_what_nothing_else_tells": 1,
    "daemon/test_damage.py::test_a_damaged_log_costs_one_write_and_every_call_is_answered": 1,
    "daemon/test_http_fence.py::test_no_error_repeats_a_tag": 16,
    "daemon/test_http_scope.py::test_an_id_of_another_project_does_not_exist": 12,
    "daemon/test_http_scope.py::test_nothing_but_its_own_project_can_be_named_or_is_told": 22,
    "daemon/test_lines.py::test_clients_that_came_while_another_process_had_the_store_go_over_to_one_daemon": 1,
    "daemon/test_links.py::test_a_file_that_has_a_name_elsewhere_is_named_and_not_written": 1,
    "daemon/test_links.py::test_a_pipe_in_the_data_directory_keeps_nobody": 4,
    "daemon/test_links.py::test_neither_a_socket_nor_a_device_keeps_anybody": 2,
    "daemon/test_loss.py::test_every_kind_of_loss_is_told_until_a_person_acknowledges_it": 1,
    "daemon/test_pump.py::test_a_write_in_flight_when_the_daemon_dies_is_applied_once": 1,
    "daemon/test_tiers.py::test_a_start_waits_for_no_damaged_index_and_damage_lowers_the_tier_until_it_comes_back": 1,
    "derive/test_derivation.py::test_a_run_ends_while_somebody_goes_on_writing": 2,
    "derive/test_derivation.py::test_only_the_levels_asked_for_are_brought_up_to_date": 2,
    "derive/test_rebuild.py::test_in_another_zone_days_move_and_every_old_id_still_leads_to_its_segment": 1,
    "derive/test_rebuild.py::test_what_was_broken_is_put_right": 4,
    "forgetting/test_act.py::test_what_is_left_equals_a_memory_that_never_had_it": 4,
    "indexes/test_generation.py::test_any_damage_to_any_file_is_a_status_and_never_an_exception": 3,
    "indexes/test_generation.py::test_nonsense_under_a_checksum_that_holds_is_a_status_too": 3,
    "indexes/test_generation.py::test_without_stamps_every_file_is_verified_again": 2,
    "indexes/test_keeper.py::test_a_failed_commit_is_logged_counted_told_and_tried_again_later_each_time": 2,
    "indexes/test_shown.py::test_a_scan_reads_the_segments_that_hold_the_whole_words": 3,
    "indexes/topics/test_keeper.py::test_damage_met_at_the_start_is_never_believed": 1,
    "indexes/topics/test_keeper.py::test_damage_under_a_running_process_is_noticed_told_and_healed_by_the_next_grouping": 1,
    "ingest/test_chats_of_others.py::test_memory_holds_a_conversation_and_never_the_export": 2,
    "ingest/test_claude_code.py::test_long_odd_texts_are_unwrapped_in_time": 5,
    "ingest/test_importers.py::test_memory_stays_flat_over_a_large_file": 2,
    "ingest/test_reading_pool.py::test_children_give_what_reading_here_gives": 1,
    "ingest/test_redact.py::test_four_megabytes_are_redacted_to_their_end": 1,
    "ingest/test_redact.py::test_time_grows_with_the_text_only": 4,
    "interaction/test_escalation.py::test_a_text_that_is_stored_word_for_word_is_found_before_everything_else": 1,
    "interaction/test_promises.py::test_twelve_pages_beside_a_writer_repeat_and_lose_nothing": 1,
    "interaction/test_themes.py::test_switched_off_everything_but_the_themes_is_as_with_them": 2,
    "interaction/test_themes.py::test_why_topics_are_not_used_is_told_where_they_are_off": 1,
    "jobs/test_improve_summaries.py::test_a_useless_answer_leaves_the_node_and_is_not_asked_for_again": 1,
    "question/test_intent.py::test_no_text_makes_it_slow": 5,
    "question/test_timehints.py::test_repetitive_text_costs_no_more_for_each_character_the_longer_it_is": 4,
    "team/sharing/test_processes.py::test_a_laptop_that_is_killed_sends_once_more_what_is_known_there": 1,
    "team/sharing/test_processes.py::"
    "test_a_server_that_ends_around_its_commit_or_in_a_forgetting_loses_doubles_and_keeps_nothing": 1,
    "team/sharing/test_unshared.py::test_a_project_that_becomes_another_name_of_a_shared_one_waits_until_that_is_said_again": 1,
    "storage/test_archive.py::test_cuts_that_are_lost_are_made_anew": 1,
    "storage/test_archive.py::test_rows_that_speak_of_what_is_lost_go_with_it": 1,
    "storage/test_duckdb.py::test_a_damaged_file_is_set_aside_the_loss_is_told_and_can_be_put_right": 2,
    "storage/test_salvage.py::test_a_stretch_of_a_block_costs_what_is_read_with_it_and_no_more_where_a_salvage_was_killed": 1,
    "team/test_failures.py::test_while_the_database_is_away_calls_are_unavailable_and_everything_goes_on_later": 1,
    "team/test_isolation.py::test_answers_about_a_members_own_memory_hold_its_words_and_nobody_elses": 1,
    "web/test_acts.py::test_no_act_is_done_without_the_visit_s_token_or_for_another_page": 6,
    "web/test_hostile.py::test_what_an_address_says_is_no_better": 1,
    "web/test_search_page.py::test_nothing_stored_or_asked_becomes_markup": 1,
    "web/test_search_page.py::test_what_is_missing_comes_by_the_link_that_says_how": 3,
    "web/test_visits.py::test_a_form_without_the_visits_token_does_nothing": 2,
    "web/test_visits.py::test_an_address_without_its_cookie_and_a_cookie_without_its_address_open_nothing": 4,
}


def _file(item: pytest.Item) -> str:
    return str(item.path)[len(_HERE) + 1 :].replace(os.sep, "/")


def _turn(item: pytest.Item) -> tuple[int, bool]:
    name = _file(item)
    return LONGEST.index(name) if name in LONGEST else len(LONGEST), item.path.parent.name not in _FIRST


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """What is collected stays to the end: nobody looks for garbage in it, now or later."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    items.sort(key=_turn)
    if config.getoption("--slow", default=False) or "slow" in (config.getoption("markexpr", default="") or ""):
        return
    seen = Counter[str]()
    for item in items:
        family = f"{_file(item)}::{item.name.partition('[')[0]}"
        seen[family] += not item.get_closest_marker("slow")
        if item.get_closest_marker("slow") or seen[family] > FAMILIES.get(family, seen[family]):
            item.add_marker(pytest.mark.skip(reason=LONG_FORM))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say what was left to the long form, and how to run it."""
    reports = terminalreporter.stats.get("skipped", [])
    left = Counter(r.nodeid.partition("::")[0] for r in reports if isinstance(r.longrepr, tuple) and LONG_FORM in r.longrepr[2])
    if left:
        terminalreporter.section("left to the long form")
        for path, count in sorted(left.items()):
            terminalreporter.write_line(f"{count:4} {path}")
        terminalreporter.write_line(f"{left.total()} tests, and ten times the examples of the others: python -m tests --slow")


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    return tmp_path / "data"


@pytest.fixture
def storage(clock: FakeClock) -> "Iterator[Storage]":
    from memory_mcp.storage.duckdb import open_storage

    opened = open_storage(None, "Europe/Berlin", clock)
    yield opened
    opened.close()


@pytest.fixture
def app(clock: FakeClock) -> "Iterator[App]":
    from memory_mcp.app import App
    from memory_mcp.config import Settings
    from memory_mcp.storage.settings import StorageSettings

    opened = App(Settings(storage=StorageSettings(timezone="Europe/Berlin")), clock, in_memory=True)
    yield opened
    opened.close()


@pytest.fixture(scope="module")
def browser() -> "Iterator[Browser]":
    """Chromium; ended with the module, because other tests of the worker run event loops."""
    from tests.browser import launched

    with launched() as found:
        yield found


@pytest.fixture(scope="session")
def cluster() -> "Iterator[Cluster]":
    """One PostgreSQL for all tests of a process that do not stop it: making one takes a second."""
    from tests.postgres import Cluster, programs

    if programs() is None:
        pytest.skip("PostgreSQL is not installed; Debian's package postgresql brings it")
    made = Cluster()
    yield made
    made.close()


@pytest.fixture(scope="session")
def database_url(cluster: "Cluster") -> str:
    """The address of an empty database of PostgreSQL, in which memories are tenants of their own."""
    return cluster.create()


ENGINES = ["duckdb", *extensions.names(extensions.STORAGE)]


@pytest.fixture(params=ENGINES)
def kept_in(request: pytest.FixtureRequest) -> "Iterator[Callable[[], StorageSettings]]":
    """Where memories of a test are kept: in each engine, every one in a place of its own."""
    from tests.toc.helpers import close_all

    yield _places(str(request.param), request)
    close_all()


@pytest.fixture(params=ENGINES)
def carried_to(request: pytest.FixtureRequest) -> "Callable[[], StorageSettings]":
    """As `kept_in`, for memories that are made of another one."""
    return _places(str(request.param), request)


def _places(engine: str, request: pytest.FixtureRequest) -> "Callable[[], StorageSettings]":
    from memory_mcp.storage.settings import StorageSettings

    url = request.getfixturevalue("database_url") if engine == "postgres" else ""
    return lambda: StorageSettings(timezone="Europe/Berlin", engine=engine, url=url, tenant=f"test-{next(_TENANTS)}")
