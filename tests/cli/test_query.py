"""`query`: nodes, events and quotations; `timeline`: days."""

import re

import pytest

from tests.cli.conftest import EVENTS, SESSIONS, Cli
from tests.requirements import requirement


def jwt_segment(memory: Cli) -> str:
    found = memory("search", "JWT expiration", "--limit", "1", "--json").data["results"]
    return str(found[0]["node_id"])


def test_root_shows_the_years_and_that_of_a_project_its_own(memory: Cli) -> None:
    data = memory("query", "root", "--json").data
    assert [c["node_id"] for c in data["children"]] == ["toc:year:2024", "toc:year:2025", "toc:year:2026"]
    assert data["node"]["projects"] == ["github.com/acme/harbour", "github.com/acme/printer"]
    text = memory("query", "root").text
    assert text.startswith(f"toc:root  {EVENTS} events in {SESSIONS} sessions, 2024, 2025, 2026")
    own = memory("query", "root", "--project", "printer", "--json").data
    assert [c["node_id"] for c in own["children"]] == ["toc:year:2024"]


@pytest.mark.parametrize("node_id", ["toc:month:2026-01", "toc:month:2026:01", "2026-01", "january 2026"])
def test_a_node_shows_bullets_with_grips_parents_and_children(memory: Cli, node_id: str) -> None:
    data = memory("query", "node", node_id, "--json").data
    node = data["node"]
    assert (node["node_id"], node["level"], node["events"], node["sessions"]) == ("toc:month:2026-01", "month", 4, 1)
    assert all(b["grip_ids"] for b in node["bullets"])
    assert node["parents"] == ["toc:year:2026"]
    assert [c["node_id"] for c in data["children"]] == ["toc:week:2026-W05"]
    text = memory("query", "node", node_id).text
    for part in ("Bullets:", "Above:", "Below:", "[grip:"):
        assert part in text


@requirement("contract:disclosure-year", "contract:disclosure-month", "contract:disclosure-week", "contract:disclosure-day")
@pytest.mark.parametrize("node_id", ["toc:year:2026", "toc:month:2026-01", "toc:week:2026-W05", "toc:day:2026-01-30"])
def test_every_period_shows_how_much_there_was_and_what_it_was_about(memory: Cli, node_id: str) -> None:
    data = memory("query", "node", node_id, "--json").data["node"]
    assert (data["events"], data["sessions"]) == (4, 1)
    assert "JWT" in data["title"]
    assert "JWT" in data["keywords"]
    said = " ".join(b["text"] for b in data["bullets"])
    assert "We decided to fix the refresh token rotation logic" in said
    text = memory("query", "node", node_id).text
    assert "  4 events, 1 session, " in text
    assert "We decided to fix the refresh token rotation logic" in text


@requirement("contract:disclosure-segment")
def test_a_segment_shows_its_time_and_place_and_its_grips_the_conversation_and_its_events(memory: Cli) -> None:
    data = memory("query", "node", jwt_segment(memory), "--json").data
    bullets = data["node"]["bullets"]
    events = memory("query", "events", "--session", "jwt", "--json").data["events"]
    assert bullets
    for grip in {g for b in bullets for g in b["grip_ids"]}:
        shown = memory("query", "expand-grip", grip, "--json").data
        assert shown["excerpt_events"]
        assert all(any(e.items() <= one.items() for one in events) for e in shown["excerpt_events"])
        assert shown["grip"]["quote"] in shown["excerpt_events"][0]["text"]
    assert data["node"]["start"] == "2026-01-30T14:00:00+01:00"
    assert [p["level"] for p in data["context"]["parents"]] == ["day", "week", "month", "year"]
    assert data["context"]["session_id"] == "jwt"


def test_browsing_pages_through_children(memory: Cli) -> None:
    first = memory("query", "browse", "toc:year:2025", "--limit", "1", "--json").data
    assert len(first["children"]) == 1
    rest = memory("query", "browse", "2025", "--limit", "5", "--cursor", first["next_cursor"], "--json").data
    assert [c["node_id"] for c in first["children"] + rest["children"]] == ["toc:month:2025-11", "toc:month:2025-12"]
    assert f"More with --cursor {first['next_cursor']}" in memory("query", "browse", "toc:year:2025", "--limit", "1").text
    assert len(memory("query", "browse", "--json").data["children"]) == 3


@requirement("bm25:session-expand-grip")
@pytest.mark.parametrize("bare", [False, True])
def test_a_grip_shows_its_words_and_its_events_with_their_times(memory: Cli, bare: bool) -> None:
    grip = memory("query", "node", jwt_segment(memory), "--json").data["node"]["bullets"][0]["grip_ids"][0]
    done = memory("query", "expand-grip", grip.rsplit(":", 1)[-1] if bare else grip)
    assert done.status == 0
    assert "verified: the stored event holds exactly these words" in done.text
    data = memory("query", "expand-grip", grip, "--json").data
    assert data["grip"]["grip_id"] == grip
    quoted = " ".join(line.removeprefix("  >").strip() for line in done.text.splitlines() if line.startswith("  >"))
    assert quoted == " ".join(data["grip"]["quote"].split())
    shown = re.findall(r"^  2026-01-30 14:\d\d (user|assistant): ", done.text, re.M)
    events = data["events_before"] + data["excerpt_events"] + data["events_after"]
    assert len(shown) == len(events) > 1


def test_the_timeline_lists_days_with_their_segments_the_last_that_hold_anything(memory: Cli) -> None:
    data = memory("timeline", "--since", "2026-01-01", "--json").data
    assert [d["day"] for d in data["days"]] == ["2026-01-30"]
    assert (data["days"][0]["events"], len(data["days"][0]["segments"])) == (4, 1)
    text = memory("timeline", "--since", "2026-01-01").text
    assert any(line.startswith("2026-01-30 Fri  ") for line in text.splitlines())
    assert "4 events in 1 session" in text
    assert "\x1b[" not in text
    days = memory("timeline", "--json").data["days"]
    assert (len(days), days[-1]["day"]) == (7, "2026-01-30")
    assert [d["day"] for d in memory("timeline", "--project", "printer", "--json").data["days"]] == ["2024-05-14"]
    assert memory("timeline", "--days", "3", "--json").data["days"] == []
    assert "Nothing was recorded" in memory("timeline", "--days", "3").text
    assert memory("timeline", "--days", "3", "--since", "yesterday").status == 2
