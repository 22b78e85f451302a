"""Rules for random values assigned or passed on under a name that does not mark them as secret."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from memory_mcp.ingest.secret_rules import Rule, Span
from memory_mcp.ingest.secret_values import is_chosen, is_drawn, is_placeholder, is_random, is_strong, is_worded

#: Names of values that are random and no secret, and words for them.
_OPEN_WORD = (
    r"ids?|uuid|guid|sha\d*|hash|digest|checksum|sum|md5|commit|rev|revision|ref|versions?|image|tags?|path|file|dir|home|url|uri|link"
    r"|host|domain|server|pub|public|cert|certificate|ca|fingerprint|integrity|etag|cursor|nonce|name|user|flags|opts|args|data|body"
    r"|text|content|expected|output|result|value|thumbprint|address|addr|signature|sig|class|type|model|format|build|branch|session"
    r"|request|trace|span|icon|svg|font|src|href|prompt|template|patterns?|regex|query|sql|ps1|accept|websocket|next|continuation|placeholder|spec|status"
)
#: Parts of signed and encrypted messages, and of public keys.
_PART = r"protected|payload|header|iv|ciphertext|x5t|x5c|kid|sub|aud|jti|pub[xy]?|base64\w?"
_OPEN_NAME = re.compile(rf"(?i)^[nexy]$|(?:^|[_.-]|(?<=[a-z])(?=[A-Z]))(?:{_OPEN_WORD}|{_PART})s?(?:$|[_.-]|(?-i:(?=[A-Z])))")
_VARIABLE = re.compile(
    r"(?<![A-Za-z0-9_$.])(?P<name>[A-Z][A-Z0-9_]{2,60}+)=(?P<quote>[\"']?)(?P<secret>[^\s\"'`$<>]{8,400}+)(?=(?P=quote)(?:\s|$))"
)
#: What may stand before a variable: the beginning of a line, a command that sets it, an option.
_SETS = re.compile(r"(?:^|\n)[ \t#>$]{0,8}(?:export |set |-e |ENV )?\Z| -e \Z|--env \Z")
_RUN = re.compile(r"[A-Za-z0-9_+/.~-]{20,}+={0,2}")
_WHOLE = re.compile(r"[A-Za-z0-9_+/-]{20,400}={0,2}")
#: A token behind the prefix of who gave it, in small letters alone; shorter ones are ids and file names as often.
_PREFIXED = re.compile(r"(?P<prefix>[a-z][a-z0-9]{1,11}(?:[_-](?:[a-z]{2,12}|v?\d{1,2})){0,2})[_-](?P<body>[a-z0-9]{40,})")
_SHORTEST_BODY = 40
_ENTRY = re.compile(
    r"(?<![A-Za-z0-9_.-])(?P<name>[A-Za-z][\w.-]{1,60}+)(?:: |[\"'](?:: ?|[ \t]?=>?[ \t])|[ \t]=>?[ \t])(?P<open>[\"']?)\Z"
)
_SENTENCE = re.compile(
    r"(?i)\b(?:use|using|try|with|has|have|gave|got|get|needs?|wants?|takes?|accepts?|put|paste|pass|is|now|one|this|sweep|enter|typed?|key|as)"
    r":? [\"'`]?\Z"
)
#: A label with some words of prose between it and the value.
_LABEL = re.compile(r"(?i)(?<![A-Za-z0-9_-])(?:token|secret|credential|key)s?(?:[ ][^\W\d_]{1,16}){1,8}[:,]?[ ][\"'`]?\Z")
_GOES_ON = re.compile(r"(?i)[\"'`,;]?(?:[ ][a-z]{1,12}[ ]|[.]?\s*(?:\n|\Z))")
_PIPE = re.compile(r"\b(?:echo|printf)\s+(?:-n\s+)?[\"']?\Z")
_PIPED = re.compile(r"[\"']?\s*\|")
#: How far before and behind a value its surroundings say what it is, characters.
_BEFORE, _BEHIND = 80, 20
_ABOUT_OPEN = re.compile(rf"(?i)\b(?:{_OPEN_WORD})\b")


@dataclass(frozen=True, slots=True)
class VariableRule:
    """`NAME=value` of an environment."""

    name: str = "variable"
    anchors: tuple[str, ...] = (r"~=[\"']?[a-z0-9_+/.~!#%*-]{8}",)

    def find(self, text: str, _lowered: str) -> Iterator[Span]:
        """Yield the values of variables in capitals that look random or like passwords.

        Names known as public are passed over, and places other than a line's beginning, an export, a set or an option.
        """
        for match in _VARIABLE.finditer(text):
            value, start = match["secret"], match.start()
            if _OPEN_NAME.search(match["name"]) or not _SETS.search(text[max(0, start - _BEHIND) : start]):
                continue
            # Else a password that somebody chose: no path or address, but words with a number, or mixed signs.
            short = len(value) <= 40 and "/" not in value and ":" not in value
            if is_strong(value) or (
                short and (is_worded(value) or (is_chosen(value) and is_drawn(value))) and not is_placeholder(value)
            ):
                yield Span(*match.span("secret"), self.name)


def is_prefixed(value: str) -> bool:
    """Return whether a value is a vendor's short prefix, a sign, and 40 or more random small letters and digits."""
    match = _PREFIXED.fullmatch(value)
    return match is not None and is_random(match["body"], _SHORTEST_BODY) and not _OPEN_NAME.search(match["prefix"])


@dataclass(frozen=True, slots=True)
class DrawnRule:
    """`name: X`, `use X for staging`, `echo X | program`, where X is clearly random and not marked as public."""

    name: str = "drawn"
    anchors: tuple[str, ...] = (
        r"~ [\"'`]?[a-z0-9][a-z0-9_+/-]{19}",
        r"~:[\"'][a-z0-9][a-z0-9_+/-]{19}",
    )

    def find(self, text: str, _lowered: str) -> Iterator[Span]:
        """Yield runs of 20 or more random characters that the text around assigns, passes or pipes and does not call public."""
        for run in _RUN.finditer(text):
            value = run[0]
            if value.isupper() or value.isalpha() or value.startswith("eyJ"):
                continue
            value = value.rstrip(".")
            if not _WHOLE.fullmatch(value) or not (is_prefixed(value) if value.islower() else is_strong(value)):
                continue
            end = run.start() + len(value)
            before = text[max(0, run.start() - _BEFORE) : run.start()].rpartition("\n")[2]
            if not _ABOUT_OPEN.search(before) and _handed_over(before, text[end : end + _BEHIND]):
                yield Span(run.start(), end, self.name)


def _handed_over(before: str, behind: str) -> bool:
    """Return whether the text around a value, before it on its line and 20 characters behind, assigns, passes or pipes it."""
    if entry := _ENTRY.search(before):
        return not _OPEN_NAME.search(entry["name"]) and (
            behind[:1] == entry["open"] or not (entry["open"] or behind[:1].strip(" \r\n\t,;}])"))
        )
    if _SENTENCE.search(before) and _GOES_ON.match(behind):
        return True
    if _LABEL.search(before):
        return behind[:1].strip("\"'`.,;)") in ("", " ")
    return _PIPE.search(before) is not None and _PIPED.match(behind) is not None


DRAWN_RULES: tuple[Rule, ...] = (VariableRule(), DrawnRule())
