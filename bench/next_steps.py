"""Whether what a session leaves open is told, and nothing else: on real sessions whose ends a reader judged.

`labels/next_steps.jsonl` says of each session what is open at its end, "" for nothing: a question of the agent that nobody
answered, a request that was not finished, one whose last results failed. A session is right where the first open end has that
cause, or where there is none and nothing is told. Only the latest session of a project is told this way, so each is asked for
alone. Sessions of `transcripts` are imported by the installed command, with their tools; those of `commits` hold words alone.

    python -m bench.next_steps --data DIR [--half tune|held] [--show]
"""

import argparse
import datetime as dt
import json
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from bench.place import Place
from bench.quality.corpora import LABELS, Half, recap_of
from memory_mcp.app import App
from memory_mcp.config import Settings
from memory_mcp.model.segment import Segment
from memory_mcp.storage.settings import StorageSettings
from memory_mcp.storage.values import Scope
from memory_mcp.tree.toc.told import load_stretches

#: Segments that are looked at, and read in full, as for the card of a project.
_SEGMENTS, _IN_FULL = 6, 3
#: Events and characters of each that --show prints.
_EVENTS, _WIDTH = 8, 300
#: Projects of sessions that have words alone, each in one of its own.
_ALONE = "session "


@dataclass(frozen=True, slots=True)
class Judged:
    """One session, and why something is open at its end; "" for nothing."""

    half: Half
    corpus: str
    session: str
    open: str


def main() -> int:
    """Build a memory of the judged sessions, and print how many are told rightly."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--half", type=Half, choices=list(Half))
    parser.add_argument("--show", action="store_true", help="print the ends of sessions that are told wrongly")
    arguments = parser.parse_args()
    sessions = [judged for judged in read_labels() if arguments.half in (None, judged.half)]
    counts: dict[Half, Counter[str]] = {half: Counter() for half in Half}
    with built(arguments.data, sessions) as app:
        cuts = segments_by_session(app)
        for judged in sessions:
            own = cuts.get((judged.corpus, judged.session), [])
            told = load_stretches(app.storage, own, _SEGMENTS, _IN_FULL)
            cause = told[0].open_ends[0][1] if told and told[0].open_ends else ""
            verdict = verdict_of(judged.open, cause)
            counts[judged.half][verdict] += 1
            if arguments.show and verdict.startswith("wrong"):
                print(f"\n{judged.session}: {verdict}; open {judged.open!r}, told {cause!r}")
                events = [event for several in app.storage.events.events_by_segment(own).values() for event in several]
                for event in sorted(events, key=lambda event: event.order)[-_EVENTS:]:
                    print(f"  {event.role.value} {event.type.value}: {' '.join(event.text.split())[:_WIDTH]}")
    for half, verdicts in counts.items():
        if total := verdicts.total():
            right = verdicts["right"] + verdicts["rightly absent"]
            print(f"{half.value}: {right} of {total} ({right / total:.0%}); {dict(verdicts)}")
    return 0


def read_labels() -> list[Judged]:
    """The judged sessions, in the order of the file."""
    lines = (LABELS / "next_steps.jsonl").read_text(encoding="utf-8").splitlines()
    return [Judged(**{**label, "half": Half(label["half"])}) for label in map(json.loads, lines)]


def verdict_of(wanted: str, cause: str) -> str:
    """How what is told compares with what is open."""
    if cause:
        return "right" if cause == wanted else "wrong"
    return "wrongly absent" if wanted else "rightly absent"


@contextmanager
def built(data: Path, sessions: Sequence[Judged]) -> Iterator[App]:
    """The memory of all transcripts, and of those sessions that have words alone."""
    with tempfile.TemporaryDirectory() as root, Place(Path(root), idle=5) as place:
        for folder in sorted(path for path in (data / "transcripts").iterdir() if path.is_dir()):
            # Some folders hold nothing that can be read.
            place.run("import", "auto", str(folder))
        words = Path(root) / "words.jsonl"
        chosen = {judged.session for judged in sessions if judged.corpus == "commits"}
        words.write_text("".join(lines_of(data / "commits" / "units.jsonl", chosen)), encoding="utf-8")
        place.ok("import", "jsonl", str(words))
        place.run("daemon", "stop")
        app = App(Settings(storage=StorageSettings(str(place.directory))))
        try:
            yield app
        finally:
            app.close()


def lines_of(units: Path, chosen: set[str]) -> Iterator[str]:
    """The messages of the chosen sessions, in the form of `import jsonl`, each session in a project of its own."""
    for line in units.read_text(encoding="utf-8").splitlines():
        unit = json.loads(line)
        if unit["session"] not in chosen:
            continue
        role, _, kind = unit["role"].partition("/")
        made = {"session_id": unit["session"], "id": unit["id"], "timestamp": unit["ts"], "role": role, "text": unit["text"]}
        recap = recap_of(dt.datetime.fromisoformat(unit["ts"]), unit["id"]) if kind == "compact-summary" else {}
        yield json.dumps({**made, "project": f"{_ALONE}{unit['session']}", **recap}) + "\n"


def segments_by_session(app: App) -> dict[tuple[str, str], list[Segment]]:
    """The segments of each session's main thread, newest first, by corpus and session."""
    found: dict[tuple[str, str], list[Segment]] = {}
    for cut in sorted(app.storage.toc.list_segments(Scope()), key=lambda cut: cut.start, reverse=True):
        if not cut.thread:
            corpus = "commits" if cut.project.startswith(_ALONE) else "transcripts"
            found.setdefault((corpus, cut.session_id), []).append(cut)
    return found


if __name__ == "__main__":
    raise SystemExit(main())
