"""Importer of ChatGPT's account export: contents of a message, the tree of a conversation, conversations.

Its maker does not document the format. It is known from descriptions of real exports of 2023 to 2026 and from several
open readers of them, which agree: an array of conversations, in conversations.json or (newer) conversations-000.json and
so on, loose or in the archive that the account is sent.

Invariants
1. A message's time depends on those it follows alone, never on which branch is shown: another export moves nothing.
2. Broken trees give what they hold: an unknown parent begins again, a circle ends.
"""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from memory_mcp.base.dataclass import dataclass
from memory_mcp.importers.blocks import as_list, as_mapping, as_mappings, as_text, words_within
from memory_mcp.importers.client_importer import ExportImporter
from memory_mcp.importers.json_records import Record, parse_time
from memory_mcp.importers.parts import (
    Part,
    Session,
    Tally,
    call_part,
    content_id,
    file_time,
    left_out_part,
    message_part,
    note_part,
    result_part,
    thought_part,
)
from memory_mcp.model.event import RECORD, EventDraft, Role

#: References to search results, which the page replaces by links: private-use characters around them, or brackets.
_CITATION = re.compile("\ue200[^\ue201]{0,4000}\ue201|[\ue200-\ue2ff]|【\\d+†[^】]{0,200}】")
_CONTEXTS = frozenset({"user_editable_context", "model_editable_context"})
_THOUGHTS = frozenset({"thoughts", "reasoning_recap"})
#: The recipient of what is meant for the user.
_EVERYONE = "all"
#: Kinds of content whose text is understood; without one they are empty.
_KNOWN = frozenset({"text", "multimodal_text", "code"})
_TEXT_KEYS = ("text", "result", "content", "output_str", "summary")
#: Fields of a content that are no words.
_ENVELOPE = frozenset({"content_type", "language", "response_format_name", "name"})
_CANVAS = "canmore."

CONTEXT = "custom instructions"
HIDDEN = "hidden message"


def parts_of(message: Mapping[str, object], keep_thinking: bool) -> list[Part]:
    """Return the parts of a message, mostly one.

    Custom instructions, hidden messages and unknown kinds are left out, and thinking unless it is kept; a message without text
    may give no part.
    """
    content, metadata = as_mapping(message.get("content")), as_mapping(message.get("metadata"))
    author = as_mapping(message.get("author"))
    role, kind = as_text(author.get("role")), as_text(content.get("content_type"))
    if kind in _CONTEXTS or metadata.get("is_user_system_message") is True:
        return [left_out_part(CONTEXT)]
    if kind in _THOUGHTS:
        thoughts = content.get("thoughts")
        lines = (words_within(item.get("content")) or words_within(item.get("summary")) for item in as_mappings(thoughts))
        return [thought_part("\n".join(filter(None, lines)) if isinstance(thoughts, list) else text_of(content), keep_thinking)]
    if metadata.get("is_visually_hidden_from_conversation") is True:
        return [left_out_part(HIDDEN)]
    text = _CITATION.sub("", text_of(content)).strip()
    recipient = as_text(message.get("recipient")) or _EVERYONE
    if role == "tool":
        name = as_text(author.get("name"))
        return [result_part(name, "", text, kind == "system_error")] if text else []
    if role == "user":
        files = [name for file in as_mappings(metadata.get("attachments")) if (name := as_text(file.get("name")))]
        return [message_part(Role.USER, "\n".join([text, *(f"[{name}]" for name in files)]), files="\n".join(files))]
    if role in ("assistant", "system") and (text or kind in _KNOWN):
        if not text:
            return []
        if role == "system":
            return [note_part(text)]
        return [message_part(Role.ASSISTANT, text) if recipient == _EVERYONE else _call(recipient, kind, content, text)]
    return [left_out_part(f"{kind or 'unknown'} content" if role in ("assistant", "system") else f"{role or 'unknown'} message")]


def _call(recipient: str, kind: str, content: Mapping[str, object], text: str) -> Part:
    if kind == "code" and not text.startswith("{"):
        language = as_text(content.get("language"))
        return call_part(recipient, {"code": text, "language": "" if language == "unknown" else language}, "")
    # A canvas is a document that both write; its name is what it is found by.
    return call_part(recipient, text, "", **({RECORD: "canvas"} if recipient.startswith(_CANVAS) else {}))


def text_of(content: Mapping[str, object]) -> str:
    """Return a content's readable text; pictures and sound only by name."""
    parts = content.get("parts")
    if isinstance(parts, list):
        return "\n".join(filter(None, map(_part, parts)))
    if as_text(content.get("content_type")) in ("tether_quote", "sonic_webpage"):
        return "\n".join(filter(None, (words_within(content.get(key)) for key in ("title", "url", "text"))))
    text = next((words for key in _TEXT_KEYS if (words := words_within(content.get(key))).strip()), "")
    text = text or words_within({key: value for key, value in content.items() if key not in _ENVELOPE})
    name = as_text(content.get("name"))
    return f"{name}: {text}" if name and text else text


def _part(part: object) -> str:
    if isinstance(part, str):
        return part
    fields = as_mapping(part)
    kind = as_text(fields.get("content_type"))
    if "asset_pointer" in kind or "asset_pointer" in fields:
        prompt = as_text(as_mapping(as_mapping(fields.get("metadata")).get("dalle")).get("prompt"))
        size = f" {fields['width']}x{fields['height']}" if isinstance(fields.get("width"), int) and fields.get("height") else ""
        return f"[{kind.removesuffix('_asset_pointer') or 'file'}{size}]" + (f" {prompt}" if prompt else "")
    text = next((words for key in _TEXT_KEYS if (words := words_within(fields.get(key))).strip()), "")
    return text or (f"[{kind}]" if kind else words_within(part))


@dataclass(frozen=True, slots=True)
class Node:
    """A message and its place."""

    id: str
    #: The message before it; "" at the beginning.
    parent: str
    #: What its branch is called; "" on the one that is shown.
    branch: str
    message: Mapping[str, object]


def nodes_of(mapping: Mapping[str, object], current: str) -> Iterator[Node]:
    """Yield a conversation's nodes depth first, each after its parent.

    The branch that ends at `current`, else at the last node whose path leads to a root, is the one shown, named ""; any other
    is "branch:<id of its first message>", and a first child outside the shown branch stays in its parent's. Nodes of a circle
    come last, each as a branch of its own.
    """
    if current not in mapping:
        ends = (k for k in reversed(list(mapping)) if any(_parent(mapping, above) not in mapping for above in _path(mapping, k)))
        current = next(ends, "")
    shown_ids, children = _path(mapping, current), _children(mapping)
    visited: set[str] = set()
    roots = [key for key in mapping if _parent(mapping, key) not in mapping]
    waiting = [(key, "" if key in shown_ids else f"branch:{key}") for key in reversed(roots)]
    # A circle has no root: its nodes come last, each on its own.
    waiting = [(key, f"branch:{key}") for key in reversed(list(mapping))] + waiting
    while waiting:
        key, branch = waiting.pop()
        if key in visited:
            continue
        visited.add(key)
        yield Node(key, _parent(mapping, key), branch, as_mapping(as_mapping(mapping[key]).get("message")))
        for number, child in reversed(list(enumerate(children.get(key, ())))):
            goes_on = child in shown_ids or (branch and not number)
            waiting.append((child, branch if goes_on else f"branch:{child}"))


def _path(mapping: Mapping[str, object], leaf: str) -> set[str]:
    """Return the ids up to the root, ending where one repeats."""
    path: set[str] = set()
    while leaf in mapping and leaf not in path:
        path.add(leaf)
        leaf = _parent(mapping, leaf)
    return path


def _parent(mapping: Mapping[str, object], key: str) -> str:
    return as_text(as_mapping(mapping.get(key)).get("parent"))


def _children(mapping: Mapping[str, object]) -> dict[str, list[str]]:
    """Return children by parent, in the parents' order; others last."""
    children: dict[str, list[str]] = {}
    for key in mapping:
        children.setdefault(_parent(mapping, key), []).append(key)
    for key, siblings in children.items():
        listed_children = as_mapping(mapping.get(key)).get("children")
        order = {c: n for n, c in enumerate(as_list(listed_children)) if isinstance(c, str)}
        siblings.sort(key=lambda child: order.get(child, len(order)))
    return children


AGENT = "chatgpt"


class ChatGptImporter(ExportImporter):
    """Reads account exports of ChatGPT."""

    name = AGENT
    title = "ChatGPT export"
    messages_key = "mapping"
    messages_type = dict
    skip_reason = "not a ChatGPT conversation"
    #: A quote inside a text is escaped, so that no text can look like a key.
    beginning_pattern = re.compile(rb'\A(?:\xef\xbb\xbf)?\s*(?:\[\s*)?\{.*?"mapping"\s*:\s*\{', re.DOTALL)

    def convert_conversation(self, record: Record, file: Path, tally: Tally) -> Iterator[EventDraft]:
        """Yield a conversation's title, then its messages, branches as threads.

        A message without a time follows its parent.
        """
        value = record.value
        created, title = parse_time(value.get("create_time")), words_within(value.get("title")).strip()
        name = as_text(value.get("conversation_id")) or as_text(value.get("id")) or content_id(title, created)
        session = Session(AGENT, name, metadata={"custom_gpt": as_text(value.get("gizmo_id"))}, file_time=file_time(file))
        yield from session.make_drafts([note_part(title, record="title")], f"{name}:title:{content_id(title)}", created)
        ends: dict[str, int | None] = {"": session.last_time}
        for node in nodes_of(as_mapping(value["mapping"]), as_text(value.get("current_node"))):
            session.last_time, session.thread = ends.get(node.parent, ends[""]), node.branch
            if node.message:
                parts = parts_of(node.message, self._settings.include_thinking)
                source_id, own_time = as_text(node.message.get("id")), parse_time(node.message.get("create_time"))
                model = as_text(as_mapping(node.message.get("metadata")).get("model_slug"))
                drafts = session.make_drafts(parts, source_id or f"{name}:{node.id}", own_time, {"model": model})
                yield from tally.count_record(drafts, parts, record.line, node.message)
            ends[node.id] = session.last_time
