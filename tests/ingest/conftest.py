"""The pipeline that importers are tested with."""

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from memory_mcp.ingest.pipeline import Pipeline
    from memory_mcp.storage.base import Storage


@pytest.fixture
def pipeline(storage: "Storage") -> "Pipeline":
    from memory_mcp.clock import SystemClock
    from memory_mcp.events.log import EventLog
    from memory_mcp.ingest.gate import Gate
    from memory_mcp.ingest.pipeline import Pipeline

    return Pipeline(EventLog(storage.events, SystemClock()), storage.outbox, Gate())
