"""The one estimator of tokens: ceil(UTF-8 bytes / 4) times a factor. Segment cuts and budgets rest on it."""


def estimate_tokens(text: str, factor: float = 1.0) -> int:
    """Return the estimated tokens in `text`: ceil(bytes / 4) x factor, rounded up; 0 for the empty text."""
    return tokens_in(len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass")), factor)


def tokens_in(size: int, factor: float = 1.0) -> int:
    """Return the estimated tokens in `size` bytes of text: ceil(size / 4) x factor, rounded up."""
    return -int(-(-(-size // 4) * factor) // 1) if factor != 1.0 else -(-size // 4)


def room_in(tokens: float, factor: float = 1.0) -> int:
    """Return the most bytes of text that `tokens_in` estimates at no more than so many tokens."""
    return 4 * int(tokens / factor)
