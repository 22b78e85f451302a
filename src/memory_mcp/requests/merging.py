"""Takes into this memory what another one says beside its events; what is known is left as it is, so twice changes nothing."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from memory_mcp.base.errors import MemoryMcpError
from memory_mcp.model.event import EventDraft, EventType, OriginalIdentity, Role, Trust
from memory_mcp.model.grip import Supersession
from memory_mcp.model.ids import EventId, GripId, NodeId, TopicId, event_id_from, grip_id_from, segment_id, segment_key
from memory_mcp.model.ledger import AuditEntry
from memory_mcp.model.project import GUESS, Alias, Split
from memory_mcp.model.toc import count_author_bullets, is_by_agent
from memory_mcp.model.topic import TopicLabel
from memory_mcp.requests.refine import RefineSummary, Statement, refine_summary
from memory_mcp.requests.scope import Caller
from memory_mcp.upkeep.archive.others import select_unknown

if TYPE_CHECKING:
    from memory_mcp.app import App

Row = Mapping[str, Any]


def known(app: "App", request: Mapping[str, Any]) -> dict[str, Any]:
    """Return {"known": places in the list} of events stored here.

    Stored is an event by its id, or with parts redacted or forgotten. `request["events"]` has mappings
    with session_id, role, text, timestamp (UTC ms) and event_id. Writes nothing.
    """
    drafts = [
        EventDraft(
            session_id=str(row["session_id"]),
            role=Role(row["role"]),
            type=EventType.USER_MESSAGE,
            text=str(row["text"]),
            timestamp=int(row["timestamp"]),
            original=OriginalIdentity(EventId(str(row["event_id"])), "", Trust.IMPORTED),
        )
        for row in request["events"]
    ]
    fresh = {id(draft) for draft in select_unknown(app.storage, drafts)}
    return {"known": [number for number, draft in enumerate(drafts) if id(draft) not in fresh]}


def rules(app: "App", request: Mapping[str, Any]) -> dict[str, Any]:
    """Store the other memory's project names that are not set here.

    Only those that people gave. Call it before the events. `request` has the other memory's rows of `project_alias` and
    `project_split`. Guessed names, names that would contradict one here, and rows with forgotten text are left out. Where a
    name is stored, the tree is filed again; with `dry_run` nothing is. Returns {"project names": how many there are} either
    way.
    """
    names = app.storage.projects.names
    aliased = {alias.old for alias in names.aliases}
    aliases = [Alias(r["old"], r["new"], r["author"], r["at_ms"]) for r in _unforgotten(app, request["project_alias"])]
    aliases = [a for a in aliases if a.author != GUESS and a.old not in aliased and names.resolve_alias(a.new) != a.old]
    existing_splits = {(s.project, s.session_id, s.folder) for s in names.splits}
    rows = _unforgotten(app, request["project_split"])
    splits = [Split(r["project"], r["session_id"], r["folder"], r["new"], r["at_ms"]) for r in rows]
    splits = [s for s in splits if (s.project, s.session_id, s.folder) not in existing_splits]
    if not request.get("dry_run") and (aliases or splits):
        with app.derivation.publishing:
            for alias in aliases:
                app.storage.projects.add_alias(alias)
            if splits:
                app.storage.projects.add_splits(splits)
            app.derivation.run()
    return {"project names": len(aliases) + len(splits)}


def records(app: "App", request: Mapping[str, Any]) -> dict[str, Any]:
    """Store another memory's pins, corrections, labels and agents' texts.

    The merge is recorded in the audit log. Call it after the events. `request` has the other memory's rows by table, `events`
    (how many were taken), `author` and `subject`. Returns how many were taken: {ids, pins, corrections, labels, texts}, where
    ids are segments that now lead to others. What is known here is left out, and so are pins and labels with forgotten text;
    each kind is committed by itself. Where all counts are 0, the audit log is left alone.
    """
    rows = _unforgotten(app, request["pin"])
    pinned = app.storage.toc.list_pins()
    new = {r["target"]: r["set_by"] for r in rows if r["target"] not in pinned}
    for target, by in new.items():
        app.storage.toc.set_pin(target, True, by)
    labelled = {(label.topic_id, label.project) for label in app.storage.topics.list_labels()}
    labels = [r for r in _unforgotten(app, request["topic_label"]) if (r["topic_id"], r["project"]) not in labelled]
    stored = {
        "ids": _redirect_ids(app, request["segment_cut"]),
        "pins": len(new),
        "corrections": _merge_corrections(app, request["superseded"]),
        "labels": len(labels),
    }
    for r in labels:
        words = app.gate.clean_text(r["label"])
        app.storage.topics.set_label(TopicLabel(TopicId(r["topic_id"]), r["project"], words, r["author"], r["at_ms"]))
    stored["texts"] = _merge_texts(app, request["node"], request["bullet"], request["bullet_grip"])
    counts = {name: count for name, count in {**stored, "events": int(request["events"])}.items() if count}
    if counts:
        subject = app.gate.clean_text(str(request["subject"]))
        app.storage.audit.record_entry(AuditEntry("merge", app.clock.now_ms(), str(request["author"]), subject, "", counts))
    return stored


def _unforgotten(app: "App", rows: Sequence[Row]) -> list[Row]:
    clean = app.gate.tombstones.clean_text
    return [r for r in rows if all(clean(value) == value for value in r.values() if isinstance(value, str))]


def _redirect_ids(app: "App", rows: Sequence[Row]) -> int:
    """Let segment ids of the other memory lead to segments here.

    They lead to the segment that holds their first event here. Return how many. Ids that exist here, and those whose first
    event is in no segment here, are left out.
    """
    leads: dict[NodeId, NodeId] = {}
    toc = app.storage.toc
    ids = {r["key"]: segment_id(r["day"], segment_key("segment", str(r["stream"]), str(r["cut_no"]))) for r in rows}
    local_heads = toc.get_heads(ids.values())
    cuts = toc.get_cuts({r["stream"] for r in rows if ids[r["key"]] not in local_heads})
    for row in rows:
        node_id, start = ids[row["key"]], (row["start_ts"], event_id_from(int(row["start_id"])))
        holder = next((cut for cut in cuts.get(row["stream"], ()) if cut.start <= start <= cut.end), None)
        if node_id not in local_heads and holder is not None:
            leads[node_id] = holder.node_id
    if leads:
        with app.derivation.publishing:
            toc.replace_cuts((), leads)
    return len(leads)


def _merge_corrections(app: "App", rows: Sequence[Row]) -> int:
    """Record corrections that are not known here; return how many.

    They are compared by statement, replacement and time. Author and reason are cleaned of secrets. Of several about one
    statement the last one holds.
    """
    with app.storage.archive.open_snapshot() as snapshot:
        recorded = {
            (row[0], row[1], row[2])
            for part in snapshot.iter_others()
            if part.table == "superseded"
            for row in ([r[part.columns.index(name)] for name in ("old_id", "new_id", "at_ms")] for r in part.rows)
        }
    new = [r for r in rows if (r["old_id"], r["new_id"], r["at_ms"]) not in recorded]
    for r in new:
        to = GripId(r["new_id"]) if r["new_id"] else None
        reason = app.gate.clean_text(r.get("reason", ""))
        author = app.gate.clean_text(r.get("author", ""))
        app.storage.superseded.record_supersession(Supersession(GripId(r["old_id"]), to, r["at_ms"], reason, author))
    return len(new)


def _merge_texts(app: "App", nodes: Sequence[Row], bullets: Sequence[Row], grips: Sequence[Row]) -> int:
    """Store agents' texts for nodes without one; return how many.

    They are checked as any agent's, since the node may hold less here: a text that is refused is left out.
    """
    refined_ids, count = set(app.storage.toc.list_refined()), 0
    for node in nodes:
        if not is_by_agent(node["author"]) or not node["current"] or node["node_id"] in refined_ids:
            continue
        mine = (node["key"], node["version"])
        proofs: dict[int, list[str]] = {}
        for g in grips:
            if (g["key"], g["version"]) == mine:
                proofs.setdefault(g["pos"], []).append(grip_id_from(int(g["grip_id"])))
        node_bullets = sorted((b for b in bullets if (b["key"], b["version"]) == mine), key=lambda b: int(b["pos"]))
        statements = [
            Statement(b["text"], proofs.get(b["pos"], ()), b["kind"])
            for b in node_bullets[: count_author_bullets(node["author"], len(node_bullets))]
        ]
        request = RefineSummary(node["node_id"], node["title"], statements, node["summary"], tuple(node["keywords"]))
        try:
            refine_summary(app, request, Caller())
        except MemoryMcpError:
            # What it rests on was forgotten here, or lies elsewhere: the text of this memory stays.
            continue
        count += 1
    return count


#: What the daemon answers to a merge.
METHODS = (known, rules, records)
