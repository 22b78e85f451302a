"""`embedder`: show the model that turns texts into vectors, fetch others, and choose one."""

import argparse
import os
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from memory_mcp.base.errors import ConfigError, InvalidQuery, LayerUnavailable, MemoryMcpError
from memory_mcp.cli import render
from memory_mcp.cli.commands.base import Subparsers, family, leaf, open_memory, print_result, settings_file, settings_of, wanted
from memory_mcp.cli.commands.retrieval import settle, state
from memory_mcp.embed.models import BUNDLED, FILES, PRETRAINED, Model, iter_fetched_models, locate_model, resolve_model

_KEY = "embedder.model"
_VARIABLE = "MEMORY_MCP_EMBEDDER__MODEL"


def add_embedder(parsers: Subparsers, about: str) -> None:
    inner = family(parsers, "embedder", about)
    leaf(inner, "status", run_status, "show which model embeds, and what share of the memory it knows")
    leaf(inner, "list", run_list, "list the models that are here and some that can be fetched")
    aside = "This is the only command that fetches anything."
    fetch = leaf(inner, "fetch", run_fetch, "fetch a model from its hub, without using it yet", aside)
    fetch.add_argument("model", metavar="NAME", help="such as potion-base-8M, or OWNER/NAME")
    aside = "The memory is embedded anew in the background; the old index serves meanwhile."
    use = leaf(inner, "use", run_use, "choose the model, and write that into the settings", aside)
    use.add_argument("model", metavar="NAME", help="bundled, a fetched model's name, or the folder of a model2vec model")


def run_status(args: argparse.Namespace) -> int:
    with open_memory(args) as app:
        # What cannot be built is what the status is to tell.
        with suppress(MemoryMcpError):
            settle(app, "vector")
        embedding = app.accelerators.describe_embedding()
        layer = next(s for s in app.engine.read_statuses() if s.name.value == "vector")
        keeper = app.accelerators.keepers.get("vector")
        building, error = (keeper.status().building, keeper.status().last_error) if keeper else (None, "")
        setting = app.settings.embedder.model
    data: dict[str, Any] = {"setting": setting, "enabled": layer.enabled, "healthy": layer.healthy}
    data |= {"reason": layer.reason} if layer.reason else {}
    if embedding is not None:
        data |= _shape(embedding.model) | {
            "dimensions": embedding.dimensions,
            "digest": embedding.digest,
            "documents": embedding.documents,
            "unknown_documents": embedding.unknown,
            "unknown_share": round(embedding.unknown_share, 4),
        }
        data |= {"served_by": embedding.served_by} if embedding.served_by else {}
    data |= {"building": building} if building is not None else {}
    data |= {"last_error": error} if error else {}
    return print_result(args, data, _status_lines(data))


def _status_lines(data: dict[str, Any]) -> Iterator[str]:
    yield f"model: {data.get('name') or data['setting'] or 'none'}"
    if "folder" in data:
        yield f"  {data['kind']}, {data['dimensions']} dimensions, {render.size(data['size_bytes'])}, in {data['folder']}"
        yield f"  fingerprint: {data['digest']}"
    yield f"vector index: {state(data['enabled'], data['healthy'], data.get('reason', ''))}"
    if "documents" in data:
        yield f"  documents: {data['documents']:,}"
        share = f"{data['unknown_documents']:,} ({data['unknown_share']:.1%})"
        yield f"  left to keywords, their words unknown to the model: {share}"
    if "served_by" in data:
        yield f"  being embedded anew; until then served by the model in {data['served_by']}"
    if "building" in data:
        yield f"  being built: {render.plural(data['building'], 'document')}"
    if "last_error" in data:
        yield f"  last error: {data['last_error']}"


def _shape(model: Model) -> dict[str, Any]:
    size = sum((model.folder / f).stat().st_size for f in FILES if (model.folder / f).is_file())
    return {"name": model.name, "kind": model.kind, "folder": str(model.folder), "size_bytes": size}


def run_list(args: argparse.Namespace) -> int:
    settings = settings_of(args)
    home = settings.storage.directory
    used = resolve_model(settings.embedder.model, home) if settings.embedder.model else None
    local_models = {m.name: m for m in (resolve_model(BUNDLED, home), *iter_fetched_models(home), *([used] if used else []))}
    models = [_shape(m) | {"here": m.is_complete, "in_use": m == used} for m in local_models.values()]
    fetchable = [p for p in PRETRAINED if p.name not in local_models or not local_models[p.name].is_complete]
    fetchable_shapes = [
        {"name": p.name, "dimensions": p.dimensions, "megabytes": p.megabytes, "good_for": p.good_for} for p in fetchable
    ]
    lines = []
    for model in models:
        where = model["folder"] if model["here"] else "not on this machine"
        lines.append(f"{'*' if model['in_use'] else ' '} {model['name']:<36} {render.size(model['size_bytes']):>9}  {where}")
    if fetchable_shapes:
        lines.append("Others can be fetched (memory-mcp embedder fetch NAME) and then used (memory-mcp embedder use NAME):")
    for p in fetchable:
        lines.append(f"  {p.name:<36} {f'{p.megabytes} MB':>9}  {p.dimensions} dimensions; {p.good_for}")
    return print_result(args, {"models": models, "fetchable": fetchable_shapes}, lines)


def run_fetch(args: argparse.Namespace) -> int:
    """Fetch one model from its hub.

    Raises InvalidQuery for a name of no hub, and what the download raises.
    """
    home = settings_of(args).storage.directory
    model = resolve_model(args.model, home)
    if model.kind != "hub":
        raise InvalidQuery(f"{args.model} is no name of a hub", "It needs no fetching; use it: memory-mcp embedder use NAME")
    if model.is_complete:
        lines = [f"{model.name} is on this machine already. Use it: memory-mcp embedder use {model.name}"]
        return print_result(args, _shape(model) | {"fetched": False}, lines)
    from memory_mcp.embed import hub

    with render.Progress(f"fetching {model.name}") as bar:
        size = hub.fetch_model(model, lambda done, total: bar.at(min(done / total, 1.0), f"{render.size(done)}"))
    lines = [f"Fetched {model.name} ({render.size(size)}). Use it: memory-mcp embedder use {model.name}"]
    return print_result(args, _shape(model) | {"fetched": True}, lines)


def run_use(args: argparse.Namespace) -> int:
    """Write the chosen model into the settings file.

    The daemon is started again where one runs. Raises InvalidQuery where the model is not here or cannot be used, ConfigError
    where an environment variable overrides the setting, LayerUnavailable where the choice is saved and the daemon could not be
    started again.
    """
    from memory_mcp.config import config_path, store
    from memory_mcp.indexes.vector.kind import open_kind as kind_of

    settings = settings_of(args)
    home = settings.storage.directory
    model = locate_model(args.model, home)
    # Fails for a model that cannot be loaded, or whose vectors no index can hold.
    kind_of({"model": str(model.folder)}).embedder.embed(["a first word"])
    if variable := next((name for name in os.environ if name.upper() == _VARIABLE), ""):
        hint = "Set that instead, or take it out of the environment."
        raise ConfigError(f"{variable} is set, which goes before the settings file", hint)
    path = settings_file(args) or config_path()
    data = _shape(model) | {"settings_file": str(path), "daemon_restarted": False}
    if settings.embedder.model and model == resolve_model(settings.embedder.model, home):
        return print_result(args, data, [f"{model.name} is in use already."])
    # A fetched model by its folder, so that other data directories find it too.
    value = model.name if model.kind == BUNDLED else str(model.folder)
    store(path, _KEY, value)
    data["daemon_restarted"] = restarted = _restart(args)
    then = "in the background, and the old index serves meanwhile" if restarted else "when the memory is next opened"
    follows = f"The memory is embedded anew {then}. How far it is: memory-mcp embedder status"
    if not (settings.teleport.enabled and settings.teleport.vector.enabled):
        off = "teleport.vector.enabled" if settings.teleport.enabled else "teleport.enabled"
        follows = f"It is used once {off} = true."
    return print_result(args, data, [f"{_KEY} = {value!r} in {path}.", follows])


def _restart(args: argparse.Namespace) -> bool:
    from memory_mcp.cli.commands.daemon import stop
    from memory_mcp.cli.failures import reach
    from memory_mcp.service.client import link

    if not link.can_run_daemon() or not settings_of(args).server.daemon:
        return False
    which = wanted(args)
    if not stop(which):
        return False
    try:
        reach(which).close()
    except LayerUnavailable as error:
        raise LayerUnavailable(f"the choice is saved, but {error.message}", error.hint) from None
    return True
