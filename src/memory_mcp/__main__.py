"""`python -m memory_mcp` is the command line."""

import sys

from memory_mcp.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
