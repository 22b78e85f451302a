"""Memory at the point of action: sessions replayed in order, asked with what was stored before, judged by what came later.

After each failure the error is asked for. It counts where a like error had failed and was ended earlier: the answer must name
the file that was changed last, or a command that was called, before the same call first succeeded there; that of any earlier
one counts as "error", of the one that failed last as "last end". Errors are alike by the words that they share, without those
that calls of the name print when they succeed; with fewer than five others an output says nothing by which it could be known
again. Calls are the same without a `cd` before them and what cuts their output; what was done before the same call failed for
another reason counts too. Before each command that fails now and had succeeded earlier (by its first words), the form that
worked must be in the answer. What decides was written without the forms that the memory itself uses. Halves are by a hash of
the session: whatever is set by these numbers was set by the half "tune".

With --hints it prints instead every hint that hooks would have given (bench/hint_replay.py).

    python -m bench.action --data DIR [--half held] [--misses] [--hints]
"""

import argparse
import hashlib
import re
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from bench.call_memory import began_at
from bench.hint_replay import show_hints
from memory_mcp.app import App
from memory_mcp.config import Settings
from memory_mcp.importers.base import BEGINNING, ImportReport
from memory_mcp.importers.registry import IMPORTERS
from memory_mcp.importers.settings import IngestSettings
from memory_mcp.model.event import EventDraft, EventType
from memory_mcp.requests.recall_for import RecalledFor, RecallFor, recall_for
from memory_mcp.requests.scope import Caller
from memory_mcp.tree.outcomes.failures import ended_by_person

#: Share of words from which two errors are alike, words of the end of an error, the least of them, and words that name a command.
_ALIKE, _WORDS, _LEAST, _NAMING = 0.6, 60, 5, 3
_QUOTED = re.compile(r"\"(?:\\.|[^\"\\])*\"|'[^']*'")
#: What a command line begins or ends with that changes nothing in what it does.
_MOVE, _CUT = re.compile(r"\A(?:\s*cd [^&;|\n]+(?:&&|;))+\s*"), re.compile(r"(?:\s*(?:2>&1|\|\s*(?:head|tail)\b[^|;&]*))+\s*\Z")
_TURN = re.compile(r"(?:^|&& |; )(?!cd )(?:\w+=\S+ )*([^&;|\n]+)")


@dataclass(frozen=True)
class Call:
    """A call with its result, as its session had it."""

    session: str
    project: str
    tool: str
    command: str
    file: str
    text: str
    failed: bool
    place: int

    @property
    def subject(self) -> str:
        """The whole call, for equality."""
        return _CUT.sub("", _MOVE.sub("", self.command)) or f"{self.tool} {self.file}"

    @property
    def label(self) -> str:
        """What it is named by: its file, the beginning of its command, or its tool."""
        return self.file or self.command[:40] or self.tool

    @cached_property
    def words(self) -> frozenset[str]:
        """The words at the end of its result, without digits and paths."""
        return frozenset(word for word in re.findall(r"[A-Za-z]{3,}", re.sub(r"\S*/\S*", " ", self.text))[-_WORDS:])

    @property
    def name(self) -> str:
        """The first words of the command behind any `cd`."""
        turn = _TURN.search(_QUOTED.sub("", self.command))
        return " ".join([word for word in turn[1].split() if not word.startswith("-")][:_NAMING]) if turn else ""


@dataclass(frozen=True)
class Judged:
    """One case: what it asked, and whether the answer was right."""

    kind: str
    session: str
    asked: str
    wanted: frozenset[str]
    right: bool
    seen: bool


def are_alike(call: Call, former: Call, usual: Set[str] = frozenset()) -> bool:
    """Return whether two calls failed alike, by their words without the usual ones."""
    words, others = call.words - usual, former.words - usual
    return len(words) >= _LEAST and len(words & others) >= _ALIKE * len(words | others)


def read_sessions(folder: Path) -> list[list[EventDraft]]:
    """Return the sessions below a folder that have calls, the one that began first first."""
    importers = {name: make(IngestSettings()) for name, make in IMPORTERS.items() if name not in ("markdown", "jsonl")}
    sessions: dict[str, list[EventDraft]] = {}
    for file in sorted(path for path in folder.rglob("*.json*") if path.is_file()):
        with file.open("rb") as stream:
            beginning = stream.read(BEGINNING)
        reader = next((each for each in importers.values() if each.recognises_file(file, beginning)), None)
        for step in reader.read_file(file, 0, ImportReport()) if reader else ():
            for draft in step.drafts:
                sessions.setdefault(draft.session_id, []).append(draft)
    kept = [drafts for drafts in sessions.values() if any(draft.type is EventType.TOOL_RESULT for draft in drafts)]
    return sorted(kept, key=began_at)


def calls_in(drafts: Sequence[EventDraft]) -> Iterator[Call]:
    """Yield the calls of a session that have a result."""
    opened: dict[str, EventDraft] = {}
    for place, draft in enumerate(drafts):
        use = draft.metadata.get("tool_use_id", "")
        if draft.type is EventType.TOOL_CALL:
            opened[use] = draft
        elif draft.type is EventType.TOOL_RESULT and use in opened and not ended_by_person(draft.text):
            call, facts = opened.pop(use), draft.metadata
            failed = facts.get("is_error") == "true" or facts.get("exit_status", "0") not in ("", "0")
            file = call.metadata.get("files", "").split("\n")[0].rsplit("/", 1)[-1]
            command, tool = call.metadata.get("command", "").replace("\\\n", " "), call.metadata.get("tool", "")
            yield Call(draft.session_id, draft.project, tool, command, file, draft.text, failed, place)


def ending_of(failed: Call, later: Sequence[Call]) -> frozenset[str]:
    """Return the names of what may have ended a failure: files and commands before its first success; empty if none came."""
    between: list[Call] = []
    for call in later:
        if not call.failed and call.subject == failed.subject:
            edits = [each.file for each in between if each.file and not each.command and "ead" not in each.tool]
            other = [each.command.split("\n")[0][:40] for each in between if each.command]
            # If nothing was changed, whatever was called last, or the call itself in another form.
            return frozenset([*edits[-2:], *other[-3:]] or [each.label for each in (between or [call])[-1:]])
        if not call.failed:
            between.append(call)
        elif call.subject == failed.subject and are_alike(call, failed):
            between.clear()
    return frozenset()


def names_any(answer: RecalledFor, wanted: frozenset[str], about: frozenset[str]) -> bool:
    """Return whether statements of some kinds hold one of the names."""
    told = " ".join(" ".join(s.text.split()) for s in answer.statements if s.about in about)
    return any(" ".join(name.split()) in told for name in wanted if name)


class Replay:
    """A memory that is filled session by session, asked on the way."""

    def __init__(self) -> None:
        self.app = App(Settings(), in_memory=True)
        self.judged: list[Judged] = []
        self.times: list[float] = []
        self._ended: list[tuple[Call, frozenset[str]]] = []
        self._succeeded: list[Call] = []
        #: Words that calls print when they succeed, by project and name.
        self._usual: defaultdict[tuple[str, str], set[str]] = defaultdict(set)

    def play(self, drafts: Sequence[EventDraft], is_asked: bool) -> None:
        """Store a session, and ask at each of its failures if `is_asked`."""
        stored, calls = 0, list(calls_in(drafts))
        for number, call in enumerate(calls):
            if not call.failed:
                self._succeeded.append(call)
                self._usual[call.project, call.name] |= call.words
                continue
            if is_asked:
                self._store(drafts[stored : call.place])
                stored = call.place
                self._judge(call, calls[:number])
            if ending := ending_of(call, calls[number + 1 :]):
                # It is known only when it has come: the rest of the session is judged without it.
                self._ended.append((replace(call, place=-1), ending))
        self._store(drafts[stored:])

    def _judge(self, call: Call, earlier: Sequence[Call]) -> None:
        own = ((each, ending_of(each, earlier[at + 1 :])) for at, each in enumerate(earlier) if each.failed)
        elsewhere = (each for each in self._ended if each[0].session != call.session)
        endings: list[frozenset[str]] = []
        usual = self._usual[call.project, call.name] if call.command else set[str]()
        for former, ending in [*elsewhere, *((each, ending) for each, ending in own if ending)][::-1]:
            if former.project == call.project and former.tool == call.tool and are_alike(call, former, usual):
                endings.append(ending)
        if endings:
            answer = self._ask(RecallFor(error=call.text[-20_000:], command=call.command, project=call.project))
            for kind, names in (("error", frozenset().union(*endings)), ("last end", endings[0])):
                right = names_any(answer, names, frozenset({"ended", "then"}))
                self.judged.append(Judged(kind, call.session, call.text[-80:], names, right, answer.outcome == "resolved"))
        worked = [
            each.command for each in self._succeeded if call.name and each.name == call.name and each.project == call.project
        ]
        if worked:
            answer = self._ask(RecallFor(command=call.command[:4000], project=call.project))
            wanted = frozenset(command[:60].split("\n")[0] for command in worked)
            right = names_any(answer, wanted, frozenset({"works"}))
            self.judged.append(Judged("command", call.session, call.command[:80], wanted, right, answer.outcome == "works"))

    def _ask(self, request: RecallFor) -> RecalledFor:
        started = time.thread_time()
        answer = recall_for(self.app, request, Caller())
        self.times.append(time.thread_time() - started)
        return answer

    def _store(self, drafts: Sequence[EventDraft]) -> None:
        self.app.write(list(drafts), "bench")
        self.app.derivation.run()


def half_of(session: str) -> str:
    """Return the half that a session is judged in."""
    return ("tune", "held")[hashlib.sha256(session.encode()).digest()[0] & 1]


def main(given: Sequence[str]) -> int:
    """Replay the sessions and print what was right."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--half", choices=("tune", "held", "both"), default="tune")
    parser.add_argument("--misses", action="store_true")
    parser.add_argument("--hints", action="store_true", help="print every hint that would have been given")
    args = parser.parse_args(given)
    sessions = read_sessions(args.data)
    if args.hints:
        show_hints(sessions)
        return 0
    replay = Replay()
    for drafts in sessions:
        replay.play(drafts, args.half in ("both", half_of(drafts[0].session_id)))
    counts = Counter((case.kind, case.right) for case in replay.judged)
    print(f"{len(sessions)} sessions, half {args.half}")
    for kind in ("error", "last end", "command"):
        right, total = counts[kind, True], counts[kind, True] + counts[kind, False]
        print(f"{kind:8} {right} of {total} right" + (f" ({right / total:.0%})" if total else ""))
    times = sorted(replay.times) or [0.0]
    median, high = (times[len(times) * share // 20] * 1000 for share in (10, 19))
    print(f"processor time of an answer: p50 {median:.0f} ms, p95 {high:.0f} ms")
    for case in replay.judged if args.misses else ():
        if not case.right:
            state = "seen" if case.seen else "not seen"
            print(f"- {case.kind} {case.session[:8]} {state}: {case.asked!r}\n    {sorted(case.wanted)[:4]}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
