"""Phrases in answers: one way of writing, tokens, numbers, and where one text occurs in another."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

from stressrag.text.stopwords import ENGLISH

_QUOTES = str.maketrans(
    {**dict.fromkeys("‘’‛ʼ′`´", "'"), **dict.fromkeys("“”„‟«»″", '"'), **dict.fromkeys("‐‑‒–—−", "-")}
)
_BLANKS = re.compile(r"[^\S\n]+")
_LINES = re.compile(r" ?\n\s*")
_UNITS = [
    "zero",
    "one",
    "two",
    "three",
    "four",
    "five",
    "six",
    "seven",
    "eight",
    "nine",
    "ten",
    "eleven",
    "twelve",
    "thirteen",
    "fourteen",
    "fifteen",
    "sixteen",
    "seventeen",
    "eighteen",
    "nineteen",
]
_TENS = ["twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"]
_SMALL = {word: i for i, word in enumerate(_UNITS)} | {w: 10 * i for i, w in enumerate(_TENS, 2)}
_SCALES = {"hundred": 100, "thousand": 1000, "million": 10**6, "billion": 10**9}
_ORDINALS = {
    word: f"{i}{'th' if 10 < i < 14 else {1: 'st', 2: 'nd', 3: 'rd'}.get(i, 'th')}"
    for i, word in enumerate(
        [
            "first",
            "second",
            "third",
            "fourth",
            "fifth",
            "sixth",
            "seventh",
            "eighth",
            "ninth",
            "tenth",
            "eleventh",
            "twelfth",
        ],
        1,
    )
}
_MEASURES = {
    "mm": "millimetre millimeter",
    "cm": "centimetre centimeter",
    "m": "metre meter",
    "km": "kilometre kilometer",
    "g": "gram gramme",
    "kg": "kilogram kilogramme kilo",
    "l": "litre liter",
    "min": "minute",
    "h": "hour hr",
    "yr": "year",
    "s": "sec second 2nd",  # as ordinals are written by then
    "inch": "inche",  # *in* is a preposition: 6 in the box
    "ft": "foot feet",
    "per": "a an each every",  # 18 crowns a night
}
_MEASURE = {name: short for short, names in _MEASURES.items() for name in names.split()}
_GLUED = "mm|cm|m|km|mg|kg|ml|l|min|mins|h|hrs?|am|pm|kwh|mph|ft"  # 5g and 1990s are other things
_MONTHS = [
    "january", "february", "march", "april", "may", "june", "july", "august", "september", "october",
    "november", "december",
]  # fmt: skip
_MONTH = {m: m for m in _MONTHS} | {m[:3]: m for m in _MONTHS} | {"sept": "september"}
_CJK = "\u2e80-\u9fff\uf900-\ufaff"


class Token(NamedTuple):
    """A token of a prepared text, and where it stands there."""

    text: str
    start: int
    end: int
    counted: str = ""  # how it is compared behind a number that belongs to the phrase


def prepare(text: str) -> str:
    """One way of writing: NFKC, case folded, straight quotes, plain hyphens, runs of blanks as one."""
    plain = unicodedata.normalize("NFKC", text).casefold().translate(_QUOTES)
    return _LINES.sub("\n", _BLANKS.sub(" ", plain))


@lru_cache(1)
def _pattern() -> re.Pattern[str]:
    # Combining signs belong to their word, which \w does not say.
    marks = "".join(chr(i) for i in range(0x300, 0xFFFF) if unicodedata.category(chr(i)) in ("Mn", "Mc"))
    word = rf"[^\W\d_{_CJK}]"
    return re.compile(
        r"(?P<number>\d+(?:,\d{3})+(?!\d)(?:\.\d+)?|\d+(?:\.\d+)?)"
        rf"(?P<th>st|nd|rd|th)?(?:(?![^\W_])|(?=(?:{_GLUED})(?![^\W_])))|"
        rf"(?P<dotted>(?:{word}\.){{2,}})|"
        rf"(?P<word>(?:{word}|\d)[\w{marks}]*?(?:'(?!s\b)[\w{marks}]+)*(?<!_)(?![\w{marks}])[+#]*)(?:'s\b)?|"
        rf"(?P<sign>[{_CJK}%])"
    )


def tokens(prepared: str) -> list[Token]:
    """The tokens of a prepared text; number words are written as numerals, measures behind them short.

    Words keep inner apostrophes but not a possessive *s*; signs such as C++ and C# stay whole; dotted letters
    are one word (u.s. is us); signs of scripts without spaces are a token each. *Per cent* and % are
    *percent*; behind a number *metres*, *meter* and *m* are one, and so are *days* and *day*. The day stands
    before its month: *October 7th* and *the 7th of October* are 7 october.
    """
    return list(_tokens(prepared))


@lru_cache(4096)
def _tokens(prepared: str, dated: bool = True) -> tuple[Token, ...]:
    found = _words(prepared)
    return tuple(_with_measures(_with_dates(found, prepared) if dated else found, prepared))


@lru_cache(4096)
def _words(prepared: str) -> tuple[Token, ...]:
    """The tokens as they stand there, numbers as numerals."""
    found = []
    for m in _pattern().finditer(prepared):
        if m["number"]:
            text = m["number"].replace(",", "") + (m["th"] or "")
        elif m["dotted"]:
            text = m["dotted"].replace(".", "")
        else:
            text = m["word"] or ("percent" if m["sign"] == "%" else m["sign"])
            text = _ORDINALS.get(text, text)
        found.append(Token(text, m.start(), m.end()))
    return tuple(_with_numerals(found, prepared))


_JOINED = re.compile(r"[ \t]*-?[ \t]*\Z")  # what may stand between the words of one number
_LONGEST = 15  # digits of a numeral that takes part in arithmetic


def _with_numerals(found: Sequence[Token], text: str) -> list[Token]:
    """Runs of number words as one numeral: *one hundred and forty* is 140, *twenty-four* is 24."""
    out: list[Token] = []
    i = 0
    while i < len(found):
        last, value = _number_at(found, i, text)
        if last > i:
            out.append(Token(str(value), found[i].start, found[last - 1].end))
            i = last
        else:
            out.append(found[i])
            i += 1
    return out


def _with_dates(found: Sequence[Token], text: str) -> list[Token]:
    """Day and month as two tokens in this order, both of which span the whole of *October 7th*."""
    out: list[Token] = []
    i = 0
    while i < len(found):
        width = next((n for n in (3, 2) if _is_date(found[i : i + n], n, text)), 1)
        if width > 1:
            first, last = found[i], found[i + width - 1]
            day, month = (first, last) if _day(first.text) else (last, first)
            name = _MONTH[month.text]
            out += [
                Token(_day(day.text), first.start, last.end),
                Token(name, first.start, last.end, name),
            ]
        else:
            out.append(found[i])
        i += width
    return out


def _is_date(some: Sequence[Token], n: int, text: str) -> bool:
    """Whether tokens are day and month: of two either may come first, of three the middle one is *of*."""
    if len(some) < n or not all(
        (_SHORT_JOINED if a.text in _MONTH and a.text not in _MONTHS else _DATE_JOINED).match(
            text, a.end, b.start
        )
        for a, b in pairwise(some)
    ):
        return False
    first, last = some[0].text, some[-1].text
    if n == 3:
        return some[1].text == "of" and bool(_day(first)) and last in _MONTH
    return (bool(_day(first)) and last in _MONTH) or (first in _MONTH and bool(_day(last)))


def _day(text: str) -> str:
    """The day of a month in a token, as a numeral; ``""``: it is none."""
    m = _DAY.match(text)
    return m[1] if m and 1 <= int(m[1]) <= 31 else ""


_DATE_JOINED = re.compile(r"[*_]*[ \t]*-?[ \t]*[*_]*\Z")  # **October** 7
_SHORT_JOINED = re.compile(r"\.?[*_]*[ \t]*-?[ \t]*[*_]*\Z")  # Oct. 7
_DAY = re.compile(r"(\d{1,2})(?:st|nd|rd|th)?\Z")


def _with_measures(found: Sequence[Token], text: str) -> list[Token]:
    """What is counted, in one way of writing: *per cent*, units, and nouns without a plural *s*."""
    out: list[Token] = []
    for t in found:
        last = out[-1] if out else None
        if last is None or t.counted or not _JOINED.match(text, last.end, t.start):
            out.append(t)
        elif (last.text, t.text) == ("per", "cent"):
            out[-1] = Token("percent", last.start, t.end)
        elif NUMERAL.match(last.text):
            one = _PLURAL.sub("", t.text)
            out.append(t._replace(counted=_MEASURE.get(one, one)))
        elif last.counted and _MEASURE.get(t.text) == "per":
            out.append(t._replace(counted="per"))
        else:
            out.append(t)
    return out


NUMERAL = re.compile(r"\d+(?:\.\d+)?\Z")
_PLURAL = re.compile(r"(?<=[^\W\d_]{2})(?<![siu])s\Z")


def _number_at(found: Sequence[Token], i: int, text: str) -> tuple[int, int]:
    """The end of the run of number words that begins at a token, and its value; ``i`` itself: there is none.

    Parts must be joined by a space or hyphen, and get smaller: *two thousand and nineteen* is one number,
    *twenty. Five* and *one million two million* are two.
    """
    total = current = 0
    last = settled = j = i
    room, scale_room = 10**12, 10**12  # what the next part, the next scale must lie below
    while j < len(found):
        if j > i and not _JOINED.match(text, found[j - 1].end, found[j].start):
            break
        word = found[j].text
        if j == i and word.isdecimal() and len(word) <= _LONGEST and _scale_follows(found, j, text):
            current, room = int(word), 0  # 3 million
        elif word in _SMALL and _SMALL[word] < room and (room != 10 or _SMALL[word] > 0):
            current += _SMALL[word]
            room = 10 if _SMALL[word] >= 20 else 0
        elif word == "hundred" and (0 < current < 100 or (j == i + 1 and j > last)):
            current, room = (current or 1) * 100, 100
        elif word in _SCALES and word != "hundred" and (current or (j == i + 1 and j > last)):
            if _SCALES[word] >= scale_room:  # the words before it begin another number
                return settled, total
            total, current, scale_room = total + (current or 1) * _SCALES[word], 0, _SCALES[word]
            room, settled = _SCALES[word], j + 1
        elif (word == "and" and j > i and found[j - 1].text in _SCALES) or (word == "a" and j == i):
            j += 1
            continue
        else:
            break
        j += 1
        last = j
    return last, total + current


def _scale_follows(found: Sequence[Token], i: int, text: str) -> bool:
    """Whether a scale word stands right behind a numeral."""
    if i + 1 >= len(found) or found[i + 1].text not in _SCALES:
        return False
    return bool(_JOINED.match(text, found[i].end, found[i + 1].start))


def phrase(text: str) -> tuple[str, ...]:
    """The tokens of a target or reference, without a leading article where anything else is left."""
    words = [t.counted or t.text for t in tokens(prepare(text))]
    if len(words) > 1 and words[0] in ("a", "an", "the") and not set(words[1:]) <= ENGLISH:
        words = words[1:]
    return tuple(words)


def is_bare_number(prepared: str, wanted: Sequence[str]) -> bool:
    """Whether a whole text is the number of a phrase such as *70 crowns*, whose unit goes without saying.

    So it does in *18 crowns a night*, and not in *7 October*; *-70* and *70?* say another thing.
    """
    if len(wanted) < 2 or not NUMERAL.match(wanted[0]) or wanted[1] in _MONTH:
        return False
    if not (
        len(wanted) == 2 or wanted[2] == "per" or (len(wanted) == 3 and wanted[1] in ("square", "cubic"))
    ):
        return False
    if _OTHER_NUMBER.search(prepared):
        return False
    return [t.text for t in _tokens(prepared)] == [wanted[0]]


_OTHER_NUMBER = re.compile(r"\?\W*\Z|-\d")


def _has_date(wanted: Sequence[str]) -> bool:
    return any(b in _MONTHS and _day(a) for a, b in pairwise(wanted))


def occurrences(prepared: str, wanted: Sequence[str]) -> list[tuple[int, int]]:
    """Where a phrase stands in a prepared text, as whole tokens: pairs of start and end.

    Dates are read as such only where the phrase holds one: in *chapter 2 may be*, *Theresa May first* and
    *in May 10 people died* there is none.
    """
    if not wanted:
        return []
    plain = [] if _has_date(wanted) else _found(_tokens(prepared, dated=False), wanted)
    return plain or _found(_tokens(prepared), wanted)


def _found(there: Sequence[Token], wanted: Sequence[str]) -> list[tuple[int, int]]:
    n, first = len(wanted), wanted[0]
    return [
        (there[i].start, there[i + n - 1].end)
        for i in range(len(there) - n + 1)
        if there[i].text == first
        and all(wanted[j] in (there[i + j].counted, there[i + j].text) for j in range(1, n))
    ]
