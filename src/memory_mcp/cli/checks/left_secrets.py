"""Secrets in payloads of hooks that are not stored yet, by the rules of today, without showing one.

There are none, but in payloads that an older release left, and in those kept as they came because the rules could not be used.
"""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from memory_mcp.base import foreign_files, paths
from memory_mcp.cli import render
from memory_mcp.cli.checks.base import OK, WARN, Check, Look
from memory_mcp.ingest.payloads import PayloadCleaner
from memory_mcp.ingest.redact import redactor

_FOLDERS = ("new", "tmp", "bad")


def checks(look: Look) -> Iterator[Check]:
    """Yield a warning for each spool folder (new, tmp, bad) with files that hold secrets, or one line that there are none.

    Rules and numbers are named, never a secret. The files stay as they are.
    """
    spool = Path(paths.spool_dir(str(look.directory)))
    payloads = PayloadCleaner(str(spool.parent))
    has_secrets = False
    for folder in _FOLDERS:
        rules: Counter[str] = Counter()
        files = 0
        for raw in _contents(spool / folder):
            previous_total = rules.total()
            redactor().redact(raw.decode("utf-8", "replace"), rules)
            files += rules.total() > previous_total or payloads.clean_payload(payload := raw.partition(b"\n")[2]) != payload
        if files:
            has_secrets = True
            kinds = ", ".join(f"{rule} {times}" for rule, times in rules.most_common()) or "escaped or private"
            text = f"{render.plural(files, 'file')} in {spool / folder} with what is not to be stored: {kinds}"
            step = "" if folder == "bad" else "memory-mcp daemon start stores payloads without it; then renew the secrets"
            yield Check(WARN, "secrets left by hooks", text, step or "renew the secrets")
    if not has_secrets:
        yield Check(OK, "secrets left by hooks", "no file that waits holds one that a rule knows")


def _contents(folder: Path) -> Iterator[bytes]:
    """Yield the contents of a folder's files, in the order of their names; links and what cannot be read are left out."""
    try:
        files = [] if folder.is_symlink() else sorted(folder.iterdir())
    except OSError:
        return
    for file in files:
        try:
            yield foreign_files.read_file(file)
        except OSError:
            # Stored meanwhile.
            continue
