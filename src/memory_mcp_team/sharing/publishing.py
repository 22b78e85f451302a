"""Sends what is new in shared projects to their space, and with it what was forgotten and corrected here.

Invariants
1. How far everything was looked at is stored after it was acknowledged: killed anywhere, a run sends once more what the
   server may have, which knows it by its id.
2. Of what was forgotten here only ids leave, and only of events that are there.
3. What came from the space is not sent back to it, unless something of it was forgotten here.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from memory_mcp.app import App
from memory_mcp.base.errors import ResourceExhausted
from memory_mcp.base.failpoints import failpoint
from memory_mcp.model.event import Event, EventDraft
from memory_mcp.model.ids import EventId
from memory_mcp.model.sentinel import FORGOTTEN
from memory_mcp_team.sharing.client import ShareClient
from memory_mcp_team.sharing.leaving import LeavingFilter, make_rules_digest
from memory_mcp_team.sharing.place import OURS, Ledger, Progress, ShareFolder, Sharing, make_space_mark
from memory_mcp_team.sharing.position import Position, follow_position
from memory_mcp_team.sharing.said import list_corrections, make_corrections_stamp
from memory_mcp_team.sharing.wire import MAX_CHARS, MAX_EVENTS, MAX_IDS, corrections_to_json, count_chars, events_to_json

#: Marks of the store: how far it was looked at for a space and by which rules, and which corrections were told. On disk.
OUT, SAID = "share:out:", "share:said:"
#: Refusals that are kept for people.
_REFUSALS = 20


@dataclass(slots=True)
class PublishRun:
    """The publishing half of a run with one space."""

    app: App
    place: ShareFolder
    client: ShareClient
    space: str
    progress: Progress
    should_stop: Callable[[], bool]
    sent: int = 0
    _sharing: Sharing = field(init=False)
    _ledger: Ledger = field(init=False)
    _mark: str = field(init=False)

    def __post_init__(self) -> None:
        """Read what is shared, and name the space's ledger and marks.

        Raises StorageError when the file of sharing is damaged.
        """
        self._sharing = self.place.load_sharing()
        self._ledger = self.place.open_ledger(self._sharing.url, self.space)
        self._mark = make_space_mark(self._sharing.url, self.space)

    def run(self) -> None:
        """Send new events, ids of what was forgotten here, and corrections.

        Store how far everything was looked at. All events are looked at again, and the counts of what is kept back
        begin anew, when what is shared, or a project's name, has changed. When `should_stop` ends it early, no
        position is stored. Raises what the client raises.
        """
        storage = self.app.storage
        stored_position, _, rules = storage.outbox.get_positions(OUT + self._mark).get(OUT + self._mark, "").partition("~")
        previous_position = Position.parse(stored_position)
        position, gone = follow_position(storage, previous_position)
        now = make_rules_digest(self._sharing, self.space, storage.projects.names)
        seq = position.seq if rules == now else 0
        if not seq:
            self.progress.kept_back.clear()
        while not self.should_stop() and (batch := storage.events.read_after(seq, MAX_EVENTS)):
            self._send_all([entry.event for entry in batch])
            seq = batch[-1].seq
        # Which of the events there were forgotten here.
        still = storage.events.get_events(gone) if gone else {}
        space_ids = [
            space_id
            for event_id in gone
            if event_id not in still and (space_id := self._ledger.find_id_there(event_id)) is not None
        ]
        for start in range(0, len(space_ids), MAX_IDS):
            self._hand_over({"gone": space_ids[start : start + MAX_IDS]})
        # All corrections and retractions of statements whose events are there, where any of them is new.
        corrections = list_corrections(self.app, lambda event: self._ledger.find_id_there(event.event_id))
        stamp, name = make_corrections_stamp([correction.superseded for correction in corrections]), SAID + self._mark
        if corrections and storage.outbox.get_positions(name).get(name) != stamp:
            self._hand_over({"corrections": corrections_to_json(corrections)})
            storage.outbox.set_position(name, stamp)
        if self.should_stop():
            return
        batch = storage.events.read_after(seq - 1, 1) if seq else []
        at = position.move_to(seq, batch[0].event.event_id) if batch else Position(0, "", position.change, position.mark)
        if storage.outbox.get_positions(OUT + self._mark).get(OUT + self._mark) != f"{at}~{now}":
            storage.outbox.set_position(OUT + self._mark, f"{at}~{now}")

    def _send_all(self, events: Sequence[Event]) -> None:
        """Send those of some events that may leave, and are not there or were partly forgotten, in batches.

        A batch has up to 2,000,000 characters, or one longer event. What is kept back is counted in the progress.
        """
        leaving = self._make_filter()
        candidates = []
        for event in events:
            is_partly_forgotten = any(FORGOTTEN in text for text in (event.text, *event.metadata.values()))
            if leaving.find_project(event) and (event.event_id not in self._ledger or is_partly_forgotten):
                candidates.append(event)
        cleaned = leaving.cleaned(candidates)
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
        """Read again what is shared, and return the decider for it: a project may have been withdrawn meanwhile."""
        self._sharing = self.place.load_sharing()
        return LeavingFilter.for_space(self.app, self._sharing, self.space)

    def _send_batch(self, batch: Sequence[tuple[Event, EventDraft]]) -> None:
        """Send those of a batch that may still leave, in halves where it is too large for the server; note them in the ledger.

        Raises ResourceExhausted when a single event is too large, and what the client raises.
        """
        may = self._make_filter()
        batch = [(event, draft) for event, draft in batch if may.find_project(event) == draft.project]
        if not batch:
            return
        try:
            answer = self._hand_over({"events": events_to_json(draft for _, draft in batch)})
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
        self._ledger.add(OURS, [(local_id, EventId(renamed.get(space_id, space_id))) for local_id, space_id in id_pairs])
        for _, draft in new:
            count = self.progress.left.get(draft.project, [0, 0])[0]
            self.progress.left[draft.project] = [count + 1, self.app.clock.now_ms()]
        self.sent += len(new)

    def _hand_over(self, batch: dict[str, Any]) -> dict[str, Any]:
        """Send a part of a batch, and add to the progress what the server forgot, left out and refused; return the answer.

        The last 20 refusals are kept, the same one once. `batch` holds any of events, gone and corrections.
        """
        answer = self.client.publish(self.space, {"cursor": "", **batch})
        self.progress.forgotten_there += int(answer.get("forgotten", 0))
        for why, count in (answer.get("left_out") or {}).items():
            name = f"{why} (there)"
            self.progress.kept_back[name] = self.progress.kept_back.get(name, 0) + int(count)
        refused = [{str(k): str(v) for k, v in refusal.items()} for refusal in answer.get("refused") or ()]
        earlier_refusals = [refusal for refusal in self.progress.refused if refusal not in refused]
        self.progress.refused = [*earlier_refusals, *refused][-_REFUSALS:]
        return answer
