"""What several clients' importers need beyond `growing` and `parts`.

Words in the user's place, summaries, files that are read as a whole, and what lies beside them.

Invariants
1. A source id depends on what a record says alone, never on the place in the file, unless a client's records have
   neither ids nor times.
2. What is left out of a record stands behind its parts: it moves no id and no time.
"""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from memory_mcp.ingest.base import ImportReport, Read
from memory_mcp.ingest.claude_code.blocks import as_mapping, as_text, plain, result_text
from memory_mcp.ingest.growing import Given, Reading, Told, count
from memory_mcp.ingest.lines import Record
from memory_mcp.ingest.parts import EMPTY, Part, call, dropped, note, result, said, thought
from memory_mcp.model.event import RECAP, EventType, Role

#: Bytes of a small file beside a session (its title, directory) that are read.
_BESIDE = 4 * 1024 * 1024
INJECTED = "injected text"
#: Values are nested nearly as deeply as Python allows: they could be read, and not be written again a few calls deeper.
TOO_DEEP = "nested too deeply"


@dataclass(slots=True)
class Outcome:
    """The parts of a record, and what was left out of it."""

    #: The same in every file with this record, in any session; several parts share it.
    source_id: str = ""
    time: int | None = None
    parts: list[Part] = field(default_factory=list)
    #: Why there is nothing, where there is nothing.
    reason: str = EMPTY
    #: Parts left out, by reason.
    left_out: Counter[str] = field(default_factory=Counter)
    #: Of this record alone.
    metadata: dict[str, str] = field(default_factory=dict)


def skipped(reason: str) -> Outcome:
    """Return the outcome of a record that gives no part, with the reason."""
    return Outcome(reason=reason)


class ChatReading(Reading):
    """One read of one session of a chat client."""

    def __init__(self, agent: str, session_id: str, thinking: bool, thread: str = "") -> None:
        """Begin a session; `thread` is the id of a subagent, "" for none. `thinking` keeps the model's thoughts."""
        super().__init__(agent, session_id)
        self.session.thread = thread
        self._thinking = thinking
        #: Records without a time follow those that have one.
        self.infers_times = False
        self._task = ""

    def convert(self, record: dict[str, object]) -> Outcome:
        """Return what one record gives: its parts, id and time, or why it gives nothing; raises NotImplementedError here.

        What the record says about later ones is kept in the reading.
        """
        raise NotImplementedError

    def give(self, record: dict[str, object]) -> Given:
        """Return what one record gives: one item with all its parts, at a time in order, or the reason why there is none.

        Nothing, with the reason, if it is nested too deeply. Where `infers_times` is set, a record without a time
        follows the last, marked time = inferred.
        """
        try:
            outcome = self.convert(record)
        except RecursionError:
            return Given(reason=TOO_DEEP)
        spoken = [replace(part, metadata={**outcome.metadata, **part.metadata}) for part in outcome.parts]
        moment = None
        if any(part.text.strip() for part in spoken):
            moment = self.ordered(outcome.time)
            if moment is None and self.infers_times and self._last is not None:
                moment = self.ordered(self._last)
                spoken = [replace(part, metadata={**part.metadata, "time": "inferred"}) for part in spoken]
        spoken += map(dropped, outcome.left_out.elements())
        return Given([Told(outcome.source_id, tuple(spoken), moment)] if spoken else [], outcome.reason)

    def learn(self, record: dict[str, object]) -> None:
        """Convert one of the first records, in a subagent's file only, for what it tells about later ones, such as the task."""
        if self.session.thread:
            with suppress(RecursionError):
                self.convert(record)

    def asked(self, text: str) -> Part:
        """Return a user message: the human's words, or in a subagent's file those of the calling agent.

        The latter begin the subagent if they are its task, the first such text, and are a note otherwise.
        """
        if not self.session.thread:
            return said(Role.USER, text)
        self._task = self._task or text
        begins = text == self._task
        return Part(Role.ASSISTANT, EventType.SUBAGENT_START if begins else EventType.NOTE, text.strip())

    def thought(self, text: str) -> Part:
        """Return the model's thinking as a note, marked as left out unless the settings keep thinking."""
        return thought(text, self._thinking)

    def called(self, tool: str, arguments: object, call_id: str) -> Part:
        """Return a tool call, and note the name of its tool for its result; `arguments` are an object or its JSON as text."""
        self.remember(call_id, tool)
        return call(tool, arguments, call_id)

    def returned(self, content: object, call_id: str, tool: str = "", error: bool = False, exit_status: str = "") -> Part:
        """Return a tool's result, by default named as the noted call; `content` may have any form that `result_text` takes."""
        text = result_text(content, None)
        return result(tool or self.tools.get(call_id, ""), call_id, text, error, exit_status=exit_status)


def retold(text: str, record: str) -> Part:
    """Return the summary that replaced a part of the conversation as a note marked `RECAP`, its kind as metadata `record`."""
    return note(text, record=record, **{RECAP: "true"})


def read_whole(reading: Reading, file: Path, records: Iterable[Record], report: ImportReport) -> Iterator[Read]:
    """Yield the drafts and the own offset of each record of a file read from its start; `report` counts them, used or skipped."""
    for record in records:
        given = Given(reason=record.error) if record.error else reading.give(record.value)
        yield Read(count(reading, given, report, file, record.line, record.quote), record.offset)


def text_of(block: Mapping[str, object]) -> str:
    """Return a block as text (`plain`), of an image "[image <media type>]", or "[image]" without a type; "" for no text."""
    if block.get("type") in ("image", "image_url", "input_image"):
        source = as_mapping(block.get("source"))
        media = as_text(source.get("media_type")) or as_text(block.get("mimeType")) or as_text(block.get("mime_type"))
        return f"[image {media}]" if media else "[image]"
    return plain(block)


def beside(path: Path) -> object:
    """Return the JSON of a small file next to a session; None if it is missing, no JSON or larger than 4 MB."""
    try:
        with path.open("rb") as stream:
            raw = stream.read(_BESIDE + 1)
        return json.loads(raw) if len(raw) <= _BESIDE else None
    except (OSError, ValueError, RecursionError):
        return None
