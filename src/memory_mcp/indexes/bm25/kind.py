"""The BM25 kind of index: postings of nodes and of grips."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from memory_mcp.base.dataclass import dataclass
from memory_mcp.base.text import TOKENIZER_VERSION
from memory_mcp.indexes.base import DocType
from memory_mcp.indexes.bm25.postings import FORMS, Postings, TermCounts, count_keys, list_keys
from memory_mcp.indexes.document import DOCUMENT_VERSION, Unit
from memory_mcp.indexes.files import Array, FolderContents

#: Version of the layout of its files.
FORMAT = 2


@dataclass(frozen=True, slots=True)
class PreparedUnit:
    """Term counts of a unit's nodes and grips."""

    nodes: list[TermCounts]
    grips: list[TermCounts]


@dataclass(frozen=True, slots=True)
class Bm25Body:
    """Postings of both tables of a shard."""

    nodes: Postings
    grips: Postings

    def table(self, doc_type: DocType) -> Postings:
        """Return the postings of one table."""
        return self.nodes if doc_type is DocType.NODE else self.grips


class Bm25Kind:
    """The `IndexKind` of keywords, whose bodies are postings."""

    name = "bm25"
    reads_words = True

    def fingerprint(self) -> dict[str, Any]:
        """Return format, documents, tokenizer, and k1, b and length by table."""
        forms = {t.value: [f.k1, f.b, f.average] for t, f in FORMS.items()}
        return {"format": FORMAT, "documents": DOCUMENT_VERSION, "tokenizer": TOKENIZER_VERSION, "forms": forms}

    def child_options(self, reuse: Path | None) -> dict[str, Any]:
        """Return {}: a child process needs none."""
        del reuse
        return {}

    def find_predecessor(self, fingerprint: Mapping[str, Any]) -> None:
        """Return None: a build takes seconds."""
        del fingerprint

    def prepare_unit(self, unit: Unit) -> PreparedUnit:
        """Return the term counts of a unit's documents."""
        # A message quoted whole is a text of its segment and of its grip: cut into terms once.
        texts = dict.fromkeys(text for document in (*unit.nodes, *unit.grips) for text in document.words)
        keys = {text: list_keys(text) for text in texts}
        tables = (unit.nodes, unit.grips)
        return PreparedUnit(*([count_keys([keys[text] for text in d.words]) for d in documents] for documents in tables))

    def build_body(self, prepared: Sequence[PreparedUnit]) -> Bm25Body:
        """Return the postings of prepared units, in order."""
        nodes = Postings.from_counts([counts for unit in prepared for counts in unit.nodes], DocType.NODE)
        grips = Postings.from_counts([counts for unit in prepared for counts in unit.grips], DocType.GRIP)
        return Bm25Body(nodes, grips)

    def merge_bodies(self, bodies: Sequence[Bm25Body], kept_rows: Sequence[tuple[Array, Array]]) -> Bm25Body:
        """Return one body of the kept rows, in order."""
        nodes = Postings.merge([b.nodes for b in bodies], [rows for rows, _ in kept_rows])
        grips = Postings.merge([b.grips for b in bodies], [rows for _, rows in kept_rows])
        return Bm25Body(nodes, grips)

    def write_body(self, body: Bm25Body, directory: Path) -> None:
        """Write the postings of both tables. Raises OSError."""
        body.nodes.write(directory)
        body.grips.write(directory)

    def read_body(self, contents: FolderContents) -> Bm25Body:
        """Return what `write_body` wrote; raises IndexUnreadable."""
        return Bm25Body(*(Postings.read(contents, table) for table in (DocType.NODE, DocType.GRIP)))

    def improve_body(self, body: Bm25Body) -> Bm25Body | None:
        """Return None: there is no faster form."""
        del body
        return None
