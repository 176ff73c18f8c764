"""What counts as a keyword of a short reply: models from a text to its phrases.

=================  ======================================================================================
spacy              runs of content words by part of speech, as lemmas (spaCy's ``en_core_web_sm``)
stopword_phrases   a substitute without a model: runs of words between stop words and punctuation
=================  ======================================================================================
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import lru_cache
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from typing import Any

from stressrag.errors import StressragError, nearest
from stressrag.plugins import call_theirs, import_target
from stressrag.text.stopwords import ENGLISH

PhraseModel = Callable[[str], Iterable[str]]
SPACY_MODEL = "en_core_web_sm"
SPACY = "spacy:"
"""What the name of the default model begins with in records."""
SUBSTITUTE = "stopword_phrases"
# Parts of speech that end a run, as RobustRAG's code has them.
_ENDS = frozenset(
    "VERB INTJ ADP AUX CCONJ DET PART PRON SCONJ PUNCT SPACE".split()  # noqa: SIM905
)
# A word may hold signs inside (O'Hara, 15.50, AC/DC) and a currency or percent sign at its ends.
_WORD = re.compile(r"[$£€¥#]?[^\W_]+(?:['’.,:/&+-][^\W_]+)*[%+#]*")


def stopword_phrases(text: str) -> list[str]:
    """Runs of words between stop words and punctuation, and the words of the runs.

    The substitute for the part-of-speech rule. Unlike there, words keep their form and their case, and verbs
    that are no stop words stay in a run.
    """
    runs: list[list[str]] = [[]]
    end = 0
    for word in _WORD.finditer(text):
        if text[end : word.start()].strip():
            runs.append([])
        if word.group().casefold() in ENGLISH:
            runs.append([])
        else:
            runs[-1].append(word.group())
        end = word.end()
    return [phrase for run in runs if run for phrase in (" ".join(run), *run)]


def content_phrases(words: Iterable[Any]) -> list[str]:
    """Runs of content words as lemmas, and the lemmas of the runs, of spaCy's tokens.

    The rule of RobustRAG's released code (Xiang et al., arXiv 2405.15556).
    """
    runs: list[list[Any]] = [[]]
    for word in words:
        if word.pos_ in _ENDS:
            runs.append([])
        else:
            runs[-1].append(word)
    found = []
    for run in runs:
        if run:
            found.append("".join(w.lemma_ + w.whitespace_ for w in run).strip())
            found += [w.lemma_ for w in run]
    return found


@lru_cache(1)
def _spacy() -> Any:
    # Neither lemma nor part of speech needs these two.
    return import_module("spacy").load(SPACY_MODEL, disable=["parser", "ner"])


def _spacy_phrases(text: str) -> list[str]:
    return content_phrases(_spacy()(text))


def _spacy_name() -> str:
    """With the version, which decides what is a noun."""
    try:
        return f"{SPACY}{SPACY_MODEL} {version(SPACY_MODEL)}"
    except PackageNotFoundError:
        return f"{SPACY}{SPACY_MODEL}"


def has_spacy() -> bool:
    """Whether spaCy and its English model are installed."""
    return find_spec("spacy") is not None and find_spec(SPACY_MODEL) is not None


def get_phrase_model(name: str | PhraseModel) -> tuple[str, PhraseModel]:
    """A phrase model and its name for records.

    Parameters
    ----------
    name : str or callable
        ``auto`` (``spacy`` where it is installed, else the substitute), ``spacy``, ``stopword_phrases``,
        ``package.module:function``, or a function from a text to phrases.

    Raises
    ------
    StressragError
        For an unknown name, and for ``spacy`` where it or its model is missing.
    """
    if callable(name):
        named = getattr(name, "__qualname__", type(name).__qualname__)
        return f"{getattr(name, '__module__', '')}:{named}", _theirs(named, name)
    if name == "auto":
        name = "spacy" if has_spacy() else SUBSTITUTE
    if name == SUBSTITUTE:
        return name, stopword_phrases
    if name == "spacy":
        if not has_spacy():
            raise StressragError(
                f"phrase model 'spacy' needs spaCy and {SPACY_MODEL}: pip install spacy, then "
                f"python -m spacy download {SPACY_MODEL}; or choose {SUBSTITUTE}, which needs neither"
            )
        return _spacy_name(), _spacy_phrases
    if ":" in name:
        model = import_target(name, "phrase model")
        if not callable(model):
            raise StressragError(f"phrase model target {name!r} is {type(model).__name__}, not a function")
        return name, _theirs(name, model)
    raise StressragError(f"no phrase model {name!r}; {nearest(name, ('auto', 'spacy', SUBSTITUTE))}")


def _theirs(name: str, model: PhraseModel) -> PhraseModel:
    def phrases(text: str) -> list[str]:
        made = call_theirs(f"phrase model {name!r}", lambda: list(model(text)))
        if not all(isinstance(phrase, str) for phrase in made):
            raise StressragError(f"phrase model {name!r} gave something that is no text")
        return made

    return phrases
