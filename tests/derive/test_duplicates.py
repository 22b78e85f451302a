"""A session told by a client's hooks and by its transcript, in any order: every message is read once, and the tree is sound."""

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memory_mcp.app import App
from memory_mcp.base.text import term_hash, terms
from memory_mcp.model.event import Event, EventDraft, EventType, Role
from memory_mcp.search.layers.base import Query
from memory_mcp.storage.values import Scope
from tests.factories import BILLING, SHOP, draft, ms
from tests.toc.helpers import findings, memory, rebuild, texts

HOOKS, TRANSCRIPT = "hook:claude-code", "claude-code"
MINUTE = 60_000


def shown(app: App) -> list[Event]:
    return app.storage.events.list_events(Scope(), limit=1000)


def told(app: App) -> list[str]:
    return [e.text for e in shown(app)]


def in_segments(app: App) -> list[Event]:
    cuts = list(app.storage.toc.iter_cuts())
    return sorted((e for own in app.storage.events.events_by_segment(cuts).values() for e in own), key=lambda e: e.order)


def sound(app: App) -> None:
    """Clean, counted right, each message in one segment, and nothing left for a rebuild."""
    app.derivation.run()
    assert findings(app) == []
    assert app.tree.tally().events == len(in_segments(app)) == sum(s.events for s in app.storage.events.list_sessions(Scope()))
    before = texts(app)
    report = rebuild(app)
    assert (report.nodes_changed, report.nodes_dropped, report.terms_rewritten) == (0, 0, 0)
    assert texts(app) == before


# both orders


def a_turn(source: str, shift: int = 0, result: str = "3 passed") -> list[EventDraft]:
    """A prompt, a call with its result and the last words, as one of the two tells it."""
    begin = ms("2026-01-12 09:00") + shift
    name = "h" if source == HOOKS else "t"
    call = {"tool_use_id": "toolu_1", "tool": "Bash", "command": "pytest"}
    lines = [
        (Role.USER, EventType.USER_MESSAGE, "Please run the tests of the retry queue.", {}),
        (Role.ASSISTANT, EventType.TOOL_CALL, "Bash: pytest", call),
        (Role.TOOL, EventType.TOOL_RESULT, result, {"tool_use_id": "toolu_1", "exit_status": "0"}),
        (Role.ASSISTANT, EventType.ASSISTANT_MESSAGE, "All tests of the retry queue pass.", {}),
    ]
    return [
        draft(text, at=begin + n * 20_000, role=role, kind=kind, source_id=f"{name}{n}", metadata=more)
        for n, (role, kind, text, more) in enumerate(lines)
    ]


@pytest.mark.parametrize("derived_between", [True, False])
@pytest.mark.parametrize("first", [HOOKS, TRANSCRIPT])
def test_a_session_told_twice_is_read_once_and_as_it_was_told_first(app: App, first: str, derived_between: bool) -> None:
    second = TRANSCRIPT if first == HOOKS else HOOKS
    app.write(a_turn(first), first)
    if derived_between:
        app.derivation.run()
    app.write(a_turn(second, shift=1500), second)
    sound(app)
    assert [e.source for e in shown(app)] == [first] * 4
    assert app.storage.get_stats().rows["duplicate"] == 4
    (segment,) = app.storage.toc.iter_cuts()
    assert (segment.events, segment.start[0], segment.end[0]) == (4, shown(app)[0].timestamp, shown(app)[-1].timestamp)


@pytest.mark.parametrize("derived_between", [True, False])
def test_what_is_told_at_greater_length_later_takes_the_place_of_the_shorter(app: App, derived_between: bool) -> None:
    app.write(a_turn(HOOKS, result="3 passed zirconium"), HOOKS)
    if derived_between:
        app.derivation.run()
    app.write(a_turn(TRANSCRIPT, shift=1500, result="collected 3 items\n3 passed in 0.12s, palladium"), TRANSCRIPT)
    sound(app)
    assert [e.source for e in shown(app)] == [HOOKS, HOOKS, TRANSCRIPT, HOOKS]
    assert "zirconium" not in " ".join(told(app))
    assert app.ask(Query("palladium", 3)).hits[0].quote.endswith("palladium")
    assert app.ask(Query("zirconium", 3)).hits == ()


def test_reading_again_what_was_read_changes_nothing(app: App) -> None:
    for _ in range(2):
        for source in (HOOKS, TRANSCRIPT, HOOKS):
            assert len(app.write(a_turn(source), source).new_ids) in (0, 4)
            app.derivation.run()
        sound(app)
    assert len(shown(app)) == 4
    assert app.storage.get_stats().rows["event"] == 8


def test_an_id_and_a_grip_of_the_event_not_shown_keep_leading_to_its_words(app: App) -> None:
    app.write(a_turn(HOOKS, result="short words"), HOOKS)
    app.derivation.run()
    old = next(e for e in shown(app) if e.text == "short words")
    (grip, *_) = app.storage.grips.grips_by_event([old.event_id])[old.event_id]
    app.write(a_turn(TRANSCRIPT, result="many more words than before"), TRANSCRIPT)
    sound(app)
    assert app.storage.events.find_event(old.event_id) == old
    assert app.storage.events.get_events([old.event_id]) == {old.event_id: old}
    found = app.evidence.expand_grip(grip.grip_id)
    assert found.verified
    assert "short words" in found.quote
    neighbours = [e.text for e in (*found.before, *found.after)]
    assert neighbours == ["Please run the tests of the retry queue.", "All tests of the retry queue pass."]


def test_before_it_is_filed_the_longer_one_is_already_the_only_one_found(app: App) -> None:
    app.write(a_turn(HOOKS, result="rhodium once"), HOOKS)
    app.derivation.run()
    assert len(app.ask(Query("rhodium", 5)).hits) == 1
    app.write(a_turn(TRANSCRIPT, result="rhodium once and for all"), TRANSCRIPT)
    assert findings(app) == []
    assert [h.quote for h in app.ask(Query("rhodium", 5)).hits] == ["rhodium once and for all"]
    sound(app)
    assert len(app.ask(Query("rhodium", 5)).hits) == 1


def test_a_duplicate_that_waits_is_not_found_beside_what_it_repeats(app: App) -> None:
    app.write(a_turn(HOOKS), HOOKS)
    app.write(a_turn(TRANSCRIPT), TRANSCRIPT)
    hits = app.ask(Query("retry queue pass", 5)).hits
    assert sorted(h.quote for h in hits) == sorted(d.text for d in a_turn(HOOKS) if "pytest" not in d.text)


# what is the same and what is not


def test_a_message_is_the_same_by_its_words_within_two_minutes_in_a_session_and_by_its_tool_call_whenever(app: App) -> None:
    said = draft("Deploy it to staging.")
    at = said.timestamp or 0
    result = draft("ok", role=Role.TOOL, metadata={"tool_use_id": 'toolu_"1\\'})
    # A summary is one though the transcript introduces it.
    note = draft("We fixed the queue.", role=Role.SYSTEM, metadata={"compact_summary": "true"})
    # What a hook tells, what a transcript tells of the same session, and how many of the two are read.
    pairs = [
        (said, replace(said, timestamp=at + 2 * MINUTE), 1),
        (said, replace(said, timestamp=at - 2 * MINUTE), 1),
        (said, replace(said, text=" Deploy it\n to staging. "), 1),
        (said, replace(said, timestamp=at + 2 * MINUTE + 1), 2),
        (said, replace(said, session_id="s2"), 2),
        (said, replace(said, role=Role.ASSISTANT), 2),
        (said, replace(said, thread="agent-1"), 2),
        (said, replace(said, text="Deploy it to production."), 2),
        (result, replace(result, text="other words", timestamp=at + 60 * MINUTE), 1),
        (result, replace(result, metadata={"tool_use_id": "toolu_2"}), 2),
        (result, replace(result, role=Role.ASSISTANT), 2),
        (note, replace(note, text="This session continues another. Summary: We fixed the queue."), 1),
    ]
    for n, pair in enumerate(pairs):
        # At times of their own: what sessions hold alike at one moment is a copy.
        one, other = (
            replace(d, session_id=f"{n}/{d.session_id}", timestamp=(d.timestamp or 0) + n * 600 * MINUTE) for d in pair[:2]
        )
        app.write([replace(one, source_id=f"h{n}")], HOOKS)
        app.write([replace(other, source_id=f"t{n}")], TRANSCRIPT)
    sound(app)
    read = Counter(int(e.session_id.partition("/")[0]) for e in shown(app))
    assert [read[n] for n in range(len(pairs))] == [count for *_, count in pairs]


def test_the_same_id_of_the_source_is_one_message(app: App) -> None:
    app.write([draft("as a hook of another client told it", source_id="u-1")], "hook:json")
    app.write([draft("as it stands in the transcript, with more words", source_id="u-1")], TRANSCRIPT)
    sound(app)
    assert told(app) == ["as it stands in the transcript, with more words"]


def test_two_sources_neither_of_which_is_a_hook_keep_their_events(app: App) -> None:
    app.write(a_turn(HOOKS)[:1], HOOKS)
    for source in ("jsonl", "tool", "other"):
        app.write([draft("the same words everywhere", source_id="x")], source)
    sound(app)
    assert told(app).count("the same words everywhere") == 3


def test_equal_prompts_shortly_after_another_are_messages_of_their_own_also_where_only_one_source_tells_them(app: App) -> None:
    at = ms("2026-01-12 09:00")

    def say(session: str, source: str, count: int, shift: int = 0) -> None:
        given = [(f"{session}{source}{i}", at + i * 40_000 + shift) for i in range(count)]
        app.write([draft("continue", at=when, session=session, source_id=name) for name, when in given], source)

    say("hooks first", HOOKS, 3)
    say("hooks first", TRANSCRIPT, 3, 900)
    say("hooks last", TRANSCRIPT, 3)
    say("hooks last", HOOKS, 3, 900)
    say("one", HOOKS, 1, 600 * MINUTE)
    say("one", TRANSCRIPT, 3, 600 * MINUTE + 900)
    sound(app)
    read = Counter((e.session_id, e.source) for e in shown(app))
    assert read == {("hooks first", HOOKS): 3, ("hooks last", TRANSCRIPT): 3, ("one", HOOKS): 1, ("one", TRANSCRIPT): 2}


# across segments


def test_a_segment_whose_words_stand_elsewhere_at_greater_length_keeps_showing_them_and_they_are_found_there(app: App) -> None:
    hook = draft("osmium", role=Role.TOOL, metadata={"tool_use_id": "x"}, project=SHOP, source_id="h")
    app.write([hook], HOOKS)
    app.derivation.run()
    (old,) = app.storage.toc.iter_cuts()
    app.write([replace(hook, text="osmium and more of it", project=BILLING, source_id="t")], TRANSCRIPT)
    app.derivation.run()
    for _ in range(2):
        assert [h.quote for h in app.ask(Query("osmium", 5)).hits] == ["osmium and more of it"]
    sound_though_shown_twice(app)
    assert [e.text for e in app.storage.events.segment_events(old)] == ["osmium"]
    assert told(app) == ["osmium and more of it"]
    assert len(list(app.storage.toc.iter_cuts())) == 2
    app.write([replace(hook, text="something else", role=Role.USER, metadata={}, source_id="h2")], HOOKS)
    sound_though_shown_twice(app)
    (old,) = (c for c in app.storage.toc.iter_cuts() if c.project == SHOP)
    assert [e.text for e in app.storage.events.segment_events(old)] == ["something else"]


@pytest.mark.parametrize("words", [100, 5000])
def test_a_longer_telling_takes_the_segment_of_the_shorter_though_it_is_full(app: App, words: int) -> None:
    at = ms("2026-01-12 09:00")
    short = [
        draft("word " * words + str(n), at=at + n * 60_000, role=Role.TOOL, metadata={"tool_use_id": str(n)}, source_id=f"h{n}")
        for n in range(6)
    ]
    app.write(short, HOOKS)
    app.derivation.run()
    before = [(c.node_id, c.events) for c in app.storage.toc.iter_cuts()]
    longer = [
        replace(d, text=d.text + " and more", timestamp=(d.timestamp or 0) + 300, source_id="t" + d.source_id) for d in short
    ]
    app.write(longer, TRANSCRIPT)
    sound(app)
    assert [(c.node_id, c.events) for c in app.storage.toc.iter_cuts()] == before
    assert {e.source for e in shown(app)} == {TRANSCRIPT}


def sound_though_shown_twice(app: App) -> None:
    app.derivation.run()
    assert findings(app) == []
    report = rebuild(app)
    assert (report.nodes_changed, report.terms_rewritten) == (0, 0)


def test_terms_that_no_segment_holds_any_more_leave_the_periods_too(app: App) -> None:
    for day in ("2026-01-12", "2026-01-13", "2026-02-02"):
        app.write([draft(f"words of {day}", at=f"{day} 09:00", source_id=day)], "jsonl")
    app.write(a_turn(HOOKS, result="iridium"), HOOKS)
    app.derivation.run()
    iridium = term_hash(terms("iridium")[0])
    assert app.tree.frequencies().segment_count(iridium, SHOP) == 1
    app.write(a_turn(TRANSCRIPT, result="a longer result"), TRANSCRIPT)
    sound(app)
    assert app.tree.frequencies().segment_count(iridium, SHOP) == 0


def test_a_segment_that_is_wholly_hidden_but_not_yet_derived_again_is_no_finding(app: App) -> None:
    begin = ms("2026-01-12 09:00")

    def result(source: str, number: int, more: str, project: str) -> EventDraft:
        return draft(
            f"go on{more}",
            at=begin + number * 8_000,
            session="s1",
            role=Role.TOOL,
            project=project,
            source_id=f"{source}{number}",
            metadata={"tool_use_id": f"u{number}"},
        )

    app.write([result("h", 0, "", BILLING), result("h", 1, "", BILLING)], HOOKS)
    app.derivation.run()
    app.write([result("t", 0, " lead", SHOP)], TRANSCRIPT)
    app.derivation.run()
    app.write([result("t", 1, " zinc", SHOP)], TRANSCRIPT)
    assert [f for f in findings(app) if f.rule not in ("nodes", "freshness")] == []
    app.derivation.run()
    assert findings(app) == []
    report = rebuild(app)
    assert (report.nodes_changed, report.nodes_dropped, report.terms_rewritten) == (0, 0, 0)


# any order


@dataclass(frozen=True, slots=True)
class Message:
    """One message of a made-up session, and what each of the two tells of it."""

    hook: EventDraft
    transcript: EventDraft


WORDS = ("go on", "yes", "run the tests", "deploy to staging")


def a_session(rng: random.Random) -> list[Message]:
    """Clusters of messages with few different words, ten minutes and more apart; now and then one of them says more."""
    at = ms("2026-01-12 09:00")
    messages: list[Message] = []
    for _ in range(rng.randrange(1, 4)):
        at += rng.choice([10, 29, 31, 600]) * MINUTE
        begin = at
        for _ in range(rng.randrange(1, 6)):
            n = len(messages)
            begin += rng.randrange(1, 9) * 1000
            thread, project = rng.choice(["", "", "sub"]), rng.choice([SHOP, SHOP, BILLING])
            call = rng.random() < 0.4
            role = rng.choice([Role.TOOL, Role.ASSISTANT]) if call else rng.choice([Role.USER, Role.ASSISTANT])
            word = rng.choice(WORDS)
            base = draft(
                word,
                at=begin,
                session="s1",
                role=role,
                kind=EventType.TOOL_CALL if call and role is Role.ASSISTANT else None,
                project=project,
                thread=thread,
                metadata={"tool_use_id": f"u{n}"} if call else None,
            )
            more = f" {rng.choice(['zinc', 'lead', 'tin'])} {n}"
            longer = rng.choice(["hook", "transcript", ""]) if call else ""
            messages.append(
                Message(
                    replace(
                        base,
                        source_id=f"h{n}",
                        text=word + (more if longer == "hook" else ""),
                        timestamp=begin + rng.randrange(-500, 2500),
                    ),
                    replace(
                        base,
                        source_id=f"t{n}",
                        text=word + (more if longer == "transcript" else ""),
                        project=rng.choice([project, project, project, SHOP]),
                    ),
                )
            )
    return messages


def tell(app: App, messages: Sequence[Message], rng: random.Random) -> None:
    """Both tellings in pieces of any size, in any order, read twice here and there, derived now and then."""
    pieces: list[tuple[str, list[EventDraft]]] = []
    for source, drafts in ((HOOKS, [m.hook for m in messages]), (TRANSCRIPT, [m.transcript for m in messages])):
        rest = list(drafts)
        if rng.random() < 0.5:
            rng.shuffle(rest)
        while rest:
            size = rng.randrange(1, 5)
            pieces.append((source, rest[:size]))
            rest = rest[size:]
    rng.shuffle(pieces)
    pieces += rng.sample(pieces, min(2, len(pieces)))
    for source, drafts in pieces:
        app.write(drafts, source)
        if rng.random() < 0.3:
            app.derivation.run()
        if rng.random() < 0.3:
            assert [f for f in findings(app) if f.rule not in ("nodes", "freshness")] == []


def check_any_order(seed: int) -> None:
    rng = random.Random(seed)
    messages = a_session(rng)
    app = memory()
    tell(app, messages, rng)
    app.derivation.run()
    assert findings(app) == []
    expected = Counter(max((m.hook.text, m.transcript.text), key=len) for m in messages)
    assert Counter(told(app)) == expected
    assert app.storage.get_stats().rows["duplicate"] == len(messages)
    assert {e.event_id for e in shown(app)} <= {e.event_id for e in in_segments(app)}
    report = rebuild(app)
    assert (report.nodes_changed, report.nodes_dropped, report.terms_rewritten) == (0, 0, 0)
    app.close()


@settings(max_examples=3)
@given(st.integers(0, 2**32))
def test_told_in_any_order_and_pieces_every_message_is_read_once_at_its_longest(seed: int) -> None:
    check_any_order(seed)


@pytest.mark.slow
@pytest.mark.timeout(1800)
# Half a second of CPU each; every night has others.
@settings(max_examples=500)
@given(st.integers(0, 2**32))
def test_told_in_many_orders_and_pieces_every_message_is_read_once_at_its_longest(seed: int) -> None:
    check_any_order(seed)
