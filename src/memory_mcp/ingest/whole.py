"""Importers of files that hold whole conversations and are rewritten as they grow: a record and a step are one each."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

from memory_mcp.ingest.base import Growth, ImportReport, Read
from memory_mcp.ingest.files import ClientImporter
from memory_mcp.ingest.lines import Record, iter_records
from memory_mcp.ingest.parts import Tally
from memory_mcp.model.event import EventDraft


class WholeImporter(ABC, ClientImporter):
    """Base of such importers; see `Importer`."""

    name: str
    title: str
    growth = Growth.REWRITTEN
    #: Where a conversation has its messages, and what they are there: a list, or a mapping.
    key: ClassVar[str]
    kind: ClassVar[type] = list
    #: What a record without them is called.
    not_ours: ClassVar[str]

    def records(self, file: Path) -> Iterator[Record]:
        """Yield the conversations of a file, each with its end in bytes as `offset`; what is no JSON object with its error."""
        return iter_records(file)

    def read(self, file: Path, offset: int, report: ImportReport) -> Iterator[Read]:
        """Yield the events of each conversation in one step, from the file's start; others are skipped. May raise OSError."""
        del offset  # what is written anew as a whole is read from its start
        tally = Tally(report, file)
        for record in tally.whole(self.records(file)):
            if isinstance(record.value.get(self.key), self.kind):
                yield Read(tuple(self.conversation(record, file, tally)), record.offset)
            else:
                tally.skip(self.not_ours, record.line, record.quote)
                yield Read((), record.offset)

    @abstractmethod
    def conversation(self, record: Record, file: Path, tally: Tally) -> Iterator[EventDraft]:
        """Yield the events of one conversation, in order; count its messages in `tally`, those without one with the reason."""
        ...
