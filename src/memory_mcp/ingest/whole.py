"""Importers of files that hold whole conversations and are rewritten as they grow: a record and a step are one each."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

from memory_mcp.ingest.base import Growth, ImportReport, ReadStep
from memory_mcp.ingest.files import ClientImporter
from memory_mcp.ingest.lines import Record, iter_records
from memory_mcp.ingest.parts import Tally
from memory_mcp.model.event import EventDraft


class DocumentImporter(ABC, ClientImporter):
    """Base of such importers; see `Importer`."""

    name: str
    title: str
    growth = Growth.REWRITTEN
    #: Where a conversation has its messages, and what they are there: a list, or a mapping.
    messages_key: ClassVar[str]
    messages_type: ClassVar[type] = list
    #: What a record without them is called.
    skip_reason: ClassVar[str]

    def iter_conversations(self, file: Path) -> Iterator[Record]:
        """Yield the conversations of a file, each with its end in bytes as `offset`; what is no JSON object with its error."""
        return iter_records(file)

    def read_file(self, file: Path, offset: int, report: ImportReport) -> Iterator[ReadStep]:
        """Yield the events of each conversation in one step, from the file's start; others are skipped. May raise OSError."""
        del offset  # what is written anew as a whole is read from its start
        tally = Tally(report, file)
        for record in tally.iter_valid(self.iter_conversations(file)):
            if isinstance(record.value.get(self.messages_key), self.messages_type):
                yield ReadStep(tuple(self.convert_conversation(record, file, tally)), record.offset)
            else:
                tally.skip_record(self.skip_reason, record.line, record.quote)
                yield ReadStep((), record.offset)

    @abstractmethod
    def convert_conversation(self, record: Record, file: Path, tally: Tally) -> Iterator[EventDraft]:
        """Yield the events of one conversation, in order; count its messages in `tally`, those without one with the reason."""
        ...
