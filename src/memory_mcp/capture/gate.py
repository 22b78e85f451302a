"""The gate of every write: returns a clean draft, or the reason why a draft is refused.

Invariants
1. What leaves holds no secret that a rule knows, no private span, nothing that was forgotten, nothing this program itself
   produced, and only text that any engine can store.
2. Redaction comes before cutting, so that a cut never leaves half a secret.
3. A text too long for its bound keeps its head and its tail, says so between them, and its full size in metadata.
"""

import re
from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from memory_mcp.base.scope import project_of, root_commit_of
from memory_mcp.base.storable import storable
from memory_mcp.capture.exclusions import CaptureRules
from memory_mcp.capture.tombstones import MARK as FORGOTTEN_MARK
from memory_mcp.capture.tombstones import Tombstones
from memory_mcp.importers.base import ImportReport
from memory_mcp.importers.own_output import remove_own_output
from memory_mcp.model.event import ROOT_COMMIT, EventDraft, EventType, rename_draft
from memory_mcp.model.ids import encode_base32, hash_parts
from memory_mcp.model.sentinel import MARK
from memory_mcp.redact.own_secrets import OwnSecrets
from memory_mcp.redact.redact import Redactor, may_hold_private, redactor, strip_private

if TYPE_CHECKING:
    from memory_mcp.storage.records import TombstoneLog

#: Longest text of one event and of one tool result, UTF-8 bytes; of a longer one head and tail are kept.
MAX_TEXT_BYTES, MAX_TOOL_RESULT_BYTES = 1024 * 1024, 64 * 1024
#: Bounds of what goes with a text.
MAX_SESSION_CHARS = 200
MAX_NAME_CHARS = 500
MAX_METADATA_KEYS = 40
MAX_METADATA_BYTES = 4096
#: Metadata that says how long a shortened text was, in bytes.
SIZE_KEY = f"{MARK}full_size_bytes"

#: Fields beside the text, and how long each may be.
_NAME_BOUNDS = {
    "session_id": MAX_SESSION_CHARS,
    "source_id": MAX_NAME_CHARS,
    "agent": MAX_NAME_CHARS,
    "project": MAX_NAME_CHARS,
    "thread": MAX_SESSION_CHARS,
    "speaker": MAX_NAME_CHARS,
}

_REPEATED_NAMES = tuple(name for name in _NAME_BOUNDS if name != "source_id")

OWN_OUTPUT = "own output"
EMPTY = "empty text"
NO_SESSION = "no session id"
FORGOTTEN = "it was forgotten"

_HARMLESS_LIMIT = 10_000
#: The note in place of a cut. With it a text is longer than its bound, and must not be cut again.
_CUT_NOTE = re.compile(r"\n\[\.\.\. \d+ bytes left out \.\.\.\]\n")
_NOTE_BYTES = 64
_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
#: How calls are numbered: under its own key nothing in it can be taken for a secret.
_CALL_KEY = "tool_use_id"
_CALL_ID = re.compile(rf"{_UUID.pattern}|toolu_01[A-Za-z0-9]{{22}}")


class Gate:
    """Cleans drafts one by one; its memory is only a cache."""

    def __init__(
        self, capture: CaptureRules | None = None, forgotten: "TombstoneLog | None" = None, own_keys: tuple[str, ...] = ()
    ) -> None:
        """Take rules of what is never recorded, and what was forgotten.

        Without rules (None) all is recorded. What was forgotten is in the log, else in the rules' directory; without either
        nothing was. `own_keys` are keys of the program besides those in the directory.
        """
        self.capture = capture or CaptureRules()
        self._own_secrets = OwnSecrets(self.capture.directory, *own_keys)
        self.tombstones = Tombstones(Path(self.capture.directory) if self.capture.directory else None, forgotten)
        self._harmless: set[tuple[str, str]] = set()
        self._harmless_names: set[tuple[str, str]] = set()
        self._harmless_rows: set[tuple[str, ...]] = set()

    @cached_property
    def _redactor(self) -> Redactor:
        """Made with the first text: a process that only answers needs none."""
        return redactor()

    def clean_draft(self, draft: EventDraft, report: ImportReport) -> EventDraft | None:
        """Return the draft as it may be stored, else None and counted."""
        outcome = self.check_draft(draft, report)
        if isinstance(outcome, str):
            report.dropped[outcome] += 1
            return None
        return outcome

    def check_draft(self, draft: EventDraft, report: ImportReport) -> EventDraft | str:
        """Return the draft as it may be stored, or why not.

        In this order: capture rules, private spans and our own output, empty texts, what was forgotten, secrets, and only
        then the bounds on lengths. Redactions are counted in `report`.
        """
        if why := self.capture.find_refusal(draft):
            return why
        original = draft
        fields = {name: getattr(draft, name) for name in ("text", *_NAME_BOUNDS)}
        # Search all of them at once: if no tag is in the joined text, none is in a field.
        is_public = not may_hold_private("\n".join(fields.values()))
        if not is_public:
            public_fields: dict[str, Any] = {name: strip_private(value) for name, value in fields.items()}
            draft = replace(draft, **public_fields)
        text = remove_own_output(storable(draft.text))
        text = text if is_public and text is draft.text else strip_private(text)
        if not text.strip():
            return OWN_OUTPUT if MARK in draft.text else EMPTY
        is_none_forgotten = self.tombstones.is_empty
        if not is_none_forgotten:
            text_before, project = text, draft.project
            draft, text = self._without_forgotten(draft), self.tombstones.clean_text(text)
            if text != text_before and not text.replace(FORGOTTEN_MARK, "").strip():
                return FORGOTTEN
            # A pause of a project whose name was forgotten goes on under what is left of the name.
            if draft.project != project and (why := self.capture.find_refusal(draft)):
                return why
        names = self._clean_names(draft, report)
        if not names["session_id"]:
            return NO_SESSION
        text = self._redact_secrets(text, report) if is_none_forgotten else self._redact_public(text, report)
        metadata = _add_root_commit(draft, self._clean_metadata(draft.metadata, report))
        bound = MAX_TOOL_RESULT_BYTES if draft.type is EventType.TOOL_RESULT else MAX_TEXT_BYTES
        text, full_size = shorten_text(text, bound)
        if full_size:
            metadata[SIZE_KEY] = str(full_size)
        clean = replace(draft, text=text, metadata=metadata, **names)
        is_refused = not is_none_forgotten and self.tombstones.refuses_draft(clean)
        return FORGOTTEN if is_refused else rename_draft(original, clean)

    def recheck_draft(self, draft: EventDraft) -> EventDraft | None:
        """Return a draft that passed before, less what was forgotten since."""
        if self.tombstones.is_empty:
            return draft
        outcome = self.check_draft(draft, ImportReport())
        return None if isinstance(outcome, str) else outcome

    def _without_forgotten(self, draft: EventDraft) -> EventDraft:
        def clean(text: str) -> str:
            return self.tombstones.clean_text(storable(text))

        names: dict[str, Any] = {name: clean(getattr(draft, name)) for name in _NAME_BOUNDS}
        return replace(draft, metadata={clean(str(k)): clean(str(v)) for k, v in draft.metadata.items()}, **names)

    def redact_text(self, text: str, report: ImportReport) -> str:
        """Return `text` without private spans, forgotten values and secrets.

        Secrets are counted in `report`.
        """
        return self._redact_public(strip_private(text), report)

    def _redact_public(self, text: str, report: ImportReport) -> str:
        return self._redact_secrets(self.tombstones.clean_text(text), report)

    def _redact_secrets(self, text: str, report: ImportReport) -> str:
        return self._redactor.redact(self._own_secrets.redact_text(text, report.redacted), report.redacted)

    def clean_name(self, value: str) -> str:
        """Return a name for storage; a hash marks removals."""
        return self._clean_field("name", storable(value), ImportReport())[:MAX_NAME_CHARS]

    def clean_text(self, text: str) -> str:
        """Return text about events without private spans and secrets."""
        return self.redact_text(remove_own_output(strip_private(storable(text))), ImportReport())

    def _clean_names(self, draft: EventDraft, report: ImportReport) -> dict[str, Any]:
        """A hash keeps values different that were cut or redacted."""
        # A source id belongs to one event, so it is not cached; the others come again and again together.
        source_id = self._clean_field("source_id", storable(draft.source_id), report)
        row = tuple(getattr(draft, name) for name in _REPEATED_NAMES)
        if row in self._harmless_rows:
            return {**dict(zip(_REPEATED_NAMES, row, strict=True)), "source_id": _bound_name("source_id", source_id)}
        fields: dict[str, Any] = {name: storable(value) for name, value in zip(_REPEATED_NAMES, row, strict=True)}
        fields["session_id"] = fields["session_id"].strip()
        fields = {name: _bound_name(name, self._clean_cached(name, value, report)) for name, value in fields.items()}
        if tuple(fields.values()) == row:
            if len(self._harmless_rows) > _HARMLESS_LIMIT:
                self._harmless_rows.clear()
            self._harmless_rows.add(row)
        return {**fields, "source_id": _bound_name("source_id", source_id)}

    def _clean_cached(self, name: str, value: str, report: ImportReport) -> str:
        if (name, value) in self._harmless_names:
            return value
        clean = self._clean_field(name, value, report)
        if clean == value:
            if len(self._harmless_names) > _HARMLESS_LIMIT:
                self._harmless_names.clear()
            self._harmless_names.add((name, value))
        return clean

    def _clean_field(self, name: str, value: str, report: ImportReport) -> str:
        if not value or value.isalpha():
            return value
        # Most sources number their messages so: nothing in it can be taken for a secret, only for what was forgotten.
        clean = self.tombstones.clean_text(value) if _UUID.fullmatch(value) else self.redact_text(value, report)
        if clean == value:
            return value
        # A hash of the whole keeps sessions apart that differed in what was taken out; it cannot be turned back.
        return f"{clean.strip()}~{encode_base32(hash_parts('redacted', name, value), 16)}"

    def _clean_metadata(self, metadata: Mapping[str, str], report: ImportReport) -> dict[str, str]:
        """Bounds: 40 keys of 200 characters, values of 4,096 bytes."""
        clean: dict[str, str] = {}
        for key, value in metadata.items():
            if len(clean) >= MAX_METADATA_KEYS:
                break
            # Both were looked at, and stand as they are.
            if (key, value) in self._harmless:
                clean[key] = value
                continue
            clean_key = self._clean_cached("metadata", strip_private(storable(str(key))), report)
            clean[clean_key[:MAX_SESSION_CHARS]] = strip_private(storable(str(value)))
        self._redact_values(clean, report)
        for key, value in clean.items():
            if len(value) > MAX_METADATA_BYTES // 4:
                clean[key] = shorten_text(value, MAX_METADATA_BYTES)[0]
        return clean

    def _redact_values(self, values: dict[str, str], report: ImportReport) -> None:
        """Redact values in place, each with its key in view."""
        unchecked = [item for item in values.items() if item not in self._harmless and not self._is_call_id(*item)]
        # A key such as "password" gives its value away, so it is looked at too. All at once first: most are harmless.
        if unchecked and self._may_hold_secret("\n".join(f"{key}: {value}" for key, value in unchecked)):
            for key, value in unchecked:
                if self._may_hold_secret(f"{key}: {value}"):
                    values[key] = self._redact_value(key, value, report)
        harmless = [item for item in unchecked if values[item[0]] == item[1] and len(item[1]) <= MAX_SESSION_CHARS]
        if len(self._harmless) + len(harmless) > _HARMLESS_LIMIT:
            self._harmless.clear()
        self._harmless.update(harmless)

    def _is_call_id(self, key: str, value: str) -> bool:
        if key != _CALL_KEY or not _CALL_ID.fullmatch(value):
            return False
        return self.tombstones.clean_text(value) == value and not self._own_secrets.occur_in(value)

    def _may_hold_secret(self, text: str) -> bool:
        return self._redactor.may_hold_secret(text) or self._own_secrets.occur_in(text)

    def _redact_value(self, key: str, value: str, report: ImportReport) -> str:
        """A value that alone is none is judged again after its key."""
        clean = self.redact_text(value, report)
        if not value or clean != value:
            return clean
        start, quoted = f'{key}: "', value.replace('"', "'")
        line = f'{start}{quoted}"'
        redacted = self.redact_text(line, report)
        return value if redacted == line else redacted[len(start) : -1]


def _bound_name(name: str, value: str) -> str:
    """Return a name within its bound; a hash keeps longer ones different."""
    bound = _NAME_BOUNDS[name]
    return value if len(value) <= bound else f"{value[: bound - 17]}~{encode_base32(hash_parts('long id', value), 16)}"


def _add_root_commit(draft: EventDraft, metadata: dict[str, str]) -> dict[str, str]:
    """Add the repository's root commit to a person's message; no payload can claim it.

    What another store of this program carries in keeps what it has: its directories are not those of this machine.
    """
    if draft.original is not None and draft.original.trust is not None:
        return metadata
    other_metadata = {key: value for key, value in metadata.items() if key != ROOT_COMMIT}
    cwd = draft.metadata.get("cwd", "")
    if draft.type is EventType.USER_MESSAGE and cwd and project_of(cwd) == draft.project and (root := root_commit_of(cwd)):
        return {**other_metadata, ROOT_COMMIT: root}
    return other_metadata


def shorten_text(text: str, bound: int) -> tuple[str, int]:
    """Return `text` cut to about `bound` UTF-8 bytes, and its full size.

    The size is 0 if nothing was cut. Head and tail are kept, with a line between them that says how many bytes were left
    out; a text that was cut so before is not cut again.
    """
    if len(text) * 4 <= bound:
        return text, 0
    raw = text.encode("utf-8")
    if len(raw) <= bound or (len(raw) <= bound + _NOTE_BYTES and _CUT_NOTE.search(text)):
        return text, 0
    half = bound // 2
    head, tail = raw[:half].decode("utf-8", "ignore"), raw[-half:].decode("utf-8", "ignore")
    left_out = len(raw) - 2 * half
    return f"{head.rstrip()}\n[... {left_out} bytes left out ...]\n{tail.lstrip()}", len(raw)
