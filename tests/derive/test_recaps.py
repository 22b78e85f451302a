"""A recap arrives after the segments it tells of: they are derived again, by a live write, an import and a rebuild alike."""

from memory_mcp.app import App
from memory_mcp.model.calendar import TocLevel
from memory_mcp.model.event import RECAP, EventDraft, EventType, Role
from memory_mcp.model.toc import TocNode
from tests.factories import draft
from tests.toc.helpers import findings, memory, rebuild, texts

RECAPPED = """Summary:
1. Primary Request and Intent:
   - Import the ferry timetable from the harbour's spreadsheet
2. Errors and fixes:
   - Wrong tide on leap days: the table was read by day of year
     - Fixed by looking up the date in tides.csv
3. Pending Tasks:
   - Colour the map of quays
"""


def session(name: str = "s1", pad: int = 260) -> list[EventDraft]:
    """Three segments' worth of talk about different things, then a recap of them, then something else."""
    long = "Row after row is compared with what the old program printed. " * pad
    said = [
        ("user", "please import it"),
        ("assistant", f"I read the harbour's spreadsheet with the ferry timetable: 40 rows. {long}"),
        ("user", "that looks off"),
        ("assistant", f"The tide on leap days is wrong, the table is read by day of year; I look into tides.csv. {long}"),
        ("user", "go on"),
        ("assistant", f"The quays print now. {long}"),
        ("recap", RECAPPED),
        ("user", "Rotate the signing keys."),
    ]
    made = []
    for n, (who, text) in enumerate(said):
        at = f"2026-01-12 09:{n:02d}"
        if who == "recap":
            made.append(draft(text, at=at, session=name, role=Role.SYSTEM, kind=EventType.NOTE, metadata={RECAP: "true"}))
        else:
            made.append(draft(text, at=at, session=name, role=Role(who)))
    return made


def segments(app: App) -> list[TocNode]:
    return sorted((n for n in app.storage.toc.iter_nodes() if n.level is TocLevel.SEGMENT), key=lambda n: n.start_ms)


def told(app: App) -> list[str]:
    return [" ".join(b.text for b in n.bullets) for n in segments(app)]


def check(app: App) -> None:
    first, second, third, rest = told(app)
    assert "Import the ferry timetable from the harbour's spreadsheet" in first
    assert "fixed by looking up the date in tides.csv" in second
    assert "Open: Colour the map of quays" in third
    assert not any(words in rest for words in ("ferry", "tides.csv", "quays"))
    assert findings(app) == []


def test_segments_stored_before_their_recap_are_told_by_it_and_their_bullets_lead_into_it() -> None:
    app = memory(session()[:6])
    assert "fixed by" not in " ".join(told(app))
    before = [n.node_id for n in segments(app)]
    app.write(session()[6:], "test")
    app.derivation.run()
    check(app)
    assert [n.node_id for n in segments(app)][:3] == before
    bullet = next(b for b in segments(app)[1].bullets if "fixed by" in b.text)
    quotes = [app.evidence.expand_grip(g, 0, 0).quote for g in bullet.grip_ids]
    assert "read by day of year" in quotes[0]
    assert any("I look into tides.csv" in q for q in quotes[1:])
    app.close()


def test_it_is_the_same_at_once_and_one_by_one_and_after_a_rebuild() -> None:
    at_once, slowly = memory(session()), memory()
    for one in session():
        slowly.write([one], "test")
        slowly.derivation.run()
    check(at_once)
    check(slowly)
    assert texts(at_once) == texts(slowly)
    report = rebuild(slowly)
    assert (report.nodes_changed, report.nodes_dropped, report.terms_rewritten) == (0, 0, 0)
    for app in (at_once, slowly):
        app.close()


def test_a_recap_tells_of_its_own_session_since_the_recap_before_it() -> None:
    app = memory([*session(), *session("s2")[:6]])
    assert sum("fixed by looking up" in text for text in told(app)) == 1
    later = draft(RECAPPED, at="2026-01-12 10:00", role=Role.SYSTEM, kind=EventType.NOTE, metadata={RECAP: "true"})
    before = {n.node_id: n.version for n in segments(app)}
    app.write([later], "test")
    app.derivation.run()
    changed = [n for n in segments(app) if before.get(n.node_id) != n.version]
    assert len(changed) <= 2
    assert sum("fixed by looking up" in text for text in told(app)) <= 2
    app.close()
