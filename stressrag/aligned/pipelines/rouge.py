"""ROUGE-L of two texts: an F measure of their longest common subsequence of words.

After *ROUGE: A Package for Automatic Evaluation of Summaries* (Lin 2004, section 3), with equal weight of
precision and recall. Words are runs of letters and digits of any script, case-folded. TrustRAG's code
uses the package rouge-score, which stems English words and drops all other scripts; near a threshold the
two differ.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from stressrag.text.tokens import unicode_tokens


def rouge_l(first: str, second: str) -> float:
    """ROUGE-L of two texts, 0 to 1, whichever comes first; 0 where one has no word."""
    return rouge_l_of(unicode_tokens(first), unicode_tokens(second))


def rouge_l_of(a: Sequence[Hashable], b: Sequence[Hashable]) -> float:
    """The same of two sequences: ``2 PR / (P + R)`` is twice the subsequence over both lengths."""
    return 2 * common_subsequence(a, b) / (len(a) + len(b)) if a and b else 0.0


def common_subsequence(a: Sequence[Hashable], b: Sequence[Hashable]) -> int:
    """Length of the longest common subsequence.

    A row of the usual table as bits of one integer (Hyyrö 2004, *Bit-parallel LCS-length computation
    revisited*): passages of thousands of words take milliseconds.
    """
    places: dict[Hashable, int] = {}
    for i, item in enumerate(a):
        places[item] = places.get(item, 0) | 1 << i
    full = (1 << len(a)) - 1
    row = full
    for item in b:
        met = row & places.get(item, 0)
        row = ((row + met) | (row - met)) & full
    return len(a) - row.bit_count()
