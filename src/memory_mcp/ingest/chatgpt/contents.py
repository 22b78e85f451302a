"""Convert one message of ChatGPT to its parts; independent of conversations and times."""

import re
from collections.abc import Mapping

from memory_mcp.ingest.claude_code.blocks import as_mapping, as_mappings, as_text, words_within
from memory_mcp.ingest.parts import Part, call_part, left_out_part, message_part, note_part, result_part, thought_part
from memory_mcp.model.event import RECORD, Role

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
    """Return the parts of a message, mostly one: words, note, call, result or thinking; one that is left out has its reason.

    Custom instructions, hidden messages and unknown kinds are left out, and thinking unless it is kept; a message
    without text may give no part.
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
    """Return what the model passed to the tool `recipient`, as a call without id: code, JSON or words; a canvas is marked so."""
    if kind == "code" and not text.startswith("{"):
        language = as_text(content.get("language"))
        return call_part(recipient, {"code": text, "language": "" if language == "unknown" else language}, "")
    # A canvas is a document that both write; its name is what it is found by.
    return call_part(recipient, text, "", **({RECORD: "canvas"} if recipient.startswith(_CANVAS) else {}))


def text_of(content: Mapping[str, object]) -> str:
    """Return the readable text of a content of any kind, "" for none; pictures and sound are named, never quoted."""
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
    """Return one part of a content: its text, or in brackets what kind of file it is, with the prompt of a drawn picture."""
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
