"""Eligible terms of a query: what an attacker with partial knowledge may know."""

from __future__ import annotations

import re
from collections.abc import Container

from stressrag.text.stopwords import ENGLISH
from stressrag.text.tokens import Tokenizer, unicode_tokens

MIN_LENGTH = 3
LONG_QUERY = 8
"""A query is long when it has at least this many eligible terms (retrieval paper, "long queries")."""

_ASCII_WORDS = re.compile(r"[a-z0-9]+")


def ascii_words(text: str) -> list[str]:
    """Lower-case ASCII alphanumeric runs of any length."""
    return _ASCII_WORDS.findall(text.lower())


def eligible_terms(
    query: str, vocabulary: Container[str], tokenizer: Tokenizer = unicode_tokens
) -> list[str]:
    """Unique content terms of a query, in its order (retrieval paper, Methodology).

    A term is eligible when it has at least three characters, is no English stop word and occurs in the
    clean corpus.

    Parameters
    ----------
    query : str
        The query's text.
    vocabulary : container of str
        Terms of the clean corpus.
    tokenizer : callable
        How the query is cut.
    """
    return [
        t
        for t in dict.fromkeys(tokenizer(query))
        if len(t) >= MIN_LENGTH and t not in ENGLISH and t in vocabulary
    ]
