"""A client's recap: what it says becomes bullets of the stretches that it tells of, and titles them."""

from dataclasses import replace

import pytest

from memory_mcp.model.event import RECAP, Event, EventType, Role
from memory_mcp.model.toc import MemoryKind
from memory_mcp.tree.summarize.extractive import ExtractiveSummarizer
from memory_mcp.tree.summarize.recap import RecapSection, statements_of
from tests.summarize.suite import event, talk

SUMMARIZER = ExtractiveSummarizer()
TEXT = """This session is being continued from a previous conversation that ran out of context.

Analysis:
1. The user asked about the ferry timetable first.

Summary:
1. Primary Request and Intent:
   - Import the ferry timetable from the harbour's spreadsheet
   - Show departures per quay, tides included

2. Key Technical Concepts:
   - Tide tables

3. Files and Code Sections:
   - `quays.py`
     ```python
     def departures(): ...
     ```

4. Errors and fixes:
   - **Wrong tide on leap days**: the table was read by day of year
     - Fixed by looking up the date itself in `tides.csv`

6. All user messages:
   - "please import it"

7. Pending Tasks:
   - Colour the map of quays by operator

8. Current Work:
   Printing departures per quay for the harbour master.

9. Optional Next Step:
   - None, the user is satisfied.

If you need specific details from before compaction, read the full transcript.
"""


def recap(n: int, text: str = TEXT) -> Event:
    return event(n, text, Role.SYSTEM, kind=EventType.NOTE, **{RECAP: "true"})


def test_statements_are_those_of_the_summary_by_part() -> None:
    found = [(s.section, s.text) for s in statements_of(TEXT)]
    assert found == [
        (RecapSection.ASKED, "Import the ferry timetable from the harbour's spreadsheet"),
        (RecapSection.ASKED, "Show departures per quay, tides included"),
        (
            RecapSection.FIXED,
            "Wrong tide on leap days: the table was read by day of year; fixed by looking up the date itself in tides.csv",
        ),
        (RecapSection.OPEN, "Open: Colour the map of quays by operator"),
        (RecapSection.NOW, "Printing departures per quay for the harbour master."),
    ]


def test_each_statement_names_the_place_where_it_stands() -> None:
    for statement in statements_of(TEXT):
        place = TEXT[statement.start : statement.end]
        assert statement.text.removeprefix("Open: ").split()[0].strip("*") in place
        assert statement.text.split()[-1].rstrip(".") in place


@pytest.mark.parametrize("text", ["", "Summary:", "no list at all", "- one\n- two", "```\n- Primary Request:\n", "1. 2. 3."])
def test_a_recap_without_its_form_does_no_harm(text: str) -> None:
    assert all(0 <= s.start <= s.end <= len(text) for s in statements_of(text))


def test_a_statement_goes_to_the_stretch_that_names_it() -> None:
    import_of_it = talk(
        "please import it", "I read the harbour's spreadsheet: the ferry timetable has 40 rows. The import is written."
    )
    leap = talk("that looks off", "The tide on leap days is wrong, the table is read by day of year. I now look into tides.csv.")
    first = SUMMARIZER.summarize(import_of_it, recap(50))
    other = SUMMARIZER.summarize(leap, recap(50))
    assert first.title.startswith("Import the ferry timetable from the harbour's spreadsheet")
    assert first.bullets[0].text == "Import the ferry timetable from the harbour's spreadsheet"
    assert not any("leap days" in b.text for b in first.bullets)
    assert other.bullets[0].text.startswith("Wrong tide on leap days: the table was read by day of year; fixed by")
    assert not any("spreadsheet" in b.text for b in other.bullets)
    record = recap(50)
    assert other.bullets[0].sources[0].event_id == record.event_id
    assert other.bullets[0].sources[1].event_id == leap[1].event_id


def test_what_is_open_belongs_to_the_stretch_that_holds_the_recap() -> None:
    """What was done last, and what is open, is told where the recap stands, and nowhere before it."""
    events = talk("colour the map of quays", "I will colour the map of quays by operator later; operators are missing.")
    before = SUMMARIZER.summarize(events, recap(50))
    own = SUMMARIZER.summarize([*events, recap(50)])
    assert not any(b.text == "Open: Colour the map of quays by operator" for b in before.bullets)
    assert any(b.text == "Open: Colour the map of quays by operator" for b in own.bullets)


def test_a_recap_alone_is_told_by_its_own_statements_and_no_client_notice_is() -> None:
    summary = SUMMARIZER.summarize([recap(0)])
    told = " ".join(b.text for b in summary.bullets)
    assert "ferry timetable" in told
    assert "specific details" not in told + summary.title
    assert "being continued" not in told + summary.title


def test_a_notice_of_the_client_is_no_title() -> None:
    notice = replace(
        event(0, "Conversation compacted (auto, 167174 tokens before)", Role.SYSTEM, kind=EventType.NOTE),
        metadata={"record": "compact_boundary"},
    )
    summary = SUMMARIZER.summarize([notice, *talk("", "The tide table is read by date now, and leap days are right.")])
    assert "compacted" not in summary.title
    assert [b.text for b in summary.bullets] == ["The tide table is read by date now, and leap days are right."]


def test_a_summary_of_another_session_titles_nothing_here() -> None:
    """Clients write it into the file of whatever session comes next; it names the message that it tells of."""
    note = replace(
        event(0, "Harbour master login repaired", Role.SYSTEM, kind=EventType.NOTE), metadata={"record": "summary", "leaf": "m1"}
    )
    talked = talk("Import the ferry timetable.", "Done: I imported 40 rows.")
    assert "Harbour" not in SUMMARIZER.summarize([note, *talked]).title
    own = [replace(e, source_id="m1#0") for e in talked]
    summary = SUMMARIZER.summarize([note, *own])
    assert "Harbour" in summary.title + summary.summary + " ".join(b.text for b in summary.bullets)


def test_a_decision_of_a_recap_is_one() -> None:
    text = TEXT.replace("Show departures per quay, tides included", "User decided to show departures per quay, without tides")
    told = SUMMARIZER.summarize(
        talk("departures", "I show departures per quay without tides, as the user decided."), recap(9, text)
    )
    assert MemoryKind.DECISION in {b.kind for b in told.bullets}


def test_the_name_that_a_session_was_given_titles_what_it_names() -> None:
    name = replace(event(5, "Ferry timetable import", Role.SYSTEM, kind=EventType.NOTE), metadata={"record": "title"})
    talked = talk("can we get the timetable in somehow, the rows of the harbour look odd to me", "I look at the rows.")
    assert SUMMARIZER.summarize([*talked, name]).title.startswith("Ferry timetable import")
    elsewhere = talk("Rotate the signing keys of the vault.", "I rotate them.")
    assert SUMMARIZER.summarize([*elsewhere, name]).title.startswith("Rotate the signing keys of the vault")


def test_items_that_were_each_fixed_stay_apart_and_a_long_lead_is_read_in_time() -> None:
    text = "Summary:\n4. Errors and fixes:\n   - Fixed the tide of leap days\n   - Fixed the colour of the northern quay\n"
    assert [s.text for s in statements_of(text)] == ["Fixed the tide of leap days", "Fixed the colour of the northern quay"]
    lead = "1. Primary Request:\n   - Count the quays of the harbour, and then " + "- " * 60_000 + ":\n     - all\n"
    assert statements_of(lead)
