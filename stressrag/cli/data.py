"""``data list | info | fetch | check``: look at collections, get them, find what is wrong with them."""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from stressrag.collection import Collection
from stressrag.collection.catalogue import BIPIA, CATALOGUE, Entry
from stressrag.collection.load import load_folder
from stressrag.collection.places import (
    EMBEDDED,
    cache_root,
    check_name,
    find_bipia,
    find_local,
    is_packaged,
    local_names,
)
from stressrag.collection.scan import scan_folder
from stressrag.errors import StressragError, nearest

_PROG = "python -m stressrag data"
_LISTED_ERRORS = 50


class _Parser(argparse.ArgumentParser):
    """Says what is wrong in one line, without the usage before it."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {message}\n")


def _parser() -> _Parser:
    parser = _Parser(prog=_PROG, description="Look at test collections, get them, check them.")
    verbs = parser.add_subparsers(dest="verb", metavar="{list,info,fetch,check}", required=True)
    verbs.add_parser("list", help="the collections known by name, and where each is")
    info = verbs.add_parser("info", help="counts, grades and hashes of one collection")
    info.add_argument("collection", metavar="NAME|PATH", nargs="?", default=EMBEDDED)
    info.add_argument("--split", help="which judgments (default: the catalogue's, else test)")
    fetch = verbs.add_parser("fetch", help="download a BEIR collection, or bipia, into the cache")
    fetch.add_argument("name", metavar="NAME")
    check = verbs.add_parser("check", help="everything that is wrong with a folder, by file and line")
    check.add_argument("collection", metavar="PATH")
    check.add_argument("--split", help="which judgments (default: the catalogue's, else test)")
    for part in ("corpus", "queries", "qrels"):
        check.add_argument(f"--{part}", metavar="FILE", help="this file in the place of the folder's")
    return parser


def main(argv: list[str]) -> int:
    """Run one ``data`` command.

    Parameters
    ----------
    argv : list of str
        The words behind ``data``.

    Returns
    -------
    int
        0; 1 if ``check`` found errors; 2 for a command that does not exist.
    """
    verbs = {"list": _list, "info": _info, "fetch": _fetch, "check": _check}
    if argv and argv[0] not in verbs and not argv[0].startswith("-"):
        print(f"{_PROG}: there is no command {argv[0]!r}; {nearest(argv[0], verbs)}", file=sys.stderr)
        return 2
    args = _parser().parse_args(argv)
    return verbs[args.verb](args)


def _list(args: argparse.Namespace) -> int:
    own = [name for name in local_names() if name not in CATALOGUE]
    rows = [("name", "documents", "judged queries", "where")]
    rows += [(e.name, f"{e.documents:,}", f"{e.queries:,}", _where(e)) for e in CATALOGUE.values()]
    rows += [(name, "", "", str(find_local(name))) for name in own]
    rows.append((BIPIA.name, "", "", _where_bipia()))
    widths = [max(len(row[i]) for row in rows) for i in range(3)]
    for name, documents, queries, where in rows:
        print(f"{name:<{widths[0]}}  {documents:>{widths[1]}}  {queries:>{widths[2]}}  {where}")
    return 0


def _where(entry: Entry) -> str:
    folder = find_local(entry.name)
    if folder is not None and is_packaged(folder):
        return "in the package"
    if folder is not None:
        return f"cache: {folder}" if folder.is_relative_to(cache_root()) else str(folder)
    return (
        f"to be downloaded ({_PROG} fetch {entry.name})" if entry.md5 else "local only, not on this machine"
    )


def _where_bipia() -> str:
    file = find_bipia()
    return str(file.parent) if file else f"to be downloaded ({_PROG} fetch {BIPIA.name})"


def _resolve(text: str) -> tuple[Path | None, Entry | None]:
    """The folder that a name or path means, and what the catalogue says of it.

    A name wins over a folder of the same name in the working directory; ``./NAME`` means the folder.
    """
    entry = CATALOGUE.get(text)
    if entry or text in local_names():
        return find_local(text), entry
    path = Path(text).expanduser()
    if path.is_dir():
        return path, CATALOGUE.get(path.resolve().name)
    if len(path.parts) == 1 and not text.startswith("."):
        check_name(text)
        hint = nearest(text, [*CATALOGUE, *local_names()])
        raise StressragError(f"{text!r} is neither a dataset nor a folder; {hint}")
    raise StressragError(f"there is no folder {text}")


def _split(args: argparse.Namespace) -> str:
    """The judgments asked for; only a name, not a path, stands for the catalogue's choice."""
    entry = CATALOGUE.get(args.collection)
    return args.split or (entry.split if entry else "test")


def _info(args: argparse.Namespace) -> int:
    folder, entry = _resolve(args.collection)
    facts: list[tuple[str, str]] = []
    if entry:
        facts += [
            ("name", entry.name),
            ("about", entry.title),
            ("license", entry.license),
            ("source", entry.source),
        ]
    if folder is None:
        assert entry is not None
        facts += [
            ("documents", f"{entry.documents:,}"),
            ("queries", f"{entry.queries:,} judged in {entry.split}"),
        ]
        facts.append(("where", _where(entry)))
    else:
        facts += _facts(load_folder(folder, split=_split(args)))
    width = max(len(key) for key, _ in facts)
    for key, value in facts:
        print(f"{key:<{width}}  {value}")
    return 0


def _facts(c: Collection) -> list[tuple[str, str]]:
    grades = Counter(grade for docs in c.qrels.grades.values() for grade in docs.values())
    histogram = ", ".join(f"grade {grade}: {count:,}" for grade, count in sorted(grades.items()))
    asked = c.evaluated
    facts = [
        ("where", c.origin),
        ("split", c.split),
        ("documents", f"{len(c.corpus):,}, mean {_mean_words(c.corpus.texts):.1f} words"),
        ("queries", f"{len(c.queries):,}, {len(asked):,} judged, mean {_mean_words(asked.texts):.1f} words"),
        ("judgments", f"{sum(grades.values()):,} ({histogram})"),
    ]
    if c.targets or c.triples:
        groups = len({t.group for t in c.targets})
        targets = f"{len(c.targets):,} targets in {groups} groups"
        facts.append(("aligned", f"{targets}, {len(c.triples):,} split-knowledge triples"))
    facts += [(f"sha256 {part}", digest) for part, digest in c.hashes.items()]
    copies = CATALOGUE[c.name].copies if c.name in CATALOGUE else ()
    facts += [("known as", copy.label) for copy in copies if copy.corpus == c.hashes["corpus"]]
    return facts + [("note", note) for note in c.notes]


def _mean_words(texts: Sequence[str]) -> float:
    return sum(len(text.split()) for text in texts) / max(len(texts), 1)


def _fetch(args: argparse.Namespace) -> int:
    from stressrag.collection.fetch import fetch

    print(fetch(args.name))
    return 0


def _check(args: argparse.Namespace) -> int:
    files = {part: getattr(args, part) for part in ("corpus", "queries", "qrels")}
    path = Path(args.collection).expanduser()
    if not path.is_dir() and not all(files.values()):
        found, _ = _resolve(args.collection)
        if found is None:
            raise StressragError(f"{args.collection} is not on this machine; {_PROG} fetch {args.collection}")
        path = found
    split = _split(args)
    scan = scan_folder(path, split=split, **files)
    for problem in scan.errors[:_LISTED_ERRORS]:
        print(problem)
    errors = sum(p.count for p in scan.errors)
    shown = min(len(scan.errors), _LISTED_ERRORS)
    if errors > shown:
        print(f"and {errors - shown:,} more errors")
    for problem in scan.warnings:
        print(problem)
    judged = [q for q in scan.grades if q in scan.queries.lines]
    judgments = sum(len(docs) for docs in scan.grades.values())
    print(
        f"{len(scan.documents.ids):,} documents, {len(scan.queries.ids):,} queries, "
        f"{len(judged):,} judged in {split} by {judgments:,} judgments"
    )
    print(f"{_plural(errors, 'error')}, {_plural(len(scan.warnings), 'warning')}")
    return 1 if errors else 0


def _plural(count: int, noun: str) -> str:
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"
