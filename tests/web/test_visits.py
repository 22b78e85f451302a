"""Who sees a page over HTTP: whoever follows a ticket once, with the cookie that it gave, from no other page."""

import json
import re
from collections.abc import Iterator

import pytest

from memory_mcp.web.registry import ACTS, FIRST
from memory_mcp.web.visits import COOKIE, HEADERS, LONE_HEADERS, TICKET_SECONDS, VISIT_SECONDS, Visits
from tests.daemon.door import SMALL, opened
from tests.factories import a_small_history, draft
from tests.fakes import FakeClock
from tests.web.conftest import Explorer
from tests.web.visitor import Visitor, entered

USED = "This link has been used"


def path_of(url: str) -> str:
    return "/" + url.split("/", 3)[3]


# tickets


def test_a_ticket_opens_one_visit_and_nothing_afterwards(explorer: Explorer) -> None:
    url = explorer.ticket()
    visitor = entered(url)
    assert visitor.get(FIRST).status == 200
    again = explorer.stranger().send("GET", path_of(url))
    assert again.status == 403
    assert USED in again.text
    assert "set-cookie" not in again.headers
    # Nor for the browser that used it: going back shows that it is used, and the visit goes on.
    assert visitor.send("GET", path_of(url)).status == 403
    assert visitor.get(FIRST).status == 200


def test_a_ticket_waits_two_minutes_and_no_longer(explorer: Explorer) -> None:
    in_time, too_late = explorer.ticket(), explorer.ticket()
    explorer.clock.advance(TICKET_SECONDS - 1)
    assert entered(in_time).get(FIRST).status == 200
    explorer.clock.advance(2)
    reply = explorer.stranger().send("GET", path_of(too_late))
    assert (reply.status, "set-cookie" in reply.headers) == (403, False)


def test_a_visit_ends_after_twelve_hours(explorer: Explorer) -> None:
    visitor = explorer.visit()
    explorer.clock.advance(VISIT_SECONDS - 1)
    assert visitor.get(FIRST).status == 200
    explorer.clock.advance(2)
    assert visitor.get(FIRST).status == 403


@pytest.mark.parametrize("method", ["HEAD", "OPTIONS", "POST", "PUT", "DELETE", "PATCH", "TRACE", "BREW"])
def test_only_a_browser_that_gets_the_address_uses_a_ticket(explorer: Explorer, method: str) -> None:
    """A program that looks where a link leads asks with HEAD."""
    url = explorer.ticket()
    reply = explorer.stranger().send(method, path_of(url))
    assert reply.status in (403, 405)
    assert "set-cookie" not in reply.headers
    assert entered(url).get(FIRST).status == 200


def test_a_browser_that_only_guesses_what_will_be_opened_uses_no_ticket(explorer: Explorer) -> None:
    url = explorer.ticket()
    reply = explorer.stranger().send("GET", path_of(url), Sec_Purpose="prefetch;prerender")
    assert (reply.status, "set-cookie" in reply.headers) == (503, False)
    assert entered(url).get(FIRST).status == 200


@pytest.mark.parametrize(
    "path", ["", "x", "x/", "x/y", "../enter/x", "%00", "%2e%2e%2f", "é".encode().hex(), "do/pin", "static/1/app.js"]
)
def test_an_address_that_nobody_was_given_opens_nothing(explorer: Explorer, path: str) -> None:
    for method in ("GET", "POST"):
        reply = explorer.stranger().send(method, f"/ui/enter/{path}")
        assert reply.status in (403, 405), (method, reply.status)
        assert "set-cookie" not in reply.headers
        assert "function" not in reply.text


def test_the_oldest_ticket_and_visit_go_for_one_too_many() -> None:
    visits = Visits(FakeClock().monotonic)
    tickets = [visits.issue_ticket() for _ in range(40)]
    opened = [visit for ticket in tickets if (visit := visits.open_visit(ticket))]
    assert len(opened) == 32
    more = visits.open_visit(visits.issue_ticket())
    assert more is not None
    assert visits.find_visit(f"{opened[0].base}/tree", [opened[0].cookie]) is None
    assert visits.find_visit(f"{more.base}/tree", [more.cookie]) is more


# cookies


def test_the_cookie_is_kept_from_scripts_other_sites_and_other_addresses(explorer: Explorer) -> None:
    reply = explorer.stranger().send("GET", path_of(explorer.ticket()))
    first, *attributes = [part.strip() for part in reply.headers["set-cookie"].split(";")]
    name, _, value = first.partition("=")
    base = re.search(r'url=(/ui/[^"]+)/"', reply.text)
    assert base is not None
    assert name == COOKIE
    assert len(value) >= 43
    assert len(base[1].rsplit("/", 1)[1]) >= 22
    # No Domain: the cookie is this host's. No Max-Age: it ends with the browser. No Secure: HTTP on loopback has none.
    assert sorted(part.lower() for part in attributes) == ["httponly", f"path={base[1].lower()}", "samesite=strict"]
    assert value not in reply.text


def test_no_two_visits_have_a_secret_in_common(explorer: Explorer) -> None:
    one, other = explorer.visit(), explorer.visit()
    secrets = [one.base, one.cookie, one.token(), other.base, other.cookie, other.token()]
    assert len(set(secrets)) == 6
    assert one.cookie not in one.page("status")


@pytest.mark.parametrize("page", ["tree", "live", "static/1/app.js", "do/nothing", "", "status", "nothing"])
@pytest.mark.few(4)
def test_an_address_without_its_cookie_and_a_cookie_without_its_address_open_nothing(explorer: Explorer, page: str) -> None:
    visitor, other = explorer.visit(), explorer.visit()
    wrong = [
        Visitor(visitor.server, visitor.base),
        Visitor(visitor.server, visitor.base, other.cookie),
        Visitor(visitor.server, other.base, visitor.cookie),
        Visitor(visitor.server, visitor.base, visitor.cookie[:-1]),
        Visitor(visitor.server, visitor.base, visitor.cookie + "x"),
        Visitor(visitor.server, visitor.base, visitor.cookie.swapcase()),
        Visitor(visitor.server, visitor.base[:-1], visitor.cookie),
        Visitor(visitor.server, "/ui/" + "x" * 22, visitor.cookie),
        Visitor(visitor.server, "/ui/", visitor.cookie),
    ]
    for who in wrong:
        for method in ("GET", "POST"):
            reply = who.send(method, f"{who.base}/{page}", Origin=who.origin, Sec_Fetch_Site="same-origin")
            assert reply.status == 403, (who, method)
            assert "memory-mcp open" in reply.text
            assert "set-cookie" not in reply.headers


def test_cookies_of_programs_on_other_ports_neither_let_in_nor_keep_out(explorer: Explorer) -> None:
    visitor = explorer.visit()
    own = f"{COOKIE}={visitor.cookie}"
    # Cookies are shared by the ports of a host: others may have any form, and our name.
    for given in (f'a={{"b": "c;d"}}; {own}', f"[x]=1; =; ;; {own}; ä=1", f"{COOKIE}=planted; {own}", f"{own}; {COOKIE}=planted"):
        assert visitor.get(FIRST, Cookie=given).status == 200, given
    for given in (f"{COOKIE}=planted", f"x{own}", f"a={own}", visitor.cookie, f'{COOKIE}="{visitor.cookie}"', f"{COOKIE}=\xff"):
        assert visitor.get(FIRST, Cookie=given).status == 403, given


# Host, Origin, and who makes the browser ask


@pytest.mark.parametrize(
    "host", ["memory.evil.example", "localhost.evil.example", "127.0.0.1.evil.example:80", "evil@127.0.0.1", ""]
)
def test_another_host_gets_no_page_and_uses_no_ticket(explorer: Explorer, host: str) -> None:
    """A name of somebody else's that leads to this machine (DNS rebinding) is refused before anything else."""
    visitor, url = explorer.visit(), explorer.ticket()
    assert visitor.get(FIRST, Host=host).status in (400, 421)
    assert explorer.stranger().send("GET", path_of(url), Host=host).status in (400, 421)
    assert entered(url).get(FIRST).status == 200


FOREIGN = {
    "another site": {"Origin": "https://evil.example"},
    "another port": {"Origin": "http://127.0.0.1:1"},
    "another name of this machine": {"Origin": "http://localhost:{port}"},
    "no origin at all": {"Origin": "null"},
    "a script of another site": {"Sec_Fetch_Site": "cross-site"},
    "a script of another port": {"Sec_Fetch_Site": "same-site"},
    "a site of an unknown kind": {"Sec_Fetch_Site": "same-origin, cross-site"},
    "our origin, but another site asks": {"Origin": "http://{server}", "Sec_Fetch_Site": "cross-site"},
}


@pytest.mark.parametrize("who", FOREIGN)
def test_what_another_page_makes_the_browser_ask_is_refused(explorer: Explorer, visitor: Visitor, who: str) -> None:
    port = explorer.server.rpartition(":")[2]
    headers = {name: value.format(port=port, server=explorer.server) for name, value in FOREIGN[who].items()}
    for method, page in (("GET", FIRST), ("GET", "live"), ("GET", "static/1/app.js"), ("POST", "do/pin")):
        reply = visitor.send(method, f"{visitor.base}/{page}", **headers)
        assert reply.status == 403, (method, page)
        assert "another page" in reply.text


def test_what_the_person_and_the_pages_ask_is_let_in(visitor: Visitor) -> None:
    for headers in ({}, {"Sec_Fetch_Site": "none"}, {"Sec_Fetch_Site": "same-origin"}, {"Origin": visitor.origin}):
        assert visitor.get(FIRST, **headers).status == 200, headers


def test_a_form_that_no_header_proves_is_refused(visitor: Visitor) -> None:
    reply = visitor.act("nothing", {"Origin": "", "Sec_Fetch_Site": ""}, token=visitor.token())
    assert reply.status == 403
    assert "another page" in reply.text
    for proof in ({"Origin": ""}, {"Sec_Fetch_Site": ""}):
        assert visitor.act("nothing", proof, token=visitor.token()).status == 404


# forms


@pytest.mark.parametrize("token", ["other", "", "cookie", "name", "x"])
@pytest.mark.few(2)
def test_a_form_without_the_visits_token_does_nothing(explorer: Explorer, visitor: Visitor, token: str) -> None:
    other = explorer.visit()
    given = {"other": other.token(), "cookie": visitor.cookie, "name": visitor.base.rsplit("/", 1)[1]}.get(token, token)
    for act in (*ACTS, "nothing"):
        for headers in ({}, {"X_Part": "1", "X_Token": given}):
            fields = {} if headers else {"token": given}
            reply = visitor.act(act, headers, **fields)
            assert reply.status == 400, (act, reply.text)
            assert "not of this visit" in reply.text


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"token",
        b"\xff\xfe=1",
        b"&" * 200,
        b"a=1&" * 200,
        b'{"token": "x"}',
        b"--x\r\nContent-Disposition: form-data; name=token\r\n",
    ],
)
def test_a_body_that_is_no_form_does_nothing(visitor: Visitor, body: bytes) -> None:
    reply = visitor.send("POST", f"{visitor.base}/do/pin", body, Origin=visitor.origin)
    assert reply.status == 400
    assert "not of this visit" in reply.text


def test_a_form_that_is_too_large_is_not_read(visitor: Visitor) -> None:
    reply = visitor.send("POST", f"{visitor.base}/do/pin", b"x" * (SMALL + 1), Origin=visitor.origin)
    assert reply.status == 413


def test_an_act_that_does_not_exist_changes_nothing_and_says_so(visitor: Visitor) -> None:
    reply = visitor.act("<script>alert(1)", {}, token=visitor.token())
    assert reply.status == 404
    assert "<script>alert" not in reply.text
    told = visitor.act("nothing", {"X_Part": "1"}, token=visitor.token())
    assert (told.status, json.loads(told.text)["error"]["code"]) == (404, "NOT_FOUND")


# the rest of the door


def test_a_visit_opens_no_other_route_and_the_token_opens_no_page(explorer: Explorer, visitor: Visitor) -> None:
    for method, path in (
        ("GET", "/health"),
        ("GET", "/metrics"),
        ("POST", "/hooks/claude-code"),
        ("POST", "/mcp"),
        ("GET", "/sse"),
    ):
        for way in (
            {},
            {"Origin": visitor.origin, "Sec_Fetch_Site": "same-origin"},
            {"Authorization": f"Bearer {visitor.cookie}"},
        ):
            assert visitor.send(method, path, b"{}", **way).status == 401, (method, path)
    bearer = {"Authorization": f"Bearer {explorer.door.token}"}
    for path in (f"{visitor.base}/{FIRST}", f"{visitor.base}/live", "/ui/", "/ui/enter/x", "/ui/x/"):
        assert explorer.stranger().send("GET", path, **bearer).status == 403, path
    assert explorer.stranger().send("GET", "/ui", **bearer).status == 404
    for path in ("/ui", "/UI/", "//ui/", "/ui%2f", "/./ui/"):
        assert visitor.send("GET", path).status in (401, 403), path


def test_a_door_without_pages_has_no_address_below_ui(explorer: Explorer, tmp_path_factory: pytest.TempPathFactory) -> None:
    with opened(tmp_path_factory.mktemp("bare") / "data") as door:
        assert door.request("GET", "/ui/enter/x")[0] == 404
        assert door.request("GET", "/ui/enter/x", {"Authorization": ""})[0] == 401


TRAVERSAL = [
    *("..", "../site.py", "..%2f..%2fsite.py", "%2e%2e/%2e%2e/site.py", "....//site.py", "..%5csite.py", "%00app.js"),
    *(
        "app.js/",
        "app.js%00.css",
        "../templates/base.html",
        "/etc/passwd",
        "%2fetc%2fpasswd",
        "",
        ".",
        "style.css~",
        "__init__.py",
    ),
]


@pytest.mark.parametrize("name", TRAVERSAL)
def test_no_file_but_those_of_the_pages_is_served(visitor: Visitor, name: str) -> None:
    reply = visitor.get(f"static/1/{name}")
    assert reply.status == 404, reply.text[:200]
    assert "root:" not in reply.text
    assert "import" not in reply.text


def test_what_a_page_loads_is_served_with_its_type(visitor: Visitor) -> None:
    names = set(re.findall(rf'"{visitor.base}/(static/[^"]+)"', visitor.page(FIRST)))
    assert len(names) >= 3
    kinds = {"css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}
    for name in names:
        reply = visitor.get(name)
        assert reply.status == 200
        assert reply.headers["content-type"].startswith(kinds[name.rpartition(".")[2]])
        assert reply.headers["x-content-type-options"] == "nosniff"


METHODS = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "PROPFIND", "get", "X-" + "Y" * 40]


@pytest.mark.parametrize("method", METHODS)
def test_every_response_has_the_headers_and_no_method_does_what_it_is_not_for(explorer: Explorer, method: str) -> None:
    visitor = explorer.visit()
    before = explorer.door.app.storage.events.last_seq()
    paths = [
        f"{visitor.base}/{page}"
        for page in ("", FIRST, "status", "nothing", "do/pin", "do/nothing", "static/1/app.js", "static/1/x")
    ]
    for path in (*paths, "/ui/x/tree", "/ui/enter/x", "/ui/enter/x/y", "/ui/"):
        reply = visitor.send(method, path, Origin=visitor.origin, Sec_Fetch_Site="same-origin")
        assert reply.status < 500, (path, reply.status)
        given = {name: value for name, value in reply.headers.items() if name in HEADERS}
        # Pages without a visit have their own few rules of style, and may load none.
        expected = (
            LONE_HEADERS if path in ("/ui/x/tree", "/ui/enter/x", "/ui/enter/x/y", "/ui/") and reply.status == 403 else HEADERS
        )
        cached = {"cache-control": given["cache-control"]} if "static/1/app.js" in path else {}
        assert given == {**expected, **cached}, (path, reply.status)
        if method not in ("GET", "HEAD") or "/do/" in path:
            assert reply.status in (400, 403, 404, 405), (path, reply.status)
    assert explorer.door.app.storage.events.last_seq() == before


def test_a_visit_of_nobody_is_told_nothing_about_others(explorer: Explorer, visitor: Visitor) -> None:
    there = Visitor(visitor.server, visitor.base).get(FIRST)
    not_there = Visitor(visitor.server, "/ui/" + "x" * 22).get(FIRST)
    assert (there.status, there.text, sorted(there.headers)) == (not_there.status, not_there.text, sorted(not_there.headers))


def test_pages_are_the_persons_under_a_lock_that_binds_clients(tmp_path_factory: pytest.TempPathFactory) -> None:
    """`server.scope_lock` binds what agents see; `open` is a command of the person, as every command is."""
    visits = Visits(FakeClock().monotonic)
    with opened(
        tmp_path_factory.mktemp("locked") / "data", visits=visits, scope_lock=True, project="github.com/acme/shop"
    ) as door:
        door.app.write(a_small_history(1), "test")
        door.app.derivation.run()
        visitor = entered(door.base + visits.issue_ticket())
        shown = visitor.page("tree/toc:day:2026-01-19", project="github.com/acme/billing")
        assert re.search("invoices|VAT|ledger", shown)
        # No client gets there: neither its token nor its header opens a page.
        headers = {"Authorization": f"Bearer {door.token}", "Memory_Project": "github.com/acme/billing"}
        assert Visitor(visitor.server, visitor.base).get("tree", **headers).status == 403


# idleness


def test_pages_that_are_used_count_and_one_that_is_left_open_does_not(explorer: Explorer) -> None:
    visitor = explorer.visit()
    assert explorer.visits.idle_s() == 0
    explorer.clock.advance(30)
    visitor.get(FIRST, X_Part="1", X_Live="1")
    visitor.get("static/1/app.js")
    Visitor(visitor.server, visitor.base).get(FIRST)
    assert explorer.visits.idle_s() == 30
    visitor.get(FIRST)
    assert explorer.visits.idle_s() == 0


def test_a_change_is_announced_to_an_open_page(explorer: Explorer, visitor: Visitor) -> None:
    stream, reply = explorer.door.stream(
        path_of(f"x/x/x{visitor.base}/live"), Cookie=f"{COOKIE}={visitor.cookie}", Authorization=""
    )
    try:
        told = told_by(reply)
        first = next(told)
        explorer.clock.advance(5)
        explorer.door.app.write([draft("The lamp is lit.", at="2026-02-10 09:00", source_id="lamp")], "test")
        second = next(told)
        assert second["event"] > first["event"]
        # The stream alone is no use of the pages.
        idle = explorer.visits.idle_s()
        assert idle is not None
        assert idle == 5
    finally:
        stream.close()


def told_by(reply: object) -> Iterator[dict[str, int]]:
    for line in reply:  # type: ignore[attr-defined]
        if line.startswith(b"data: "):
            yield json.loads(line[6:])


def test_every_visit_ends_with_the_door() -> None:
    visits = Visits(FakeClock().monotonic)
    visit, waiting = visits.open_visit(visits.issue_ticket()), visits.issue_ticket()
    assert visit is not None
    visits.end_all()
    assert visits.find_visit(f"{visit.base}/tree", [visit.cookie]) is None
    assert visits.open_visit(waiting) is None
    assert visits.idle_s() is None
