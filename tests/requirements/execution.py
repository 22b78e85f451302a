"""The retrieval policy's rules for a running search: escalation, modes, bounds."""

from tests.requirements.record import Requirement

SECTION_5_3 = "agent-retrieval-policy-prd.md section 5.3"
SECTION_5_4 = "agent-retrieval-policy-prd.md section 5.4"
SECTION_5_5 = "agent-retrieval-policy-prd.md section 5.5"

EXECUTION: tuple[Requirement, ...] = (
    Requirement(
        "policy:escalation-not-a-tier",
        SECTION_5_3,
        "Scanning is never a tier nor a layer of a chain, and comes after the agentic layer.",
    ),
    Requirement(
        "policy:escalation-trigger",
        SECTION_5_3,
        ("A scan starts when results are insufficient, the intent allows it and the bounds leave room."),
    ),
    Requirement(
        "policy:escalation-method",
        SECTION_5_3,
        ("A scan works through time slices, and the slices already read are returned when it is cut short."),
        departure=(
            "Slices are read by the server itself rather than by spawned agents, because a server has no agents to spawn."
        ),
    ),
    Requirement(
        "policy:escalation-scope",
        SECTION_5_3,
        "A time window in the query bounds what a scan reads.",
    ),
    Requirement(
        "policy:escalation-resources",
        SECTION_5_3,
        "A scan uses the TOC, summaries and grips, and no index.",
        departure=("A scan reads event text as well, because DuckDB scans a million events in 0.2 s."),
    ),
    Requirement(
        "policy:escalation-guarantee",
        SECTION_5_3,
        "A scan that is not cut short finds the content if it exists.",
    ),
    Requirement(
        "policy:escalation-limit",
        SECTION_5_3,
        "A scan may follow Explore, Answer and Locate, and never Time-boxed.",
    ),
    Requirement(
        "policy:mode-sequential",
        SECTION_5_4,
        "Sequential mode runs one layer at a time with beam width 1.",
    ),
    Requirement(
        "policy:mode-parallel",
        SECTION_5_4,
        "Parallel mode runs several accelerators or siblings at once.",
    ),
    Requirement(
        "policy:mode-hybrid",
        SECTION_5_4,
        "Hybrid mode starts in parallel and cancels the losers when one path dominates.",
    ),
    Requirement(
        "policy:mode-default",
        SECTION_5_4,
        "The default is sequential mode with beam width 1.",
    ),
    Requirement(
        "policy:mode-parallel-settings",
        SECTION_5_4,
        "Parallel mode means a beam width of 2 to 5, timeouts and early stopping.",
    ),
    Requirement(
        "policy:parallel-safe-accelerators",
        SECTION_5_4,
        "BM25, vector and topics may run at once.",
    ),
    Requirement(
        "policy:parallel-safe-time-slices",
        SECTION_5_4,
        "Time slices may be scanned at once.",
    ),
    Requirement(
        "policy:parallel-safe-beam",
        SECTION_5_4,
        "The best siblings may be searched at once.",
    ),
    Requirement(
        "policy:parallel-forbids-full-fan-out",
        SECTION_5_4,
        "No mode fans out over the whole tree.",
    ),
    Requirement(
        "policy:parallel-forbids-unchecked",
        SECTION_5_4,
        "No mode calls a layer whose status has not been checked.",
    ),
    Requirement(
        "policy:parallel-bounded-fan-out",
        SECTION_5_4,
        "Only the best 2 to 5 nodes are followed at once.",
    ),
    Requirement(
        "policy:parallel-early-stopping",
        SECTION_5_4,
        "The other paths are cancelled when one has produced strong evidence.",
    ),
    Requirement(
        "policy:parallel-rank-merge",
        SECTION_5_4,
        "Merged results carry normalised scores and repeat no node_id and no grip_id.",
    ),
    Requirement(
        "policy:parallel-explainable-arbitration",
        SECTION_5_4,
        "The explanation says what each parallel path found and why the winner won.",
    ),
    Requirement(
        "policy:bound-max_depth",
        SECTION_5_5,
        "A search descends at most max_depth levels (default 5), which the caller may change.",
    ),
    Requirement(
        "policy:bound-max_nodes_visited",
        SECTION_5_5,
        ("A search compares at most max_nodes_visited nodes (default 100), which the caller may change."),
    ),
    Requirement(
        "policy:bound-max_rpc_calls",
        SECTION_5_5,
        "A search makes at most max_rpc_calls calls (default 20), which the caller may change.",
        departure=(
            "A call is one layer search, children search, node fetch or grip expansion inside the "
            "server, because a search here is a single request to it."
        ),
    ),
    Requirement(
        "policy:bound-max_token_budget",
        SECTION_5_5,
        ("An answer holds at most max_token_budget tokens (default 4000), which the caller may change."),
    ),
    Requirement(
        "policy:bound-timeout_ms",
        SECTION_5_5,
        "A search takes at most timeout_ms (default 5000), which the caller may change.",
    ),
    Requirement(
        "policy:bound-beam_width",
        SECTION_5_5,
        "A search keeps to beam_width (default 1), which the caller may set from 2 to 5.",
        departure=(
            "The descent is best-first over one frontier and beam_width is how many expansions run "
            "at once, because dropping candidates would hide evidence."
        ),
    ),
    Requirement(
        "policy:enforcement-time-boxed",
        SECTION_5_5,
        "Under Time-boxed every bound is a hard stop and no escalation is allowed.",
    ),
    Requirement(
        "policy:enforcement-locate",
        SECTION_5_5,
        (
            "Under Locate one bound may be exceeded once, by at most half, and escalation is "
            "allowed when no exact match was found."
        ),
    ),
    Requirement(
        "policy:enforcement-answer",
        SECTION_5_5,
        ("Under Answer bounds are soft, and escalation is allowed when the evidence is insufficient."),
    ),
    Requirement(
        "policy:enforcement-explore",
        SECTION_5_5,
        "Under Explore bounds are soft, and escalation is allowed when the pattern is incomplete.",
    ),
)
