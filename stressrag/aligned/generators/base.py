"""The one interface of all answer generators: a prompt in, a completion out."""

from __future__ import annotations

import abc
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Prompt:
    """What a generator is asked.

    Attributes
    ----------
    user : str
        The request itself.
    system : str
        What goes before it in the role of the system; ``""``: nothing.
    max_tokens : int
        The most tokens that the reply may have.
    stop : tuple of str
        Texts at which the reply ends.
    schema : str
        A JSON Schema (as JSON text) that the reply must follow, where the generator can hold to one.
    """

    user: str
    system: str = ""
    max_tokens: int = 150
    stop: tuple[str, ...] = ()
    schema: str = ""


@dataclass(frozen=True)
class Completion:
    """What a generator replied.

    Attributes
    ----------
    text : str
        The whole reply, several lines included.
    finish : {"stop", "length", "refused"}
        Whether it ended by itself, or was cut off at ``max_tokens``; ``refused``: the endpoint would not
        answer this prompt, and the text is empty.
    prompt_tokens, completion_tokens : int or None
        As the generator counts them; ``None``: it does not say.
    """

    text: str
    finish: str
    prompt_tokens: int | None = None
    completion_tokens: int | None = None


REFUSED = "refused"
"""How a completion ended that was recorded in the place of an answer the endpoint would not give."""


class Failed(Exception):
    """This prompt cannot be answered now, after all retries; a one-line reason without secrets."""


class Refused(Failed):
    """This prompt will never be answered, whatever is tried, such as for a content policy; others may be.

    Parameters
    ----------
    reason : str
        On one line, without secrets.
    sure : bool
        ``False`` where all prompts may be refused in these words, as with a bare 403.
    """

    def __init__(self, reason: str, sure: bool = True) -> None:
        super().__init__(reason)
        self.sure = sure


def _quiet(_: str) -> None:
    """Say nothing."""


class Generator(abc.ABC):
    """Something that completes prompts; the same prompt must always give the same text.

    Attributes
    ----------
    name : str
        Short, for records and reports, such as ``qwen2.5-coder-1.5b-q4``.
    stand_in : bool
        Whether it is no language model but takes the place of one, which reports must say.
    concurrency : int
        How many prompts it may be given at once, from as many threads.
    say : callable
        Told in a line why answering takes long, such as waits that a server asks for; a run sets it.
    proven : bool
        Whether it has answered before, so that its key is good; set where answers are cached.
    """

    name: str
    stand_in: bool = False
    concurrency: int = 1
    say: Callable[[str], None] = staticmethod(_quiet)
    proven: bool = False

    @abc.abstractmethod
    def identity(self) -> dict[str, Any]:
        """Everything that decides the text, as JSON values: kind, model, revision, decoding settings.

        Cached answers are kept under it, so it must name no key and no credentials.
        """

    @abc.abstractmethod
    def complete(self, prompt: Prompt) -> Completion:
        """Answer one prompt.

        Raises
        ------
        Failed
            When this prompt cannot be answered; others may be.
        Refused
            When asking it again is of no use.
        StressragError
            When no prompt can be, such as for a wrong key: asking stops at once.
        """


def messages(prompt: Prompt) -> list[dict[str, str]]:
    """The prompt as chat messages."""
    system = [{"role": "system", "content": prompt.system}] if prompt.system else []
    return [*system, {"role": "user", "content": prompt.user}]


def one_line(text: object, most: int = 200) -> str:
    """A text from elsewhere on one line, printable and shortened, for error messages."""
    line = " ".join("".join(c if c.isprintable() else " " for c in str(text)).split())
    return line if len(line) <= most else line[: most - 1] + "…"
