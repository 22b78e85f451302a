"""Find a person's words in the result of a tool: answers to questions, and what was said while refusing a call.

Decided by structure: a call that shows questions with options, and a result that has an answer for each, by the question's
words, its id, its heading or its number. What tools of servers return is never a person's: other agents answer there.
"""

import json
import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from memory_mcp.base.patterns import lazy_pattern
from memory_mcp.importers.blocks import as_list, as_mapping, as_mappings, as_text
from memory_mcp.model.event import WORDS_VARY

#: The client's own text around the reason for which a person refused a call.
_REFUSED = lazy_pattern(
    r"\A\s*(?:Error: )?(?:The user doesn['’]t want to proceed with this tool use|Permission for this tool use was denied"
    r"|The user rejected permission to use this specific tool call|The user denied this operation)\b"
    r"[^\n]{0,400}?\b(?:[Tt]he user said|feedback):\s+(?P<words>\S.*)\Z",
    re.S,
)
_FEEDBACK = lazy_pattern(r"\A<feedback>\s*(.*?)\s*</feedback>", re.S)
#: What the client adds after it.
_REFUSED_NOTE = lazy_pattern(r"\n\nNote: The user['’]s next message may contain[^\n]*\Z")
#: A server's tool: its name has the server's before it.
_OF_SERVER = lazy_pattern(r"__|[./:]|mcp", re.I)
#: Tools of clients that ask one question, and the client's text around the answer.
_SINGLE = frozenset({"ask_user", "ask_followup_question"})
_FRAMED = lazy_pattern(
    r"\A\s*(?:<answer>\n?(.*?)\n?</answer>|User (?:selected|responded|answered|chose)(?: with)?: ?(.*))\s*\Z", re.S
)
_NOTE = "user_note:"
#: Longest result that is searched for answers, characters.
_MOST = 200_000


class Question(NamedTuple):
    """A question that a call shows to the person."""

    words: str
    #: Under which an answer may be filed besides the words: id, heading, number.
    keys: tuple[str, ...]
    options: tuple[str, ...]


class Answer(NamedTuple):
    """A question with the person's answer to it."""

    question: Question
    words: str


def questions_in(tool: str, arguments: object) -> tuple[Question, ...]:
    """Return the questions with options in a call; () for none."""
    described = as_mapping(arguments)
    if not described or _OF_SERVER.search(tool):
        return ()
    if listed := as_mappings(described.get("questions")):
        questions = tuple(_parse_question(item, number) for number, item in enumerate(listed))
        is_choice = any(question.options for question in questions) or any("header" in item for item in listed)
        return questions if is_choice and all(question.words for question in questions) else ()
    question = _parse_question(described, 0) if tool.lower() in _SINGLE else None
    return (question,) if question is not None and question.words else ()


def _parse_question(described: Mapping[str, object], number: int) -> Question:
    labels = [
        as_text(option) or as_text(as_mapping(option).get("label")) or as_text(as_mapping(option).get("value"))
        for name in ("options", "choices", "follow_up")
        for option in as_list(described.get(name))
    ]
    keys = (as_text(described.get("id")), as_text(described.get("header")), str(number))
    words = as_text(described.get("question")) or as_text(described.get("prompt"))
    return Question(words.strip(), tuple(filter(None, keys)), tuple(filter(None, labels)))


def answers_in(questions: Sequence[Question], details: object, text: str) -> list[Answer]:
    """Return the questions that a person answered, with the answers.

    From the result's details, else from its text.
    """
    if not questions:
        return []
    answers = _find_filed_answers(questions, details)
    if not answers and text.lstrip().startswith("{"):
        answers = _find_filed_answers(questions, _parse_object(text))
    if not answers and len(text) <= _MOST:
        answers = _find_quoted_answers(questions, text)
    if not answers and len(questions) == 1 and (framed := _FRAMED.match(text)):
        answers = [Answer(questions[0], (framed[1] or framed[2] or "").strip())]
    return [answer for answer in answers if answer.words]


def _find_filed_answers(questions: Sequence[Question], details: object) -> list[Answer]:
    described = as_mapping(details)
    filed, notes = described.get("answers"), as_mapping(described.get("annotations"))
    by_key = as_mapping(filed) if not isinstance(filed, list) else {str(number): item for number, item in enumerate(filed)}
    answers = []
    for question in questions:
        key = next((key for key in (question.words, *question.keys) if key in by_key), None)
        words = _answer_words(by_key[key]) if key is not None else ""
        note = as_text(as_mapping(notes.get(question.words)).get("notes")).strip()
        answers.append(Answer(question, "\n".join(filter(None, (words, note)))))
    return [answer for answer in answers if answer.words]


def _parse_object(text: str) -> Mapping[str, object]:
    try:
        return as_mapping(json.loads(text)) if len(text) <= _MOST else {}
    except (ValueError, RecursionError):
        return {}


def _answer_words(value: object) -> str:
    if isinstance(value, str):
        return value.strip().removeprefix(_NOTE).strip()
    inner = list(value.values()) if isinstance(value, Mapping) else as_list(value)
    return ", ".join(filter(None, map(_answer_words, inner)))


def _find_quoted_answers(questions: Sequence[Question], text: str) -> list[Answer]:
    """Find `"question"="answer"` for each question, or lines `**heading**: answer`."""
    starts = [(text.find(f'"{q.words}"="'), q) for q in questions]
    marks = [(start, start + len(q.words) + 4, q) for start, q in starts if start >= 0]
    answers = []
    if not marks:
        headings = ["|".join(map(re.escape, question.keys)) for question in questions]
        lines = [re.search(rf"^\*\*(?:{heading})\*\*: (.+)$", text, re.M) for heading in headings]
        return [Answer(question, match[1].strip()) for question, match in zip(questions, lines, strict=True) if match]
    for number, (_, begin, question) in enumerate(marks):
        until = marks[number + 1][0] if number + 1 < len(marks) else len(text)
        end = text.rfind('"', begin, until)
        answers.append(Answer(question, text[begin : max(begin, end)].strip()))
    return answers


def answer_text(answers: Sequence[Answer]) -> str:
    """Return answers as one text, each below its quoted question."""
    return "\n\n".join(f"{_quote_lines(answer.question.words)}\n{answer.words}" for answer in answers)


def _quote_lines(text: str) -> str:
    return "\n".join(f"> {line}" for line in text.splitlines())


def reply_metadata(answers: Sequence[Answer]) -> dict[str, str]:
    """Return the metadata of a person's reply to a call.

    Its `options` has a line for each question, "" for none.
    """
    options = "\n".join(" | ".join(answer.question.options) for answer in answers if answer.question.options)
    return {"options": options, WORDS_VARY: "true"}


def refusal_words(tool: str, text: str, questions: Sequence[Question] = ()) -> str:
    """Return what a person said while refusing a call; "" for nothing.

    Where the call showed `questions`, the client may list them with the answers so far: these are all that was said.
    """
    if "ser" not in text[:400] or _OF_SERVER.search(tool):
        return ""
    if text.lstrip().startswith("{"):
        described = _parse_object(text)
        text = f"{as_text(described.get('message'))}: {as_text(described.get('feedback'))}"
    refusal = _REFUSED.match(text)
    words = _REFUSED_NOTE.sub("", refusal["words"]).strip() if refusal else ""
    words = inner[1] if (inner := _FEEDBACK.match(words)) else words
    if not words or not any(f'"{question.words}"' in words for question in questions):
        return words
    pattern = r'"{}"\n\s*[^\n:]{{1,40}}: (.+?)(?=\n\s*- "|\n\s*\n|\Z)'
    listed = [(question, re.search(pattern.format(re.escape(question.words)), words, re.S)) for question in questions]
    return answer_text([Answer(question, match[1].strip()) for question, match in listed if match])
