"""Find the end of a JSON or Python object inside a text, at any depth of escaping. Pure; linear in the text's length."""

import re


def end_of_object(text: str, start: int, quote: str) -> int:
    """Return the end of the object that begins at `start`, or with the member there; 0 where it does not end.

    `quote` is how names are quoted in `text`: a quotation mark or its entity, with as many backslashes before it as the
    object was escaped with.
    """
    level = len(quote) - len(quote.lstrip("\\"))
    sign = quote[level:]
    signs = "[\"']" if len(sign) == 1 else re.escape(sign)
    depth, inside = int(text[start] != "{"), ""
    # A run of backslashes is taken whole, so that a text of nothing else is read once.
    for match in re.finditer(rf"\\++(?:{signs})?|{signs}|[{{}}\[\]]", text[start:]):
        char = match[0].lstrip("\\")
        slashes = len(match[0]) - len(char)
        if not char:
            continue
        if inside:
            # Each backslash of a string is written as twice as many as the quotation mark has, and one more pair.
            if char == inside and slashes >= level and (slashes - level) % (2 * (level + 1)) == 0:
                inside = ""
        elif char in "[{":
            depth += 1
        elif char in "]}":
            depth -= 1
            if not depth:
                return start + match.end()
        elif slashes == level:
            inside = char
    return 0
