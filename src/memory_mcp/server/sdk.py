"""Loads the protocol's library in less time: of its 570 models a connection uses a few dozen."""

import os
from contextlib import suppress


def load_sdk() -> None:
    """Load the library, its models of each era's wire without their validators: these are built at first use."""
    # Pydantic would look through all installed packages for extensions of its own.
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    # Another version may keep them elsewhere.
    with suppress(ImportError, AttributeError):
        from mcp_types import _wire_base

        _wire_base.WireModel.model_config["defer_build"] = True
