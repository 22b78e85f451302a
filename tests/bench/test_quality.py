"""`bench.quality` end to end on a small corpus of its own: rows, tables made from them alone, and the verifier."""

import asyncio
import datetime as dt
import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bench.quality import corpora, recorded
from bench.quality import rows as rows_file
from bench.quality.__main__ import main
from bench.quality.agent import Reading, Script, around, ask_agent
from bench.quality.asking import Answer, Place, Places, Server
from bench.quality.corpora import Corpora, Half, Kind, Message, Question, half_of, messages_of
from bench.quality.measures import difference, holds_answer, interval, recall
from bench.quality.reduced import with_evidence_taken_out
from bench.quality.rows import Row
from bench.quality.stores import Stores
from bench.quality.systems import Group, Words, ask_store, usable_words, words_of
from bench.quality.tables import comparison, first_difference, tables
from bench.quality.trust import auc, confidence
from memory_mcp.app import App
from memory_mcp.model.event import EventDraft, EventType, Role

TOPICS = {
    "kiln": (
        "The kiln reaches cone six after nine hours.",
        "The glaze with rutile ran off the shelf.",
        "Ventilate the shed first.",
    ),
    "boat": ("We caulked the hull with oakum.", "The rudder pintle was bent by the slipway.", "Varnish dries in two days."),
    "bees": ("The queen was marked with a green dot.", "Varroa counts stayed under two percent.", "We moved the apiary uphill."),
    "bread": ("The rye starter doubled overnight.", "Bake at 240 degrees with steam.", "The crust cracked along the score."),
    "radio": ("The dipole hangs at eleven metres.", "Its balun overheated on forty metres.", "We logged a station in Iceland."),
}
#: Systems of a run at tiers 2 and 5 that say how sure they are.
SURE = ("intelligent_search tier 2", "intelligent_search tier 5", "default answer")
QUESTIONS = (
    ("What ran off the shelf, the glaze with rutile?", "kiln", 1, "4 single-hop"),
    ("What bent the rudder pintle?", "boat", 1, "4 single-hop"),
    ("Which dot was the queen marked with?", "bees", 0, "1 multi-hop"),
    ("At how many degrees with steam did we bake?", "bread", 1, "4 single-hop"),
    ("Where did the balun overheat?", "radio", 1, "2 temporal"),
    ("Who restored the harpsichord?", "", 0, "3 open-domain"),
)


def units() -> list[dict[str, str]]:
    made = []
    for day, (session, texts) in enumerate(TOPICS.items(), 1):
        for number, text in enumerate(texts * 2):
            words = text if number < len(texts) else f"Yes, I remember that, thanks for telling me ({session}, {number})."
            stamp = f"2024-03-{day:02d}T09:00:{number:02d}"
            who = "Ada" if number % 2 == 0 else "Bo"
            turn = {"corpus": "toy", "id": f"D{day}:{number}", "session": session}
            made.append({**turn, "ts": stamp, "role": who, "text": words})
    return made


def queries() -> list[dict[str, object]]:
    return [
        {
            "corpus": "toy",
            "id": f"q{number}",
            "query": text,
            "category": category,
            "gold": [f"D{list(TOPICS).index(session) + 1}:{place}"] if session else [],
            "gold_sessions": [session] if session else [],
            "ts": "2024-04-01T00:00:00",
        }
        for number, (text, session, place, category) in enumerate(QUESTIONS)
    ]


def write(path: Path, rows: Iterable[Mapping[str, object]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


@pytest.fixture
def data(tmp_path: Path) -> Path:
    write(tmp_path / "data" / "locomo" / "units.jsonl", units())
    write(tmp_path / "data" / "locomo" / "queries.jsonl", queries())
    return tmp_path / "data"


def test_without_data_it_says_that_it_was_skipped(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--data", str(tmp_path / "absent")]) == 0
    assert capsys.readouterr().out == "skipped: --data DIR with the corpora is not there\n"


def test_a_run_gives_rows_and_tables_that_the_verifier_confirms(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows, table = tmp_path / "rows.jsonl", tmp_path / "tables.md"
    options = ["--data", str(data), "--corpora", "locomo", "--stores", str(tmp_path / "stores"), "--rows", str(rows)]
    assert main([*options, "--tiers", "2", "5", "--table", str(table)]) == 0
    assert "built toy: 30 messages" in capsys.readouterr().err
    found = rows_file.read(rows)
    systems = {r.system for r in found}
    assert {"intelligent_search tier 2", "intelligent_search tier 5", "hybrid grips", "navigate", "default answer"} <= systems
    assert {"plain BM25 sessions", "plain BM25 messages", "score mix"} <= systems
    # Four of the five sessions that answer are taken out, one from each copy of the store.
    reduced = [r for r in found if r.kind == Kind.TAKEN_OUT]
    assert {(r.gold, r.session_rank) for r in reduced} == {(0, 0)}
    assert Counter(r.system for r in reduced) == dict.fromkeys(SURE, 4)
    found = [r for r in found if r.kind != Kind.TAKEN_OUT]
    asked = Counter(r.system for r in found)
    assert asked["intelligent_search tier 5"] == asked["default answer"] == len(QUESTIONS)
    assert asked["hybrid grips"] == asked["score mix"] == len(QUESTIONS) - 1
    assert {r.question: (r.kind, r.half) for r in found} == {
        f"q{n}": ("answerable" if session else "unanswerable", half_of(f"q{n}")) for n, (_, session, _, _) in enumerate(QUESTIONS)
    }
    told = {(r.system, r.question): r for r in found}
    for system in ("intelligent_search tier 2", "bm25 grips", "plain BM25 messages", "default answer"):
        assert (told[system, "q1"].session_rank, told[system, "q1"].found, told[system, "q1"].gold) == (1, 1, 1), system
    assert told["default answer", "q1"].tokens > 0
    assert told["default answer", "q1"].quoted == 1
    assert main(["verify", str(rows), str(table)]) == 0
    # Stores are built once.
    assert main([*options, "--tiers", "5", "--systems", "intelligent", "--questions", "1"]) == 0
    assert "built" not in capsys.readouterr().err


@pytest.fixture
def labels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Labels of the small corpus in place of those of the large ones."""
    folder = tmp_path / "labels"
    for module in (corpora, recorded):
        monkeypatch.setattr(module, "LABELS", folder)
    write(folder / "unanswerable.jsonl", [])
    write(folder / "keywords.jsonl", [{"corpus": "locomo", "id": "q1", "keywords": ["slipway", "boat"]}])
    texts = ["Who or what made the pintle crooked?", "crooked pintle"]
    write(folder / "paraphrases.jsonl", [{"corpus": "locomo", "id": "q1", "paraphrases": texts}])
    return folder


@pytest.mark.usefixtures("labels")
def test_a_recorded_question_is_searched_in_other_words_with_and_without_it(data: Path, tmp_path: Path) -> None:
    rows = tmp_path / "rows.jsonl"
    options = ["--data", str(data), "--corpora", "locomo", "--stores", str(tmp_path / "stores"), "--rows", str(rows)]
    kinds = ["--kinds", "answerable", "paraphrased", "asked before"]
    assert main([*options, *kinds, "--tiers", "2", "--systems", "intelligent", "default"]) == 0
    found = rows_file.read(rows)
    words = {r.question: r for r in found if r.kind == Kind.ASKED_BEFORE}
    assert sorted(words) == ["q1 in words 1", "q1 in words 2"]
    # What is found of the recorded session depends on the ranking; that it is looked for does not.
    assert all(r.recorded_rank is not None and r.system == "default answer" for r in words.values())
    alone = [r for r in found if r.kind == Kind.PARAPHRASED]
    assert {r.recorded_rank for r in alone} == {None}
    assert all(r.session_rank == 1 for r in alone)
    shown = tables(found)
    assert "| locomo | 2 | " in shown[shown.index("### Asked before") :]
    more = {r.system: r.question for r in found if " with keywords" in r.system}
    assert {"default answer with keywords appended", "intelligent_search tier 2 with keywords appended"} <= more.keys()
    assert set(more.values()) == {"q1"}
    assert "### With keywords" in shown


def test_keywords_are_the_tools_argument_where_it_takes_them(app: App) -> None:
    asked = replace(question("balun overheated", "", ""), keywords=("dipole", "forty metres"))
    assert words_of(asked, Words.NONE) == {"query": "balun overheated"}
    assert words_of(asked, Words.APPENDED) == {"query": "balun overheated dipole forty metres"}
    assert words_of(asked, Words.KEYWORDS) == {"query": "balun overheated", "keywords": ["dipole", "forty metres"]}
    server = Server(app)
    assert [asyncio.run(server.takes("intelligent_search", name)) for name in ("query", "no such")] == [True, False]
    takes = asyncio.run(server.takes("intelligent_search", "keywords"))
    assert (Words.KEYWORDS in asyncio.run(usable_words(server))) is takes


@pytest.mark.usefixtures("labels")
def test_recorded_questions_are_stored_as_a_hook_stores_a_prompt(data: Path, tmp_path: Path) -> None:
    made = recorded.with_recorded_questions(corpora.corpora_in(data, ["locomo"]))
    [question] = [q for q in made.questions if q.id == "q1"]
    at = dt.datetime(2024, 4, 1, tzinfo=dt.UTC)
    payloads = [p for number in (0, 6, 9) for p in recorded.payloads_of(replace(question, id=f"q{number}"), number, at)]
    kinds = [json.loads(p.text)["hook_event_name"] for p in payloads]
    assert kinds == ["UserPromptSubmit", "UserPromptSubmit", "Stop", "UserPromptSubmit", "PreToolUse", "PostToolUse"]
    with Stores(tmp_path / "stores", made.stores, payloads={"toy": payloads}).opened("toy", 5, {}) as app:
        events = [s.event for batch in app.storage.events.iter_all() for s in batch if recorded.is_recorded(s.event.session_id)]
    prompts = [e for e in events if e.type is EventType.USER_MESSAGE]
    assert [(e.session_id, e.text, e.agent) for e in prompts] == [
        (f"asked-q{n}", question.text, "claude-code") for n in (0, 6, 9)
    ]
    assert [e.text for e in events if e.type is EventType.ASSISTANT_MESSAGE] == ["I do not know."]
    assert [e.session_id for e in events if e.type is EventType.TOOL_CALL] == ["asked-q9"]


def test_a_question_is_asked_where_the_sessions_that_answer_it_are_absent() -> None:
    messages = messages_of(units())
    as_of = dt.datetime(2024, 4, 1, tzinfo=dt.UTC)
    whole = [
        Question("locomo", "toy", f"q{n}", "?", Kind.ANSWERABLE, Half.HELD, as_of, frozenset(sessions), frozenset({f"D{n}:1"}))
        for n, sessions in enumerate((["kiln"], ["boat"], ["kiln", "boat"], ["bees"], ["kiln"]))
    ]
    reduced = with_evidence_taken_out(Corpora({"toy": messages}, whole))
    again = [q for q in reduced.questions if q.kind is Kind.TAKEN_OUT]
    # One of two sessions would take two fifths of the store with it.
    assert sorted(q.id for q in again) == [f"q{n} taken out" for n in (0, 1, 3, 4)]
    assert {(q.half, q.sessions, q.messages) for q in again} == {(Half.HELD, frozenset(), frozenset())}
    for question in again:
        [origin] = [q for q in whole if q.id == question.id.removesuffix(" taken out")]
        absent = {m.session for m in messages} - {m.session for m in reduced.stores[question.store]}
        assert absent == origin.sessions
    assert reduced.stores["toy"] == messages


def test_what_a_question_is_worth_follows_from_what_the_answer_says_of_itself() -> None:
    answers = [
        *(Row("de", "default answer", "held", f"r{n}", Kind.ANSWERABLE, 1, 1, 1, 5, "strong", quoted=1) for n in range(3)),
        Row("de", "default answer", "held", "weak", Kind.ANSWERABLE, 1, 1, 1, 5, "weak", quoted=1),
        Row("de", "default answer", "held", "wrong", Kind.ANSWERABLE, 0, 1, 0, 5, "strong", quoted=0),
        *(Row("de", "default answer", "held", f"t{n}", Kind.TAKEN_OUT, confidence=c) for n, c in enumerate(("strong", "none"))),
    ]
    text = confidence(answers)
    assert "| default answer | de | 5 | 4 | 0.58 | 0.70 | 4 | 75.0 | 75.0 | 75.0 | 2 | 50.0 | 0 | – | – | 0.0 |" in text
    sure = [replace(r, probability=0.9 if holds_answer(r) else 0.1) for r in answers]
    assert "| default answer | de | 5 | 4 | 1.00 | 0.90 |" in confidence(sure)
    assert auc([], answers) == "–"


def test_two_runs_are_compared_by_what_is_shown_and_by_what_an_agent_read() -> None:
    before = [
        Row("de", "default answer", "held", "a", Kind.ANSWERABLE, gold=1, quoted=0, tokens=900),
        Row("de", "default answer", "held", "b", Kind.TAKEN_OUT, confidence="strong"),
        Row("de", "default answer", "held", "c", Kind.ASKED_BEFORE, recorded_rank=1),
        Row("de", "agent: x", "held", "a", Kind.ANSWERABLE, right_at=2, tokens=1500),
    ]
    better: list[dict[str, Any]] = [
        {"quoted": 1, "tokens": 700},
        {"confidence": "none"},
        {"recorded_rank": 0},
        {"right_at": 1, "tokens": 700},
    ]
    text = comparison(before, [replace(old, **new) for old, new in zip(before, better, strict=True)])
    assert "| default answer | any gold | 100.0: +100.0 [+100.0, +100.0] |" in text
    assert "| default answer | tokens | 700.0: -200.0 [-200.0, -200.0] |" in text
    assert "| default answer | strong, evidence taken out | 0.0: -100.0 [-100.0, -100.0] |" in text
    assert "| default answer | recorded question first | 0.0: -100.0 [-100.0, -100.0] |" in text
    assert "| agent: x | right at once | 100.0: +100.0 [+100.0, +100.0] |" in text
    assert "| agent: x | tokens | 700.0: -800.0 [-800.0, -800.0] |" in text
    assert "| agent: x | session@1" not in text


def test_what_is_quoted_is_known_in_whichever_form_it_is_shown() -> None:
    grips = [f"grip:{'1700000000000:' if letter < 'f' else ''}{letter * 16}" for letter in "abcdefg"]
    shape = {
        "origin": "recalled-by-memory-mcp",
        "results": [
            {
                "when": "2026-01-01T10:00",
                "quote": "Bake with steam.",
                "grip": grips[0],
                "next": {"grip": grips[1], "line": "Yes."},
            },
            # Named, but nothing of them is shown.
            {"title": "Bread", "grip": grips[2]},
            {"title": "Bread", "grip_ids": [grips[3]]},
        ],
        "also": [f"2026-01-01 user: The starter doubled. [{grips[4]}]", grips[5]],
        "groups": {"bread": [{"text": "The crust cracked.", "grip_id": f"{grips[6]}-0-9"}]},
    }
    assert Answer(shape, "", 0).quoted_grips == [grips[0], grips[1], grips[4], f"{grips[6]}-0-9"]


def row(question: str, system: str, rank: int, half: Half = Half.TUNE) -> Row:
    return Row("locomo", system, half, question, Kind.ANSWERABLE, session_rank=rank, gold=2, found=int(rank == 1))


def test_the_verifier_names_a_number_that_was_changed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    own = [row(f"q{n}", s, rank) for s, rank in (("intelligent_search tier 2", 1), ("bm25 grips", 2)) for n in range(9)]
    rows, table = tmp_path / "rows.jsonl", tmp_path / "tables.md"
    rows_file.write(rows, own)
    text = tables(own)
    assert "| intelligent_search tier 2 | 100.0 / 100.0 / 50.0 |" in text
    assert "| locomo | session@1 | 100.0 | bm25 grips 0.0 | +100.0 [+100.0, +100.0] |" in text
    table.write_text(text.replace("| bm25 grips | 0.0 / 100.0", "| bm25 grips | 1.0 / 100.0"), encoding="utf-8")
    assert main(["verify", str(rows), str(table)]) == 1
    assert "the rows give '| bm25 grips | 0.0 / 100.0" in capsys.readouterr().out
    table.write_text(text, encoding="utf-8")
    rows_file.write(rows, [*own[:-1], row("q8", "bm25 grips", 1)])
    assert main(["verify", str(rows), str(table)]) == 1
    assert first_difference(own, text) == ""
    assert "(nothing)" in first_difference(own, text + "more\n")
    assert "| bm25 grips | 0.0 / 100.0 / 0.0 (of 8) |" in tables(own[:-1])


def test_two_runs_are_compared_question_by_question(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before, after = tmp_path / "before.jsonl", tmp_path / "after.jsonl"
    rows_file.write(before, [row("a", "navigate", 2), row("b", "navigate", 1), row("b", "gone", 1)])
    rows_file.write(after, [row("a", "navigate", 1), row("c", "navigate", 1), row("b", "new", 1)])
    assert main(["compare", str(before), str(after)]) == 0
    shown = capsys.readouterr().out
    assert "| navigate | session@1 | 100.0: +100.0 [+100.0, +100.0] |" in shown
    assert "gone" not in shown
    assert "new" not in shown


def test_a_difference_is_paired_by_question_and_leaves_out_what_is_not_measured() -> None:
    ours = [row("a", "x", 1), row("b", "x", 1)]
    theirs = [row("b", "y", 2), row("c", "y", 1)]
    assert difference(ours, theirs, recall) == "+50.0 [+50.0, +50.0]"
    assert difference(ours, [Row("locomo", "y", Half.TUNE, "b", Kind.ANSWERABLE)], recall) == "–"
    gap, low, high = interval([1.0, 0.0] * 50)
    assert gap == 50
    assert low < 42 < 58 < high


def test_a_result_leads_to_its_messages_by_whichever_id_it_carries(app: App) -> None:
    drafts = [
        EventDraft("s1", Role.USER, EventType.USER_MESSAGE, text, 1_700_000_000_000 + n, source_id=f"m{n}")
        for n, text in enumerate(("The rudder pintle was bent by the slipway.", "Varnish dries in two days on a warm deck."))
    ]
    app.write(drafts, "test")
    app.derivation.run()
    grips = {g.event_id_start: g.grip_id for batch in app.storage.grips.iter_all() for g in batch}
    ids = {s.event.source_id: s.event.event_id for batch in app.storage.events.iter_all() for s in batch}
    places = Places(app)
    first, second = grips[ids["m0"]], grips[ids["m1"]]
    assert places.of({"when": "", "who": "user", "quote": "", "grip": first, "score": 1.0}) == Place("s1", ("m0",))
    full = {"id": "toc:segment:x", "session_id": "s1", "grip_ids": [second, first], "event_id": ids["m0"]}
    assert places.of(full) == Place("s1", ("m0", "m1"))
    assert places.of({"grip_ids": [first], "also": [{"grip_id": second}]}) == Place("s1", ("m0", "m1"))
    assert places.of({"id": "toc:day:2026-01-01", "session_id": "", "grip_ids": None}) == Place("", ())
    assert places.of({"when": "", "node": "toc:segment:x", "session": "s2"}) == Place("s2", ())


def test_a_conversation_of_beam_is_one_session_whose_exchanges_are_what_is_looked_for(tmp_path: Path) -> None:
    turns = [{**unit, "corpus": "100K/1", "role": ("user", "assistant")[at % 2]} for at, unit in enumerate(units())]
    write(tmp_path / "beam" / "units.jsonl", turns)
    texts = {
        "100K/1/a/0": ("Where did the balun overheat?", ["D5:1"], ["radio"]),
        "100K/1/b/0": ("Who restored the organ?", [], []),
    }
    rows = [
        {"corpus": "100K/1", "id": name, "query": text, "gold": gold, "gold_sessions": sessions, "ts": None}
        for name, (text, gold, sessions) in texts.items()
    ]
    write(tmp_path / "beam" / "queries.jsonl", rows)
    read = corpora.corpora_in(tmp_path, ["beam"])
    assert [(q.store, q.kind) for q in read.questions] == [("beam-100K-1", k) for k in (Kind.ANSWERABLE, Kind.UNANSWERABLE)]
    assert {q.as_of for q in read.questions} == {max(m.at for m in read.stores["beam-100K-1"]) + dt.timedelta(days=1)}
    found = ask_store(Stores(tmp_path / "stores", read.stores), "beam-100K-1", read.questions, [5], {Group.DEFAULT})
    assert [(r.kind, r.session_rank, r.quoted) for r in found] == [(Kind.ANSWERABLE, 1, 1), (Kind.UNANSWERABLE, 0, 0)]


def question(text: str, again: str, answer: str) -> Question:
    as_of = dt.datetime(2024, 4, 1, tzinfo=dt.UTC)
    return Question("answers", "toy", "q", text, Kind.ANSWERABLE, Half.TUNE, as_of, again=again, answer=answer)


def test_an_agent_stops_reading_once_the_answer_was_shown(tmp_path: Path) -> None:
    messages = messages_of(units())
    asked = [question("balun overheated", "dipole height", "forty\\W+metres"), question("harpsichord", "organ pipes", "no such")]
    found = ask_agent(Stores(tmp_path, {"toy": messages}), "toy", asked, 2, messages)
    assert len({r.system for r in found}) == 9
    right = [r for r in found if r.right_at]
    assert {r.right_at for r in right} == {1}
    assert len(right) == 9
    assert all(r.tokens == r.first_tokens > 0 for r in right)
    assert all(r.tokens > 0 for r in found if not r.right_at and "intelligent" in r.system)


def test_the_script_shows_one_line_a_hit_within_its_tokens() -> None:
    when = dt.datetime(2024, 4, 1, 9, 30, tzinfo=dt.UTC)
    long = "word " * 400 + "the balun overheated on forty metres " + "word " * 400
    script = Script([Message(f"m{n}", "s", when, "user", "", long) for n in range(40)], "porter")
    text, places = script.search('Why did the "balun" overheat?')
    assert len(text.splitlines()) == len(places) < 40
    assert text.startswith("2024-04-01 09:30 user: ")
    assert "balun overheated" in text.splitlines()[0]
    assert script.search("?!") == ("", [])
    assert len(script.search("balun", 600)[1]) < len(places)
    near = script.neighbours(4, "balun").splitlines()
    assert len(near) == 7
    assert all("balun overheated" in line for line in near)
    assert len("\n".join(near)) <= 800
    assert around("short text", "nothing of it") == "short text"


def test_reading_counts_every_step_up_to_the_right_one() -> None:
    async def shown(text: str, tokens: int) -> tuple[str, int]:
        return text, tokens

    steps = [lambda text=t: shown(text, 10) for t in ("no", "still no", "YES\nindeed", "never read")]
    read = asyncio.run(Reading(re.compile("yes.indeed", re.I | re.S)).read(steps))
    assert (read.right_at, read.first_tokens, read.tokens) == (3, 10, 30)
