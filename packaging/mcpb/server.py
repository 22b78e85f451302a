"""The bundle's entry point: the server on stdin and stdout, from the package that pyproject.toml beside this names."""

import sys

from memory_mcp.__main__ import main

if __name__ == "__main__":
    sys.argv[1:] = ["serve"]
    sys.exit(main())
