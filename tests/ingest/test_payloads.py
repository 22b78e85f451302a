"""Payloads of hooks without their secrets: whatever form they come in, and readable as before."""

import json
import subprocess
import sys
from typing import Any

import pytest

from memory_mcp.capture.payloads import PayloadCleaner
from tests.ingest.secret_kinds import KINDS, remains
from tests.waiting import PATIENCE

TOKEN = "ghp_" + "16C7e42F292c6912E7710c838347Ae178B4a"
KEY = "-----BEGIN PRIVATE KEY-----\n" + "\n".join(f"MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwgg{n:02}" for n in range(12))
CARD = 4539578763621486
payloads = PayloadCleaner()


def told(**more: Any) -> dict[str, Any]:
    return {"session_id": "0c9a5f0e-1111-4222-8333-444455556666", "cwd": "/home/dev/shop", "hook_event_name": "Stop"} | more


def clean(**more: Any) -> dict[str, Any]:
    """What is left of a payload, which must not change when it is cleaned again."""
    once = payloads.clean_payload(json.dumps(told(**more)).encode())
    assert payloads.clean_payload(once) == once
    found: dict[str, Any] = json.loads(once)
    assert {k: v for k, v in found.items() if k not in more} == {k: v for k, v in told().items() if k not in more}
    return found


@pytest.mark.parametrize(
    "payload",
    [
        json.dumps(told(prompt="Fix the retry queue.", timeout=1.50), indent=3).encode() + b"\n\xff\n",
        b"\xef\xbb\xbf" + json.dumps(told(prompt="Fix \ud800 it.", seconds=1e400, n=2**70)).encode(),
        b'{"torn": "words',
        b"",
        b"{} {} [1, 2]",
        b'{"x": ' + b"[" * 100_000,
        bytes(range(256)),
        json.dumps(told(prompt="the tag <privateKey>, an id 01H8XGJWBWBAQ4Z4Z4Z4Z4Z4Z4", at=1_768_204_800_000)).encode(),
    ],
)
def test_what_holds_nothing_to_take_out_comes_back_as_it_came(payload: bytes) -> None:
    assert payloads.clean_payload(payload) == payload


HIDDEN = {
    "escaped": json.dumps(told(prompt=TOKEN)).replace("ghp", "\\u0067hp").encode(),
    "a key of an object": json.dumps(told(tool_input={TOKEN: {TOKEN: 1}})).encode(),
    "a key that comes twice": b'{"prompt": "' + TOKEN.encode() + b'", "prompt": "nothing"}',
    "a key name": json.dumps(told(tool_input={"db_password": TOKEN[4:]})).encode(),
    "name and value": json.dumps(told(tool_input=[{"name": "API_SECRET", "value": TOKEN[4:]}])).encode(),
    "several values": json.dumps(told()).encode() + b"\n" + json.dumps([TOKEN]).encode(),
    "torn": b'{"prompt": "' + TOKEN.encode(),
    "torn and escaped": b'{"prompt": "\\u0067' + TOKEN[1:].encode(),
    "no JSON": b"my token is " + TOKEN.encode() + b"\xff",
    "another encoding": json.dumps(told(prompt=TOKEN)).encode("utf-16"),
    "behind invalid bytes": json.dumps(told(prompt="X " + TOKEN)).encode().replace(b"X", b"\xff"),
    "deep": b'{"t": "' + TOKEN.encode() + b'", "x": ' + b"[" * 100_000,
    "beside half a character": json.dumps(told(prompt=f"\ud83d {TOKEN} \udc00")).encode(),
    "a session": json.dumps(told() | {"session_id": TOKEN}).encode(),
    "a path": json.dumps(told() | {"cwd": f"/home/dev/{TOKEN}"}).encode(),
    "a list of events": json.dumps([told(text=TOKEN)]).encode(),
    "a string of megabytes": json.dumps(told(t=f"{'some words ' * 400_000}{TOKEN}{' some words' * 5}")).encode(),
}


@pytest.mark.parametrize("kind", HIDDEN)
def test_a_secret_goes_wherever_it_is(kind: str) -> None:
    done = payloads.clean_payload(HIDDEN[kind])
    assert b"REDACTED" in done or b"nothing" in done
    for secret in (TOKEN[4:].encode(), TOKEN[4:].encode("utf-16-le")):
        assert secret not in done
    assert payloads.clean_payload(done) == done


def test_a_number_that_is_a_card_goes_and_others_stay() -> None:
    others = {"n": CARD + 1, "on": True, "no": None}
    assert clean(tool_input={"card": CARD, **others})["tool_input"] == {"card": "[REDACTED:card-number]", **others}


def test_a_key_told_line_by_line_goes_and_what_stands_beside_it_stays() -> None:
    for lines in (KEY.split("\n"), ["+" + line for line in KEY.split("\n")]):
        found = clean(tool_response={"lines": ["before the key", *lines], "next": "words behind it"}, prompt="Look at it.")
        assert found["tool_response"]["lines"][0] == "before the key"
        assert found["tool_response"]["next"] == "words behind it"
        assert "MIIE" not in json.dumps(found)


def test_what_tells_things_apart_still_does() -> None:
    one, other = ({**clean(tool_use_id=f"x {TOKEN}{n}", session_id=f"y {TOKEN}{n}")} for n in "ab")
    for name in ("tool_use_id", "session_id"):
        assert one[name] != other[name]
        assert TOKEN not in one[name] + other[name]
    assert payloads.clean_fields({"cwd": f"/{TOKEN}/a", "project_dir": "/b"})["project_dir"] == "/b"
    assert TOKEN not in payloads.clean_fields({"cwd": f"/{TOKEN}/a"})["cwd"]


def test_private_spans_go_within_a_string_over_the_strings_of_a_list_and_are_marked_where_they_go_on() -> None:
    assert clean(prompt="a <private>osprey</private> b")["prompt"] == "a  b"
    blocks = [{"type": "text", "text": t} for t in ("open <private>osprey", "osprey", "osprey</private> open")]
    found = clean(tool_response=[*blocks, {"type": "text", "text": "more"}], prompt="untouched")
    assert [b["text"] for b in found["tool_response"]] == ["open <private>", "", "</private> open", "more"]
    assert {b["type"] for b in found["tool_response"]} == {"text"}
    assert found["prompt"] == "untouched"
    assert [b["text"] for b in clean(tool_response=blocks[1:])["tool_response"]] == ["", "</private> open"]
    goes_on = clean(tool_response={"stdout": "open <private>osprey", "stderr": "x</private> open"})["tool_response"]
    assert goes_on == {"stdout": "open <private>", "stderr": "</private> open"}


def test_events_and_parts_of_an_answer_are_no_single_text() -> None:
    events = [{"session_id": "s", "text": "open <private>osprey"}, {"session_id": "s", "text": "another"}]
    assert [e["text"] for e in json.loads(payloads.clean_payload(json.dumps(events).encode()))] == ["open <private>", "another"]
    parts = [{"type": "text", "text": "open <private>osprey"}, {"type": "text", "text": "another"}]
    assert clean(role="assistant", parts=parts)["parts"][1]["text"] == "another"
    assert clean(role="user", parts=parts)["parts"][1]["text"] == ""


def test_hardly_a_secret_of_any_kind_is_left_in_any_form() -> None:
    values = [v for held in (False, True) for kind in KINDS for v in kind.values(1, held, "payloads")]
    left = []
    for number, (text, secret) in enumerate(values):
        shown = ({"prompt": text}, {"tool_input": {"command": text}}, {"tool_response": {"lines": text.split("\n")}})[number % 3]
        found = clean(**shown)
        said = found.get("prompt") or found.get("tool_input", {}).get("command") or "\n".join(found["tool_response"]["lines"])
        left += [text] if remains(secret, said) else []
    assert len(left) <= 0.03 * len(values), left[:20]


@pytest.mark.usefixtures("processes")
def test_every_process_makes_the_same_of_a_payload() -> None:
    given = json.dumps(told(prompt=f"{KEY} {TOKEN}", tool_use_id=f"a {TOKEN}", tool_input={TOKEN: 1, "b": [TOKEN, "c"]})).encode()
    code = "import sys; from memory_mcp.capture.payloads import PayloadCleaner; "
    code += "sys.stdout.buffer.write(PayloadCleaner().clean_payload(sys.stdin.buffer.read()))"
    done = subprocess.run([sys.executable, "-c", code], input=given, capture_output=True, check=True, timeout=PATIENCE)
    assert done.stdout == payloads.clean_payload(given) != given
