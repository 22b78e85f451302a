"""Writes ids and progress tokens that the SDK's models refuse as texts that they take, and as they were on the way out.

JSON-RPC allows any number as an id; the SDK's models know texts and whole numbers alone, and no token that is null.

Invariants
1. Every transport uses these two functions; what leaves the process has the id that came.
2. No client can send a text that is mistaken for a number: the prefix is drawn by each process.
"""

import json
import re
import secrets
from typing import Any

_PREFIX = f"number-{secrets.token_hex(8)}:"
_NUMBER = re.compile(rb'"' + _PREFIX.encode() + rb'([-+.0-9eE]+)"')
_MARK = _PREFIX.encode()


def mend_ids(message: dict[str, Any] | None) -> bool:
    """Replace the ids and tokens that the SDK refuses.

    Returns whether there were any.

    Args:
        message: A message that `lines.read_line` passed, changed in place; None changes nothing.

    """
    if message is None:
        return False
    is_changed = _mend_number(message, "id")
    params = message.get("params")
    if isinstance(params, dict):
        is_changed |= _mend_number(params, "requestId")
        meta = params.get("_meta")
        if isinstance(meta, dict) and "progressToken" in meta:
            is_changed |= _mend_number(meta, "progressToken")
            if meta["progressToken"] is None:
                del meta["progressToken"]
                is_changed = True
    return is_changed


def restore_ids(output: bytes) -> bytes:
    """Return a message with the client's own ids put back."""
    return _NUMBER.sub(rb"\1", output) if _MARK in output else output


def _mend_number(fields: dict[str, Any], key: str) -> bool:
    number = fields.get(key)
    if not isinstance(number, float):
        return False
    fields[key] = _PREFIX + json.dumps(number)
    return True
