"""refine_summary: puts an agent's words in the place of the summarizer's.

Every bullet rests on grips that lie inside its node, all of one project. Nothing of the text before remains: a
summary and keywords that are not given are made of the new words.
"""

from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Annotated, Any

from memory_mcp.base.dataclass import dataclass
from memory_mcp.base.errors import InvalidQuery, NotFound
from memory_mcp.capture.gate import Gate
from memory_mcp.importers.base import ImportReport
from memory_mcp.model.calendar import TocLevel, span_of
from memory_mcp.model.event import EventDraft, EventType, Role
from memory_mcp.model.ids import ROOT, GripId, segment_key_of
from memory_mcp.model.ledger import AuditEntry
from memory_mcp.model.segment import Segment
from memory_mcp.model.toc import AGENT, KIND_SALIENCE, MemoryKind, TocBullet, TocNode, display_author, is_by_agent
from memory_mcp.requests import arguments
from memory_mcp.requests.entry import Effect, answers
from memory_mcp.requests.limits import Argument, parse_choice
from memory_mcp.requests.response import Recalled
from memory_mcp.requests.scope import Caller, Scoped, scope_of
from memory_mcp.requests.times import settled_ms, times_of
from memory_mcp.storage.values import Build
from memory_mcp.tree.derive.build import salience_of, segment_title, with_others
from memory_mcp.tree.derive.derivation import Depth
from memory_mcp.tree.derive.rollup import period_name
from memory_mcp.tree.summarize.keywords import MAX_KEYWORDS, keywords_of
from memory_mcp.tree.summarize.kinds import cues_of, kind_of
from memory_mcp.tree.summarize.sentences import shorten
from memory_mcp.tree.summarize.titles import SEPARATOR, without_date

if TYPE_CHECKING:
    from memory_mcp.app import App

#: Longest texts, characters, and most bullets of a node and grips of a bullet.
MAX_TITLE, MAX_TEXT, MAX_KEYWORD = 200, 2000, 60
MAX_BULLETS, MAX_GRIPS = 20, 20
#: Characters of a summary that is made of title and bullets, as the summarizer's own.
_SUMMARY = 300
#: Stands for the dash behind which a title has mere terms, which periods and briefings leave out.
_DASH = " \u2013 "
_GOES_ON = "this node is not over: what comes is added to its events, and not to the words it has now"
_UNCHANGED = "Nothing was changed."
_FORM = (
    '{"title": "...", "bullets": [{"text": "...", "grip_ids": ["grip:..."]}]}; '
    "kind in a bullet, summary and keywords beside them are optional"
)


@dataclass(frozen=True, slots=True)
class Statement:
    """A bullet as it is given; its kind is a MemoryKind's value, or "" to read it from the text."""

    text: Annotated[str, Argument(longest=MAX_TEXT)]
    grip_ids: Annotated[Sequence[str], Argument(shortest=1, longest=MAX_GRIPS)]
    kind: arguments.Kind = ""


@dataclass(frozen=True, slots=True)
class RefineSummary:
    """Replace a node's text by a better one, marked as an agent's. Every bullet names grips that lie inside the node."""

    node_id: Annotated[str, Argument(longest=300)]
    title: Annotated[str, Argument("What was asked: what came of it; its date is added", longest=MAX_TITLE)]
    bullets: Annotated[Sequence[Statement], Argument(shortest=1, longest=MAX_BULLETS)]
    summary: Annotated[str, Argument("Default: made of title and bullets", longest=MAX_TEXT)] = ""
    keywords: Annotated[
        Sequence[Annotated[str, Argument(longest=MAX_KEYWORD)]],
        Argument("Default: read from title and bullets", longest=MAX_KEYWORDS),
    ] = ()
    #: Whose grips may prove it: the caller's project, unless another or "all" is named.
    project: arguments.Project = ""
    scope: arguments.Scope = ""
    #: Who writes it; "" where it is a part of a larger act, which is recorded as a whole.
    by: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Refined(Recalled):
    """The node as it is now."""

    node_id: str
    title: str
    version: int
    author: str
    notices: Sequence[str] = ()


@answers("refine_summary", RefineSummary, "Refine a summary", Effect.ADDS)
def refine_summary(app: "App", request: RefineSummary, caller: Caller) -> Refined:
    """Replace a node's words by an agent's; return the node.

    The periods above are rolled up; a repeat changes nothing. The change is in the audit log, unless `by` is "". Raises
    InvalidQuery when a text is empty, too long or refused, or a grip lies outside the node or in another project; NotFound for
    an unknown node or grip.
    """
    _check_sizes(request)
    scoped = scope_of(app, request.project, request.scope, caller)
    with app.derivation.publishing:
        node_id = times_of(app).node_id(request.node_id)
        if scoped.locked:
            app.tree.node(node_id, scoped.project)
        old_node = app.tree.node(node_id)
        node = _apply_refinement(app, old_node, request, scoped)
        if replace(node, version=old_node.version, built=old_node.built) == old_node:
            node = old_node
        else:
            app.storage.toc.publish_build(Build(nodes=(node,)))
            app.derivation.run(Depth.PERIODS)
            if request.by:
                counts = {"bullets": len(request.bullets)}
                author = app.gate.clean_name(request.by)
                app.storage.audit.record_entry(AuditEntry("refine", app.clock.now_ms(), author, node_id, counts=counts))
    key, settled = segment_key_of(node.node_id), settled_ms(app)
    goes_on = node.end_ms > settled if key is None else app.storage.toc.get_segments([key])[key].open and node.end_ms >= settled
    notices = [_GOES_ON] if goes_on else []
    return Refined(
        node_id=node.node_id, title=node.title, version=node.version, author=display_author(node.author), notices=notices
    )


def parse_refinement(node_id: str, value: object, by: str = "") -> RefineSummary:
    """Return the request that a JSON value describes.

    The value is {title, bullets: [{text, grip_ids, kind?}], summary?, keywords?}. Only its shape is checked. Raises
    InvalidQuery for a value of another shape or an unknown field; the message names the place.
    """
    json_object = _check_object(value, "the refinement", RefineSummary)
    bullets, title = _check_list(json_object.get("bullets", ()), "bullets"), _check_text(json_object.get("title", ""), "title")
    statements = []
    for number, bullet in enumerate(bullets):
        path = f"bullets.{number}"
        bullet_fields = _check_object(bullet, path, Statement)
        text = _check_text(bullet_fields.get("text", ""), f"{path}.text")
        kind = _check_text(bullet_fields.get("kind", ""), f"{path}.kind")
        statements.append(Statement(text, _check_texts(bullet_fields.get("grip_ids", ()), f"{path}.grip_ids"), kind))
    return RefineSummary(
        node_id,
        title,
        statements,
        _check_text(json_object.get("summary", ""), "summary"),
        _check_texts(json_object.get("keywords", ()), "keywords"),
        by=by,
    )


def _check_object(value: object, path: str, kind: type[Any]) -> Mapping[str, object]:
    """Raises InvalidQuery for other fields than `kind`'s, and for node, project, scope."""
    field_names = [f.name for f in fields(kind) if f.name not in ("node_id", "project", "scope")]
    if not isinstance(value, Mapping):
        raise _make_invalid(f"{path} is no JSON object")
    if odd := next((name for name in value if name not in field_names), None):
        raise _make_invalid(f"{path}: unknown field {odd!r}")
    return value


def _check_text(value: object, path: str) -> str:
    if not isinstance(value, str):
        raise _make_invalid(f"{path} is no text")
    return value


def _check_texts(values: object, path: str) -> list[str]:
    return [_check_text(value, f"{path}.{at}") for at, value in enumerate(_check_list(values, path))]


def _check_list(value: object, path: str) -> Sequence[object]:
    if not isinstance(value, list | tuple):
        raise _make_invalid(f"{path} is no list")
    return value


def _make_invalid(what: str) -> InvalidQuery:
    return InvalidQuery(what, f"{_UNCHANGED} Give {_FORM}.")


def _check_sizes(request: RefineSummary) -> None:
    """Raise InvalidQuery for missing, too long or unknown parts."""
    _check_size("title", request.title, 1, MAX_TITLE)
    _check_size("summary", request.summary, 0, MAX_TEXT)
    _check_size("bullets", request.bullets, 1, MAX_BULLETS)
    _check_size("keywords", request.keywords, 0, MAX_KEYWORDS)
    for index, bullet in enumerate(request.bullets):
        _check_size(f"bullets.{index}.text", bullet.text, 1, MAX_TEXT)
        _check_size(f"bullets.{index}.grip_ids", bullet.grip_ids, 1, MAX_GRIPS)
        parse_choice(MemoryKind, f"bullets.{index}.kind", bullet.kind)
    for index, word in enumerate(request.keywords):
        _check_size(f"keywords.{index}", word, 1, MAX_KEYWORD)


def _check_size(path: str, value: Sequence[object], least: int, most: int) -> None:
    """White space alone counts as empty where `least` is not 0."""
    if len(value) < least or (least and isinstance(value, str) and not value.strip()):
        raise InvalidQuery(f"{path} is empty", f"{_UNCHANGED} Every bullet is a text with the ids of grips that prove it.")
    if len(value) > most:
        what = "characters" if isinstance(value, str) else "entries"
        raise InvalidQuery(f"{path} is too long: at most {most} {what}", _UNCHANGED)


def _apply_refinement(app: "App", old_node: TocNode, request: RefineSummary, scoped: Scoped) -> TocNode:
    """Return the node's next version, with the agent's words.

    They are cleaned as any write is, and the proofs checked. A missing summary is made of title and bullets, missing keywords
    of the same words. Bullets that an agent wrote for projects other than the new ones stay. Raises InvalidQuery for the root,
    a refused text or a grip that may not prove it, NotFound for an unknown grip.
    """
    if old_node.node_id == ROOT:
        raise InvalidQuery("the root has no summary", "Refine a year, month, week, day or segment.")
    gate = app.gate
    name = period_name(old_node.node_id) if old_node.level is not TocLevel.SEGMENT else ""
    title = _clean_text(gate, request.title)
    gist = (title.removeprefix(f"{name} · ") if name else without_date(title) or title).replace(SEPARATOR, _DASH)
    bullets = tuple(_make_bullet(app, gate, old_node, statement, scoped) for statement in request.bullets)
    texts = [gist, *(b.text for b in bullets)]
    kind = max((b.kind for b in bullets), key=KIND_SALIENCE.__getitem__)
    new_node = replace(
        old_node,
        title=f"{name} · {gist}" if name else segment_title(app.calendar, old_node.start_ms, gist),
        summary=_clean_text(gate, request.summary) or shorten(f"{gist}. {' '.join(texts[1:])}", _SUMMARY),
        bullets=bullets,
        keywords=tuple(_clean_text(gate, word) for word in request.keywords) or keywords_of(texts),
        kind=kind,
        salience=salience_of(bullets),
        author=AGENT,
        version=old_node.version + 1,
    )
    # What another agent said of its project stays, and what was derived of the others.
    whose = {b.project for b in bullets}
    other_bullets = [b for b in old_node.author_bullets if b.project not in whose] if is_by_agent(old_node.author) else []
    return with_others(new_node, [*bullets, *other_bullets], old_node.bullets)


def _make_bullet(app: "App", gate: Gate, node: TocNode, statement: Statement, scoped: Scoped) -> TocBullet:
    """Return a bullet that belongs to its grips' project.

    Its kind is read from the text where none is given. Raises InvalidQuery where the grips are of several projects, or a grip
    or the text is refused; NotFound for a grip.
    """
    cuts = [_cut_of(app, grip, node, scoped) for grip in statement.grip_ids]
    if len({cut.project for _, cut in cuts}) > 1:
        raise InvalidQuery(
            f"a bullet rests on two projects: {shorten(statement.text, 60)!r}",
            f"{_UNCHANGED} Make one bullet for each project: what is told of one is shown to whoever works on it.",
        )
    text, first = _clean_text(gate, statement.text), cuts[0][1]
    kind = parse_choice(MemoryKind, "kind", statement.kind) or kind_of(text, cues_of(text))
    return TocBullet(text, tuple(dict.fromkeys(grip for grip, _ in cuts)), kind, first.project, first.agent)


def _clean_text(gate: Gate, text: str) -> str:
    """Raises InvalidQuery for a text that is refused; "" for white space."""
    if not text.strip():
        return ""
    draft = EventDraft(session_id="refine", role=Role.ASSISTANT, type=EventType.NOTE, text=text, timestamp=0)
    outcome = gate.check_draft(draft, ImportReport())
    if isinstance(outcome, str):
        raise InvalidQuery(f"a text is refused: {outcome}", f"{_UNCHANGED} Say it in words of your own.")
    return " ".join(outcome.text.split())


def _cut_of(app: "App", grip_id: str, node: TocNode, scoped: Scoped) -> tuple[GripId, Segment]:
    """Return a grip and the segment of its first event.

    Raises NotFound for an unknown grip, or to a bound caller one of another project; InvalidQuery for one
    that lies outside the node or, where the scope is a project, in another.
    """
    hint = f"{_UNCHANGED} Every bullet must name existing grips: take them from refine_show, get_node or search results."
    unknown = NotFound(f"no grip {grip_id}", hint)
    try:
        citation = app.evidence.expand_grip(grip_id, 0, 0)
    except NotFound:
        raise unknown from None
    first_event = citation.excerpt[0]
    if (
        scoped.project is not None
        and (project := app.storage.projects.names.resolve_alias(first_event.project)) != scoped.project
    ):
        if scoped.locked:
            raise unknown
        hint = f"{_UNCHANGED} scope='all' lets one refinement rest on several projects."
        raise InvalidQuery(f"grip {grip_id} belongs to project {project}, not to {scoped.project}", hint)
    cuts = app.storage.toc.get_cuts([first_event.stream]).get(first_event.stream, ())
    cut = next((c for c in cuts if c.start <= first_event.order <= c.end), None)
    if cut is None or not _is_inside(cut, node):
        hint = f"{_UNCHANGED} A bullet may only rest on what its node holds."
        raise InvalidQuery(f"grip {grip_id} lies outside {node.node_id}", hint)
    return citation.grip_id, cut


def _is_inside(cut: Segment, node: TocNode) -> bool:
    if node.level is TocLevel.SEGMENT:
        return cut.key == segment_key_of(node.node_id)
    first, after = span_of(node.node_id)
    return first.isoformat() <= cut.day < after.isoformat()
