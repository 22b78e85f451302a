"""Rules for secrets recognised as a whole: card numbers, seed phrases, recovery codes."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from memory_mcp.ingest.secret_rules import Rule, Span

#: Lengths and beginnings of the large schemes (ISO/IEC 7812): Visa, Mastercard, American Express, Discover, JCB.
_CARD = re.compile(
    r"(?<![\w.+/=#@:-])(?:(?:4\d{3}|5[1-5]\d\d|2[2-7]\d\d|6011|65\d\d|35\d\d)(?P<gap>[ -]?)\d{4}(?P=gap)\d{4}(?P=gap)\d{4}"
    r"|3[47]\d\d(?P<gap2>[ -]?)\d{6}(?P=gap2)\d{5})(?![\w/=+-]|\.\d)"
)
_CARD_TOLD = re.compile(r"card|karte|tarjeta|carte|\u5361|master").search
#: Numbers that card schemes publish for tests.
_TEST_CARDS = re.compile(
    r"^(?:4242|4111|5555|4000\d{8}|378282246310005|371449635398431|6011111111111117|6011000990139424|5105105105105100)"
)


def luhn(digits: str) -> bool:
    """Return whether the last digit of a number checks the others (Luhn)."""
    double = sum(sum(divmod(2 * int(d), 10)) for d in digits[-2::-2])
    return (double + sum(map(int, digits[::-2]))) % 10 == 0


@dataclass(frozen=True, slots=True)
class CardRule:
    """Payment card numbers."""

    name: str = "card-number"
    anchors: tuple[str, ...] = (r"~[2-6][0-9]{3}[ -]?[0-9]{4}[0-9 -]{5,7}[0-9]",)

    def find(self, text: str, lowered: str) -> Iterator[Span]:
        """Yield card numbers of the large schemes with a valid check digit.

        Numbers published for tests are none, nor bare numbers that begin with 2 without a word for a card before them.
        """
        for match in _CARD.finditer(text):
            digits = re.sub(r"\D", "", match[0])
            # Numbers of that range that are only numbers are frequent: seeds, sums, times in microseconds.
            if (
                digits[0] == "2"
                and len(digits) == len(match[0])
                and not _CARD_TOLD(lowered, max(0, match.start() - 60), match.start())
            ):
                continue
            if luhn(digits) and len(set(digits)) > 3 and not _TEST_CARDS.match(digits):
                yield Span(match.start(), match.end(), self.name)


_SEED_RUN = re.compile(r"(?<![a-z])[a-z]{3,8}(?:[ ,\n]{1,2}[a-z]{3,8}(?![a-z])){11,}")
_SEED_WORD = re.compile(r"[a-z]{3,8}")
_SHORTEST_SEED = 12
#: Share of a phrase's words that stand in it once: of 24 drawn from 2,048 one is drawn twice in one phrase of eight.
_DISTINCT = 0.8


@cache
def seed_words() -> frozenset[str]:
    """Return the English words of BIP-39, from which wallets draw their phrases; read once."""
    return frozenset((files("memory_mcp.ingest") / "seed_words.txt").read_text(encoding="utf-8").split())


@dataclass(frozen=True, slots=True)
class SeedRule:
    """Twelve words and more in a row from the list that wallets draw theirs from."""

    name: str = "seed-phrase"
    anchors: tuple[str, ...] = ("~" + " [a-z]{3,8}+" * 10 + " [a-z]{3}",)

    def find(self, text: str, _lowered: str) -> Iterator[Span]:
        """Yield runs of at least 12 words in a row of the wallets' list, of which four in five are different."""
        for run in _SEED_RUN.finditer(text):
            known: list[re.Match[str]] = []
            for word in [*_SEED_WORD.finditer(text, *run.span()), None]:
                if word is not None and word[0] in seed_words():
                    known.append(word)
                    continue
                # Words that are drawn hardly repeat; a text that says few words again and again has some from the list.
                if len(known) >= _SHORTEST_SEED and len({w[0] for w in known}) >= _DISTINCT * len(known):
                    yield Span(known[0].start(), known[-1].end(), self.name)
                known = []


_CODES = re.compile(
    r"codes(?: de (?:secours|r\u00e9cup\u00e9ration))?|c\u00f3digos de (?:recuperaci\u00f3n|respaldo)"
    r"|(?:\u6062\u590d|\u5907\u7528|\u5907\u4efd|\u6551\u63f4)(?:\u4ee3\u7801|\u7801)"
    r"|(?:\u30ea\u30ab\u30d0\u30ea\u30fc|\u30d0\u30c3\u30af\u30a2\u30c3\u30d7)\u30b3\u30fc\u30c9|\ubcf5\uad6c \ucf54\ub4dc"
)
_CODES_OF = re.compile(r"(?:recovery|backup|back-up|scratch|emergency|wiederherstellungs|sicherungs)[-_ ]?\Z")
_CODE = re.compile(
    r"(?<![\w.:/-])(?:(?=[a-z-]{0,12}\d)[0-9a-z]{4,6}-[0-9a-z]{4,6}|\d{4} \d{4}"
    r"|(?=[a-z]{0,11}\d)(?=\d{0,11}[a-z])[0-9a-z]{8,12}|\d{6,8})(?![\w/:-]|\.\w)"
)
_LETTERS = re.compile(r"(?<![\w.:/-])[a-z]{4,6}-[a-z]{4,6}(?![\w/:.-])")
#: How far behind the words the codes may go on, characters, and how many there must be.
_CODES_REACH, _FEWEST_CODES = 600, 4


@dataclass(frozen=True, slots=True)
class CodesRule:
    """Lists of codes that open an account without its second factor."""

    name: str = "recovery-codes"
    anchors: tuple[str, ...] = (
        *("codes", "c\u00f3digos de", "\u6062\u590d", "\u5907\u7528", "\u5907\u4efd", "\u6551\u63f4"),
        *("\u30b3\u30fc\u30c9", "\ubcf5\uad6c \ucf54\ub4dc"),
    )

    def find(self, text: str, lowered: str) -> Iterator[Span]:
        """Yield the codes within 600 characters behind words such as "recovery codes", if there are at least 4.

        Codes without a digit count if they have the form of the others.
        """
        for told in _CODES.finditer(lowered):
            if told[0] == "codes" and not _CODES_OF.search(lowered, max(0, told.start() - 20), told.start()):
                continue
            codes = list(_CODE.finditer(text, told.end(), told.end() + _CODES_REACH))
            if len(codes) >= _FEWEST_CODES:
                # Of drawn codes one in thirty has no digit.
                forms = {_shape(code[0]) for code in codes}
                others = _LETTERS.finditer(text, told.end(), codes[-1].end() + 16)
                codes += [other for other in others if _shape(other[0]) in forms]
                yield from (Span(code.start(), code.end(), self.name) for code in codes)


def _shape(code: str) -> tuple[int, int]:
    """Return (a code's length, index of its first hyphen, -1 for none)."""
    return len(code), code.find("-")


LIST_RULES: tuple[Rule, ...] = (CardRule(), SeedRule(), CodesRule())
