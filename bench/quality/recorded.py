"""Asked-before stores: every question was recorded by a client's hook, and is searched in other words.

Each question was the only prompt of a session of its own. Most were never answered; some got a reply that knows nothing, some
were followed by a call of this program's own search. The payloads are those of Claude Code, and are stored as its hooks' are.
"""

import datetime as dt
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from bench.locomo import load
from bench.quality.corpora import LABELS, Corpora, Kind, Payload, Question

#: Begins the sessions of recorded questions.
SESSION = "asked-"
CLIENT = "claude-code"
_DIRECTORY = "/home/dev/proj"
_TOOL = "mcp__memory__intelligent_search"
#: Of ten questions: the last of those without a reply, and of those whose reply knows nothing; the others were searched for.
_SILENT, _UNKNOWN = 6, 7
_AFTER, _APART, _SOON = dt.timedelta(hours=1), dt.timedelta(minutes=7), dt.timedelta(seconds=4)
#: What a reply without an answer says, by the corpus's language.
_NO_ANSWER: Mapping[str, str] = {"de": "Das weiß ich leider nicht."}
_UNKNOWN_ANSWER = "I do not know."


def with_recorded_questions(corpora: Corpora) -> Corpora:
    """The corpora with asked-before copies of their stores; each question is asked of both, in two other ways."""
    labels = {(label["corpus"], label["id"]): label["paraphrases"] for label in load(LABELS / "paraphrases.jsonl")}
    stores, payloads = dict(corpora.stores), dict(corpora.payloads)
    questions = list(corpora.questions)
    for name, messages in corpora.stores.items():
        chosen = [q for q in corpora.questions if q.store == name and q.kind is Kind.ANSWERABLE and (q.corpus, q.id) in labels]
        if not chosen:
            continue
        last = max(message.at for message in messages)
        copy = f"{name}-asked"
        stores[copy] = messages
        payloads[copy] = [p for at, question in enumerate(chosen) for p in payloads_of(question, at, last + _AFTER + at * _APART)]
        for question in chosen:
            texts = labels[question.corpus, question.id]
            questions += _paraphrased(question, texts, Kind.PARAPHRASED, name, last)
            questions += _paraphrased(question, texts, Kind.ASKED_BEFORE, copy, last)
    return replace(corpora, stores=stores, payloads=payloads, questions=questions)


def _paraphrased(question: Question, texts: Sequence[str], kind: Kind, store: str, last: dt.datetime) -> list[Question]:
    """A question in other words, asked of a store a day after its last message."""
    as_of = last + dt.timedelta(days=1)
    return [
        replace(question, id=f"{question.id} in words {number}", text=text, kind=kind, store=store, as_of=as_of, keywords=())
        for number, text in enumerate(texts, 1)
    ]


def payloads_of(question: Question, number: int, at: dt.datetime) -> Iterator[Payload]:
    """What the hooks report of the session in which a question was asked."""
    session = {"session_id": f"{SESSION}{question.id}", "cwd": _DIRECTORY, "permission_mode": "default"}
    session["transcript_path"] = f"{_DIRECTORY}/{session['session_id']}.jsonl"

    def payload(later: int, event: str, **more: object) -> Payload:
        return Payload(at + later * _SOON, CLIENT, json.dumps({**session, "hook_event_name": event, **more}))

    yield payload(0, "UserPromptSubmit", prompt=question.text)
    if _SILENT <= number % 10 < _UNKNOWN:
        reply = _NO_ANSWER.get(question.corpus, _UNKNOWN_ANSWER)
        yield payload(1, "Stop", stop_hook_active=False, last_assistant_message=reply)
    elif number % 10 >= _UNKNOWN:
        call = {"tool_name": _TOOL, "tool_input": {"query": question.text}, "tool_use_id": f"toolu_{number:016d}"}
        call["mcp_server"] = {"name": "memory", "source": "user"}
        answer = json.dumps({"origin": "recalled-by-memory-mcp", "results": [], "confidence": "none", "complete": True})
        yield payload(1, "PreToolUse", **call)
        yield payload(2, "PostToolUse", **call, tool_response=answer, duration_ms=40)


def is_recorded(session: str) -> bool:
    """Whether a session is that of a recorded question."""
    return session.startswith(SESSION)
