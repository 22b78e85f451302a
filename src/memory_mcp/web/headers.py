"""Headers of every response below `/ui/`, refusals too: what a browser lets a page do.

Invariants
1. A page loads nothing but what this server serves, sends forms nowhere else, and is shown in no other page.
"""

from collections.abc import Mapping

_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; form-action 'self'; "
    "base-uri 'none'; frame-ancestors 'none'"
)
#: The referrer stays within this origin: an address of a page is half of what lets a browser in.
HEADERS: Mapping[str, str] = {
    "content-security-policy": _POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}
