"""Store the files that hooks left in the spool, each exactly once, in order of their names, which is that of time.

Invariants
1. A file is removed only after its events are acknowledged; read again after a crash it stores nothing twice, because
   ids follow from its name.
2. No file stops another: of what cannot be understood, `bad/` keeps the reason and the text without secrets, for a while;
   it is told in the report.
3. Only a file in `new/` is whole; what lies in `tmp/` belongs to a hook that is writing, or was killed.
4. What a client tells two hooks in the same moment, such as a plugin's and one set by hand, is stored once.
"""

import json
import os
import stat
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import groupby
from pathlib import Path

from memory_mcp.base import foreign_files, machine
from memory_mcp.base.dataclass import dataclass
from memory_mcp.base.failpoints import failpoint
from memory_mcp.capture.gate import Gate, shorten_text
from memory_mcp.capture.hooks.base import Envelope, HookEvents, Hooks, MalformedPayload, delivery_key
from memory_mcp.capture.hooks.codex import sender_of
from memory_mcp.capture.log import EventLog
from memory_mcp.capture.running import PIDS
from memory_mcp.importers.base import ImportReport
from memory_mcp.model.event import HOOK, EventDraft, EventType
from memory_mcp.model.ids import hash_parts
from memory_mcp.redact.redact import strip_private

#: Files stored in one transaction, and the characters after which it ends earlier.
BATCH, BATCH_CHARS = 100, 4 * 1024 * 1024
#: A hook takes a moment; what it has not finished after a day it never will (seconds).
STALE_S = 86_400
#: How long unreadable payloads are kept for debugging (seconds), and how much of each (bytes).
BAD_RETENTION_S, BAD_BYTES = 30 * 86_400, 256 * 1024
#: Hooks of one event start together; on a busy machine one may come this much after the other (milliseconds).
REPEATED_MS = 10_000
#: Why a payload that another hook has brought already holds nothing to keep.
REPEATED = "told twice"
#: Longest header that is looked for, bytes: two paths and a few numbers.
_HEADER = 64 * 1024
_OLDEST_FORM = 1
#: Number of remembered payloads above which old ones are dropped.
_MOST_RECENT = 1_000


@dataclass(slots=True)
class DrainReport(ImportReport):
    """Counts of a drain: `files` are payloads, `lines` those parsed.

    `skipped` are those without content to keep.
    """

    #: Payloads set aside in `bad/`; the reasons are the keys of `quotes`.
    bad: int = 0
    #: Files of hooks that were killed while writing and payloads set aside long ago, swept.
    swept: int = 0
    #: Payloads left where they are for the next drain.
    left: int = 0
    #: Sessions that ended.
    ended: int = 0


@dataclass(frozen=True, slots=True)
class _Payload:
    file: Path
    client: str
    drafts: tuple[EventDraft, ...]
    #: The project of a session that ends with it, and when; "" for any other payload.
    ended_project: str
    at_ms: int

    @property
    def char_count(self) -> int:
        return sum(len(d.text) for d in self.drafts)


class _RecentPayloads:
    """The events of the last moments, by what was delivered (`delivery_key`)."""

    def __init__(self) -> None:
        #: By client and content: the file that brought it first, and when.
        self._seen: dict[tuple[str, int], tuple[str, int]] = {}

    def is_repeated(self, client: str, envelope: Envelope, content: str) -> bool:
        """Return whether another file brought the same within 10 s.

        If not, it is remembered from now on.
        """
        key = (client, hash_parts(content))
        name, at_ms = self._seen.get(key, ("", 0))
        # A file that could not be stored comes again under its own name.
        if name not in ("", envelope.name) and abs(envelope.received_ms - at_ms) <= REPEATED_MS:
            return True
        if len(self._seen) >= _MOST_RECENT:
            self._seen = {k: v for k, v in self._seen.items() if envelope.received_ms - v[1] <= REPEATED_MS}
        self._seen[key] = (envelope.name, envelope.received_ms)
        return False


class Spool:
    """The spool of one data directory; one thread drains."""

    def __init__(
        self,
        directory: Path,
        log: EventLog,
        gate: Gate,
        hooks: Mapping[str, Hooks],
        on_end: Callable[[Mapping[str, int]], None] | None = None,
    ) -> None:
        """Take the parts.

        After events are stored, `on_end` gets the projects whose sessions ended and their times (UTC ms).
        """
        self._directory = directory
        self._log = log
        self._gate = gate
        self._hooks = hooks
        self._on_end = on_end
        self._draining = threading.Lock()
        self._recent_payloads = _RecentPayloads()

    def count_waiting(self) -> int:
        """Return the number of payloads that are not stored yet."""
        return len(self._list_names())

    def drain(self, limit: int | None = None) -> DrainReport:
        """Store the files that are in `new/` now, oldest first.

        At most `limit`; later ones wait for the next drain. One thread drains at a time, others wait. Payloads that cannot
        be understood go to `bad/`; old files there and of killed hooks are removed. Raises what storing raises; what was not
        stored stays.
        """
        report = DrainReport()
        with self._draining:
            names = self._list_names()
            report.left = max(0, len(names) - limit) if limit is not None else 0
            for batch in self._iter_batches(names[:limit], report):
                self._store_batch(batch, report)
            # Remove old files that killed hooks left half written or that could not be parsed.
            now = time.time()
            for folder, kept_s in (("tmp", STALE_S), ("bad", BAD_RETENTION_S)):
                for path, state in machine.iter_files(self._directory / folder):
                    if state.st_mtime < now - kept_s:
                        # Another process may remove it first.
                        with suppress(OSError):
                            Path(path).unlink()
                            report.swept += 1
        return report

    def _list_names(self) -> list[str]:
        try:
            new = self._directory / "new"
            return [] if new.is_symlink() else sorted(entry.name for entry in new.iterdir())
        except OSError:
            return []

    def _iter_batches(self, names: Sequence[str], report: DrainReport) -> Iterator[list[_Payload]]:
        batch: list[_Payload] = []
        chars = 0
        for name in names:
            payload = self._read_payload(self._directory / "new" / name, report)
            if payload is None:
                continue
            batch.append(payload)
            chars += payload.char_count
            if len(batch) >= BATCH or chars >= BATCH_CHARS:
                yield batch
                batch, chars = [], 0
        if batch:
            yield batch

    def _read_payload(self, file: Path, report: DrainReport) -> _Payload | None:
        """Return one payload; None if set aside or left unread.

        A repeated payload, or one without content, has no drafts. Drafts have passed the gate.
        """
        try:
            mode = file.lstat().st_mode
            if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
                # Set aside unread: a link's target is no payload, and reading a pipe would block all later payloads.
                self._set_aside(file, "a link or a pipe, not a payload", b"", report)
                return None
            raw = foreign_files.read_file(file, -1)
        except OSError as error:
            report.add_failure(file, str(error))
            report.left += 1
            return None
        report.files += 1
        report.bytes += len(raw)
        try:
            client, envelope, payload = _parse_file(file.name, raw)
            if client not in self._hooks:
                raise MalformedPayload("unknown client")
            client = sender_of(client, payload)
            events = self._hooks[client].parse_payload(payload, envelope)
            content = delivery_key(payload, events.drafts)
            if self._hooks[client].ONE_PER_MOMENT and self._recent_payloads.is_repeated(client, envelope, content):
                events = HookEvents(skip_reason=REPEATED)
        except MalformedPayload as error:
            self._set_aside(file, str(error), raw, report)
            return None
        except Exception as error:
            self._set_aside(file, f"{type(error).__name__}: {error}", raw, report)
            return None
        if events.skip_reason:
            report.skipped[events.skip_reason] += 1
        report.lines += 1
        report.lines_used += bool(events.drafts)
        drafts = [_add_processes(draft, envelope.pids) for draft in events.drafts]
        clean_drafts = [draft for draft_read in drafts if (draft := self._gate.clean_draft(draft_read, report)) is not None]
        return _Payload(file, client, tuple(clean_drafts), events.ended_project, envelope.received_ms)

    def _set_aside(self, file: Path, reason: str, raw: bytes, report: DrainReport) -> None:
        """Keep the reason and the text without secrets in `bad/`."""
        report.bad += 1
        # Cut after redaction, so that no half of a secret is left.
        clean = self._gate.redact_text(strip_private(raw.decode("utf-8", "replace").replace("\0", "\ufffd")), ImportReport())
        report.add_quote(reason[:200], file.name, 0, clean.partition("\n")[2][:4096])
        head = json.dumps({"reason": self._gate.redact_text(reason, ImportReport()), "bytes": len(raw)})
        try:
            for folder in (self._directory / "bad", self._directory / "tmp"):
                folder.mkdir(mode=0o700, exist_ok=True)
                if folder.is_symlink():
                    raise OSError(f"{folder} is a link")
            aside = self._directory / "tmp" / f"{file.name}.bad"
            aside.unlink(missing_ok=True)
            aside.touch(mode=0o600, exist_ok=False)
            aside.write_text(f"{head}\n{shorten_text(clean, BAD_BYTES)[0]}", encoding="utf-8", errors="replace")
            os.replace(aside, self._directory / "bad" / file.name)
            file.unlink()
        except OSError as error:
            report.add_failure(file, str(error))
            report.left += 1
            return
        failpoint("drain.set_aside")

    def _store_batch(self, batch: Sequence[_Payload], report: DrainReport) -> None:
        """Store each client's run of files in one transaction."""
        for client, several in groupby(batch, key=lambda p: p.client):
            run = list(several)
            drafts = [draft for payload in run for draft in payload.drafts]
            if drafts:
                stored = self._log.append(drafts, HOOK + client)
                report.new += len(stored.new_ids)
                report.known += len(stored.known_ids)
                report.ended += sum(draft.type is EventType.SESSION_END for draft in drafts)
                failpoint("drain.stored")
            ended = {payload.ended_project: payload.at_ms for payload in run if payload.ended_project}
            if ended and self._on_end is not None:
                self._on_end(ended)
            for payload in run:
                with suppress(FileNotFoundError):
                    payload.file.unlink()
                failpoint("drain.file_removed")


def _add_processes(draft: EventDraft, pids: str) -> EventDraft:
    has_process = draft.type in (EventType.USER_MESSAGE, EventType.SESSION_START) and pids
    return replace(draft, metadata={**draft.metadata, PIDS: pids}) if has_process else draft


def _parse_file(name: str, raw: bytes) -> tuple[str, Envelope, str]:
    """Raises MalformedPayload for another form or a cut payload."""
    line, feed, payload = raw.partition(b"\n")
    try:
        head = json.loads(line) if feed and len(line) <= _HEADER else None
        version, client, at_ns = int(head["v"]), str(head["client"]), int(head["at_ns"])  # type: ignore[index]
    except (ValueError, TypeError, KeyError, RecursionError):
        raise MalformedPayload("no envelope") from None
    assert isinstance(head, dict)
    if version != _OLDEST_FORM:
        raise MalformedPayload(f"an envelope of form {version}")
    if head.get("cut"):
        raise MalformedPayload("longer than a hook keeps")
    project_dir, cwd, pids = (str(head.get(key, "")) for key in ("project_dir", "cwd", "pids"))
    envelope = Envelope(name, at_ns // 1_000_000, project_dir, cwd, pids)
    return client, envelope, payload.decode("utf-8-sig", "replace")
