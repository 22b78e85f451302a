"""Questions asked as an agent asks them: search, open the best, ask again in other words; everything read is counted.

The answer is right once a text that was shown matches the question's regular expression; nothing more is read then.
"""

import re
import sqlite3
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import anyio

from bench.quality.asking import Answer, Server
from bench.quality.corpora import Kind, Message, Question
from bench.quality.rows import Row
from bench.quality.stores import Stores
from bench.quality.systems import DEFAULT, Words, usable_words, worded
from memory_mcp.model.tokens import estimate_tokens

#: Characters of a line around the match, and the tokens of one answer of the script.
_WIDTH, _MOST_TOKENS = 300, 1200
#: What opening a hit of the script shows: characters of the message, and of the one on either side.
_OPENED, _BESIDE = 1600, 300
#: What opening it cheaply shows: messages, the characters of all their lines, and of what stands before each.
_NEIGHBOURS, _MOST_CHARACTERS, _HEAD = 7, 800, 18
_WORD = re.compile(r"\w+")

#: A text that was read and its tokens; None where there is nothing to read.
Shown = tuple[str, int] | None
Step = Callable[[], Awaitable[Shown]]


@dataclass(slots=True)
class Reading:
    """What an agent has read of one question."""

    pattern: re.Pattern[str]
    tokens: int = 0
    first_tokens: int = 0
    right_at: int = 0

    async def read(self, steps: Iterable[Step]) -> "Reading":
        """Take steps until one shows the answer."""
        for at, step in enumerate(steps, 1):
            shown = await step()
            if shown is not None:
                self.tokens += shown[1]
            if at == 1:
                self.first_tokens = self.tokens
            if shown is not None and self.pattern.search(shown[0]):
                self.right_at = at
                return self
        return self


def row_of(system: str, question: Question, reading: Reading) -> Row:
    """The line of one question."""
    return Row(
        corpus=question.corpus,
        system=system,
        half=question.half,
        question=question.id,
        kind=question.kind,
        tokens=reading.tokens,
        first_tokens=reading.first_tokens,
        right_at=reading.right_at,
    )


def _reading(question: Question) -> Reading:
    return Reading(re.compile(question.answer, re.I | re.S))


class Ours:
    """intelligent_search as it answers by default, and expand_grip."""

    name = "agent: intelligent_search"

    def __init__(self, server: Server, question: Question, words: Words = Words.NONE) -> None:
        self._server = server
        self._question = question
        self._words = words
        self._last: Answer | None = None

    def steps(self) -> list[Step]:
        """Search, open the best, ask again; keywords are added to both questions."""
        again = replace(self._question, text=self._question.again)
        return [self._search(self._question), self._open, self._search(again)]

    def _search(self, question: Question) -> Step:
        async def search() -> Shown:
            system = worded(DEFAULT, self._words)
            self._last = await self._server.call(system.tool, system.asked(question))
            return self._last.shown, self._last.tokens

        return search

    async def _open(self) -> Shown:
        grip = next((g for result in self._last.results if (g := _grip_of(result))), "") if self._last else ""
        if not grip:
            return None
        opened = await self._server.call("expand_grip", {"grip_id": grip})
        return opened.shown, opened.tokens


def _grip_of(result: Mapping[str, object]) -> str:
    """The grip that a result offers to be expanded."""
    several = result.get("grip_ids")
    return str(result.get("grip") or (several[0] if isinstance(several, list) and several else ""))


class Lines:
    """hybrid_search over grips, each hit written as one line: what the layer beneath holds."""

    def __init__(self, server: Server, question: Question, hits: int) -> None:
        self._server = server
        self._question = question
        self._hits = hits

    def steps(self) -> list[Step]:
        """Search, ask again."""
        return [self._search(self._question.text), self._search(self._question.again)]

    def _search(self, text: str) -> Step:
        async def search() -> Shown:
            arguments = {"query": text, "limit": self._hits, "scope": "all", "doc_type": "grip"}
            answer = await self._server.call("hybrid_search", arguments)
            lines = [f"{r['when']} {r.get('role', '')}: {around(str(r.get('quote', '')), text)}" for r in answer.results]
            handles = [_grip_of(r) for r in answer.results]
            shown = "\n".join(f"{line} [{handle}]" for line, handle in zip(lines, handles, strict=True))
            return shown, estimate_tokens(shown)

        return search


class Script:
    """A script over SQLite FTS5 with its default ranking: one line a hit."""

    def __init__(self, messages: Sequence[Message], tokenizer: str) -> None:
        self._messages = messages
        self._database = sqlite3.connect(":memory:")
        self._database.execute(f"CREATE VIRTUAL TABLE said USING fts5(text, tokenize='{tokenizer}')")
        rows = ((at, message.text) for at, message in enumerate(messages))
        self._database.executemany("INSERT INTO said(rowid, text) VALUES (?, ?)", rows)

    def search(self, query: str, most_tokens: int = _MOST_TOKENS) -> tuple[str, list[int]]:
        """Lines up to the most tokens, and the places of the messages."""
        words = dict.fromkeys(_WORD.findall(query.lower()))
        asked = " OR ".join(f'"{word}"' for word in words) or '""'
        found = self._database.execute("SELECT rowid FROM said WHERE said MATCH ? ORDER BY rank LIMIT 50", (asked,)).fetchall()
        lines, places = "", []
        for (place,) in found:
            message = self._messages[place]
            line = f"{message.at:%Y-%m-%d %H:%M} {message.role}: {around(message.text, query)}\n"
            if estimate_tokens(lines + line) > most_tokens:
                break
            lines += line
            places.append(place)
        return lines, places

    def neighbours(self, place: int, query: str) -> str:
        """Seven messages around one, a line each, in 800 characters."""
        opened = self._messages[place]
        near = self._messages[max(0, place - _NEIGHBOURS // 2) : place + _NEIGHBOURS // 2 + 1]
        near = [message for message in near if message.session == opened.session]
        width = _MOST_CHARACTERS // _NEIGHBOURS - _HEAD
        return "\n".join(f"{m.at:%H:%M} {m.role}: {around(m.text, query, width)}" for m in near)

    def open(self, place: int) -> str:
        """A message with its neighbours."""
        near = self._messages[max(0, place - 1) : place + 2]
        opened = self._messages[place]
        own = [m for m in near if m.session == opened.session]
        return "\n".join(f"{m.at:%Y-%m-%d %H:%M} {m.role}: {m.text[: _OPENED if m is opened else _BESIDE]}" for m in own)

    def steps(self, question: Question, most_tokens: int, in_lines: bool) -> list[Step]:
        """Search, open the best, as messages or as lines of its neighbours, and ask again."""
        last: list[int] = []

        def search(text: str) -> Step:
            async def searched() -> Shown:
                lines, last[:] = self.search(text, most_tokens)
                return lines, estimate_tokens(lines)

            return searched

        async def opened() -> Shown:
            text = (self.neighbours(last[0], question.text) if in_lines else self.open(last[0])) if last else ""
            return (text, estimate_tokens(text)) if text else None

        return [search(question.text), opened, search(question.again)]


def around(text: str, query: str, width: int = _WIDTH) -> str:
    """The stretch of a text in which most words of a query meet, in one line."""
    words = set(_WORD.findall(query.lower()))
    places = [m.start() for m in _WORD.finditer(text.lower()) if m[0] in words]
    best = max(places, key=lambda at: len(words.intersection(_WORD.findall(text[at : at + width].lower()))), default=0)
    start = max(0, best - 40) if len(text) > width else 0
    return " ".join(text[start : start + width].split())


#: Tokenizers of the script.
TOKENIZERS = ("unicode61", "porter")
#: The tokens of the script's first answer, and whether it opens a hit in lines.
OPENINGS = ((_MOST_TOKENS, False), (_MOST_TOKENS, True), (_MOST_TOKENS // 2, True))
#: Hits of the layer beneath, written as lines.
LINES = (5, 12)


def ask_agent(stores: Stores, name: str, questions: Sequence[Question], tier: int, messages: Sequence[Message]) -> list[Row]:
    """Ask the agent's questions of one store; nothing for a store without any."""
    asked = [q for q in questions if q.answer and q.kind is Kind.ANSWERABLE]
    if not asked:
        return []
    with stores.opened(name, tier, {}) as app:
        return anyio.run(_ask, Server(app), tier, asked, messages)


async def _ask(server: Server, tier: int, questions: Sequence[Question], messages: Sequence[Message]) -> list[Row]:
    rows = []
    scripts = {tokenizer: Script(messages, tokenizer) for tokenizer in TOKENIZERS}
    for question in questions:
        for words in await usable_words(server) if question.keywords else (Words.NONE,):
            read = await _reading(question).read(Ours(server, question, words).steps())
            rows.append(row_of(Ours.name + words, question, read))
        for hits in LINES if tier == 2 else ():
            read = await _reading(question).read(Lines(server, question, hits).steps())
            rows.append(row_of(f"agent: hybrid grips, {hits} lines", question, read))
        for tokenizer, script in scripts.items():
            for most_tokens, in_lines in OPENINGS:
                read = await _reading(question).read(script.steps(question, most_tokens, in_lines))
                opening = ", neighbours as lines" if in_lines else ""
                rows.append(row_of(f"agent: FTS5 {tokenizer}, {most_tokens} tokens{opening}", question, read))
    return rows
