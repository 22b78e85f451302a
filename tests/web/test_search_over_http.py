"""Search: what is found as cards, what narrows it, how and why it was found, and how something that is missing comes up."""

import html
import re
from collections.abc import Iterator
from urllib.parse import parse_qs, urlencode, urlsplit

import pytest

from memory_mcp.model.event import Role
from memory_mcp.requests.limits import MAX_QUERY
from tests.daemon.door import Door
from tests.factories import BILLING, SHOP, SITE, a_small_history, draft
from tests.web.acting import visited
from tests.web.everywhere import read
from tests.web.visitor import Visitor, plain

OLD, NEW = "We decided that the voucher counter begins at seven.", "The voucher counter begins at seventy."
ASKED = "why does the ledger not balance"
HOSTILE = "ledger \"><script>evil()</script> ' onfocus=evil() \u202egnp.exe\u2066 {{7*7}}"
_CARD = re.compile(r'<li class="card" data-item>(.*?)</li>', re.DOTALL)


@pytest.fixture(scope="module")
def door(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Door, Visitor]]:
    """Two weeks of three projects, looked at through a visit."""
    vouchers = [
        draft("How is the voucher counter numbered?", at="2026-02-02 09:00", session="vouchers", speaker="Ada"),
        draft(OLD, at="2026-02-02 09:05", session="vouchers", role=Role.ASSISTANT),
    ]
    with visited(tmp_path_factory.mktemp("search") / "data", *a_small_history(2), *vouchers) as made:
        yield made


@pytest.fixture(scope="module")
def visitor(door: tuple[Door, Visitor]) -> Visitor:
    return door[1]


def unmarked(page: str) -> str:
    """The words of a page; those that are marked are not set apart."""
    return plain(re.sub("</?mark>", "", page))


def cards(page: str) -> list[str]:
    return _CARD.findall(page)


def opens(card: str) -> str:
    """The page that a card leads to, below the visit."""
    found = re.search(r'<h3><a href="/ui/[^/]+/([^"]+)" data-open>', card)
    assert found is not None
    return html.unescape(found[1])


def chips(card: str) -> list[str]:
    return re.findall(r'<span class="chip"><bdi>([^<]*)</bdi>', card)


def day(card: str) -> str:
    found = re.search(r'<time datetime="([\d-]+)T', card)
    assert found is not None
    return found[1]


def source(page: str, show: str) -> str:
    """The address of the first part that unfolds as `show`, as scripts fetch it."""
    found = re.search(rf'data-src="([^"]*show={show}[^"]*)"', page)
    assert found is not None
    return html.unescape(found[1])


def test_results_are_cards_with_the_words_of_the_question_marked_and_lead_to_the_exact_words(visitor: Visitor) -> None:
    page = visitor.page("search", q=ASKED)
    first = cards(page)[0]
    assert "<mark>ledger</mark> does not <mark>balance</mark>" in first
    assert '<meter min="0" max="1"' in first
    assert "<bdi>user</bdi>" in first
    assert opens(first).startswith("grip/")
    assert "the ledger does not balance" in unmarked(visitor.page(opens(first)))
    assert f"{len(cards(page))} results, more follow" in page
    assert f'value="{ASKED}"' in page


def test_how_sure_the_answer_is_is_said_in_words(visitor: Visitor) -> None:
    assert "These fit the question well." in visitor.page("search", q=ASKED)
    nothing = unmarked(visitor.page("search", q="ledger", agent="claude-code"))
    assert "Nothing here fits the question well." in nothing
    assert "Nothing was found" in nothing
    assert "Search without the filters." in nothing


def test_one_kind_of_statement_is_picked_out_of_the_results(visitor: Visitor) -> None:
    whole = cards(visitor.get(f"search?{urlencode({'q': 'voucher counter decided', 'limit': 50})}").text)
    decided = [opens(card) for card in whole if '<span class="kind">decision</span>' in card]
    page = visitor.get(f"search?{urlencode({'q': 'voucher counter decided', 'kind': 'decision'})}").text
    assert 0 < len(decided) < len(whole)
    assert [opens(card) for card in cards(page)] == decided
    assert f"{len(decided)} result{'s' if len(decided) > 1 else ''} of this kind among {len(whole)}" in unmarked(page)
    assert '<option selected value="decision">' in page
    refused = visitor.get(f"search?{urlencode({'q': 'voucher', 'kind': 'rumour'})}")
    assert refused.status == 400


def test_a_card_says_the_kind_of_its_statement_and_the_agent(visitor: Visitor) -> None:
    found = cards(visitor.page("search", q="we decided to use double entry"))
    decided = [card for card in found if '<span class="kind">decision</span>' in card]
    assert decided
    assert {tuple(chips(card)) for card in decided} == {("billing", "codex")}


@pytest.mark.parametrize(("project", "agent"), [(SHOP, "claude-code"), (BILLING, "codex"), (SITE, "claude-code")])
def test_a_project_and_an_agent_narrow_what_is_shown(visitor: Visitor, project: str, agent: str) -> None:
    words = "always add a test before a fix in this project"
    assert len({chips(card)[0] for card in cards(visitor.page("search", q=words, limit=40))}) == 3
    found = cards(visitor.page("search", q=words, project=project))
    assert found
    assert {tuple(chips(card)) for card in found} == {(project.rsplit("/", 1)[-1], agent)}
    by_agent = cards(visitor.page("search", q=words, agent=agent, limit=40))
    assert {chips(card)[1] for card in by_agent} == {agent}
    assert {chips(card)[0] for card in by_agent} == ({"billing"} if agent == "codex" else {"shop", "site"})


def test_who_said_it_narrows_what_is_shown(visitor: Visitor) -> None:
    for role in ("user", "assistant", "tool"):
        found = cards(visitor.page("search", q="ledger", role=role))
        assert found, role
        assert all(f"<bdi>{role}</bdi>" in card for card in found), role


def test_since_and_until_take_dates_and_phrases_and_the_form_keeps_them(visitor: Visitor) -> None:
    page = visitor.page("search", q="ledger", since="2026-01-26", until="2026-01-27")
    assert {day(card) for card in cards(page)} == {"2026-01-27"}
    assert 'name="since" size="12" maxlength="100" value="2026-01-26"' in page
    assert 'name="until" size="12" maxlength="100" value="2026-01-27"' in page
    days = {day(card) for card in cards(visitor.page("search", q="ledger", since="24 January 2026"))}
    assert days == {"2026-01-27", "2026-01-30"}
    refused = visitor.get("search?q=ledger&since=never+ever")
    assert refused.status == 400
    assert 'role="alert"' in refused.text
    assert 'value="never ever"' in refused.text
    assert 'value="ledger"' in refused.text


def test_more_gives_other_results_and_leads_back_to_the_first(visitor: Visitor) -> None:
    page = visitor.page("search", q="pytest", project=SHOP)
    first = {opens(card) for card in cards(page)}
    more = re.search(r'class="button" href="([^"]+)">More</a>', page)
    assert more is not None
    reply = visitor.send("GET", html.unescape(more[1]))
    assert reply.status == 200
    others = cards(reply.text)
    assert others
    assert first.isdisjoint({opens(card) for card in others})
    assert {chips(card)[0] for card in others} == {"shop"}
    back = re.search(r'href="([^"]+)">Back to the first results', reply.text)
    assert back is not None
    assert {opens(card) for card in cards(visitor.send("GET", html.unescape(back[1])).text)} == first


def test_a_script_gets_the_results_alone(visitor: Visitor) -> None:
    part = visitor.get("search?q=ledger", X_Part="results")
    assert part.status == 200
    assert part.text.lstrip().startswith('<div data-told="')
    assert "<html" not in part.text
    assert 'id="search"' not in part.text
    whole = visitor.page("search", q="ledger")
    assert [opens(card) for card in cards(part.text)] == [opens(card) for card in cards(whole)]
    assert len(part.text) < len(whole)


@pytest.mark.parametrize("given", ["", "   ", "\u3000"])
def test_without_a_question_the_page_says_what_to_type(visitor: Visitor, given: str) -> None:
    page = visitor.page("search", q=given)
    assert "Type some words" in page
    assert cards(page) == []
    assert "Nothing was found" not in page


@pytest.mark.parametrize("header", [{}, {"X_Part": "results"}])
def test_a_question_that_is_too_long_is_refused_and_its_words_are_kept(visitor: Visitor, header: dict[str, str]) -> None:
    words = f"ledger{'x' * (MAX_QUERY - 5)}"
    reply = visitor.get(f"search?q={words}", **header)
    assert reply.status == 400
    assert 'role="alert"' in reply.text
    assert "too long: at most 4000" in reply.text
    if not header:
        assert [a["value"] for tag, a in read(reply.text).elements if a.get("id") == "find"] == [words]
    assert visitor.get(f"search?q={words[:-1]}", **header).status == 200


def test_a_cursor_of_another_question_says_what_to_do(visitor: Visitor) -> None:
    reply = visitor.get("search?q=ledger&cursor=junk")
    assert reply.status == 400
    assert "start again without it" in unmarked(reply.text)


@pytest.mark.parametrize("show", ["", "how", "why"])
@pytest.mark.parametrize("header", [{}, {"X_Part": "1"}])
def test_a_hostile_question_is_words_wherever_it_is_shown(visitor: Visitor, show: str, header: dict[str, str]) -> None:
    names = ("q", "since", "project", "agent", "speaker", "why_not", "of")
    wanted = [{"q": HOSTILE, "show": show}, *({"q": "ledger", name: HOSTILE, "show": show} for name in names[1:])]
    for query in wanted:
        reply = visitor.get(f"search?{urlencode(query)}", **header)
        assert reply.status in (200, 400), query
        seen = read(reply.text)
        tags = {tag for tag, _ in seen.elements}
        assert "script" not in tags or all(a.get("src") for tag, a in seen.elements if tag == "script"), query
        assert not any(name.startswith("on") for _, given in seen.elements for name in given), query
        assert not re.search("[\u202a-\u202e\u2066-\u2069]", reply.text), query
        assert "49" not in [value for _, given in seen.elements for value in given.values()], query
    if not show and not header:
        kept = [a["value"] for tag, a in read(visitor.page("search", q=HOSTILE)).elements if a.get("id") == "find"]
        assert kept == [HOSTILE.replace("\u202e", "\ufffd").replace("\u2066", "\ufffd")]


def test_how_it_was_searched_tells_layers_and_bounds(visitor: Visitor) -> None:
    address = source(visitor.page("search", q=ASKED), "how")
    part = visitor.send("GET", address, X_Part="1").text
    assert "<html" not in part
    said = unmarked(part)
    assert "Understood as answer , answered by agentic (tier 5)" in said
    layers = part.split('aria-label="Layers"', 1)[1].split("</table>", 1)[0]
    assert re.findall('<th scope="row">(.*?)</th>', layers) == ["agentic", "hybrid", "bm25", "vector"]
    assert "not used: it is not built yet" in unmarked(layers)
    bounds = part.split('aria-label="Bounds"', 1)[1].split("</table>", 1)[0]
    rows = re.findall(r'<th scope="row">(.*?)</th><td class="number">([\d,]*)</td><td class="number">([\d,]+)</td>', bounds)
    assert [name for name, _, _ in rows][:2] == ["levels of the tree", "nodes visited"]
    assert all(int(used.replace(",", "")) <= int(most.replace(",", "")) for _, used, most in rows if used)
    assert part.count("<svg") == 2
    whole = visitor.send("GET", address)
    assert whole.status == 200
    assert "<h1>How it was searched</h1>" in whole.text
    assert ASKED in unmarked(whole.text)


def test_why_a_result_is_here_tells_the_parts_of_its_score(visitor: Visitor) -> None:
    page = visitor.page("search", q=ASKED)
    address = source(page, "why")
    part = visitor.send("GET", address, X_Part="1").text
    parts = dict(re.findall(r'<th scope="row">(.*?)</th><td class="number">([\d.]+)</td>', part))
    assert parts["Share of the question&#39;s words in it"] == "1.00"
    assert {"How recent it is", "How well it fits the question"} <= set(parts)
    score = re.search(r'title="([\d.]+)"', cards(page)[0])
    told = re.search(r"Score ([\d.]+)", unmarked(part))
    assert score is not None
    assert told is not None
    assert round(float(told[1]), 2) == float(score[1])
    assert "recorded by codex" in unmarked(part)
    assert "<h1>Why is this here</h1>" in visitor.send("GET", address).text
    gone = visitor.send("GET", re.sub("of=[^&]+", "of=grip:1:x", address), X_Part="1")
    assert "no longer among the results" in gone.text


@pytest.mark.parametrize(
    "narrowed", [{"role": "user"}, {"speaker": "Ada"}, {"until": "2026-01-20"}, {"agent": "codex"}, {"project": SITE}]
)
def test_what_is_missing_is_explained_and_the_link_brings_it(visitor: Visitor, narrowed: dict[str, str]) -> None:
    wanted = opens(cards(visitor.page("search", q="cart total pytest", project=SHOP, role="assistant", since="2026-01-28"))[0])
    page = visitor.page("search", q="cart total pytest", why_not=wanted.removeprefix("grip/"), **narrowed)
    assert wanted not in {opens(card) for card in cards(page)}
    found = re.search(r'data-change href="([^"]+)"', page)
    assert found is not None, unmarked(page)
    reply = visitor.send("GET", html.unescape(found[1]))
    assert reply.status == 200
    assert wanted in {opens(card) for card in cards(reply.text)} | set(also(reply.text))
    changed = parse_qs(urlsplit(html.unescape(found[1])).query)
    assert changed["q"] == ["cart total pytest"]
    assert {name for name in narrowed if changed.get(name) != [narrowed[name]]} == set(narrowed)


def also(page: str) -> list[str]:
    """Pages of the quotations that follow the results."""
    _, _, rest = page.partition('<ul class="plain also">')
    return [html.unescape(way) for way in re.findall(r'href="/ui/[^/]+/(grip/[^"]+)"', rest.partition("</ul>")[0])]


def test_an_id_that_nothing_has_leaves_the_results_and_says_so(visitor: Visitor) -> None:
    page = visitor.page("search", q=ASKED, why_not="grip:1700000000000:0000000000000000")
    assert len(cards(page)) == len(cards(visitor.page("search", q=ASKED)))
    assert '<p class="notice" role="alert">' in page


def test_what_was_corrected_comes_first_and_the_older_words_say_that_they_hold_no_more(visitor: Visitor) -> None:
    words = "where does the voucher counter begin"
    old = opens(next(card for card in cards(visitor.page("search", q=words)) if OLD in unmarked(card)))
    done = visitor.act("correct", token=visitor.token(), grip_id=old.removeprefix("grip/"), text=NEW, reason="counted again")
    assert done.status == 303, done.text
    found = cards(visitor.page("search", q=words))
    assert NEW in unmarked(found[0])
    assert "Holds no more" not in found[0]
    [marked] = [card for card in found if opens(card) == old]
    assert "Holds no more: counted again" in unmarked(marked)
    successor = re.search(r'href="/ui/[^/]+/(grip/[^"]+)">what holds now', marked)
    assert successor is not None
    assert NEW in unmarked(visitor.page(html.unescape(successor[1])))
