"""The agentic search plan as records: tree, messages, algorithm, loop, commands, criteria."""

from tests.requirements.record import Requirement

GOALS = 'agentic-toc-search-plan.md section "Goals"'
LAYER_HIERARCHY = 'agentic-toc-search-plan.md section "Layer Hierarchy"'
SEGMENT_STRUCTURE_MOST_IMPORTANT = 'agentic-toc-search-plan.md section "Segment Structure (Most Important)"'
HOW_LINKS_WORK = 'agentic-toc-search-plan.md section "How Links Work"'
SEARCHNODE_MESSAGES = 'agentic-toc-search-plan.md section "SearchNode Messages"'
SEARCHCHILDREN_MESSAGES = 'agentic-toc-search-plan.md section "SearchChildren Messages"'
SEARCH_ALGORITHM = 'agentic-toc-search-plan.md section "Search Algorithm"'
GRPC_SERVICE_IMPLEMENTATION = 'agentic-toc-search-plan.md section "gRPC Service Implementation"'
SKILL_STRUCTURE = 'agentic-toc-search-plan.md section "Skill Structure"'
AGENT_NAVIGATION_LOOP = 'agentic-toc-search-plan.md section "Agent Navigation Loop"'
EXPLAINABILITY_OUTPUT_FORMAT = 'agentic-toc-search-plan.md section "Explainability Output Format"'
NEW_COMMANDS = 'agentic-toc-search-plan.md section "New Commands"'
CLI_IMPLEMENTATION = 'agentic-toc-search-plan.md section "CLI Implementation"'
INTEGRATION_TESTS = 'agentic-toc-search-plan.md section "Integration Tests"'
SUCCESS_CRITERIA = 'agentic-toc-search-plan.md section "Success Criteria"'
EXISTING_CODE_INTEGRATION = 'agentic-toc-search-plan.md section "Existing Code Integration"'
FUTURE_PHASE_INTEGRATION = 'agentic-toc-search-plan.md section "Future Phase Integration"'
RISKS_AND_MITIGATIONS = 'agentic-toc-search-plan.md section "Risks and Mitigations"'

PLAN: tuple[Requirement, ...] = (
    Requirement(
        "plan:goal-search-nodes",
        GOALS,
        "An agent searches within TOC nodes by matching terms.",
    ),
    Requirement(
        "plan:goal-explainable-paths",
        GOALS,
        "An answer shows the path from the root to the evidence, with reasons.",
    ),
    Requirement(
        "plan:goal-no-index",
        GOALS,
        "The agentic search works without any index engine.",
    ),
    Requirement(
        "plan:goal-token-budget",
        GOALS,
        "A response keeps to the token budget it was given.",
    ),
    Requirement(
        "plan:hierarchy-month",
        LAYER_HIERARCHY,
        "A month points to its weeks and has a summary of its time.",
        departure=(
            "The summary is made from the month's own days instead of from its weeks, because a "
            "week may reach into the next month."
        ),
    ),
    Requirement(
        "plan:hierarchy-week",
        LAYER_HIERARCHY,
        "A week points to its days and has a summary of the themes of all of them.",
        departure=("A week is a child of every month it intersects, because ISO weeks do not nest in months."),
    ),
    Requirement(
        "plan:hierarchy-day",
        LAYER_HIERARCHY,
        "A day points to its segments and has a summary of the themes of all of them.",
    ),
    Requirement(
        "plan:hierarchy-segment",
        LAYER_HIERARCHY,
        "A segment has bullets with their grips, keywords, and its context.",
    ),
    Requirement(
        "plan:hierarchy-events",
        LAYER_HIERARCHY,
        "Events are immutable and lie below every segment.",
        departure=(
            "forget and a secret rescan do change events, each with an audit row, because a person "
            "must be able to take a secret back."
        ),
    ),
    Requirement(
        "plan:segment-toc",
        SEGMENT_STRUCTURE_MOST_IMPORTANT,
        "Every bullet of a segment names the grips that prove it.",
    ),
    Requirement(
        "plan:segment-summary",
        SEGMENT_STRUCTURE_MOST_IMPORTANT,
        "A segment has a title and keywords that describe it.",
    ),
    Requirement(
        "plan:segment-overlap",
        SEGMENT_STRUCTURE_MOST_IMPORTANT,
        "A segment's context holds the end of the session's previous segment.",
    ),
    Requirement(
        "plan:segment-position",
        SEGMENT_STRUCTURE_MOST_IMPORTANT,
        "A segment's context names its day, week, month and year.",
    ),
    Requirement(
        "plan:segment-time-range",
        SEGMENT_STRUCTURE_MOST_IMPORTANT,
        "A segment has a start and an end time.",
    ),
    Requirement(
        "plan:link-children",
        HOW_LINKS_WORK,
        "Every node from year to day names its children by their ids.",
    ),
    Requirement(
        "plan:link-grips",
        HOW_LINKS_WORK,
        "A bullet leads to its grips by grip_id.",
    ),
    Requirement(
        "plan:link-events",
        HOW_LINKS_WORK,
        "A grip leads to its events by event_id_start and event_id_end.",
    ),
    Requirement(
        "plan:link-id-formats",
        HOW_LINKS_WORK,
        ("Ids such as toc:month:2026-01, toc:week:2026-W04, toc:day:2026-01-30 and grip:MS:ID resolve."),
    ),
    Requirement(
        "plan:link-keys",
        HOW_LINKS_WORK,
        "node_id, grip_id and event_id are the keys their records are stored under.",
        departure=(
            "The keys are those of DuckDB tables, with events under 128-bit keys, because a text "
            "key alone costs 130 MB per million rows."
        ),
    ),
    Requirement(
        "plan:search-fields",
        SEARCHNODE_MESSAGES,
        ("A search takes any of the fields title, summary, bullets and keywords, and all of them by default."),
    ),
    Requirement(
        "plan:search-node-request",
        SEARCHNODE_MESSAGES,
        "search_node takes node_id, query, fields, limit (default 10) and token_budget.",
    ),
    Requirement(
        "plan:search-match",
        SEARCHNODE_MESSAGES,
        "A match holds its field, the text, the grip_ids of a bullet and a score from 0 to 1.",
    ),
    Requirement(
        "plan:search-node-response",
        SEARCHNODE_MESSAGES,
        "search_node returns matched, matches, node_id and level.",
    ),
    Requirement(
        "plan:search-children-request",
        SEARCHCHILDREN_MESSAGES,
        ("search_children takes parent_id, query, child_level, fields, limit (default 10) and token_budget."),
        departure=(
            "A child_level below the direct child means all descendants at that level, because the "
            "plan leaves open what else it could mean."
        ),
    ),
    Requirement(
        "plan:search-node-result",
        SEARCHCHILDREN_MESSAGES,
        "A result of search_children holds node_id, title, level, matches and relevance_score.",
    ),
    Requirement(
        "plan:search-children-response",
        SEARCHCHILDREN_MESSAGES,
        "search_children returns results and has_more.",
    ),
    Requirement(
        "plan:search-or-matching",
        SEARCHCHILDREN_MESSAGES,
        "The terms of a query are alternatives: one is enough to match.",
    ),
    Requirement(
        "plan:algo-terms",
        SEARCH_ALGORITHM,
        "A query is split into terms without regard to case.",
        departure=(
            "Terms are stemmed whole tokens of the shared tokenizer instead of substrings, because "
            "with weights they find 66.6 % first against 47.1 %."
        ),
    ),
    Requirement(
        "plan:algo-short-words",
        SEARCH_ALGORITHM,
        "Short words that say nothing are not searched for.",
        departure=(
            "Stopwords are dropped instead of all words of one or two letters, because Go, C and v2 are what people look for."
        ),
    ),
    Requirement(
        "plan:algo-no-terms",
        SEARCH_ALGORITHM,
        "A query that leaves no terms matches nothing.",
    ),
    Requirement(
        "plan:algo-title",
        SEARCH_ALGORITHM,
        "The title is searched, and a match holds the title.",
    ),
    Requirement(
        "plan:algo-summary",
        SEARCH_ALGORITHM,
        "The summary is searched where there is one, and a match holds the summary.",
    ),
    Requirement(
        "plan:algo-bullets",
        SEARCH_ALGORITHM,
        "Each bullet is searched, and a match holds its text and its grip_ids.",
    ),
    Requirement(
        "plan:algo-keywords",
        SEARCH_ALGORITHM,
        "Each keyword is searched, and a match holds the keyword.",
        departure=(
            "A keyword matches by whole stemmed tokens and scores by its share of the terms "
            "instead of always 1.0, because a substring in a keyword proves little."
        ),
    ),
    Requirement(
        "plan:algo-field-selection",
        SEARCH_ALGORITHM,
        "Only the fields that were asked for are searched.",
    ),
    Requirement(
        "plan:algo-score",
        SEARCH_ALGORITHM,
        "A match's score is the share of the query's terms it holds.",
    ),
    Requirement(
        "plan:algo-no-overlap",
        SEARCH_ALGORITHM,
        "A text that holds none of the terms is no match.",
    ),
    Requirement(
        "plan:algo-sorted-matches",
        SEARCH_ALGORITHM,
        "Matches are sorted by score, the best first.",
    ),
    Requirement(
        "plan:algo-not-found",
        GRPC_SERVICE_IMPLEMENTATION,
        "search_node of an unknown node is answered by NOT_FOUND.",
    ),
    Requirement(
        "plan:algo-root",
        GRPC_SERVICE_IMPLEMENTATION,
        "search_children without a parent searches the years.",
    ),
    Requirement(
        "plan:algo-only-matching",
        GRPC_SERVICE_IMPLEMENTATION,
        "search_children returns only children that match.",
    ),
    Requirement(
        "plan:algo-relevance",
        GRPC_SERVICE_IMPLEMENTATION,
        "A result's relevance_score is made from its matches, and results are sorted by it.",
        departure=(
            "The score is the IDF-weighted share of the terms instead of the mean of the matches, "
            "because rare words tell nodes apart."
        ),
    ),
    Requirement(
        "plan:algo-limit",
        GRPC_SERVICE_IMPLEMENTATION,
        "A search returns at most limit results, 10 when none is given.",
    ),
    Requirement(
        "plan:algo-has-more",
        GRPC_SERVICE_IMPLEMENTATION,
        "has_more says whether the limit cut results off.",
    ),
    Requirement(
        "plan:skill-file",
        SKILL_STRUCTURE,
        "The memory-query skill's SKILL.md describes search and navigation.",
    ),
    Requirement(
        "plan:skill-search-api",
        SKILL_STRUCTURE,
        "The skill has a reference of search_node and search_children.",
    ),
    Requirement(
        "plan:skill-patterns",
        SKILL_STRUCTURE,
        "The skill has a reference of common search patterns.",
    ),
    Requirement(
        "plan:skill-navigator",
        SKILL_STRUCTURE,
        "The skill has a navigator agent that follows the search loop.",
    ),
    Requirement(
        "plan:loop-time-hints",
        AGENT_NAVIGATION_LOOP,
        ('navigate reads time hints such as "yesterday", "last week" and "in January" from the query.'),
    ),
    Requirement(
        "plan:loop-topics",
        AGENT_NAVIGATION_LOOP,
        "navigate reads the keywords and technical terms of the query.",
    ),
    Requirement(
        "plan:loop-start",
        AGENT_NAVIGATION_LOOP,
        "navigate starts at the root, or at the level a time hint names.",
    ),
    Requirement(
        "plan:loop-search-children",
        AGENT_NAVIGATION_LOOP,
        "navigate searches the children of where it stands.",
    ),
    Requirement(
        "plan:loop-strong-match",
        AGENT_NAVIGATION_LOOP,
        "A match above 0.5 is strong, and navigate explains what it found and descends into it.",
        departure=(
            "A score is the share of the query's weighted stems, because such scores tell more than those the plan had in mind."
        ),
    ),
    Requirement(
        "plan:loop-segment",
        AGENT_NAVIGATION_LOOP,
        "At a segment navigate returns bullets with their grip_ids.",
    ),
    Requirement(
        "plan:loop-offer-expand",
        AGENT_NAVIGATION_LOOP,
        "With its evidence navigate offers to expand a grip.",
    ),
    Requirement(
        "plan:loop-siblings",
        AGENT_NAVIGATION_LOOP,
        "Without a match navigate tries adjacent periods.",
    ),
    Requirement(
        "plan:loop-broaden",
        AGENT_NAVIGATION_LOOP,
        "Without a match among the siblings navigate widens the time range, and says so.",
    ),
    Requirement(
        "plan:loop-budget-exhausted",
        AGENT_NAVIGATION_LOOP,
        "When a bound is reached navigate returns the best partial results and explains.",
    ),
    Requirement(
        "plan:loop-path-and-evidence",
        AGENT_NAVIGATION_LOOP,
        "navigate returns the path it took and cited evidence.",
    ),
    Requirement(
        "plan:format-query",
        EXPLAINABILITY_OUTPUT_FORMAT,
        "The explanation begins with the query.",
    ),
    Requirement(
        "plan:format-step-count",
        EXPLAINABILITY_OUTPUT_FORMAT,
        "Each step of the path names its node and level, and how many nodes were searched.",
    ),
    Requirement(
        "plan:format-step-match",
        EXPLAINABILITY_OUTPUT_FORMAT,
        "Each step quotes the text that matched, with its score.",
    ),
    Requirement(
        "plan:format-step-reason",
        EXPLAINABILITY_OUTPUT_FORMAT,
        "Each step says where it descends and why.",
    ),
    Requirement(
        "plan:format-evidence-segment",
        EXPLAINABILITY_OUTPUT_FORMAT,
        "The evidence names its segment.",
    ),
    Requirement(
        "plan:format-evidence-grips",
        EXPLAINABILITY_OUTPUT_FORMAT,
        "Each piece of evidence quotes its text and cites its grip.",
    ),
    Requirement(
        "plan:format-offer-expand",
        EXPLAINABILITY_OUTPUT_FORMAT,
        "The explanation ends with the offer to expand a grip.",
    ),
    Requirement(
        "plan:cli-search-level",
        NEW_COMMANDS,
        '"search --level month --query WORDS" searches all nodes of a level.',
    ),
    Requirement(
        "plan:cli-search-node",
        NEW_COMMANDS,
        '"search --node ID --query WORDS" searches within one node.',
    ),
    Requirement(
        "plan:cli-search-parent",
        NEW_COMMANDS,
        '"search --parent ID --query WORDS" searches the children of a node.',
    ),
    Requirement(
        "plan:cli-navigate",
        NEW_COMMANDS,
        '"navigate QUERY" runs the navigation loop and shows its path.',
    ),
    Requirement(
        "plan:cli-search-limit",
        CLI_IMPLEMENTATION,
        '"search --limit N" caps the results, at 10 by default.',
    ),
    Requirement(
        "plan:cli-navigate-verbose",
        CLI_IMPLEMENTATION,
        '"navigate --verbose" shows the navigation path in detail.',
    ),
    Requirement(
        "plan:drill-down-more-specific",
        INTEGRATION_TESTS,
        "The children of a node that matches match too, down to the segment.",
    ),
    Requirement(
        "plan:success-find-x",
        SUCCESS_CRITERIA,
        'An agent answers "find X" with the TOC, summaries and grips alone.',
        departure=(
            "Each segment also keeps a set of term hashes of its events, because a summary must never hide what lies below it."
        ),
    ),
    Requirement(
        "plan:success-no-index",
        SUCCESS_CRITERIA,
        "A fresh install with every index engine blocked starts, navigates and answers.",
    ),
    Requirement(
        "plan:success-explainable-path",
        SUCCESS_CRITERIA,
        "The path says of every navigation step why it was chosen.",
    ),
    Requirement(
        "plan:success-token-efficient",
        SUCCESS_CRITERIA,
        "A search stays within its token budget and descends only when needed.",
    ),
    Requirement(
        "plan:success-graceful-degradation",
        SUCCESS_CRITERIA,
        "A query that is too broad is answered by partial results.",
    ),
    Requirement(
        "plan:success-search-node",
        SUCCESS_CRITERIA,
        "search_node works for searches of a single node.",
    ),
    Requirement(
        "plan:success-search-children",
        SUCCESS_CRITERIA,
        "search_children works for searches of a whole level.",
    ),
    Requirement(
        "plan:success-cli-search",
        SUCCESS_CRITERIA,
        "The search command works.",
    ),
    Requirement(
        "plan:integration-provenance",
        EXISTING_CODE_INTEGRATION,
        "The grip_ids of bullets are returned with search results.",
    ),
    Requirement(
        "plan:integration-expand-grip",
        EXISTING_CODE_INTEGRATION,
        "expand_grip verifies a claim against the stored event.",
    ),
    Requirement(
        "plan:future-bm25",
        FUTURE_PHASE_INTEGRATION,
        "A teleport by keyword leads to a node that search_node then searches.",
    ),
    Requirement(
        "plan:future-vector",
        FUTURE_PHASE_INTEGRATION,
        "A teleport by meaning leads to a node that search_node then searches.",
    ),
    Requirement(
        "plan:future-always-fallback",
        FUTURE_PHASE_INTEGRATION,
        "The agentic search answers whatever state the indexes are in.",
    ),
    Requirement(
        "plan:risk-large-toc",
        RISKS_AND_MITIGATIONS,
        "A search of a large tree is paged early and kept to the relevant time.",
    ),
    Requirement(
        "plan:risk-semantic-gap",
        RISKS_AND_MITIGATIONS,
        "It is documented that agentic search matches words and not meanings.",
    ),
    Requirement(
        "plan:risk-token-estimate",
        RISKS_AND_MITIGATIONS,
        "Token estimates are conservative, and their factor is configurable.",
    ),
    Requirement(
        "plan:risk-infinite-loop",
        RISKS_AND_MITIGATIONS,
        "navigate visits no node twice and stops after a bounded number of steps.",
    ),
)
