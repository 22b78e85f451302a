"""The estimator of tokens: ceil(UTF-8 bytes / 4) times a factor.

Segment cuts and budgets rest on it.
"""


def estimate_tokens(text: str, factor: float = 1.0) -> int:
    """Return the estimated tokens in `text`, rounded up."""
    return tokens_in(len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass")), factor)


def tokens_in(size: int, factor: float = 1.0) -> int:
    """Return the estimated tokens in `size` bytes of text, rounded up."""
    return -int(-(-(-size // 4) * factor) // 1) if factor != 1.0 else -(-size // 4)


def max_bytes(tokens: float, factor: float = 1.0) -> int:
    """Return the most bytes of text that so many tokens hold."""
    return 4 * int(tokens / factor)
