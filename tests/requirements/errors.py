"""The error tables as records: which code and message a caller gets, and what to do next."""

from tests.requirements.record import Requirement

SECTION_9 = "agent-retrieval-policy-prd.md section 9; bm25-teleport-prd.md appendix F"
POLICY_SECTION_9 = "agent-retrieval-policy-prd.md section 9"
APPENDIX_F = "bm25-teleport-prd.md appendix F"

ERRORS: tuple[Requirement, ...] = (
    Requirement(
        "error:teleport-search-unavailable",
        SECTION_9,
        ('teleport_search without its index answers UNAVAILABLE "BM25 index not enabled" and points to search_children.'),
    ),
    Requirement(
        "error:vector-teleport-unavailable",
        POLICY_SECTION_9,
        (
            'vector_teleport without its index answers UNAVAILABLE "Vector index not enabled" and '
            "points to the next layer that works."
        ),
    ),
    Requirement(
        "error:topics-unavailable",
        POLICY_SECTION_9,
        (
            'topics_by_query without its graph answers UNAVAILABLE "Topic graph not enabled" and '
            "points to the next layer that works."
        ),
    ),
    Requirement(
        "error:hybrid-search-partial",
        POLICY_SECTION_9,
        ("hybrid_search with one of its two indexes answers, with the other score 0 and the results marked partial."),
        departure=(
            "The results keep the scores of the side that answered and name no part of the other, because a "
            "0 would say that it had been asked."
        ),
    ),
    Requirement(
        "error:deadline-exceeded",
        POLICY_SECTION_9,
        ('A search that passes its deadline says "Timeout exceeded" and returns its partial results.'),
    ),
    Requirement(
        "error:other-errors-propagate",
        POLICY_SECTION_9,
        ("Any other failure reaches the caller as an error with its code, and never as an empty answer."),
    ),
    Requirement(
        "error:teleport-status-disabled",
        APPENDIX_F,
        ("get_teleport_status answers bm25_enabled false when BM25 is disabled, and is not an error."),
    ),
    Requirement(
        "error:teleport-status-unhealthy",
        APPENDIX_F,
        ("get_teleport_status answers bm25_healthy false when the index is there and unusable, and searches go agentic."),
    ),
)
