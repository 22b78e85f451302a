"""Parse a source's times to UTC milliseconds."""

import datetime as dt
import math

_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_MILLISECOND = dt.timedelta(milliseconds=1)
#: Smaller numbers are seconds: as milliseconds they would be before March 1973, as seconds after the year 5000.
_SECONDS_BELOW = 100_000_000_000


def parse_time(value: object) -> int | None:
    """Return the UTC ms of ISO 8601 or an epoch number.

    Also one as a text of 9 to 16 digits; None for anything else. A number under 100,000,000,000 is seconds, any other
    milliseconds. A text without zone is UTC: the zone it was written in is unknown here.
    """
    if isinstance(value, str):
        text = value.strip()
        try:
            moment = dt.datetime.fromisoformat(text)
        except ValueError:
            return parse_time(int(text)) if text.isascii() and text.isdigit() and 9 <= len(text) <= 16 else None
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=dt.UTC)
        try:
            return (moment - _EPOCH) // _MILLISECOND
        except OverflowError:
            return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return int(value * 1000) if abs(value) < _SECONDS_BELOW else int(value)
