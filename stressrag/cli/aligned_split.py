"""``aligned build-split``: triples of split knowledge, written and verified by generators."""

from __future__ import annotations

import sys
from collections.abc import Sequence

_WHAT = """Builds triples for attack=split_knowledge. For each query a judged relevant document is passage A.
The writer makes up passage B and a wrong answer that follows from both together; the generator answers from
neither, A, B and both, and a triple is kept where both give the wrong answer and nothing less does. Writes
triples.jsonl (for targets=), candidates.jsonl (every try with its four answers) and build.json. Prompts are
cached as in aligned run."""
_EXAMPLES = (
    "aligned build-split generator=gguf generator.model=m.gguf writer.kind=same queries=50 output_dir=split",
    "aligned run attack=split_knowledge targets=split/triples.jsonl generator=gguf generator.model=m.gguf",
)
_NODES = ("dataset", "generator", "prompt", "writer")
_KEYS = (
    "queries",
    "anchor",
    "max_tokens",
    "on_refusal",
    "concurrency",
    "per_minute",
    "cache",
    "output_dir",
    "overwrite",
    "estimate",
)


def _used(key: str) -> bool:
    node, _, name = key.partition(".")
    return key in _KEYS or (node in _NODES and name != "check")


def main(argv: Sequence[str]) -> int:
    """The verb; returns the exit code."""
    from stressrag.settings.places import ALIGNED

    if {"-h", "--help"} & set(argv):
        from stressrag.cli.help import settings_help

        print(settings_help("aligned build-split", _WHAT, _EXAMPLES, root=ALIGNED, only=_used))
        return 0
    from stressrag.aligned.run.split_build import TRIPLES, build_split, most_prompts
    from stressrag.settings.aligned import aligned_settings

    def say(text: str) -> None:
        print(text, file=sys.stderr, flush=True)

    settings = aligned_settings(argv)
    for word in argv:
        if not _used(word.partition("=")[0]):
            say(f"note: {word} plays no part here; it goes with aligned run")
    if settings.estimate:
        n = most_prompts(settings, say)
        print(
            f"{n['candidates']} candidates: at most {n['writer']} prompts of the writer and {n['generator']}"
            " of the generator, fewer where early tries pass or answers are cached"
        )
        return 0
    folder, counts = build_split(settings, say)
    print(", ".join(f"{n} {what}" for what, n in counts.items()))
    print(f"\nwritten: {folder / TRIPLES}, candidates.jsonl and build.json beside it")
    if not counts["verified"]:
        print("No triple passed: candidates.jsonl says why; try another writer, or more writer.tries.")
        return 2
    return 0
