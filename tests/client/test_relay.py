"""The pump's deciding half: what a new daemon is told, what the client sees of the change. Lines in, lines out."""

import json
from typing import Any

import pytest

from memory_mcp.service.client.relay import KEY, Relay


def line(**message: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0", **message}, separators=(",", ":")).encode() + b"\n"


def request(number: Any, method: str, **params: Any) -> bytes:
    return line(id=number, method=method, params=params)


def answer(number: Any, **result: Any) -> bytes:
    return line(id=number, result=result)


def messages(lines: list[bytes]) -> list[dict[str, Any]]:
    return [json.loads(one) for one in lines]


INITIALIZE = request(0, "initialize", protocolVersion="2025-11-25", clientInfo={"name": "c", "version": "1"}, capabilities={})
INITIALIZED = line(method="notifications/initialized")


def greeted() -> Relay:
    relay = Relay("pump")
    relay.from_client(INITIALIZE)
    relay.from_daemon(answer(0, protocolVersion="2025-11-25"))
    relay.from_client(INITIALIZED)
    return relay


def test_every_tool_call_carries_a_key_of_its_own_and_the_rest_stays_as_it_was() -> None:
    relay = Relay("pump")
    first = json.loads(relay.from_client(request(1, "tools/call", name="remember", arguments={"text": "x"}, _meta={"a": 1})))
    second = json.loads(relay.from_client(request(2, "tools/call", name="remember", arguments={"text": "x"})))
    assert first["params"]["_meta"] == {"a": 1, KEY: "pump:1"}
    assert second["params"]["_meta"] == {KEY: "pump:2"}
    assert first["params"]["arguments"] == {"text": "x"}
    listing = request(3, "tools/list")
    assert relay.from_client(listing) == listing


def test_a_key_that_the_client_sets_itself_counts_for_nothing() -> None:
    forged = request(1, "tools/call", name="remember", arguments={}, _meta={KEY: "pump:7"})
    assert json.loads(Relay("pump").from_client(forged))["params"]["_meta"][KEY] == "pump:1"


def test_answers_of_the_client_and_odd_lines_of_the_daemon_pass_unchanged() -> None:
    relay = Relay("pump")
    for odd in (b"not json\n", b"[1,2]\n", b"\n", line(id=5, result={}), line(method=5), "ü\n".encode()):
        assert relay.from_daemon(odd) == odd
    assert relay.from_client(line(id=5, result={})) == line(id=5, result={})
    assert (relay.waiting, relay.answers) == (False, [])


def test_a_legacy_handshake_is_said_again_and_its_second_answer_is_swallowed() -> None:
    relay = greeted()
    relay.count_death()
    said, told = relay.take_replay()
    assert (said, told) == ([INITIALIZE, INITIALIZED], [])
    assert relay.from_daemon(answer(0, protocolVersion="2025-11-25")) == b""
    assert relay.from_daemon(answer(9)) == answer(9)


def test_a_handshake_that_was_never_answered_is_answered_by_the_next_daemon() -> None:
    relay = Relay("pump")
    relay.from_client(INITIALIZE)
    relay.count_death()
    said, _ = relay.take_replay()
    assert said == [INITIALIZE]
    assert relay.from_daemon(answer(0)) == answer(0)


def test_a_handshake_that_was_refused_is_not_said_again() -> None:
    """The first greeting timed out at the client and not at the daemon: the connection is modern, the older greeting refused."""
    relay = Relay("pump")
    relay.from_client(request(1, "server/discover", _meta={}))
    relay.from_client(INITIALIZE)
    relay.from_daemon(answer(1))
    relay.from_daemon(line(id=0, error={"code": -32022, "message": "connection is serving the 2026-07-28 protocol"}))
    call = request(2, "tools/list", _meta={})
    relay.from_client(call)
    relay.count_death()
    assert relay.take_replay() == ([call], [])


def test_in_the_modern_era_there_is_nothing_to_say_again_but_what_is_in_flight() -> None:
    relay = Relay("pump")
    done, open_ = request(1, "tools/list", _meta={}), request("b", "resources/read", uri="memory://status")
    relay.from_client(done)
    relay.from_client(open_)
    relay.from_daemon(answer(1))
    relay.count_death()
    assert relay.take_replay() == ([open_], [])


def test_calls_in_flight_are_sent_again_in_order_and_under_the_same_key() -> None:
    relay = greeted()
    sent = [relay.from_client(request(n, "tools/call", name="remember", arguments={"text": str(n)})) for n in (4, 5, 6)]
    relay.from_daemon(answer(5))
    relay.count_death()
    said, _ = relay.take_replay()
    assert said == [INITIALIZE, INITIALIZED, sent[0], sent[2]]


@pytest.mark.parametrize("number", [4, "4", "call-4"])
def test_a_cancelled_call_is_not_sent_again(number: Any) -> None:
    relay = greeted()
    relay.from_client(request(number, "tools/call", name="browse_toc", arguments={}))
    relay.from_client(line(method="notifications/cancelled", params={"requestId": number}))
    relay.count_death()
    assert relay.take_replay()[0] == [INITIALIZE, INITIALIZED]
    assert not relay.waiting


def test_subscriptions_and_the_log_level_are_set_again_and_their_answers_swallowed() -> None:
    relay = greeted()
    for number, uri in ((1, "memory://a"), (2, "memory://b")):
        relay.from_client(request(number, "resources/subscribe", uri=uri))
        relay.from_daemon(answer(number))
    relay.from_client(request(3, "resources/unsubscribe", uri="memory://a"))
    relay.from_client(request(4, "logging/setLevel", level="error"))
    for number in (3, 4):
        relay.from_daemon(answer(number))
    relay.count_death()
    again = messages(relay.take_replay()[0])[2:]
    assert [(m["method"], m["params"]) for m in again] == [
        ("resources/subscribe", {"uri": "memory://b"}),
        ("logging/setLevel", {"level": "error"}),
    ]
    assert [relay.from_daemon(answer(m["id"])) for m in again] == [b"", b""]


def test_an_open_listen_stream_is_a_call_in_flight() -> None:
    relay = Relay("pump")
    listen = request(1, "subscriptions/listen", notifications={"toolsListChanged": True})
    relay.from_client(listen)
    relay.from_daemon(line(method="notifications/subscriptions/acknowledged", params={}))
    relay.count_death()
    assert relay.take_replay()[0] == [listen]


def test_a_call_at_which_daemon_after_daemon_died_is_given_up_in_words_and_the_others_go_on() -> None:
    relay = greeted()
    relay.from_client(request(4, "tools/call", name="browse_toc", arguments={}))
    for _ in range(7):
        relay.count_death()
        assert relay.take_replay()[1] == []
    other = relay.from_client(request(5, "tools/list"))
    relay.count_death()
    said, told = relay.take_replay()
    assert said == [INITIALIZE, INITIALIZED, other]
    [error] = messages(told)
    assert error["id"] == 4
    assert error["error"]["message"].startswith("UNAVAILABLE: ")
    assert "A retry may help" in error["error"]["message"]


def test_without_any_daemon_every_call_gets_an_error_and_none_is_kept() -> None:
    relay = greeted()
    relay.from_client(request("x", "tools/list"))
    [error] = messages(relay.give_up_all("no daemon"))
    assert (error["id"], relay.waiting) == ("x", False)


def test_answers_are_known_by_their_id_however_they_are_written() -> None:
    for written in (
        b'{"jsonrpc":"2.0","id":7,"result":{"id":8}}\n',
        b'{"result":{"id":8},"id":7,"jsonrpc":"2.0"}\n',
        b'{"jsonrpc":"2.0","id":7,"error":{"code":1,"message":"m"}}\n',
        b'{ "jsonrpc": "2.0", "id": 7, "result": {} }\n',
    ):
        relay = Relay("pump")
        relay.from_client(request(7, "tools/list"))
        assert relay.from_daemon(written) == written
        assert not relay.waiting


def test_a_request_of_the_server_with_the_same_id_answers_nothing() -> None:
    relay = Relay("pump")
    relay.from_client(request(7, "tools/call", name="t", arguments={}))
    asked = line(id=7, method="elicitation/create", params={})
    assert relay.from_daemon(asked) == asked
    assert relay.waiting
