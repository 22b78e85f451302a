"""Sends what is new in shared projects to their space, and with it what was forgotten and corrected here.

Invariants
1. How far everything was looked at is stored after it was acknowledged: killed anywhere, a run sends once more what the
   server may have, which knows it by its id.
2. Of what was forgotten here only ids leave, and only of events that are there.
3. What came from the space is not sent back to it, unless something of it was forgotten here.
"""

from collections.abc import Callable, Sequence
from dataclasses import field
from typing import Any

from memory_mcp.app import App
from memory_mcp.base.dataclass import dataclass
from memory_mcp.base.errors import ResourceExhausted
from memory_mcp.base.failpoints import failpoint
from memory_mcp.model.event import Event, EventDraft
from memory_mcp.model.ids import EventId
from memory_mcp.model.sentinel import FORGOTTEN
from memory_mcp_team.sharing.amendments import list_corrections, make_corrections_stamp
from memory_mcp_team.sharing.client import ShareClient
from memory_mcp_team.sharing.files import OURS, Ledger, Progress, ShareFolder, Sharing, make_space_mark
from memory_mcp_team.sharing.leaving import LeavingFilter, make_rules_digest
from memory_mcp_team.sharing.position import Position, follow_position
from memory_mcp_team.sharing.wire import MAX_CHARS, MAX_EVENTS, MAX_IDS, corrections_to_json, count_chars, events_to_json

#: Marks of the store: how far it was looked at for a space and by which rules, and which corrections were sent. On disk.
PUBLISHED_MARK, CORRECTIONS_MARK = "share:out:", "share:said:"
#: Refusals that are kept for people.
_REFUSALS = 20


@dataclass(slots=True)
class PublishRun:
    """The publishing half of a run with one space."""

    app: App
    folder: ShareFolder
    client: ShareClient
    space: str
    progress: Progress
    should_stop: Callable[[], bool]
    sent_count: int = 0
    _sharing: Sharing = field(init=False)
    _ledger: Ledger = field(init=False)
    _mark: str = field(init=False)

    def __post_init__(self) -> None:
        self._sharing = self.folder.load_sharing()
        self._ledger = self.folder.open_ledger(self._sharing.url, self.space)
        self._mark = make_space_mark(self._sharing.url, self.space)

    def run(self) -> None:
        """Send new events, ids of what was forgotten here, and corrections.

        All events are looked at again if what is shared, or a project's name, has changed. If `should_stop` ends it early, no
        position is stored. Raises what the client raises.
        """
        storage = self.app.storage
        mark = PUBLISHED_MARK + self._mark
        stored_mark = storage.outbox.get_positions(mark).get(mark, "")
        stored_position, _, rules = stored_mark.partition("~")
        position, gone = follow_position(storage, Position.parse(stored_position))
        now = make_rules_digest(self._sharing, self.space, storage.projects.names)
        seq = position.seq if rules == now else 0
        if not seq:
            self.progress.kept_back.clear()
        while not self.should_stop() and (batch := storage.events.read_after(seq, MAX_EVENTS)):
            self._send_all([entry.event for entry in batch])
            seq = batch[-1].seq
        self._send_forgotten(gone)
        self._send_corrections()
        if self.should_stop():
            return
        batch = storage.events.read_after(seq - 1, 1) if seq else []
        at = position.move_to(seq, batch[0].event.event_id) if batch else Position(0, "", position.change, position.mark)
        if stored_mark != f"{at}~{now}":
            storage.outbox.set_position(mark, f"{at}~{now}")

    def _send_forgotten(self, gone: Sequence[EventId]) -> None:
        still = self.app.storage.events.get_events(gone) if gone else {}
        space_ids = [
            space_id
            for event_id in gone
            if event_id not in still and (space_id := self._ledger.find_space_id(event_id)) is not None
        ]
        for start in range(0, len(space_ids), MAX_IDS):
            self._send_part({"gone": space_ids[start : start + MAX_IDS]})

    def _send_corrections(self) -> None:
        outbox = self.app.storage.outbox
        corrections = list_corrections(self.app, lambda event: self._ledger.find_space_id(event.event_id))
        stamp, name = make_corrections_stamp([correction.superseded for correction in corrections]), CORRECTIONS_MARK + self._mark
        if corrections and outbox.get_positions(name).get(name) != stamp:
            self._send_part({"corrections": corrections_to_json(corrections)})
            outbox.set_position(name, stamp)

    def _send_all(self, events: Sequence[Event]) -> None:
        """Send, in batches, those events that may leave and are not there.

        Events of which something was forgotten are sent again.
        """
        leaving = self._make_filter()
        candidates = []
        for event in events:
            is_partly_forgotten = any(FORGOTTEN in text for text in (event.text, *event.metadata.values()))
            if leaving.find_project(event) and (event.event_id not in self._ledger or is_partly_forgotten):
                candidates.append(event)
        cleaned = leaving.clean_leaving(candidates)
        for why, count in leaving.kept_back.items():
            self.progress.kept_back[why] = self.progress.kept_back.get(why, 0) + count
        batch: list[tuple[Event, EventDraft]] = []
        chars = 0
        for pair in cleaned:
            if batch and chars + count_chars(pair[1]) > MAX_CHARS:
                self._send_batch(batch)
                batch, chars = [], 0
            batch.append(pair)
            chars += count_chars(pair[1])
        if batch:
            self._send_batch(batch)

    def _make_filter(self) -> LeavingFilter:
        """Read again what is shared: a project may have been withdrawn meanwhile."""
        self._sharing = self.folder.load_sharing()
        return LeavingFilter.for_space(self.app, self._sharing, self.space)

    def _send_batch(self, batch: Sequence[tuple[Event, EventDraft]]) -> None:
        may = self._make_filter()
        batch = [(event, draft) for event, draft in batch if may.find_project(event) == draft.project]
        if not batch:
            return
        try:
            answer = self._send_part({"events": events_to_json(draft for _, draft in batch)})
        except ResourceExhausted:
            if len(batch) == 1:
                raise
            self._send_batch(batch[: len(batch) // 2])
            self._send_batch(batch[len(batch) // 2 :])
            return
        failpoint("share.sent")
        renamed = answer.get("renamed") or {}
        new = [(event, draft) for event, draft in batch if event.event_id not in self._ledger]
        id_pairs = [(event.event_id, draft.original.event_id if draft.original else EventId("")) for event, draft in batch]
        self._ledger.add_pairs(OURS, [(local_id, EventId(renamed.get(space_id, space_id))) for local_id, space_id in id_pairs])
        for _, draft in new:
            count = self.progress.left.get(draft.project, [0, 0])[0]
            self.progress.left[draft.project] = [count + 1, self.app.clock.now_ms()]
        self.sent_count += len(new)

    def _send_part(self, batch: dict[str, Any]) -> dict[str, Any]:
        answer = self.client.publish_batch(self.space, {"cursor": "", **batch})
        self.progress.forgotten_there += int(answer.get("forgotten", 0))
        for why, count in (answer.get("left_out") or {}).items():
            name = f"{why} (there)"
            self.progress.kept_back[name] = self.progress.kept_back.get(name, 0) + int(count)
        refused = [{str(k): str(v) for k, v in refusal.items()} for refusal in answer.get("refused") or ()]
        earlier_refusals = [refusal for refusal in self.progress.refused if refusal not in refused]
        self.progress.refused = [*earlier_refusals, *refused][-_REFUSALS:]
        return answer
