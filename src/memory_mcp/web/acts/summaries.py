"""The act that gives a node another title and other statements, each with the quotations that prove it."""

from memory_mcp.requests.refine import MAX_BULLETS, RefineSummary, Statement
from memory_mcp.web.asking import Ask, Done


async def refine_node(ask: Ask) -> Done:
    """Replace a node's title and statements by those of the form.

    The form has node_id and title, and for each statement text.N, grips.N (ids between blanks) and kind.N, N from 0.
    A statement without text is left out. Raises what the request raises, as for a grip that proves nothing there.
    """
    rows = [
        (ask.argument(f"text.{n}"), ask.argument(f"grips.{n}").split(), ask.argument(f"kind.{n}")) for n in range(MAX_BULLETS)
    ]
    statements = [Statement(text, grips, kind) for text, grips, kind in rows if text]
    request = RefineSummary(ask.argument("node_id"), ask.argument("title"), statements, **ask.scope_arguments, by=ask.by)
    done = await ask.memory.write(request)
    note = " ".join(["The node has your words now.", *done.get("notices", ())])
    return Done(note, f"tree/{done['node_id']}")
