"""The retrieval policy as records: status, intents, chains, tiers, FR-01 to FR-19, fallback."""

from tests.requirements.record import (
    Requirement,
)

SECTION_2 = "agent-retrieval-policy-prd.md section 2"
SECTION_3 = "agent-retrieval-policy-prd.md section 3"
SECTION_4 = "agent-retrieval-policy-prd.md section 4"
SECTION_5_1 = "agent-retrieval-policy-prd.md section 5.1"
SECTION_5_2 = "agent-retrieval-policy-prd.md section 5.2"
SECTION_6 = "agent-retrieval-policy-prd.md section 6"
SECTION_7 = "agent-retrieval-policy-prd.md section 7"
SECTION_10 = "agent-retrieval-policy-prd.md section 10"

POLICY: tuple[Requirement, ...] = (
    Requirement(
        "policy:check-status",
        SECTION_2,
        "Before a layer is used, its status is asked for.",
    ),
    Requirement(
        "policy:check-enabled-and-healthy",
        SECTION_2,
        "A layer is used only when it is both enabled and healthy.",
    ),
    Requirement(
        "policy:check-fall-back",
        SECTION_2,
        "When a layer is unavailable the next one answers, down to the agentic layer.",
    ),
    Requirement(
        "policy:check-inform",
        SECTION_2,
        "Every search answer names the method that was used.",
    ),
    Requirement(
        "policy:intent-explore",
        SECTION_3,
        "A query that asks for patterns, related concepts or themes is classified as Explore.",
    ),
    Requirement(
        "policy:intent-answer",
        SECTION_3,
        "A query that wants an evidence-backed result fast is classified as Answer.",
    ),
    Requirement(
        "policy:intent-locate",
        SECTION_3,
        "A query for an exact snippet, quotation or definition is classified as Locate.",
    ),
    Requirement(
        "policy:intent-time-boxed",
        SECTION_3,
        (
            "A query that wants the best partial result within a time is classified as Time-boxed, "
            "and the search stops when the time is up."
        ),
        departure=(
            "Dates and time words only set a window and do not make a query Time-boxed, because "
            "asking about yesterday says nothing of how long the asker can wait."
        ),
    ),
    Requirement(
        "policy:signal-explore",
        SECTION_3,
        '"themes", "topics" and "working on" are signals of Explore.',
        departure=(
            'Signals match whole words and never substrings, because a substring finds "topic" in words that mean something else.'
        ),
    ),
    Requirement(
        "policy:signal-answer",
        SECTION_3,
        '"how", "why" and "what was" are signals of Answer.',
    ),
    Requirement(
        "policy:signal-locate",
        SECTION_3,
        '"where", "find" and "locate" are signals of Locate.',
        departure=(
            "Identifiers, paths, quotations and error codes are signals of Locate too, because "
            "whoever types one wants that very thing."
        ),
    ),
    Requirement(
        "policy:signal-time-boxed",
        SECTION_3,
        "A deadline set by the caller is a signal of Time-boxed.",
        departure=(
            'Deadline forms in the query such as "within 200 ms" and "quickly" count as well as '
            "timeout_ms, because a deadline may be spoken rather than passed."
        ),
    ),
    Requirement(
        "policy:intent-default-answer",
        SECTION_4,
        "A query whose intent is unclear is classified as Answer.",
    ),
    Requirement(
        "policy:chain-explore",
        SECTION_4,
        "Explore tries topics, hybrid, vector and BM25, then agentic, then a scan if allowed.",
    ),
    Requirement(
        "policy:chain-answer",
        SECTION_4,
        "Answer tries hybrid, BM25 and vector, then agentic, then a scan if allowed.",
    ),
    Requirement(
        "policy:chain-locate",
        SECTION_4,
        "Locate tries BM25, hybrid and vector, then agentic, then a scan if allowed.",
    ),
    Requirement(
        "policy:chain-time-boxed",
        SECTION_4,
        "Time-boxed tries the best available accelerator, then agentic, then stops without a scan.",
    ),
    Requirement(
        "policy:chain-skip-reported",
        SECTION_4,
        "Every layer of the chain that is skipped is reported with its reason.",
        departure=(
            "A question that names nothing to look for is answered by a listing of the tree, and no chain is "
            "gone through, because an index cannot be asked for no words."
        ),
    ),
    Requirement(
        "policy:chain-final-fallback",
        SECTION_4,
        "The last layer of every search is the agentic TOC search.",
        departure=(
            "A layer that shows that nothing is relevant, or enough that is, ends the search before it, because "
            "asking further costs time and changes nothing."
        ),
    ),
    Requirement(
        "policy:execute-with-bounds",
        SECTION_4,
        "Every search runs under the stop conditions, whether the caller names any or not.",
    ),
    Requirement(
        "policy:tier-1",
        SECTION_5_1,
        "Tier 1 (Full) means that topics, BM25, vector and agentic are all available.",
    ),
    Requirement(
        "policy:tier-2",
        SECTION_5_1,
        "Tier 2 (Hybrid) means that BM25, vector and agentic are available.",
    ),
    Requirement(
        "policy:tier-3",
        SECTION_5_1,
        "Tier 3 (Semantic) means that vector and agentic are available.",
    ),
    Requirement(
        "policy:tier-4",
        SECTION_5_1,
        "Tier 4 (Keyword) means that BM25 and agentic are available.",
    ),
    Requirement(
        "policy:tier-5",
        SECTION_5_1,
        ("Tier 5 (Agentic) means that only the agentic TOC search is available, and it always works."),
    ),
    Requirement(
        "policy:status-bm25",
        SECTION_5_2,
        "get_teleport_status returns bm25_enabled, bm25_healthy and bm25_doc_count.",
    ),
    Requirement(
        "policy:status-vector",
        SECTION_5_2,
        "get_vector_index_status returns enabled, ready and vector_count.",
    ),
    Requirement(
        "policy:status-topics",
        SECTION_5_2,
        "get_topic_graph_status returns enabled, healthy and topic_count.",
    ),
    Requirement(
        "policy:status-failure-is-absence",
        SECTION_5_2,
        "A status call that fails counts as a layer that is not there, and never as an error.",
    ),
    Requirement(
        "policy:FR-01",
        SECTION_6,
        "One call of get_retrieval_status reports the availability of every layer.",
    ),
    Requirement(
        "policy:FR-02",
        SECTION_6,
        ("The tier follows from which layers are available, and is 5 when only the agentic layer is."),
    ),
    Requirement(
        "policy:FR-03",
        SECTION_6,
        "An agent can ask for the current tier before any search runs.",
    ),
    Requirement(
        "policy:FR-04",
        SECTION_6,
        "A query is classified as Explore, Answer, Locate or Time-boxed.",
    ),
    Requirement(
        "policy:FR-05",
        SECTION_6,
        "Different intents try the layers in different orders.",
    ),
    Requirement(
        "policy:FR-06",
        SECTION_6,
        "A deadline hint in the query is extracted and becomes the time limit.",
        departure=(
            "Only deadline forms count as deadlines, and dates become a filter on event times, "
            "because the two ask for different things."
        ),
    ),
    Requirement(
        "policy:FR-07",
        SECTION_6,
        "Layers disabled in the settings are skipped in the fallback chain.",
    ),
    Requirement(
        "policy:FR-08",
        SECTION_6,
        "A search falls back by itself to the next layer that works, and answers.",
    ),
    Requirement(
        "policy:FR-09",
        SECTION_6,
        "A search that runs out of time returns the best results so far, and is not an error.",
    ),
    Requirement(
        "policy:FR-10",
        SECTION_6,
        "The limits on depth, nodes, calls and tokens are respected by every search.",
    ),
    Requirement(
        "policy:FR-11",
        SECTION_6,
        "A timeout stops a Time-boxed search hard, and is a soft limit for the other intents.",
    ),
    Requirement(
        "policy:FR-12",
        SECTION_6,
        "A scan runs only when the intent allows it and the results are insufficient.",
    ),
    Requirement(
        "policy:FR-13",
        SECTION_6,
        "Every search answer states the tier and the method that were used.",
    ),
    Requirement(
        "policy:FR-14",
        SECTION_6,
        "When a fallback occurred, the answer says so and says why.",
    ),
    Requirement(
        "policy:FR-15",
        SECTION_6,
        "Sequential, parallel or hybrid execution is chosen by the query.",
    ),
    Requirement(
        "policy:FR-16",
        SECTION_6,
        "Parallel fan-out is bounded by a configurable beam width of 2 to 5.",
    ),
    Requirement(
        "policy:FR-17",
        SECTION_6,
        "Strong evidence on one path cancels the others.",
    ),
    Requirement(
        "policy:FR-18",
        SECTION_6,
        "Results of parallel layers are normalised, merged and freed of duplicates.",
        departure=(
            "Scores are calibrated per layer and fused, with reciprocal rank as an option, because "
            "rank fusion lost up to 3 points where one side is much weaker."
        ),
    ),
    Requirement(
        "policy:FR-19",
        SECTION_6,
        "The explanation says of every path why it was chosen or rejected.",
    ),
    Requirement(
        "policy:pattern-check-then-search",
        SECTION_7,
        "A search uses BM25 when it is enabled and healthy, and search_children otherwise.",
    ),
    Requirement(
        "policy:disabled-inform",
        SECTION_7,
        "When BM25 is not enabled the answer says so and says that TOC navigation was used.",
    ),
    Requirement(
        "policy:disabled-suggest-enabling",
        SECTION_7,
        ("When BM25 is not enabled the answer names the setting teleport.bm25.enabled that would enable it."),
    ),
    Requirement(
        "policy:disabled-show-results",
        SECTION_7,
        "When no index is enabled intelligent_search still returns agentic results.",
    ),
    Requirement(
        "policy:disabled-not-silent",
        SECTION_7,
        "No search answers through another method than the one asked for without saying so.",
    ),
    Requirement(
        "policy:algorithm-sufficient-stops",
        SECTION_10,
        "The first layer with a sufficient result ends the search.",
    ),
    Requirement(
        "policy:algorithm-insufficient-goes-on",
        SECTION_10,
        "A layer with an insufficient result leads to the next layer of the chain.",
        departure=(
            "A layer that was whole and found nothing relevant ends the search in sequential mode, unless words of the query "
            "were overlooked or a literal thing is wanted, because nothing relevant is an answer."
        ),
    ),
    Requirement(
        "policy:algorithm-error-goes-on",
        SECTION_10,
        ("A layer that fails leads to the next layer of the chain, with the failure in the explanation."),
    ),
    Requirement(
        "policy:algorithm-tier-supports",
        SECTION_10,
        "A layer that is not available is passed over.",
        departure=(
            "Chains follow the live statuses and the tier is a label for people, because topics "
            "with BM25 alone is tier Keyword and Explore must still try topics first."
        ),
    ),
    Requirement(
        "policy:algorithm-reports",
        SECTION_10,
        "intelligent_search returns its results with method_used, tier_used and fallback_occurred.",
    ),
)
