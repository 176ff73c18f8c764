"""The one interface of all answer generators: a prompt in, a completion out."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Prompt:
    """What a generator is asked."""

    user: str
    system: str = ""
    max_tokens: int = 150
    stop: tuple[str, ...] = ()
    schema: str = ""


@dataclass(frozen=True)
class Completion:
    """What a generator replied; ``finish`` is ``stop`` or ``length``."""

    text: str
    finish: str
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
