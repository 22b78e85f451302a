"""`embedder`: the model that turns texts into vectors: which one, how much it knows, others, and which of them finds more."""

import argparse
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from memory_mcp.cli import render
from memory_mcp.cli.commands.base import (
    SESSION,
    Subparsers,
    as_json,
    family,
    leaf,
    opened,
    settings_file,
    settings_of,
    wanted,
)
from memory_mcp.cli.commands.teleport import settle, state
from memory_mcp.embed.models import BUNDLED, FILES, PRETRAINED, Model, fetched, located, named
from memory_mcp.errors import ConfigError, InvalidQuery, LayerUnavailable, MemoryMcpError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from memory_mcp.app import App
    from memory_mcp.config import Settings
    from memory_mcp.embed.trial import Pair

_KEY = "embedder.model"
_VARIABLE = "MEMORY_MCP_EMBEDDER__MODEL"
#: Titles that are asked for, and fewer than which say nothing.
_TITLES, _FEW, _MOST = 1000, 20, 5000


def add(parsers: Subparsers) -> None:
    """Arguments of `embedder`."""
    inner = family(parsers, "embedder", "look at the embedding model, fetch others, choose one, and compare them")
    leaf(inner, "status", run_status, "show which model embeds, and what share of the memory it knows")
    leaf(inner, "list", run_list, "list the models that are here and some that can be fetched")
    aside = "This is the only command that fetches anything."
    fetch = leaf(inner, "fetch", run_fetch, "fetch a model from its hub, without using it yet", aside)
    fetch.add_argument("model", metavar="NAME", help="such as potion-base-8M, or OWNER/NAME")
    aside = "The memory is embedded anew in the background; the old index serves meanwhile."
    use = leaf(inner, "use", run_use, "choose the model, and write that into the settings", aside)
    use.add_argument("model", metavar="NAME", help="bundled, a fetched model's name, or the folder of a model2vec model")
    trial = leaf(inner, "eval", run_eval, "test models on your own memory: titles against their segments")
    trial.add_argument("models", nargs="*", metavar="NAME", help="models to compare (every one that is here)")
    trial.add_argument("--limit", type=int, default=_TITLES, metavar="N", help=f"most titles to ask for ({_TITLES})")


def run_status(args: argparse.Namespace) -> int:
    """The model, its index, and what it leaves to others."""
    with opened(args) as app:
        # What cannot be built is what the status is to tell.
        with suppress(MemoryMcpError):
            settle(app, "vector")
        found = app.accelerators.embedding()
        layer = next(s for s in app.engine.statuses() if s.name.value == "vector")
        keeper = app.accelerators.keepers.get("vector")
        building, error = (keeper.status().building, keeper.status().last_error) if keeper else (None, "")
        setting = app.settings.embedder.model
    data: dict[str, Any] = {"setting": setting, "enabled": layer.enabled, "healthy": layer.healthy}
    data |= {"reason": layer.reason} if layer.reason else {}
    if found is not None:
        data |= _shape(found.model) | {
            "dimensions": found.dimensions,
            "digest": found.digest,
            "documents": found.documents,
            "unknown_documents": found.unknown,
            "unknown_share": round(found.unknown_share, 4),
        }
        data |= {"served_by": found.served_by} if found.served_by else {}
    data |= {"building": building} if building is not None else {}
    data |= {"last_error": error} if error else {}
    render.emit(as_json(args), data, _status_lines(data))
    return 0


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
    """Models that are here, and known ones that are not."""
    settings = settings_of(args)
    home = settings.storage.directory
    used = named(settings.embedder.model, home) if settings.embedder.model else None
    here = {m.name: m for m in (named(BUNDLED, home), *fetched(home), *([used] if used else []))}
    models = [_shape(m) | {"here": m.here, "in_use": m == used} for m in here.values()]
    known = [p for p in PRETRAINED if p.name not in here or not here[p.name].here]
    others = [{"name": p.name, "dimensions": p.dimensions, "megabytes": p.megabytes, "good_for": p.good_for} for p in known]
    render.emit(as_json(args), {"models": models, "fetchable": others}, _list_lines(models, others))
    return 0


def _list_lines(models: list[dict[str, Any]], others: list[dict[str, Any]]) -> Iterator[str]:
    for model in models:
        where = model["folder"] if model["here"] else "not on this machine"
        yield f"{'*' if model['in_use'] else ' '} {model['name']:<36} {render.size(model['size_bytes']):>9}  {where}"
    if others:
        yield "Others can be fetched (memory-mcp embedder fetch NAME) and then used (memory-mcp embedder use NAME):"
    for other in others:
        size = f"{other['megabytes']} MB"
        yield f"  {other['name']:<36} {size:>9}  {other['dimensions']} dimensions; {other['good_for']}"


def run_fetch(args: argparse.Namespace) -> int:
    """Fetch one model."""
    home = settings_of(args).storage.directory
    model = named(args.model, home)
    if model.kind != "hub":
        raise InvalidQuery(f"{args.model} is no name of a hub", "It needs no fetching; use it: memory-mcp embedder use NAME")
    if model.here:
        lines = [f"{model.name} is on this machine already. Use it: memory-mcp embedder use {model.name}"]
        render.emit(as_json(args), _shape(model) | {"fetched": False}, lines)
        return 0
    from memory_mcp.embed import hub

    with render.Progress(f"fetching {model.name}") as bar:
        size = hub.fetch(model, lambda done, total: bar.at(min(done / total, 1.0), f"{render.size(done)}"))
    lines = [f"Fetched {model.name} ({render.size(size)}). Use it: memory-mcp embedder use {model.name}"]
    render.emit(as_json(args), _shape(model) | {"fetched": True}, lines)
    return 0


def run_use(args: argparse.Namespace) -> int:
    """Write the choice into the settings, and have the daemon take it up."""
    from memory_mcp.config import config_path, store

    settings = settings_of(args)
    home = settings.storage.directory
    model = located(args.model, home)
    _try_out(model)
    if given := next((name for name in os.environ if name.upper() == _VARIABLE), ""):
        hint = "Set that instead, or take it out of the environment."
        raise ConfigError(f"{given} is set, which goes before the settings file", hint)
    path = settings_file(args) or config_path()
    data = _shape(model) | {"settings_file": str(path), "daemon_restarted": False}
    if settings.embedder.model and model == named(settings.embedder.model, home):
        render.emit(as_json(args), data, [f"{model.name} is in use already."])
        return 0
    # A fetched model by its folder, so that other data directories find it too.
    value = model.name if model.kind == BUNDLED else str(model.folder)
    store(path, _KEY, value)
    data["daemon_restarted"] = _restart(args)
    render.emit(as_json(args), data, [f"{_KEY} = {value!r} in {path}.", _what_follows(settings, data["daemon_restarted"])])
    return 0


def _try_out(model: Model) -> None:
    """LayerUnavailable for a model that cannot be loaded, or that no index can hold vectors of."""
    from memory_mcp.indexes.vector.kind import opened as kind_of

    kind_of({"model": str(model.folder)}).embedder.embed(["a first word"])


def _what_follows(settings: "Settings", restarted: bool) -> str:
    teleport = settings.teleport
    for key, on in (("teleport.enabled", teleport.enabled), ("teleport.vector.enabled", teleport.vector.enabled)):
        if not on:
            return f"It is used once {key} = true."
    then = "in the background, and the old index serves meanwhile" if restarted else "when the memory is next opened"
    return f"The memory is embedded anew {then}. How far it is: memory-mcp embedder status"


def _restart(args: argparse.Namespace) -> bool:
    """Have a daemon that runs begin anew with the settings of now; whether one ran."""
    from memory_mcp import link
    from memory_mcp.cli.commands.daemon import reach, stop

    if not link.usable() or not settings_of(args).server.daemon:
        return False
    which = wanted(args)
    if not stop(which):
        return False
    try:
        reach(which).close()
    except LayerUnavailable as error:
        raise LayerUnavailable(f"the choice is saved, but {error.message}", error.hint) from None
    return True


def run_eval(args: argparse.Namespace) -> int:
    """Ask for each title's segment by each model, and say which finds more."""
    from memory_mcp.embed import trial

    if not _FEW <= args.limit <= _MOST:
        raise InvalidQuery(f"limit must be {_FEW} to {_MOST:,}, not {args.limit}")
    with opened(args) as app:
        models = _compared(app, args.models)
        setting, home = app.settings.embedder.model, app.settings.storage.directory
        used = named(setting, home).name if setting else ""
        pairs = _pairs(app, args.limit)
    if len(pairs) < _FEW:
        hint = "Try again when more has been recorded." if pairs else "Fill it with: memory-mcp import claude-code"
        raise LayerUnavailable(f"the memory has {len(pairs)} segments to ask for, which says nothing (at least {_FEW})", hint)
    found = {m.name: trial.ranks(*_embedded(m, pairs)) for m in models}
    data = {"titles": len(pairs), **_verdict(found), "in_use": used}
    render.emit(as_json(args), data, _eval_lines(data))
    return 0


def _verdict(found: "dict[str, NDArray[np.int64]]") -> dict[str, Any]:
    """From the places of all titles by model: what each finds, which finds most, and how far the others are behind."""
    from memory_mcp.embed.trial import FOUND_IN, difference

    best = max(found, key=lambda name: ((found[name] <= FOUND_IN).mean(), (1 / found[name]).mean()))
    rows = []
    for name, places in found.items():
        row: dict[str, Any] = {
            "name": name,
            "found_first": round(float((places == 1).mean()), 4),
            f"found_in_{FOUND_IN}": round(float((places <= FOUND_IN).mean()), 4),
        }
        if name != best:
            less = difference(places, found[best])
            interval = [round(less.low, 4), round(less.high, 4)]
            row |= {"difference": round(less.mean, 4), "interval": interval, "certain": less.told}
        rows.append(row)
    return {"models": rows, "finds_more": best}


def _compared(app: "App", names: list[str]) -> list[Model]:
    """Models by name, or every one that is here; LayerUnavailable for one by name that cannot be used."""
    home = app.settings.storage.directory
    if names:
        chosen = [located(_from_here(name), home) for name in names]
    else:
        used = [named(app.settings.embedder.model, home)] if app.settings.embedder.model else []
        chosen = [m for m in (named(BUNDLED, home), *used, *fetched(home)) if m.here]
    found = list({m.folder: m for m in chosen}.values())
    for model in found:
        _try_out(model)
    return found


def _from_here(name: str) -> str:
    """A folder as the caller means it, whose working directory is not the daemon's."""
    session = SESSION.get()
    return str((Path(session.cwd) / name).resolve()) if session and name.startswith(".") else name


def _pairs(app: "App", limit: int) -> "list[Pair]":
    """Of at most so many segments, spread evenly over the memory."""
    from memory_mcp.embed.trial import pair
    from memory_mcp.indexes.document import subject
    from memory_mcp.indexes.units import frames
    from memory_mcp.model.calendar import TocLevel

    ids = app.storage.toc.ids_at(TocLevel.SEGMENT)
    step = max(len(ids) / limit, 1.0)
    chosen = [ids[int(i * step)] for i in range(min(limit, len(ids)))]
    sources = (s for frame in frames(app.storage, chosen) for s in frame)
    found = (pair(subject(s.node), [e.text for e in s.events]) for s in sources)
    return [p for p in found if p is not None]


def _embedded(model: Model, pairs: "list[Pair]") -> Any:
    from memory_mcp.embed import trial

    texts = [p.title for p in pairs] + [p.stretch for p in pairs]
    with render.Progress(f"embedding with {model.name}") as bar:
        rows = trial.embedded(model.folder, texts, lambda done: bar.at(done / len(texts), f"{done:,} texts"))
    return rows[: len(pairs)], rows[len(pairs) :]


def _eval_lines(data: dict[str, Any]) -> Iterator[str]:
    from memory_mcp.embed.trial import FOUND_IN

    yield f"{data['titles']:,} titles asked for among as many segments, by meaning alone:"
    yield f"  {'model':<36} {'first':>7} {f'in {FOUND_IN}':>7}"
    for row in data["models"]:
        told = f"  {row['name']:<36} {row['found_first']:>7.1%} {row[f'found_in_{FOUND_IN}']:>7.1%}"
        if "interval" in row:
            low, high = (100 * x for x in row["interval"])
            told += f"   {100 * row['difference']:+.1f} points [{low:+.1f}, {high:+.1f}]"
        yield told
    others = [r for r in data["models"] if r["name"] != data["finds_more"]]
    if not others:
        yield "There is no other model here to compare it with: memory-mcp embedder list"
    elif not all(r["certain"] for r in others):
        yield f"{data['finds_more']} finds most, by no more than chance can do."
    elif data["finds_more"] == data["in_use"]:
        yield f"{data['finds_more']} finds more, and is in use."
    else:
        yield f"{data['finds_more']} finds more. Use it: memory-mcp embedder use {data['finds_more']}"
