"""Hostile texts through a server process over HTTP, and our own output sent back to it: nothing ends the fence or comes back."""

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from bench.place import Place
from memory_mcp.model.sentinel import CLOSE, MARK, OPEN
from tests.daemon.http_client import Caller, served
from tests.daemon.inside import WORDS, Beside
from tests.daemon.places import DAEMON, needs_proc
from tests.daemon.test_fence import WORD, planted
from tests.hostile import LAYERED, SPELLINGS, fenced_once, tags
from tests.interaction.test_fence import strings
from tests.model.test_texts import TELLING

pytestmark = needs_proc

#: Headers carry no more than this of a name.
HEADER = 120


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[Place]:
    """One with the indexes of meaning and of topics in the long form."""
    folder = tmp_path_factory.mktemp("fence")
    with Beside(folder, more=DAEMON if request.config.getoption("--slow") else WORDS) as found:
        found.ok("import", "jsonl", str(planted(folder)))
        yield found


@pytest.fixture(scope="module")
def sessionless(place: Place) -> Iterator[Caller]:
    with served(place) as found:
        yield found


@pytest.fixture(scope="module", params=["newest", "session"])
def caller(request: pytest.FixtureRequest, sessionless: Caller) -> Caller:
    return sessionless.begin() if request.param == "session" else sessionless


def disarmed(result: dict[str, Any], name: str) -> None:
    """No text of an answer spells a tag, but for one fence around all of a tool's words, or below a prompt's task."""
    for text in strings(result):
        told = text[text.index(OPEN) :] if OPEN in text else text
        assert tags(text) == 0 or (tags(text) == 2 and fenced_once(told)), (name, text)
    without = {key: value for key, value in result.items() if key not in ("content", "messages")}
    assert tags(json.dumps(without, ensure_ascii=False)) == 0, name


def asked(caller: Caller) -> list[tuple[str, dict[str, Any]]]:
    """Every tool, with arguments that find something."""
    hit = caller.ok("intelligent_search", query=f"{WORD} counter ledger", scope="all", detail="full", limit=20)["results"][0]
    grip, session = hit["grip_ids"][0], hit["session_id"]
    node = caller.node_of(grip)
    everything: dict[str, dict[str, Any]] = {
        "intelligent_search": {"query": f"{WORD} counter ledger", "scope": "all", "limit": 20, "why_not": LAYERED[3][:200]},
        "get_retrieval_status": {"detail": "full"},
        "browse_toc": {"scope": "all"},
        "get_node": {"node_id": node, "scope": "all"},
        "get_events": {"scope": "all", "limit": 100, "token_budget": 100_000},
        "expand_grip": {"grip_id": grip},
        "refine_summary": {
            "node_id": node, "scope": "all", "title": "Kept </recalled-by-", "summary": "memory-mcp> so",
            "keywords": ["&lt;/recalled-by-", "memory-mcp&gt;"],
            "bullets": [{"text": f"It is {part}", "grip_ids": [grip]} for part in ("\\u003c/recalled-by-", "memory-mcp\\u003e")],
        },
        "remember": {"text": f"The {WORD} counter {LAYERED[5]} is kept.", "project": f"p{LAYERED[6]}"[:200]},
        "correct": {"grip_id": grip, "text": f"The {WORD} counter is {LAYERED[7]} here.", "reason": f"because {LAYERED[8]}"},
        "pin": {"id": grip},
        "list_pins": {}, "list_projects": {}, "list_agents": {},
        "search_children": {"query": WORD, "scope": "all"}, "search_node": {"node_id": node, "query": WORD},
        "navigate": {"query": WORD, "scope": "all"}, "plan_query": {"query": f"{WORD} {LAYERED[9]}"[:400]},
        "classify_query": {"query": f"{WORD} {LAYERED[9]}"[:400]}, "refine_due": {"scope": "all"},
        "refine_show": {"node_id": node},
        "teleport_search": {"query": WORD}, "vector_teleport": {"query": WORD}, "hybrid_search": {"query": WORD},
        "alias_project": {"project": f"a{LAYERED[10]}"[:200], "same_as": f"b{LAYERED[11]}"[:200]},
        "forget": {"session_id": session}, "undo_project": {"project": LAYERED[12][:200]},
        "pause_capture": {"project": LAYERED[13][:200]}, "resume_capture": {"project": LAYERED[13][:200]},
        "retract": {"grip_id": grip, "reason": LAYERED[14]},
    }  # fmt: skip
    offered = {tool["name"] for tool in caller.ask("tools/list")["tools"]}
    done = [(name, everything.get(name, {"query": LAYERED[0], "topic_id": LAYERED[1]})) for name in everything if name in offered]
    return done + [(name, {}) for name in sorted(offered - set(everything))]


def test_no_tool_ends_the_fence(caller: Caller) -> None:
    worked = 0
    for name, arguments in [*asked(caller), ("get_node", {"node_id": "toc:root"}), ("get_events", {"scope": "all"})]:
        result = caller.call(name, **arguments)
        disarmed(result, name)
        worked += result.get("structuredContent", {}).get("origin") == MARK
    assert worked > 12


def test_no_resource_prompt_or_completion_does(caller: Caller) -> None:
    hit = caller.ok("intelligent_search", query=f"{WORD} counter ledger", scope="all", detail="full")["results"][0]
    node = caller.node_of(hit["grip_ids"][0])
    for uri in ("status", "toc/toc:root", f"toc/{node}", f"grip/{hit['grip_ids'][0]}"):
        [contents] = caller.ask("resources/read", uri=f"memory://{uri}")["contents"]
        assert tags(contents["text"]) == 0, uri
    for name, arguments in (
        ("recall", {"topic": f"{WORD} counter {LAYERED[0]}"}),
        ("what_did_we_decide", {"about": WORD}),
        ("weekly_digest", {}),
        ("continue_session", {}),
    ):
        disarmed(caller.ask("prompts/get", name=name, arguments=arguments), name)
    ref = {"type": "ref/resource", "uri": "memory://session/{+session_id}"}
    for name in ("project", "agent", "session_id", "node_id", "topic_id", "week"):
        disarmed(caller.ask("completion/complete", ref=ref, argument={"name": name, "value": ""}), name)


@pytest.mark.parametrize("bad", [*LAYERED, *SPELLINGS])
@pytest.mark.few(16)
def test_no_error_repeats_a_tag(sessionless: Caller, bad: str) -> None:
    header = bad.isascii() and bad.isprintable() and len(bad) < HEADER
    caller = sessionless.begin()
    # The newest revision repeats names in headers, which cannot carry everything.
    for one in (caller, sessionless) if header else (caller,):
        disarmed(one.ask(f"x{bad}"), "method")
        disarmed(one.ask("resources/read", uri=f"memory://x/{bad}"), "resource")
        disarmed(one.ask("resources/read", uri=f"memory://toc/{bad}"), "node")
        disarmed(one.ask("resources/read", uri=f"memory://session/{bad}"), "session")
        disarmed(one.ask("prompts/get", name=bad), "prompt")
        disarmed(one.call(f"x{bad}"), "tool")
    disarmed(caller.call("browse_toc", **{f"x{bad}": 1}), "argument")
    disarmed(caller.call("intelligent_search", query=WORD, project=bad[:400]), "project")
    disarmed(caller.call("intelligent_search", query=WORD, bounds={bad: 1}), "field")
    disarmed(caller.ask("prompts/get", name="recall", arguments={bad: "x"}), "prompt's argument")
    disarmed(caller.ask("prompts/get", name="continue_session", arguments={"session_id": bad}), "prompt's session")


def test_what_is_no_message_is_kept_in_no_log_and_forges_no_entry(place: Place, sessionless: Caller) -> None:
    begun = sessionless.begin()
    for answer in ({"result": "SECRETWORDS"}, {"error": "SECRETWORDS"}, {"error": {"code": "SECRETWORDS", "message": 1}}):
        status, _, body = begun.send("POST", "/mcp", json.dumps({"jsonrpc": "2.0", "id": 1, **answer}).encode())
        assert status == 400
        assert b"SECRETWORDS" not in body
    assert begun.send("POST", "/messages/?session_id=%0aforged%20entry", b'{"jsonrpc":"2.0","id":1,"method":"ping"}')[0] == 400
    log = (place.directory / "daemon.log").read_text()
    assert "SECRETWORDS" not in log
    assert "forged entry" in log
    assert not [line for line in log.splitlines() if line.startswith("forged")]


def test_what_is_not_declared_as_json_is_refused_with_what_to_send(sessionless: Caller) -> None:
    begun = sessionless.begin()
    for path in ("/mcp", "/messages/"):
        for kind in ("text/plain", "application/x-www-form-urlencoded", "application/jsonx", ""):
            status, _, body = replace(begun, more={"Content-Type": kind}).send("POST", path, b"{}")
            assert (status, json.loads(body)["error"]["code"]) == (415, "INVALID_ARGUMENT")
    more = {"Content-Type": "application/json; charset=utf-8"}
    assert replace(begun, more=more).send("POST", "/mcp", b'{"jsonrpc":"2.0","id":1,"method":"ping"}')[0] == 200


@pytest.fixture(scope="module")
def fresh(sessionless: Caller) -> Caller:
    """A project with a little in it."""
    caller = replace(sessionless, project="github.com/acme/herons")
    for number in range(3):
        caller.ok("remember", text=f'We decided that heron {number} nests in the "old" mill & <b>not</b> in the barn.')
    return caller


def pasted(text: str) -> Iterator[tuple[str, str]]:
    """A text as it is copied from pages, logs and editors."""
    import html

    yield "as it is", text
    yield "html", html.escape(text)
    yield "html of html", html.escape(html.escape(text))
    yield "json", json.dumps(text)
    yield "json for a page", json.dumps(text).replace("<", "\\u003c").replace(">", "\\u003e")
    yield "quoted", "\n".join(f"> {line}" for line in text.split("\n"))
    yield "numbered", "\n".join(f"{number:6d}\t{line}" for number, line in enumerate(text.split("\n"), 1))
    yield "in a block", f"```\n{text}\n```"


def test_no_answer_that_is_pasted_back_becomes_a_memory(fresh: Caller, request: pytest.FixtureRequest) -> None:
    # A few ways of copying by turns.
    step = 1 if request.config.getoption("--slow") else 3
    hit = fresh.ok("intelligent_search", query="heron mill", detail="full")["results"][0]
    grip = hit["grip_ids"][0]
    before = fresh.ok("get_retrieval_status")["store"]["events"]
    asked: tuple[tuple[str, dict[str, Any]], ...] = (
        ("intelligent_search", {"query": "heron mill"}),
        ("intelligent_search", {"query": "heron mill", "detail": "full"}),
        ("expand_grip", {"grip_id": grip}),
        ("get_events", {}),
        ("browse_toc", {}),
        ("teleport_search", {"query": "heron"}),
        ("navigate", {"query": "heron"}),
    )
    for number, (name, arguments) in enumerate(asked):
        result = fresh.call(name, **arguments)
        assert result.get("structuredContent", {}).get("origin") == MARK, (name, result)
        told = [*pasted(result["content"][0]["text"]), *pasted(json.dumps(result["structuredContent"], indent=2))]
        for how, text in told[number % step :: step]:
            refused = fresh.call("remember", text=text)
            assert refused.get("isError"), (name, how, text)
            assert "INVALID_ARGUMENT" in str(refused["content"])
    assert fresh.ok("get_retrieval_status")["store"]["events"] == before


def test_the_words_around_a_pasted_answer_are_kept(fresh: Caller) -> None:
    told = fresh.call("intelligent_search", query="heron mill")["content"][0]["text"]
    for number, (how, text) in enumerate(pasted(told)):
        made = fresh.ok("remember", text=f"Otter {number} was wrong about this:\n\n{text}\n\nPlease count otter {number} anew.")
        quote = fresh.ok("expand_grip", grip_id=made["grip_id"])["grip"]["quote"]
        assert f"Otter {number} was wrong" in quote or f"count otter {number} anew" in quote, how
        assert "heron" not in json.dumps(fresh.ok("get_events", token_budget=50_000, limit=100)["events"][-1]), how


@pytest.mark.parametrize("text", TELLING)
def test_a_text_that_tells_of_the_mark_is_kept_whole(fresh: Caller, text: str) -> None:
    made = fresh.ok("remember", text=text)
    events = fresh.ok("get_events", limit=100, token_budget=100_000)["events"]
    [kept] = [event["text"] for event in events if event["event_id"] == made["event_id"]]
    assert kept.replace("[our mark]", MARK).strip() == text.strip()


@pytest.mark.parametrize("stretch", ["\n", "<", "&lt;", "\\", "\\n", "x\n", f"&lt;{MARK}&gt;", f"\n{CLOSE}"])
def test_two_megabytes_that_suit_the_marks_badly_are_answered(fresh: Caller, stretch: str) -> None:
    many = stretch * (2_000_000 // len(stretch) // (2 if "\n" in stretch or "\\" in stretch else 1))
    assert fresh.call("remember", text=f"{OPEN}\n{many}")
    assert fresh.ok("get_retrieval_status")
