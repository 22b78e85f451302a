"""Clean a hook's payload of secrets and private spans before it is written to the spool.

Each string of its JSON is looked at as it is, short ones once more with their keys and neighbours around them, which tell of
passwords, and those of a list as lines of one text. What is no JSON is looked at as plain text. What was forgotten or excluded
is left to the gate of the drain.

Invariants
1. A payload that holds nothing to take out comes back byte for byte, any other one still in its form.
2. The same payload gives the same result in every process, so that two hooks of one event are still known for one.
3. What tells sessions, calls and projects apart still does, by a hash, where a secret was taken out of it.
4. Time grows with the payload, whatever it is; of a very long string only the ends are kept. Standard library only.
"""

import json
import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import field
from itertools import accumulate, groupby
from typing import Any

from memory_mcp.base.dataclass import dataclass
from memory_mcp.base.paths import name_of
from memory_mcp.redact.own_secrets import OwnSecrets
from memory_mcp.redact.redact import PrivateSplit, Span, may_hold_private, redactor, replace_spans, strip_private

#: Strings longer than this are searched without their key, characters: a key belongs to a value, not a text.
_SHORT = 2_000
#: Of a longer string both ends are kept, characters: more than the gate keeps of any text. Cut at a blank near there, so that
#: no half of a secret is left.
_LONGEST, _END, _NEAR = 1_500_000, 600_000, 4_096
#: Strings that are looked at together first, characters.
_BATCH = 65_536
#: Keys of what tells things apart: it is looked at by itself alone, and stays different where it differed.
_ID_KEYS = frozenset(
    {
        *("id", "session_id", "sessionID", "sessionId", "source_id", "thread", "speaker", "agent", "agent_id", "agentId"),
        *("tool_use_id", "callID", "call_id", "prompt_id", "message_id", "messageID", "uuid", "turn_id", "parent_id"),
        *("project", "project_dir", "cwd", "transcript_path", "agent_transcript_path"),
    }
)
#: Keys of what says how the strings beside it are to be read: a private span that goes over several leaves it.
_FORM_KEYS = frozenset({"type", "role", "hook_event_name", "tool_name", "timestamp"})
_OPEN, _CLOSE = "<private>", "</private>"
#: A printable character written by its number, but for quotes and backslashes, which end strings.
_NUMBERED = re.compile(r"\\u00(2[013-9a-f]|[346][0-9a-f]|5[0-9abd-f]|7[0-9a-e])", re.I)
_SPACE = re.compile(r"\s*")


@dataclass(slots=True)
class _Leaf:
    container: Any
    index: Any
    text: str
    #: Its key, or that of the list it stands in.
    key: str
    is_number: bool
    #: The list whose strings are read as one text, by its number; 0 for none.
    group: int
    spans: list[Span] = field(default_factory=list)


class PayloadCleaner:
    """Takes secrets out of payloads; any thread may ask it."""

    def __init__(self, directory: str = "") -> None:
        """Take out what rules find, and the program's keys in a directory."""
        self._redactor = redactor()
        self._own = OwnSecrets(directory)

    def clean_payload(self, payload: bytes) -> bytes:
        """Return the payload without secrets and private spans. Never raises.

        Itself if it has none and repeats no key. What is not JSON is cleaned as text. Any other changed payload is ASCII
        JSON, one value a line.
        """
        if any(value.encode() in payload for value in self._own.load_values()):
            # Keys for headers: no sign of theirs is written otherwise in JSON.
            payload = self._own.redact_text(payload.decode("utf-8", "surrogateescape"), Counter()).encode(
                "utf-8", "surrogateescape"
            )
        try:
            values, twice = parse_json_values(payload.decode("utf-8-sig", "replace"))
            changed = self._clean_values(values)
            if not changed and not twice:
                return payload
            return "\n".join(map(json.dumps, values)).encode("ascii")
        except (ValueError, RecursionError):
            text = payload.decode("utf-8", "surrogateescape")
            # Neither a character's number nor the zero bytes of another encoding hide a secret.
            plain = _NUMBERED.sub(lambda match: chr(int(match[1], 16)), text.replace("\0", ""))
            clean = self._redactor.redact(strip_private(plain), Counter())
            return payload if clean == plain else clean.encode("utf-8", "surrogateescape")

    def clean_fields(self, fields: Mapping[str, str]) -> dict[str, str]:
        """Return the fields next to a payload with clean values."""
        values: list[Any] = [dict(fields)]
        self._clean_values(values)
        clean: dict[str, str] = values[0]
        return clean

    def _clean_values(self, values: list[Any]) -> bool:
        """Clean JSON values in place; return whether anything was taken out."""
        view, keys = _flatten_values(values)
        leaves = [part for part in view if isinstance(part, _Leaf)]
        _strip_private_spans(leaves)
        self._search_each(leaves)
        self._search_in_context(view)
        # Search the strings of a list as the lines of one text: a secret may span several.
        for _, run in groupby(leaves, key=lambda leaf: id(leaf.container)):
            lines = [leaf for leaf in run if isinstance(leaf.container, list)]
            if len(lines) < 2:
                continue
            starts = [0, *accumulate(len(line.text) + 1 for line in lines[:-1])]
            for span in self._redactor.find_spans("\n".join(line.text for line in lines)):
                _assign_span(span, lines, starts)
        changed = False
        for leaf in leaves:
            clean, was = (
                replace_spans(leaf.text, leaf.spans, Counter()) if leaf.spans else leaf.text,
                str(leaf.container[leaf.index]),
            )
            if clean != was:
                changed = True
                leaf.container[leaf.index] = f"{clean.strip()}~{name_of(was)}" if leaf.key in _ID_KEYS else clean
        renamed = {key: clean for key in keys if (clean := self._redactor.redact(strip_private(key), Counter())) != key}
        if renamed:
            todo: list[Any] = list(values)
            while todo:
                value = todo.pop()
                if isinstance(value, dict):
                    pairs = [(renamed.get(key, key), inner) for key, inner in value.items()]
                    value.clear()
                    value.update(pairs)
                if isinstance(value, dict | list):
                    todo += value.values() if isinstance(value, dict) else value
        return changed or bool(renamed)

    def _search_each(self, leaves: list[_Leaf]) -> None:
        """Search each string by itself; most batches have nothing to examine."""
        batch: list[_Leaf] = []
        chars = 0
        for number, leaf in enumerate(leaves, 1):
            batch.append(leaf)
            chars += len(leaf.text)
            if chars < _BATCH and number < len(leaves):
                continue
            if len(batch) == 1 or self._redactor.may_hold_secret("\n".join(batched.text for batched in batch)):
                for batched in batch:
                    batched.spans += self._redactor.find_spans(batched.text)
            batch, chars = [], 0

    def _search_in_context(self, view: "list[str | _Leaf]") -> None:
        """Search short strings with keys and neighbours."""
        searched: list[_Leaf] = []
        starts: list[int] = []
        parts: list[str] = []
        length = 0
        for part in view:
            if isinstance(part, str):
                text = part
            elif part.key in _ID_KEYS or len(part.text) > _SHORT:
                text = '""'
            else:
                quote = "" if part.is_number else '"'
                # One character for one: places here are places in the string.
                text = quote + part.text.replace('"', "'") + quote
                searched.append(part)
                starts.append(length + len(quote))
            parts.append(text)
            length += len(text)
        for span in self._redactor.find_spans("".join(parts)):
            _assign_span(span, searched, starts)


def _assign_span(span: Span, searched: list[_Leaf], starts: list[int]) -> None:
    """Note a place with the string it covers, or the strings of one list.

    A number is covered as a whole.
    """
    first: _Leaf | None = None
    for number in range(max(0, bisect_right(starts, span.start) - 1), len(searched)):
        leaf, start = searched[number], starts[number]
        if start >= span.end:
            return
        begin, end = max(0, span.start - start), min(len(leaf.text), span.end - start)
        if begin >= end:
            continue
        if first is not None and not (leaf.container is first.container and isinstance(leaf.container, list)):
            return
        first = first or leaf
        leaf.spans.append(Span(0, len(leaf.text), span.rule) if leaf.is_number else Span(begin, end, span.rule))


def parse_json_values(text: str) -> tuple[list[Any], bool]:
    """Return (JSON values of a text, whether an object repeats a key).

    Raises ValueError or RecursionError.
    """
    twice = False

    def mapping(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        nonlocal twice
        mapping_of_pairs = dict(pairs)
        twice = twice or len(mapping_of_pairs) < len(pairs)
        return mapping_of_pairs

    decode, at = json.JSONDecoder(object_pairs_hook=mapping).raw_decode, 0
    values = []
    while (match := _SPACE.match(text, at)) and match.end() < len(text):
        value, at = decode(text, match.end())
        values.append(value)
    return values, twice


def _flatten_values(values: list[Any]) -> tuple[list[str | _Leaf], set[str]]:
    """Return the values as a list of texts and leaves, and all keys.

    Leaves are the strings and numbers, in their order; the texts between them are keys, brackets and commas, so that the
    whole reads like JSON.
    """
    view: list[str | _Leaf] = []
    keys: set[str] = set()
    groups = 0
    # No recursion: what can be parsed can be read, however deep it is.
    todo: list[Any] = [part for n in reversed(range(len(values))) for part in ("\n", (values, n, "", 0, 0))]
    while todo:
        part = todo.pop()
        if isinstance(part, str):
            view.append(part)
            continue
        holder, at, key, group, depth = part
        value = holder[at]
        if isinstance(value, str) or (isinstance(value, int | float) and not isinstance(value, bool)):
            view.append(_Leaf(holder, at, _keep_ends(str(value)), key, not isinstance(value, str), group))
        elif isinstance(value, dict):
            keys.update(value)
            todo += ["}", *_iter_members_backwards((f'"{k}":', (value, k, k, group, depth + 1)) for k in value), "{"]
        elif isinstance(value, list):
            # The values of the whole payload are events of their own, and so are parts of an answer.
            if not group and depth and not (key == "parts" and isinstance(holder, dict) and holder.get("role") != "user"):
                groups += 1
                group = groups
            todo += ["]", *_iter_members_backwards(("", (value, n, key, group, depth + 1)) for n in range(len(value))), "["]
        else:
            view.append("null")
    return view, keys


def _iter_members_backwards(parts: Iterator[tuple[str, Any]]) -> Iterator[Any]:
    for name, entry in reversed(list(parts)):
        yield from (",", entry, name)


def _keep_ends(text: str) -> str:
    if len(text) <= _LONGEST:
        return text
    head, tail = text[:_END], text[-_END:]
    if blank := re.search(r"\s\S*\Z", head[-_NEAR:]):
        head = head[: _END - _NEAR + blank.start()]
    if blank := re.search(r"\s", tail[:_NEAR]):
        tail = tail[blank.start() :]
    return f"{head}\n[... {len(text) - len(head) - len(tail)} characters left out ...]\n{tail}"


def _strip_private_spans(leaves: list[_Leaf]) -> None:
    """Remove private spans from the strings, in place.

    Strings of one list are one text, through which a span may go on. A tag stays if its span continues in text that the
    gate reads together with it.
    """
    inside, group, first = False, 0, 0
    for number, leaf in enumerate(leaves):
        if leaf.group != group or not group:
            inside, group, first = False, leaf.group, number
        if leaf.is_number or (not inside and not may_hold_private(leaf.text)):
            continue
        split = PrivateSplit(leaf.text, inside)
        if inside and leaf.key in _FORM_KEYS | _ID_KEYS and not split.closes:
            continue
        if split.closes and not inside:
            for earlier in leaves[first:number]:
                if earlier.key not in _FORM_KEYS | _ID_KEYS and not earlier.is_number:
                    earlier.text = ""
        goes_on = split.stays_open and (not inside or split.closes)
        leaf.text = (_CLOSE if split.closes else "") + split.public_text + (_OPEN if goes_on else "")
        inside = split.stays_open
