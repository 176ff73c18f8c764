"""Tokenisers: functions from a text to its list of tokens, known by name in configs."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable
from functools import lru_cache

from stressrag.errors import StressragError, nearest
from stressrag.plugins import call_theirs, import_target

Tokenizer = Callable[[str], list[str]]

_ASCII_RUN = re.compile(r"[a-z0-9]{2,}")
_WORD = re.compile(r"[^\W_]+")


@lru_cache(maxsize=1)
def _marks() -> tuple[frozenset[str], re.Pattern[str]]:
    """Combining marks, and the pattern of words that hold some.

    ``\\w`` leaves marks out, which would cut Devanagari or vocalised Arabic words in pieces, and ``re``
    has no ``\\p{M}``; so the marks are listed once, when non-ASCII text is first met.
    """
    marks = [chr(c) for c in range(0x300, 0x20000) if unicodedata.category(chr(c)).startswith("M")]
    inside = "".join(map(re.escape, marks))
    return frozenset(marks), re.compile(rf"[^\W_](?:[^\W_]|[{inside}])*")


def unicode_tokens(text: str) -> list[str]:
    """Runs of letters and digits of any script, NFKC-normalised and case-folded; one-letter runs stay.

    ``"IL-2 étude"`` gives ``["il", "2", "étude"]``. Scripts without spaces (Chinese, Thai) come out as
    whole runs: bring a tokeniser of your own for them (``bm25.tokenizer=package.module:function``).
    """
    if text.isascii():
        return _WORD.findall(text.lower())
    text = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())
    marks, marked_word = _marks()
    # The long character class costs 30 times the short one, and few texts need it.
    return (_WORD if marks.isdisjoint(text) else marked_word).findall(text)


def ascii_tokens(text: str) -> list[str]:
    """Lower-case runs of ``[a-z0-9]`` of two characters or more: the retrieval paper's rule."""
    return _ASCII_RUN.findall(text.lower())


TOKENIZERS: dict[str, Tokenizer] = {"unicode": unicode_tokens, "ascii": ascii_tokens}


def get_tokenizer(name: str) -> Tokenizer:
    """The tokeniser of that name, or the function at an import path ``package.module:function``."""
    if name in TOKENIZERS:
        return TOKENIZERS[name]
    if ":" in name:
        tokenizer = import_target(name, "tokenizer")
        if not callable(tokenizer) or not isinstance(
            call_theirs(f"tokenizer {name!r}", tokenizer, "a b"), list
        ):
            raise StressragError(f"tokenizer {name!r} is no function from a text to a list of tokens")
        return tokenizer
    raise StressragError(f"unknown tokenizer {name!r}: {nearest(name, TOKENIZERS)}")
