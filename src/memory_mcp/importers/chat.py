"""What several clients' importers need beyond `growing` and `parts`.

Words in the user's place, summaries, and what is next to a session's file.

Invariants
1. A source id depends on what a record says alone, never on the place in the file, unless a client's records have
   neither ids nor times.
2. What is left out of a record comes after its parts: it moves no id and no time.
"""

import json
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import field, replace
from pathlib import Path

from memory_mcp.base import foreign_files
from memory_mcp.base.dataclass import dataclass
from memory_mcp.importers.blocks import as_blocks, as_mapping, as_text, block_text, captions_of, result_text, unknown_words
from memory_mcp.importers.parts import (
    EMPTY,
    Part,
    left_out_part,
    message_part,
    note_part,
    result_part,
    unknown_block_notes,
    unread_block_notes,
)
from memory_mcp.importers.session_reader import ParsedRecord, RecordItem, SessionReader
from memory_mcp.model.event import RECAP, EventType, Role

#: Bytes of a small file next to a session (its title, directory) that are read.
_MOST_BYTES = 4 * 1024 * 1024
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
    skip_reason: str = EMPTY
    #: Parts left out, by reason.
    left_out: Counter[str] = field(default_factory=Counter)
    #: Of this record alone.
    metadata: dict[str, str] = field(default_factory=dict)


def skipped_outcome(reason: str) -> Outcome:
    """Return the outcome of a record without parts."""
    return Outcome(skip_reason=reason)


class ChatReader(SessionReader):
    """One read of one session of a chat client."""

    def __init__(self, agent: str, session_id: str, thinking: bool, thread: str = "") -> None:
        """Begin a session.

        `thinking` keeps the model's thoughts, `thread` is the id of a subagent, "" for none.
        """
        super().__init__(agent, session_id, thinking, thread)
        #: Records without a time follow those that have one.
        self.infers_times = False
        self._task_text = ""
        self._id_counts: Counter[str] = Counter()

    def convert_record(self, record: dict[str, object]) -> Outcome:
        """Return the parts of a record with its id and time.

        What the record says about later ones is kept in the reader. Raises NotImplementedError here.
        """
        raise NotImplementedError

    def parse_record(self, record: dict[str, object]) -> ParsedRecord:
        """Return one item with all the parts of a record.

        Where `infers_times` is set, a record without a time follows the last, marked time = inferred.
        """
        try:
            outcome = self.convert_record(record)
        except RecursionError:
            return ParsedRecord(skip_reason=TOO_DEEP)
        spoken = list(outcome.parts)
        if outcome.metadata:
            spoken = [replace(part, metadata={**outcome.metadata, **part.metadata}) for part in spoken]
        moment = None
        if any(part.text.strip() for part in spoken):
            moment = self.order_time(outcome.time)
            if moment is None and self.infers_times and self._last_time is not None:
                moment = self.order_time(self._last_time)
                spoken = [replace(part, metadata={**part.metadata, "time": "inferred"}) for part in spoken]
        spoken += map(left_out_part, outcome.left_out.elements())
        return ParsedRecord([RecordItem(outcome.source_id, tuple(spoken), moment)] if spoken else [], outcome.skip_reason)

    def learn_from(self, record: dict[str, object]) -> None:
        """Convert a first record of a subagent's file, for its task."""
        if self.session.thread:
            with suppress(RecursionError):
                self.convert_record(record)

    def number_id(self, name: str) -> str:
        """Return an id for a repeated name: "<name>", "<name>~2", "<name>~3" ..."""
        self._id_counts[name] += 1
        return name if self._id_counts[name] == 1 else f"{name}~{self._id_counts[name]}"

    def make_prompt(self, text: str) -> Part:
        """Return the user's words; in a subagent's file the calling agent's.

        The latter begin the subagent if they are its task, the first such text, and are a note otherwise.
        """
        if not self.session.thread:
            return message_part(Role.USER, text)
        self._task_text = self._task_text or text
        begins = text == self._task_text
        return Part(Role.ASSISTANT, EventType.SUBAGENT_START if begins else EventType.NOTE, text.strip())

    def prompt_parts(self, content: object) -> list[Part]:
        """Return a prompt's words as one part, then notes of unknown blocks."""
        blocks = as_blocks(content)
        texts = [text_of(block) for block in blocks]
        return [self.make_prompt("\n".join(filter(None, texts))), *unread_block_notes(blocks, texts)]

    def make_result(self, content: object, call_id: str, tool: str = "", error: bool = False, exit_status: str = "") -> Part:
        """Return a tool's result, named as the noted call by default."""
        text = result_text(content)
        return result_part(tool or self.tool_names.get(call_id, ""), call_id, text, error, exit_status=exit_status)


def recap_part(text: str, record: str) -> Part:
    """Return a summary that replaced messages, as a note marked `RECAP`."""
    return note_part(text, record=record, **{RECAP: "true"})


def words_of(content: object) -> str:
    """Return a message's content as text, a block a line."""
    if isinstance(content, str):
        return content
    return "\n".join(filter(None, map(words_of_block, as_blocks(content))))


def words_of_block(block: Mapping[str, object]) -> str:
    """Return the words of a block of any kind."""
    return text_of(block) or unknown_words(block)


def read_block(block: Mapping[str, object], role: Role) -> list[Part]:
    """Return a block as a message, or an unknown one as note."""
    text = text_of(block)
    return [message_part(role, text)] if text else unknown_block_notes(block)


def text_of(block: Mapping[str, object]) -> str:
    """Return a block as text, of an image "[image <media type> <caption>]"."""
    if block.get("type") in ("image", "image_url", "input_image"):
        source = as_mapping(block.get("source"))
        media = as_text(source.get("media_type")) or as_text(block.get("mimeType")) or as_text(block.get("mime_type"))
        return f"[{' '.join(filter(None, ('image', media, *captions_of(block))))}]"
    return block_text(block)


def load_json_near(path: Path) -> object:
    """Return the JSON of a small file next to a session.

    None if it is missing, not JSON or larger than 4 MB.
    """
    try:
        with foreign_files.open_file(path) as stream:
            raw = stream.read(_MOST_BYTES + 1)
        return json.loads(raw) if len(raw) <= _MOST_BYTES else None
    except (OSError, ValueError, RecursionError):
        return None
