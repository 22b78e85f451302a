"""One requirement as a record, and the files that hold them, one for each part of the specifications.

Invariants
1. A record states behaviour, and never how it is tested: the tests that claim it carry its id.
2. A deferred record has a reason, and loses it in the change that brings its first passing test.

A file has a table for each place of a document, and in it a behaviour by its requirement's id; a requirement that is deferred
or that the design departs from has keys of these names beside `behaviour`.
"""

import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Requirement:
    """What one place of the specifications asks for."""

    #: prefix by document or kind, then the document's own number or a slug: "policy:FR-01"
    id: str
    #: where it stands: file, then `section 5.1`, `section "Goals"` or `appendix C`; "; " between
    source: str
    #: one sentence in this project's terms: an MCP tool or command, DuckDB, bm25s, usearch
    behaviour: str
    #: why it is not built yet; empty when it is
    deferred: str = ""
    #: how the design departs from the document's wording, and why; empty when it does not
    departure: str = ""


def read(path: Path) -> Iterator[Requirement]:
    """Yield the requirements of a file, in order; TypeError for a key that no record has."""
    for source, asked in tomllib.loads(path.read_text(encoding="utf-8")).items():
        for name, told in asked.items():
            yield Requirement(name, source, **({"behaviour": told} if isinstance(told, str) else told))
