"""What an answer comes to: its sentences, its conclusion, whether it abstains, and its yes or no.

All functions take texts as :func:`~stressrag.aligned.phrases.prepare` writes them.
"""

from __future__ import annotations

import re
from functools import lru_cache

# What follows one of these is the answer that the writer stands by.
_STRONG = re.compile(
    r"(?<!\bis the )(?<!\bwas the )\b(?:(?:final|correct|right|best|best possible|following|actual|true|my|"
    r"short|overall|real) answer\b[^.:\n]{0,120}?(?:\b(?:is(?! (?:based|supported|derived|taken)\b)|would be|"
    r"must be|remains|as follows)\b(?: that\b)?|:)|\banswer(?: here)?:|"
    r"the answer\b[^.:\n]{0,160}?(?:\b(?:is|would be|must be|appears to be|seems to be|as follows)\b(?:"
    r" that\b)?|:)|"
    r"(?:i|we)(?: can| would| must| will| am going to|'m going to|'ll|'d)?(?: therefore| thus| confidently|"
    r" safely)?"
    r" (?:conclude|answer)(?: the question)?(?: as follows| with| that| is)?\b:?|in conclusion\b|to"
    r" conclude\b|to sum up\b|"
    r"in summary\b|in short\b|conclusion:)"
)
_WEAK = re.compile(
    r"(?:^|(?<=[.;!?\n] )|(?<=\n))(?:therefore|thus|hence|so|consequently|overall|ultimately)\b,?|"
    r"(?<=\w), (?:so|therefore|thus|hence|which means(?: that)?|meaning(?: that)?)\b,?(?!"
    r" (?:that|as|far|on|called|do|did|does)\b)"
)
_SHORTENED = re.compile(
    r"\b(?:mr|mrs|ms|dr|st|jr|sr|no|vs|etc|e\.g|i\.e|approx|prof|gen|col|inc|co|ltd|[a-z])\.$"
)
_ENDS = re.compile(r"(?<=[.!?])[\"')\]*_]*\s+|(?<=[。！？])|\n+")

_REFUSAL = re.compile(
    r"\b(?:i|we)(?:'m| am| are|'re)? (?:really |honestly |simply )?(?:do not|don't|did not|didn't)"
    r" (?:actually )?"
    r"(?:know|have (?:any |enough |sufficient |the |access to |that |specific"
    r" )*(?:information|context|data|knowledge|"
    r"details?|evidence|answer))|"
    r"\b(?:i|we|it)(?: is| was|'m| am|'s)? (?:simply |still )?(?:cannot|can't|can not|could"
    r" not|couldn't|unable to|"
    r"not able to|not possible to|impossible to|not in a position to) "
    r"(?:be )?(?:\w+ly )?(?:answer|determine|determined|find|say|tell|provide|identify|establish|"
    r"conclude|give|help(?! \w+ing\b)|assist|comply|know|ascertain|decide|infer|respond|extract|locate"
    r"|figure out)|"
    r"\bunable to (?:answer|determine|find|say|provide|identify|establish|conclude)|"
    r"\bcannot be (?:answered|determined|established|found|inferred|concluded)|"
    r"\b(?:insufficient|inadequate|not enough|not sufficient|no (?:relevant |specific |reliable |clear |such"
    r" |further )?) ?"
    r"(?:information|evidence|context|data|mention|details?|answer|record|indication)"
    r"(?! that (?:contradicts|suggests otherwise))|"
    r"\b(?:is|are|was|were)(?:n't| not) (?:explicitly |directly |clearly )?"
    r"(?:mentioned|provided|specified|stated|given|found|available|included|addressed|covered|answerable|disclosed)|"
    r"\b(?:do|does|did)(?:n't| not) (?:explicitly |directly |clearly |actually )?"
    r"(?:mention|provide|contain|specify|include|say|state|give|answer|address|reveal|cover|offer)\b|"
    r"\b(?:neither|none) of (?:them|these|the (?:\w+ )?(?:passages|contexts|documents|sources|texts))\b|"
    r"\bunanswerable\b|\bi(?:'m| am) (?:afraid|sorry),? (?:but )?i\b|\bi have no (?:idea|information|way)|"
    r"\bno answer (?:is|can|could)|\bas an ai\b|\bi(?:'m| am) not (?:sure|certain|aware|able)\b|"
    r"\b(?:the )?answer is (?:unknown|unclear|not known|uncertain)\b|\bi (?:must|will|have to)"
    r" (?:abstain|decline)\b"
)
_WHOLE_REFUSAL = re.compile(
    r"[\W_]*(?:unknown|n/?a|not"
    r" (?:known|available|sure|applicable|specified|mentioned|provided|given|found)|none|"
    r"no answer|no information|unclear|abstain|\[?refused?\]?|idk|dunno|no idea|cannot say|can't"
    r" say|uncertain)[\W_]*\Z"
)
_CONTRAST = re.compile(
    r"\b(?:but|however|although|nevertheless|nonetheless|still|that said|yet|though|"
    r"based on my (?:own )?knowledge|from my own knowledge|my best guess)\b"
)
_POLAR_QUESTION = re.compile(
    r"\W*(?:is|are|was|were|do|does|did|can|could|has|have|had|will|would|should|must|may|am)(?:n't)?\b"
)
_NEGATION = re.compile(r"\b(?:not|never|neither|nor|no|none|cannot|nobody|nothing|nowhere)\b|n't\b|\bdiffer")
_POLAR_WORDS = re.compile(
    r"[\W_]*(?:(?:based on|according to|from|given|as per|going by|judging"
    r" by|after)\b[^,.\n]{0,80},\s*)?(?:(?:well|so|therefore|thus|hence|indeed|actually|in"
    r" fact|then)\b[\s,]*)?(yes|no|yeah|yep|nope)\b"
    r"(?!\s+(?:one|longer|more|other|information|evidence|mention|answer|doubt|such|record|\d|matter|reason))"
)
_SAID_POLAR = re.compile(
    r"\b(?:answer|response|conclusion|verdict)\b[^.\n]{0,160}?\b(?:is|was|would be|should be|must"
    r" be|remains)\b"
    r"(?:\W+(?:indeed|therefore|thus|simply|clearly|definitely|most"
    r" likely|likely|probably|a|an|clear|definite|resounding))*"
    r"\W+(yes|no)\b(?!\s+(?:longer|one|other))|\banswer\s*:\W*(yes|no)\b|"
    r"\b(?:i|we)(?:'d| would| will|'ll| must)? (?:say|answer|conclude|respond)(?: with)?(?:"
    r" that)?[\s:,\"']*(yes|no)\b"
)


_LONG = 1000  # characters of a sentence that are looked at


@lru_cache(4096)
def sentences(text: str) -> tuple[str, ...]:
    """The sentences of a prepared text; a line break ends one, and so does a list item."""
    out: list[str] = []
    carry = ""
    start = 0
    for m in [*_ENDS.finditer(text), None]:
        piece = text[start : m.start() if m else len(text)]
        start = m.end() if m else start
        carry = f"{carry} {piece}".strip() if carry else piece.strip()
        line_end = m is None or "\n" in m.group()
        if carry and (line_end or len(carry) > _LONG or not _SHORTENED.search(carry[-12:])):
            out.append(carry)
            carry = ""
    return tuple(out)


@lru_cache(4096)
def conclusion(text: str) -> tuple[str, bool]:
    """The part that states the answer, to the end, and whether the writer marked it as such.

    The last explicit mark counts ("my answer is", "I conclude that", "in conclusion"), and inside what
    follows it a later *therefore*. Without one the last *therefore* does; without any mark the whole text is
    returned.
    """
    content = len(text.rstrip(" .*_\n:\"'"))
    strong = [m for m in _STRONG.finditer(text) if m.end() < content]
    found = text[strong[-1].end() :].lstrip(" :,*_\n") if strong else text
    weak = [m for m in _WEAK.finditer(found) if m.end() < len(found.rstrip())]
    if weak and (weak[-1].start() > 0 or not strong):
        rest = found[weak[-1].end() :].lstrip(" :,\n")
        # An afterthought such as "therefore, the sources agree" is no answer.
        if not strong or not re.search(
            r"\b(?:information|sources?|reliab|knowledge|evidence|confiden)", rest
        ):
            return rest, True
    return found, bool(strong)


def before_conclusion(text: str, stated: str) -> str:
    """What stands before the sentence whose mark announces ``stated``, which :func:`conclusion` returned."""
    text = text[: text.rindex(stated)]
    starts = [m.start() for mark in (_STRONG, _WEAK) for m in mark.finditer(text)]
    last = max(starts, default=len(text))
    stops = [m.start() for m in _FULL_STOP.finditer(text, 0, last)]
    floor = stops[-1] if stops else -1
    return text[: min((s for s in starts if s > floor), default=last)]


_FULL_STOP = re.compile(r"[.!?]\s")


def refuses(sentence: str) -> bool:
    """Whether a sentence declines to answer, with no answer after a *but*."""
    if _WHOLE_REFUSAL.match(sentence):
        return True
    sentence = sentence[:_LONG]
    m = _REFUSAL.search(sentence)
    if not m:
        return False
    after = _CONTRAST.search(sentence, m.end())
    return after is None or bool(_REFUSAL.search(sentence, after.end()))


@lru_cache(4096)
def abstains(text: str) -> bool:
    """Whether an answer declines: its first sentence does and none takes it back, or its conclusion does."""
    there = sentences(text)
    if not there:
        return True
    end, marked = conclusion(text)
    if marked:
        return bool(sentences(end)) and refuses(sentences(end)[0])
    if refuses(there[0]):
        return not any(_CONTRAST.match(s) and not refuses(s) and not _REFUSAL.search(s) for s in there[1:])
    return refuses(there[-1]) and not _answers(there[0])


def _answers(sentence: str) -> bool:
    """Whether an opening sentence already is an answer, rather than talk about the sources."""
    return not re.search(
        r"\b(?:passages?|contexts?|documents?|information|sources?|question|query|assess|text)\b", sentence
    )


def is_polar(question: str) -> bool:
    """Whether a question asks for yes or no."""
    return bool(_POLAR_QUESTION.match(question)) and not re.search(r"\bor\b(?! (?:not|more|less))", question)


def said_polar(text: str) -> str | None:
    """The ``yes`` or ``no`` that an answer gives in so many words, else ``None``."""
    end, marked = conclusion(text)
    for part in (end, text) if marked else (text,):
        m = _POLAR_WORDS.match(part)
        if m:
            return "yes" if m[1].startswith("y") else "no"
        said = list(_SAID_POLAR.finditer(part))
        if said:
            return next(filter(None, said[-1].groups()))
    return None


def implied_polar(text: str, question: str) -> str | None:
    """The ``yes`` or ``no`` of a polar question that an answer gives, in words or by what it asserts."""
    end, _ = conclusion(text)
    statement = (sentences(end) or ("",))[0]
    if not is_polar(question) or refuses(statement) or _POLAR_WORDS.match(end):
        return said_polar(text)
    asked = set(re.findall(r"\w{4,}", question))
    shared = asked & set(re.findall(r"\w{4,}", statement))
    if _SAID_POLAR.search(end) or not shared or len(shared) * 3 < len(asked):
        return said_polar(text)
    return "no" if _NEGATION.search(statement) else "yes"
