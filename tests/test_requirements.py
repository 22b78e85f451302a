"""Requirements and tests agree, in both directions, whatever part of the tests a run selects."""

import os
from collections import Counter
from collections.abc import Mapping
from dataclasses import FrozenInstanceError, replace
from itertools import chain
from pathlib import Path

import pytest

from tests.requirements import ALL, REQUIREMENTS, Requirement, requirement
from tests.requirements.claims import Claim, Reading, read_tree
from tests.requirements.documents import DOCUMENTS, NUMBERED, PLACE, headings, numbered_ids

TESTS = Path(__file__).parent
PREFIXES = ("policy", "bm25", "tele", "us", "goal", "metric", "plan", "contract", "error")
#: fewer than these say that something is so, and not why
FEWEST_WORDS = 5
SPEC_DIR = "MEMORY_MCP_SPEC_DIR"

LIVE = Requirement("policy:FR-01", "a document", "It is built.")
WAITING = Requirement("policy:FR-04", "a document", "It is not.", deferred="it is not built yet")


def unclaimed(requirements: Mapping[str, Requirement], reading: Reading) -> list[str]:
    """List what is built, by its own account, and proved by no test."""
    proved = {claim.id for claim in reading.claims if claim.counts}
    return sorted(one.id for one in requirements.values() if not one.deferred and one.id not in proved)


def unknown(requirements: Mapping[str, Requirement], reading: Reading) -> list[Claim]:
    """List claims of what no document asks for."""
    return [claim for claim in reading.claims if claim.id not in requirements]


def proved_but_deferred(requirements: Mapping[str, Requirement], reading: Reading) -> list[Claim]:
    """List claims of what the records say is not built."""
    counting = (claim for claim in reading.claims if claim.counts)
    return [one for one in counting if one.id in requirements and requirements[one.id].deferred]


@pytest.fixture(scope="module")
def reading() -> Reading:
    return read_tree(TESTS)


@pytest.fixture
def spec_dir() -> Path:
    folder = os.environ.get(SPEC_DIR)
    if not folder:
        pytest.skip(f"{SPEC_DIR} names no folder of specification documents to compare with")
    return Path(folder)


def tree(root: Path, **modules: str) -> Reading:
    """Read a made-up tree of tests, one module for each keyword; `toc__suite` is toc/suite.py."""
    for name, source in modules.items():
        path = root.joinpath("tests", *name.split("__")).with_suffix(".py")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(source, encoding="utf-8")
    return read_tree(root / "tests")


# the repository


def test_every_requirement_that_is_not_deferred_is_claimed_by_a_test(reading: Reading) -> None:
    assert unclaimed(REQUIREMENTS, reading) == []


def test_every_claimed_id_is_a_requirement(reading: Reading) -> None:
    assert unknown(REQUIREMENTS, reading) == []


def test_a_requirement_that_a_test_claims_is_not_deferred(reading: Reading) -> None:
    assert proved_but_deferred(REQUIREMENTS, reading) == []


def test_every_mark_can_be_read_and_has_an_effect(reading: Reading) -> None:
    assert reading.problems == []


# the records


def test_ids_are_unique() -> None:
    assert [one for one, count in Counter(one.id for one in ALL).items() if count > 1] == []


def test_ids_carry_a_known_prefix() -> None:
    assert {one.id.partition(":")[0] for one in ALL} == set(PREFIXES)
    assert [one.id for one in ALL if not one.id.partition(":")[2]] == []


def test_behaviours_and_departures_are_sentences_and_deferrals_have_a_reason() -> None:
    for one in ALL:
        assert one.behaviour.endswith("."), one.id
        if one.departure:
            assert one.departure.strip().endswith("."), one.id
            assert len(one.departure.split()) >= FEWEST_WORDS, one.id
        if one.deferred:
            assert len(one.deferred.split()) >= FEWEST_WORDS, one.id


def test_a_source_names_a_document_and_a_place_in_it() -> None:
    for one in ALL:
        for place in one.source.split("; "):
            found = PLACE.fullmatch(place)
            assert found, f"{one.id}: {place}"
            assert found["file"] in DOCUMENTS, one.id


def test_a_record_cannot_be_changed() -> None:
    with pytest.raises(FrozenInstanceError):
        LIVE.behaviour = "It is something else."  # type: ignore[misc]


# the documents


def test_the_documents_number_exactly_the_requirements_recorded(spec_dir: Path) -> None:
    recorded = {one.id for one in ALL if NUMBERED.fullmatch(one.id)}
    assert recorded == numbered_ids(spec_dir)


def test_every_source_is_a_heading_of_its_document(spec_dir: Path) -> None:
    written = {f"{name} {place}" for name in DOCUMENTS for place in headings(spec_dir / name)}
    sources = set(chain.from_iterable(one.source.split("; ") for one in ALL))
    assert sources - written == set()


def test_ids_are_counted_off_the_documents(tmp_path: Path) -> None:
    (tmp_path / "agent-retrieval-policy-prd.md").write_text(
        "| ID | Requirement |\n| FR-01 | Combined status check |\n", encoding="utf-8"
    )
    (tmp_path / "bm25-teleport-prd.md").write_text(
        "| US-01 | Agent |\n| **G1: Fast** | p99 |\n| TELE-01 | Index |\n"
        "#### FR-01: Setup\n\n- [ ] one\n- [ ] two\n\n"
        "### NFR-01: Speed\n| Metric | Target |\n|----|----|\n| Latency | low |\n"
        "### NFR-02: Safety\n- Detected\n## 12. Else\n- not counted\n",
        encoding="utf-8",
    )
    assert numbered_ids(tmp_path) == {
        *("policy:FR-01", "us:US-01", "goal:G1", "tele:TELE-01"),
        *("bm25:FR-01.1", "bm25:FR-01.2", "bm25:NFR-01.1", "bm25:NFR-02.1"),
    }


# the mark


def test_the_mark_carries_its_ids() -> None:
    ids = ("policy:FR-01", "goal:G4")
    mark = requirement(*ids).mark
    assert (mark.name, mark.args, mark.kwargs) == ("requirement", ids, {})


@pytest.mark.parametrize("ids", [(), ("policy:FR-99",), ("policy:FR-01", "FR-02")])
def test_a_mark_of_an_unknown_requirement_is_refused(ids: tuple[str, ...]) -> None:
    with pytest.raises(LookupError):
        requirement(*ids)


def test_a_refused_mark_names_the_nearest_requirement() -> None:
    with pytest.raises(LookupError, match="policy:FR-08"):
        requirement(*("policy:FR-8",))


# the checks themselves: each can fail

ON_A_TEST = '@requirement("policy:FR-01")\ndef test_a() -> None: ...\n'
IN_A_CLASS = '    @requirement("goal:G4")\n    def test_a(self) -> None: ...\n'
ON_A_CASE = '@pytest.mark.parametrize("n", [pytest.param(1, marks=requirement("policy:FR-01"))])'
ON_A_CASE_OFF = ON_A_CASE.replace("marks=", "marks=[pytest.mark.xfail, ").replace("))])", ")])])")


def test_a_mark_on_a_test_is_a_claim(tmp_path: Path) -> None:
    read = tree(tmp_path, test_a=ON_A_TEST)
    assert read == Reading([Claim("policy:FR-01", "tests/test_a.py:1", counts=True)])
    assert unclaimed({LIVE.id: LIVE}, read) == []


@pytest.mark.parametrize(
    "source",
    [
        'pytestmark = requirement("policy:FR-01")\ndef test_a() -> None: ...\n',
        'pytestmark = [requirement("goal:G4", "policy:FR-01")]\nasync def test_a() -> None: ...\n',
        f"{ON_A_CASE}\ndef test_a(n: int) -> None: ...\n",
        '@requirements.requirement("policy:FR-01")\ndef test_a() -> None: ...\n',
        f"class TestA:\n{IN_A_CLASS.replace('goal:G4', 'policy:FR-01')}",
    ],
)
def test_a_claim_may_stand_wherever_a_mark_has_effect(tmp_path: Path, source: str) -> None:
    read = tree(tmp_path, test_a=source)
    assert read.problems == []
    assert unclaimed({LIVE.id: LIVE}, read) == []


@pytest.mark.parametrize(
    "source",
    [
        "def test_a() -> None: ...\n",
        f'@pytest.mark.skip(reason="later")\n{ON_A_TEST}',
        f"@pytest.mark.xfail\n{ON_A_TEST}",
        f'pytestmark = [pytest.mark.skip("later")]\n{ON_A_TEST}',
        f"{ON_A_CASE_OFF}\ndef test_a(n: int) -> None: ...\n",
    ],
)
def test_a_test_that_is_switched_off_proves_nothing(tmp_path: Path, source: str) -> None:
    read = tree(tmp_path, test_a=source)
    assert unclaimed({LIVE.id: LIVE}, read) == ["policy:FR-01"]
    assert proved_but_deferred({LIVE.id: replace(LIVE, deferred="not yet")}, read) == []


def test_a_claim_of_an_unknown_id_is_found_even_where_it_does_not_count(tmp_path: Path) -> None:
    source = '@pytest.mark.xfail\n@requirement("policy:FR-77")\ndef test_a() -> None: ...\n'
    (claim,) = unknown({LIVE.id: LIVE}, tree(tmp_path, test_a=source))
    assert claim == Claim("policy:FR-77", "tests/test_a.py:2", counts=False)


def test_a_claim_of_a_deferred_requirement_is_found(tmp_path: Path) -> None:
    read = tree(tmp_path, test_a=ON_A_TEST.replace("FR-01", "FR-04"))
    assert proved_but_deferred({WAITING.id: WAITING}, read) == read.claims
    assert unclaimed({WAITING.id: WAITING}, read) == []


def test_a_suite_counts_once_a_module_imports_it(tmp_path: Path) -> None:
    alone = tree(tmp_path, toc__suite=ON_A_TEST)
    assert alone.problems == ["tests/toc/suite.py:1: no module imports this suite"]
    assert [claim.counts for claim in alone.claims] == [False]
    used = tree(tmp_path, toc__test_a="from tests.toc.suite import *\n")
    assert used == Reading([Claim("policy:FR-01", "tests/toc/suite.py:1", counts=True)])


@pytest.mark.parametrize(
    ("source", "problem"),
    [
        ('pytestmark = requirement("goal:G4")\n', "the module has no test"),
        (f'@requirement("goal:G4")\ndef helper() -> None: ...\n{ON_A_TEST}', "helper is no test"),
        (f"class Cases:\n{IN_A_CLASS}", "Cases is not collected"),
        ('def test_a() -> None:\n    requirement("goal:G4")\n', "inside a function"),
        ("@requirement(*IDS)\ndef test_a() -> None: ...\n", "a literal string"),
        ("@requirement()\ndef test_a() -> None: ...\n", "at least one id"),
    ],
)
def test_a_mark_without_effect_is_a_problem(tmp_path: Path, source: str, problem: str) -> None:
    (found,) = tree(tmp_path, test_a=source).problems
    assert problem in found
