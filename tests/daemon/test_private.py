"""Private spans, however they are spelled, at every door and in every field: nothing of them reaches the disk."""

import json
from pathlib import Path
from typing import Any

import pytest
from mcp import ClientSession, stdio_client

from memory_mcp.redact.redact import strip_private
from tests.daemon.inside import WORDS, Beside
from tests.daemon.places import needs_proc
from tests.daemon.test_capture import hook, raw
from tests.waiting import until

pytestmark = needs_proc

SPELLINGS = (
    "open <private>SECRET</private> open",
    "open <PRIVATE>SECRET</Private> open",
    "open <private>x<private>y</private>SECRET</private> open",
    "open < private >SECRET</ private > open",
    "open <private why='it is mine'>SECRET</private> open",
    "open &lt;private&gt;SECRET&lt;/private&gt; open",
    "open \\u003cprivate\\u003eSECRET\\u003c/private\\u003e open",
    "open <pri\u200bvate>SECRET</priv\u200bate> open",
    "open \uff1cprivate\uff1eSECRET\uff1c/private\uff1e open",
    "open %3Cprivate%3ESECRET%3C/private%3E open",
    "open %253Cprivate%253ESECRET%253C%252Fprivate%253E open",
    "open &amp;lt;private&amp;gt;SECRET&amp;lt;/private&amp;gt; open",
    "open &#x3c;private&#x3E;SECRET&#x3c;&#47;private&#x3E; open",
    "open \\\\u003Cprivate\\\\u003ESECRET\\\\u003C/private\\\\u003E open",
    "open \\x3cprivate\\x3eSECRET\\x3c/private\\x3e open",
    "open <private>SECRET<\\/private> open",
    "open <private why='a & b' x=1>SECRET</private> open",
    "open <pri\u034fva\U000e0020te>SECRET</private> open",
    "open \uff1c\uff50\uff52\uff49\uff56\uff41te\uff1eSECRET\uff1c\uff0f\uff50\uff52\uff49\uff56\uff41te\uff1e open",
    "open <\u0440riv\u0430te>SECRET</\u0440riv\u0430te> open",
)


@pytest.mark.parametrize("text", SPELLINGS)
def test_a_span_goes_however_it_is_spelled(text: str) -> None:
    assert strip_private(text) == "open  open"


def test_a_span_that_lacks_an_end_reaches_to_the_end_of_its_text() -> None:
    assert strip_private("open <private>SECRET") == "open "
    assert strip_private("open <private why='a&b'>SECRET") == "open "
    assert strip_private("SECRET</private> open") == " open"


@pytest.mark.parametrize("text", ["<privateKey>open</privateKey>", "private List<String> open;", "a private <b>open</b> word"])
def test_what_only_looks_like_one_stays(text: str) -> None:
    assert strip_private(text) == text


@pytest.mark.anyio
async def test_no_door_lets_a_private_span_onto_the_disk(tmp_path: Path) -> None:
    spans = [text.replace("SECRET", f"osprey{n}") for n, text in enumerate(SPELLINGS)]
    inner = "<private>osprey</private>"
    everywhere: dict[str, Any] = {
        "session_id": f"s{inner}",
        "role": "user",
        "id": f"i{inner}",
        "speaker": f"p{inner}",
        "agent": f"a{inner}",
        "project": f"pr{inner}",
        "thread": f"t{inner}",
        "metadata": {f"k{inner}": f"v{inner}", "cut": "osprey</private>v"},
    }
    lines = [
        {**everywhere, "id": f"{n}{inner}", "text": text, "timestamp": 1_767_225_600_000 + n} for n, text in enumerate(spans)
    ]
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    with Beside(tmp_path, more=WORDS) as place:
        place.ok("import", "jsonl", str(tmp_path / "a.jsonl"))
        place.ok("ingest", "-", stdin="".join(json.dumps({**line, "session_id": "b"}) + "\n" for line in lines))
        hook(place, "UserPromptSubmit", prompt=" ".join(spans))
        call = {"command": f"echo {spans[0]}", "description": spans[2]}
        hook(place, "PostToolUse", tool_name="Bash", tool_use_id="u", tool_input=call, tool_response={"stdout": spans[1]})
        until(lambda: place.spooled() == 0)
        async with stdio_client(place.server()) as (read, write), ClientSession(read, write) as client:
            await client.initialize()
            told = await client.call_tool(
                "ingest_events", {"events": [{**everywhere, "text": spans[3], "timestamp": 1_767_225_600_000}]}
            )
            assert not told.is_error, told.content
            found = (await client.call_tool("get_events", {"scope": "all"})).structured_content
            assert found is not None
            segments = [one["grip_id"] for one in found["events"] if one.get("grip_id")]
            if segments:
                await client.call_tool("pin", {"id": segments[0]})
        place.stop()
    assert b"open" in raw(place)
    assert b"osprey" not in raw(place)
