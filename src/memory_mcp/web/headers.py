"""Headers of every response below `/ui/`, refusals too: what a browser lets a page do.

Invariants
1. A page loads nothing but what this server serves, sends forms nowhere else, and is shown in no other page.
"""

import base64
import hashlib
from collections.abc import Mapping

_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; form-action 'self'; "
    "base-uri 'none'; frame-ancestors 'none'"
)
#: Of the pages that are shown to browsers that were not let in, and so can load no style sheet.
LONE_STYLE = (
    "body{margin:0;background:Canvas;color:CanvasText;font:16px/1.5 system-ui,sans-serif}"
    "main{max-width:34rem;margin:12vh auto;padding:0 1.2rem}h1{font-size:1.5rem;line-height:1.25}"
    "pre{border:1px solid GrayText;border-radius:8px;padding:.6rem .9rem;font:.95rem ui-monospace,monospace}"
)
_DIGEST = base64.b64encode(hashlib.sha256(LONE_STYLE.encode()).digest()).decode()
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
LONE_HEADERS: Mapping[str, str] = {
    **HEADERS,
    "content-security-policy": _POLICY.replace("style-src 'self'", f"style-src 'sha256-{_DIGEST}'"),
}
