"""Rules in a client's instruction file: written once and taken out, and no text of the user is lost."""

import stat
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from memory_mcp.base.errors import InstallRefused
from memory_mcp.install.edit import files
from memory_mcp.install.rules import Rule, add_rule, escape_comments, list_rules, remove_rules

RULE = Rule("Run the linter before you commit.", "grip:1768204830000:wyr9bt1tqwfdmd7a-0-33")
OTHER = Rule("No emojis.", "grip:1768204830000:wyr9bt1tqwfdmd7b-0-10")
BEGIN, _, END = add_rule(None, RULE).splitlines()
TEXTS = st.lists(st.sampled_from(["a", "# Notes", "\n", "\r\n", "\r", " ", "- x", "é"]), max_size=40).map("".join)
#: Lines of a file after hands and formatters went over it.
LINES = st.lists(
    st.sampled_from([BEGIN, END, f"{BEGIN} \t", f"{END} ", f"Ours begin with {BEGIN}", f"  {END}", RULE.line, f"{OTHER.line}  ",
                     "- mine", "- mine <!-- todo -->", "  goes on", "Use tabs", ""]),
    max_size=12,
)  # fmt: skip


@given(TEXTS, st.sampled_from(["", "after", "after\n"]))
def test_taking_rules_out_gives_a_file_back_to_the_byte(content: str, after: str) -> None:
    both = add_rule(add_rule(content, RULE), OTHER)
    assert list_rules(both) == [RULE, OTHER]
    assert both.startswith(content)
    assert add_rule(both, RULE) == add_rule(both, Rule("run the linter  before you commit", "grip:1:x")) == both
    assert remove_rules(both + after, [OTHER]) == add_rule(content, RULE) + after
    assert remove_rules(both, [RULE, OTHER]) == content
    later = remove_rules(both + after, [RULE, OTHER])
    # A line that was written below the block does not become part of the one above it.
    assert later == content + after or (later is not None and later.splitlines() == [*content.splitlines(), *after.splitlines()])


def test_only_a_file_that_was_made_for_rules_goes_with_them() -> None:
    assert remove_rules(add_rule(None, RULE), [RULE]) is None
    assert remove_rules(add_rule("", RULE), [RULE]) == ""
    assert remove_rules("A\r\nB\n" + add_rule("", RULE).replace("\n", "\r\n"), [RULE]) == "A\r\nB\n"


def user_lines(content: str) -> Counter[str]:
    lines = (line.rstrip() for line in content.splitlines())
    return Counter(line for line in lines if line and line not in (BEGIN, END, RULE.line, OTHER.line))


@given(LINES, st.sampled_from(["\n", "\r\n"]), st.booleans())
@example([f"{BEGIN} ", RULE.line, "  goes on", OTHER.line, END], "\n", True)
@example([f"Ours begin with {BEGIN}", "mine", BEGIN, RULE.line, END], "\n", True)
def test_no_text_of_the_user_is_lost_from_a_file_that_was_edited(lines: list[str], newline: str, ends: bool) -> None:
    content = newline.join(lines) + (newline if ends else "")
    new = Rule("Always use pnpm.", "grip:1:new-0-3")
    try:
        rules = list_rules(content)
    except InstallRefused:
        with pytest.raises(InstallRefused):
            add_rule(content, new)
        with pytest.raises(InstallRefused):
            remove_rules(content, [RULE])
        return
    added = add_rule(content, new)
    assert list_rules(added) == [*rules, new]
    assert "".join(line for line in added.splitlines(keepends=True) if line.rstrip() != new.line).startswith(content)
    for chosen in ([], [RULE], [new], [*rules, new]):
        text = remove_rules(added, chosen) or ""
        assert user_lines(text) - Counter([new.line]) == user_lines(content)
        assert list_rules(text) == [rule for rule in [*rules, new] if rule not in chosen]


@pytest.mark.parametrize("content", [f"{BEGIN}\n", f"{END}\n{BEGIN}\n", f"{BEGIN}\n{BEGIN}\n{END}\n"])
def test_marks_that_are_not_one_pair_are_refused_by_their_lines(content: str) -> None:
    with pytest.raises(InstallRefused, match="not between two marks"):
        add_rule(content, RULE)


def test_words_are_in_the_file_only_as_a_whole_line() -> None:
    rule = Rule("Use tabs", "grip:1:x")
    for content in ("Never use tabs here.\n", "- Do not use tabs\n", "Use tabs, not spaces"):
        assert rule.line in add_rule(content, rule)
    for content in ("use  tabs.\n", "# x\n* Use tabs <!-- mine -->\n", "1. **Use tabs**"):
        assert add_rule(content, rule) == content


@given(st.text(alphabet="<!->a", max_size=20))
@example("<!<!----")
def test_no_comment_begins_or_ends_in_a_rule(text: str) -> None:
    escaped = escape_comments(text)
    assert not any(mark in escaped for mark in ("<!", "-->", "--!>"))


def test_a_new_shared_file_has_the_permissions_of_its_folder(tmp_path: Path) -> None:
    for mode, name in ((0o755, "usual"), (0o700, "private")):
        folder = tmp_path / name
        folder.mkdir()
        folder.chmod(mode)
        files.replace(folder / "a" / "b" / "rules.md", None, b"x", is_shared=True)
        files.replace(folder / "ours" / "state.json", None, b"x")
        modes = [stat.S_IMODE((folder / path).stat().st_mode) for path in ("a", "a/b", "a/b/rules.md", "ours", "ours/state.json")]
        assert modes == [mode, mode, mode & 0o664, 0o700, 0o600]
