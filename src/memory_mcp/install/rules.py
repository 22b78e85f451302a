"""Puts rules of the user into a client's own instruction file, in a block of ours, and takes them out. Pure.

Invariants
1. What else the file holds stays, byte for byte, in the block too; taking out all rules gives the file back as it was.
2. No rule is there twice, in whatever case it is written.
3. The block is found by its two marks, each a line of its own; a file in which they are not one pair is not changed.

Change here: the instruction file of a client.
"""

import re
from collections.abc import Sequence
from typing import NamedTuple

from memory_mcp.base.errors import InstallRefused

#: The file in a project's directory that each client reads before it works there.
INSTRUCTION_FILES = {
    "claude-code": "CLAUDE.md",
    "codex": "AGENTS.md",
    "opencode": "AGENTS.md",
    "cursor": "AGENTS.md",
    "zed": "AGENTS.md",
    "gemini": "GEMINI.md",
    "copilot": ".github/copilot-instructions.md",
    "windsurf": ".windsurf/rules/memory.md",
}
_BEGIN, _END = "<!-- memory-mcp: rules that the user confirmed -->", "<!-- memory-mcp: end of rules -->"
_RULE = re.compile(r"- (?P<text>.*) <!-- (?P<grip>grip:\S+) -->\s*")
_BULLET, _COMMENT = re.compile(r"^\s*(?:[-*+]|\d+[.)])\s+"), re.compile("<!--.*?-->")


class Rule(NamedTuple):
    """A rule in the user's words, and the quotation that proves it."""

    text: str
    grip: str

    @property
    def line(self) -> str:
        """The rule as a line of Markdown."""
        return f"- {self.text} <!-- {self.grip} -->"


class _Block(NamedTuple):
    """The lines of a file around and in the block of rules, each with its line end."""

    before: list[str]
    begin: str
    content: list[str]
    end: str
    after: list[str]

    def join(self) -> str:
        return "".join([*self.before, self.begin, *self.content, self.end, *self.after])


def list_rules(content: str) -> list[Rule]:
    """Return the rules in the block of an instruction file; [] without one.

    Raises InstallRefused if the marks of the block are not one pair.
    """
    block = _find_block(content)
    return [rule for rule in map(_parse_rule, block.content) if rule is not None] if block else []


def add_rule(content: str | None, rule: Rule) -> str:
    """Return an instruction file, None for no file, with a rule; the same if its words are a line of the file already.

    Raises InstallRefused as `list_rules` does.
    """
    text = content or ""
    block = _find_block(text)
    if _fold(rule.text) in map(_fold, text.splitlines()):
        return text
    # A carriage return at the end would become part of our line end.
    newline = "\r\n" if "\r\n" in text or text.endswith("\r") else "\n"
    if block:
        return block._replace(content=[*block.content, rule.line + newline]).join()
    # One line end before the block, whatever the file ends with: so that taking the block out gives back the same bytes. Only a
    # file that was not there begins with the block.
    return "".join([text, "" if content is None else newline, *(f"{line}{newline}" for line in (_BEGIN, rule.line, _END))])


def remove_rules(content: str, rules: Sequence[Rule]) -> str | None:
    """Return an instruction file without some rules, None if the file held nothing else and was made for them.

    Without a rule or another line in it the block goes too. Raises InstallRefused as `list_rules` does.
    """
    block = _find_block(content)
    if block is None:
        return content
    lines = [line for line in block.content if _parse_rule(line) not in rules]
    if any(line.strip() for line in lines):
        return block._replace(content=lines).join()
    before, after = "".join(block.before), "".join(block.after)
    if not before and not after:
        return None
    newline = next((ending for ending in ("\r\n", "\n") if before.endswith(ending)), "")
    shorter = before.removesuffix(newline)
    # What was written after the block stays a line of its own.
    return shorter + after if not after or not shorter or shorter.endswith(("\n", "\r")) else before + after


def escape_comments(text: str) -> str:
    """Return a text in which no comment begins or ends, for Markdown."""
    return text.replace("<!", "&lt;!").replace("-->", "--&gt;").replace("--!>", "--!&gt;")


def _find_block(content: str) -> _Block | None:
    lines = content.splitlines(keepends=True)
    begins, ends = ([number for number, line in enumerate(lines) if line.rstrip() == mark] for mark in (_BEGIN, _END))
    if not begins and not ends:
        return None
    if len(begins) != 1 or len(ends) != 1 or ends[0] < begins[0]:
        positions = "; ".join(
            f"{mark} in {'line ' + ', '.join(str(number + 1) for number in numbers) if numbers else 'no line'}"
            for mark, numbers in ((_BEGIN, begins), (_END, ends))
        )
        hint = "Nothing was changed. Mend the marks in an editor, so that the first is there once and the other once after it."
        raise InstallRefused(f"the rules of ours are not between two marks: {positions}", hint)
    begin, end = begins[0], ends[0]
    return _Block(lines[:begin], lines[begin], lines[begin + 1 : end], lines[end], lines[end + 1 :])


def _parse_rule(line: str) -> Rule | None:
    match = _RULE.fullmatch(line)
    return Rule(match["text"], match["grip"]) if match else None


def _fold(line: str) -> str:
    """Return the words of a line without its bullet and its comments."""
    return " ".join(_COMMENT.sub("", _BULLET.sub("", line)).casefold().split()).strip(" .!*_")
