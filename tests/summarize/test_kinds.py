"""Which kind of memory a statement is, by its words: for every rule what is of the kind, and what only looks like it."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.kinds import LABELS, Judged, Place, report
from memory_mcp.model.toc import MemoryKind
from memory_mcp.tree.summarize.kinds import _CUES, cues_of, has_cue, kind_of

PROCEDURES = (
    "To see the queue, open the admin page.",
    "To debug: tail -f /var/log/mailer.log",
    "To release, you can run the dist target.",
    "After the schema changes, run the generator and commit its output.",
    "For each open order, call close_order() with its id.",
    "How to renew the certificate on the mail host",
    "Release workflow: tag, build, upload",
    "Run make fmt to tidy the sources",
    "Run `make seed` before the first start.",
    "Press Escape twice to leave the editor.",
    "Start the broker by running the compose file.",
    "You can reset the counter with the admin token.",
    "First install the driver, then restart the spooler.",
)
NOT_PROCEDURES = (
    "Run the mail tests.",
    "Run the importer to see what fails.",
    "To be clear, use of the old table ended in May.",
    "I ran the importer to fill the table.",
    "After lunch the build was green again.",
    "The step by the river was slippery.",
    "We first met in Oslo, then in Bergen.",
    "You can imagine how loud it was.",
    "Fixed the hang by calling close() twice.",
)
CONSTRAINTS = (
    "Never store tokens in the local cache.",
    "Uploads must not exceed 5 MB.",
    "The order id must be a string of twelve digits.",
    "Session files must be in the data folder.",
    "Payments should never be retried twice.",
    "The health check should not touch the database.",
    "Importers shouldn't write to the index.",
    "Migrations: never edit one that was released.",
    "Log the failure — don't delete the upload.",
    "Please always answer in French.",
    "Only commit generated files on the release branch.",
    "The law requires shops to print the price per kilo.",
    "From now on the branch is called trunk.",
    "The key may be used only for signing.",
    "Never pass a token on the command line.",
    "Always process refunds on the day they come.",
)
NOT_CONSTRAINTS = (
    "It must be nice in Oslo.",
    "Living by the sea must be wonderful.",
    "The agent must be running on the other host.",
    "You must have been so proud.",
    "I never tried that.",
    "We always meet at the harbour.",
    "Always looking forward to the spring.",
    "Don't be afraid to ask.",
    "Always up for a swim.",
    "Don't let the rain keep you at home.",
    "It must've taken the painters a year.",
    "The issue must be with the second disk.",
    "Never returns more rows than asked for.",
    "A lamp like this is a must-have in the north.",
    "Around sixty , must be .",
    "Shouldn't we ask the harbour first",
    "Don't change anything, just look at the log.",
    "The council must agree that it is late.",
    "That shouldn't be a problem.",
    "The rows should not have been there.",
    "Only three of the tests failed.",
    "Never commit again without coffee!",
    "Must we always restart the server?",
    "Don't worry about it.",
    "The build takes nine minutes.",
)
DEFINITIONS = (
    "TTL stands for time to live.",
    "The ring on her finger stands for patience.",
    "A stale grip means the quote no longer fits its place.",
    '"Cold start" just means "nothing is cached".',
    "Drift refers to the distance between both clocks.",
    "The second queue is called the overflow.",
    "A spool file is short for a spooled hook payload.",
    "Ann sent the ledger, which is a list of all open orders.",
    "In Go, bytes.Buffer is a growing array of bytes.",
    "`token_store` is the table of refresh tokens.",
    "load_rows(path) - reads the rows of one file",
    "src/mailer.py — the queue of outgoing letters",
    "TestRetry_Backoff - verifies that waits grow",
)
NOT_DEFINITIONS = (
    "That means a lot to me.",
    "She called, which means the parcel came.",
    "By no means the worst of them.",
    "Moving to Bergen means a longer way to work.",
    "The speaker refers to page nine.",
    "The hook is called by the client.",
    "The cache is emptied when close() is called there.",
    "settings.toml is the real culprit.",
    "load_rows(path) - fixed the missing header",
    "src/mailer.py — added a retry",
    "src/mailer.py — skip letters without an address",
    "mailer.py:31 - the queue grows without bound",
    "Oslo - a city by the sea",
)
DECISIONS = (
    "We decided to keep the outbox in the same file.",
    "Let's go with one worker per core.",
    "Decision: no cache in front of the parser.",
    "User chose the second option: a nested section.",
    "To summarize the decision: the cache stays.",
    "Wir haben uns für Postgres entschieden.",
    "最后决定用本地缓存。",
)
PREFERENCES = (
    "I prefer tabs over spaces.",
    "My favourite editor is vim.",
    "I also enjoy long walks in the snow.",
    "I don't like dark themes.",
    "I'm a big fan of small functions.",
    "I've always been into old maps.",
    "I am passionate about clean water.",
    "She wrote of my love for the sea, and my love of salt.",
    "Sailing is a big part of my life.",
    "Our preferred option is the smaller index.",
    "The older group prefers dark colours.",
    "Customers don't like tiny buttons.",
    "Please keep answers short.",
    "Je préfère le thé.",
    "私は紅茶が好きです。",
    "我喜欢喝茶。",
)
NOT_PREFERENCES = (
    "I'd like to see the logs.",
    "I would also like to thank the staff.",
    "I love that story.",
    "I like your idea.",
    "It reminded me of a place I love.",
    "That evening was my favourite part.",
    "The user picks the colour they prefer.",
    "I moved into a flat near the harbour.",
    "It looks like rain.",
)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        *((text, MemoryKind.PROCEDURE) for text in PROCEDURES),
        *((text, MemoryKind.CONSTRAINT) for text in CONSTRAINTS),
        *((text, MemoryKind.DEFINITION) for text in DEFINITIONS),
        *((text, MemoryKind.PREFERENCE) for text in PREFERENCES),
        *((text, MemoryKind.DECISION) for text in DECISIONS),
        # Of two kinds the more durable one.
        ("To rotate the key, run the script, which must never be stopped.", MemoryKind.PROCEDURE),
        ("A lease is called stale and must never be renewed.", MemoryKind.CONSTRAINT),
        ("Salt means the world to those I love to cook for.", MemoryKind.DEFINITION),
    ],
)
def test_what_is_of_a_kind_is_told_as_it(text: str, kind: MemoryKind) -> None:
    assert kind_of(text, cues_of(text)) is kind


@pytest.mark.parametrize("text", [*NOT_PROCEDURES, *NOT_CONSTRAINTS, *NOT_DEFINITIONS, *NOT_PREFERENCES])
def test_what_only_looks_like_a_kind_is_an_observation(text: str) -> None:
    assert kind_of(text, cues_of(text)) is MemoryKind.OBSERVATION


def test_either_apostrophe_will_do() -> None:
    for text in ("Don't share the key in the chat.", "Don’t share the key in the chat."):
        assert kind_of(text, cues_of(text)) is MemoryKind.CONSTRAINT
    for text in ("I don't like dark themes.", "I don’t like dark themes."):
        assert kind_of(text, cues_of(text)) is MemoryKind.PREFERENCE


def test_labels_name_places_and_hold_none_of_their_words() -> None:
    labels = [json.loads(line) for line in LABELS.read_text(encoding="utf-8").splitlines()]
    assert {frozenset(label) for label in labels} == {frozenset(("corpus", "unit", "start", "end", "sha1", "kind", "held_out"))}
    assert all(label["held_out"] == (int(label["sha1"], 16) % 3 == 0) for label in labels)
    assert {label["kind"] for label in labels} == set(MemoryKind)
    assert len({label["sha1"] for label in labels}) == len(labels)


def test_precision_is_of_what_was_told_and_recall_of_what_was_labelled(capsys: pytest.CaptureFixture[str]) -> None:
    place = Place("made-up", "1", 0, 4, "Text")
    rule, fact = MemoryKind.CONSTRAINT, MemoryKind.OBSERVATION
    report([Judged(place, rule, rule), Judged(place, fact, rule), Judged(place, rule, fact), Judged(place, rule, fact)])
    rows = {line.split()[0]: line.split()[1:] for line in capsys.readouterr().out.splitlines()[1:]}
    assert rows["constraint"] == ["3", "2", "1", "0.50", "0.33"]
    assert rows["procedure"] == ["0", "0", "0", "-", "-"]


@given(st.data())
def test_a_cue_alone_is_found_where_it_is_found_among_all(data: st.DataObject) -> None:
    for cue, pattern in _CUES:
        text = data.draw(st.from_regex(pattern.pattern))
        assert has_cue(text, cue) == bool(cues_of(text) & cue)
