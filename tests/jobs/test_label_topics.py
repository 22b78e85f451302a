"""Topics named by a language model: by the summarizer's job, behind the nodes and out of the same budget."""

import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from memory_mcp.app import App
from memory_mcp.config import Settings
from memory_mcp.indexes.topics import keeper as keeping
from memory_mcp.indexes.topics.base import TopicName
from memory_mcp.model.ids import TopicId, is_topic_id
from memory_mcp.model.ledger import ModelCall, Outcome
from memory_mcp.model.toc import AGENT
from memory_mcp.requests.scope import Caller
from memory_mcp.requests.spend import GetSpend, get_spend
from memory_mcp.storage.settings import StorageSettings
from memory_mcp.tree.llm.settings import SummarizerSettings
from memory_mcp.upkeep.jobs.base import JobReport
from tests.factories import BILLING, SHOP
from tests.fakes import FakeClock
from tests.llm.scripted import USED, Asked, Script, label_of, labelled, scripted
from tests.topics_material import themed

pytestmark = pytest.mark.usefixtures("processes")

#: Nodes that are due of the material: twelve days, two weeks and a month.
NODES = 15


def opened(place: Path, command: str, clock: FakeClock | None = None, **more: Any) -> App:
    summarizer = SummarizerSettings(**{"command": command, "model": "small", **more})
    return App(Settings(storage=StorageSettings(str(place), "Europe/Berlin"), summarizer=summarizer), clock or FakeClock())


@pytest.fixture
def script() -> Iterator[Script]:
    with scripted() as made:
        yield made


@pytest.fixture(scope="module")
def at_rest(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data directory whose topics have been looked for; nobody was asked about them."""
    place = tmp_path_factory.mktemp("grouped") / "data"
    app = opened(place, "false")
    app.write(themed(), "test")
    app.derivation.run()
    app.topics.rebuild_graph()
    app.close()
    return place


@pytest.fixture
def place(at_rest: Path, data_dir: Path) -> Path:
    """A copy of it."""
    return Path(shutil.copytree(at_rest, data_dir))


@pytest.fixture(scope="module")
def nodes_told(at_rest: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Another, whose nodes have been told; of topics nobody was asked."""
    place = Path(shutil.copytree(at_rest, tmp_path_factory.mktemp("told") / "data"))
    with scripted() as script, pytest.MonkeyPatch.context() as patch:
        patch.setattr("memory_mcp.upkeep.jobs.improve_summaries._LABELS", 0)
        app = opened(place, script.command)
        assert run(app).counts["ok"] == NODES
        app.close()
    return place


@pytest.fixture
def app(nodes_told: Path, data_dir: Path, script: Script) -> Iterator[App]:
    """A copy of that, open."""
    made = opened(Path(shutil.copytree(nodes_told, data_dir)), script.command)
    yield made
    made.close()


def run(app: App) -> JobReport:
    return app.scheduler.run_now("improve_summaries")


def labels(app: App, project: str | None) -> dict[str, tuple[str, str]]:
    """Labels of a scope's areas, and who gave them; of the material each is one topic, which is not asked about by itself."""
    found, _ = app.topics.read_graph().list_topics(app.topics.read_view(project), limit=100)
    return {topic.topic_id: (topic.label, topic.labelled_by) for topic in found}


def asked_for(script: Script) -> list[str]:
    """What was shown of topics, in the order of the questions."""
    return [one.data for one in script.asked if label_of(one.data)]


def rows(app: App) -> list[ModelCall]:
    return [row for row in app.storage.spending.list_calls(0) if is_topic_id(row.node_id)]


def due(app: App) -> list[tuple[str | None, ...]]:
    labeller = app.accelerators.create_labeller()
    assert labeller is not None
    return [one.scopes for one in labeller.topics_to_label("small")]


def test_topics_get_their_labels_behind_the_nodes_the_most_important_first_and_a_projects_from_its_segments_alone(
    place: Path, script: Script
) -> None:
    app = opened(place, script.command)
    before = {project: labels(app, project) for project in (None, SHOP, BILLING)}
    count = len(due(app))
    report = run(app)
    assert report.counts == {"ok": NODES + count, "fallback": 0, "failed": 0, "left": 0}
    shown = [bool(label_of(one.data)) for one in script.asked]
    assert shown == [False] * NODES + [True] * count
    for project, old in before.items():
        new = labels(app, project)
        assert list(new) == list(old)
        assert {by for _, by in new.values()} == {"llm:small"}
        assert len({label for label, _ in new.values()}) == len(new)
        assert all(len(label) <= 50 and label != old[topic][0] for topic, (label, _) in new.items())
    order = list(dict.fromkeys(row.node_id for row in rows(app)))
    assert order == list(before[None])
    assert {(row.model, row.tokens_in, row.outcome, row.reason) for row in rows(app)} == {("small", USED[0], Outcome.OK, "")}
    assert run(app).counts == {"ok": 0, "fallback": 0, "failed": 0, "left": 0}
    labeller, graph = app.accelerators.create_labeller(), app.topics.read_graph()
    assert labeller is not None
    shared = next(t for t in labels(app, SHOP) if t in labels(app, BILLING))
    [names] = [names for names in graph.names if names.topic_id == shared]
    own = {p: names.by_project[p] for p in (SHOP, BILLING)}
    told = {p: next(d for d in asked_for(script) if f"Keywords: {', '.join(own[p].keywords)}\n" in d) for p in own}
    segments = app.storage.toc.get_nodes([link.node_id for link in graph.list_links(shared, app.topics.read_view(None), 100)[0]])
    for project, data in told.items():
        others = {n.title.split(" · ", 1)[-1][:60] for n in segments.values() if n.projects != (project,)}
        ours = {n.title.split(" · ", 1)[-1][:60] for n in segments.values() if n.projects == (project,)}
        assert any(title in data for title in ours)
        assert not any(title in data for title in others - ours)
    app.close()


def test_a_topic_costs_one_question_where_its_words_are_the_same_and_no_two_of_a_scope_get_one_label(
    app: App, script: Script
) -> None:
    scopes = due(app)
    assert (None, SHOP) in scopes
    assert (None,) in scopes
    assert sum(None in one for one in scopes) == len(labels(app, None))
    assert sum(SHOP in one for one in scopes) == len(labels(app, SHOP))
    assert sum(BILLING in one for one in scopes) == len(labels(app, BILLING))
    taken = next(iter(labels(app, None).values()))[0]
    labeller = app.accelerators.create_labeller()
    assert labeller is not None
    first, *rest = [one for one in labeller.topics_to_label("small") if None in one.scopes]
    assert not labeller.is_taken(first, taken)
    assert all(labeller.is_taken(one, taken.upper()) for one in rest)


def test_a_label_made_for_all_is_not_seen_in_one_project(app: App) -> None:
    shared = next(t for t in labels(app, SHOP) if t in labels(app, BILLING))
    before = {project: labels(app, project)[shared] for project in (SHOP, BILLING)}
    labeller = app.accelerators.create_labeller()
    assert labeller is not None
    [one] = [d for d in labeller.topics_to_label("small") if d.topic_id == shared and d.scopes == (None,)]
    assert labeller.publish_label(one, "Login for both", "small")
    assert labels(app, None)[shared] == ("Login for both", "llm:small")
    assert {project: labels(app, project)[shared] for project in (SHOP, BILLING)} == before


def test_what_an_agent_called_a_topic_is_left_alone(app: App) -> None:
    topic = next(iter(labels(app, SHOP)))
    for project in (None, SHOP):
        app.topics.label_topic(topic, "What I call it", project, AGENT)
    run(app)
    assert labels(app, None)[topic] == labels(app, SHOP)[topic] == ("What I call it", AGENT)
    assert topic not in {row.node_id for row in rows(app)}


def test_an_agent_who_names_a_topic_while_the_model_is_asked_wins(app: App, script: Script) -> None:
    topic = next(iter(labels(app, None)))

    def late(asked: Asked) -> str:
        app.topics.label_topic(topic, "Mine", None, AGENT)
        return labelled(label_of(asked.data))

    script.steps.append(late)
    assert run(app).counts["fallback"] == 1
    assert labels(app, None)[topic] == ("Mine", AGENT)
    assert rows(app)[0].reason == "what it is of changed meanwhile"


def test_the_budget_is_one_and_nodes_come_first(place: Path, script: Script) -> None:
    clock = FakeClock()
    app = opened(place, script.command, clock, daily_tokens=NODES * sum(USED) + 5000)
    report = run(app)
    assert report.words.endswith("stopped: the budget of the day does not bear another question")
    told = get_spend(app, GetSpend(), Caller())
    [day] = told.days
    assert (day.asked, day.labels) == (report.counts["ok"], report.counts["ok"] - NODES)
    assert 0 < day.labels < day.labels + report.counts["left"]
    assert told.spent_today == report.counts["ok"] * sum(USED) <= told.daily_tokens
    assert [(one.level, one.count) for one in told.due] == [("topic label", report.counts["left"])]
    clock.advance(24 * 3600)
    assert run(app).counts == {"ok": report.counts["left"], "fallback": 0, "failed": 0, "left": 0}
    app.close()


def test_one_run_asks_for_a_bounded_number_of_labels(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    count = len(due(app))
    monkeypatch.setattr("memory_mcp.upkeep.jobs.improve_summaries._LABELS", 4)
    assert run(app).counts == {"ok": 4, "fallback": 0, "failed": 0, "left": count - 4}
    assert run(app).counts["ok"] == min(4, count - 4)


BAD = ("One line\nand another", "Kubernetes", "x" * 60)


def test_an_answer_that_cannot_be_used_is_remembered_and_the_own_words_stay(app: App, script: Script) -> None:
    before, count = labels(app, None), len(due(app))
    script.steps.extend(map(labelled, BAD))
    assert run(app).counts == {"ok": count - 3, "fallback": 3, "failed": 0, "left": 0}
    told = get_spend(app, GetSpend(), Caller())
    assert {f.reason for f in told.failures} == {
        "not one line",
        "the label is not borne out by the topic's words",
        "longer than 50 characters",
    }
    assert [by for _, by in labels(app, None).values()].count("") > 0
    assert all(now[0] == before[t][0] for t, now in labels(app, None).items() if not now[1])
    assert run(app).counts == {"ok": 0, "fallback": 0, "failed": 0, "left": 0}
    assert told.due == []


def test_an_answer_that_cannot_be_used_in_one_scope_says_nothing_of_another(app: App) -> None:
    labeller = app.accelerators.create_labeller()
    assert labeller is not None
    shared = next(t for t in labels(app, SHOP) if t in labels(app, BILLING))
    all_due = [one for one in labeller.topics_to_label("small") if one.topic_id == shared]
    assert {one.scopes for one in all_due} == {(None,), (SHOP,), (BILLING,)}
    whole = next(one for one in all_due if one.scopes == (None,))
    spent = ModelCall(
        app.clock.now_ms(), TopicId(shared), whole.request_basis, "small", 1, 1, False, Outcome.FALLBACK, "not one line", 1
    )
    app.storage.spending.record_call(spent)
    assert {one.scopes for one in labeller.topics_to_label("small") if one.topic_id == shared} == {(SHOP,), (BILLING,)}
    assert {one.scopes for one in labeller.topics_to_label("another") if one.topic_id == shared} == {(None,), (SHOP,), (BILLING,)}


def test_a_graph_that_is_lost_while_the_model_is_asked_costs_no_row(
    app: App, script: Script, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = Path(app.settings.storage.data_dir) / "indexes" / "topics"

    def lose(asked: Asked) -> str:
        shutil.rmtree(folder)
        monkeypatch.setattr(keeping, "_LOOK", -1.0)
        return labelled(label_of(asked.data))

    script.steps.append(lose)
    assert run(app).counts == {"ok": 0, "fallback": 1, "failed": 0, "left": 0}
    assert [row.tokens_in for row in rows(app)] == [USED[0]]


@pytest.mark.slow  # in the short form: a second run that asks nothing, above.
def test_one_more_segment_asks_nothing_and_other_words_bring_the_own_label_back(
    app: App, script: Script, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = labels(app, None)
    run(app)
    named, asked = labels(app, None), len(asked_for(script))
    app.write(themed(1, start=72), "test")
    app.derivation.run()
    assert labels(app, None) == named
    assert due(app) == []
    app.topics.rebuild_graph()
    assert {t: by for t, (_, by) in labels(app, None).items()} == dict.fromkeys(before, "llm:small")
    run(app)
    assert len(asked_for(script)) == asked
    keeper = app.topics.keeper
    graph = keeper.get_graph()
    topic = next(iter(named))
    place = next(n for n, names in enumerate(graph.names) if names.topic_id == topic)
    changed = list(graph.names)
    changed[place] = replace(changed[place], overall=TopicName("something else", ("turned", "into")))
    monkeypatch.setattr(keeper, "get_graph", lambda: replace(graph, names=tuple(changed)))
    assert labels(app, None)[topic] == ("something else", "")
    assert (None,) in due(app)


@pytest.mark.slow  # in the short form: a question that is not asked again, above.
def test_labels_outlive_a_restart_and_a_regrouping(place: Path, script: Script) -> None:
    first = opened(place, script.command)
    run(first)
    named = {project: labels(first, project) for project in (None, SHOP, BILLING)}
    first.close()
    second = opened(place, script.command)
    assert {project: labels(second, project) for project in named} == named
    second.topics.rebuild_graph()
    assert {project: labels(second, project) for project in named} == named
    assert run(second).counts["ok"] == 0
    second.close()


def test_nothing_is_asked_or_loaded_where_no_model_is_named_or_topics_are_off(place: Path, script: Script) -> None:
    app = opened(place, "", model="")
    assert run(app).words == "off: summarizer.command is not set"
    assert {by for _, by in labels(app, None).values()} == {""}
    assert get_spend(app, GetSpend(), Caller()).due == []
    assert (script.asked, app.storage.topics.list_labels()) == ([], [])
    app.close()
