"""The BM25 document's FR and NFR as records, one per criterion, row or bullet."""

from tests.requirements.record import Requirement

SECTION_10 = "bm25-teleport-prd.md section 10"
SECTION_11 = "bm25-teleport-prd.md section 11"

BM25: tuple[Requirement, ...] = (
    Requirement(
        "bm25:FR-01.1",
        SECTION_10,
        "The BM25 engine is a declared dependency of the package.",
        departure=("The engine is bm25s instead of Tantivy 0.25, because the system is written in Python here."),
    ),
    Requirement(
        "bm25:FR-01.2",
        SECTION_10,
        "The BM25 index has a room of its own with schema, indexing and searching apart.",
        departure=("The room is indexes/bm25 of the one package instead of a crate, because this is one Python package."),
    ),
    Requirement(
        "bm25:FR-01.3",
        SECTION_10,
        "Indexed documents carry doc_type, doc_id, level, text, keywords and timestamp_ms.",
        departure=(
            "The index keeps keys and term counts and no text: ids follow from the keys, and keywords are "
            "read from the store when a result is shown, because an index is never believed. The tools call "
            "them id and kind, as in every answer of theirs; doc_id and doc_type are the names on the "
            "command line."
        ),
    ),
    Requirement(
        "bm25:FR-01.4",
        SECTION_10,
        "The index lives at a configurable path inside the data directory by default.",
    ),
    Requirement(
        "bm25:FR-01.5",
        SECTION_10,
        "On start an existing index is opened and a missing one is created.",
    ),
    Requirement(
        "bm25:FR-02.1",
        SECTION_10,
        "TOC nodes are indexed with title, bullets and keywords as searchable text.",
        departure=(
            "A segment is indexed with its events' own words as well, because over summaries alone the right "
            "session comes first 51.5 % of the time and over both 73.4 %; the summary repeats the bullets "
            "and is left out."
        ),
    ),
    Requirement(
        "bm25:FR-02.2",
        SECTION_10,
        "Grips are indexed with their excerpt as searchable text.",
    ),
    Requirement(
        "bm25:FR-02.3",
        SECTION_10,
        "doc_type filters a search by document type.",
    ),
    Requirement(
        "bm25:FR-02.4",
        SECTION_10,
        "Indexing a document again replaces the earlier one.",
    ),
    Requirement(
        "bm25:FR-02.5",
        SECTION_10,
        "Documents are indexed in batches for the first population.",
    ),
    Requirement(
        "bm25:FR-03.1",
        SECTION_10,
        "teleport_search accepts a query, an optional doc_type and a limit.",
    ),
    Requirement(
        "bm25:FR-03.2",
        SECTION_10,
        "teleport_search returns ranked results with doc_id, doc_type and score.",
        departure=(
            "The tools call them id and kind, as in every answer of theirs and doc_id and doc_type are the "
            "command line's, because agents read many kinds of results."
        ),
    ),
    Requirement(
        "bm25:FR-03.3",
        SECTION_10,
        "Results are scored by BM25.",
        departure=(
            "bm25s makes the term-frequency parts (k1 0.9 and b 0.4 for grips, 1.5 and 0.75 for nodes, "
            "average lengths pinned) and inverse document frequency is computed for each query, because "
            "following must equal rebuilding; a query is words instead of syntax, because no punctuation may "
            "make it fail."
        ),
    ),
    Requirement(
        "bm25:FR-03.4",
        SECTION_10,
        "A typical teleport_search takes less than 100 ms.",
    ),
    Requirement(
        "bm25:FR-03.5",
        SECTION_10,
        "An empty query is answered by INVALID_ARGUMENT, and never by all documents.",
    ),
    Requirement(
        "bm25:FR-04.1",
        SECTION_10,
        "Pending index changes are committed periodically, after 60 s by default, configurable.",
        departure=(
            "The interval is the longest time until a tail is persisted, because an event must be findable within 2 s regardless."
        ),
    ),
    Requirement(
        "bm25:FR-04.2",
        SECTION_10,
        "The commit job is registered with the scheduler.",
    ),
    Requirement(
        "bm25:FR-04.3",
        SECTION_10,
        "Searches see a commit as soon as it is made.",
    ),
    Requirement(
        "bm25:FR-04.4",
        SECTION_10,
        "A graceful shutdown commits pending changes.",
    ),
    Requirement(
        "bm25:FR-05.1",
        SECTION_10,
        'The command "teleport search QUERY" performs a BM25 search.',
    ),
    Requirement(
        "bm25:FR-05.2",
        SECTION_10,
        "The flag --type filters by toc_node or grip.",
    ),
    Requirement(
        "bm25:FR-05.3",
        SECTION_10,
        "The flag --limit caps the results, at 10 by default.",
    ),
    Requirement(
        "bm25:FR-05.4",
        SECTION_10,
        "The output shows doc_id, doc_type and score in readable form.",
    ),
    Requirement(
        "bm25:FR-06.1",
        SECTION_10,
        'The command "admin rebuild-index" rebuilds the index from TOC nodes and grips.',
    ),
    Requirement(
        "bm25:FR-06.2",
        SECTION_10,
        "A rebuild reports its progress.",
    ),
    Requirement(
        "bm25:FR-06.3",
        SECTION_10,
        "A rebuild replaces the old index atomically.",
    ),
    Requirement(
        "bm25:FR-06.4",
        SECTION_10,
        "A rebuild of 10,000 documents completes in less than 60 s.",
    ),
    Requirement(
        "bm25:FR-07.1",
        SECTION_10,
        "get_teleport_status returns the teleport's configuration and health.",
    ),
    Requirement(
        "bm25:FR-07.2",
        SECTION_10,
        "The status reports whether BM25 is enabled in the settings.",
    ),
    Requirement(
        "bm25:FR-07.3",
        SECTION_10,
        ("The status reports whether BM25 is healthy, that is, whether its index exists and is readable."),
    ),
    Requirement(
        "bm25:FR-07.4",
        SECTION_10,
        "The status reports a document count for each index type.",
    ),
    Requirement(
        "bm25:FR-07.5",
        SECTION_10,
        "The status holds a message that people can read.",
    ),
    Requirement(
        "bm25:FR-07.6",
        SECTION_10,
        "A skill asks for the status before it uses teleport.",
    ),
    Requirement(
        "bm25:FR-08.1",
        SECTION_10,
        "The setting teleport.enabled switches all teleport indexes.",
    ),
    Requirement(
        "bm25:FR-08.2",
        SECTION_10,
        "The settings teleport.bm25.enabled and teleport.vector.enabled switch one index each.",
    ),
    Requirement(
        "bm25:FR-08.3",
        SECTION_10,
        "Index path, memory budget and commit interval are configurable.",
    ),
    Requirement(
        "bm25:FR-08.4",
        SECTION_10,
        ("A changed setting takes effect with a restart of the daemon, which connected clients do not notice."),
    ),
    Requirement(
        "bm25:FR-08.5",
        SECTION_10,
        "BM25 is enabled by default.",
        departure=("Vectors are enabled by default too, because their embedding model ships with the package."),
    ),
    Requirement(
        "bm25:FR-09.1",
        SECTION_10,
        "Retention days in the BM25 index are configurable for segment, day, week and month.",
    ),
    Requirement(
        "bm25:FR-09.2",
        SECTION_10,
        "A scheduled job prunes the index, at 03:00 daily by default.",
        departure=(
            "A missed run is caught up and pruning starts only past retention_min_docs, because "
            "laptops sleep and below that size pruning only loses recall."
        ),
    ),
    Requirement(
        "bm25:FR-09.3",
        SECTION_10,
        "Pruning removes BM25 documents only, and leaves events, nodes and grips untouched.",
    ),
    Requirement(
        "bm25:FR-09.4",
        SECTION_10,
        "The index is compacted after a prune.",
    ),
    Requirement(
        "bm25:FR-09.5",
        SECTION_10,
        "The status reports the time of the last prune and how many documents it removed.",
    ),
    Requirement(
        "bm25:FR-09.6",
        SECTION_10,
        'The command "admin prune-bm25 --age-days N --level segment|day|week|all" prunes by hand.',
    ),
    Requirement(
        "bm25:NFR-01.1",
        SECTION_11,
        "The median search takes less than 20 ms.",
    ),
    Requirement(
        "bm25:NFR-01.2",
        SECTION_11,
        "The 99th percentile of searches takes less than 100 ms.",
    ),
    Requirement(
        "bm25:NFR-01.3",
        SECTION_11,
        "An index commit takes less than 500 ms.",
    ),
    Requirement(
        "bm25:NFR-01.4",
        SECTION_11,
        "A rebuild indexes more than 1,000 documents a second.",
    ),
    Requirement(
        "bm25:NFR-02.1",
        SECTION_11,
        "A corrupt index is detected and reported by the status tools.",
    ),
    Requirement(
        "bm25:NFR-02.2",
        SECTION_11,
        "A rebuild recovers from any corruption of the index.",
    ),
    Requirement(
        "bm25:NFR-02.3",
        SECTION_11,
        "A missing index starts empty and does not keep the daemon from starting.",
    ),
    Requirement(
        "bm25:NFR-02.4",
        SECTION_11,
        "A failed commit is logged and does not end the daemon.",
    ),
    Requirement(
        "bm25:NFR-03.1",
        SECTION_11,
        "The index handles more than 100,000 documents.",
    ),
    Requirement(
        "bm25:NFR-03.2",
        SECTION_11,
        "The index takes less than 100 MB of memory under a typical workload.",
    ),
    Requirement(
        "bm25:NFR-03.3",
        SECTION_11,
        "The index grows sub-linearly with the TOC.",
    ),
    Requirement(
        "bm25:NFR-04.1",
        SECTION_11,
        "Every index operation is logged with tracing spans.",
    ),
    Requirement(
        "bm25:NFR-04.2",
        SECTION_11,
        "The status reports document count, index size and last commit time.",
    ),
    Requirement(
        "bm25:NFR-04.3",
        SECTION_11,
        "Search latency, commit frequency and error rates are exposed as metrics.",
    ),
)
