"""Acts on statements and topics: pin, retract, correct and label."""

from memory_mcp.model.ids import hash_parts
from memory_mcp.requests.correct import PERSON, Correct, Retract
from memory_mcp.requests.one_topic import LabelTopic
from memory_mcp.requests.pins import Pin
from memory_mcp.web.asking import Ask, Done


async def pin_item(ask: Ask) -> Done:
    """Pin or unpin a node, quotation or topic."""
    done = await ask.memory.write(Pin(ask.argument("id"), ask.argument("on") != "no", ask.by))
    return Done("Pinned: it counts for more." if done["pinned"] else "Unpinned.", ask.back, {"pinned": done["pinned"]})


async def correct_statement(ask: Ask) -> Done:
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
    return Done(note, f"grip/{done['grip_id']}")


async def retract_statement(ask: Ask) -> Done:
    """Mark a quotation as no longer true."""
    await ask.memory.write(Retract(ask.argument("grip_id"), ask.argument("reason"), PERSON, ask.visit.is_person))
    return Done("Marked as no longer true; it stays readable.", ask.back)


async def label_topic(ask: Ask) -> Done:
    """Give a topic a label; an empty one restores its own words."""
    done = await ask.memory.write(LabelTopic(ask.argument("topic_id"), ask.argument("label"), **ask.scope_arguments, by=ask.by))
    return Done(f"The topic is called {done['label']} now.", ask.back)
