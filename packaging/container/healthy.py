"""Exit status 0 when the HTTP door of this container answers; asked by its health check, with the standard library alone.

A server of a team is asked at another path: healthy.py /health/ready.
"""

import os
import sys
import urllib.request

_PATIENCE = 4.0


def main() -> int:
    """Ask /health, or the path that is named, as any client does."""
    path = sys.argv[1] if len(sys.argv) > 1 else "/health"
    port = os.environ.get("MEMORY_MCP_SERVER__HTTP_PORT", "8767")
    token = os.environ.get("MEMORY_MCP_SERVER__HTTP_TOKEN", "")
    asked = urllib.request.Request(f"http://127.0.0.1:{port}{path}", headers={"Authorization": f"Bearer {token}"})
    try:
        with urllib.request.urlopen(asked, timeout=_PATIENCE) as answer:
            return 0 if answer.status == 200 else 1
    except OSError:
        return 1


if __name__ == "__main__":
    sys.exit(main())
