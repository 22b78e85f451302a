"""Text that any engine can store: a text or JSON value in, the same without what one of them refuses out (pure)."""

from typing import Any

#: In the place of what cannot be stored.
REPLACEMENT = "\ufffd"


def storable(text: str) -> str:
    """Return a text with NUL bytes and lone surrogates as U+FFFD."""
    if "\0" in text:
        text = text.replace("\0", REPLACEMENT)
    if text.isascii():
        return text
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        text = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def storable_value(value: Any) -> Any:
    """Return a JSON value with every text in it made storable."""
    if isinstance(value, str):
        return storable(value)
    if isinstance(value, dict):
        mended = {storable_value(key): storable_value(item) for key, item in value.items()}
        is_same = all(key is old and mended[key] is value[old] for key, old in zip(mended, value, strict=False))
        return value if is_same and len(mended) == len(value) else mended
    if isinstance(value, list | tuple):
        items = [storable_value(item) for item in value]
        return value if all(item is old for item, old in zip(items, value, strict=True)) else type(value)(items)
    return value
