"""Separate what a person typed from what clients and other agents wrote in her place: by the record's fields, then by elements.

The one function for readers and hooks is `unwrap`; here it is applied to the parts of a message of any client. Exports of chat
services, notes and events from elsewhere have nobody between the person and the record: their words stay as they are.
"""

from collections.abc import Callable, Mapping, Sequence

from memory_mcp.ingest.claude_code.wrappers import author_note, find_author, is_plain, unwrap_prompt
from memory_mcp.ingest.parts import Part, left_out_part
from memory_mcp.model.event import RECORD, EventType


def separate_prompts(
    parts: Sequence[Part], record: Mapping[str, object], find: Callable[[Mapping[str, object]], str] = find_author
) -> tuple[Part, ...]:
    """Return the parts of a message with the person's words alone as hers.

    What was written around them, and the words of unknown blocks, follow the other parts as notes, so that no id moves.
    Where `find` names an author for `record` who is not the person, all of it is a note of that author.
    """
    concerned = [part for part in parts if part.type is EventType.USER_MESSAGE or part.unknown]
    if not concerned:
        return tuple(parts)
    author = find(record)
    if not author and all(is_plain(part.text) and not part.unknown for part in concerned):
        return tuple(parts)
    spoken: list[Part] = []
    notes: list[Part] = []
    for part in parts:
        if part.unknown:
            notes.append(part)
        elif part.type is not EventType.USER_MESSAGE or part.left_out or not part.text.strip():
            spoken.append(part)
        else:
            words, *extra_notes = _split_prompt(part, author)
            spoken.append(words)
            notes += extra_notes
    return (*spoken, *notes)


def _split_prompt(part: Part, author: str) -> list[Part]:
    """Return the person's words, if there are some, then the notes; at least one part."""
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
