"""Exit status 0 when the HTTP door of this container answers; asked by its health check, with the standard library alone."""

import os
import sys
import urllib.request

_PATIENCE = 4.0


def main() -> int:
    """Ask /health as any client does."""
    port = os.environ.get("MEMORY_MCP_SERVER__HTTP_PORT", "8767")
    token = os.environ.get("MEMORY_MCP_SERVER__HTTP_TOKEN", "")
    asked = urllib.request.Request(f"http://127.0.0.1:{port}/health", headers={"Authorization": f"Bearer {token}"})
    try:
        with urllib.request.urlopen(asked, timeout=_PATIENCE) as answer:
            return 0 if answer.status == 200 else 1
    except OSError:
        return 1


if __name__ == "__main__":
    sys.exit(main())
