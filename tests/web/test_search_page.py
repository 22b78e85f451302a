"""Search: the page says what the request says, keeps every filter, explains itself, and no words become markup."""

import html
import re
import socket
import threading
from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qsl, urlencode

import pytest

from memory_mcp.model.event import Role
from memory_mcp.requests.correct import Correct
from memory_mcp.requests.limits import MAX_QUERY
from memory_mcp.requests.plain import as_json
from memory_mcp.requests.registry import respond
from memory_mcp.requests.scope import Caller
from memory_mcp.requests.search import SearchRequest
from memory_mcp.search.layers.budget import GONE
from memory_mcp.web.visits import COOKIE
from tests.daemon.door import Door
from tests.factories import BILLING, SHOP, a_small_history, draft
from tests.waiting import PATIENCE
from tests.web.acting import visited
from tests.web.everywhere import Seen, read
from tests.web.test_hostile import wrong_in
from tests.web.visitor import Visitor, plain

HOSTILE = '</q><script>alert(1)</script> "onfocus=alert(2)" javascript:alert(3) \u202emoor\u202c & <mark>'
#: A word that is said in one place alone.
RARE = "zeppelin"


@pytest.fixture(scope="module")
def door(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Door, Visitor]]:
    """Two weeks of three projects, a hostile message, and a statement that was corrected."""
    said = [
        draft(f"The {RARE} says: {HOSTILE}", at="2026-02-12 15:00", session="bad", project=BILLING),
        draft("What colour has the airship?", at="2026-02-13 14:59", session="ship", speaker="Ada"),
        draft("We decided that the airship is painted green.", at="2026-02-13 15:00", session="ship", role=Role.ASSISTANT),
        draft("We decided to tile the airship.", at="2026-02-14 15:00", session="tiles", agent="codex", project=BILLING),
    ]
    with visited(tmp_path_factory.mktemp("search") / "data", *a_small_history(2), *said) as (door, visitor):
        [grip] = [one["grip"] for one in asked(door, query="airship painted green")["results"][:1]]
        respond(door.app, Correct(grip_id=grip, text="The airship is painted blue.", reason="Green was sold out."), Caller())
        door.app.derivation.run()
        yield door, visitor


@pytest.fixture(scope="module")
def visitor(door: tuple[Door, Visitor]) -> Visitor:
    return door[1]


def asked(door: Door, **given: Any) -> dict[str, Any]:
    request = SearchRequest(scope="all", **{"limit": 10, "with_agents": True, **given})
    found: dict[str, Any] = as_json(respond(door.app, request, Caller()))
    return found


def cards(page: str) -> list[str]:
    return re.findall(r'<li class="card" data-item>.*?</li>', page, re.DOTALL)


def links(page: str, path: str = "search") -> list[dict[str, str]]:
    """The arguments of links to a page, in order."""
    found = re.findall(rf'(?:href|data-src)="[^"]*/{path}\?([^"#]*)"', page)
    return [dict(parse_qsl(html.unescape(one))) for one in found]


def opens(page: str) -> list[str]:
    """What the cards lead to: each its best result, then the others of its conversation."""
    return [html.unescape(one) for card in cards(page) for one in re.findall(r'href="/ui/[^/]*/([^"?]*)[^"]*" data-open', card)]


def by_conversation(results: list[dict[str, Any]]) -> list[list[dict[str, Any]]]:
    """The results of each conversation, in the order of its best one."""
    several: dict[str, list[dict[str, Any]]] = {}
    for one in results:
        several.setdefault(one.get("session") or one["grip"], []).append(one)
    return list(several.values())


# results


def test_cards_say_what_the_request_says(door: tuple[Door, Visitor], visitor: Visitor) -> None:
    found = asked(door[0], query="ledger refunds", with_agents=True)
    page = visitor.page("search", q="ledger refunds")
    assert len(found["results"]) > 3
    conversations = by_conversation(found["results"])
    assert opens(page) == [f"grip/{one['grip']}" for several in conversations for one in several]
    assert f'role="status">{len(found["results"])} results in {len(conversations)} conversations' in page
    assert "From the same conversation" not in page
    for card, [one, *further] in zip(cards(page), conversations, strict=True):
        said = plain(card.replace("<mark>", "").replace("</mark>", ""))
        assert one["who"] in said
        assert one["agent"] in said
        assert " billing " in said
        assert " ".join(one["quote"].split()) in said
        # What leads to a result is its sentence.
        for other in (one, *further):
            [link] = re.findall(rf'grip/{re.escape(other["grip"])}" data-open[^>]*>(.*?)</a>', card)
            assert plain(re.sub("</?mark>", "", link)).rstrip("…") in " ".join(other["quote"].split())
        assert f'<meter min="0" max="1" value="{one["score"]}"' in card
        assert ('<span class="kind">decision</span>' in card) == (one.get("kind") == "decision")
    assert '<span class="kind">decision</span>' in page
    assert "<mark>ledger</mark>" in page
    assert "<mark>refunds</mark>" in page
    assert {"strong": "fit the question well"}[found["confidence"]] in page
    for one in found.get("also", ()):
        assert one["quote"] in plain(page)
    assert found["results"][0]["quote"] in plain(visitor.page(opens(page)[0]))


def test_one_kind_of_statement_is_picked_out_of_the_results(door: tuple[Door, Visitor], visitor: Visitor) -> None:
    whole = asked(door[0], query="airship decided", limit=50)["results"]
    decided = [f"grip/{one['grip']}" for one in whole if one.get("kind") == "decision"]
    page = visitor.page("search", q="airship decided", kind="decision")
    assert 0 < len(decided) < len(whole)
    assert sorted(opens(page)) == sorted(decided)
    assert f"{len(decided)} result{'s' if len(decided) > 1 else ''} of this kind among {len(whole)}" in plain(page)
    assert '<option selected value="decision">' in page
    assert visitor.get("search?q=airship&kind=rumour").status == 400


def test_a_project_is_named_on_each_card_though_the_response_says_it_once(visitor: Visitor) -> None:
    narrowed = visitor.page("search", q="ledger", project="billing")
    assert cards(narrowed)
    assert all('<span class="chip"><bdi>billing</bdi></span>' in card for card in cards(narrowed))


def test_the_part_is_the_results_alone_and_the_same(visitor: Visitor) -> None:
    whole = visitor.page("search", q="ledger refunds")
    part = visitor.get("search?q=ledger+refunds", X_Part="results")
    assert part.status == 200
    assert "<html" not in part.text
    assert "<form id" not in part.text
    assert opens(part.text) == opens(whole)
    assert part.text.lstrip().startswith('<div data-told="')
    assert part.text.strip() in whole


def test_pages_follow_each_other_by_the_cursor(visitor: Visitor) -> None:
    first = visitor.page("search", q="ledger", limit="3")
    [more] = [one for one in links(first) if "cursor" in one and "show" not in one]
    assert more["q"] == "ledger"
    assert more["limit"] == "3"
    second = visitor.page("search", **more)
    assert len(opens(first)) == 3
    assert opens(second)
    assert not set(opens(first)) & set(opens(second))
    assert {"q": "ledger", "limit": "3"} in links(second)
    # The file holds the page that is shown.
    assert all(one["cursor"] == more["cursor"] for one in links(second, "export"))


def test_a_statement_that_holds_no_more_leads_to_what_holds_now(visitor: Visitor) -> None:
    page = visitor.page("search", q="airship painted green")
    [old] = [card for card in cards(page) if "No longer true" in card]
    assert "Green was sold out." in plain(old)
    successor = re.search(r'href="/ui/[^/]*/(grip/[^"]*)">what is true now', old)
    assert successor is not None
    assert "painted blue" in visitor.page(html.unescape(successor[1]))
    # What holds now comes first.
    assert "painted blue" in plain("".join(cards(page)[: cards(page).index(old)]).replace("<mark>", "").replace("</mark>", ""))


def test_what_lies_outside_the_time_that_is_asked_about_says_so(visitor: Visitor) -> None:
    page = visitor.page("search", q="ledger refunds in march 2019")
    assert cards(page)
    assert all("Outside the time you asked about" in card for card in cards(page))
    assert "<mark>march" not in page


def test_a_period_leads_to_the_tree(visitor: Visitor) -> None:
    page = visitor.page("search", q="what happened", role="user")
    assert opens(page)
    assert all(one.startswith("tree/toc:") for one in opens(page))


def test_what_was_worked_on_is_told_by_project_and_each_sentence_leads_to_its_words(visitor: Visitor) -> None:
    page = visitor.page("search", q="what have I been working on")
    assert "Asked" in plain(page)
    assert "Nothing was found" not in page
    leads = re.findall(r'<li data-item>(?:<span[^>]*>[^<]*</span> )?<a href="[^"]*grip/grip:', page)
    assert leads


def test_nothing_asked_and_nothing_found_say_what_to_try(visitor: Visitor) -> None:
    for query in ("", "  ", "\u3000"):
        page = visitor.page("search", q=query)
        assert "Type some words" in page
        assert cards(page) == []
        assert "Nothing was found" not in page
    page = visitor.page("search", q="qwxzv", agent="codex")
    for words in ("Nothing here fits the question.", "Nothing was found", "Search without the filters."):
        assert words in plain(page)
    assert {"q": "qwxzv"} in links(page)


# filters


def test_words_that_occur_nowhere_are_named(visitor: Visitor) -> None:
    assert "Not in this memory: qwxzv." in plain(visitor.page("search", q="ledger qwxzv test"))
    assert "Not in this memory" not in plain(visitor.page("search", q="ledger test"))


@pytest.mark.parametrize(
    ("given", "same"),
    [
        ({"project": BILLING}, {"project": BILLING}),
        ({"role": "user"}, {"role": "user"}),
        ({"agent": "codex"}, {"agent": "codex"}),
        ({"since": "2026-01-28"}, {"since": "2026-01-28"}),
        ({"until": "2026-01-21"}, {"until": "2026-01-21"}),
        ({"since": "january 2026", "agent": "codex", "role": "assistant"},) * 2,
        ({"limit": "2", "max_nodes_visited": "400"}, {"limit": 2}),
        ({"project": BILLING, "scope": "all"}, {}),
    ],
)
def test_filters_narrow_as_the_request_does_and_are_kept_everywhere(
    door: tuple[Door, Visitor], visitor: Visitor, given: dict[str, str], same: dict[str, Any]
) -> None:
    wanted = [one["grip"] for one in asked(door[0], query="ledger test", **same)["results"]]
    page = visitor.page("search", q="ledger test", **given)
    assert sorted(opens(page)) == sorted(f"grip/{one}" for one in wanted)
    kept = {name: value for name, value in given.items() if name != "scope" and not (name == "project" and "scope" in given)}
    for one in links(page):
        if "show" in one or "cursor" in one:
            assert kept.items() <= one.items()
    seen = read(page)
    for name, value in kept.items():
        assert value in _values(seen, name), name


def _values(seen: Seen, name: str) -> list[str]:
    """What the form of the page would send of a name."""
    found, inside = [], False
    for tag, attributes in seen.elements:
        if tag == "select":
            inside = attributes.get("name") == name
        if tag == "input" and attributes.get("name") == name:
            found.append(attributes.get("value", ""))
        if tag == "option" and inside and "selected" in attributes:
            found.append(attributes["value"])
    return found


def test_the_form_offers_the_projects_and_agents_there_are(visitor: Visitor) -> None:
    offered = [attributes["value"] for tag, attributes in read(visitor.page("search")).elements if tag == "option"]
    assert {SHOP, BILLING, "claude-code", "codex", "user", "assistant", "tool"} <= set(offered)


def test_every_page_leads_here_with_its_project(visitor: Visitor) -> None:
    page = visitor.page("today", project=BILLING)
    assert f'action="{visitor.base}/search"' in page
    assert f'<input type="hidden" name="project" value="{BILLING}">' in page


# what is refused


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"q": "word " * 801}, "query is too long"),
        ({"q": "ledger", "since": "gibberish"}, "invalid since"),
        ({"q": "ledger", "project": "nowhere"}, "no project is called"),
        ({"q": "ledger", "role": "pope"}, "role must be"),
        ({"q": "ledger", "limit": "many"}, "limit must be a whole number"),
        ({"q": "ledger", "min_confidence": "much"}, "min_confidence must be 0 to 1"),
        ({"q": "ledger", "min_confidence": "nan"}, "min_confidence must be 0 to 1"),
        ({"q": "ledger", "beam_width": "99"}, "beam_width must be at most"),
        ({"q": "ledger", "cursor": "nonsense"}, "start again without it"),
    ],
)
def test_a_search_that_is_refused_says_why_and_keeps_the_words(visitor: Visitor, given: dict[str, str], told: str) -> None:
    for headers in ({}, {"X_Part": "results"}):
        reply = visitor.get(f"search?{urlencode(given)}", **headers)
        assert reply.status == 400
        assert told in plain(reply.text)
        assert 'role="alert"' in reply.text
    words = given["q"].strip()
    assert words in _values(read(visitor.get(f"search?{urlencode(given)}").text), "q")


def test_a_query_of_4001_characters_is_shown_whole(visitor: Visitor) -> None:
    query = "x" * (MAX_QUERY + 1)
    reply = visitor.get(f"search?q={query}")
    assert reply.status == 400
    assert _values(read(reply.text), "q") == [query]
    assert visitor.get(f"search?q={query[1:]}").status == 200


@pytest.mark.parametrize(
    "query", [f"{RARE} {HOSTILE}", f'{RARE} "><script>x</script>', f"\u202e{RARE}\u2066 {{{{7*7}}}}", f"{RARE} '\\"]
)
@pytest.mark.few(1)
def test_nothing_stored_or_asked_becomes_markup(visitor: Visitor, query: str) -> None:
    others = ("why_not", "project", "since", "agent", "speaker")
    for more in ({}, {"show": "how"}, {"show": "why", "of": query}, *({name: query} for name in others)):
        for headers in ({}, {"X_Part": "results"}):
            reply = visitor.get(f"search?{urlencode({'q': query, **more})}", **headers)
            assert reply.status < 500
            seen = read(reply.text)
            assert wrong_in(visitor, seen) == []
            assert "49" not in [value for _, given in seen.elements for value in given.values()]
            assert not re.search("[\u202a-\u202e\u2066-\u2069]", reply.text)
    page = visitor.page("search", q=query)
    assert set(_values(read(page), "q")) == {re.sub("[\u202a-\u202e\u2066-\u2069]", "\ufffd", query)}
    assert f"<mark>{RARE}</mark>" in page
    assert "<script>alert(1)</script>" in read(page).text
    # Links ask for the same words, those that turn the direction of writing too.
    assert all(one["q"] == query for one in links(page) if "show" in one)


# why


def test_how_it_was_searched_is_a_picture_and_the_same_in_words(door: tuple[Door, Visitor], visitor: Visitor) -> None:
    page = visitor.page("search", q="ledger refunds last week")
    [address] = [one for one in links(page) if one.get("show") == "how"][:1]
    why = asked(door[0], query="ledger refunds last week", detail="full")["explanation"]
    reply = visitor.get(f"search?{urlencode(address)}", X_Part="1")
    assert "<html" not in reply.text
    said = plain(reply.text)
    for one in why["tried"]:
        assert f"{one['layer']} {one['outcome']}: {one['reason']}" in said
    for one in why["skipped"]:
        assert f"{one['layer']} not used: {one['reason']}" in said
    assert "not used: it is not built yet" in said
    bounds = reply.text.split('aria-label="Bounds"', 1)[1].split("</table>", 1)[0]
    rows = re.findall(r'<th scope="row">.*?</th><td class="number">([\d,]*)</td><td class="number">([\d,]+)</td>', bounds)
    assert sorted(limit for _, limit in rows) == sorted(f"{bound['limit']:,}" for bound in why["bounds"].values())
    assert all(int(used.replace(",", "") or 0) <= int(limit.replace(",", "")) for used, limit in rows)
    assert "last week" in said
    assert re.search(r"Understood as \w+ , answered by \w+ \(tier \d\)", said)
    assert reply.text.count('role="img"') == 2
    # Without a script it is a page that leads back.
    whole = visitor.page("search", **address)
    assert "<h1>How it was searched</h1>" in whole
    assert {"q": "ledger refunds last week"} in links(whole)


def test_why_a_result_is_here_is_told_by_the_parts_of_its_score(door: tuple[Door, Visitor], visitor: Visitor) -> None:
    page = visitor.page("search", q="ledger refunds")
    addresses = {one["of"]: one for one in links(page) if one.get("show") == "why"}
    full = asked(door[0], query="ledger refunds", detail="full")["results"]
    # Each card explains its best result.
    assert set(addresses) == {opens(card)[0].removeprefix("grip/") for card in cards(page)}
    for one in [one for one in full if one["id"] in addresses][:3]:
        said = plain(visitor.get(f"search?{urlencode(addresses[one['id']])}", X_Part="1").text)
        for name in ("coverage", "recency"):
            assert f"{one['score_parts'][name]:.2f}" in said
        assert all(f"{reason}: " in said for reason in ("Same words", "Same meaning", "Same conversation"))
        told = re.search(r"score ([\d.]+)", said)
        assert told is not None
        assert round(float(told[1]), 2) == round(one["score"], 2)
    assert "<h1>Why is this here</h1>" in visitor.page("search", **addresses[full[0]["id"]])
    gone = visitor.get("search?q=ledger&show=why&of=grip:1:none", X_Part="1")
    assert "no longer among the results" in gone.text


@pytest.mark.parametrize(
    "given",
    [
        {"speaker": "Ada"},
        {"until": "2026-01-30"},
        {"agent": "claude-code"},
        {"project": SHOP},
        {"role": "assistant"},
    ],
)
@pytest.mark.few(3)
def test_what_is_missing_comes_by_the_link_that_says_how(
    door: tuple[Door, Visitor], visitor: Visitor, given: dict[str, str]
) -> None:
    [missing] = [one["grip"] for one in asked(door[0], query="tile the airship", with_agents=True)["results"][:1]]
    search = {"q": "tile the airship", **given}
    assert f"grip/{missing}" not in opens(visitor.page("search", **search))
    page = visitor.page("search", **search, why_not=missing)
    [change] = re.findall(r'data-change href="[^"]*/search\?([^"]*)"', page)
    brought = dict(parse_qsl(html.unescape(change)))
    assert brought != search
    assert f"grip/{missing}" in opens(visitor.page("search", **brought))
    # The form keeps the change, so that a search for other words is made in the same way.
    seen = read(visitor.page("search", **brought))
    for name, value in brought.items():
        assert name == "cursor" or value in _values(seen, name)


def test_what_is_there_already_and_an_id_that_is_none_are_told(visitor: Visitor) -> None:
    page = visitor.page("search", q="ledger refunds")
    own = opens(page)[0].removeprefix("grip/")
    assert "It is result 1." in plain(visitor.page("search", q="ledger refunds", why_not=own))
    for bad in ("nonsense", "grip:1768983319000:zzzzzzzzzzzzzzzz"):
        refused = visitor.page("search", q="ledger refunds", why_not=bad)
        assert opens(refused) == opens(page)
        assert 'class="notice" role="alert"' in refused
        assert bad in _values(read(refused), "why_not")


def test_what_is_shown_can_be_saved_with_its_filters(visitor: Visitor) -> None:
    asked = {"q": "ledger & refunds", "project": BILLING, "role": "assistant", "since": "2026-01", "limit": "3"}
    page = visitor.page("search", **asked, sort="none")
    saved = links(page, "export")
    assert saved == [{"form": form, **asked} for form in ("markdown", "json")]
    assert opens(page)
    assert visitor.get(f"export?{urlencode(saved[1])}").status == 200
    text = visitor.get(f"export?{urlencode(saved[0])}").text
    assert all(one.removeprefix("grip/") in text for one in opens(page))


def test_a_search_that_nobody_waits_for_any_more_ends(
    door: tuple[Door, Visitor], visitor: Visitor, monkeypatch: pytest.MonkeyPatch
) -> None:
    began, ended = threading.Event(), threading.Event()

    def ask(*_: object) -> None:
        gone = GONE.get()
        assert gone is not None
        began.set()
        if gone.wait(PATIENCE):
            ended.set()
        raise AssertionError("nobody hears this")

    monkeypatch.setattr(door[0].app, "ask", ask)
    host, _, port = visitor.server.partition(":")
    with socket.create_connection((host, int(port)), PATIENCE) as connection:
        lines = (f"GET {visitor.base}/search?q=ledger HTTP/1.1", f"Host: {visitor.server}", f"Cookie: {COOKIE}={visitor.cookie}")
        connection.sendall("".join(f"{line}\r\n" for line in (*lines, "X-Part: results", "")).encode())
        assert began.wait(PATIENCE)
        assert not ended.is_set()
    assert ended.wait(PATIENCE)
