"""Removes from this memory what somebody else forgot: whole events, and parts of texts that came back with marks."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from memory_mcp.app import App
from memory_mcp.capture.tombstones import ForgetRequest, TextCut
from memory_mcp.forgetting.act import Forgetting
from memory_mcp.model.event import Event, EventDraft
from memory_mcp.model.sentinel import FORGOTTEN
from memory_mcp.upkeep.archive.others import find_forgotten


@dataclass(slots=True)
class Removal:
    """Events and parts of events that are to be forgotten."""

    gone: list[Event] = field(default_factory=list)
    cuts: list[TextCut] = field(default_factory=list)

    @property
    def events(self) -> set[str]:
        """The ids of the events concerned, whether whole or in part, each once."""
        return {event.event_id for event in (*self.gone, *(cut.event for cut in self.cuts))}

    def carry_out(self, app: App, author: str) -> int:
        """Forget them for good, as by `author`, and return how many events that concerned; raises what forgetting raises."""
        if self.events:
            selection = ForgetRequest(events=self.gone, cuts=self.cuts)
            Forgetting(app).carry_out(selection, app.gate.clean_name(author), "shared events")
        return len(self.events)


def find_cuts(event: Event, copy: EventDraft) -> list[TextCut] | None:
    """Return the parts of a stored event that its `copy` has as marks of forgetting, one `Cut` for each changed text.

    The text and the metadata that both have are compared. [] where nothing is forgotten, None where a part is not found.
    """
    pairs = [(event.text, copy.text)]
    pairs += [(event.metadata[key], value) for key, value in copy.metadata.items() if key in event.metadata]
    cuts = []
    for stored_text, copy_text in pairs:
        if FORGOTTEN not in copy_text or stored_text == copy_text:
            continue
        spans = find_forgotten(copy_text, stored_text)
        if spans is None:
            return None
        if spans:
            cuts.append(TextCut(event, stored_text, spans))
    return cuts


def add(removal: Removal, event: Event, cuts: Sequence[TextCut] | None) -> None:
    """Add to `removal` the cuts that `cuts_of` gave of an event.

    The whole event where they are None.
    """
    if cuts is None:
        removal.gone.append(event)
    else:
        removal.cuts += cuts
