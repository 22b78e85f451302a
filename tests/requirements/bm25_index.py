"""The BM25 document outside FR and NFR: options, fields, levels, growth, observability."""

from tests.requirements.record import Requirement

SECTION_2 = "bm25-teleport-prd.md section 2"
SECTION_3 = "bm25-teleport-prd.md section 3"
SECTION_5 = "bm25-teleport-prd.md section 5"
SECTION_6 = "bm25-teleport-prd.md section 6"
SECTION_7 = "bm25-teleport-prd.md section 7"
SECTION_13 = "bm25-teleport-prd.md section 13"
SECTION_16 = "bm25-teleport-prd.md section 16"
SECTION_17 = "bm25-teleport-prd.md section 17"
APPENDIX_C = "bm25-teleport-prd.md appendix C"
APPENDIX_D = "bm25-teleport-prd.md appendix D"
APPENDIX_E = "bm25-teleport-prd.md appendix E"

BM25_INDEX: tuple[Requirement, ...] = (
    Requirement(
        "bm25:optional",
        SECTION_2,
        "Without any index nothing is lost but speed: every search is answered by TOC navigation.",
    ),
    Requirement(
        "bm25:disabled-not-offered",
        SECTION_2,
        "A skill does not offer teleport commands while BM25 is disabled.",
    ),
    Requirement(
        "bm25:disabled-uses-toc",
        SECTION_2,
        "A skill searches by search_children while BM25 is disabled.",
    ),
    Requirement(
        "bm25:disabled-informs",
        SECTION_2,
        "A skill that is asked says that teleport is disabled and TOC navigation is used.",
    ),
    Requirement(
        "bm25:enabled-preferred",
        SECTION_2,
        "A skill prefers teleport for keyword queries while BM25 is enabled.",
    ),
    Requirement(
        "bm25:enabled-falls-back",
        SECTION_2,
        "A skill falls back to the TOC when teleport fails.",
    ),
    Requirement(
        "bm25:enabled-combines",
        SECTION_2,
        "A skill finds starting points by teleport and explores from them by the TOC.",
    ),
    Requirement(
        "bm25:status-fields",
        SECTION_2,
        ("get_teleport_status returns enabled, healthy and document count for BM25 and for vectors, and a message."),
    ),
    Requirement(
        "bm25:decision-single-index",
        SECTION_3,
        "Nodes and grips share one BM25 index and are told apart by doc_type.",
        departure=(
            "Each part of the index holds nodes and grips in tables of their own, because messages and whole "
            "stretches of work need other parameters; one search asks both."
        ),
    ),
    Requirement(
        "bm25:decision-append-only",
        SECTION_3,
        "Primary data is append-only: events stay the immutable source of truth.",
        departure=(
            "forget and a secret rescan do change events, each with an audit row, because a person "
            "must be able to take a secret back."
        ),
    ),
    Requirement(
        "bm25:decision-index-lifecycle",
        SECTION_3,
        "Fine-grained documents leave the index in time while coarse rollups stay.",
    ),
    Requirement(
        "bm25:decision-persistent",
        SECTION_3,
        "The index on disk is memory-mapped and survives a crash.",
        departure=(
            "Generations of immutable parts with a CURRENT file take the place of MmapDirectory, and what is "
            "mapped is a private, verified copy of a part, because a mapped file that somebody shortens "
            "kills the process that reads it."
        ),
    ),
    Requirement(
        "bm25:indexed-toc_node-doc_type",
        SECTION_5,
        'A node\'s document has doc_type "toc_node".',
    ),
    Requirement(
        "bm25:indexed-toc_node-doc_id",
        SECTION_5,
        "A node's document has the node_id as doc_id.",
        departure=(
            "A period of several projects is indexed once as a whole, for unscoped searches, and once per "
            "project from that project's own bullets, all under its node_id, because a scoped caller must "
            "find nothing of another project."
        ),
    ),
    Requirement(
        "bm25:indexed-toc_node-level",
        SECTION_5,
        "A node's document has its level: year, month, week, day or segment.",
    ),
    Requirement(
        "bm25:indexed-toc_node-text",
        SECTION_5,
        "A node's document is searchable by title and bullets.",
        departure=(
            "A segment's text holds its keywords and events' own words too, because over summaries alone the "
            "right session comes first 51.5 % of the time and over both 73.4 %; the summary repeats the "
            "bullets and is left out."
        ),
    ),
    Requirement(
        "bm25:indexed-toc_node-keywords",
        SECTION_5,
        "A node's keywords are searchable and are returned with a result.",
    ),
    Requirement(
        "bm25:indexed-toc_node-timestamp_ms",
        SECTION_5,
        "A node's document has the node's start time.",
    ),
    Requirement(
        "bm25:indexed-grip-doc_type",
        SECTION_5,
        'A grip\'s document has doc_type "grip".',
    ),
    Requirement(
        "bm25:indexed-grip-doc_id",
        SECTION_5,
        "A grip's document has the grip_id as doc_id.",
    ),
    Requirement(
        "bm25:indexed-grip-text",
        SECTION_5,
        "A grip's document is searchable by its excerpt.",
    ),
    Requirement(
        "bm25:indexed-grip-timestamp_ms",
        SECTION_5,
        "A grip's document has the grip's time.",
    ),
    Requirement(
        "bm25:indexed-no-raw-events",
        SECTION_5,
        "No event is a document of the index by itself.",
        departure=(
            "Events' words are indexed as part of their segment, because over summaries alone the "
            "right session comes first 51.5 % of the time and over both 73.4 %."
        ),
    ),
    Requirement(
        "bm25:level-1-orientation",
        SECTION_6,
        "get_toc_root returns the years, so that an agent can set the time it looks at.",
    ),
    Requirement(
        "bm25:level-2-navigation",
        SECTION_6,
        "get_node and browse_toc return nodes with title, bullets, keywords and children.",
    ),
    Requirement(
        "bm25:level-3-teleport",
        SECTION_6,
        "teleport_search leads straight to ranked nodes and grips.",
    ),
    Requirement(
        "bm25:level-4-evidence",
        SECTION_6,
        "expand_grip and get_events return the events behind a claim.",
    ),
    Requirement(
        "bm25:growth-segment",
        SECTION_7,
        ("A new segment starts after a gap of more than 30 minutes or when the next event would pass 4,000 tokens."),
    ),
    Requirement(
        "bm25:growth-day",
        SECTION_7,
        "A day node is the rollup of the day's segments.",
        departure=(
            "Rollups are due whenever a child is newer than its parent instead of at the end of "
            "the period, because the open day must be readable today."
        ),
    ),
    Requirement(
        "bm25:growth-week",
        SECTION_7,
        "A week node is the rollup of the week's days.",
    ),
    Requirement(
        "bm25:growth-month",
        SECTION_7,
        "A month node is the rollup of its own month.",
        departure=(
            "A month is rolled up from its own days instead of from its weeks, because a week may reach into the next month."
        ),
    ),
    Requirement(
        "bm25:growth-year",
        SECTION_7,
        "A year node is the rollup of its own year.",
        departure=("A year is rolled up so that it covers exactly its own days, because weeks do not nest in years."),
    ),
    Requirement(
        "bm25:retention-segment",
        SECTION_7,
        "Segments stay in the index for 30 days by default.",
        departure=(
            "Retention starts past retention_min_docs documents, and grips go with their segment, "
            "because pruning a small store only loses recall."
        ),
    ),
    Requirement(
        "bm25:retention-day",
        SECTION_7,
        "Days stay in the index for 180 days by default.",
        departure=("Retention starts past retention_min_docs documents, because pruning a small store only loses recall."),
    ),
    Requirement(
        "bm25:retention-week",
        SECTION_7,
        "Weeks stay in the index for five years by default.",
        departure=("Retention starts past retention_min_docs documents, because pruning a small store only loses recall."),
    ),
    Requirement(
        "bm25:retention-month-year",
        SECTION_7,
        "Months and years stay in the index.",
    ),
    Requirement(
        "bm25:retention-skip-expired",
        SECTION_7,
        "Expired fine-grained documents are not indexed once their rollups exist.",
        departure=("Below retention_min_docs documents nothing expires, because pruning a small store only loses recall."),
    ),
    Requirement(
        "bm25:metric-bm25_index_doc_count",
        SECTION_13,
        "bm25_index_doc_count is exposed for each doc_type.",
    ),
    Requirement(
        "bm25:metric-bm25_index_size_bytes",
        SECTION_13,
        "bm25_index_size_bytes is exposed.",
    ),
    Requirement(
        "bm25:metric-bm25_search_latency_seconds",
        SECTION_13,
        "bm25_search_latency_seconds is exposed as a histogram.",
    ),
    Requirement(
        "bm25:metric-bm25_commit_latency_seconds",
        SECTION_13,
        "bm25_commit_latency_seconds is exposed as a histogram.",
    ),
    Requirement(
        "bm25:metric-bm25_commit_total",
        SECTION_13,
        "bm25_commit_total counts commits.",
    ),
    Requirement(
        "bm25:metric-bm25_commit_errors_total",
        SECTION_13,
        "bm25_commit_errors_total counts failed commits.",
    ),
    Requirement(
        "bm25:metric-bm25_index_operations_total",
        SECTION_13,
        "bm25_index_operations_total counts added and deleted documents.",
    ),
    Requirement(
        "bm25:metric-bm25_rebuild_duration_seconds",
        SECTION_13,
        "bm25_rebuild_duration_seconds states how long the last rebuild took.",
    ),
    Requirement(
        "bm25:span-teleport_search",
        SECTION_13,
        "The span teleport_search covers a whole request.",
    ),
    Requirement(
        "bm25:span-parse_query",
        SECTION_13,
        "The span parse_query lies within teleport_search.",
    ),
    Requirement(
        "bm25:span-execute_search",
        SECTION_13,
        "The span execute_search lies within teleport_search.",
    ),
    Requirement(
        "bm25:span-collect_results",
        SECTION_13,
        "The span collect_results lies within teleport_search.",
    ),
    Requirement(
        "bm25:health-bm25_enabled",
        SECTION_13,
        "get_teleport_status reports the configured state as bm25_enabled.",
    ),
    Requirement(
        "bm25:health-bm25_healthy",
        SECTION_13,
        "get_teleport_status reports whether the index is accessible as bm25_healthy.",
    ),
    Requirement(
        "bm25:health-bm25_doc_count",
        SECTION_13,
        "get_teleport_status reports all indexed documents as bm25_doc_count.",
    ),
    Requirement(
        "bm25:health-message",
        SECTION_13,
        "get_teleport_status reports a readable message.",
    ),
    Requirement(
        "bm25:decided-memory-budget",
        SECTION_16,
        "The build buffer is 50 MB by default, configurable.",
    ),
    Requirement(
        "bm25:decided-all-doc-types",
        SECTION_16,
        "A search without doc_type covers nodes and grips.",
    ),
    Requirement(
        "bm25:risk-index-corruption",
        SECTION_17,
        "A corrupt index is rebuilt from TOC nodes and grips.",
    ),
    Requirement(
        "bm25:risk-cold-start",
        SECTION_17,
        "The index is loaded in the background when the daemon starts.",
    ),
    Requirement(
        "bm25:risk-index-size",
        SECTION_17,
        "The index's size is reported and the index can be compacted.",
    ),
    Requirement(
        "bm25:risk-blocking",
        SECTION_17,
        "Index work never blocks the server's event loop.",
        departure=("Bulk work runs in child processes instead of spawn_blocking, because threads share one interpreter lock."),
    ),
    Requirement(
        "bm25:risk-commit-failure",
        SECTION_17,
        "A failed commit is tried again and reported.",
    ),
    Requirement(
        "bm25:risk-lockfile",
        SECTION_17,
        "A stale lock is cleaned up on start.",
        departure=(
            "The operating system's file lock goes with its process, because one daemon owns the "
            "data directory and there is nothing left to clean up."
        ),
    ),
    Requirement(
        "bm25:teleport-search-request",
        APPENDIX_C,
        "teleport_search takes query, doc_type, level and limit, which is 10 by default.",
    ),
    Requirement(
        "bm25:teleport-search-result",
        APPENDIX_C,
        "A result holds doc_id, doc_type and score, and for a node its level and keywords.",
        departure=(
            "The tools call doc_id and doc_type id and kind, as in every answer of theirs, and the command "
            "line keeps the document's names, because an agent meets results of many tools."
        ),
    ),
    Requirement(
        "bm25:teleport-search-response",
        APPENDIX_C,
        "teleport_search returns results, search_time_ms and total_hits.",
        departure=("search_time_ms has decimals, because most searches take less than a few milliseconds."),
    ),
    Requirement(
        "bm25:rebuild-index-response",
        APPENDIX_C,
        ("rebuild_index takes index_type and returns success, documents_indexed, duration_ms and message."),
    ),
    Requirement(
        "bm25:session-search-output",
        APPENDIX_D,
        "A search on the command line lists each result with id, score, type, level and keywords.",
    ),
    Requirement(
        "bm25:session-expand-grip",
        APPENDIX_D,
        ('"query expand-grip" takes a bare grip id too, and shows the excerpt and its events with their times.'),
    ),
    Requirement(
        "bm25:combined-status-check",
        APPENDIX_E,
        ("With both indexes a search is hybrid, with one it uses that one, and with none it is agentic."),
    ),
)
