"""Everything that is kept or derived of what was said, kind by kind: a source is forgotten, then a word wherever else it stands.

Two random words are planted through the program in two weeks of work: one in everything that comes of one project, one in
everything else that can hold text. Then every byte of every file and every column of the database is looked at. Commands open
the memory themselves: `test_field_forgotten.py` has the daemon.
"""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import duckdb
import pytest

from bench.place import Place
from tests.acceptance.field import bound, history, line
from tests.acceptance.leftovers import cells, holding
from tests.daemon.inside import ALONE, BARE, Inside
from tests.daemon.places import node_of
from tests.factories import SHOP

#: Of letters and digits none of which looks like another: of the source, and of the rest.
SOURCE, WORD = "kq7f3vx9wzbn", "vq8g4tx7hzrm"
BOILER, PLAIN = "github.com/acme/boiler", "github.com/acme/plain"
ORCHARD = "The orchard is watered on Mondays because the pump is loud."
CELLAR = "The cellar is aired on Fridays because the wall is damp."
#: What is found in files before, of the source and of the word.
FILES = {
    SOURCE: ("memory.duckdb", "backups/backup-", "backups/events-", "briefings/", "indexes/bm25/", "indexes/topics/", "machine-"),
    WORD: ("memory.duckdb", "backups/", "daemon.log", "pauses.json", "spool/bad/", "damaged/", "before-restore-", "machine-"),
}
#: And in columns.
CELLS = {
    SOURCE: {
        *("event.text", "event.speaker", "event.metadata", "event.project", "event.session_id", "segment_cut.session_id"),
        *("node.title", "node.summary", "node.keywords", "bullet.text", "superseded.reason", "audit.reason", "project_alias.old"),
        *("topic_label.label", "node.projects"),
    },
    WORD: {
        *(
            "event.session_id",
            "event.thread",
            "event.speaker",
            "event.metadata",
            "event.agent",
            "event.project",
            "event.source_id",
        ),
        *("node.title", "node.summary", "node.keywords", "bullet.text", "superseded.reason", "audit.reason", "audit.subject"),
        *("topic_label.label", "project_split.new", "spending.reason", "spending.model", "checkpoint.name", "pin.set_by"),
        "request.key",
    },
}


@dataclass
class Planted:
    """A memory, and where the words stand in it before anything is forgotten."""

    place: Place
    shared: Path
    files: dict[str, dict[str, int]] = field(default_factory=dict)
    columns: dict[str, dict[str, int]] = field(default_factory=dict)

    def look(self, word: str) -> tuple[dict[str, int], dict[str, int]]:
        """Files and columns that hold a word."""
        return holding([self.place.directory, self.shared], word), cells(self.place.directory / "memory.duckdb", word)


def source() -> str:
    """Twelve sessions of one project about one matter, and one of a folder that is another name of it."""
    lines = []
    for n in range(12):
        day, session = f"2026-02-{n + 1:02}T07:0", f"boiler-{n}"
        lines.append(line(BOILER, session, f"The {SOURCE} valve of the boiler leaks again, case {n}.", f"{day}0:00Z", id=f"b{n}"))
        told = f"We decided that the {SOURCE} valve of the boiler gets a new gasket, case {n}."
        lines.append(line(BOILER, session, told, f"{day}1:00Z", "assistant", id=f"c{n}"))
    told, at, branch = "A line whose fields tell it, of gulls.", "2026-02-13T07:00:00Z", {"branch": f"{SOURCE}-branch"}
    lines.append(line(BOILER, f"s-{SOURCE}", told, at, speaker=f"Ann {SOURCE}", metadata=branch))
    lines.append(line(f"github.com/old/{SOURCE}", "s-old", "A line whose project tells it, of auks.", "2026-02-13T07:10:00Z"))
    return "".join(lines)


def rest() -> str:
    """What stays, and fields of it that tell the other word."""
    at = "2026-02-13T1{}:00:00Z".format
    terns, metadata = "A line whose fields tell it, of terns.", {f"{WORD}-key": f"{WORD}-value"}
    return "".join(
        [
            line(PLAIN, "s-plain", ORCHARD, at(0), id="p0"),
            line(PLAIN, "s-plain", CELLAR, at(1), id="p1"),
            line(PLAIN, "s-terns", terns, at(2), speaker=f"Bo {WORD}", thread=f"t-{WORD}", metadata=metadata),
            line(PLAIN, f"s-{WORD}", "A line whose session tells it, of rails.", at(3)),
            line(PLAIN, "s-id", "A line whose id tells it, of coots.", at(4), id=f"{WORD}-4"),
            line(f"github.com/acme/{WORD}", "s-crakes", "A line whose project tells it, of crakes.", at(5)),
            line(PLAIN, "s-agent", "A line whose agent tells it, of ruffs.", at(6), agent=f"agent-{WORD}"),
        ]
    )


def grip_of(place: Place, question: str, quote: str) -> str:
    found = json.loads(place.ok("ask", question, "--all", "--detail", "full", "--json"))["results"]
    return str(next(r for r in found if quote in r["quote"])["grip_ids"][0])


def refine(place: Place, node: str, grip: str, word: str) -> None:
    """An agent's words in the place of a node's."""
    bullets = [{"text": f"It lies by {word}.", "grip_ids": [grip]}]
    words = {"title": f"Named {word}", "summary": f"About {word}.", "keywords": [f"{word}"], "bullets": bullets}
    place.ok("refine", "write", node, f"--text={json.dumps(words)}")


def topic_about(place: Place, question: str) -> str:
    """The topic that fits some words best."""
    return str(json.loads(place.ok("topics", "explore", question, "--all", "--json"))["topics"][0]["topic_id"])


def plant_source(place: Place) -> None:
    """What comes of the project: corrected, taken back, refined, labelled, under two names."""
    place.ok("topics", "label", topic_about(place, "valve of the boiler gasket"), f"Valves {SOURCE}")
    grip = grip_of(place, "gulls", "gulls")
    place.ok("correct", grip, f"The gulls are called {SOURCE} by now.", "--reason", f"because {SOURCE}")
    place.ok("retract", grip_of(place, "auks", "auks"), "--reason", f"since {SOURCE}")
    other = grip_of(place, "valve of the boiler leaks, case 3", "case 3")
    refine(place, node_of(place, other), other, SOURCE)


def plant_word(place: Place, shared: Path) -> None:
    """Everything else that can hold text, through the program; rows that only a failing model or a client writes, by hand."""
    orchard = grip_of(place, "when is the orchard watered", "orchard")
    place.ok("correct", orchard, "The orchard is watered on Tuesdays.", "--reason", f"because {WORD}")
    place.ok("retract", grip_of(place, "when is the cellar aired", "cellar"), "--reason", f"since {WORD}")
    refine(place, node_of(place, orchard), orchard, WORD)
    place.ok("topics", "label", topic_about(place, "checkout inventory lock"), f"Carts {WORD}")
    bound(place, SHOP, ("remember", {"text": "The kettle is descaled in May.", "idempotency_key": f"{WORD}-key"}))
    bound(place, PLAIN, ("split_project", {"project": PLAIN, "sessions": ["s-agent"], "name": f"of-{WORD}"}))
    place.ok("pause", "--project", f"/home/u/{WORD}", "--for", "2h")
    other = Inside(shared.parent / f"of-{WORD}", more=BARE)
    other.ok("ingest", "-", stdin=line(PLAIN, "o", "The heath is mown in August.", "2026-02-14T10:00:00Z"))
    place.ok("merge", str(other.directory.rename(other.root / f"memory-{WORD}")))
    place.ok("backup")
    place.ok("sync", str(shared))
    with duckdb.connect(str(place.directory / "memory.duckdb")) as con:
        asked = [1, "toc:day:2026-02-01", "digest", f"model-{WORD}", 1, 1, False, "failed", f"it said {WORD}", 1]
        con.execute("INSERT INTO spending VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", asked)
        con.execute("INSERT INTO checkpoint VALUES (?, ?)", [f"import:/home/u/{WORD}.jsonl", "12:34"])
        con.execute("INSERT INTO pin VALUES (?, ?, ?)", ["toc:year:2026", f"client-{WORD}", 1])
    for folder in ("spool/bad", "damaged/1", "before-restore-1"):
        (place.directory / folder).mkdir(parents=True, exist_ok=True)
    (place.directory / "spool/bad/1-1").write_text(f'{{"v": 9}}\n{{"prompt": "about {WORD}"}}', encoding="utf-8")
    (place.directory / "damaged/1/memory.duckdb").write_text(WORD, encoding="utf-16-le")
    (place.directory / "before-restore-1/memory.duckdb").write_text(WORD, encoding="utf-8")
    with (place.directory / "daemon.log").open("a", encoding="utf-8") as log:
        log.write(f"2026 ERROR it said {WORD}\n")


@pytest.fixture(scope="module")
def planted(tmp_path_factory: pytest.TempPathFactory) -> Planted:
    root = tmp_path_factory.mktemp("kinds")
    place = Inside(root / "here", more={**ALONE, "MEMORY_MCP_TOPICS__PRUNE_DAYS": "0"})
    place.ok("ingest", "-", stdin=history(2) + source() + rest())
    place.ok("projects", "alias", f"github.com/old/{SOURCE}", BOILER)
    place.ok("admin", "rebuild-index")
    plant_source(place)
    plant_word(place, root / "shared")
    place.ok("scheduler", "run", "render_briefings")
    made = Planted(place, root / "shared")
    for word in (SOURCE, WORD):
        made.files[word], made.columns[word] = made.look(word)
    return made


def assert_planted(planted: Planted, word: str) -> None:
    """The control: the word stood in every kind of file and column that is looked at."""
    assert [kind for kind in FILES[word] if not any(name.startswith(kind) for name in planted.files[word])] == []
    assert CELLS[word] - set(planted.columns[word]) == set()


def told(place: Place) -> list[dict[str, Any]]:
    return [json.loads(row) for row in place.ok("export").splitlines()]


def test_evidence_source_delete_reaches_derived(planted: Planted) -> None:
    """Events, tree, statements, quotations, corrections and why, labels, topics, indexes, briefings, backups, shared files."""
    assert_planted(planted, SOURCE)
    place = planted.place
    siblings = {e["event_id"] for e in told(place) if e["project"] not in (BOILER, f"github.com/old/{SOURCE}")}
    done = json.loads(place.ok("forget", "--project", BOILER, "--yes", "--json"))
    assert done["counts"]["events"] == 27
    assert planted.look(SOURCE) == ({}, {})
    # The siblings survive whole: words, statements, quotations, topics, what was corrected.
    assert {e["event_id"] for e in told(place)} == siblings
    assert "Named" in place.ok("query", "browse", "2026-02-13", "--all", "--json")
    assert "checkout" in place.ok("ask", "why does checkout time out under load", "--all")
    assert "every invariant holds" in place.ok("admin", "check")


def test_a_word_leaves_everything_that_can_hold_text(planted: Planted) -> None:
    assert_planted(planted, WORD)
    place = planted.place
    before = len(told(place))
    place.ok("forget", "--value", "--yes", stdin=WORD)
    assert planted.look(WORD) == ({}, {})
    assert len(told(place)) == before
    pauses = json.loads((place.directory / "pauses.json").read_text())["pauses"]
    assert [pause["projects"][0] for pause in pauses] == ["/home/u/[forgotten]"]
    # The project stays paused, under what is left of its name; another one is recorded.
    at = pauses[0]["begin"] + 1000
    paused = line(f"/home/u/{WORD}", "paused", "Said while it was paused.", at)
    place.ok("ingest", "-", stdin=paused + line(PLAIN, "s-plain", "The heron is back.", at))
    assert [e["text"] for e in told(place)[before:]] == ["The heron is back."]
    assert ORCHARD in place.ok("ask", "when is the orchard watered", "--all", "--limit", "20")
    assert "every invariant holds" in place.ok("admin", "check")
