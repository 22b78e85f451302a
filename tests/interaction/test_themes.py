"""An overview answered by themes: what they hold, what they cost, whose words they are, and that nothing else depends on them."""

import atexit
import functools
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from memory_mcp.app import App
from memory_mcp.config import ServerSettings, Settings
from memory_mcp.embed.settings import EmbedderSettings
from memory_mcp.indexes.settings import IndexSettings, TeleportSettings, TopicsSettings, VectorSettings
from memory_mcp.requests.answers import Theme
from memory_mcp.search.layers.base import NO_TOPIC, Query
from memory_mcp.storage.settings import StorageSettings
from tests.acceptance.test_policy_table import tokens
from tests.factories import BILLING, SHOP, ms
from tests.fakes import FakeClock
from tests.interaction.conftest import Door
from tests.interaction.test_lean import ANSWER
from tests.requirements import requirement
from tests.topics_material import PROJECTS, THEMES, themed
from tests.waiting import until

OVERVIEW = "What are the recurring themes?"
BY_TERMS = TeleportSettings(vector=VectorSettings(enabled=False))
#: Of every intent, browsing and not, with and without a time, answered by themes or by none.
QUESTIONS: tuple[dict[str, Any], ...] = (
    {"query": OVERVIEW},
    {"query": "What have I been working on last week?", "as_of": "2026-01-16"},
    {"query": "What were the recurring themes?", "since": "2026-01-07", "until": "2026-01-09"},
    {"query": "What topics came up about photosynthesis in orchids?"},
    {"query": "What themes came up about the passkey enrolment in January?", "project": BILLING},
    {"query": "What have I been working on?"},
    {"query": "What have I been working on?", "role": "user"},
    {"query": "What have I been working on?", "agent": "codex"},
    {"query": "How did we fix the stock deduction?"},
    {"query": 'Find "VAT for Norway"'},
    {"query": "Within 4 seconds: thumbnail cropping"},
)
#: Asked one layer after the other alone: side by side it depends on the moment which path gets the last node.
NARROW: tuple[dict[str, Any], ...] = (
    {"query": "password reset", "intent": "explore", "bounds": {"max_nodes_visited": 5, "max_rpc_calls": 2}},
    {"query": "the cause is the passkey", "intent": "explore", "bounds": {"max_rpc_calls": 1}},
    {"query": OVERVIEW, "bounds": {"max_nodes_visited": 3}},
)
MODES = ("sequential", "parallel", "hybrid")


def over(place: Path, teleport: TeleportSettings, topics: TopicsSettings | None = None) -> App:
    settings = Settings(
        storage=StorageSettings(str(place), "Europe/Berlin"),
        server=ServerSettings(profile="full"),
        teleport=teleport,
        embedder=EmbedderSettings(),
        topics=topics or TopicsSettings(),
    )
    return App(settings, FakeClock())


@pytest.fixture(scope="module", params=["all layers", "by terms", "topics alone"])
def pair(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[App, App]]:
    """The same memory with its topics, and with topics switched off."""
    teleport = {
        "all layers": TeleportSettings(),
        "by terms": BY_TERMS,
        "topics alone": TeleportSettings(bm25=IndexSettings(enabled=False), vector=VectorSettings(enabled=False)),
    }[request.param]
    root = tmp_path_factory.mktemp("pair")
    for name in ("on", "off"):
        shutil.copytree(at_rest(teleport), root / name)
    on, off = over(root / "on", teleport), over(root / "off", teleport, TopicsSettings(enabled=False))
    yield on, off
    on.close()
    off.close()


def filled(place: Path, teleport: TeleportSettings, count: int = 72) -> App:
    """A memory at rest, grouped if it is large enough."""
    app = over(place, teleport)
    app.write(themed(count), "test")
    app.derivation.run()
    app.accelerators.catch_up()
    if app.scheduler.run_now("group_topics").counts["begun"]:
        keeper = app.accelerators.find_topic_keeper()
        assert keeper is not None
        until(lambda: keeper.status().last_rebuild_secs is not None or keeper.last_error, "for topics")
    return app


@functools.cache
def at_rest(teleport: TeleportSettings) -> Path:
    """The directory of a grouped memory that is filled once, and copied for whoever wants one."""
    place = Path(tempfile.mkdtemp()) / "data"
    atexit.register(shutil.rmtree, place.parent, ignore_errors=True)
    filled(place, teleport).close()
    return place


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Iterator[App]:
    """Every layer, at rest."""
    place = tmp_path_factory.mktemp("whole") / "data"
    app = over(Path(shutil.copytree(at_rest(TeleportSettings()), place)), TeleportSettings())
    yield app
    app.close()


@pytest.fixture
def door(whole: App, era: str) -> Door:
    return Door(whole, era)


# themes


@requirement("contract:layer-5", "policy:chain-explore")
@pytest.mark.usefixtures("processes")
def test_an_overview_tells_themes_over_time_with_examples_within_nine_hundred_tokens(door: Door) -> None:
    found = door.ok("intelligent_search", query=OVERVIEW)
    why = door.full("intelligent_search", query=OVERVIEW)["explanation"]
    assert (why["intent"], why["tier_used"], why["method_used"]) == ("explore", 1, "topics+agentic")
    assert not why["fallback_occurred"]
    assert "skipped" not in why or why["skipped"] == []
    assert tokens(found) <= ANSWER
    assert len(found["themes"]) == len(THEMES)
    assert len({theme["theme"] for theme in found["themes"]}) == len(THEMES)
    for theme in found["themes"]:
        assert {"theme", "when", "segments", "quote", "grip", "topic"} <= set(theme) <= {*Theme.__dataclass_fields__}
        assert (theme["when"], theme["segments"]) == ("2026-01-05/2026-01-16", 12)
        assert 0 < len(theme["theme"]) <= 50
    assert found["results"], "what happened is listed beside them"


def test_every_grip_of_a_theme_expands_to_the_words_quoted(door: Door) -> None:
    for asked in (OVERVIEW, "What are the recurring themes around the refund posting?"):
        for theme in door.ok("intelligent_search", query=asked)["themes"]:
            grip = door.ok("expand_grip", grip_id=theme["grip"])["grip"]
            assert theme["quote"].rstrip("…").strip() in grip["quote"]


def test_a_theme_that_is_asked_about_comes_first_and_its_example_names_it(door: Door) -> None:
    for theme, words in THEMES.items():
        found = door.ok("intelligent_search", query=f"What are the recurring themes around {words[0]}?")
        first = found["themes"][0]
        assert any(word in first["theme"] or first["theme"] in word for word in words), (theme, first)
        quoted = door.ok("expand_grip", grip_id=first["grip"])["grip"]["quote"]
        assert any(word in quoted for word in words)
    why = door.full("intelligent_search", query=f"What are the recurring themes around {words[0]}?")["explanation"]
    assert why["method_used"].startswith("topics+")


@requirement("contract:guarantee-respects-intent")
@pytest.mark.parametrize("intent", ["answer", "locate", "time_boxed"])
def test_only_what_explores_is_told_themes(door: Door, intent: str) -> None:
    found = door.full("intelligent_search", query="the refund posting and the journal balance", intent=intent)
    assert "themes" not in found or found["themes"] == []
    assert "topics" not in found["explanation"]["method_used"]


@pytest.mark.parametrize("project", [SHOP, BILLING])
def test_themes_of_a_project_hold_no_word_of_another(door: Door, project: str) -> None:
    foreign = [word for theme, projects in PROJECTS.items() if project not in projects for word in THEMES[theme]]
    own = [theme for theme, projects in PROJECTS.items() if project in projects]
    asked = [OVERVIEW, f"What are the recurring themes around the {foreign[0]} and the login form?"]
    for query in asked:
        found = door.ok("intelligent_search", query=query, project=project)
        text = str(found["themes"])
        assert not [word for word in foreign if word in text]
    found = door.ok("intelligent_search", query=OVERVIEW, project=project)
    assert len(found["themes"]) == len(own)
    assert {t["segments"] for t in found["themes"]} == {12, 6}, "of the theme of both a project has its half"


def test_themes_of_an_agent_and_of_a_time_are_counted_from_these_alone(door: Door) -> None:
    of_codex = door.ok("intelligent_search", query=OVERVIEW, agent="codex")["themes"]
    assert sorted(t["segments"] for t in of_codex) == [6, 12, 12]
    of_days = door.ok("intelligent_search", query=OVERVIEW, since="2026-01-07", until="2026-01-09")["themes"]
    assert {(t["when"], t["segments"]) for t in of_days} == {("2026-01-07/2026-01-09", 3)}
    for theme in of_days:
        at = int(theme["grip"].split(":")[1])
        assert ms("2026-01-07 00:00") <= at < ms("2026-01-10 00:00"), "an example lies in the time asked about"
    nothing = door.ok("intelligent_search", query=OVERVIEW, since="2025-01-07", until="2025-01-09")
    assert "themes" not in nothing or nothing["themes"] == []


def test_what_a_role_or_a_speaker_said_is_told_by_no_theme(door: Door) -> None:
    assert door.app.ask(Query(OVERVIEW)).themes
    assert door.app.ask(Query(OVERVIEW, speaker="Ada")).themes == ()
    found = door.full("intelligent_search", query=OVERVIEW, role="user")
    assert "themes" not in found or found["themes"] == []
    (skipped,) = (s for s in found["explanation"]["skipped"] if s["layer"] == "topics")
    assert skipped["reason"]
    assert found["explanation"]["fallback_occurred"]


def test_a_question_about_nothing_that_the_memory_holds_is_told_no_theme_and_that_none_fits(door: Door) -> None:
    for query in (
        "What topics came up about photosynthesis in orchids?",
        "recurring themes around the blast furnace chemistry",
        "What have we done about beekeeping?",
        "Welche Themen gab es rund um den Segelflug?",
        "关于养蜂我们讨论了什么主题？",
        "養蜂について何を話しましたか",
    ):
        answer = door.ok("intelligent_search", query=query, intent="explore")
        assert "themes" not in answer, query
        assert NO_TOPIC in answer["explanation"]["notices"]
        topics = door.ok("topics_by_query", query=query)
        assert topics["topics"] == []
        assert topics["notices"][0].startswith(NO_TOPIC)


def test_what_a_question_asks_about_is_judged_without_the_words_that_ask(door: Door) -> None:
    for query in (
        "How did the passkey enrolment evolve?",
        "Welche Themen gab es zum Passkey?",
        "关于 passkey 我们讨论了什么主题？",
    ):
        topics = door.ok("topics_by_query", query=query)["topics"]
        assert topics, query
        assert all("passkey" in " ".join([*topic["keywords"], *(n["text"] for n in topic["nodes"])]) for topic in topics[:1])
    assert door.ok("intelligent_search", query="Sum up everything we built in a few bullet points.", intent="explore")["themes"]


def test_pages_behind_the_first_repeat_no_theme(door: Door) -> None:
    query = "What are the recurring themes around the login form?"
    first = door.ok("intelligent_search", query=query, limit=2)
    second = door.ok("intelligent_search", query=query, limit=2, cursor=first["next_cursor"])
    assert first["themes"]
    assert "themes" not in second or second["themes"] == []
    assert second["results"]


@pytest.mark.parametrize("count", [1, pytest.param(49, marks=pytest.mark.slow)])
def test_a_memory_too_small_for_topics_is_of_tier_two_and_says_how_small(tmp_path: Path, era: str, count: int) -> None:
    with closing(filled(tmp_path / "data", TeleportSettings(), count)) as app:
        told = Door(app, era).ok("get_retrieval_status")
        found = Door(app, era).full("intelligent_search", query=OVERVIEW)
    (topics,) = (one for one in told["layers"] if one["name"] == "topics")
    reason = f"topics are looked for from 50 segments on; there {'is' if count == 1 else 'are'} {count}"
    assert (told["tier"], topics["enabled"], topics["healthy"], topics["reason"]) == (2, True, False, reason)
    assert {"layer": "topics", "reason": reason} in found["explanation"]["skipped"]
    assert found["explanation"]["tier_used"] == 2
    assert "themes" not in found or found["themes"] == []


# switched off


def rest(found: dict[str, Any], mode: str) -> dict[str, Any]:
    """An answer without what topics may change: tier, who answered, why topics were passed over, that none fits, and themes."""
    why = dict(found["explanation"])
    why["skipped"] = [s for s in why.get("skipped", []) if s["layer"] != "topics"]
    why["tried"] = [{**t, "ms": 0} for t in why.get("tried", []) if t["layer"] != "topics"]
    unnamed = (n.replace("topics, ", "").replace(", topics", "") for n in why.get("notices", []))
    why["notices"] = [n.replace("used topics;", "used TOC navigation;") for n in unnamed if n != NO_TOPIC]
    why["method_used"] = why["method_used"].removeprefix("topics+") if found["results"] else ""
    # Side by side it depends on the moment how far a path came that was not needed any more, and so who is named.
    if mode != "sequential":
        why["notices"] = [n.partition(": used ")[0] for n in why["notices"]]
    work = "method_used tried skipped arbitration nodes_visited rpc_calls depth bounds bounds_hit path".split()
    changing = {"themes", *(() if mode == "sequential" else ("complete",))}
    for name in ("tier_used", "fallback_occurred", "elapsed_ms", *(() if mode == "sequential" else work)):
        why.pop(name, None)
    return {**{k: v for k, v in found.items() if k not in changing}, "explanation": why}


@requirement("contract:guarantee-respects-configuration")
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.few(2)
def test_switched_off_everything_but_the_themes_is_as_with_them(pair: tuple[App, App], mode: str) -> None:
    on, off = (Door(app, "auto") for app in pair)
    told = 0
    for asked in (*QUESTIONS, *(NARROW if mode == "sequential" else ())):
        one, other = (d.full("intelligent_search", mode=mode, token_budget=8000, **asked) for d in (on, off))
        told += bool(one.get("themes"))
        assert not other.get("themes")
        assert rest(one, mode) == rest(other, mode), asked
        assert one["explanation"]["tier_used"] <= other["explanation"]["tier_used"]
    assert told >= 4


@pytest.mark.few(1)
def test_why_topics_are_not_used_is_told_where_they_are_off(pair: tuple[App, App]) -> None:
    found = Door(pair[1], "auto").full("intelligent_search", query=OVERVIEW)
    assert {"layer": "topics", "reason": "disabled (topics.enabled = false)"} in found["explanation"]["skipped"]
    assert found["explanation"]["fallback_occurred"]
