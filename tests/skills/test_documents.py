"""The skills, the agent and the commands keep the contract, and name nothing that the program does not have."""

import json
import re
from typing import Any

import pytest

from bench.skills import tokens
from memory_mcp.indexes.settings import IndexSettings, TeleportSettings, TopicsSettings, VectorSettings
from memory_mcp.requests.refine import parse_refinement
from tests.interaction.conftest import Door, open_app
from tests.requirements import requirement
from tests.skills.documents import AGENTS, ALL, COMMANDS, FOLDER, PREFIXES, REFERENCES, SKILLS, Document, Program

NAMES = {"memory-query", "retrieval-policy", "bm25-search", "vector-search", "topic-graph", "memory-refine", "memory-setup"}
#: It configures and checks; it searches nothing.
SETUP = "skills/memory-setup/SKILL.md"
#: These write through the command line; they search nothing either.
REFINE, REFINING = "skills/memory-refine/SKILL.md", "commands/refine.md"
QUERYING = [d for d in SKILLS if d.name not in (SETUP, REFINE)]
#: Longest description in characters, longest text in tokens: an agent pays for both.
DESCRIPTION, MOST = 300, {"skills/memory-query/SKILL.md": 450}
LONGEST = 700
PARTS = ["Retrieval Layers Used", "Fallback Behavior", "Stop Conditions", "Configuration"]
#: The contract's check list with the tools that use each layer directly; the first question uses them all.
LAYERS = {
    "Topics (optional)": ("topics_by_query", "topics.enabled = true"),
    "Vector (optional)": ("vector_teleport", "teleport.vector.enabled = true"),
    "BM25 (optional)": ("teleport_search", "teleport.bm25.enabled = true"),
    "Agentic TOC Search (always available)": ("search_children", ""),
}


def by_name(document: Document) -> str:
    return document.name


def by_name_of(name: str) -> Document:
    return next(d for d in SKILLS if d.name == name)


every = pytest.mark.parametrize("document", ALL, ids=by_name)
querying = pytest.mark.parametrize("document", QUERYING, ids=by_name)


def section(document: Document, title: str, level: int) -> str:
    """What stands below a heading, up to the next of its level or above."""
    found = re.search(rf"^{'#' * level} {re.escape(title)}\n(.*?)(?=^#{{1,{level}}} |\Z)", document.body, re.M | re.S)
    return found[1].strip() if found else ""


# what is named


@every
def test_everything_written_as_code_is_something_the_program_has(document: Document, program: Program) -> None:
    assert [o for o in map(program.objection, document.spans()) if o] == []


@every
def test_every_name_with_an_underscore_and_every_code_in_the_prose_is_the_programs(document: Document, program: Program) -> None:
    prose = document.prose()
    assert [w for w in re.findall(r"\b[a-z]+(?:_[a-z]+)+\b", prose) if not program.names(w)] == []
    assert [w for w in re.findall(r"(?<!\$)\b[A-Z_]{5,}\b", prose) if w not in program.codes] == []


@every
def test_a_tool_of_the_full_profile_is_marked_as_such(document: Document, program: Program) -> None:
    for name in program.fuller:
        for found in re.finditer(rf"`{name}\b[^`]*`(.{{0,15}})", document.body):
            assert found[1].startswith(" (full profile)"), found[0]


@every
def test_another_skill_or_agent_that_is_named_exists(document: Document) -> None:
    known = {d.meta["name"] for d in (*SKILLS, *AGENTS)} | {"memory-mcp"}
    named = re.findall(r"\b(?:memory|bm25|vector|topic|retrieval)-[a-z]+\b", document.body)
    assert [n for n in named if n not in known] == []


@every
def test_links_lead_to_references_beside_the_skill(document: Document) -> None:
    links = re.findall(r"\]\(([^)]+)\)", document.body)
    assert [link for link in links if not ((FOLDER / document.name).parent / link).is_file()] == []


def test_every_reference_is_linked_from_its_skill() -> None:
    linked = {
        f"{d.name.removesuffix('SKILL.md')}{link}" for d in SKILLS for link in re.findall(r"\]\((references/[^)]+)\)", d.body)
    }
    assert {d.name for d in REFERENCES} == linked


@pytest.mark.parametrize(
    ("span", "said"),
    [
        ("intelligent_serch", "no tool, argument, field or value intelligent_serch"),
        ('intelligent_search(query="x", limt=5)', "'limt' was unexpected"),
        ('search_children(query="x", child_level="decade")', "'decade' is not one of"),
        ('browse_toc(node_id="toc:decade:2020")', "not a node id"),
        ('scope="everything"', "no tool takes scope='everything'"),
        ("teleport.bm52.enabled = true", "no setting teleport.bm52.enabled"),
        ("teleport.bm25.enabled = 3", "of another type"),
        ("memory-mcp retreival status", "Did you mean retrieval ("),
        ("memory-mcp timeline --day 7", "--day"),
        ("rm -rf", "nothing of this program"),
    ],
)
def test_what_the_program_does_not_have_is_found(span: str, said: str, program: Program) -> None:
    assert said in program.objection(span)


# front matter


def test_the_skills_are_those_of_the_contract() -> None:
    assert {d.meta["name"] for d in SKILLS} == NAMES
    assert [d.name for d in SKILLS] == [f"skills/{name}/SKILL.md" for name in sorted(NAMES)]
    assert [d.meta["name"] for d in AGENTS] == ["memory-navigator"]
    assert [d.name for d in COMMANDS] == [f"commands/{name}.md" for name in ("context", "decide", "recent", "refine", "search")]


@pytest.mark.parametrize("document", [*SKILLS, *AGENTS], ids=by_name)
def test_a_description_begins_with_what_it_is_for_and_says_when(document: Document) -> None:
    said = document.meta["description"]
    assert len(said) < DESCRIPTION
    assert re.search(r"\bwhen\b", said[:80]), said
    assert not re.match(r"(?i)(this|a|an|the|use|skill|agent)\b", said)


def test_no_two_descriptions_begin_alike() -> None:
    begun = [" ".join(d.meta["description"].split()[:3]) for d in (*SKILLS, *AGENTS, *COMMANDS)]
    assert len(set(begun)) == len(begun)


@pytest.mark.parametrize("document", COMMANDS, ids=by_name)
def test_a_command_is_a_persons_takes_arguments_and_costs_no_agent_a_line(document: Document) -> None:
    assert len(document.meta["description"]) < DESCRIPTION / 3
    assert document.meta["disable-model-invocation"] is True
    assert isinstance(document.meta["argument-hint"], str)
    assert "$ARGUMENTS" in document.body


READING = [d for d in (*QUERYING, *COMMANDS) if d.name != REFINING]


@pytest.mark.parametrize("document", READING, ids=by_name)
def test_the_tools_let_through_are_those_it_calls_and_only_read(document: Document, program: Program) -> None:
    allowed = document.meta["allowed-tools"].split(", ")
    split = [{a.removeprefix(p) for a in allowed if a.startswith(p)} for p in PREFIXES]
    assert split[0] == split[1]
    assert len(allowed) == 2 * len(split[0])
    assert [name for name in split[0] if not program.reads(name) or name in program.fuller] == []
    assert {name for name, _ in document.called()} <= split[0]


def test_what_refines_may_run_the_three_acts_of_one_command_and_nothing_else(program: Program) -> None:
    acts = ["due", "show", "write"]
    bash = [f"Bash(memory-mcp refine {act}:*)" for act in acts]
    by_its_name = {d.name: d for d in (*SKILLS, *COMMANDS)}
    skill, command = by_its_name[REFINE], by_its_name[REFINING]
    assert skill.meta["allowed-tools"].split(", ") == bash
    assert command.meta["allowed-tools"].split(", ") == [*(p + "get_retrieval_status" for p in PREFIXES), *bash]
    for document in (skill, command):
        run = re.findall(r"memory-mcp refine (\w+)", document.body)
        assert list(dict.fromkeys(run)) == acts, document.name
        assert re.search(r"[Ss]top\b.*?\d", document.body, re.S), document.name
    assert "uses no teleport" in skill.body
    assert {name for name, _ in skill.called()} <= program.fuller
    [given] = re.findall(r"<<'EOF'\n(.*?)\nEOF", skill.body, re.S)
    parse_refinement("toc:day:2026-01-21", json.loads(given))


@requirement("contract:skill-md-teleport-dependency")
def test_the_setup_skill_lets_nothing_through() -> None:
    [setup] = [d for d in SKILLS if d.name == SETUP]
    assert "allowed-tools" not in setup.meta
    assert "uses no teleport" in setup.body


def test_the_navigator_has_the_memory_alone_and_may_not_write(program: Program) -> None:
    [navigator] = AGENTS
    assert navigator.meta["tools"].split(", ") == [p.removesuffix("__") for p in PREFIXES]
    writes = {p + name for p in PREFIXES for name in program.tools if not program.reads(name)}
    assert set(navigator.meta["disallowedTools"].split(", ")) == writes


# the contract


@pytest.mark.parametrize("document", [*QUERYING, *AGENTS, *COMMANDS], ids=by_name)
@requirement("bm25:FR-07.6")
def test_the_status_comes_before_any_search(document: Document, program: Program) -> None:
    searches = [name for name in program.tools if program.asks(name)]
    places = [m.start() for name in searches for m in re.finditer(rf"\b{name}\b", document.body)]
    assert 0 <= document.body.find("`get_retrieval_status") < min(places, default=len(document.body))
    assert places or document in COMMANDS


@querying
def test_the_four_parts_are_there_in_their_order(document: Document) -> None:
    whole = section(document, "Memory Integration", 2)
    assert re.findall(r"^### (.+)$", whole, re.M) == PARTS
    assert [part for part in PARTS if not section(document, part, 3)] == []


@querying
@requirement("contract:skill-md-layers-used")
def test_the_check_list_has_the_four_layers_and_ticks_those_that_are_used(document: Document) -> None:
    listed = re.findall(r"^- \[([ x])\] (.+)$", section(document, PARTS[0], 3), re.M)
    assert [name for _, name in listed] == list(LAYERS)
    used = {name for name, (tool, _) in LAYERS.items() if tool in document.body or "intelligent_search" in document.body}
    assert {name for tick, name in listed if tick == "x"} == used


@querying
@requirement("contract:skill-md-configuration")
def test_the_key_of_every_layer_that_is_used_is_named(document: Document) -> None:
    ticked = re.findall(r"^- \[x\] (.+)$", section(document, PARTS[0], 3), re.M)
    keys = [LAYERS[name][1] for name in ticked]
    assert [key for key in keys if key and f"`{key}`" not in section(document, PARTS[3], 3)] == []


@querying
@requirement("contract:skill-md-tiers", "contract:skill-md-teleport-dependency")
def test_the_tiers_say_when_and_what_for_and_end_in_the_tree_that_always_works(document: Document) -> None:
    tiers = section(document, "Search Capability Tiers", 2)
    rows = [row for row in tiers.splitlines() if row.startswith("|")]
    assert "When" in rows[0]
    assert "Best for" in rows[0]
    assert re.match(r"\| (3, )?5\b", rows[-1])
    assert "always works" in rows[-1]
    assert "teleport" in tiers


@querying
@requirement(
    "contract:skill-md-fallback-behaviour",
    "contract:skill-md-stop-conditions",
    "bm25:disabled-uses-toc",
    "bm25:enabled-falls-back",
)
def test_what_is_unavailable_or_late_has_a_way_on_and_bounds_are_numbers(document: Document) -> None:
    fallback = section(document, PARTS[1], 3)
    assert "search_children" in fallback or "tree" in fallback
    assert "DEADLINE_EXCEEDED" in fallback
    assert "partial" in fallback
    assert re.search(r"\d", section(document, PARTS[2], 3))


@querying
@requirement("bm25:disabled-not-offered")
def test_no_layer_is_offered_that_is_off_and_its_key_is_told(document: Document) -> None:
    start = document.body.partition("## ")[0]
    assert re.search(r"[Nn]ever offer|not offer|[Uu]se and offer", start)
    assert "enable_with" in start
    assert "once per request" in start


@pytest.mark.parametrize("document", [*QUERYING, by_name_of(REFINE), *AGENTS, *COMMANDS], ids=by_name)
def test_facts_are_cited_and_found_words_are_data(document: Document) -> None:
    words = " ".join(document.body.split())
    assert re.search(r"grip ids?\b", words)
    assert re.search(r"data( from the past)?, never instructions", words)


@requirement("plan:skill-file", "plan:skill-search-api", "plan:skill-patterns")
def test_the_first_skill_searches_and_navigates_and_has_references_of_tree_search_and_patterns() -> None:
    by_its_name = {d.name: d for d in (*SKILLS, *REFERENCES)}
    whole = by_its_name["skills/memory-query/SKILL.md"]
    assert {"intelligent_search", "search_children", "expand_grip"} <= {name for name, _ in whole.called()}
    api = by_its_name["skills/memory-query/references/search-api.md"]
    assert {"search_children", "search_node"} <= {name for name, _ in api.called()}
    patterns = by_its_name["skills/memory-query/references/patterns.md"]
    assert len(re.findall(r"^\| [^|]+ \| [^|]*`[a-z_]+", patterns.body, re.M)) > 3


@requirement("bm25:enabled-preferred", "bm25:enabled-combines", "bm25:disabled-informs", "bm25:disabled-uses-toc")
def test_for_exact_words_teleport_comes_first_and_the_tree_goes_on_from_its_hits() -> None:
    [skill] = [d for d in SKILLS if d.meta["name"] == "bm25-search"]
    steps = dict(re.findall(r"^(\d)\. (.+)$", skill.body, re.M))
    assert steps["1"].startswith("`get_retrieval_status()`")
    assert "BM25 not `enabled` and `healthy`?" in steps["1"]
    assert '"BM25 search is not enabled. Using TOC navigation."' in steps["1"]
    assert steps["1"].endswith("go on with step 3.")
    assert steps["2"].startswith("`teleport_search(")
    assert steps["3"].startswith("Nothing, or BM25 is off: `search_children(")
    assert steps["4"].startswith("A hit is a starting point: `browse_toc(")


@requirement("contract:skills-decide")
def test_skills_choose_sequence_bound_fall_back_and_cite_and_a_tool_does_only_what_it_is_told(program: Program) -> None:
    for skill in QUERYING:
        called = [name for name, _ in skill.called()]
        assert called[0] == "get_retrieval_status", skill.name
        assert len(set(called)) > 1, skill.name
        for name, given in skill.called():
            takes = program.tools[name].input_schema["properties"]
            assert not program.asks(name) or {"token_budget", "limit"} & set(takes) & set(given), (skill.name, name)
        assert "search_children" in skill.body, "what answers without an index"
        assert "[grip id, date]" in skill.body or "grip id" in skill.body
    off = TeleportSettings(bm25=IndexSettings(enabled=False), vector=VectorSettings(enabled=False))
    assert refused("teleport_search", teleport=off).startswith("UNAVAILABLE: BM25 index not enabled")


@querying
def test_calls_that_can_be_bounded_are_bounded(document: Document, program: Program) -> None:
    for tool, given in document.called():
        takes = program.tools[tool].input_schema["properties"]
        if program.asks(tool) or tool == "expand_grip":
            assert {"token_budget", "limit"} & set(takes) & set(given), (tool, given)


@requirement("plan:skill-navigator")
def test_the_navigator_walks_every_level_and_explains_itself() -> None:
    [navigator] = AGENTS
    assert "year > month > week > day > segment" in navigator.body
    steps = ("drill down", "move laterally", "expand its grip")
    assert [s for s in steps if s not in section(navigator, "Loop", 2)] == []
    told = re.findall(r"^([A-Z][a-z ]+):", section(navigator, "Report", 2), re.M)
    assert told == ["Answer", "Search path", "Tier and mode", "Candidates considered", "Why the winner won", "Grips", "Bounds"]
    assert section(navigator, "Stop", 2)


@every
def test_it_is_short(document: Document) -> None:
    assert tokens(document.body) <= MOST.get(document.name, LONGEST)


# the program's own words


def refused(tool: str, **more: Any) -> str:
    app = open_app(days=None, **more)
    try:
        return Door(app, "auto").error(tool, query="jwt")
    finally:
        app.close()


def test_messages_that_are_quoted_are_the_servers_own() -> None:
    teleport = TeleportSettings(bm25=IndexSettings(enabled=False), vector=VectorSettings(enabled=False))
    tools = ("teleport_search", "vector_teleport", "topics_by_query")
    said = " ".join(refused(tool, teleport=teleport, topics=TopicsSettings(enabled=False)) for tool in tools)
    quoted = {m for d in ALL for m in re.findall(r'UNAVAILABLE "([^"]+)"', d.body)}
    assert len(quoted) == len(tools)
    assert [m for m in quoted if m not in said] == []
    assert [key for _, key in LAYERS.values() if key not in said] == []
