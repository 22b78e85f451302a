"""The skill contract and the cognitive architecture's contracts as records."""

from tests.requirements.record import (
    Requirement,
)

SECTION_2_5 = "agent-retrieval-policy-prd.md section 2.5; agent-retrieval-policy-prd.md section 8"
POLICY_SECTION_2_5 = "agent-retrieval-policy-prd.md section 2.5"
SECTION_7 = "agent-retrieval-policy-prd.md section 7"
SECTION_8 = "agent-retrieval-policy-prd.md section 8"
SECTION_2 = "bm25-teleport-prd.md section 2"
THE_COGNITIVE_LAYER_STACK = 'cognitive-architecture.md section "The Cognitive Layer Stack"'
RANKING_POLICY_LAYER_6 = 'cognitive-architecture.md section "Ranking Policy (Layer 6)"'
RETRIEVAL_BRAINSTEM = 'cognitive-architecture.md section "Retrieval Brainstem"'
THE_FOUNDATIONAL_PRINCIPLE = 'cognitive-architecture.md section "The Foundational Principle"'
SEPARATION_OF_CONCERNS = 'cognitive-architecture.md section "Separation of Concerns"'
CAPABILITY_TIERS = 'cognitive-architecture.md section "Capability Tiers"'
TIER_DETECTION = 'cognitive-architecture.md section "Tier Detection"'
QUERY_INTENT_CLASSIFICATION = 'cognitive-architecture.md section "Query Intent Classification"'
THE_NAVIGATION_PATTERN = 'cognitive-architecture.md section "The Navigation Pattern"'
FALLBACK_FLOW = 'cognitive-architecture.md section "Fallback Flow"'
GUARANTEES = 'cognitive-architecture.md section "Guarantees"'
COGNITIVE_CONTRACTS = 'cognitive-architecture.md section "Cognitive Contracts"'
DESIGN_PHILOSOPHY = 'cognitive-architecture.md section "Design Philosophy"'

CONTRACTS: tuple[Requirement, ...] = (
    Requirement(
        "contract:capability-detection",
        SECTION_2_5,
        "A request checks the layers' statuses once, or uses a tier it has kept.",
    ),
    Requirement(
        "contract:budget-enforcement",
        SECTION_2_5,
        "A search keeps to its limits on calls, tokens and time, and stops within them.",
    ),
    Requirement(
        "contract:fallback-discipline",
        SECTION_2_5,
        "No search fails while the agentic search can run, even with every index disabled.",
    ),
    Requirement(
        "contract:explainability-payload",
        SECTION_2_5,
        "An answer reports tier and mode, the candidates considered and why the winner won.",
    ),
    Requirement(
        "contract:evidence-handling",
        SECTION_2_5,
        "Every fact returned carries its grip_ids.",
    ),
    Requirement(
        "contract:skills-decide",
        POLICY_SECTION_2_5,
        ("Skills choose tools, sequence them, enforce budgets, fall back and cite, and tools do what they are told."),
    ),
    Requirement(
        "contract:anti-pattern-assume-index",
        POLICY_SECTION_2_5,
        "Nothing assumes that an index is there.",
    ),
    Requirement(
        "contract:anti-pattern-silent-failure",
        POLICY_SECTION_2_5,
        "An unavailable layer is never passed over in silence.",
    ),
    Requirement(
        "contract:anti-pattern-ignored-bounds",
        POLICY_SECTION_2_5,
        "No search ignores its limits on depth, tokens or time.",
    ),
    Requirement(
        "contract:anti-pattern-no-provenance",
        POLICY_SECTION_2_5,
        "No fact is returned without a link to its grip.",
    ),
    Requirement(
        "contract:skill-md-tiers",
        SECTION_7,
        "Every SKILL.md lists its search tiers with when, how and what for.",
    ),
    Requirement(
        "contract:skill-md-layers-used",
        SECTION_8,
        "Every SKILL.md lists the retrieval layers it uses.",
    ),
    Requirement(
        "contract:skill-md-fallback-behaviour",
        SECTION_8,
        "Every SKILL.md describes what happens when each layer is unavailable.",
    ),
    Requirement(
        "contract:skill-md-stop-conditions",
        SECTION_8,
        "Every SKILL.md lists its bounds beyond the defaults.",
    ),
    Requirement(
        "contract:skill-md-configuration",
        SECTION_8,
        "Every SKILL.md says how to enable and disable what it depends on.",
    ),
    Requirement(
        "contract:skill-md-teleport-dependency",
        SECTION_2,
        "Every SKILL.md says whether its command uses teleport.",
    ),
    Requirement(
        "contract:layer-0",
        THE_COGNITIVE_LAYER_STACK,
        "Raw events are always present and immutable.",
        departure=(
            "Events live in DuckDB instead of RocksDB, and forget and a secret rescan change them "
            "with an audit row, because a person must be able to take a secret back."
        ),
    ),
    Requirement(
        "contract:layer-1",
        THE_COGNITIVE_LAYER_STACK,
        "The TOC hierarchy is always present for navigation by time.",
        departure=("The tree lives in DuckDB instead of RocksDB, because one embedded database holds the whole truth."),
    ),
    Requirement(
        "contract:layer-2",
        THE_COGNITIVE_LAYER_STACK,
        "Agentic TOC search always works, by search_node and search_children, without an index.",
    ),
    Requirement(
        "contract:layer-3",
        THE_COGNITIVE_LAYER_STACK,
        "Lexical teleport grounds keywords and is configurable.",
        departure="bm25s takes the place of Tantivy, because the system is written in Python here.",
    ),
    Requirement(
        "contract:layer-4",
        THE_COGNITIVE_LAYER_STACK,
        "Semantic teleport searches by similarity of embeddings and is configurable.",
        departure=(
            "The layer is on by default, with usearch and exact search up to about 100,000 "
            "vectors, because the model ships with the package and exact recall is 1.0."
        ),
    ),
    Requirement(
        "contract:layer-5",
        THE_COGNITIVE_LAYER_STACK,
        "Conceptual discovery enriches by patterns and concepts and is optional.",
    ),
    Requirement(
        "contract:layer-6",
        THE_COGNITIVE_LAYER_STACK,
        "The ranking policy scores the importance of memories and is optional.",
    ),
    Requirement(
        "contract:layer-brainstem",
        THE_COGNITIVE_LAYER_STACK,
        "The retrieval policy is always present and routes decisions.",
    ),
    Requirement(
        "contract:hybrid-mode",
        THE_COGNITIVE_LAYER_STACK,
        ("Hybrid is the fusion of the scores of BM25 and vector when both are enabled, and is no layer of the stack."),
        departure=(
            "Scores are calibrated before they are fused and reciprocal rank is an option, because "
            "rank fusion lost up to 3 points where one side is much weaker."
        ),
    ),
    Requirement(
        "contract:ranking-salience",
        RANKING_POLICY_LAYER_6,
        ("Salience weighs 0.3 and orders procedure, constraint, definition, preference and observation."),
        departure=('The spec\'s weights are the preset "spec", and the default preset is what measures best on judged queries.'),
    ),
    Requirement(
        "contract:ranking-recency",
        RANKING_POLICY_LAYER_6,
        "Recency weighs 0.3 and decays with a configurable half-life.",
        departure=(
            "A query that names a time or an exact identifier is not outranked by recency, because it already says what it wants."
        ),
    ),
    Requirement(
        "contract:ranking-relevance",
        RANKING_POLICY_LAYER_6,
        "Relevance weighs 0.3 and is the score of the match.",
        departure=(
            "The score is calibrated per layer before it is weighed, because scores of different kinds cannot be compared raw."
        ),
    ),
    Requirement(
        "contract:ranking-usage",
        RANKING_POLICY_LAYER_6,
        "Usage weighs 0.1, decays and is opt-in.",
        departure=("Weights are normalised again when a signal is off, because scores must stay within 0 and 1."),
    ),
    Requirement(
        "contract:brainstem-tier-detection",
        RETRIEVAL_BRAINSTEM,
        "The layers that are available are mapped to tiers 1 to 5 automatically.",
    ),
    Requirement(
        "contract:brainstem-intent-classification",
        RETRIEVAL_BRAINSTEM,
        "Explore, Answer, Locate and Time-boxed queries are routed apart.",
    ),
    Requirement(
        "contract:brainstem-fallback-chains",
        RETRIEVAL_BRAINSTEM,
        "Fallback chains degrade gracefully and automatically.",
    ),
    Requirement(
        "contract:brainstem-explainability",
        RETRIEVAL_BRAINSTEM,
        "Every result comes with the tier used and why.",
    ),
    Requirement(
        "contract:principle-toc-is-truth",
        THE_FOUNDATIONAL_PRINCIPLE,
        "The TOC hierarchy is the source of truth.",
    ),
    Requirement(
        "contract:principle-disposable-indexes",
        THE_FOUNDATIONAL_PRINCIPLE,
        "The folder of indexes can be deleted at any moment, and every answer still comes.",
    ),
    Requirement(
        "contract:principle-degrades",
        THE_FOUNDATIONAL_PRINCIPLE,
        "When an index fails, the next available layer answers.",
    ),
    Requirement(
        "contract:principle-agentic-always-works",
        THE_FOUNDATIONAL_PRINCIPLE,
        "Agentic TOC search works without any index.",
    ),
    Requirement(
        "contract:planes-separated",
        SEPARATION_OF_CONCERNS,
        ("Data, capabilities, ranking and control live in rooms of their own, none importing a higher one."),
        departure=(
            "The planes are rooms of one Python package instead of crates, with import contracts between them; ranking is a "
            "module at the bottom of the policy's room, because nothing else uses it."
        ),
    ),
    Requirement(
        "contract:tier-1-full",
        CAPABILITY_TIERS,
        "Tier 1 is called Full and has topics, hybrid and agentic.",
    ),
    Requirement(
        "contract:tier-2-hybrid",
        CAPABILITY_TIERS,
        "Tier 2 is called Hybrid and has BM25, vector and agentic.",
    ),
    Requirement(
        "contract:tier-3-semantic",
        CAPABILITY_TIERS,
        "Tier 3 is called Semantic and has vector and agentic.",
    ),
    Requirement(
        "contract:tier-4-keyword",
        CAPABILITY_TIERS,
        "Tier 4 is called Keyword and has BM25 and agentic.",
    ),
    Requirement(
        "contract:tier-5-agentic",
        CAPABILITY_TIERS,
        "Tier 5 is called Agentic and has TOC navigation only.",
    ),
    Requirement(
        "contract:status-output-heading",
        TIER_DETECTION,
        '"retrieval status" prints the heading Retrieval Capabilities and a rule.',
    ),
    Requirement(
        "contract:status-output-tier",
        TIER_DETECTION,
        '"retrieval status" prints the current tier as number and name.',
    ),
    Requirement(
        "contract:status-output-available",
        TIER_DETECTION,
        ('"retrieval status" lists the available layers with their health, agentic as "healthy (TOC available)".'),
    ),
    Requirement(
        "contract:status-output-unavailable",
        TIER_DETECTION,
        '"retrieval status" lists the unavailable layers with their reason.',
    ),
    Requirement(
        "contract:status-output-counts",
        TIER_DETECTION,
        '"retrieval status" prints how many documents and vectors an index holds.',
    ),
    Requirement(
        "contract:intent-explore",
        QUERY_INTENT_CLASSIFICATION,
        ('"browse", "discover" and "what topics" mean Explore: topics first, at most 100 nodes, beam 5.'),
        departure=(
            "Sequential mode keeps beam 1, because the policy document makes that the default and stands above this table."
        ),
    ),
    Requirement(
        "contract:intent-answer",
        QUERY_INTENT_CLASSIFICATION,
        '"what did" and "how did" mean Answer: hybrid, at most 50 nodes, confidence at least 0.6.',
        departure=('"find" means Locate instead of Answer, because the policy document says so and stands above this table.'),
    ),
    Requirement(
        "contract:intent-locate",
        QUERY_INTENT_CLASSIFICATION,
        ("Identifiers and exact phrases mean Locate: BM25 first, at most 20 nodes, stop at the first match."),
    ),
    Requirement(
        "contract:intent-time-boxed",
        QUERY_INTENT_CLASSIFICATION,
        "Time-boxed is sequential, filtered by time and at most 2 levels deep.",
        departure=(
            '"yesterday", "last week" and dates set a window instead of the intent, because the '
            "policy document ties Time-boxed to a deadline."
        ),
    ),
    Requirement(
        "contract:disclosure-year",
        THE_NAVIGATION_PATTERN,
        "A year shows how much there was and what it was about.",
    ),
    Requirement(
        "contract:disclosure-month",
        THE_NAVIGATION_PATTERN,
        "A month shows how much there was and its main themes.",
    ),
    Requirement(
        "contract:disclosure-week",
        THE_NAVIGATION_PATTERN,
        "A week shows what was worked on.",
    ),
    Requirement(
        "contract:disclosure-day",
        THE_NAVIGATION_PATTERN,
        "A day shows what was done.",
    ),
    Requirement(
        "contract:disclosure-segment",
        THE_NAVIGATION_PATTERN,
        "A segment and its grips show the actual conversation, with links to its events.",
    ),
    Requirement(
        "contract:disclosure-drill-down",
        THE_NAVIGATION_PATTERN,
        "From any node the agent can descend into its children.",
    ),
    Requirement(
        "contract:disclosure-lateral",
        THE_NAVIGATION_PATTERN,
        "From any node the agent can move to its siblings.",
    ),
    Requirement(
        "contract:disclosure-expand-grip",
        THE_NAVIGATION_PATTERN,
        "From a bullet the agent can expand a grip to the raw events.",
    ),
    Requirement(
        "contract:fallback-flow",
        FALLBACK_FLOW,
        ("A query flows through topics, vector or hybrid and BM25 as far as they are enabled, and ends in search_children."),
        departure=("The order is the chain of the query's intent, because the policy document stands above this drawing."),
    ),
    Requirement(
        "contract:guarantee-never-fails",
        GUARANTEES,
        "A search never fails completely, because the agentic search needs no index.",
    ),
    Requirement(
        "contract:guarantee-respects-configuration",
        GUARANTEES,
        "Disabled layers are skipped.",
    ),
    Requirement(
        "contract:guarantee-respects-intent",
        GUARANTEES,
        "Topics come first only for Explore, and BM25 comes first for Locate.",
    ),
    Requirement(
        "contract:guarantee-respects-bounds",
        GUARANTEES,
        "Stop conditions are enforced on every search.",
    ),
    Requirement(
        "contract:toc-always-works",
        COGNITIVE_CONTRACTS,
        "The TOC always works, is grounded in time and has no failure mode.",
    ),
    Requirement(
        "contract:toc-declared",
        COGNITIVE_CONTRACTS,
        "The TOC declares its strength, its weakness (traversal), no failure mode and no fallback.",
    ),
    Requirement(
        "contract:agentic-no-dependencies",
        COGNITIVE_CONTRACTS,
        "The agentic layer depends on no index.",
    ),
    Requirement(
        "contract:agentic-timeout-partial",
        COGNITIVE_CONTRACTS,
        "The agentic layer fails only by timeout, and then returns partial results.",
    ),
    Requirement(
        "contract:agentic-declared",
        COGNITIVE_CONTRACTS,
        "The agentic layer declares its strength, weakness, failure mode and safe fallback.",
    ),
    Requirement(
        "contract:bm25-declared",
        COGNITIVE_CONTRACTS,
        ("BM25 declares fast exact keywords, missed synonyms, an unavailable index and agentic as its fallback."),
    ),
    Requirement(
        "contract:vector-declared",
        COGNITIVE_CONTRACTS,
        (
            "Vector declares semantic similarity, hallucinated relevance, an unavailable index and "
            "BM25 or agentic as its fallback."
        ),
    ),
    Requirement(
        "contract:topics-declared",
        COGNITIVE_CONTRACTS,
        ("Topics declare pattern discovery, stale and broad labels, an unavailable index and vector or BM25 as their fallback."),
    ),
    Requirement(
        "contract:philosophy-time-is-truth",
        DESIGN_PHILOSOPHY,
        "Events are immutable, ordered by time and append-only.",
        departure=(
            "forget and a secret rescan are the only mutations, each with an audit row, because a "
            "person must be able to take a secret back."
        ),
    ),
    Requirement(
        "contract:philosophy-summaries-first",
        DESIGN_PHILOSOPHY,
        "Summaries come before detail, and keep the context small.",
    ),
    Requirement(
        "contract:philosophy-grips-prove",
        DESIGN_PHILOSOPHY,
        "Every claim links to its source evidence.",
    ),
    Requirement(
        "contract:philosophy-navigate",
        DESIGN_PHILOSOPHY,
        "Agents descend the hierarchy and do not read everything.",
    ),
    Requirement(
        "contract:philosophy-indexes-optional",
        DESIGN_PHILOSOPHY,
        "Any index can fail, and the TOC still works.",
    ),
    Requirement(
        "contract:philosophy-intent-routes",
        DESIGN_PHILOSOPHY,
        "Different kinds of query use different paths.",
    ),
)
