"""Prompt templates read from the user's own checkout of RobustRAG or TrustRAG; nothing of it is run.

Pipelines have prompts in our own words. To run one with the published words, give the folder of a checkout as
``prompts_from``. The files are parsed, and only string literals, f-strings and their sums are looked at.

* RobustRAG (``inspire-group/RobustRAG``): ``src/prompt_template.py``, the strings ``QA_PROMPT_TMPL`` and
  ``QA_PROMPT_HINTS_TMPL``, which its Llama templates use under ``qa`` and ``qa-hint``. Verified on that
  file of the public repository.
* TrustRAG (``HuichiZhou/TrustRAG``): ``defend_module.py`` (or ``src/defend_module.py``), the function
  ``conflict_query`` and its variables ``document_list``, ``stage_one_prompt``, ``initial_context``,
  ``stage_two_prompt`` and ``final_prompt``. Verified on copies of that file in derived repositories, not
  in the original at the version that the paper pins.
"""

from __future__ import annotations

import ast
import hashlib
import string
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from stressrag.errors import StressragError, nearest

_ROBUST_FILES = ("src/prompt_template.py", "prompt_template.py")
_TRUST_FILES = ("defend_module.py", "src/defend_module.py")
# What stands in the f-strings of conflict_query, by the variable that an expression begins with.
_TRUST_HOLES = {
    "document_list": ("index", "doc"),
    "stage_one_prompt": ("questions",),
    "initial_context": ("document_lists", "internal_knowledges"),
    "stage_two_prompt": ("initial_context", "questions"),
    "final_prompt": ("questions", "stage_two_responses", "internal_knowledges"),
}

Part = str | tuple[str]  # a literal piece, or the name of what goes there
Template = tuple[Part, ...]


class RobustPrompts:
    """RobustRAG's templates for short answers.

    Parameters
    ----------
    folder : str or Path
        The checkout.

    Raises
    ------
    StressragError
        When a file or template is not found, or holds other fields than expected.
    """

    source = "RobustRAG"

    def __init__(self, folder: str | Path):
        path = _find(folder, _ROBUST_FILES, self.source)
        found = _assigned(_parse(path).body)
        self._passages = _format(path, found, "QA_PROMPT_TMPL", {"context_str", "query_str"})
        self._hints = _format(path, found, "QA_PROMPT_HINTS_TMPL", {"hints", "query_str"})
        self.file = _file(path, folder)
        self.sha256 = _digest([self._passages, self._hints])

    def passages(self, question: str, texts: Sequence[str]) -> str:
        """The keyword prompt with some passages, which the paper's adapter joins by line breaks."""
        return self._passages.format(context_str="\n".join(texts), query_str=question)

    def hints(self, question: str, hints: str) -> str:
        """The prompt with suggested words."""
        return self._hints.format(hints=hints, query_str=question)


class TrustPrompts:
    """TrustRAG's three prompts; parameters and errors as of :class:`RobustPrompts`."""

    source = "TrustRAG"

    def __init__(self, folder: str | Path):
        path = _find(folder, _TRUST_FILES, self.source)
        functions = {n.name: n for n in _parse(path).body if isinstance(n, ast.FunctionDef)}
        if "conflict_query" not in functions:
            raise StressragError(
                f"{path}: no function 'conflict_query'; {nearest('conflict_query', functions)}"
            )
        found = _assigned([functions["conflict_query"]])
        self._templates = {
            name: _template(path, found, name, holes, len(holes)) for name, holes in _TRUST_HOLES.items()
        }
        self.file = _file(path, folder)
        self.sha256 = _digest([repr(self._templates[name]) for name in sorted(self._templates)])

    def memory(self, question: str) -> str:
        """The prompt for the model's own knowledge."""
        return self._fill("stage_one_prompt", {"questions": question})

    def consolidation(self, question: str, texts: Sequence[str], memory: str) -> str:
        """The prompt that merges passages and own knowledge."""
        documents = "".join(
            self._fill("document_list", {"index": str(i), "doc": text}) for i, text in enumerate(texts)
        )
        context = self._fill("initial_context", {"document_lists": documents, "internal_knowledges": memory})
        return self._fill("stage_two_prompt", {"initial_context": context, "questions": question})

    def final(self, question: str, consolidated: str, memory: str) -> str:
        """The prompt for the answer."""
        values = {
            "questions": question,
            "stage_two_responses": consolidated,
            "internal_knowledges": memory,
        }
        return self._fill("final_prompt", values)

    def _fill(self, name: str, values: Mapping[str, str]) -> str:
        return "".join(part if isinstance(part, str) else values[part[0]] for part in self._templates[name])


def prompt_source(prompts: RobustPrompts | TrustPrompts | None) -> dict[str, str]:
    """Where prompts come from, for settings: digests of the words and of their file, not its folder."""
    if prompts is None:
        return {"prompts": "ours"}
    return {"prompts": prompts.source, "prompts_sha256": prompts.sha256, **prompts.file}


# ---- reading source without running it ---------------------------------------------------------------


def _find(folder: str | Path, names: Sequence[str], source: str) -> Path:
    base = Path(folder)
    if not base.is_dir():
        raise StressragError(f"prompts_from: {str(folder)!r} is no folder; give a checkout of {source}")
    for name in names:
        if (base / name).is_file():
            return base / name
    raise StressragError(
        f"prompts_from: no {' or '.join(names)} in {str(folder)!r}; is it a checkout of {source}?"
    )


def _file(path: Path, folder: str | Path) -> dict[str, str]:
    """A file by its place in the checkout and its hash, to find the version that it is of."""
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    return {"prompts_file": path.relative_to(folder).as_posix(), "prompts_file_sha256": digest}


def _parse(path: Path) -> ast.Module:
    try:
        return ast.parse(path.read_text(encoding="utf-8-sig"))
    except (OSError, SyntaxError, ValueError, RecursionError) as e:
        raise StressragError(f"{path}: cannot be read as Python source: {e}") from e


def _assigned(body: Sequence[ast.stmt]) -> dict[str, ast.expr]:
    """The last plain or added value of each variable, of nested blocks too.

    An empty string is how a sum begins and says nothing of its terms.
    """
    out: dict[str, ast.expr] = {}
    for node in (n for statement in body for n in _in_order(statement)):
        if isinstance(node, ast.Assign) and len(node.targets) == 1:
            target: ast.expr = node.targets[0]
        elif isinstance(node, ast.AugAssign) and isinstance(node.op, ast.Add):
            target = node.target
        else:
            continue
        if isinstance(target, ast.Name) and not (
            isinstance(node.value, ast.Constant) and node.value.value == ""
        ):
            out[target.id] = node.value
    return out


def _in_order(node: ast.AST) -> Iterator[ast.AST]:
    yield node
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.stmt):
            yield from _in_order(child)


def _parts(node: ast.expr) -> Iterator[Part]:
    """Literal pieces and names of a string expression; ``ValueError`` for anything else."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value
    elif isinstance(node, ast.JoinedStr):
        for value in node.values:
            yield from _parts(value)
    elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        yield from _parts(node.left)
        yield from _parts(node.right)
    elif isinstance(node, ast.FormattedValue) and node.conversion == -1 and node.format_spec is None:
        yield from _parts(node.value)
    else:
        while isinstance(node, ast.Subscript):
            node = node.value
        if not isinstance(node, ast.Name):
            raise ValueError(f"line {node.lineno} is no string with plain variables")
        yield (node.id,)


def _template(
    path: Path, found: Mapping[str, ast.expr], name: str, holes: Sequence[str], least: int
) -> Template:
    if name not in found:
        raise StressragError(f"{path}: no variable {name!r}; {nearest(name, found)}")
    try:
        parts = tuple(_parts(found[name]))
    except (ValueError, RecursionError) as e:
        raise StressragError(f"{path}: {name} is not a template that can be read: {e}") from e
    there = {part[0] for part in parts if not isinstance(part, str)}
    if there - set(holes) or len(there) < least:
        raise StressragError(
            f"{path}: {name} holds {', '.join(sorted(there)) or 'no variable'}; expected {', '.join(holes)}"
        )
    return parts


def _format(path: Path, found: Mapping[str, ast.expr], name: str, fields: set[str]) -> str:
    """A template for ``str.format`` whose fields are exactly these."""
    text = "".join(str(part) for part in _template(path, found, name, (), 0))
    try:
        there: set[Any] = {field for _, field, _, _ in string.Formatter().parse(text) if field is not None}
    except ValueError as e:
        raise StressragError(f"{path}: {name} is no format string: {e}") from e
    if there != fields:
        raise StressragError(
            f"{path}: {name} has the fields {', '.join(sorted(there)) or 'none'}; "
            f"expected {', '.join(sorted(fields))}"
        )
    return text


def _digest(texts: Sequence[str]) -> str:
    return hashlib.sha256("\0".join(texts).encode("utf-8", "surrogatepass")).hexdigest()
