"""Why lines are so, judged on a real repository: does a line's commit lead to the session that is known to have made it?

    python -m bench.why_lines --sessions DIR --commits queries.jsonl --repository DIR [--half held] [--misses]

`--sessions` has transcripts, called after their session; `--commits` has a line for each commit with its `gold_sessions`;
`--repository` is a git directory that has these commits. Judged are the lines at its HEAD whose commit's session is stored.
Halves are by a hash of the commit.
"""

import argparse
import json
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from bench.action import half_of, read_sessions
from memory_mcp.app import App
from memory_mcp.base.git_blame import BlamedCommit
from memory_mcp.config import Settings
from memory_mcp.requests.line_history import find_session
from memory_mcp.requests.run_statements import RunTeller


def ask_git(repository: Path, *words: str) -> str:
    """Return what git answers."""
    done = subprocess.run(["git", "-C", str(repository), *words], capture_output=True, check=False)
    return done.stdout.decode("utf-8", "replace")


def read_commit(repository: Path, commit: str) -> BlamedCommit | None:
    """Return a commit of the repository, None if it has none of that name."""
    facts = ask_git(repository, "show", "-s", "--format=%H%n%at%n%an%n%s", commit).split("\n")
    if len(facts) < 4:
        return None
    files = ask_git(repository, "diff-tree", "--no-commit-id", "--name-only", "-r", "-z", "--root", commit)
    return BlamedCommit(facts[0], int(facts[1]) * 1000, facts[2], facts[3], tuple(filter(None, files.split("\0"))))


def count_lines(repository: Path, commits: Mapping[str, BlamedCommit]) -> Counter[str]:
    """Return how many lines at HEAD each commit has made."""
    lines: Counter[str] = Counter()
    for file in {file for commit in commits.values() for file in commit.files}:
        answer = ask_git(repository, "blame", "-s", "-l", "--root", "HEAD", "--", file)
        lines.update(line.split(" ", 1)[0] for line in answer.splitlines())
    return lines


def main(given: Sequence[str]) -> int:
    """Judge each commit of the half, and print the shares of commits and of lines."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("--sessions", "--commits", "--repository"):
        parser.add_argument(name, type=Path, required=True)
    parser.add_argument("--half", choices=("tune", "held"), default="tune")
    parser.add_argument("--misses", action="store_true")
    args = parser.parse_args(given)
    app = App(Settings(), in_memory=True)
    stored = read_sessions(args.sessions)
    for drafts in stored:
        app.write(list(drafts), "bench")
    app.derivation.run()
    known = {drafts[0].session_id for drafts in stored}
    gold = {row["id"]: set(row["gold_sessions"]) for row in map(json.loads, args.commits.read_text().splitlines())}
    read = {commit: read_commit(args.repository, commit) for commit in gold if gold[commit] & known}
    commits = {name: commit for name, commit in read.items() if commit is not None and half_of(commit.commit) == args.half}
    lines = count_lines(args.repository, commits)
    right, times = Counter[bool](), list[float]()
    right_lines = Counter[bool]()
    for name, commit in commits.items():
        started = time.thread_time()
        found = find_session(app, RunTeller(app, None), commit, None)
        times.append(time.thread_time() - started)
        is_right = found is not None and found.session_id in gold[name]
        right[is_right] += 1
        right_lines[is_right] += lines[commit.commit]
        if args.misses and not is_right:
            other = found.session_id[:8] if found else "none"
            size = f"{lines[commit.commit]} lines, {len(commit.files)} files"
            print(f"- {name} {commit.subject[:60]!r} {size}: {other}, not {sorted(gold[name])}")
    print(f"{len(known)} sessions, half {args.half}: {right[True]} of {right.total()} commits, ", end="")
    print(f"{right_lines[True]} of {right_lines.total()} lines; at most {max(times, default=0) * 1000:.0f} ms of a processor")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
