"""The acts over HTTP: each has its effect, seen by another door; refused without a token or from elsewhere; done once."""

import html
import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from memory_mcp.model.event import Role, Trust
from memory_mcp.requests.capturing import ResumeCapture
from memory_mcp.requests.correct import Audit
from memory_mcp.requests.excluding import ListExcluded
from memory_mcp.requests.expand import ExpandRequest
from memory_mcp.requests.jobs import ListJobs
from memory_mcp.requests.material import of_session
from memory_mcp.requests.nodes import GetNode
from memory_mcp.requests.one_topic import GetTopic
from memory_mcp.requests.overview import GetOverview
from memory_mcp.requests.projects import ListProjects
from memory_mcp.requests.scope import Scoped
from memory_mcp.requests.search import SearchRequest
from memory_mcp.requests.topics import TopTopics
from memory_mcp.web.registry import ACTS
from tests.web.acting import BILLING, NAME, SHOP, Served, followed, forms, served
from tests.web.visitor import Visitor

DAY, OTHER_DAY = "toc:day:2026-02-12", "toc:day:2026-01-20"


@pytest.fixture(scope="module")
def memory(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(tmp_path_factory.mktemp("acts") / "data") as made:
        yield made


@pytest.fixture
def visitor(memory: Served) -> Visitor:
    return memory.visit()


def acts(memory: Served) -> list[dict[str, Any]]:
    return list(memory.ask(Audit(1000))["acts"])


def node(memory: Served, node_id: str = DAY) -> dict[str, Any]:
    return dict(memory.ask(GetNode(node_id, scope="all"))["node"])


def grip_of(memory: Served, words: str) -> str:
    results = memory.ask(SearchRequest(query=words, scope="all"))["results"]
    return str(next(result["grip"] for result in results if words in result["quote"]))


def named(grip_id: str) -> str:
    """What names a quotation in both forms of its id, of which the short one leaves out the time."""
    return grip_id.rpartition(":")[2]


# who may act


@pytest.mark.parametrize("name", sorted(ACTS))
@pytest.mark.few(6)
def test_no_act_is_done_without_the_visit_s_token_or_for_another_page(memory: Served, visitor: Visitor, name: str) -> None:
    before, fields = acts(memory), {"id": DAY, "name": "back_up", "grip_id": "", "value": "invoices"}
    token = visitor.token()
    assert visitor.act(name, **fields).status == 400
    assert visitor.act(name, token=memory.visit().token(), **fields).status == 400
    foreign = ({"Origin": "http://example.org"}, {"Sec_Fetch_Site": "cross-site"}, {"Origin": "", "Sec_Fetch_Site": ""})
    for headers in foreign:
        assert visitor.act(name, headers, token=token, **fields).status == 403
    assert Visitor(visitor.server, visitor.base).act(name, token=token, **fields).status == 403
    assert acts(memory) == before


def test_an_act_is_no_page(visitor: Visitor) -> None:
    assert visitor.get("do/pin").status in (404, 405)


# statements


def test_a_node_is_pinned_and_let_go_from_its_page(memory: Served, visitor: Visitor) -> None:
    token = visitor.token()
    page = followed(visitor, visitor.act("pin", token=token, id=DAY, on="yes", back=f"tree/{DAY}"))
    assert "Pinned: it counts for more." in page
    assert node(memory)["pinned"] is True
    followed(visitor, visitor.act("pin", token=token, id=DAY, on="no", back=f"tree/{DAY}"))
    assert "pinned" not in node(memory)
    assert [(act["what"], act["author"], act["subject"]) for act in acts(memory)[:2]] == [
        ("unpin", "explorer", DAY),
        ("pin", "explorer", DAY),
    ]


def test_a_quotation_s_page_offers_what_its_pin_is_not(memory: Served, visitor: Visitor) -> None:
    grip, token = grip_of(memory, "We decided to keep the ledger in one table."), visitor.token()
    pinned = followed(visitor, visitor.act("pin", token=token, id=grip, on="yes", back=f"grip/{grip}"))
    assert (">Unpin</button>" in pinned, ">Pin</button>" in pinned) == (True, False)
    assert memory.ask(ExpandRequest(grip_id=grip))["pinned"] is True
    free = followed(visitor, visitor.act("pin", token=token, id=grip, on="no", back=f"grip/{grip}"))
    assert (">Unpin</button>" in free, ">Pin</button>" in free) == (False, True)
    assert "pinned" not in memory.ask(ExpandRequest(grip_id=grip))


def test_a_correction_stands_in_the_place_of_the_quotation_and_is_made_once(memory: Served, visitor: Visitor) -> None:
    old = grip_of(memory, "We decided to keep the ledger in one table.")
    form = {"token": visitor.token(), "grip_id": old, "text": "The ledger has two tables.", "reason": "measured", "key": "k1"}
    first = visitor.act("correct", **form)
    assert first.status == 303
    again = visitor.act("correct", **form)
    assert again.headers["location"] == first.headers["location"]
    events = [e for e in memory.door.app.storage.events.read_after(0, 10_000) if e.event.text == "The ledger has two tables."]
    assert [(e.event.trust, e.event.agent) for e in events] == [(Trust.AGENT_NOTE, "person")]
    cited = memory.ask(ExpandRequest(grip_id=old))
    assert (cited["superseded_by"], cited["why_superseded"]) == (first.headers["location"].rpartition("grip/")[2], "measured")
    # It is signed as the person's, and no session that could be continued.
    assert [(e.event.role, e.event.session_id.partition(":")[0]) for e in events] == [(Role.USER, "notes")]
    assert acts(memory)[0]["author"] == "person"
    assert "The ledger has two tables." not in of_session(memory.door.app, "", Scoped(None), 800).text.partition("Decided:")[0]
    # Sent by another door's retry, after a restart of the visit, with the same key: still once.
    other = memory.visit()
    other.act("correct", **{**form, "token": other.token()})
    assert [act["what"] for act in acts(memory)].count("correct") == 1


def test_the_same_form_with_other_words_is_another_correction(memory: Served, visitor: Visitor) -> None:
    old = grip_of(memory, "Please call")
    form = {"token": visitor.token(), "grip_id": old, "key": "k2"}
    one = visitor.act("correct", text="Call her after noon.", **form).headers["location"]
    two = visitor.act("correct", text="Call her tomorrow.", **form).headers["location"]
    assert one != two
    assert memory.ask(ExpandRequest(grip_id=old))["superseded_by"] == two.rpartition("grip/")[2]


def test_a_person_who_said_so_corrects_as_a_person(memory: Served) -> None:
    person = memory.visit(is_person=True)
    old = grip_of(memory, "I will read billing")
    reply = person.act("correct", token=person.token(), grip_id=old, text="I read it first.", key="k3")
    new = memory.ask(ExpandRequest(grip_id=reply.headers["location"].rpartition("grip/")[2]))
    assert new["excerpt_events"][0]["role"] == "user"
    assert acts(memory)[0]["author"] == "person"


def test_a_quotation_is_retracted_with_the_reason(memory: Served, visitor: Visitor) -> None:
    old = grip_of(memory, "pytest -q billing")
    form = {"token": visitor.token(), "grip_id": old, "reason": "nobody ran it", "back": "status"}
    assert "no longer true" in followed(visitor, visitor.act("retract", **form))
    followed(visitor, visitor.act("retract", **form))
    cited = memory.ask(ExpandRequest(grip_id=old))
    assert (cited["superseded_by"], cited["why_superseded"]) == ("retracted", "nobody ran it")
    assert [named(act["subject"]) for act in acts(memory) if act["what"] == "retract"] == [named(old)]


def test_a_refused_correction_is_shown_again_with_its_words_and_the_reason(memory: Served, visitor: Visitor) -> None:
    typed = "Kept <b>as typed</b> & more"
    form = {"token": visitor.token(), "grip_id": "grip:1:0000000000000000", "text": typed, "kind": "decision", "key": "k4"}
    reply = visitor.act("correct", **form, back="status")
    assert reply.status in (400, 404)
    assert f">{html.escape(typed)}</textarea>" in reply.text
    assert '<option value="decision" selected>' in reply.text
    assert forms(reply.text, "correct")[0]["key"] == "k4"
    assert "no grip" in reply.text.split('role="alert"')[1]
    assert typed not in json.dumps(acts(memory))


def test_a_script_gets_what_was_done_as_json(memory: Served, visitor: Visitor) -> None:
    done = visitor.act("pin", {"X_Part": "1"}, token=visitor.token(), id=DAY, on="yes")
    assert json.loads(done.text)["pinned"] is True
    wrong = visitor.act("pin", {"X_Part": "1"}, token=visitor.token(), id="nonsense")
    assert (wrong.status, json.loads(wrong.text)["error"]["code"]) == (400, "INVALID_ARGUMENT")
    visitor.act("pin", token=visitor.token(), id=DAY, on="no")


@pytest.mark.usefixtures("processes")
def test_a_topic_is_renamed_and_pinned_from_its_page(memory: Served, visitor: Visitor) -> None:
    memory.door.app.topics.rebuild_graph()
    topic = memory.ask(TopTopics(fine=True, scope="all"))["topics"][0]
    page = visitor.page(f"topics/{topic['topic_id']}")
    [form] = forms(page, "label")
    assert form["topic_id"] == topic["topic_id"]
    for _ in range(2):
        after = followed(visitor, visitor.act("label", **form, label="Ledgers <of> ours"))
    assert '<h1 dir="auto">Ledgers &lt;of&gt; ours</h1>' in after
    followed(visitor, visitor.act("pin", **forms(page, "pin")[0]))
    assert memory.ask(GetTopic(topic["topic_id"], scope="all"))["topic"]["pinned"] is True
    done = [(act["what"], act["author"], act["subject"]) for act in acts(memory)[:2]]
    assert done == [("pin", "explorer", topic["topic_id"]), ("label", "explorer", topic["topic_id"])]
    reply = visitor.act("label", token=visitor.token(), topic_id=topic["topic_id"], label="x" * 51)
    assert (reply.status, f'value="{"x" * 51}"' in reply.text) == (400, True)


def test_pages_offer_what_can_be_done_with_what_they_show(memory: Served, visitor: Visitor) -> None:
    old = grip_of(memory, "The cause is that")
    shown = visitor.page(f"grip/{old}")
    [whole] = {form["id"] for form in forms(shown, "pin")}
    assert named(whole) == named(old)
    assert {form["grip_id"] for act in ("correct", "retract") for form in forms(shown, act)} == {whole}
    segment = memory.ask(ExpandRequest(grip_id=old))["grip"]["node_id"]
    for page, offers in (
        (f"grip/{old}", ("forget?event=", "forget?session=", f"export?form=json&amp;grip={whole.replace(':', '%3A')}")),
        (f"tree/{segment}", (f"refine/{segment}", "forget?since=", "export?form=markdown&amp;node=")),
        (f"tree/{DAY}", ("forget?since=2026-02-12&amp;until=2026-02-12", "export?form=markdown&amp;node=")),
        ("tree", ("export?form=markdown&amp;node=toc%3Aroot",)),
        ("session/calls", ("forget?session=calls", "export?form=json&amp;session=calls")),
        ("status", ("/projects", "/audit", "/forget")),
    ):
        html_of = visitor.page(page)
        assert [offer for offer in offers if offer not in html_of] == [], page
        for link in re.findall(r'href="[^"]*/(export\?[^"]+|refine/[^"]+|forget\?[^"]+)"', html_of):
            assert visitor.get(html.unescape(link)).status == 200, link


# summaries


def test_a_node_is_refined_from_a_form_that_holds_what_it_says_now(memory: Served, visitor: Visitor) -> None:
    shown = visitor.page(f"refine/{OTHER_DAY}")
    [form] = forms(shown, "refine")
    before = node(memory, OTHER_DAY)
    assert form["grips.0"].split() == before["bullets"][0]["grip_ids"]
    assert html.escape(before["title"]) in shown
    changed = {**form, "title": "Ledger day", "text.0": "Somebody is to be called.", "kind.0": "decision"}
    page = followed(visitor, visitor.act("refine", **changed))
    assert "The node has your words now." in page
    after = node(memory, OTHER_DAY)
    assert (after["title"], after["author"]) == ("Tue 20 Jan 2026 · Ledger day", "agent")
    said = [{"text": "Somebody is to be called.", "grip_ids": before["bullets"][0]["grip_ids"], "kind": "decision"}]
    assert after["bullets"][:1] == said
    visitor.act("refine", **changed)
    assert [act["subject"] for act in acts(memory) if act["what"] == "refine"] == [OTHER_DAY]


def test_a_refused_refinement_keeps_every_statement(visitor: Visitor) -> None:
    form = {"node_id": DAY, "title": "New", "text.0": "Words of mine", "grips.0": "grip:1:0000000000000000", "kind.0": "decision"}
    reply = visitor.act("refine", token=visitor.token(), **form)
    assert reply.status == 404
    assert ">Words of mine</textarea>" in reply.text
    assert forms(reply.text, "refine")[0]["grips.0"] == "grip:1:0000000000000000"


# projects


def test_projects_become_one_and_two_again(memory: Served, visitor: Visitor) -> None:
    token = visitor.token()
    for _ in range(2):
        page = followed(visitor, visitor.act("alias", token=token, **{"pick.1": BILLING, "pick.2": SHOP}))
    # The name of the one with more events stands for both.
    assert "shop is shown as billing now." in page
    assert forms(page, "undo-project")[0]["name"] == SHOP
    assert [p["project"] for p in memory.ask(ListProjects())["projects"]].count(SHOP) == 0
    followed(visitor, visitor.act("undo-project", token=token, name=SHOP))
    assert SHOP in [p["project"] for p in memory.ask(ListProjects())["projects"]]
    assert [act["what"] for act in acts(memory)][:2] == ["undo alias", "alias"]
    assert [act["what"] for act in acts(memory)].count("alias") == 1


def test_a_name_that_is_unknown_is_said_beside_the_form(visitor: Visitor) -> None:
    for picked, told in (({"pick.1": "nobody", "pick.2": SHOP}, "no project is called"), ({"pick.1": SHOP}, "1 project picked")):
        reply = visitor.act("alias", token=visitor.token(), **picked)
        assert reply.status == 400
        assert told in reply.text
    reply = visitor.act("split", token=visitor.token(), name="shop", folder="/nowhere")
    assert (reply.status, 'value="/nowhere"' in reply.text) == (404, True)


def test_recording_of_a_project_is_paused_and_resumed(memory: Served, visitor: Visitor) -> None:
    token = visitor.token()
    for _ in range(2):
        page = followed(visitor, visitor.act("pause", token=token, name=SHOP, duration="1h", key="p1", back="projects"))
    assert "Recording is paused until" in page
    assert [one["project"] for one in memory.ask(GetOverview())["paused"]] == [SHOP]
    followed(visitor, visitor.act("resume", token=token, name=SHOP, back="status"))
    assert memory.ask(GetOverview())["paused"] == []
    assert [act["what"] for act in acts(memory)][:2] == ["resume", "pause"]
    assert [act["what"] for act in acts(memory)].count("pause") == 1
    memory.ask(ResumeCapture(SHOP))


def test_a_project_a_path_or_a_tool_is_never_recorded_until_it_is_included(memory: Served, visitor: Visitor) -> None:
    token = visitor.token()
    for kind, pattern in (("project", SHOP), ("path", "~/private"), ("tool", "mcp__mail__*")):
        for _ in range(2):
            page = followed(visitor, visitor.act("exclude", token=token, kind=kind, pattern=pattern))
        assert {"kind": kind, "pattern": pattern}.items() <= forms(page, "include")[0].items()
        assert memory.ask(ListExcluded())[f"{kind}s"] == [pattern]
        followed(visitor, visitor.act("include", token=token, kind=kind, pattern=pattern))
        assert memory.ask(ListExcluded())[f"{kind}s"] == []
        done = [(act["what"], act["author"], act["subject"]) for act in acts(memory)[:2]]
        assert done == [("include", "explorer", f"{kind} {pattern}"), ("exclude", "explorer", f"{kind} {pattern}")]
    refused = visitor.act("exclude", token=token, kind="tool", pattern="a,b")
    assert (refused.status, 'value="a,b"' in refused.text) == (400, True)
    assert visitor.act("exclude", token=token, kind="word", pattern="a").status == 400


# jobs


def test_a_job_is_run_paused_and_resumed(memory: Served, visitor: Visitor) -> None:
    token = visitor.token()

    def job() -> dict[str, Any]:
        return dict(next(one for one in memory.ask(ListJobs())["jobs"] if one["name"] == "housekeeping"))

    before = job()["runs"]
    for _ in range(2):
        page = followed(visitor, visitor.act("run-job", token=token, name="housekeeping", key="j1"))
    assert "housekeeping: " in page
    assert job()["runs"] == before + 1
    followed(visitor, visitor.act("pause-job", token=token, name="housekeeping"))
    assert job()["paused"] is True
    followed(visitor, visitor.act("resume-job", token=token, name="housekeeping"))
    assert job()["paused"] is False
    assert visitor.act("run-job", token=token, name="nothing").status == 400


# the list of acts


def test_the_page_of_acts_lists_them_without_the_words_concerned(memory: Served, visitor: Visitor) -> None:
    followed(visitor, visitor.act("pin", token=visitor.token(), id=DAY, on="yes", back="audit"))
    page = visitor.page("audit")
    assert re.search(r"<td>pin</td><td><bdi>explorer</bdi></td>", page)
    assert NAME not in page
    assert "Call her" not in page
    assert len(re.findall("<tr data-item>", visitor.page("audit", limit=1))) == 1


def test_an_act_leads_to_no_other_server_whatever_its_form_says(visitor: Visitor) -> None:
    for back in ("//example.org/x", "https://example.org", "../../mcp", "do/forget"):
        reply = visitor.act("pin", token=visitor.token(), id=DAY, on="yes", back=back)
        assert reply.headers["location"].startswith(f"{visitor.base}/")
        assert ".." not in reply.headers["location"]
