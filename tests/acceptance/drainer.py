"""Drains the spool of a data directory once and says how many events were new; killed from inside or outside."""

import sys

from memory_mcp.app import App
from memory_mcp.config import Settings
from memory_mcp.storage.settings import StorageSettings


def main(directory: str) -> None:
    app = App(Settings(storage=StorageSettings(directory, "Europe/Berlin")))
    report = app.drain()
    sys.stdout.write(f"{report.new} {report.known} {report.bad}\n")
    app.close()


if __name__ == "__main__":
    main(sys.argv[1])
