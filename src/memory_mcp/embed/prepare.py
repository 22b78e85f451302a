"""Split identifiers into words before a text is embedded."""

import re
from collections.abc import Container

from memory_mcp.base.text import MAX_TOKEN, name_parts

# A word begins inside a name at a capital after a small letter or digit (getValue), or at the last of several capitals
# before small letters (HTTPServer, but not URLs). Most texts have none.
_INSIDE = r"[a-z0-9][A-Z]|[A-Z]{2}[a-z]{2}"
_ANY = re.compile(_INSIDE)
_NAME = re.compile(rf"(?<![A-Za-z0-9])[A-Za-z0-9]*(?:{_INSIDE})[A-Za-z0-9]*")


def split_identifiers(text: str, vocabulary: Container[str] = frozenset()) -> str:
    """Split identifiers: `get HTTP Value of user id` for `getHTTPValue of user_id`.

    Models fold case and know words: otherwise a camel-case name is one unknown word. What is in `vocabulary`, the model's
    words in lower case, stays one (JavaScript, GitHub), because it may be searched that way. The model's tokenizer splits paths,
    dots and dashes.
    """
    spaced = text.replace("_", " ")
    return _NAME.sub(lambda match: _split_name(match[0], vocabulary), spaced) if _ANY.search(spaced) else spaced


def _split_name(name: str, vocabulary: Container[str]) -> str:
    """Adjacent parts that are a known word together stay together."""
    if len(name) > MAX_TOKEN or name.lower() in vocabulary:
        return name
    first, *parts = name_parts(name)
    words = [first]
    for part in parts:
        if (words[-1] + part).lower() in vocabulary:
            words[-1] += part
        else:
            words.append(part)
    return " ".join(words)
