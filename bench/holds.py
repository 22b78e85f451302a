"""Does it still hold, judged on real repositories: changes planted behind statements, and as many statements left alone.

    python -m bench.holds --repository DIR [--repository DIR ...] [--half held] [--misses]

Each repository (a git directory) is cloned, statements about its code are stored as sessions said them, and commits are added
behind them: renames, moves, deletions, changed lines, reversals. Controls have commits beside them: other lines of the same file,
a file of the same name elsewhere, their own commit soon after, a reversal that was taken back. Each statement is then recalled
through `recall_for` and `intelligent_search`. Halves are by a hash of the case.
"""

import argparse
import hashlib
import random
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from memory_mcp.app import App
from memory_mcp.base.clock import SystemClock
from memory_mcp.base.scope import project_of
from memory_mcp.capture.running import CallerProcess
from memory_mcp.config import RetrievalSettings, Settings
from memory_mcp.model.event import EventDraft, EventType, Role
from memory_mcp.requests.recall_for import RecallFor
from memory_mcp.requests.registry import answer
from memory_mcp.requests.scope import Caller
from memory_mcp.requests.search import SearchRequest
from memory_mcp.tree.toc.later_changes import LaterChanges

#: Cases of a repository, half of them controls; hours between two cases.
CASES, _HOURS = 40, 48
_CODE = (".py", ".go", ".rs", ".ts", ".js")
_DEFINITION = re.compile(
    r"^(\s*)(?:pub |async |export |static )*(?:def|func|fn|function|class|type|struct)\s+(?:\([^)]*\)\s*)?(\w{4,})"
)


@dataclass
class Place:
    """A definition in a file: its first and last line, from 0."""

    path: str
    name: str
    first: int
    last: int


@dataclass
class Case:
    """A statement, what is done behind it, and what is to be told: "" for a control, else a word of it."""

    name: str
    place: Place
    said: str
    at: int
    told: str
    since: str = ""
    shown: bool = False


class _LaterClock(SystemClock):
    """The present, or the time of the last statement: planted commits may lie ahead."""

    def __init__(self, at: int) -> None:
        self._at_ms = at * 1000

    def now_ms(self) -> int:
        """Return UTC milliseconds."""
        return max(super().now_ms(), self._at_ms + 86_400_000)


class Clone:
    """A working clone to which commits are added."""

    def __init__(self, source: Path, folder: Path) -> None:
        subprocess.run(["git", "clone", "-q", "--no-hardlinks", str(source), str(folder)], check=True)
        self.folder = folder
        self.git("remote", "remove", "origin")

    def git(self, *words: str, at: int = 0) -> str:
        """Return what git says; commits are dated."""
        who = ["-c", "user.name=Ada", "-c", "user.email=ada@example.org", "-c", "commit.gpgsign=false"]
        dates = {"GIT_AUTHOR_DATE": f"{at} +0000", "GIT_COMMITTER_DATE": f"{at} +0000"} if at else {}
        env = {"PATH": "/usr/bin:/bin", "HOME": str(self.folder), **dates}
        done = subprocess.run(["git", *who, *words], cwd=self.folder, env=env, capture_output=True, check=True)
        return done.stdout.decode("utf-8", "replace")

    def commit(self, at: int, subject: str) -> str:
        """Commit everything, and return the commit."""
        self.git("add", "-A")
        self.git("commit", "-q", "-m", subject, at=at)
        return self.git("rev-parse", "HEAD").strip()

    def rows(self, path: str) -> list[str]:
        """Return the lines of a file."""
        return (self.folder / path).read_text("utf-8", "replace").split("\n")

    def write(self, path: str, rows: Sequence[str]) -> None:
        """Write the lines of a file."""
        (self.folder / path).parent.mkdir(parents=True, exist_ok=True)
        (self.folder / path).write_text("\n".join(rows))


def list_places(clone: Clone) -> list[Place]:
    """Return one definition of each file of code that has one of its own name, with five lines at least."""
    places = []
    files = clone.git("ls-files").splitlines()
    for path in files:
        if not path.endswith(_CODE) or path.rsplit("/", 1)[-1].startswith("__"):
            continue
        rows = clone.rows(path)
        names = Counter(match[2] for row in rows if (match := _DEFINITION.match(row)))
        for first, row in enumerate(rows):
            match = _DEFINITION.match(row)
            if match and names[match[2]] == 1 and 40 < len(rows) < 1500:
                last = _end_of(rows, first, len(match[1]))
                if 4 <= last - first <= 40:
                    places.append(Place(path, match[2], first, last))
                    break
    return places


def _end_of(rows: Sequence[str], first: int, depth: int) -> int:
    last = first
    for number in range(first + 1, len(rows)):
        row = rows[number]
        if row.strip() and len(row) - len(row.lstrip()) <= depth and not re.match(r"\s*[)\]}]", row):
            break
        last = number if row.strip() else last
        if row.strip() in ("}", "end") and len(row) - len(row.lstrip()) == depth:
            break
    return last


def word_statement(kind: int, place: Place, clone: Clone) -> str:
    """Return a decision, a constraint or a procedure about a place, in one of several wordings."""
    base = place.path.rsplit("/", 1)[-1]
    body = [row.strip() for row in clone.rows(place.path)[place.first + 1 : place.last + 1]]
    words = re.findall(r"[A-Za-z]{4,}", max(body, key=len))[:3]
    return (
        f"We decided that `{place.name}` in {place.path} stays as simple as it is now.",
        f"The function {place.name}() in {base} must never be called before the settings are read.",
        f"We decided to leave lines {place.first + 1}-{place.last + 1} of {place.path} alone until the release.",
        f"Never touch {place.path}:{place.first + 2} without running the slow tests first.",
        f"We decided that {base} handles {' and '.join(words)} by itself in {place.name}.",
        f"Always run the checks after editing {place.name} in {clone.folder / place.path}.",
    )[kind % 6]


def change_lines(clone: Clone, place: Place) -> None:
    """Change the second line of a definition."""
    rows = clone.rows(place.path)
    rows[place.first + 1] = rows[place.first + 1] + "  # measured again"
    clone.write(place.path, rows)


def change_others(clone: Clone, place: Place) -> None:
    """Add lines at the end of a file, and one that moves the definition down where it begins behind the first lines."""
    rows = clone.rows(place.path)
    clone.write(place.path, [*rows[:-1], "", "# A note at the end.", rows[-1]])


def plant_rename(clone: Clone, case: Case) -> None:
    folder, _, base = case.place.path.rpartition("/")
    new = f"{folder}/renamed_{base}".lstrip("/")
    clone.git("mv", case.place.path, new)
    clone.commit(case.at + 4000 * 24, "Give it a better name")
    case.told = f"is now {new}"


def plant_move(clone: Clone, case: Case) -> None:
    new = f"moved/{case.place.path}"
    (clone.folder / new).parent.mkdir(parents=True, exist_ok=True)
    clone.git("mv", case.place.path, new)
    rows = clone.rows(new)
    clone.write(new, [*rows[:-1], "# Moved.", rows[-1]])
    clone.commit(case.at + 86_400, "Put it where it belongs")
    case.told = f"is now {new}"


def plant_two_renames(clone: Clone, case: Case) -> None:
    base = case.place.path.rsplit("/", 1)[-1]
    for number, new in enumerate((f"first/{base}", f"second/other_{base}"), 1):
        old = case.place.path if number == 1 else f"first/{base}"
        (clone.folder / new).parent.mkdir(parents=True, exist_ok=True)
        clone.git("mv", old, new)
        clone.commit(case.at + 86_400 * number, f"Move it, {number}")
    case.told = f"is now second/other_{base}"


def plant_deletion(clone: Clone, case: Case) -> None:
    clone.git("rm", "-q", case.place.path)
    clone.commit(case.at + 90_000, "Drop what nobody uses")
    case.told = "was deleted"


def plant_lines(clone: Clone, case: Case) -> None:
    change_lines(clone, case.place)
    clone.commit(case.at + 100_000, "Measure it again")
    case.told = "changed"


def plant_removed_definition(clone: Clone, case: Case) -> None:
    rows = clone.rows(case.place.path)
    clone.write(case.place.path, rows[: case.place.first] + rows[case.place.last + 1 :])
    clone.commit(case.at + 110_000, "Do it elsewhere")
    case.told = "changed"


def plant_new_name(clone: Clone, case: Case) -> None:
    rows = [re.sub(rf"\b{case.place.name}\b", f"{case.place.name}_anew", row) for row in clone.rows(case.place.path)]
    clone.write(case.place.path, rows)
    clone.commit(case.at + 120_000, "Name it anew")
    case.told = "changed"


def _own_commit(clone: Clone, case: Case, at: int) -> str:
    rows = clone.rows(case.place.path)
    rows[case.place.first + 1] += "  # settled"
    clone.write(case.place.path, rows)
    return clone.commit(at, f"Settle {case.place.name}")


def plant_reversal(clone: Clone, case: Case) -> None:
    own = _own_commit(clone, case, case.at + 900)
    clone.git("revert", "--no-edit", own, at=case.at + 130_000)
    case.told = "reverted"


def plant_silent_reversal(clone: Clone, case: Case) -> None:
    own = _own_commit(clone, case, case.at - 900)
    clone.git("checkout", "-q", f"{own}~1", "--", case.place.path)
    clone.commit(case.at + 140_000, "Back to what it was")
    case.told = "reverted"


def leave_alone(clone: Clone, case: Case) -> None:
    """Nothing is done."""


def leave_others_changed(clone: Clone, case: Case) -> None:
    change_others(clone, case.place)
    clone.commit(case.at + 90_000, "Add a note")


def leave_lines_moved(clone: Clone, case: Case) -> None:
    rows = clone.rows(case.place.path)
    at = next((n for n, row in enumerate(rows[: case.place.first]) if not row.strip()), 0)
    clone.write(case.place.path, [*rows[:at], "", *rows[at:]])
    clone.commit(case.at + 90_000, "More room above")


def leave_own_commit(clone: Clone, case: Case) -> None:
    _own_commit(clone, case, case.at + 1200)


def leave_own_then_others(clone: Clone, case: Case) -> None:
    _own_commit(clone, case, case.at + 1200)
    change_others(clone, case.place)
    clone.commit(case.at + 100_000, "Add a note")


def leave_namesake_deleted(clone: Clone, case: Case) -> None:
    base = case.place.path.rsplit("/", 1)[-1]
    clone.write(f"attic/{case.place.name}/{base}", ["one", "two", "three"] * 5)
    clone.commit(case.at + 3600, "Keep a copy of something else")
    clone.git("rm", "-q", f"attic/{case.place.name}/{base}")
    clone.commit(case.at + 90_000, "Clear the attic")


def leave_reversal_taken_back(clone: Clone, case: Case) -> None:
    own = _own_commit(clone, case, case.at + 900)
    clone.git("revert", "--no-edit", own, at=case.at + 90_000)
    back = clone.git("rev-parse", "HEAD").strip()
    clone.git("revert", "--no-edit", back, at=case.at + 100_000)


def leave_renamed_and_back(clone: Clone, case: Case) -> None:
    base = case.place.path.rsplit("/", 1)[-1]
    clone.git("mv", case.place.path, f"passing_{base}")
    clone.commit(case.at + 90_000, "Try another name")
    clone.git("mv", f"passing_{base}", case.place.path)
    clone.commit(case.at + 100_000, "The old name was better")


_PLANTS: Sequence[Callable[[Clone, Case], None]] = (
    *(plant_rename, plant_move, plant_two_renames, plant_deletion, plant_lines, plant_lines, plant_removed_definition),
    *(plant_new_name, plant_reversal, plant_silent_reversal),
)
_CONTROLS: Sequence[Callable[[Clone, Case], None]] = (
    *(leave_alone, leave_others_changed, leave_others_changed, leave_lines_moved, leave_own_commit, leave_own_then_others),
    *(leave_namesake_deleted, leave_reversal_taken_back, leave_renamed_and_back, leave_alone),
)


def plant_cases(clone: Clone, seed: int) -> list[Case]:
    """Return the cases of a repository, their commits made in order of time."""
    chosen = random.Random(seed)
    places = list_places(clone)
    chosen.shuffle(places)
    acts = [act for pair in zip(_PLANTS, _CONTROLS, strict=True) for act in pair] * (CASES // 20)
    begin = int(clone.git("log", "-1", "--format=%ct")) + 86_400
    cases: list[Case] = []
    for number, (act, place) in enumerate(zip(acts, places, strict=False)):
        said = word_statement(chosen.randrange(6), place, clone)
        cases.append(Case(act.__name__, place, said, begin + number * _HOURS * 3600, ""))
    # Each case's commits are later than those of all statements before it: histories interleave as they do in work.
    for act, case in zip(acts, cases, strict=False):
        act(clone, case)
    return cases


def ask_cases(clone: Clone, cases: Sequence[Case], budget_ms: int) -> list[float]:
    """Store the statements, recall each one, and note what it is shown with; return the seconds of each first answer."""
    project = project_of(str(clone.folder))
    app = App(
        Settings(retrieval=RetrievalSettings(repository_ms=min(budget_ms, 5000))), _LaterClock(cases[-1].at), in_memory=True
    )
    if budget_ms > 5000:
        app.later_changes = LaterChanges(app.storage, app.calendar, budget_ms, budget_ms / 1000)
    for number, case in enumerate(cases):
        texts = [(Role.USER, f"Look at {case.place.name}, please, and say what is to be kept."), (Role.ASSISTANT, case.said)]
        app.write(
            [_draft(number, role, text, case.at * 1000 + at, clone, project) for at, (role, text) in enumerate(texts)], "bench"
        )
    app.derivation.run()
    caller = Caller(project, connection=CallerProcess(cwd=str(clone.folder)))
    times = []
    for case in cases:
        started = time.perf_counter()
        recalled = answer(app, RecallFor(file=case.place.path), caller)
        times.append(time.perf_counter() - started)
        stated = [one for one in recalled["statements"] if one["text"].split(" in ")[0] in case.said]
        found = answer(app, SearchRequest(query=case.said), caller)["results"]
        stated += [one for one in found if " ".join(one["quote"].split())[:60] in case.said]
        case.shown = bool(stated)
        case.since = next((one["since"] for one in stated if one.get("since")), "")
    return times


def _draft(number: int, role: Role, text: str, at_ms: int, clone: Clone, project: str) -> EventDraft:
    type_ = EventType.USER_MESSAGE if role is Role.USER else EventType.ASSISTANT_MESSAGE
    return EventDraft(
        session_id=f"session-{number}",
        timestamp=at_ms,
        role=role,
        type=type_,
        text=text,
        project=project,
        agent="bench",
        metadata={"cwd": str(clone.folder)},
    )


def half_of(case: Case) -> str:
    """Return the half of a case: what was set was set by tune."""
    return "held" if hashlib.sha256(f"{case.name} {case.place.path}".encode()).digest()[0] % 2 else "tune"


def main(given: Sequence[str]) -> int:
    """Print precision and recall of "changed since", and how often the right thing was told."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repository", type=Path, action="append", required=True)
    parser.add_argument("--half", choices=("tune", "held"), default="tune")
    parser.add_argument("--misses", action="store_true")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--budget", type=int, default=60_000, help="milliseconds of an answer")
    args = parser.parse_args(given)
    cases: list[Case] = []
    times: list[float] = []
    with tempfile.TemporaryDirectory() as folder:
        for number, source in enumerate(args.repository):
            clone = Clone(source, Path(folder) / f"clone{number}")
            planted = plant_cases(clone, args.seed + number)
            times += ask_cases(clone, planted, args.budget)
            cases += planted
    judged = [case for case in cases if half_of(case) == args.half]
    told, changed = [case for case in judged if case.since], [case for case in judged if case.told]
    right = [case for case in told if case.told]
    exact = [case for case in right if case.told in case.since]
    wrong = [case for case in judged if bool(case.told) != bool(case.since) or case.told not in case.since]
    for case in wrong if args.misses else ():
        shown = "" if case.shown else " (not shown)"
        print(f"- {case.name}: {case.said!r}; wanted {case.told!r}, told {case.since!r}{shown}")
    unseen = sum(not case.shown for case in judged)
    print(f"{len(judged)} cases of the half {args.half}, {len(changed)} changed, {unseen} not shown")
    print(f"precision {len(right)} of {len(told)}, recall {len(right)} of {len(changed)}, ", end="")
    print(f"the right thing {len(exact)} of {len(right)}")
    print(f"an answer took {1000 * sorted(times)[len(times) // 2]:.0f} ms at the median, {1000 * max(times):.0f} at most")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
