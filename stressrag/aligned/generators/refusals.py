"""Which errors of an endpoint are about one prompt, and which are about the whole run."""

from __future__ import annotations

import re

from stressrag.aligned.generators.endpoint import Reply

_REFUSALS = (400, 403, 413, 422)
# A 403 says either that nothing is allowed or that this text is not.
_POLICY = re.compile(r"polic|moderat|flagged|safety|content|guardrail|prohibited", re.IGNORECASE)
# With these a 400 is about the whole run, not about the prompt.
_SETUP = re.compile(
    r"api.?key|(?:invalid|unknown|no such) model|model_not_found|model.{0,80}(?:not found|not exist|unknown)"
    r"|unsupported.(?:parameter|value)|unrecognized request argument",
    re.IGNORECASE,
)


def refuses(reply: Reply, proven: bool) -> bool:
    """Whether it is this prompt that is not wanted, rather than all; ``proven``: others were answered."""
    if reply.status == 403:  # where others were answered, the key is good
        return proven or bool(_POLICY.search(reply.reason))
    return reply.status in _REFUSALS


def is_sure(reply: Reply) -> bool:
    """Whether a refusal is about the prompt for sure; a bare 403 may be about the key all the same."""
    return reply.status != 403 or bool(_POLICY.search(reply.reason))


def is_setup(reason: str) -> bool:
    """Whether the words of a refusal are about key, model or parameters, which all prompts share."""
    return bool(_SETUP.search(reason))
