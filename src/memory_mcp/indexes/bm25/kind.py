"""The BM25 sort of index: units in, postings of nodes and of grips out."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from memory_mcp.indexes.base import DocType
from memory_mcp.indexes.bm25.postings import FORMS, Counted, Postings, added, counted
from memory_mcp.indexes.document import DOCUMENT_VERSION, IndexDocument, Unit
from memory_mcp.indexes.files import Array, Contents
from memory_mcp.text import TOKENIZER_VERSION

#: Terms of a unit's nodes and of its grips.
_Counted = tuple[list[Counted], list[Counted]]
#: The layout of its files.
FORMAT = 1


@dataclass(frozen=True, slots=True)
class Body:
    """Postings of both tables of a part."""

    nodes: Postings
    grips: Postings

    def table(self, doc_type: DocType) -> Postings:
        """Those of one table."""
        return self.nodes if doc_type is DocType.NODE else self.grips


class Bm25:
    """See Kind."""

    name = "bm25"

    def fingerprint(self) -> dict[str, Any]:
        """See Kind."""
        forms = {t.value: [f.k1, f.b, f.average] for t, f in FORMS.items()}
        return {"format": FORMAT, "documents": DOCUMENT_VERSION, "tokenizer": TOKENIZER_VERSION, "forms": forms}

    def options(self, reuse: Path | None) -> dict[str, Any]:
        """See Kind: nothing."""
        del reuse
        return {}

    def predecessor(self, fingerprint: Mapping[str, Any]) -> None:
        """See Kind: a new one is built in seconds."""
        del fingerprint

    def prepared(self, unit: Unit) -> _Counted:
        """See Kind: the terms of its documents."""
        # A message that is quoted whole is one text of its segment and of its grip: taken apart once.
        known: dict[str, Counted] = {}
        tables = [[_counts(d, known) for d in documents] for documents in (unit.nodes, unit.grips)]
        return tables[0], tables[1]

    def body_of(self, prepared: Sequence[_Counted]) -> Body:
        """See Kind."""
        nodes = [counts for own, _ in prepared for counts in own]
        grips = [counts for _, own in prepared for counts in own]
        return Body(Postings.of(nodes, DocType.NODE), Postings.of(grips, DocType.GRIP))

    def joined(self, bodies: Sequence[Body], kept: Sequence[tuple[Array, Array]]) -> Body:
        """See Kind."""
        nodes = Postings.joined([b.nodes for b in bodies], [rows for rows, _ in kept])
        return Body(nodes, Postings.joined([b.grips for b in bodies], [rows for _, rows in kept]))

    def write(self, body: Body, directory: Path) -> None:
        """See Kind."""
        body.nodes.write(directory)
        body.grips.write(directory)

    def read(self, contents: Contents) -> Body:
        """See Kind."""
        return Body(Postings.read(contents, DocType.NODE), Postings.read(contents, DocType.GRIP))

    def improved(self, body: Body) -> Body | None:
        """See Kind: there is no faster form."""
        del body
        return None


def _counts(document: IndexDocument, known: dict[str, Counted]) -> Counted:
    parts = []
    for text in document.words:
        counts = known.get(text)
        if counts is None:
            counts = known[text] = counted(text)
        parts.append(counts)
    return added(parts)
