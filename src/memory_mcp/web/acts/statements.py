"""The acts on statements, topics and nodes: pin, retract, correct, label and refine."""

from memory_mcp.model.ids import hash_parts
from memory_mcp.requests.correct import PERSON, Correct, Retract
from memory_mcp.requests.one_topic import LabelTopic
from memory_mcp.requests.pins import Pin
from memory_mcp.requests.refine import MAX_BULLETS, RefineSummary, Statement
from memory_mcp.web.asking import ActResult, PageRequest


async def pin_item(ask: PageRequest) -> ActResult:
    """Pin or unpin a node, quotation or topic."""
    done = await ask.memory.write(Pin(ask.argument("id"), ask.argument("on") != "no", ask.author))
    return ActResult("Pinned: it counts for more." if done["pinned"] else "Unpinned.", ask.back, {"pinned": done["pinned"]})


async def correct_statement(ask: PageRequest) -> ActResult:
    """Replace a quotation, which stays readable.

    A form that is sent again with the same key and words corrects once.
    """
    grip, text, kind, key = (ask.argument(name) for name in ("grip_id", "text", "kind", "key"))
    # The same form with other words is another correction.
    once = f"{key}:{hash_parts(grip, text, kind):x}" if key else ""
    request = Correct(
        grip,
        text,
        ask.argument("reason"),
        kind,
        idempotency_key=once,
        by=PERSON,
        is_person=ask.visit.is_person,
        by_hand=True,
    )
    done = await ask.memory.write(request)
    note = "Corrected: what you wrote is shown first from now on, and the old words stay readable."
    return ActResult(note, f"grip/{done['grip_id']}")


async def retract_statement(ask: PageRequest) -> ActResult:
    """Mark a quotation as no longer true."""
    await ask.memory.write(Retract(ask.argument("grip_id"), ask.argument("reason"), PERSON, ask.visit.is_person))
    return ActResult("Marked as no longer true; it stays readable.", ask.back)


async def label_topic(ask: PageRequest) -> ActResult:
    """Give a topic a label; an empty one restores its own words."""
    request = LabelTopic(ask.argument("topic_id"), ask.argument("label"), **ask.scope_arguments, by=ask.author)
    done = await ask.memory.write(request)
    return ActResult(f"The topic is called {done['label']} now.", ask.back)


async def refine_node(ask: PageRequest) -> ActResult:
    """Replace a node's title and statements by those of the form.

    For each statement the form has text.N, grips.N (ids between blanks) and kind.N, N from 0.
    """
    rows = [
        (ask.argument(f"text.{n}"), ask.argument(f"grips.{n}").split(), ask.argument(f"kind.{n}")) for n in range(MAX_BULLETS)
    ]
    statements = [Statement(text, grips, kind) for text, grips, kind in rows if text]
    request = RefineSummary(ask.argument("node_id"), ask.argument("title"), statements, **ask.scope_arguments, by=ask.author)
    done = await ask.memory.write(request)
    note = " ".join(["The node has your words now.", *done.get("notices", ())])
    return ActResult(note, f"tree/{done['node_id']}")
