"""Loads the protocol's library in less time: of its 570 models a connection uses a few dozen."""

import os
from collections.abc import Iterator
from contextlib import contextmanager


def load_sdk() -> None:
    """Load the library without its validators: each is built at first use."""
    # Pydantic would look through all installed packages for extensions of its own.
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    with _defer_validators():
        from mcp.server.mcpserver import server
    # A server would load `rich` for a log that has its handlers by then.
    vars(server)["configure_logging"] = lambda _: None


@contextmanager
def _defer_validators() -> Iterator[None]:
    from pydantic import BaseModel, TypeAdapter

    BaseModel.model_config["defer_build"] = True
    # Unions of models have no configuration, and those of the library are given none.
    attribute = "_defer_build"
    usual = vars(TypeAdapter).get(attribute)
    if usual is not None:
        setattr(TypeAdapter, attribute, property(lambda _: True))
    try:
        yield
    finally:
        del BaseModel.model_config["defer_build"]
        if usual is not None:
            setattr(TypeAdapter, attribute, usual)
