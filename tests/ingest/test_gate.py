"""The gate: what no write path lets through, and what it keeps whole."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_mcp.capture.gate import SIZE_KEY, Gate, shorten_text
from memory_mcp.importers.base import ImportReport
from memory_mcp.importers.settings import IngestSettings
from memory_mcp.model.event import EventDraft, EventType, Role
from memory_mcp.model.fencing import fence_text
from memory_mcp.model.sentinel import CLOSE, MARK, OPEN
from tests.work import calls

GATE = Gate()
DRAFT = EventDraft(session_id="s1", role=Role.USER, type=EventType.USER_MESSAGE, text="hello", timestamp=1)
PASSWORD = "hun" + "ter2!x"


def clean(draft: EventDraft, gate: Gate = GATE) -> tuple[EventDraft | None, ImportReport]:
    report = ImportReport()
    return gate.clean_draft(draft, report), report


def kept(draft: EventDraft, gate: Gate = GATE) -> EventDraft:
    found, report = clean(draft, gate)
    assert found is not None
    assert not report.dropped
    return found


def test_names_that_stay_the_same_are_looked_at_once() -> None:
    """Sessions, agents and projects stand with many events, whose ids differ: 216 calls, then 136 each."""
    gate = Gate()
    named = replace(DRAFT, session_id="session-1", agent="agent-1", project="/home/dev/shop", thread="thread-1", speaker="Ada-1")
    counted = [calls(lambda n=n: gate.clean_draft(replace(named, source_id=f"m{n}"), ImportReport())) for n in (1, 2)]  # type: ignore[misc]
    assert counted[1] <= counted[0] - 20


def test_a_clean_draft_passes_unchanged() -> None:
    draft = replace(DRAFT, source_id="u1", agent="a", project="p", thread="t", speaker="Ada", metadata={"tool": "Bash"})
    assert kept(draft) == draft


#: As an answer of ours tells it.
RECALLED = '- 2026-01-20 10:00, user said: "a memory" [grip:1767603600000:35cs7r7vpdbmj55j]'


def test_what_we_recalled_ourselves_is_taken_out_and_the_rest_kept() -> None:
    assert kept(replace(DRAFT, text=f"before {fence_text(RECALLED)} after")).text == "before  after"
    told = f"before {OPEN} and {CLOSE} after"
    assert kept(replace(DRAFT, text=told)).text == told


@pytest.mark.parametrize("kind", [EventType.TOOL_RESULT, EventType.USER_MESSAGE, EventType.NOTE])
@pytest.mark.parametrize("text", [fence_text("a memory"), f'{{"origin": "{MARK}", "results": []}}', f"{OPEN}\n{RECALLED}"])
def test_our_own_output_is_dropped_and_counted(kind: EventType, text: str) -> None:
    found, report = clean(replace(DRAFT, type=kind, text=text))
    assert found is None
    assert report.dropped == {"own output": 1}


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        *(({"text": text}, "empty text") for text in ("", " \n ", "<private>all of it</private>", "<private>all of it")),
        *(({"session_id": session}, "no session id") for session in ("", "  ")),
    ],
)
def test_an_event_without_text_or_session_is_dropped_and_counted(changed: dict[str, str], reason: str) -> None:
    assert clean(replace(DRAFT, **changed))[1].dropped == {reason: 1}  # type: ignore[arg-type]


def test_secrets_and_private_spans_go_from_text_and_metadata() -> None:
    draft = replace(
        DRAFT,
        text=f"set password='{PASSWORD}' <private>x</private>",
        metadata={"command": f"mysql --password {PASSWORD}", "password": PASSWORD, "note": "<private>y</private>z"},
    )
    found, report = clean(draft)
    assert found is not None
    assert found.text == "set password='[REDACTED:assignment]' "
    assert found.metadata == {
        "command": "mysql --password [REDACTED:assignment]",
        "password": "[REDACTED:assignment]",
        "note": "z",
    }
    assert report.redacted == {"assignment": 3}


def test_a_value_seen_clean_under_one_name_is_still_looked_at_under_another() -> None:
    assert kept(replace(DRAFT, metadata={"branch": PASSWORD})).metadata == {"branch": PASSWORD}
    assert kept(replace(DRAFT, metadata={"secret_password": PASSWORD})).metadata == {"secret_password": "[REDACTED:assignment]"}


def test_the_number_of_a_call_stays_and_what_only_stands_in_its_place_is_looked_at() -> None:
    for number in ("toolu_01Jcrb8BoK8qgGGsycHsPYNo", "6f1c0a52-3e1d-4b7a-9c1e-0123456789ab"):
        assert kept(replace(DRAFT, metadata={"tool_use_id": number})).metadata == {"tool_use_id": number}
    token = "sk-ant-" + "api03-Zk3nT9qLw2Xv7Rb5Yc8D"
    assert kept(replace(DRAFT, metadata={"tool_use_id": token})).metadata == {"tool_use_id": "[REDACTED:anthropic]"}


def test_nul_bytes_and_lone_surrogates_are_replaced_everywhere() -> None:
    odd = "a\0b\ud800c"
    found = kept(EventDraft(odd, Role.USER, EventType.NOTE, odd, 1, odd, odd, odd, odd, odd, {odd: odd}))
    good = "a\ufffdb\ufffdc"
    assert found == EventDraft(good, Role.USER, EventType.NOTE, good, 1, good, good, good, good, good, {good: good})


def test_surrogates_that_belong_together_become_their_character() -> None:
    assert kept(replace(DRAFT, text="\ud83d\ude80 \u05e9\u05dc\u05d5\u05dd \u4e2d\u6587")).text == "🚀 שלום 中文"


def test_three_megabytes_keep_head_and_tail_and_tell_their_size() -> None:
    text = "HEAD " + "é" * 1_500_000 + " TAIL"
    found = kept(replace(DRAFT, text=text))
    assert found.text.startswith("HEAD é")
    assert found.text.endswith("é TAIL")
    assert "bytes left out" in found.text
    assert len(found.text.encode()) < 1024 * 1024 + 100
    assert found.metadata == {SIZE_KEY: "3000010"}


def test_a_tool_result_has_its_own_bound_and_a_message_does_not() -> None:
    text = "line of output\n" * 10_000
    result = replace(DRAFT, role=Role.TOOL, type=EventType.TOOL_RESULT, text=text)
    assert len(kept(result).text) < 66_000
    assert kept(replace(DRAFT, text=text)).text == text


def test_a_secret_at_the_cut_goes_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("memory_mcp.capture.gate.MAX_TOOL_RESULT_BYTES", 1024)
    secret = "gh" + "p_16C7e42F292c6912E7710c838347Ae178B4a"
    for place in range(460, 530, 7):
        text = "x" * place + " " + secret + " " + "y " * 1500
        found = kept(replace(DRAFT, type=EventType.TOOL_RESULT, text=text))
        assert "16C7" not in found.text
        assert "178B4a" not in found.text


@given(st.text(max_size=400), st.integers(min_value=8, max_value=200))
def test_no_cut_falls_into_a_character(text: str, bound: int) -> None:
    short, full = shorten_text(text, bound)
    size = len(text.encode())
    assert (full == 0) == (size <= bound)
    if full == 0:
        assert short == text
    else:
        head, _, tail = short.partition("\n[... ")
        assert text.startswith(head)
        assert text.endswith(tail.split("left out ...]\n", 1)[1])
        assert full == size


def test_metadata_is_bounded_in_number_and_size_and_made_of_texts() -> None:
    given_metadata = {f"k{n:02d}": "é" * 10_000 for n in range(60)}
    found = kept(replace(DRAFT, metadata=given_metadata | {"n": "1"}))
    assert list(found.metadata) == [f"k{n:02d}" for n in range(40)]
    assert all(len(value.encode()) < 4096 + 60 for value in found.metadata.values())
    assert kept(replace(DRAFT, metadata={"n": 1, "b": True})).metadata == {"n": "1", "b": "True"}  # type: ignore[dict-item]


def test_long_ids_are_bounded_and_stay_distinct() -> None:
    one, other = (kept(replace(DRAFT, session_id="s" * 300 + end)).session_id for end in "ab")
    assert len(one) == len(other) == 200
    assert one != other


@given(st.builds(replace, st.just(DRAFT), text=st.text(max_size=60) | st.just(fence_text("x")), session_id=st.text(max_size=5)))
def test_cleaning_is_idempotent_and_never_raises(draft: EventDraft) -> None:
    found, _ = clean(draft)
    if found is not None:
        assert clean(found)[0] == found


def test_every_setting_has_a_help_text() -> None:
    assert all(field.metadata["help"] for field in IngestSettings.__dataclass_fields__.values())
