"""``attack``: the poison documents of one attack, as a file to look at or to index elsewhere."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path

from stressrag.cli.help import settings_help
from stressrag.errors import StressragError

EXAMPLES = (
    "attack attack=query_only out=poison.jsonl",
    "attack attack=partial attack.terms=2 attack.strategy=idf out=poison.jsonl",
    "attack dataset=folder dataset.path=my-collection attack=payload attack.budget=3 out=-",
)


def main(argv: Sequence[str]) -> int:
    """The verb; returns the exit code."""
    if {"-h", "--help"} & set(argv):
        what = """Write an attack's poison documents as JSON lines in BEIR's corpus layout.
out=FILE says where (out=- for standard output)."""
        print(settings_help("attack", what, EXAMPLES))
        return 0
    out = [w.partition("=")[2] for w in argv if w.startswith("out=")]
    overwrite = "overwrite=true" in argv
    if len(out) != 1 or not out[0]:
        raise StressragError("attack needs out=FILE, such as out=poison.jsonl (out=- for standard output)")
    from stressrag.experiment.conditions import condition
    from stressrag.settings.compose import only

    settings = only([w for w in argv if not w.startswith("out=")])
    lines = _lines(condition(settings), settings.attack.source)
    if out[0] == "-":
        sys.stdout.write("".join(lines))
        return 0
    path = Path(out[0]).expanduser()
    if path.exists() and not overwrite:
        raise StressragError(f"out={out[0]} exists; choose another file, or overwrite=true to replace it")
    from stressrag.records.files import write_text

    write_text(path, "".join(lines))
    print(f"{len(lines)} poison documents written: {out[0]}")
    return 0


def _lines(c: object, source: str) -> list[str]:
    from stressrag.attacks.poison import AttackContext, choose_targets, generate
    from stressrag.defenses.quota import OWN_SOURCES
    from stressrag.experiment.conditions import Condition
    from stressrag.experiment.engine import Engine, poison_id
    from stressrag.experiment.run import load_collection
    from stressrag.text.index import TermIndex
    from stressrag.text.tokens import get_tokenizer

    assert isinstance(c, Condition)
    if c.clean:
        raise StressragError("attack=clean has no poison documents; choose another attack")
    collection = load_collection(dict(c.dataset))
    queries = collection.evaluated
    if c.recipe.aim is not None:  # written against a retriever and its defenses, which have to be there
        poison = Engine(collection, [c], []).table.poison[c.recipe]
    else:
        index = TermIndex.from_texts(collection.corpus.texts, get_tokenizer(c.recipe.index))
        poison = generate(c.recipe, AttackContext(collection.corpus, queries, index), c.budget)
    out = []
    for q in choose_targets(c.targets, queries, c.recipe.seed).nonzero()[0].tolist():
        for number, text in enumerate(poison.texts[q]):
            about = {"poison": True, "target": queries.ids[q], "number": number, "attack": c.recipe.name}
            name = poison_id(queries.ids[q], number)
            about["source"] = name if source == OWN_SOURCES else source
            about["coverage"] = round(float(poison.coverage[q]), 6)
            line = {"_id": name, "title": "", "text": text, "metadata": about}
            out.append(json.dumps(line, ensure_ascii=False) + "\n")
    return out
