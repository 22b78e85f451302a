"""Results of a search in, cards out: a card is a conversation, its title the sentence that matched. Pure."""

import re
from collections.abc import Mapping, Sequence, Set
from typing import Any

from markupsafe import Markup

from memory_mcp.base.text import placed_terms
from memory_mcp.web.rendering import cut_at_word, mark_terms, terms_to_mark

#: How a response writes that a result has no project where the one before has one; and that it is bound to none.
_NO_PROJECT, _ALL = "none", "all projects"
#: Where a sentence or a line ends, the marks that a line of Markdown begins with or has, and how many characters they may have.
_ENDS = re.compile(r"(?<=[.!?])\s+|(?<=[。！？])|\n+")
_MARKS = re.compile(r"^[#>*+=|\s-]+(?=\S)|^\d+[.)]\s+|\*\*|`")
_LEADS = 12
#: Characters of the sentence that represents a result.
_SENTENCE = 200


def cards_of(query: str, response: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the results of a search as cards, in their order.

    Each has the result's fields and project ("" for none), level ("" for what is no node), is_period, page (of its
    node or citation), id, and sentence and quote with the question's words marked.
    """
    why = response["explanation"]
    terms = terms_to_mark(query, why.get("window", {}).get("words", ""))
    project = "" if why.get("scope") == _ALL else why.get("scope", "")
    cards = []
    for result in response["results"]:
        project = "" if result.get("project") == _NO_PROJECT else result.get("project") or project
        node = result.get("node", "")
        level = node.split(":")[1] if node.startswith("toc:") else ""
        cards.append(
            {
                **result,
                "project": project,
                "level": level,
                "is_period": bool(level) and level != "segment",
                "page": f"grip/{result['grip']}" if result.get("grip") and not node else f"tree/{node}",
                "id": result.get("grip") or node,
                **_sentence(result.get("quote", "") or result.get("title", ""), terms),
            }
        )
    return cards


def _sentence(quote: str, terms: Set[str]) -> dict[str, Markup]:
    pieces = [piece for piece in map(str.strip, _ENDS.split(quote)) if any(map(str.isalnum, piece))] or [quote]
    best = max(pieces, key=lambda piece: len({term for *_, term in placed_terms(piece)} & terms))
    line = cut_at_word(_MARKS.sub("", best), _SENTENCE)
    says_more = len(" ".join(quote.split())) > len(line) + _LEADS
    return {"sentence": mark_terms(line, terms), "quote": mark_terms(quote, terms) if says_more else Markup()}


def by_conversation(cards: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return one card for each conversation, its other results as `further`."""
    conversations: dict[str, dict[str, Any]] = {}
    for card in cards:
        session = card.get("session", "")
        first = conversations.setdefault(session if session and not card["is_period"] else card["id"], {**card, "further": []})
        if first["id"] != card["id"]:
            first["further"].append(card)
    return list(conversations.values())
