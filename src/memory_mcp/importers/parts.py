"""Turn the parts of a message into drafts with ids and times, and separate a person's words from those of others.

Invariants
1. A part that is left out takes its number and its millisecond all the same: no setting moves an id or a time.
2. Parts of one session never share a millisecond, because events are ordered by their time: what has no later time of
   its own is one millisecond after what it follows.
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from pathlib import Path, PurePosixPath, PureWindowsPath
from urllib.parse import unquote, urlsplit

from memory_mcp.base.dataclass import dataclass
from memory_mcp.base.patterns import lazy_pattern
from memory_mcp.importers.answers import Question, answer_text, answers_in, questions_in, refusal_words, reply_metadata
from memory_mcp.importers.base import ImportReport
from memory_mcp.importers.blocks import as_text, call_metadata, call_text, result_metadata, unknown_words
from memory_mcp.importers.json_records import Record
from memory_mcp.importers.wrappers import author_note, find_author, is_plain, unwrap_prompt
from memory_mcp.model.event import FILE_TIME, RECORD, EventDraft, EventType, Role
from memory_mcp.model.ids import encode_base32, hash_parts

#: A time this much earlier than that of the part before it is another day's: it is believed (milliseconds).
_DAY = 86_400_000
_QUOTED = 1024
_KIND_OF_FOLDER = "(?:dir(?:ectory)?|folder|root|path)"
#: Names of fields that hold the folder a session works in, as clients spell them: workDir, working_directory, projectPath ...
_FOLDER_FIELD = lazy_pattern(
    rf"cwd|directory|(?:current_?)?work(?:ing)?_?{_KIND_OF_FOLDER}|(?:workspace|project|repo|repository)_?{_KIND_OF_FOLDER}|workspace",
    re.I,
)
#: Names of fields that hold the folder that a worktree was made from: originalCwd, mainWorktreePath, gitCommonDir ...
_ORIGIN_FIELD = lazy_pattern(
    rf"(?:orig(?:inal)?|main)_?(?:cwd|(?:work(?:ing)?|repo(?:sitory)?|project|worktree|checkout)_?{_KIND_OF_FOLDER}?)|git_?common_?dir",
    re.I,
)

THINKING = "thinking"
EMPTY = "no content"
_MESSAGE_TYPES = {Role.USER: EventType.USER_MESSAGE, Role.ASSISTANT: EventType.ASSISTANT_MESSAGE}


@dataclass(frozen=True, slots=True)
class Part:
    """One event's worth of a message."""

    role: Role
    type: EventType
    text: str
    metadata: Mapping[str, str] = field(default_factory=dict)
    #: Why it is left out; "" when it is not.
    left_out: str = ""
    #: The kind of the block whose words it has, where no reader knows that kind; "" for any other part.
    unknown_kind: str = ""
    #: What a call asks the person.
    questions: tuple[Question, ...] = ()
    #: Fields that the client keeps next to a result's text.
    result_details: object = None


def message_part(role: Role, text: str, **metadata: str) -> Part:
    """Return a user's or model's message, or a note by another role.

    A `record` among the metadata is the mark `RECORD`.
    """
    return Part(role, _MESSAGE_TYPES.get(role, EventType.NOTE), text.strip(), _mark_metadata(metadata))


def note_part(text: str, **metadata: str) -> Part:
    """Return a note of the system; `record` is our mark `RECORD`."""
    return Part(Role.SYSTEM, EventType.NOTE, text.strip(), _mark_metadata(metadata))


def _mark_metadata(metadata: Mapping[str, str]) -> dict[str, str]:
    return {RECORD if key == "record" else key: value for key, value in metadata.items()} if metadata else {}


def thought_part(text: str, keep: bool) -> Part:
    """Return the model's thinking as a note, left out unless `keep`."""
    return Part(Role.ASSISTANT, EventType.NOTE, text, {RECORD: "thinking"}, "" if keep else THINKING)


def left_out_part(reason: str) -> Part:
    """Return a part that is left out, with its reason."""
    return Part(Role.SYSTEM, EventType.NOTE, "", {}, reason)


def unknown_block_notes(block: Mapping[str, object], kind: str = "") -> list[Part]:
    """Return the words of an unknown kind of block as a note."""
    kind = kind or as_text(block.get("type")) or as_text(block.get("kind")) or "block"
    words = unknown_words(block)
    return [Part(Role.SYSTEM, EventType.NOTE, words.strip(), {RECORD: kind}, unknown_kind=kind)] if words.strip() else []


def unread_block_notes(blocks: Sequence[Mapping[str, object]], texts: Sequence[str]) -> list[Part]:
    """Return a note for each block whose text is blank."""
    if all(texts):
        return []
    return [part for block, text in zip(blocks, texts, strict=True) if not text for part in unknown_block_notes(block)]


def call_part(name: str, arguments: object, call_id: str, **metadata: str) -> Part:
    """Return a call of a tool, named "tool" without a name.

    `arguments` are an object, or its JSON as text.
    """
    name, values = name or "tool", decode_json(arguments)
    text = call_text(name, values) if isinstance(values, Mapping) else f"{name}: {values}" if values else name
    all_metadata = call_metadata(name, values) | {"tool_use_id": call_id} | metadata
    return Part(Role.ASSISTANT, EventType.TOOL_CALL, text, all_metadata, questions=questions_in(name, values))


def result_part(name: str, call_id: str, text: str, is_error: bool = False, **metadata: str) -> Part:
    """Return a tool's result; `metadata` overrides what its text says."""
    all_metadata = {"tool": name, "tool_use_id": call_id} | result_metadata(text, is_error, None)
    all_metadata |= {key: value for key, value in metadata.items() if value}
    return Part(Role.TOOL, EventType.TOOL_RESULT, text.strip("\n").rstrip() or "(no output)", all_metadata)


def decode_json(value: object) -> object:
    """Return the object or list in a text, else `value` itself."""
    if not isinstance(value, str) or not value.lstrip().startswith(("{", "[")):
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        return value


def as_plain(value: object) -> str:
    """Return a text as it is, anything else as compact JSON."""
    if value is None or isinstance(value, str):
        return value or ""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=str)


def content_id(*parts: object) -> str:
    """Return an id of 16 characters made from content."""
    return encode_base32(hash_parts("content", *(p if isinstance(p, str) else as_plain(p) for p in parts)), 16)


def path_of(uri: object) -> str:
    """Return the path that an address names; "" for none."""
    text = as_text(uri)
    if "://" not in text:
        return text
    try:
        path = unquote(urlsplit(text).path)
    except ValueError:
        return ""
    # file:///c%3A/Users: a drive's path has no slash before it.
    return path[1:] if len(path) > 2 and path[0] == "/" and path[2] == ":" else path


def folder_in(record: Mapping[str, object]) -> str:
    """Return the folder that a record's fields name; "" for none."""
    return _path_in(record, _FOLDER_FIELD)


def origin_in(record: Mapping[str, object]) -> str:
    """Return the folder that a worktree was made from; "" for none."""
    return _path_in(record, _ORIGIN_FIELD)


def _path_in(record: Mapping[str, object], names: re.Pattern[str]) -> str:
    for fields in (record, *(value for value in record.values() if isinstance(value, Mapping))):
        for name, value in fields.items():
            path = path_of(value) if names.fullmatch(name) else ""
            if PurePosixPath(path).is_absolute() or PureWindowsPath(path).is_absolute():
                return path
    return ""


def file_time(file: Path) -> str:
    """Return when a file last changed, UTC ms as text; raises OSError."""
    return str(int(file.stat().st_mtime * 1000))


def next_time(own_time: int | None, last: int | None) -> int | None:
    """Return `own_time`, or a millisecond after `last`.

    The latter where `own_time` is not later or is unknown (None, 0 or less); an own time more than a day earlier is believed.
    None where neither is known.
    """
    if own_time is None or own_time <= 0:
        return None if last is None else last + 1
    return own_time if last is None or own_time > last or last - own_time > _DAY else last + 1


@dataclass(slots=True)
class Session:
    """Fields that all events of a session share."""

    agent: str
    session_id: str
    project: str = ""
    metadata: Mapping[str, str] = field(default_factory=dict)
    thread: str = ""
    #: Time of the last part (milliseconds); None before the first one that has any.
    last_time: int | None = None
    #: The file's modification time, for parts without a time.
    file_time: str = ""
    #: What calls asked the person, by the id of the call.
    questions: dict[str, tuple[Question, ...]] = field(default_factory=dict)

    def make_drafts(
        self, parts: Sequence[Part], source_id: str, own_time: int | None, metadata: Mapping[str, str] | None = None
    ) -> list[EventDraft]:
        """Return a message's drafts, a millisecond apart.

        Their ids are `source_id`, then "<source_id>#1" and so on. Parts left out or without text give none, but take their
        millisecond and number. A part's metadata overrides the message's, which overrides the session's; empty values are left
        out. Where the message states no time, it says that the time is inferred or, without any, when the file was written.
        Moves `last_time`.
        """
        drafts = []
        for number, part in enumerate(map(self._as_answer, parts)):
            self.last_time = next_time(own_time if not number else None, self.last_time)
            if part.left_out or not part.text.strip():
                continue
            fields = {**self.metadata, **(metadata or {}), **part.metadata}
            if own_time is None:
                fields |= {FILE_TIME: self.file_time} if self.last_time is None else {"time": "inferred"}
            draft = EventDraft(
                session_id=self.session_id,
                role=part.role,
                type=part.type,
                text=part.text,
                timestamp=self.last_time,
                source_id=f"{source_id}#{number}" if number else source_id,
                agent=self.agent,
                project=self.project,
                thread=self.thread,
                metadata={key: value for key, value in fields.items() if value},
            )
            drafts.append(draft)
        return drafts

    def _as_answer(self, part: Part) -> Part:
        """Return a result with a person's words as the person's message.

        The questions of a call are remembered for its result.
        """
        call_id, tool = part.metadata.get("tool_use_id", ""), part.metadata.get("tool", "")
        if part.questions and call_id:
            self.questions[call_id] = part.questions
        if part.type is not EventType.TOOL_RESULT:
            return part
        questions = self.questions.get(call_id, ())
        answers = answers_in(questions, part.result_details, part.text)
        refusal = refusal_words(tool, part.text, questions) if part.metadata.get("is_error") else ""
        text = answer_text(answers) or refusal
        metadata = {**part.metadata, **reply_metadata(answers)}
        return replace(part, role=Role.USER, type=EventType.USER_MESSAGE, text=text, metadata=metadata) if text else part


class Tally:
    """Counts of what the records of one file gave."""

    def __init__(self, report: ImportReport, file: Path) -> None:
        self._report, self._file = report, file

    def count_record(
        self, drafts: Sequence[EventDraft], parts: Iterable[Part], line: int, quote: object
    ) -> tuple[EventDraft, ...]:
        """Count one record as used or skipped; return its drafts.

        The reason is that of the first part left out, else "no content"; `quote` is the record, a text or any JSON value.
        """
        concerned = [part for part in parts if part.left_out or part.unknown_kind]
        left_out = [part.left_out for part in concerned if part.left_out]
        if drafts:
            self._report.lines += 1
            self._report.lines_used += 1
            if concerned:
                self._report.left_out.update(left_out)
                self._report.unknown.update(part.unknown_kind for part in concerned if part.unknown_kind)
        else:
            self.skip_record(next(iter(left_out), EMPTY), line, quote)
        return tuple(drafts)

    def skip_record(self, reason: str, line: int, quote: object) -> None:
        """Count one record that gave nothing, and quote it."""
        self._report.lines += 1
        self._report.skip_record(reason, self._file, line, as_plain(quote)[:_QUOTED])

    def iter_valid(self, records: Iterable[Record]) -> Iterator[Record]:
        """Yield the records that are objects; count others as skipped."""
        for record in records:
            if record.error:
                self.skip_record(record.error, record.line, record.quote)
            else:
                yield record


def separate_prompts(
    parts: Sequence[Part], record: Mapping[str, object], find: Callable[[Mapping[str, object]], str] = find_author
) -> tuple[Part, ...]:
    """Return a message's parts with the person's words alone as hers.

    What was written around them, and the words of unknown blocks, follow the other parts as notes, so that no id moves. Where
    `find` names an author for `record` who is not the person, all of it is a note of that author. Exports of chat services,
    notes and events from elsewhere are not separated: there is nothing between the person and the record.
    """
    concerned = [part for part in parts if part.type is EventType.USER_MESSAGE or part.unknown_kind]
    if not concerned:
        return tuple(parts)
    author = find(record)
    if not author and all(is_plain(part.text) and not part.unknown_kind for part in concerned):
        return tuple(parts)
    spoken: list[Part] = []
    notes: list[Part] = []
    for part in parts:
        if part.unknown_kind:
            notes.append(part)
        elif part.type is not EventType.USER_MESSAGE or part.left_out or not part.text.strip():
            spoken.append(part)
        else:
            words, *extra_notes = _split_prompt(part, author)
            spoken.append(words)
            notes += extra_notes
    return (*spoken, *notes)


def _split_prompt(part: Part, author: str) -> list[Part]:
    pieces: list[Part] = []
    for piece in unwrap_prompt(part.text):
        if piece.reason:
            pieces.append(left_out_part(piece.reason))
        elif piece.type is EventType.USER_MESSAGE and not author:
            pieces.append(Part(piece.role, piece.type, piece.text, part.metadata))
        else:
            note = author_note(author, piece.text) if piece.type is EventType.USER_MESSAGE else piece
            pieces.append(Part(note.role, note.type, note.text, {RECORD: note.name} if note.name else {}))
    return pieces
