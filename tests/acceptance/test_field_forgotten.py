"""What was forgotten stays so, id by id of the public atlas of agent memory: through commands and daemon, client and hook.

One store for all: a week of work (three in the long form) with a word planted in it, kept in every way there is (backups,
another machine, exports, the transcript), then forgotten. Each test lets it in by one more way. A sibling in the same session is
the control.
"""

import json
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from bench.place import Place
from memory_mcp.capture.tombstones import MARK
from tests.acceptance.field import alone, bound, history, line
from tests.acceptance.leftovers import cells, holding
from tests.daemon.inside import ALONE, BARE, Beside, Inside
from tests.daemon.places import DAEMON, needs_proc, node_of
from tests.factories import SHOP
from tests.waiting import until

pytestmark = needs_proc

#: Both indexes and topics, for which the short form's week has too few segments otherwise.
INDEXED = {"MEMORY_MCP_TOPICS__MIN_SEGMENTS": "20"}
#: Letters and digits alone, none of which looks like another.
VALUE = "kq7f3vx9wzbn"
#: Case, white space, punctuation, look-alikes (Cyrillic), invisible characters, full width.
SPELLINGS = (
    "KQ7F3vx9wzBN",
    "kq7f 3vx9 wzbn",
    "kq-7f_3v.x9/wz:bn",
    "\u043aq7f3v\u0445\u0039wzbn",
    "kq7\u200bf3v\u00adx9wz\u2060bn",
    "\uff4b\uff51\uff17f3vx9wzbn",
)
PARAPHRASE = "The word for the reservoir starts with a k and ends with an n."
SIBLING = "The orchard is watered on Mondays because the pump is loud."
#: Said in the transcript by hook, too.
RESTATED = f"Once more, so that nobody loses it: the reservoir is called {VALUE}."


def planted() -> str:
    """With ids of its source and without, in text and in what goes with it; in one session with what stays."""
    at = "2026-02-13T10:0{}:00Z".format
    return "".join(
        [
            line(SHOP, "well", SIBLING, at(0), id="w0"),
            line(SHOP, "well", f"We decided that the reservoir is called {VALUE} from now on.", at(1), id="w1"),
            line(SHOP, "well", f"The pump of the reservoir {VALUE} was oiled.", at(2)),
            line(SHOP, "well", VALUE, at(3)),
            line(SHOP, "well", "A line whose speaker tells it, of terns.", at(4), speaker=f"Ann {VALUE}"),
            line(SHOP, f"s-{VALUE}", "A line whose session tells it, of gulls.", at(5)),
            line(SHOP, "well", "A line whose id tells it, of auks.", at(6), id=f"{VALUE}-6"),
        ]
    )


def transcript(folder: Path, text: str) -> Path:
    """A session of Claude Code in which it was said."""
    rows = [("u1", None, "user", text), ("u2", "u1", "assistant", "The cellar is aired on Fridays, noted.")]
    same: dict[str, Any] = {"cwd": "/home/u/shop", "isSidechain": False, "version": "2.0.0"}
    same["sessionId"] = "5d3c1e0a-1111-4222-8333-944445555666"
    told = [
        same
        | {"uuid": uuid, "parentUuid": parent, "type": role, "timestamp": f"2026-02-14T10:0{n}:00.000Z"}
        | {"message": {"role": role, "content": said if role == "user" else [{"type": "text", "text": said}]}}
        for n, (uuid, parent, role, said) in enumerate(rows)
    ]
    folder.mkdir(exist_ok=True)
    path = folder / "5d3c1e0a-1111-4222-8333-944445555666.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in told), encoding="utf-8")
    return path


@dataclass(frozen=True)
class Kept:
    """A memory from which a word was forgotten, and what was kept of it elsewhere before."""

    place: Place
    root: Path
    #: How many events it held right after.
    events: int

    def told(self) -> list[str]:
        """Every text it holds."""
        return [event["text"] for event in self.all()]

    def all(self) -> list[dict[str, str]]:
        """Every event it holds, as its own export tells it."""
        return [json.loads(row) for row in self.place.ok("export").splitlines()]

    def assert_gone(self, files: bool = False) -> None:
        """Nothing tells it, and what stood beside it is recalled. `files`: the daemon ends, and every byte is looked at."""
        assert VALUE not in self.place.ok("export").casefold()
        assert VALUE not in self.place.ok("ask", "what is the reservoir called", "--all", "--detail", "full").casefold()
        assert SIBLING in self.place.ok("ask", "when is the orchard watered", "--all")
        assert "every invariant holds" in self.place.ok("admin", "check")
        if files:
            self.assert_in_no_file()

    def alone(self) -> "Kept":
        """The same without its daemon, which ends."""
        return replace(self, place=alone(self.place))

    def assert_in_no_file(self) -> None:
        """The daemon ends, and every byte is looked at."""
        alone(self.place)
        own = self.root / "shared" / f"machine-{(self.place.directory / 'sync-id').read_text().strip()}"
        assert own.is_dir()
        assert holding([self.place.directory, own], VALUE) == {}
        assert cells(self.place.directory / "memory.duckdb", VALUE) == {}

    def copy(self, name: str) -> Path:
        """A file from before under another name, so that no importer takes it for one it has read."""
        source, number = self.root / name, len(list(self.root.iterdir()))
        target = self.root / f"{number}-{name}"
        (shutil.copytree if source.is_dir() else shutil.copy)(source, target)
        return target


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory, pytestconfig: pytest.Config) -> Iterator[Kept]:
    root = tmp_path_factory.mktemp("forgotten")
    given = history(3 if pytestconfig.getoption("--slow") else 1) + planted()
    (root / "given.jsonl").write_text(given, encoding="utf-8")
    # Filled without the daemon, which would begin indexes before all is there.
    filling = Inside(root / "here", more=ALONE | INDEXED)
    filling.ok("import", "jsonl", str(root / "given.jsonl"))
    filling.ok("import", "claude-code", str(transcript(root / "talk", RESTATED)))
    # Another machine came by it through the shared folder, and has it still.
    filling.ok("sync", str(root / "shared"))
    other_machine(root)
    filling.ok("admin", "rebuild-index")
    filling.ok("backup", str(root / "before.archive"))
    filling.ok("export", str(root / "before.jsonl"))
    filling.ok("export", str(root / "vault"), "--format", "markdown")
    filling.ok("backup")
    with Beside(root / "here", more=DAEMON | INDEXED) as place:
        until(lambda: json.loads(place.ok("teleport", "status", "--json"))["vector_healthy"])
        done = json.loads(place.ok("forget", "--value", "--yes", "--json", stdin=VALUE))
        assert (done["counts"]["events"], done["counts"]["events with a value"]) == (1, 6)
        count = len(place.ok("export").splitlines())
        yield Kept(place, root, count)


def other_machine(root: Path) -> None:
    """A second memory with the same events, a correction whose reason tells the word, and names of projects that do."""
    there = Inside(root / "there", more=BARE)
    there.ok("sync", str(root / "shared"))
    own = line(SHOP, "own", "The barn of the other machine is red.", "2026-02-15T09:00:00Z")
    there.ok("ingest", "-", stdin=own + line(SHOP, "own", f"It stands by the reservoir {VALUE}.", "2026-02-15T09:01:00Z"))
    [told, *_] = json.loads(there.ok("ask", "barn of the other machine", "--all", "--detail", "full", "--json"))["results"]
    [grip] = told["grip_ids"][:1]
    there.ok("correct", grip, "The barn of the other machine is green.", "--reason", f"for {VALUE}")
    bound(there, SHOP, ("split_project", {"project": SHOP, "sessions": ["well"], "name": f"of-{VALUE}"}))
    node = node_of(there, grip)
    words = {"title": f"Named {VALUE}", "bullets": [{"text": f"It stands by {VALUE}.", "grip_ids": [grip]}]}
    there.ok("refine", "write", node, f"--text={json.dumps(words)}")
    there.ok("sync", str(root / "shared"))


def hook(kept: Kept, text: str) -> None:
    given = {"hook_event_name": "UserPromptSubmit", "session_id": "hooked", "prompt": text, "cwd": str(kept.place.home)}
    kept.place.ok("hook", "claude-code", stdin=json.dumps(given))


def test_tombstone_reextraction_stays_inactive(kept: Kept) -> None:
    """The transcripts it was read from are imported once more, from other paths."""
    again = kept.root / "talk-again"
    kept.place.ok("import", "jsonl", str(kept.copy("given.jsonl")))
    kept.place.ok("import", "claude-code", str(transcript(again, RESTATED)))
    assert len(kept.told()) == kept.events
    kept.assert_gone()
    assert "The cellar is aired on Fridays" in kept.place.ok("ask", "when is the cellar aired", "--all")


def test_tombstone_no_second_memory_unit(kept: Kept) -> None:
    """No way back in makes another copy of an event that lost the word, whether its source named it or not."""
    before = kept.all()
    ways = [("import", "jsonl", "given.jsonl"), ("import", "jsonl", "before.jsonl"), ("import", "markdown", "vault")]
    for command, kind, name in ways:
        kept.place.ok(command, kind, str(kept.copy(name)))
        assert sorted(e["event_id"] for e in kept.all()) == sorted(e["event_id"] for e in before), name
    assert sum(MARK in e["text"] for e in before) == 3
    assert MARK in kept.place.ok("ask", "what is the reservoir called", "--all")


def test_tombstone_laundering_sequence(kept: Kept) -> None:
    """Replaced by another word, then said again by every door."""
    [told, *_] = json.loads(kept.place.ok("ask", "reservoir is called", "--all", "--detail", "full", "--json"))["results"]
    kept.place.ok("correct", told["grip_ids"][0], "The reservoir is called heron.", "--reason", f"it was {VALUE}")
    event = {"session_id": "tool", "timestamp": "2026-02-16T08:00:00Z", "role": "user", "text": f"It is {VALUE}, the reservoir."}
    kept.place.ok("ingest", "-", stdin=line(SHOP, "later", f"The reservoir is {VALUE} again.", "2026-02-16T09:00:00Z"))
    hook(kept, f"Remember that the reservoir is {VALUE}.")
    bound(kept.place, SHOP, ("remember", {"text": f"The reservoir is {VALUE}."}), ("ingest_events", {"events": [event]}))
    until(lambda: kept.place.spooled() == 0)
    told_now = "\n".join(kept.told())
    assert "The reservoir is called heron." in told_now
    assert all(f"{words} {MARK}" in told_now for words in ("It is", "reservoir is", "that the reservoir is"))
    kept.assert_gone()


def test_tombstone_key_normalization_attack(kept: Kept) -> None:
    """Case, white space, punctuation, look-alikes and invisible characters do not pass; said in other words it does."""
    lines = [line(SHOP, f"spelled-{n}", f"Spelling {n}: {s} it is.", f"2026-02-17T0{n}:00:00Z") for n, s in enumerate(SPELLINGS)]
    kept.place.ok("ingest", "-", stdin="".join(lines) + line(SHOP, "other-words", PARAPHRASE, "2026-02-17T09:00:00Z"))
    told = kept.told()
    assert [text for text in told if text.startswith("Spelling")] == [
        f"Spelling {n}: {MARK} it is." for n in range(len(SPELLINGS))
    ]
    assert PARAPHRASE in told
    kept.assert_gone()
    assert PARAPHRASE in kept.place.ok("ask", "which word starts with a k and ends with an n", "--all")


def test_tombstone_survives_ttl_and_prune(kept: Kept) -> None:
    """What is old is pruned from the indexes, the file is compacted, every job runs; then it is said again."""
    kept.place.ok("admin", "prune-bm25", "--age-days", "1")
    kept.place.ok("admin", "compact")
    kept.place.ok("scheduler", "run", "housekeeping")
    kept.place.ok("ingest", "-", stdin=line(SHOP, "aged", f"Aged: {VALUE} it is.", "2026-02-18T09:00:00Z"))
    assert f"Aged: {MARK} it is." in kept.told()
    # Every byte that it and the tests above have left: what one of them lets in does not leave again by itself.
    kept.assert_gone(files=True)


def test_deletion_absent_after_reindex_and_restart(kept: Kept) -> None:
    kept = kept.alone()
    for what in ("rebuild-toc", "rebuild-index"):
        kept.place.ok("admin", what)
    kept.assert_gone()
    target = kept.root / "after"
    kept.place.ok("export", str(target), "--format", "markdown")
    assert holding([target], VALUE) == {}
    assert any("orchard" in file.read_text() for file in target.iterdir())
    kept.assert_in_no_file()


def _sync(kept: Kept) -> None:
    kept.place.ok("sync", str(kept.root / "shared"))


def _merge(kept: Kept) -> None:
    beside = json.loads(kept.place.ok("merge", str(kept.root / "there" / "data"), "--json"))["beside"]
    # Why something was corrected comes without the word; a name that tells it does not come.
    assert (beside["corrections"] > 0, beside["project names"]) == (True, 0)


def _restore(kept: Kept) -> None:
    # By the installed program.
    Place(kept.place.root, more=kept.place.settings).ok("restore", str(kept.root / "before.archive"))


#: Each with something that came in by it.
_SHARED = (
    (_sync, "The barn of the other machine is red."),
    (_merge, "The barn of the other machine is green."),
    (_restore, SIBLING),
)


@pytest.mark.parametrize(("way", "control"), _SHARED, ids=["sync", "merge", "restore"])
def test_deletion_absent_from_shared_copies(
    kept: Kept, way: Callable[[Kept], None], control: str, pytestconfig: pytest.Config
) -> None:
    """What another machine or a backup from before still holds; the rest of it comes in."""
    kept = kept.alone()
    way(kept)
    found = kept.all()
    assert control in [e["text"] for e in found]
    well = [(e["text"], e["timestamp"]) for e in found if e["session_id"] in ("well", "own", f"s-{MARK}")]
    assert len(well) == len(set(well)), "an event came in a second time"
    # What comes by a folder is still there after a merge, and looked for with what that lets in.
    kept.assert_gone(files=way is not _sync or pytestconfig.getoption("--slow"))
