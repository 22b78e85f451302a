"""How well the kinds of bullets are told apart: the rules against bullets that were labelled by reading them.

The labels (bench/labels/kinds.jsonl) name sentences by place and hash, and hold none of their words; the texts are in
`--data`. A label with "held_out" is of the third kept aside: it is counted with `--held-out` only, and rules are not to be
changed by what that shows. The sample is no picture of what memories hold: see `draw`.

    python -m bench.kinds --data DIR [--held-out] [--wrong]
    python -m bench.kinds --data DIR --draw
"""

import argparse
import hashlib
import json
import random
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.titles import segments
from memory_mcp.importers.base import ImportReport
from memory_mcp.importers.claude_code.reader import ClaudeCodeImporter
from memory_mcp.importers.settings import IngestSettings
from memory_mcp.model.event import DEFAULT_TYPES, Event, EventDraft, Role, Trust
from memory_mcp.model.ids import event_id
from memory_mcp.model.toc import MemoryKind
from memory_mcp.tree.summarize.extractive import ExtractiveSummarizer
from memory_mcp.tree.summarize.kinds import cues_of, kind_of
from memory_mcp.tree.summarize.sentences import clean_text

LABELS = Path(__file__).parent / "labels" / "kinds.jsonl"
#: Sets of messages, one file each.
CORPORA = ("locomo", "commits", "qmsum")
#: Session files of Claude Code, below DATA/transcripts.
TRANSCRIPTS = (
    "obra_episodic-memory/test/fixtures/large-conversation.jsonl",
    "obra_episodic-memory/test/fixtures/long-conversation.jsonl",
    "obra_episodic-memory/test/fixtures/medium-conversation.jsonl",
    "claude-code-viewer/mock-global-claude-dir/projects/sample-project/fe5e1c67-53e7-4862-81ae-d0e013e3270b.jsonl",
    "claude-code-viewer/mock-global-claude-dir/projects/sample-project/5c0375b4-57a5-4f26-b12d-d022ee4e51b7.jsonl",
    "claude-code-viewer/mock-global-claude-dir/projects/sample-project/1af7fc5e-8455-4414-9ccd-011d40f70b2a.jsonl",
    "yoavf_ai-sessions/examples/claude-code-pomodoro-timer.jsonl",
    "entire_cli_samples/9667a07f-c677-4f9d-9b21-da366e5add6a.jsonl",
    "entire_cli_samples/8b418ea5-895d-4ad5-abe8-4489d36e454f.jsonl",
)
#: A made-up hour for messages that have none: the order is what counts.
_START_MS, _STEP_MS = 1_700_000_000_000, 10_000
_TALK, _WORK = ("locomo", "qmsum", "commits", "transcripts"), ("commits", "transcripts", "commits", "qmsum", "locomo")


@dataclass(frozen=True, slots=True)
class Net:
    """Any of some patterns; how many bullets it gives, and of which corpora in turn."""

    parts: tuple[str, ...]
    count: int
    corpora: tuple[str, ...]

    def catches(self, text: str) -> bool:
        return any(re.search(part, text, re.I) for part in self.parts)


#: Nets of words, wider than the rules and made without them.
NETS = (
    Net(
        (
            r"\b(?:must|never|always|mandatory|require[sd]?|allowed|do not|don['’]t \w+ (?:the|any|a|it)|no more than)\b",
            r"\b(?:at most|at least|limit(?:ed|s)?|(?:has|have|needs?) to be|should (?:not|be|only|always|never|use|have))\b",
            r"\b(?:shall|cannot|can['’]t|forbid\w*|ensure|make sure|only (?:when|if|be|use|for)|convention|rule)\b",
        ),
        90,
        _WORK,
    ),
    Net(
        (
            r"\b(?:prefer\w*|favou?rites?|love|like to|likes|i (?:\w+ )?like|hate|dislike|enjoy|rather|fan of|into|passion\w*)\b",
            r"\b(?:nothing beats|want (?:it|them|this|a)|stick (?:to|with)|keep (?:it|the|things)|simple)\b",
        ),
        80,
        _TALK,
    ),
    Net(
        (
            r"\b(?:means?|refers? to|call(?:ed|s it)|stands? for|known as|defined?|definition|represents?|type of|kind of a)\b",
            r"\b(?:sort of a|consists of|(?:is|are) (?:an?|the|where|what|when|how)|namely|i\.e)\b",
            r"^[\w./()`-]+(?: \w+)? ?[—–:-] ",
        ),
        100,
        _WORK,
    ),
    Net(
        (
            r"\b(?:run|execute|install|step|steps|then|how to|by \w+ing|in order to|command|click|press|use)\b|^to \w+[^.]*,",
            r"^(?:go|npm|git|make|docker|mise|curl|cd|export|python3?|entire|brew) [\w./-]",
        ),
        90,
        ("commits", "transcripts", "commits", "transcripts", "qmsum", "locomo"),
    ),
)
#: The first draw had too few procedures, constraints and definitions to count: narrower nets, drawn after it.
NARROW = (
    Net(
        (
            r"\b(?:must|mustn['’]t|never|always|do not|only|mandatory|required|shall|no more than|maximum|max|minimum)\b",
            r"\b(?:not allowed|(?:have|has|need) to|should not|shouldn['’]t|has got to)\b",
            r"\bdon['’]t (?:want|use|add|change|touch|commit|need to)\b",
        ),
        70,
        ("commits", "qmsum", "transcripts"),
    ),
    Net(
        (
            r"\b(?:means|refers? to|defined as|stands for|known as|consists of|we call|which is an?)\b",
            r"\b(?:(?:is|are) (?:called|basically|used|responsible|just)|is an? \w+ (?:that|of|for|to|which))\b",
            r"\bis (?:the \w+ )?(?:where|what|when|how)\b|^[\w./()`-]+[(_./-][\w./()`-]* (?:is|are|[—–-]) ",
        ),
        70,
        ("commits", "qmsum", "transcripts"),
    ),
    Net(
        (
            r"\bto \w+[^.]*, (?:run|use|you|just|set|call)|\b(?:run|running|execute|press|click|select|install) [`\w]|&&",
            r"first\b.*\bthen\b|\bstep \d|→.*→|\bhow to\b|by running",
            r"\byou (?:can|could|need to|should|would|have to|press|put|take|just)\b",
            r"^(?:if|when|once|after|before) [^,]+, (?:you|we|\w+ the)\b",
        ),
        70,
        ("commits", "transcripts", "commits", "qmsum", "locomo"),
    ),
    Net(
        (
            r"(?<!added )(?<!fixed )\b(?:mise|npx?|npm|go (?:test|run|build|install)|docker)\b.* (?:to|before|after|then|for)\b",
            r"(?<!added )(?<!fixed )\b(?:git [a-z]+|entire \w+|brew|curl|make|gh|claude)\b.* (?:to|before|after|then|for)\b",
            r"\b(?:run|rerun|use|set|open|type|call|start|stop|restart|verify|try) .* (?:to|with|before|then)\b",
            r"^(?:if|when|for|to|once) [^,]+, (?:use|run|set|try|call|check|add|make|put|take|just)\b|\bin order to\b",
            r"\byou (?:can|could) (?:use|run|set|try|make|take|add|do)\b|\bstep \d|\bthen you\b",
            r"\bworkflow\b|\bprocess (?:is|of|for)\b|\brecipe\b",
        ),
        120,
        ("commits", "commits", "transcripts", "qmsum", "locomo"),
    ),
    Net(
        (
            r"^(?:please )?(?:run|rerun|execute|use|set|open|install|restart|start|stop) .*(?:\b(?:to|before|then|with)\b|,|:|→)",
            r"^(?:please )?(?:check|verify|click|press|type|call|create|go to) .*(?:\b(?:to|before|then|with)\b|,|:|→)",
            r"^(?:please )?(?:copy|export|after|before|once|to|for|from) .*(?:\b(?:to|before|then|with)\b|,|:|→)",
            r"^(?:whenever|when|every time|each time|step \d+:?) .*(?:\b(?:to|before|then|with)\b|,|:|→)",
            r"\b(?:you|users?|developers?) (?:can|could|must|need to) (?:then |now |also )?[a-z]+ .*\b(?:by|with|to|using)\b",
            r"\bby (?:running|using|setting|calling|pressing|adding)\b|\bre-?run |→.*→",
        ),
        120,
        ("commits", "commits", "transcripts", "commits", "commits", "qmsum"),
    ),
)
UNIFORM = 40
SEED = 20_260_101


@dataclass(frozen=True, slots=True)
class Place:
    """One sentence of one message: `unit` names the message within its corpus."""

    corpus: str
    unit: str
    start: int
    end: int
    text: str

    @property
    def sha1(self) -> str:
        return hashlib.sha1(self.text.encode(), usedforsecurity=False).hexdigest()

    @property
    def held_out(self) -> bool:
        return int(self.sha1, 16) % 3 == 0


def stretches(data: Path) -> Iterator[tuple[str, list[tuple[Event, str]]]]:
    """Every corpus's messages with their units, cut as a tree would cut them."""
    for corpus in CORPORA:
        by_name: dict[str, list[dict[str, Any]]] = defaultdict(list)
        for line in (data / corpus / "units.jsonl").read_text(encoding="utf-8").splitlines():
            unit = json.loads(line)
            own = by_name[unit["corpus"]]
            at = f"2024-01-01T{len(own) // 3600:02d}:{len(own) // 60 % 60:02d}:{len(own) % 60:02d}"
            own.append(unit | {"session": unit["session"] or unit["corpus"], "ts": unit["ts"] or at})
        for name, units in by_name.items():
            for stretch in segments(f"{corpus}/{name}", units):
                yield f"{corpus}/{name}", stretch
    for name in TRANSCRIPTS:
        yield from (("transcripts/" + name, stretch) for stretch in _transcript(data / "transcripts" / name))


def _transcript(path: Path) -> Iterator[list[tuple[Event, str]]]:
    """Forty messages at a time: about what a segment holds."""
    own = list(_events(path))
    for start in range(0, len(own), 40):
        yield own[start : start + 40]


def _events(path: Path) -> Iterator[tuple[Event, str]]:
    drafts = [d for read in ClaudeCodeImporter(IngestSettings()).read_file(path, 0, ImportReport()) for d in read.drafts]
    seen: Counter[str] = Counter()
    for number, draft in enumerate(drafts):
        unit = f"{draft.source_id}#{seen[draft.source_id]}"
        seen[draft.source_id] += 1
        yield _event(draft, number, unit), unit


def _event(draft: EventDraft, number: int, unit: str) -> Event:
    ms = _START_MS + number * _STEP_MS
    kind = draft.type or DEFAULT_TYPES[Role(draft.role)]
    ident = event_id(ms, "bench", unit)
    told = dict(draft.metadata)
    return Event(ident, draft.session_id, ms, kind, draft.role, Trust.IMPORTED, draft.text, "bench", metadata=told)


def bullets(data: Path) -> Iterator[Place]:
    """Every bullet that the summarizer makes of the data: the sentence it is, cleaned."""
    summarizer = ExtractiveSummarizer()
    for corpus, stretch in stretches(data):
        units = {event.event_id: (event, unit) for event, unit in stretch}
        for bullet in summarizer.summarize([event for event, _ in stretch]).bullets:
            source = bullet.sources[-1]
            event, unit = units[source.event_id]
            yield Place(corpus, unit, source.start, source.end, clean_text(event.text[source.start : source.end]))


def draw(data: Path) -> list[Place]:
    """The sample that was labelled: so many bullets of each net, each corpus in its turn, and some drawn evenly.

    Most bullets are observations: an even draw would hold next to none of the other kinds. Precision and recall are
    of this sample therefore, richer in doubtful cases than what a memory holds.
    """
    rng = random.Random(SEED)
    found = list({place.text.lower(): place for place in bullets(data)}.values())
    rng.shuffle(found)
    chosen: dict[str, Place] = {}
    for turn, net in enumerate((*NETS, *NARROW)):
        if turn == len(NETS):
            _take([[place for place in found if place.text not in chosen]], UNIFORM, chosen)
        groups: dict[str, list[Place]] = defaultdict(list)
        for place in found:
            if place.text not in chosen and net.catches(place.text):
                groups[place.corpus.split("/", 1)[0]].append(place)
        _take([groups[name] for name in net.corpora], net.count, chosen)
    return list(chosen.values())


def _take(groups: Sequence[list[Place]], count: int, chosen: dict[str, Place]) -> None:
    """`count` more, from each group in turn; a group that comes twice gives twice as many."""
    turns = [iter(group) for group in groups]
    wanted = len(chosen) + count
    while turns and len(chosen) < wanted:
        for turn in list(turns):
            place = next(turn, None)
            if place is None:
                turns.remove(turn)
            elif len(chosen) < wanted and place.text not in chosen:
                chosen[place.text] = place


@dataclass(frozen=True, slots=True)
class Judged:
    """One labelled sentence and what the rules say of it."""

    place: Place
    label: MemoryKind
    found: MemoryKind


def judged(data: Path, labels: Path = LABELS, *, held_out: bool = False) -> tuple[list[Judged], int]:
    """The labelled sentences of one part, and how many of its labels no longer fit the data."""
    wanted = [
        label for label in map(json.loads, labels.read_text(encoding="utf-8").splitlines()) if label["held_out"] == held_out
    ]
    texts = _texts(data, {label["corpus"] for label in wanted})
    found = []
    for label in wanted:
        text = clean_text(texts.get((label["corpus"], label["unit"]), "")[label["start"] : label["end"]])
        place = Place(label["corpus"], label["unit"], label["start"], label["end"], text)
        if place.sha1 == label["sha1"]:
            found.append(Judged(place, MemoryKind(label["kind"]), kind_of(text, cues_of(text))))
    return found, len(wanted) - len(found)


def _texts(data: Path, corpora: set[str]) -> dict[tuple[str, str], str]:
    texts: dict[tuple[str, str], str] = {}
    for corpus in CORPORA:
        for line in (data / corpus / "units.jsonl").read_text(encoding="utf-8").splitlines():
            unit = json.loads(line)
            texts[f"{corpus}/{unit['corpus']}", str(unit["id"])] = unit["text"]
    for name in sorted(name for name in corpora if name.startswith("transcripts/")):
        texts |= {(name, unit): event.text for event, unit in _events(data / name)}
    return texts


def report(found: Sequence[Judged]) -> None:
    """Precision and recall by kind, with the counts they are made of."""
    print(f"{'':14}{'labelled':>9}{'said':>6}{'right':>7}{'precision':>11}{'recall':>8}")
    for kind in MemoryKind:
        labelled = sum(j.label is kind for j in found)
        said = sum(j.found is kind for j in found)
        right = sum(j.label is kind and j.found is kind for j in found)
        precision = f"{right / said:.2f}" if said else "-"
        recall = f"{right / labelled:.2f}" if labelled else "-"
        print(f"{kind:14}{labelled:9}{said:6}{right:7}{precision:>11}{recall:>8}")


def main() -> int:
    """Print the table; exit 0 also when there is no data."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--held-out", action="store_true", help="score the third kept aside instead of the rest")
    parser.add_argument("--wrong", action="store_true", help="print what was told wrongly, of the part not kept aside")
    parser.add_argument("--draw", action="store_true", help="print the sample's places and words, for labelling them anew")
    options = parser.parse_args()
    wanted = [*(options.data / c / "units.jsonl" for c in CORPORA), *(options.data / "transcripts" / t for t in TRANSCRIPTS)]
    if missing := [path for path in wanted if not path.exists()]:
        print(f"skipped: {missing[0]} and {len(missing) - 1} other files are not there")
        return 0
    if options.draw:
        for place in draw(options.data):
            print(f"{place.corpus}\t{place.unit}\t{place.start}\t{place.end}\t{place.text}")
        return 0
    found, lost = judged(options.data, held_out=options.held_out)
    print(f"{len(found)} bullets of the {'held-out' if options.held_out else 'tuning'} part, {lost} labels fit no text")
    report(found)
    if options.wrong and not options.held_out:
        for one in sorted((j for j in found if j.label is not j.found), key=lambda j: (j.found, j.label)):
            print(f"{one.label} told as {one.found}: {one.place.text}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
