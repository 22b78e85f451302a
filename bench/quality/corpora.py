"""The corpora: messages by store, and the questions asked of each store with the messages that answer them."""

import calendar
import datetime as dt
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import Any

from bench.locomo import half, load
from memory_mcp.model.event import RECAP
from memory_mcp.model.ids import event_id

LABELS = Path(__file__).parents[1] / "labels"
LANGUAGES = ("de", "fr", "es", "ja")
LIFEBENCH = ("en", "zh")
#: Every corpus by its name in the tables.
CORPORA = ("locomo", "commits", "messages", "answers", "beam", *(f"lifebench-{name}" for name in LIFEBENCH), *LANGUAGES)
_ROLES = ("user", "assistant", "tool", "system")
#: Source of a recap: the client whose transcripts the sessions are.
_CLIENT = "claude-code"
_DAY = dt.timedelta(days=1)


class Half(StrEnum):
    """Part of a corpus: rules are set on one, reported on the other."""

    TUNE = "tune"
    HELD = "held"


class Kind(StrEnum):
    """Whether a store answers a question; an adversarial one asks of one person what another said."""

    ANSWERABLE = "answerable"
    UNANSWERABLE = "unanswerable"
    ADVERSARIAL = "adversarial"
    #: Asked of a copy of its store that lacks the sessions which answer it.
    TAKEN_OUT = "taken out"
    #: In other words, asked of its store, and of a copy in which the question itself was recorded.
    PARAPHRASED = "paraphrased"
    ASKED_BEFORE = "asked before"


def recap_of(at: dt.datetime, message_id: str) -> dict[str, Any]:
    """What makes an event in the form of an export a client's recap: marks of ours are taken from exports alone."""
    identifier = event_id(round(at.timestamp() * 1000), _CLIENT, message_id)
    return {"role": "system", "type": "note", "metadata": {RECAP: "true"}, "event_id": identifier, "source": _CLIENT}


@dataclass(frozen=True, slots=True)
class Message:
    """One unit of a corpus."""

    id: str
    session: str
    at: dt.datetime
    role: str
    speaker: str
    text: str
    #: Whether a client's model told the conversation so far here.
    recap: bool = False
    #: The session that it is recorded in, where `session` is only a stretch of that.
    recorded_in: str = ""

    def event(self) -> dict[str, Any]:
        """The message in the form of `import jsonl`."""
        made: dict[str, Any] = {
            "session_id": self.recorded_in or self.session,
            "id": self.id,
            "timestamp": self.at.isoformat(),
            "role": self.role,
            "text": self.text,
        }
        if self.recap:
            made |= recap_of(self.at, self.id)
        return made | ({"speaker": self.speaker} if self.speaker else {})


@dataclass(frozen=True, slots=True)
class Question:
    """One question with the sessions and messages that answer it."""

    corpus: str
    store: str
    id: str
    text: str
    kind: Kind
    half: Half
    as_of: dt.datetime
    sessions: frozenset[str] = frozenset()
    messages: frozenset[str] = frozenset()
    #: How an agent would ask again, and what the text it is shown must match to hold the answer.
    again: str = ""
    answer: str = ""
    #: What an agent that does not know the answer would add: names, synonyms, the other language.
    keywords: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Payload:
    """What a client's hook reports, and when."""

    at: dt.datetime
    client: str
    text: str


@dataclass(frozen=True, slots=True)
class Corpora:
    """Messages by store, and all questions."""

    stores: Mapping[str, Sequence[Message]]
    questions: Sequence[Question]
    #: By store: what hooks report after the last message.
    payloads: Mapping[str, Sequence[Payload]] = field(default_factory=dict)


def half_of(question_id: str) -> Half:
    """The half that a question belongs to, by a hash of its id."""
    return Half(half(question_id))


def corpora_in(data: Path, wanted: Iterable[str]) -> Corpora:
    """The wanted corpora whose data is there."""
    stores: dict[str, list[Message]] = {}
    questions: list[Question] = []
    wanted = set(wanted)
    for makes, make in _MAKERS.items():
        if wanted.intersection(makes) and make.needs(data):
            own, asked = make.read(data)
            chosen = [q for q in asked if q.corpus in wanted]
            questions += chosen
            used = {q.store for q in chosen}
            stores |= {name: messages for name, messages in own.items() if name in used}
    keywords = {(row["corpus"], row["id"]): tuple(row["keywords"]) for row in load(LABELS / "keywords.jsonl")}
    return Corpora(stores, [replace(q, keywords=keywords.get((q.corpus, q.id), ())) for q in questions])


def messages_of(units: Iterable[Mapping[str, Any]]) -> list[Message]:
    """Units as messages: persons alternate between user and assistant, kinds of records are a user's."""
    made: list[Message] = []
    first = ""
    for unit in units:
        name, session = unit["role"], unit["session"]
        first = first or name
        role = name.partition("/")[0]
        named = role not in _ROLES
        if named:
            role = "user" if name == first or _is_record(unit["id"]) else "assistant"
        recap = name.endswith("/compact-summary")
        made.append(Message(unit["id"], session, _moment(unit["ts"]), role, name if named else "", unit["text"], recap))
    return made


def _is_record(unit_id: str) -> bool:
    """Whether a unit is a record of a phone (`sms:12`) and not a turn (`D1:3`)."""
    return unit_id.partition(":")[0].islower()


def _moment(text: str) -> dt.datetime:
    """A moment; without a zone it is UTC."""
    found = dt.datetime.fromisoformat(text)
    return found if found.tzinfo else found.replace(tzinfo=dt.UTC)


def _by_store(units: Iterable[Mapping[str, Any]]) -> dict[str, list[Message]]:
    rows: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for unit in units:
        rows[unit["corpus"]].append(unit)
    return {name: messages_of(own) for name, own in rows.items()}


def _after(messages: Sequence[Message]) -> dt.datetime:
    """A day after the last message: the newest session is not what was asked for by being newest."""
    return max(m.at for m in messages) + _DAY


def _question(corpus: str, row: Mapping[str, Any], as_of: dt.datetime, kind: Kind, store: str = "") -> Question:
    return Question(
        corpus=corpus,
        store=store or row["corpus"],
        id=row["id"],
        text=row["query"],
        kind=kind,
        half=half_of(row["id"]),
        as_of=as_of,
        sessions=frozenset(row["gold_sessions"]),
        messages=frozenset(row["gold"]),
    )


def _locomo(data: Path) -> tuple[dict[str, list[Message]], list[Question]]:
    stores = _by_store(load(data / "locomo" / "units.jsonl"))
    questions = []
    for row in load(data / "locomo" / "queries.jsonl"):
        kind = Kind.ANSWERABLE if row["gold_sessions"] else Kind.UNANSWERABLE
        if str(row["category"]).startswith("5"):
            kind = Kind.ADVERSARIAL
        questions.append(_question("locomo", row, _moment(row["ts"]), kind))
    return stores, questions + _crossed(data, "locomo", stores)


def _commits(data: Path) -> tuple[dict[str, list[Message]], list[Question]]:
    messages = next(iter(_by_store(load(data / "commits" / "units.jsonl")).values()))
    stores, as_of = {"commits": messages}, _after(messages)
    rows = load(data / "commits" / "queries.jsonl")
    questions = [_question("commits", row, as_of, Kind.ANSWERABLE, "commits") for row in rows]
    session = {m.id: m.session for m in messages}
    for name in ("messages", "answers"):
        for row in load(LABELS / f"{name}.jsonl"):
            sessions = frozenset(session[i] for i in row["gold"])
            asked = Question(
                corpus=name,
                store="commits",
                id=row["id"],
                text=row["query"],
                kind=Kind.ANSWERABLE,
                half=half_of(row["id"]),
                as_of=as_of,
                sessions=sessions,
                messages=frozenset(row["gold"]),
                again=row.get("again", ""),
                answer=row.get("answer", ""),
            )
            questions.append(asked)
    return stores, questions + _crossed(data, "commits", stores)


def _crossed(data: Path, corpus: str, stores: Mapping[str, Sequence[Message]]) -> list[Question]:
    """Questions judged to have no answer in one of the stores: written ones, and those of other corpora."""
    texts: dict[str, str] = {}
    for kind in ("locomo", "commits", "qmsum"):
        path = data / kind / "queries.jsonl"
        texts |= {row["id"]: row["query"] for row in load(path)} if path.exists() else {}
    questions = []
    for label in load(LABELS / "unanswerable.jsonl"):
        store = label["asked_of"]
        text = label.get("query") or texts.get(label["query_id"])
        if store in stores and text:
            name = f"{label.get('query_id') or text} of {store}"
            half = Half.HELD if label["held_out"] else Half.TUNE
            questions.append(Question(corpus, store, name, text, Kind.UNANSWERABLE, half, _after(stores[store])))
    return questions


def _lifebench(data: Path) -> tuple[dict[str, list[Message]], list[Question]]:
    stores = _by_store(load(data / "lifebench" / "units.jsonl"))
    questions = []
    for row in load(data / "lifebench" / "queries.jsonl"):
        year, month = map(int, row["ts"].split("-")[:2])
        end = dt.datetime(year, month, calendar.monthrange(year, month)[1], 23, 59, 59, tzinfo=dt.UTC)
        kind = Kind.ANSWERABLE if row["gold_sessions"] else Kind.UNANSWERABLE
        questions.append(_question(f"lifebench-{row['corpus'][:2]}", row, end, kind))
    return stores, questions


def _beam(data: Path) -> tuple[dict[str, list[Message]], list[Question]]:
    conversations = _by_store(load(data / "beam" / "units.jsonl"))
    stores = {
        _beam_store(name): [replace(message, recorded_in=_beam_store(name)) for message in messages]
        for name, messages in conversations.items()
    }
    questions = []
    for row in load(data / "beam" / "queries.jsonl"):
        store = _beam_store(row["corpus"])
        kind = Kind.ANSWERABLE if row["gold"] else Kind.UNANSWERABLE
        questions.append(_question("beam", row, _after(stores[store]), kind, store))
    return stores, questions


def _beam_store(conversation: str) -> str:
    """The name of a conversation's store, which is a folder's too."""
    return f"beam-{conversation.replace('/', '-')}"


def _languages(_: Path) -> tuple[dict[str, list[Message]], list[Question]]:
    stores: dict[str, list[Message]] = {}
    questions = []
    for name in LANGUAGES:
        stores[name] = messages_of(load(LABELS / "languages" / f"{name}_units.jsonl"))
        for row in load(LABELS / "languages" / f"{name}_queries.jsonl"):
            kind = Kind.UNANSWERABLE if row["unanswerable"] else Kind.ANSWERABLE
            questions.append(_question(name, row, _moment(row["ts"]), kind, name))
    return stores, questions


@dataclass(frozen=True, slots=True)
class _Maker:
    """How some corpora are read, and the folder of the data that they need."""

    folder: str
    read: Callable[[Path], tuple[dict[str, list[Message]], list[Question]]]

    def needs(self, data: Path) -> bool:
        """Whether the folder is there."""
        return not self.folder or (data / self.folder / "units.jsonl").exists()


_MAKERS = {
    ("locomo",): _Maker("locomo", _locomo),
    ("commits", "messages", "answers"): _Maker("commits", _commits),
    tuple(f"lifebench-{name}" for name in LIFEBENCH): _Maker("lifebench", _lifebench),
    ("beam",): _Maker("beam", _beam),
    LANGUAGES: _Maker("", _languages),
}
