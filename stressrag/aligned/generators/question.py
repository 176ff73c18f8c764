"""What a question asks for: the kind of its answer, and the terms that a passage with it should hold."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from stressrag.aligned.conclusion import is_polar
from stressrag.aligned.phrases import prepare, tokens
from stressrag.text.stopwords import ENGLISH

# The first that fits decides; a question has often several sentences, so the marks may stand anywhere.
_ASKS = r"(?:is|are|was|were|do|does|did|will|would|can|could|may|must|should|has|have|had)"
_UNITS_OF_TIME = r"(?:second|minute|hour|day|night|week|month|year)s?"
_THINGS_WITH_NAMES = (
    r"(?:ship|vessel|boat|steamer|ferry|company|contractor|firm|town|city|village|island|country|port|harbou?r|"
    r"band|author|newspaper|film|book|song|organi[sz]ation|school|bank|club|team|river)s?"
)
_KINDS: tuple[tuple[str, str], ...] = (
    ("person", r"\bwho(?:m|se)?\b(?=[^.?]*\?)"),
    (
        "cause",
        r"\bwhy\b|\bcause\b|\breason\b|\b(?:what|which) (?:\w+ )?(?:fault|defect|caused|made)\b|\bwhat had\b",
    ),
    (
        "percentage",
        r"\b(?:what|which|how many) (?:\w+ )?"
        r"(?:per ?cent|percentage|reduction|discount|rebate|share|proportion|interest)\b|"
        r"\bhow (?:large|big|high|much)\b[^.?]*\b(?:reduction|discount|rebate|share|proportion|interest)\b|"
        r"\bby how much\b[^.?]*\b(?:raised?|cut|lower(?:ed)?|reduced?|rise|rose|increased?|fall|fell)\b",
    ),
    (
        "price",
        r"\b(?:what|how much|how many)\b[^.?;]*\b(?:costs?|price|charged?|charges|fares?|fees?|pays?|paid|"
        r"fined?|deposit|supplement|worth|compensation|liable|refund(?:ed)?|crowns|dollars|euros|pounds)\b",
    ),
    ("ratio", r"\bhow steep\b|\bgradient\b|\bratio\b"),
    (
        "duration",
        r"\bhow (?:long|soon|often)\b|\b(?:how many|after how many|within how many|what) (?:\w+ )?"
        rf"{_UNITS_OF_TIME}\b|\bfor how long\b|\bhow much (?:\w+ )?time\b|\bhow far on foot\b|"
        r"\bhow much (?:notice|warning|longer)\b|\b(?:what|which) (?:\w+ )?(?:duration|interval|notice)\b",
    ),
    (
        "length",
        r"\bhow (?:wide|high|tall|deep|thick|broad|far|low)\b|"
        r"\b(?:what|which) (?:\w+ )?(?:length|width|height|depth|distance|draught)\b",
    ),
    ("mass", r"\bhow heavy\b|\b(?:what|which|how much) (?:\w+ )?(?:weight|load|mass)\b|\bweigh\b"),
    ("temperature", r"\btemperature\b|\bhow (?:hot|cold|warm)\b"),
    ("speed", r"\bhow fast\b|\b(?:what|which) (?:\w+ )?speed\b"),
    ("time", r"\b(?:what|which) (?:time|hour)\b|\bo'clock\b"),
    (
        "date",
        rf"(?:^|[,;:.] )(?:and |but |since |until |till |by |from )?when {_ASKS}\b|"
        r"\b(?:what|which) (?:\w+ )?(?:date|day|weekday|month|year)\b",
    ),
    ("price", rf"\bhow much {_ASKS}\b|\b(?:what|which) (?:\w+ )?sum\b|\bhow (?:dear|expensive)\b"),
    ("name", r"\b(?:what|which|under) (?:\w+ )?number\b"),
    (
        "quantity",
        r"\bhow (?:many|much|large|big|strong|old|powerful)\b|"
        r"\b(?:what|which|is|are) (?:\w+ )?"
        r"(?:amount|size|maximum|minimum|limit|quantity|largest|smallest|most)\b",
    ),
    ("place", r"(?:^|[,;:.] )(?:and |but )?where\b"),
    (
        "name",
        r"\b(?:called|named|titled|engraved|written|inscription|password|word|inscribed)\b|"
        rf"\b(?:which|what) (?:\w+ )?{_THINGS_WITH_NAMES}\b",
    ),
)
_PATTERNS = tuple((kind, re.compile(pattern)) for kind, pattern in _KINDS)
NUMERIC = frozenset(
    ("percentage", "ratio", "length", "mass", "temperature", "speed", "time", "duration", "price", "quantity")
)
_ASKING = frozenset(
    "many much long often far soon large big wide high heavy tell know please called name".split()  # noqa: SIM905
)
_ENDINGS = (
    "ations",
    "ation",
    "ments",
    "ment",
    "ingly",
    "edly",
    "ings",
    "ing",
    "ies",
    "ied",
    "ers",
    "ed",
    "er",
)
_SHORT_ENDINGS = ("es", "ly", "s", "e", "y")


@dataclass(frozen=True)
class Question:
    """A question, read.

    Attributes
    ----------
    kind : str
        ``yes-no``, ``cause``, one of :data:`NUMERIC`, ``date``, ``person``, ``place``, ``name`` or
        ``phrase``.
    terms : dict of str to float
        Its stems with weights: longer words weigh more.
    words : frozenset of str
        All its tokens.
    head : str
        The stem of what is counted, after *how many* or *what*; ``""`` for none.
    """

    kind: str
    terms: dict[str, float]
    words: frozenset[str]
    head: str


@lru_cache(4096)
def read_question(text: str) -> Question:
    """Kind, terms and head of a question."""
    asked = prepare(text)
    last = re.split(r"(?<=[.!;:])\s+", asked.strip())[-1]
    kind = "yes-no" if is_polar(last) else _kind(last) or _kind(asked) or "phrase"
    head = re.search(
        rf"\b(?:how (?:many|much)|(?:what|which)(?: (?:kind|sort|type|number) of)?) (?!{_ASKS}\b)(\w+)", last
    )
    terms = {}
    for word in (t.text for t in tokens(asked)):
        if word not in ENGLISH and word not in _ASKING and len(word) > 1:
            # Long words are rare words, about.
            terms[stem(word)] = 0.4 + 0.1 * min(len(word), 8)
    return Question(kind, terms, frozenset(t.text for t in tokens(asked)), stem(head[1]) if head else "")


def _kind(asked: str) -> str:
    return next((kind for kind, pattern in _PATTERNS if pattern.search(asked)), "")


@lru_cache(65536)
def stem(word: str) -> str:
    """A word without its commonest endings, so that *sailing*, *sails* and *sailed* are one."""
    for ending in _ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= 4:
            return _undoubled(word[: -len(ending)])
    for ending in _SHORT_ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= 3 and not word.endswith("ss"):
            return _undoubled(word[: -len(ending)])
    return word


def _undoubled(word: str) -> str:
    return word[:-1] if len(word) > 3 and word[-1] == word[-2] and word[-1] not in "aeiouls" else word
