"""The folder of the specifications goes in; the ids they number and their headings come out."""

import re
from pathlib import Path

POLICY = "agent-retrieval-policy-prd.md"
PLAN = "agentic-toc-search-plan.md"
BM25 = "bm25-teleport-prd.md"
ARCHITECTURE = "cognitive-architecture.md"
DOCUMENTS = (POLICY, PLAN, BM25, ARCHITECTURE)

#: the requirements whose ids come from the documents' own numbers
NUMBERED = re.compile(r"policy:FR-\d+|bm25:FR-\d+\.\d+|bm25:NFR-\d+\.\d+|tele:TELE-\d+|us:US-\d+|goal:G\d+")
#: one place in a document, as a requirement's source names it
PLACE = re.compile(r'(?P<file>\S+\.md) (?:section|appendix) (?:[\d.]+|[A-Z]|".+")')

_FENCE = re.compile(r"^```")
_HEADING = re.compile(r"^#+ (.+)$")
_NUMBER = re.compile(r"(\d+(?:\.\d+)*)\.? ")
_APPENDIX = re.compile(r"Appendix ([A-Z]): ")
_ROW = re.compile(r"^\| \*{0,2}(FR-\d+|TELE-\d+|US-\d+|G\d+)\b")
_COUNTED = re.compile(r"^#+ (N?FR-\d+): ")
_PREFIX = {"FR": "policy", "TELE": "tele", "US": "us", "G": "goal"}


def numbered_ids(folder: Path) -> set[str]:
    """Every id the documents number, prefixed; criteria and rows of BM25 are counted off."""
    return {*_row_ids(folder / POLICY), *_row_ids(folder / BM25), *_counted_ids(folder / BM25)}


def headings(document: Path) -> set[str]:
    """Every place that a source may name: `section 5.1`, `appendix C`, `section "Goals"`."""
    places: set[str] = set()
    fenced = False
    for line in document.read_text(encoding="utf-8").splitlines():
        fenced ^= bool(_FENCE.match(line))
        found = _HEADING.match(line)
        if fenced or not found:
            continue
        title = found[1]
        places.add(f'section "{title}"')
        if number := _NUMBER.match(title):
            places.add(f"section {number[1]}")
        if appendix := _APPENDIX.match(title):
            places.add(f"appendix {appendix[1]}")
    return places


def _row_ids(document: Path) -> set[str]:
    """Ids that open a table row."""
    rows = map(_ROW.match, document.read_text(encoding="utf-8").splitlines())
    ids = {row[1] for row in rows if row}
    return {f"{_PREFIX[re.split(r'[-0-9]', one)[0]]}:{one}" for one in ids}


def _counted_ids(document: Path) -> set[str]:
    """FR-01.1 for the first criterion under heading FR-01, NFR-01.1 for the first row or bullet."""
    ids: set[str] = set()
    current, count = "", 0
    for line in document.read_text(encoding="utf-8").splitlines():
        if heading := _HEADING.match(line):
            counted = _COUNTED.match(heading[0])
            current, count = (counted[1] if counted else ""), 0
        elif current and (line.startswith("- ") or _is_data_row(line)):
            count += 1
            ids.add(f"bm25:{current}.{count}")
    return ids


def _is_data_row(line: str) -> bool:
    return line.startswith("| ") and not line.startswith("| Metric ")
