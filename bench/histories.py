"""Claude Code histories of any size, recombined from real ones: what imports, stores and questions are measured on.

python -m bench.histories --data DIR --events 48000 OUT

Every session is a real one told anew: its records, their kinds, sizes and pauses are the real ones (of the raw transcripts,
and of the sessions behind `commits`), each text is spliced from two real texts of its kind, and a few words in a hundred
become identifiers that nobody used before, since vocabularies grow. Seeded: the same arguments give the same files.
OUT gets `projects/<name>/<session>.jsonl`, as Claude Code keeps them, and `questions.json`, a list of real questions.
"""

import argparse
import datetime as dt
import json
import os
import random
import re
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

Record = dict[str, Any]

#: Words that become identifiers of their own, one in so many.
_FRESH = 40
_WORD = re.compile(r"[A-Za-z]{6,}")
#: Days over which the sessions lie, by number of events: a busy user makes some 300 a day.
_EVENTS_A_DAY = 300
_LAST = dt.datetime(2026, 6, 30, 18, tzinfo=dt.UTC)
#: Longest pause between two records that is kept, seconds: resumed sessions pause for days.
_PAUSE = 7200.0
_PROJECTS = 12
#: Share of sessions with everything that a client writes: it gives 5 to 7 kB of transcript an event, as real folders have.
_RAW = 0.6


@dataclass(slots=True)
class Material:
    """Real sessions, and their texts by kind."""

    raw: list[list[Record]] = field(default_factory=list)
    #: Their conversations alone, without calls and results.
    told: list[list[Record]] = field(default_factory=list)
    texts: dict[str, list[str]] = field(default_factory=dict)
    words: list[str] = field(default_factory=list)


def main() -> None:
    """Write histories."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--events", type=int, default=48_000)
    parser.add_argument("--seed", type=int, default=7)
    arguments = parser.parse_args()
    if not (arguments.data / "transcripts").is_dir():
        print(f"skipped: there are no transcripts in {arguments.data}")
        return
    events, size = write(arguments.out, arguments.data, arguments.events, arguments.seed)
    print(f"some {events:,} events, {size / 1e6:.0f} MB of transcripts in {arguments.out}")


def write(out: Path, data: Path, events: int, seed: int = 7) -> tuple[int, int]:
    """Write about so many events; how many there are, and bytes."""
    rng = random.Random(seed)
    real = material(data)
    days = max(30, events // _EVENTS_A_DAY)
    count = size = 0
    while count < events:
        session = rng.choice(real.raw if rng.random() < _RAW else real.told)
        start = _LAST - dt.timedelta(days=days * rng.random())
        project = f"project-{int(rng.paretovariate(1.2)) % _PROJECTS:02d}"
        name = str(uuid.UUID(int=rng.getrandbits(128), version=4))
        folder = out / "projects" / f"-home-user-{project}"
        folder.mkdir(parents=True, exist_ok=True)
        lines = list(_told(session, real, rng, name, f"/home/user/{project}", start))
        text = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)
        file = folder / f"{name}.jsonl"
        file.write_text(text, encoding="utf-8", errors="replace")
        # As a client leaves them: an import reads the latest first, and what is near in time lies near in the store.
        ended = max((at for line in lines if (at := _time(line))), default=start).timestamp()
        os.utime(file, (ended, ended))
        count += sum(counted(line) for line in lines)
        size += len(text.encode(errors="replace"))
    (out / "questions.json").write_text(json.dumps(questions(data)), encoding="utf-8")
    return count, size


def questions(data: Path) -> list[str]:
    """Real questions about coding sessions."""
    with (data / "commits" / "queries.jsonl").open(encoding="utf-8") as lines:
        return [str(json.loads(line)["query"]) for line in lines]


def material(data: Path) -> Material:
    """Read every real session there is."""
    found = Material()
    for path in sorted((data / "transcripts").rglob("*.jsonl")):
        records = [r for r in _records(path) if r.get("type") in ("user", "assistant")]
        if len([r for r in records if "message" in r and "sessionId" in r]) > 5:
            found.raw.append(_records(path))
    found.told = _commit_sessions(data / "commits" / "units.jsonl")
    for session in (*found.raw, *found.told):
        for record in session:
            for kind, text in _texts(record):
                found.texts.setdefault(kind, []).append(text)
                if len(found.words) < 200_000:
                    found.words += _WORD.findall(text)
    return found


def _records(path: Path) -> list[Record]:
    found = []
    with path.open(encoding="utf-8", errors="replace") as lines:
        for line in lines:
            try:
                record = json.loads(line)
            except ValueError:
                continue
            if isinstance(record, dict):
                found.append(record)
    return found


def _commit_sessions(path: Path) -> list[list[Record]]:
    sessions: dict[str, list[Record]] = {}
    with path.open(encoding="utf-8") as lines:
        for unit in map(json.loads, lines):
            role = "assistant" if unit["role"] == "assistant" else "user"
            content: Any = [{"type": "text", "text": unit["text"]}] if role == "assistant" else unit["text"]
            recap = {"isCompactSummary": True} if unit["role"].endswith("/compact-summary") else {}
            sessions.setdefault(unit["session"], []).append(
                {**recap, "type": role, "uuid": unit["id"], "timestamp": unit["ts"], "sessionId": unit["session"],
                 "userType": "external", "isSidechain": False, "version": "2.1.29",
                 "message": {"role": role, "content": content}}
            )  # fmt: skip
    return [s for s in sessions.values() if len(s) > 5]


def _texts(record: Record) -> Iterator[tuple[str, str]]:
    found: list[tuple[str, str]] = []

    def note(kind: str, text: str) -> str:
        found.append((kind, text))
        return text

    _mapped(record, note)
    yield from found


def _mapped(record: Record, change: Callable[[str, str], str]) -> Record:
    """Return the record with each of its texts changed, by kind; what is not text stays as it is."""
    message = record.get("message")
    if not isinstance(message, dict):
        return record
    role, content = str(message.get("role", "")), message.get("content")
    if isinstance(content, str):
        content = change(role, content)
    elif isinstance(content, list):
        content = [_block(b, role, change) if isinstance(b, dict) else b for b in content]
    return {**record, "message": {**message, "content": content}}


def _block(block: Record, role: str, change: Callable[[str, str], str]) -> Record:
    kind = block.get("type")
    if kind == "text":
        return {**block, "text": change(role, str(block.get("text", "")))}
    if kind == "thinking":
        return {**block, "thinking": change("thinking", str(block.get("thinking", "")))}
    if kind == "tool_result":
        held = block.get("content")
        if isinstance(held, str):
            return {**block, "content": change("result", held)}
        if isinstance(held, list):
            return {**block, "content": [_block(b, "result", change) if isinstance(b, dict) else b for b in held]}
    if kind == "tool_use" and isinstance(block.get("input"), dict):
        told = {k: change(f"input-{k}", v) if isinstance(v, str) and len(v) > 80 else v for k, v in block["input"].items()}
        return {**block, "input": told}
    return block


def _told(
    session: Sequence[Record], real: Material, rng: random.Random, name: str, cwd: str, start: dt.datetime
) -> Iterator[Record]:
    """Tell a session anew, under another name, elsewhere, at another time."""
    ids: dict[str, str] = {}

    def renamed(old: Any) -> Any:
        if not isinstance(old, str):
            return old
        return ids.setdefault(old, str(uuid.UUID(int=rng.getrandbits(128), version=4)))

    def change(kind: str, text: str) -> str:
        return _spliced(kind, text, real, rng)

    at, before = start, None
    for record in session:
        now = _time(record)
        if now and before:
            at += dt.timedelta(seconds=min(max((now - before).total_seconds(), 0.0), _PAUSE))
        before = now or before
        told = _mapped(record, change)
        told = {**told, "sessionId": name, "cwd": cwd} if "sessionId" in record else dict(told)
        for key in ("uuid", "parentUuid", "leafUuid", "messageId"):
            if key in told:
                told[key] = renamed(told[key])
        if now:
            told["timestamp"] = at.isoformat(timespec="milliseconds").replace("+00:00", "Z")
        yield _with_tool_ids(told, renamed)


def _with_tool_ids(record: Record, renamed: Callable[[Any], Any]) -> Record:
    message = record.get("message")
    if not isinstance(message, dict) or not isinstance(message.get("content"), list):
        return record
    blocks = []
    for block in message["content"]:
        ids = {k: renamed(v) for k, v in block.items() if k in ("tool_use_id", "id")} if isinstance(block, dict) else {}
        blocks.append({**block, **ids} if ids else block)
    return {**record, "message": {**message, "id": renamed(message.get("id")), "content": blocks}}


def _time(record: Record) -> dt.datetime | None:
    try:
        return dt.datetime.fromisoformat(str(record["timestamp"]))
    except (KeyError, ValueError):
        return None


def _spliced(kind: str, text: str, real: Material, rng: random.Random) -> str:
    """Return a text of the same size: this one's beginning and another's end, with fresh words in it."""
    if len(text) < 40 or text.startswith(("<", "{", "[", "Caveat")):
        return text
    middle = text.rfind(" ", 0, int(len(text) * rng.uniform(0.3, 0.7))) + 1
    other = rng.choice(real.texts[kind])
    tail = other[other.find(" ", max(0, len(other) - (len(text) - middle))) + 1 :][: len(text) - middle]
    joined = text[:middle] + tail + text[middle + len(tail) :]

    def fresh(found: re.Match[str]) -> str:
        if rng.randrange(_FRESH):
            return found.group()
        if rng.random() < 0.5:
            return f"{rng.choice(real.words).lower()}_{rng.choice(real.words).lower()}"
        return f"{found.group().lower()}{rng.choice(real.words).capitalize()}"

    return _WORD.sub(fresh, joined)


def counted(record: Record) -> int:
    """Events that a record gives, roughly: one for each text, call and result."""
    message = record.get("message")
    if record.get("type") not in ("user", "assistant") or not isinstance(message, dict):
        return 0
    content = message.get("content")
    if isinstance(content, list):
        return sum(isinstance(b, dict) and b.get("type") in ("text", "tool_use", "tool_result") for b in content)
    return int(isinstance(content, str))


if __name__ == "__main__":
    main()
