"""`rules`: instructions that the user repeats, as proposed rules, and writing them into a client's own instruction file."""

import argparse
import difflib
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from memory_mcp.base.errors import InstallRefused, InvalidQuery
from memory_mcp.cli import render
from memory_mcp.cli.commands.base import (
    Subparsers,
    add_flags,
    add_scope,
    ask,
    caller_directory,
    family,
    leaf,
    print_result,
    read_request,
)
from memory_mcp.install.edit import files
from memory_mcp.install.rules import INSTRUCTION_FILES, Rule, add_rule, escape_comments, list_rules, remove_rules
from memory_mcp.requests.friction import GetFriction

_ASIDE = "Take it back: memory-mcp rules remove GRIP|all --file FILE --yes"
_NUMBERED = "The number of a rule may be another's by now. Without --yes the rule is shown, with the citation to confirm it by."


def add_rules(parsers: Subparsers, about: str) -> None:
    commands = family(parsers, "rules", about)
    listing = leaf(commands, "list", run_list, "show the instructions that you gave again in three sessions or more")
    add_flags(listing, GetFriction)
    add_scope(listing)
    add = leaf(commands, "add", run_add, "show what writing a proposed rule would change; with GRIP and --yes write it", _ASIDE)
    add.add_argument("rule", metavar="NUMBER|GRIP", help="its number or citation, as rules list shows them")
    add_scope(add)
    remove = leaf(
        commands, "remove", run_remove, "show what taking a written rule out would change; with GRIP and --yes take it out"
    )
    remove.add_argument("rule", metavar="NUMBER|GRIP|all", help="its number in the file or its citation")
    for parser in (add, remove):
        where = parser.add_mutually_exclusive_group()
        where.add_argument("--client", choices=sorted(INSTRUCTION_FILES), help="whose file, in the working directory")
        where.add_argument("--file", metavar="FILE", help="an instruction file of any client, such as ~/.claude/CLAUDE.md")
        parser.add_argument("--yes", action="store_true", help="write the file")


def run_list(args: argparse.Namespace) -> int:
    data = ask(args, read_request(args, GetFriction), hint=True)
    return print_result(args, data, _rule_lines(data["instructions"]), recalled=True)


def _rule_lines(rules: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    if not rules:
        yield "No instruction was given again in three sessions or more."
    for number, rule in enumerate(rules, 1):
        yield f"{number}. {_rule_of(rule).text}  ({rule['sessions']} sessions, last {rule['when'][:10]})"
        yield f"   {' '.join(rule['grips'])}"
    if rules:
        yield "See what would be written: memory-mcp rules add NUMBER --client CLIENT"


def run_add(args: argparse.Namespace) -> int:
    """Show the difference that a rule makes in an instruction file; write it if that is confirmed."""
    rules = list(ask(args, GetFriction(), hint=True)["instructions"])
    chosen = [rule for number, rule in enumerate(rules, 1) if args.rule in (str(number), rule["grip"], *rule["grips"])]
    if not chosen:
        raise InvalidQuery(f"there is no proposed rule {args.rule}", "memory-mcp rules list shows them.")
    # The rule's other citations say the same in other words.
    _refuse_unconfirmed(args, chosen[0]["grip"])
    content, written_rules = _read_file(args)
    # In another wording it is the same rule, which a later session may have worded better.
    is_written = any(rule.grip in (chosen[0]["grip"], *chosen[0]["grips"]) for rule in written_rules)
    text = content.text if is_written else add_rule(None if content.data is None else content.text, _rule_of(chosen[0]))
    return _write(args, content, text, chosen[0]["grip"])


def run_remove(args: argparse.Namespace) -> int:
    """Show the difference that taking rules out makes; do it if that is confirmed."""
    content, rules = _read_file(args)
    chosen = [rule for number, rule in enumerate(rules, 1) if args.rule in ("all", str(number), rule.grip)]
    if not chosen:
        raise InvalidQuery(f"no rule {args.rule} of ours is in {content.path}", f"It has {len(rules)}.")
    citation = "all" if args.rule == "all" else chosen[0].grip
    _refuse_unconfirmed(args, citation)
    return _write(args, content, remove_rules(content.text, chosen), citation)


def _refuse_unconfirmed(args: argparse.Namespace, citation: str) -> None:
    if args.yes and args.rule != citation:
        raise InvalidQuery(f"--yes needs the citation of a rule, not {args.rule}", _NUMBERED)


def _read_file(args: argparse.Namespace) -> tuple[files.Content, list[Rule]]:
    """Return the instruction file under its real path, and its rules."""
    path = _find_file(args)
    real = Path(os.path.realpath(path))
    if not args.file and not real.is_relative_to(os.path.realpath(caller_directory())):
        hint = f"To change it nevertheless: --file {path}"
        raise InstallRefused(f"{path} leads out of this directory, to {real}; nothing was written", hint)
    content = files.read_content(real)
    try:
        return content, list_rules(content.text)
    except InstallRefused as error:
        raise InstallRefused(f"{real}: {error.message}", error.hint) from None


def _rule_of(rule: Mapping[str, Any]) -> Rule:
    """Return a rule on one line, in which no comment can begin or end."""
    return Rule(escape_comments(render.one_line(render.safe(rule["text"]))), rule["grip"])


def _find_file(args: argparse.Namespace) -> Path:
    """Return the file that is named, else the only instruction file of the working directory."""
    here = caller_directory()
    if args.file:
        return here / Path(args.file).expanduser()
    if args.client:
        return here / INSTRUCTION_FILES[args.client]
    present = [here / name for name in dict.fromkeys(INSTRUCTION_FILES.values()) if (here / name).is_file()]
    if len(present) != 1:
        names = ", ".join(path.name for path in present) or "none"
        raise InvalidQuery(f"which file? instruction files here: {names}", "Name it by --client or --file.")
    return present[0]


def _write(args: argparse.Namespace, content: files.Content, text: str | None, citation: str) -> int:
    """Print the difference to a new text, None for no file; with --yes write it before."""
    path = str(content.path)
    if text == content.text:
        data = {"file": path, "difference": [], "written": False}
        return print_result(args, data, [f"{path}: that is in the file already"])
    lines = list(difflib.unified_diff(content.text.splitlines(), (text or "").splitlines(), path, path, lineterm="", n=2))
    if args.yes:
        _replace_file(content, text)
    data = {"file": path, "difference": lines, "written": args.yes, "confirm": citation}
    print_result(args, data, lines, recalled=True)
    if args.yes:
        render.err(f"Written: {path}")
    else:
        render.err(f"Nothing is written yet. To write it, give the same command with: {citation} --yes")
    return 0


def _replace_file(content: files.Content, text: str | None) -> None:
    files.writable(content.path)
    try:
        if text is None:
            files.remove(content.path, content.data or b"")
        else:
            files.replace(content.path, content.data, content.encode_text(text), is_shared=True)
    except files.Changed:
        raise InstallRefused(f"{content.path} was changed meanwhile; nothing was written", "Call it again.") from None
    except OSError as error:
        raise InstallRefused(f"{content.path} cannot be written: {error.strerror or error}") from None
