"""Corpora in, documents out: the segments of a store as the program derives it, each with what a person says it belongs to.

qmsum: meetings whose lines people put under titled spans. Its units have no times: meeting number n is held at nine on the
n-th day of 2025, its lines follow each other by five seconds, and it is a session of its own, so that spans are not given
away by pauses. Half of the spans have under 1,800 tokens, and a segment of the default size holds up to four of them: the
store is derived with segments of at most 500 tokens (`toc.max_tokens`). A segment belongs to the span that most of its lines
belong to, to none where most belong to none (2,722 lines do). Spans of different meetings are different.

commits: sessions of one project. A query is a commit and its id the beginning of the commit's hash; its gold says in which
session it was made. Which pull request a commit belongs to stands in the project's public history alone: `--history` names a
clone of github.com/entireio/cli, whose merges name the pull request and its branch. A session belongs to the pull request
that most of its commits belong to; one without such a commit to the one whose branch is the only branch of a merged pull
request that its words name. Without a history a session belongs to the one pull request whose address its words name. Recaps
count as any words. A segment belongs to what its session belongs to.
"""

import datetime as dt
import hashlib
import re
import subprocess
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench.locomo import load
from bench.quality.corpora import Message, messages_of
from bench.quality.stores import TIERS, Stores
from bench.topics.systems import Material
from memory_mcp.app import App
from memory_mcp.embed.model2vec import Model2Vec
from memory_mcp.embed.models import BUNDLED, resolve_model
from memory_mcp.indexes import units
from memory_mcp.indexes.document import Source, unit_of
from memory_mcp.indexes.topics.documents import document_of
from memory_mcp.model.calendar import TocLevel
from memory_mcp.model.toc import TocNode

CORPORA = ("qmsum", "commits")
#: Tokens of a segment of `qmsum`.
QMSUM_TOKENS = 500
_FIRST_MEETING = dt.datetime(2025, 1, 1, 9, tzinfo=dt.UTC)
_LINE = dt.timedelta(seconds=5)
_MERGE = re.compile(r"Merge pull request #(\d+) from [^/\s]+/(\S+)")
_ADDRESS = re.compile(r"/pull/(\d+)")
#: Shortest branch that is looked for in texts: "fix" says nothing.
_BRANCH = 12


@dataclass(frozen=True, slots=True)
class Document:
    """One segment: its node, what it is about, hashes of what it names, and the reference it belongs to ("": none known)."""

    key: int
    node: TocNode
    gist: str
    named: frozenset[int]
    session: str
    reference: str
    #: Which half it belongs to: "tune" or "held".
    half: str


@dataclass(frozen=True, slots=True)
class Reference:
    """All segments of one corpus by key, their vectors, and the human titles of the references by their names."""

    name: str
    documents: tuple[Document, ...]
    #: (documents, dimensions) float32, of length 1 or 0.
    vectors: NDArray[np.float32]
    titles: Mapping[str, str]
    #: How many could be tied, and how.
    note: str

    @property
    def tied(self) -> int:
        """Documents whose reference is known."""
        return sum(bool(d.reference) for d in self.documents)

    @property
    def classes(self) -> int:
        """References that documents belong to."""
        return len({d.reference for d in self.documents if d.reference})

    def material(self) -> Material:
        """What systems get of it."""
        before, last = [-1] * len(self.documents), dict[str, int]()
        for n, document in sorted(enumerate(self.documents), key=lambda pair: (pair[1].node.start_ms, pair[1].key)):
            before[n] = last.get(document.session, -1)
            last[document.session] = n
        return Material([d.gist for d in self.documents], [d.named for d in self.documents], self.vectors, before)

    def half(self, half: str) -> "Reference":
        """One half of it alone, as if the other had never been."""
        kept = [i for i, d in enumerate(self.documents) if half in ("all", d.half)]
        return Reference(self.name, tuple(self.documents[i] for i in kept), self.vectors[kept], self.titles, self.note)


def references(data: Path, wanted: Iterable[str], folder: Path, history: Path | None) -> Iterable[Reference]:
    """The wanted corpora whose data is there; their stores are kept in `folder`."""
    for name in wanted:
        if (data / name / "units.jsonl").exists():
            yield _qmsum(data, folder) if name == "qmsum" else _commits(data, folder, history)


def _qmsum(data: Path, folder: Path) -> Reference:
    messages, span_of, titles = [], dict[tuple[str, int], str](), dict[str, str]()
    meetings: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for unit in load(data / "qmsum" / "units.jsonl"):
        meetings[unit["corpus"]].append(unit)
    for day, (meeting, lines) in enumerate(meetings.items()):
        start = _FIRST_MEETING + dt.timedelta(days=day)
        told = [
            u | {"session": meeting, "ts": (start + n * _LINE).isoformat(), "id": f"{meeting}/{n}"} for n, u in enumerate(lines)
        ]
        for message, line in zip(messages_of(told), lines, strict=True):
            if not message.text.strip():
                continue
            messages.append(message)
            if line["session"]:
                span = f"{meeting}/{line['session']}"
                span_of[meeting, _ms(message.at)] = span
                titles[span] = str(line["session"]).partition(": ")[2]
    derived = {**TIERS[5], "toc.max_tokens": QMSUM_TOKENS}

    def belongs(source: Source) -> str:
        assert source.segment is not None
        session = source.segment.session_id
        return _most(span_of.get((session, e.timestamp), "") for e in source.events)

    return _reference("qmsum", messages, folder, derived, belongs, titles, "spans of meetings")


def _commits(data: Path, folder: Path, history: Path | None) -> Reference:
    messages = messages_of(load(data / "commits" / "units.jsonl"))
    queries = load(data / "commits" / "queries.jsonl")
    tied, titles, note = _by_history(messages, queries, history) if history else _by_address(messages)

    def belongs(source: Source) -> str:
        assert source.segment is not None
        return tied.get(source.segment.session_id, "")

    return _reference("commits", messages, folder, TIERS[5], belongs, titles, note)


def _by_address(messages: Sequence[Message]) -> tuple[dict[str, str], dict[str, str], str]:
    named_in: dict[str, set[str]] = defaultdict(set)
    for message in messages:
        named_in[message.session].update(_ADDRESS.findall(message.text))
    tied = {session: f"#{next(iter(found))}" for session, found in named_in.items() if len(found) == 1}
    return tied, {}, f"{len(tied)} sessions tied to pull requests by the only address they name; no --history"


def _by_history(
    messages: Sequence[Message], queries: Sequence[Mapping[str, Any]], history: Path
) -> tuple[dict[str, str], dict[str, str], str]:
    request_of, branches, titles = _requests(history)
    by_session: dict[str, Counter[str]] = defaultdict(Counter)
    commits = 0
    for query in queries:
        request = next((r for commit, r in request_of.items() if commit.startswith(query["id"])), "")
        commits += bool(request)
        for session in query["gold_sessions"]:
            by_session[session][request] += bool(request)
    tied = {s: max(sorted(c), key=c.__getitem__) for s, c in by_session.items() if c.total()}
    by_commit = len(tied)
    words: dict[str, list[str]] = defaultdict(list)
    for message in messages:
        words[message.session].append(message.text)
    for session in sorted(set(words) - set(tied)):
        text = "\n".join(words[session])
        found = {request for branch, request in branches.items() if len(branch) >= _BRANCH and branch in text}
        if len(found) == 1:
            tied[session] = found.pop()
    note = (
        f"{commits} of {len(queries)} commits belong to a merged pull request; {by_commit} of {len(words)} sessions tied by "
        f"commits, {len(tied) - by_commit} more by a branch; {len(set(tied.values()))} pull requests"
    )
    return tied, titles, note


def _requests(history: Path) -> tuple[dict[str, str], dict[str, str], dict[str, str]]:
    """The pull request of each commit, and of each branch, and how each is titled: the first line of the merge's text."""
    shown = _git(history, "log", "--merges", "--first-parent", "--reverse", "--format=%P%x09%s%x09%b%x00")
    request_of: dict[str, str] = {}
    branches: dict[str, str] = {}
    titles: dict[str, str] = {}
    for entry in shown.split("\0"):
        parents, _, rest = entry.strip().partition("\t")
        subject, _, body = rest.partition("\t")
        found = _MERGE.match(subject)
        if found is None:
            continue
        request, branch = f"#{found[1]}", found[2]
        branches[branch] = request
        titles[request] = next((line.strip() for line in body.splitlines() if line.strip()), branch.rpartition("/")[2])
        before, merged = parents.split()[:2]
        for commit in _git(history, "rev-list", merged, f"^{before}").split():
            request_of.setdefault(commit, request)
    return request_of, branches, titles


def _git(history: Path, *arguments: str) -> str:
    return subprocess.run(["git", "-C", str(history), *arguments], capture_output=True, text=True, check=True).stdout


def _reference(
    name: str,
    messages: Sequence[Message],
    folder: Path,
    derived: Mapping[str, object],
    belongs: Any,
    titles: Mapping[str, str],
    note: str,
) -> Reference:
    with Stores(folder, {name: messages}, derived).opened(name, 5, {}) as app:
        documents = sorted(_documents(app, belongs, name), key=lambda d: d.key)
    vectors = Model2Vec(str(resolve_model(BUNDLED, None).folder)).embed([d.gist for d in documents])
    return Reference(name, tuple(documents), vectors, titles, note)


def _documents(app: App, belongs: Any, corpus: str) -> Iterable[Document]:
    ids = app.storage.toc.list_ids(TocLevel.SEGMENT)
    # In time, `commits` is halved in the middle of its segments; meetings are halved by a hash of their names.
    starts = sorted(n.start_ms for n in app.storage.toc.get_nodes(ids).values())
    middle = starts[len(starts) // 2] if starts else 0
    for frame in units.iter_frames(app.storage, ids):
        for source in frame:
            assert source.segment is not None
            (document,) = unit_of(source, with_words=False).nodes
            session = source.segment.session_id
            tune = _odd(session) if corpus == "qmsum" else source.node.start_ms < middle
            yield Document(
                source.segment.key,
                source.node,
                document.gist,
                frozenset(document_of(source.node, source.segment).term_hashes()),
                session,
                belongs(source),
                "tune" if tune else "held",
            )


def _most(found: Iterable[str]) -> str:
    """What most of these are; of equals the first."""
    counts = Counter(found)
    return max(counts, key=counts.__getitem__, default="")


def _odd(text: str) -> bool:
    return bool(hashlib.blake2b(text.encode(), digest_size=1).digest()[0] % 2)


def _ms(at: dt.datetime) -> int:
    return round(at.timestamp() * 1000)


def unjudged(name: str, messages: Sequence[Message], folder: Path) -> Reference:
    """The segments of a store of which no reference is known; the store is kept in `folder`."""
    return _reference(name, messages, folder, TIERS[5], lambda _: "", {}, "no references")
