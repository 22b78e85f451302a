"""The sentinel and the token estimator."""

import html
import json
from importlib.resources import files

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_mcp.importers.own_output import remove_own_output
from memory_mcp.model.fencing import fence_text
from memory_mcp.model.sentinel import CLOSE, MARK, OPEN
from memory_mcp.model.tokens import estimate_tokens
from tests.requirements import requirement


@given(st.text())
def test_what_is_fenced_carries_the_mark_and_strips_to_nothing(text: str) -> None:
    fenced = fence_text(text)
    assert MARK in fenced
    assert remove_own_output(fenced) == ""


@given(st.text(alphabet="ab \n"), st.text(alphabet="ab \n"), st.text())
def test_text_around_a_fence_stays_and_the_fence_goes(before: str, after: str, inside: str) -> None:
    kept = remove_own_output(f"{before}{fence_text(f'{TOLD}{inside}')}{after}")
    # Blanks that indent the fence may go with it.
    wanted = {f"{text}{after}".strip() for text in (before, before.rstrip(" "))}
    assert kept in (wanted if "a" in before + after or "b" in before + after else {""})


def test_a_fence_cannot_be_closed_from_inside() -> None:
    fenced = fence_text(f"a {CLOSE} ignore all this")
    assert fenced.count(CLOSE) == 1
    assert remove_own_output(fenced) == ""


def test_a_fence_that_lost_its_end_swallows_the_rest() -> None:
    assert remove_own_output(f"hello {OPEN}\n{TOLD}recalled") == "hello"


#: How an answer of ours begins, so that it is known among other words.
TOLD = "**1. 2026-01-20 10:00 \u00b7 user** grip: grip:1767603600000:35cs7r7vpdbmj55j\n> "
FENCED = fence_text(f'{TOLD}We decided "rail" & <b>no</b> trucks.\n> It is cheaper.\n\n- scope: all projects')
LINES = FENCED.split("\n")
STRUCTURED = {"origin": MARK, "results": [{"quote": 'We "decided" {x \\ it\'s', "when": "2026-01-20T10:00"}], "also": []}
#: Our own output as somebody pastes it.
PASTED = {
    "as it was": FENCED,
    "html": html.escape(FENCED),
    "html twice": html.escape(html.escape(FENCED)),
    "numbered entities": FENCED.replace("<", "&#x3C;").replace(">", "&#62;"),
    "html lines": html.escape(FENCED).replace("\n", "<br>"),
    "json": json.dumps(FENCED),
    "json twice": json.dumps(json.dumps(FENCED)),
    "json for a page": json.dumps(FENCED).replace("<", "\\u003c").replace(">", "\\u003E").replace("/", "\\/"),
    "quoted": "\n".join(f"> {line}" for line in LINES),
    "quoted html": "\n".join(f"&gt; {html.escape(line)}" for line in LINES),
    "numbered": "\n".join(f"{number:6d}\t{line}" for number, line in enumerate(LINES, 9)),
    "numbered by arrows": "\n".join(f"{number:5d}\u2192{line}" for number, line in enumerate(LINES, 9)),
    "numbered by bars": "\n".join(f"{number:4d} | {line}" for number, line in enumerate(LINES, 9)),
    "indented": "\n".join(f"    {line}" for line in LINES),
    "in a block": f"```\n{FENCED}\n```",
    "other line ends": FENCED.replace("\n", "\r\n"),
    "joined": " ".join(FENCED.split()),
    "beginning": FENCED[: len(FENCED) // 2],
    "end": FENCED[len(FENCED) // 2 :],
    "beginning as html": html.escape(FENCED)[:150],
    "structured": json.dumps(STRUCTURED),
    "structured, laid out": json.dumps(STRUCTURED, indent=2),
    "structured in a text": json.dumps(json.dumps(STRUCTURED)),
    "structured in a text of a text": json.dumps(json.dumps(json.dumps(STRUCTURED))),
    "structured as html": html.escape(json.dumps(STRUCTURED)),
    "structured as python": str(STRUCTURED),
}


@pytest.mark.parametrize("how", PASTED)
def test_our_own_output_is_known_however_it_is_pasted(how: str) -> None:
    assert remove_own_output(PASTED[how]) == ""
    told = remove_own_output(f"Look at this:\n{PASTED[how]}\n\nIs it right?")
    assert told.startswith("Look at this:")
    # What was cut off in the middle of a line ends where its line ends.
    assert told.endswith("Is it right?")
    assert "decided" not in told if how != "end" else True


#: Texts that tell of the mark, as documentation, source code and people do.
TELLING = (
    f"What we say begins with {OPEN} and ends with {CLOSE}; all between is recalled.",
    f"{OPEN} has opened it since 2026-01-20 10:00 and {CLOSE} closes it.",
    f"The tags are\n- {OPEN}\n- {CLOSE}\nand nothing else.",
    f"It is fenced so:\n\n{OPEN}\n...\n{CLOSE}\n\nand never stored again.",
    f'OPEN = "{OPEN}"\nCLOSE = "{CLOSE}"\n',
    f'assert cut("before {OPEN}\\nfoo\\n{CLOSE} after") == "before  after"',
    f'Answers carry "origin": "{MARK}", so that they are known, and {{"origin": "{MARK}"}} is the least.',
    f"---\norigin: {MARK}\n\nThat line says where it is from.",
    f"What ends it is\n{CLOSE}\nas grip:1:2 shows.",
    html.escape(f"Escaped they are {OPEN} and {CLOSE}."),
)


@pytest.mark.parametrize("text", TELLING)
def test_a_text_that_tells_of_the_mark_stays_whole(text: str) -> None:
    assert remove_own_output(text) == text
    assert remove_own_output(f" {json.dumps(text)} and more") == f" {json.dumps(text)} and more"


@pytest.mark.parametrize("name", ["model/sentinel.py", "model/fencing.py", "importers/own_output.py", "server/schema.py"])
def test_the_source_of_this_program_stays_whole(name: str) -> None:
    text = files("memory_mcp").joinpath(name).read_text()
    numbered = "".join(f"{number:6d}\u2192{line}" for number, line in enumerate(f"{text}\n# {MARK}".splitlines(True), 1))
    assert remove_own_output(numbered) == numbered


@pytest.mark.parametrize(
    "unit",
    [
        "\n", "\r\n", " ", "<", "&lt;", "&amp;", "\\", "\\n", '\\"', "\\u003c", "<br>", "{", "1", MARK, OPEN, f"{OPEN}\n", CLOSE,
        f"\n{CLOSE}", f"&lt;{MARK}&gt;", "x\n", "> \n", f'{{"origin": "{MARK}", "a": ', f"\norigin: {MARK}\na: b", "grip:",
    ],
)  # fmt: skip
@pytest.mark.few(4)
def test_own_output_is_taken_out_in_time_that_grows_with_the_text_only(unit: str) -> None:
    """Half a megabyte takes no time to speak of; where the time is quadratic, it does not end."""
    text = unit * (500_000 // len(unit))
    for place in (f"{OPEN}\n{text}", f"{text}\n{CLOSE}", f"{FENCED}{text}a{FENCED}", f'{{"origin": "{MARK}", "results": {text}'):
        remove_own_output(place)


def test_text_without_a_fence_is_left_alone() -> None:
    assert remove_own_output("  as it was ") == "  as it was "


@pytest.mark.parametrize(
    ("text", "tokens"), [("", 0), ("a", 1), ("abcd", 1), ("abcde", 2), ("é", 1), ("ééé", 2), ("日本語", 3), ("😀", 1)]
)
def test_tokens_are_a_quarter_of_the_bytes_rounded_up(text: str, tokens: int) -> None:
    assert estimate_tokens(text) == tokens


@requirement("plan:risk-token-estimate")
@given(st.text(max_size=200), st.floats(0.1, 10))
def test_a_factor_multiplies_and_rounds_up(text: str, factor: float) -> None:
    plain, scaled = estimate_tokens(text), estimate_tokens(text, factor)
    assert plain * factor - 1e-6 <= scaled < plain * factor + 1 + 1e-6
    assert isinstance(scaled, int)


@given(st.text(max_size=100), st.text(max_size=100))
def test_two_texts_never_count_less_together_than_either(a: str, b: str) -> None:
    assert max(estimate_tokens(a), estimate_tokens(b)) <= estimate_tokens(a + b) <= estimate_tokens(a) + estimate_tokens(b)


def test_a_lone_surrogate_can_be_counted() -> None:
    assert estimate_tokens("\ud800") == 1
