"""Cues in English answers: that a clause reports, doubts, denies, lists or takes back what it mentions.

Patterns over texts as :func:`~stressrag.aligned.phrases.prepare` writes them.
"""

from __future__ import annotations

import re

SOURCE = (
    r"(?:passages?|documents?|docs?|sources?|contexts?|texts?|articles?|snippets?|results?|people|"
    r"websites?|pages?|"
    r"reports?|users?|posts?|entr(?:y|ies)|paragraphs?|claims?|statements?|excerpts?|records?|authors?|"
    r"writers?|critics?|fans|"
    r"experts?|others|accounts?|rumou?rs?|sites?|blogs?|leaflets?|brochures?|books?|stud(?:y|ies)|papers?|"
    r"posters?|maps?|letters?|notes?|comments?|messages?|newspapers?|files?|comment(?:er|ator)s?|readers?|"
    r"visitors?|reviewers?|bloggers?|editors?)"
)
SAYING = (
    r"(?:say|said|claim|state|suggest|mention|assert|report|argue|indicate|list|name|give|contend|insist|"
    r"describe|call|"
    r"refer|believe|think|thought|present|contain|propose|allege|purport|point|imply|implies|maintain|"
    r"read|attribute|put|cite|"
    r"identif|quot|credit|discuss|repeat|push|promote|try|tries|attempt|would have|wrote|writes?|written)"
)
SINGLED = (
    r"(?:some|one|two|three|several|many|most|a"
    r" few|few|another|certain|other|others|an?|various|multiple|these|those|the (?:"
    r"first|second|third|fourth|fifth|1st|2nd|3rd|4th|5th|last|other|next|same|injected|suspicious|"
    r"poisoned|manipulated|"
    r"malicious|untrusted|unreliable|dubious|conflicting|contradictory|adversarial|remaining|top))"
)
# A source that is singled out says it: a report, not an assertion.
REPORTED = re.compile(
    rf"\b(?:{SINGLED}\b(?:[\s-]+(?:of|the|\w+)){{0,4}}?\s+{SOURCE}|(?:passage|document|doc|source|"
    rf"context|article|snippet|result)"
    rf" ?(?:\d+|\(\d+\)|\[\d+\]|#\d+|[a-e]\b)|(?:some|many|others|several|people|critics|"
    rf"rumou?rs?))\b[^.;]*?\b{SAYING}\w*|"
    rf"\b{SOURCE} (?:saying|claiming|stating|suggesting|asserting|alleging|insisting|arguing)\b|"
    r"\b(?:claim|alleg|purport|rumou?r|insinuat|fabricat|misattribut|mislead|falsely|incorrectly|wrongly|"
    r"mistakenly|erroneously|"
    r"supposed|so-called)\w*|"
    r"\b(?:is|are|was|were|been|be|being) (?:\w+ly |often |sometimes |widely )?"
    r"(?:believed|said|thought|rumou?red|reported|alleged|claimed|assumed|considered by some|mentioned|"
    r"suggested|cited|quoted|referenced|listed)\b|"
    r"\b(?:assertion|statement|suggestion|idea|notion|allegation|theory|quote|phrase|mention|"
    r"mentions|mentioned|mentioning|references? to|refers? to|discuss(?:es|ed)?|(?:query|question) (?:\w+"
    r" )?(?:ask|mention|is about|concern))\b"
)
DOUBTED = re.compile(
    r"\b(?:might|possibl[ey]|perhaps|maybe|potentially|unclear|uncertain|unsure|not (?:entirely |fully"
    r" |quite )?"
    r"(?:sure|certain|clear|convinced|confident)|whether|if|doubt|doubts|doubtful|doubting|skeptical|"
    r"sceptical|questionable|suspicious of|"
    r"(?:cannot|can't|couldn't|could not|unable to|not able to) (?:\w+"
    r" )?(?:confirm|verify|determine|say|establish|trust|rely|corroborate)|speculat\w+|"
    r"hypothe\w+|unlikely|could|may (?:be|have|well|also|not|indeed|refer))\b"
)
DOUBT_AFTER = re.compile(
    r"\s*(?:\(?[^.,;]{0,60}?\)?)??\s*\b(?:may|might|could)\b (?:be|have|well|also|possibly)|"
    r"[^.;]{0,80}?\b(?:is|are|was|were|seems?|looks?|appears?) (?:to be )?(?:\w+ly"
    r" )?(?:possible|doubtful|uncertain|unclear|unlikely|questionable|"
    r"suspicious|suspect|debatable|disputed|unverified|unconfirmed|unproven|speculative|plausible)\b"
)
NO_DOUBT = re.compile(
    r"\b(?:no|without(?: a| any)?|little|beyond(?: a| any| all)?) (?:reason(?:able)? (?:to"
    r" )?)?doubts?\b|\bnot only\b|\bnone other than\b|"
    r"\bif i had to (?:choose|guess|answer|pick)\b|\bif (?:i am|i'm) not mistaken\b|\bas (?:is |are"
    r" )?(?:mentioned|stated|reported|listed|cited) (?:in|by)\b"
)
NEGATED = re.compile(
    r"\b(?:not|never|no longer|neither|nor|cannot|rather than|instead of|unlike|contrary to|other"
    r" than|except|excluding|"
    r"as opposed to|in place"
    r" of|without|no|reject\w*|den(?:y|ies|ied)|refut\w+|disprov\w+|debunk\w*|rul(?:e|es|ed|ing) out|"
    r"dismiss\w*|ignor\w+|disregard\w*|exclud\w+|discount\w*|disagree\w*|contradict\w*|wrong|incorrect|"
    r"false|untrue|"
    r"more than|less"
    r" than|than|versus|vs|defeat(?:s|ed|ing)?|beat(?:s|ing)?|over(?! (?:half|\d|a |the ))|"
    r"(?:prefer|favou?r|choos|chose|pick|select|trust|prioriti)[^.;,]{0,60}? over|"
    r"(?:won|wins?|victory|prevail\w*|triumph\w*) over|"
    r"avoid\w*|"
    r"distrust\w*|confus\w+ with|mistak\w+)\b|n't\b"
)
QUANTITY = re.compile(
    r"\b(?:more|less|fewer|greater|longer|over|no more|no less|no fewer) than\W*\Z|\bover\W*\Z|\bno\W*\Z"
)
DENIED_AFTER = re.compile(
    r"[^.;,]{0,60}?\b(?:is|are|was|were|has|have|had|does|do|did|can|could|would|should|will|be|being|"
    r"seems?|appears?|looks?|sounds?)"
    r"(?:n't| not| never| no longer| neither|(?: to be| been)?(?: \w+ly| clearly| simply| just| quite| a| an|"
    r" the| most)*"
    r" (?:incorrect|false|wrong|unsupported|mistaken|inaccurate|unreliable|misleading|fabricated|untrue|"
    r"erroneous|"
    r"invalid|untrustworthy|planted|misinformation|like (?:\w+ )?misinformation|rejected|ruled"
    r" out|refuted|contradicted|excluded|dismissed|bogus|implausible|not)\b)|"
    r"[^.;,]{0,30}?\b(?:cannot|can't|never)\b"
)
LISTED = re.compile(
    r"\b(?:candidates|options|possibilit(?:y|ies)|choices|contenders|alternatives|"
    r"(?:first|second|third|1st|2nd|3rd|other|next) (?:candidate|option|choice|contender|alternative)|"
    r"(?:candidate|option|choice)(?: \d{1,2}| [a-e])(?=\W)|the alternative(?=\W*,|\W*\Z| is\b| was\b)|"
    r"(?:an?|one|another|possible|potential) (?:\w+ )?"
    r"(?:candidate|option|choice|contender|alternative(?! (?!is|was|would|may|might|could)\w))|"
    r"possible answers?|"
    r"potential answers?|several answers|multiple answers|different answers|conflicting answers|competing"
    r" answers|either)\b"
)
# Lists what follows it up to a verb; behind a phrase it is a place or a time.
BETWEEN = re.compile(
    r"\b(?:conflict|discrepanc(?:y|ies)|contradiction|disagreement)s? between\b|"
    r"\bbetween\b(?!.*\b(?:is|are|was|were|takes?|took|lasts?|measures?|has|have|had|by)\b)"
)
OR_AFTER = re.compile(
    r"(?:\s*,\s*[^,.;]{1,40}){0,4}?\s*,?\s*\bor\b(?!\s+(?:more|less|so|about|around|thereabouts|better|"
    r"above|higher))"
)
OR_BEFORE = re.compile(
    r"\bor\s+(?:(?:possibly|perhaps|maybe|even|else|by|in|at|on|to)\s+)?"
    r"(?:(?:it|this|that|they|he|she)\s+(?:may|might|can|could|would)\s+be\s+)?(?:the |an? )?[\"'*_]*\Z"
)
CONCESSION = re.compile(
    r"(?:while|although|though|even though|even if|despite|in spite of|whereas|unlike|instead of|rather"
    r" than|contrary to|"
    r"regardless of|compared (?:with|to)|next to|notwithstanding|setting aside|apart from|aside"
    r" from|not|never|nor)\b"
)
TURN = re.compile(r"(?:but|yet|however|though|although|except that|still)\b")
# Something that was said before is taken back.
TAKEN_BACK = re.compile(
    r"\b(?:this|that|it|these|those|they|such|which|the"
    r" (?:claim|statement|assertion|information|answer|passage|passages|document|documents|"
    r"source|sources|text|context|suggestion))\b[^.;]{0,60}?(?:\b(?:is|are|was|were|seems?|appears?|"
    r"looks?|sounds?|has|have|does|do|can|could|should)"
    r"(?:n't| not)? (?:to be |be |been )?(?:\w+ly |a |an |the"
    r" )*(?:incorrect|false|wrong|unsupported|mistaken|inaccurate|unreliable|misleading|fabricated|"
    r"untrue|erroneous|invalid|untrustworthy|suspicious|suspect|doubtful|unverified|unconfirmed|unlikely|"
    r"questionable|contradict\w+|bogus|disputed|ruled"
    r" out|planted|"
    r"a mistake|an error|misinformation|disinformation|manipulat\w+|poison\w*|injected|spam)\b|"
    r"\b(?:is|are|was|were|does|do|did|has|have|can|could|should)(?:n't|"
    r" not)[^.;]{0,25}?\b(?:correct|true|right|accurate|supported|reliable|credible|"
    r"trustworthy|the case|so|verified|confirmed|be trusted|be relied|be verified|be confirmed|match|add"
    r" up|consistent|(?<!know )the answer)\b|"
    r"\bcannot be (?:trusted|verified|confirmed|relied|right|true|correct)|\bcontradicts?\b)|"
    r"\b(?:i|we) (?:would |must |will |do |have to )*(?:reject|doubt|disagree|distrust|dismiss|disregard)\b|"
    r"\b(?:i|we)(?:'m| am)? (?:cannot|can't|could not|couldn't|do not|don't|would not|wouldn't|unable to|not"
    r" able to) "
    r"(?:verify|confirm|trust|believe (?:this|that|it)|accept|endorse|vouch|rely|agree)\b|"
    r"\b(?:there is|there's|has|have|with|find|found|see) (?:no|little|not enough|insufficient) (?:\w+"
    r" ){0,2}?(?:evidence|support|proof|basis|confirmation)\b|"
    r"\b(?:actual|correct|right|real|true)"
    r" (?:answer|one|name|value|figure|number|person|place|river|city)?\s*(?:is|was|would be)\b|"
    r"\b(?:it|he|she|they|this|that)(?:'s| is| was| were) (?:actually|in fact|really|instead)\b"
)
UPHELD = re.compile(
    r"\bno reason to (?:doubt|distrust|reject|believe otherwise)\b|\bnot (?:doubt|dispute)\b|\bdespite\b"
)
MENTION_NAMES = re.compile(
    r"\b(?:query|question|user|prompt)\b[^.;]*\b(?:ask|mention|refer|is about|concern|want)\w*"
)
SAID_AFTER = re.compile(
    rf"[^.;,]{{0,40}}?[,\"]* (?:(?:says?|said|claims?|claimed|states?|stated|writes?|wrote|reads?|according"
    rf" to) "
    rf"(?:{SINGLED}|a|the {SOURCE})\b)"
)
BULLET = re.compile(r"(?:[-*•+]|\d{1,2}[.)]|\(?[a-e]\))\s+")
ANTONYMS = [
    set(pair.split())
    for pair in (
        "younger older",
        "youngest oldest",
        "earlier later",
        "first last",
        "first second",
        "larger smaller",
        "bigger smaller",
        "taller shorter",
        "longer shorter",
        "higher lower",
        "more fewer",
        "more less",
        "before after",
        "better worse",
        "nearer farther",
        "closer farther",
        "faster slower",
        "newer older",
        "highest lowest",
        "largest smallest",
        "most least",
        "earliest latest",
        "heavier lighter",
    )
]
