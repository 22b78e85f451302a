"""`doctor`: check the installation and the store, and give a next step for what is wrong; nothing is changed."""

import argparse
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import asdict

from memory_mcp.cli import render
from memory_mcp.cli.checks import inside, registry
from memory_mcp.cli.checks.base import FAIL, Check, Opened
from memory_mcp.cli.commands.base import SESSION, Subparsers, as_json, leaf, look_of


def add(parsers: Subparsers, about: str) -> None:
    """Add the command `doctor`, which `run` carries out, and its arguments; `about` is its help text."""
    parser = leaf(parsers, "doctor", run, about, "It changes nothing by looking, and starts nothing.")
    parser.add_argument("--store", action="store_true", help="look into the store alone")
    parser.add_argument("--secrets", action="store_true", help="read all stored texts again and count the secrets in them")


def run(args: argparse.Namespace) -> int:
    """Run the checks and print them with their next steps; return 1 when one of them fails, 0 with warnings alone.

    --store leaves out those around the store, --secrets runs only those of secrets.
    """
    session = SESSION.get()
    if session is None:
        checks = list(_all(args))
    else:
        app = session.app
        opened = Opened(app.storage, app.calendar, app.settings, app.clock.now_ms())
        # Writers of the tree wait, but not for the check of secrets: it reads every text, which may take minutes.
        with nullcontext() if args.secrets else app.derivation.publishing:
            checks = list(registry.run(("secrets",) if args.secrets else registry.INSIDE, opened))
    failed = any(c.state == FAIL for c in checks)
    lines = []
    for check in checks:
        lines.append(f"{check.state:<4}  {check.name}: {check.text}")
        lines += [f"      next: {check.next_step}"] if check.next_step else []
    render.emit(as_json(args), {"ok": not failed, "checks": [asdict(check) for check in checks]}, lines)
    return 1 if failed else 0


def _all(args: argparse.Namespace) -> Iterator[Check]:
    """Yield the checks of this process: around the store, and inside it, unless the arguments ask for a part.

    Settings that cannot be read are a finding of a check, not an error; a --config that does not exist raises
    ConfigError.
    """
    look = look_of(args)
    if args.secrets:
        yield from registry.run(("left_secrets",), look)
        yield from inside.checks(look, secrets=True)
        return
    if not args.store:
        yield from registry.run_outside(look)
    yield from inside.checks(look)
