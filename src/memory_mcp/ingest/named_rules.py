# ruff: noqa: ISC004, E501 - a long pattern goes on in the next line of its row
"""Secrets behind their name where nothing is assigned: arguments, rows of tables, name and value apart, lines of settings."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from memory_mcp.ingest.secret_rules import NAME, NAME_END, Rule, Span, every, gives_away_plainly, names_secret

_QUOTE = r"\\?[\"'`]"
#: Forms of a setting: the signs between a name and its value, and the value.
_FORMS = (
    # Arguments of a call: of define, of setProperty, of type behind the selector of a field.
    rf"[\])]{{0,2}}{_QUOTE}\)?[ \t]{{0,4}}(?:,|\.(?:type|fill|send_?[kK]eys|set[A-Z]?\w{{0,12}})\()\s{{0,12}}{_QUOTE}"
    rf"(?P<argument>[^\"'`\\\s]{{6,400}}){_QUOTE}",
    # {"name": "NAME", "value": "value"} and the same in two lines of YAML
    rf"{_QUOTE}?[ \t]{{0,4}},?\s{{0,24}}{_QUOTE}?(?i:default_?)?(?i:value){_QUOTE}?[ \t]{{0,4}}[:=][ \t]{{0,4}}{_QUOTE}?"
    r"(?P<pair>[^\"'`\\\s,}]{6,400})",
    # variable "name" { default = "value" }
    r"\"[ \t]{0,4}\{\s{0,40}(?:\w{1,20}[ \t]{0,20}=[^\n]{0,200}\n\s{0,20}){0,4}?default[ \t]{0,20}=[ \t]{0,4}"
    r"\"(?P<default>[^\"\\\s]{6,400})\"",
    # <name>value</name>, <property name="name">value</property>
    rf"{_QUOTE}?>(?P<element>[^<>\s]{{6,400}})</",
    # | name | `value` |
    r"[`*\"]{0,2}[ \t]{1,40}\|[ \t]{1,40}[`\"]?(?P<cell>[^\s|`\"]{6,400})",
    # storePassword 'value'
    rf"[ \t]{{1,4}}{_QUOTE}(?P<quoted>[^\"'`\\\s]{{6,400}}){_QUOTE}",
    # ENV NAME value
    r"[ \t]{1,4}(?P<told>[!#-&*-+\--:=?@A-Z^_a-z~]{12,400})(?=\s|$|[,;\u3002\uff0c])",
    # SECRET = Buffer.from("value", "hex"), key := []byte("value"), KEY = b"value"
    r"[\"']?[ \t]{0,4}(?::?=|:)[ \t]{0,4}(?:new )?(?:[A-Za-z_\[][\w.\[\]]{0,40}\(\s{0,8}[bru]?|[bruBRU]{1,2})"
    r"[\"'`](?P<made>[^\"'`\\\s]{6,400})[\"'`]",
    # const SECRET: &str = "value", let token: String = "value", SECRET: Final[str] = "value"
    rf"[ \t]{{0,2}}:[ \t]{{0,2}}&?(?:'static )?[A-Za-z][\w.\[\]<>]{{1,30}}[?!]?[ \t]{{0,4}}=[ \t]{{0,4}}{_QUOTE}"
    r"(?P<typed>[^\"'`\\\s]{6,400})[\"'`]",
    # NAME=value up to the end of its line, whatever signs it holds
    r"=(?P<line>[^\s\"'`$][^\s\"'`]{7,400})$",
)
_NAMED = re.compile(rf"(?m)(?P<key>{NAME}{NAME_END})(?:{'|'.join(_FORMS)})")
_GROUPS = ("argument", "pair", "default", "element", "cell", "quoted", "told", "made", "typed", "line")
#: A name for machines has a sign or a capital inside; what is only told behind a word of prose is left to other rules.
_MACHINE_NAME = re.compile(r"[A-Za-z0-9][_-][A-Za-z0-9]|[a-z][A-Z]|:_[a-z]")
#: Names of things in code that stand behind each other, such as in a definition; and words joined by dashes.
_IN_CODE = re.compile(r"^(?:[A-Za-z]\w*_\w*_\w*,?|[a-z]+\d?(?:-[a-z]+\d?)+)$")
_WORDS = ("pass", "pwd", "secret", "token", "credential", "key")
_AFTER = rf"[a-z0-9_-]{{0,60}}+(?:[\])]{{0,2}}{_QUOTE}\)?[ \t]{{0,4}}[,.>{{|\n:=v]|>|[`*\"]{{0,2}}[ \t]{{1,40}}\||[ \t]{{1,4}}\S{{8}}|\s{{1,24}}value|[:= ]{{1,4}}[\[\w&]|=\S{{8}})"
_HINTS = tuple(re.compile(word + _AFTER) for word in _WORDS)


@dataclass(frozen=True, slots=True)
class NamedRule:
    """A value behind the name of a secret, where a person would read the two as belonging together."""

    name: str
    anchors: tuple[str, ...]

    def find(self, text: str, lowered: str) -> Iterator[Span]:
        """Yield values that stand behind the name of a secret and look like one, as arguments, pairs, cells or lines."""
        for hint in _HINTS:
            for place in every(hint, lowered):
                start = place.start()
                before = text[max(0, start - 24) : start]
                if not names_secret(place[0], before) or not (match := _NAMED.match(text, start)):
                    continue
                group = next(g for g in _GROUPS if match[g] is not None)
                if group in ("quoted", "told") and not _MACHINE_NAME.search(before.rpartition(" ")[2] + match["key"]):
                    continue
                if group == "line" and not (match["key"].isupper() and match[group][-1] not in ",;)"):
                    continue
                if group not in ("argument", "pair") and _IN_CODE.match(match[group]):
                    continue
                if gives_away_plainly(match["key"], match[group], paired=group in ("pair", "element")):
                    yield Span(match.start(group), match.end(group), self.name)


NAMED_RULES: tuple[Rule, ...] = (NamedRule("named", tuple(f"~{hint.pattern}" for hint in _HINTS)),)
