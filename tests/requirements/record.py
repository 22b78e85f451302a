"""One requirement as a record, and the reasons for which one may wait.

Invariants
1. A record states behaviour, and never how it is tested: the tests that claim it carry its id.
2. A deferred record has a reason, and loses it in the change that brings its first passing test.
"""

from dataclasses import dataclass

NOT_JUDGED_HERE = "judged queries lie outside the repository; bench.judged prints it"
NO_TOPICS = "topic graph is not built yet"


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
