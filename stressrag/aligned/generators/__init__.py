"""Answer generators behind one interface, and their cache."""

from stressrag.aligned.generators.answering import Answering, prompt_hash
from stressrag.aligned.generators.base import Completion, Failed, Generator, Prompt, Refused
from stressrag.aligned.generators.prompts import passages_prompt, read_passages_prompt
from stressrag.aligned.generators.registry import make_generator

__all__ = [
    "Answering",
    "Completion",
    "Failed",
    "Generator",
    "Prompt",
    "Refused",
    "make_generator",
    "passages_prompt",
    "prompt_hash",
    "read_passages_prompt",
]
