"""What a text goes through before it is embedded: names of code become the words they are made of."""

import re
from collections.abc import Container

from memory_mcp.text import MAX_TOKEN, name_parts

# A word begins inside a name at a capital after a small letter or digit (getValue), or at the last of several capitals
# before small letters (HTTPServer, but not URLs). Most texts have none, and are only looked through.
_INSIDE = r"[a-z0-9][A-Z]|[A-Z]{2}[a-z]{2}"
_ANY = re.compile(_INSIDE)
_NAME = re.compile(rf"(?<![A-Za-z0-9])[A-Za-z0-9]*(?:{_INSIDE})[A-Za-z0-9]*")


def split_identifiers(text: str, known: Container[str] = frozenset()) -> str:
    """`getHTTPValue of user_id` becomes `get HTTP Value of user id`.

    Models fold case and know words: without this a name in camel case is one word that none has ever met. What is a word to
    the model, in small letters, stays one (JavaScript, GitHub), because that is how it may be asked for. Paths, dots and
    dashes are cut by the model's own tokenizer.
    """
    spaced = text.replace("_", " ")
    return _NAME.sub(lambda found: _words(found[0], known), spaced) if _ANY.search(spaced) else spaced


def _words(name: str, known: Container[str]) -> str:
    if len(name) > MAX_TOKEN or name.lower() in known:
        return name
    first, *rest = name_parts(name)
    words = [first]
    for part in rest:
        if (words[-1] + part).lower() in known:
            words[-1] += part
        else:
            words.append(part)
    return " ".join(words)
