"""Patterns over lower-case sentences, and the sentences that report a decision."""

import re

from memory_mcp.base.patterns import lazy_pattern


def compile_pattern(*parts: str) -> re.Pattern[str]:
    """Return the joined parts compiled, for text in lower case.

    An apostrophe matches either form. Ignoring case would take three times as long.
    """
    return lazy_pattern("".join(parts).replace("'", "['’]"))


def contains_any(text: str, words: tuple[str, ...]) -> bool:
    """Return whether a text holds any of the `words`."""
    for word in words:
        if word in text:
            return True
    return False


#: Reports of a decision by anyone; not proposals, and not the work that follows.
_DECISION = compile_pattern(
    r"\b(?:(?:we|i|user|they|team|it was|was|been|have|has|had|'ve|and|finally|then|just|also|(?:the|our) \w+) (?:all )?",
    r"(?:decided|agreed|opted|settled|chose|elected)(?: (?:to|on|that|for|against|not|between|with)\b| [`\w])|",
    r"decided (?:to|on|that|against|not)\b|",
    r"(?:we|i|they)(?:'re| are|'ll| will|'m| am|'ve)? (?:going to )?(?:going with|go with|went with|gone with|",
    r"stick(?:ing)? (?:with|to)|stay(?:ing)? with|settling on)\b|",
    r"(?:ok(?:ay)?|yes|no|nah|yeah|then|so) (?:let's|lets|let us) (?:go with|use|keep (?!\w+ing\b)|skip|drop|not)\b|",
    r"^(?:going|go|went) with (?!the flow)\w|",
    r"user (?:then |also |explicitly )?(?:chose|selected|picked|preferred|rejected|declined|approved|confirmed|opted)|",
    r"(?:decision|verdict|conclusion|resolution|agreement)(?: \w+)?(?: was| is|:)(?! (?:needed|pending|open|required))|",
    r"(?:final|key|design) decision\b|option [a-d0-9] (?:was |is )?(?:chosen|selected|it is)|",
    r"beschlossen|entschieden|haben uns (?:auf|für)|décidé|choisi|decidimos|decidido|hemos elegido|acordamos)",
    # After punctuation that opens a clause no word boundary is needed.
    r"|(?:^|[-–—(:,] ?)(?:agreed|opted|settled|chose)(?: to| on| for|:| \w)|",
    r"(?:^|[,;:\"“(–—-] ?)(?:let's|lets|let us) (?:go with|keep (?!\w+ing\b|movin)|use|stick|stay|drop|skip|leave|not|roll back|",
    r"do (?:it|option|both|the)|",
    r"remove|switch|rename|call it|make it|have it|(?:change|move|put|do) [^.]{2,60} instead)\b",
    r"|决定(?!性)|決定(?!的)|选定|選定|约定|約定|决心|就这么定|定下来|決め(?:た|まし)|결정(?:했|하기)",
)
_UNDECIDED = compile_pattern(
    r"\b(?:haven't|have not|not yet|hasn't|to be|still|needs? to|must|should|could|can|whether|if|until|before|undecided|who|",
    r"how|didn't|did not|wasn't|as|already|already been|that) ",
    r"(?:be |we |i |you |they |it |the |user |was |been |have )?(?:\w+ )?(?:decided?|agreed?|settled?|chosen?|decision)\b|",
    r"\bdecid(?:e|ing)\b|\bagreed[.!]*$|^i agreed?\b|\b(?:let's|lets) (?:see|check|look)\b|",
    r"\b(?:decided|agreed|chose) (?:that )?already\b|",
    r"没决定|还没|未定|未决",
)
#: No match without one of these words; looking for them is cheaper than the patterns.
_WORDS = (
    *("decided", "decision", "agree", "chose", "opted", "settl", " with ", "stick", "stay", "let's ", "let’s ", "lets "),
    *("let us ", "verdict", "user ", "conclusion", "resolution", "option ", "elected", "beschlossen", "entschieden"),
    *("uns ", "décidé", "choisi", "decidi", "elegido", "acordamos", "决", "決", "选定", "選定", "约定", "約定"),
    *("这么定", "定下来", "결정"),
)


def is_choice(folded: str) -> bool:
    """Return whether a lower-case sentence reports a decision."""
    return contains_any(folded, _WORDS) and _DECISION.search(folded) is not None and _UNDECIDED.search(folded) is None
