"""Where in a sentence an answer of some kind could stand: numbers with units, names, places, dates."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

_ONES = (
    "one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|thirteen|fourteen|fifteen|sixteen|seventeen|"
    "eighteen|nineteen|twenty|thirty|forty|fifty|sixty|seventy|eighty|ninety|hundred|thousand|million|dozen|half"
)
_NUMBER = (
    rf"(?:(?:\d{{1,3}}(?:,\d{{3}})+|\d+)(?:\.\d+)?(?:\s(?:hundred|thousand|million|billion))?(?![\d:.,]*\d)|"
    rf"(?:a\s)?\b(?:{_ONES})(?:(?:[\s-]|\sand\s(?:a\s)?)(?:{_ONES})){{0,9}}\b)"
)
_MONEY = r"crowns?|dollars?|euros?|pounds?|cents?|pence|francs?|yen|rupees?|rubles?|yuan|pesos?|kr|[$€£¥]"
_MONTHS = "January|February|March|April|May|June|July|August|September|October|November|December"
_DAYS = "Mondays?|Tuesdays?|Wednesdays?|Thursdays?|Fridays?|Saturdays?|Sundays?"
_UNITS = {
    "duration": r"seconds?|minutes?|mins?|hours?|hrs?|days?|nights?|weeks?|fortnights?|months?|quarters?|"
    r"years?|decades?|centuries",
    "price": _MONEY,
    "length": r"mm|cm|km|m|(?:milli|centi|kilo)?met(?:re|er)s?|miles?|feet|foot|ft|inch(?:es)?|yards?|"
    r"fathoms?|cables?",
    "mass": r"kg|g|t|kilos?|kilograms?|grams?|tonnes?|tons?|pounds?|lbs?|stone",
    "temperature": r"degrees?(?:\s[CF]\b|\s(?:Celsius|Fahrenheit))?|°\s?[CF]",
    "speed": r"knots?|km/h|mph|m/s|(?:(?:kilo)?met(?:re|er)s?|miles?)\s(?:an?|per)\s(?:second|hour)",
    "percentage": r"per\s?cent|%",
}
_EXTRA = r"(?:\s(?:an?|per|each)\s[a-z]+(?:-[a-z]+)?)?"
_SMALL_NAME = r"(?:\s(?:of|the|de|von|van|and|&)(?:\sthe)?)?\s"
_NAME = rf"[A-Z][\w'’-]*(?:{_SMALL_NAME}[A-Z][\w'’-]*)*"
_OTHER: dict[str, str] = {
    "ratio": rf"{_NUMBER}\s(?:in|to|out\sof)\s{_NUMBER}|\b\d+:\d+\b(?!\s?(?:am|pm))",
    "time": r"\b\d{1,2}[:.]\d{2}\b(?:\s?(?:am|pm))?|\b\d{1,2}\s?(?:am|pm|o['’]clock)|\b(?:noon|midnight)\b",
    "quantity": rf"{_NUMBER}(?:[\s-](?!(?:and|or|of|in|at|to|on|is|are|was|were)\b)[^\W\d_][\w-]*)?",
    "date": rf"(?:the\s)?(?:\b(?:first|second|third|fourth|last)\s)?\b(?:{_DAYS})\b|"
    rf"\b(?:\d{{1,2}}(?:st|nd|rd|th)?\s)?(?:{_MONTHS})\b(?:\s\d{{1,2}}\b)?(?:,?\s\d{{4}}\b)?|\b(?:1[0-9]|20)\d\d\b",
    "person": rf"(?:(?:Mr|Mrs|Ms|Miss|Dr|Captain|Capt|Sir|Lady|Prof)\.?\s)?{_NAME}",
    "name": rf"[\"“]([^\"”\n]{{2,60}})[\"”]|"
    rf"\b(?:number\s)?\d{{3,}}\b|"
    rf"\b[A-Z]{{2,}}(?:[-&][A-Z]+)*\b|{_NAME}",
    "place": r"\b(?:in|on|at|by|behind|under|inside|opposite|beside|near|above|below|over|from|to|off)"
    rf"\s(?:the\s|a\s|an\s|its\s|her\s|his\s)?[^,.;:!?]{{2,60}}|{_NAME}",
}


class Span(NamedTuple):
    """A candidate and where it begins and ends in its sentence."""

    text: str
    start: int
    end: int


@lru_cache(64)
def _pattern(kind: str) -> re.Pattern[str]:
    if kind == "price":
        units = f"(?:[$€£¥]\\s?{_NUMBER}|{_NUMBER}[\\s-]?(?:{_MONEY})\\b{_EXTRA})"
    elif kind in _UNITS:
        units = rf"{_NUMBER}(?:[\s-]|\s[a-z]+\s)?(?:{_UNITS[kind]})(?!\w)"
    else:
        return re.compile(_OTHER[kind])
    return re.compile(units, re.IGNORECASE)


def spans(sentence: str, kind: str) -> Iterator[Span]:
    """The candidates of a kind in a sentence, from left to right."""
    if kind not in _UNITS and kind not in _OTHER:
        return
    for m in _pattern(kind).finditer(sentence):
        inner = next((i for i, g in enumerate(m.groups(), 1) if g), 0)
        text = m[inner].strip(" ,;")
        if text:
            yield Span(text, m.start(inner), m.start(inner) + len(text))


_LONGEST = 1000
_ENDS = re.compile(r"(?<=[.!?])[\"'”’)\]]*\s+|\n+")
_SHORT = re.compile(r"(?:\b(?:Mr|Mrs|Ms|Dr|St|No|Jr|Sr|Prof|Capt|etc|e\.g|i\.e|approx|vs)|(?:^|\s)[A-Z])\.\Z")


@lru_cache(4096)
def sentences(text: str) -> tuple[str, ...]:
    """The sentences of a text as written; line breaks end one, shortened words and initials do not.

    What goes on for more than a thousand characters is cut: it is no sentence, and would take long.
    """
    out: list[str] = []
    for piece in _ENDS.split(text):
        if out and _SHORT.search(out[-1]):
            out[-1] += " " + piece
        else:
            piece = piece.strip()
            out += [piece[i : i + _LONGEST] for i in range(0, len(piece), _LONGEST)]
    return tuple(out)
