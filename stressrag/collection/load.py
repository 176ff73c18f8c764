"""From a folder or a name to a :class:`Collection`, or to one line that says what is wrong."""

from __future__ import annotations

import os
import shlex
from dataclasses import replace
from pathlib import Path

from stressrag.collection.catalogue import CATALOGUE
from stressrag.collection.model import Collection, Corpus, Qrels, Queries
from stressrag.collection.places import EMBEDDED, check_name, find_local, local_names
from stressrag.collection.problems import Problem
from stressrag.collection.scan import Scan, scan_folder
from stressrag.errors import StressragError, nearest

PathLike = str | os.PathLike[str]


def load_folder(
    path: PathLike,
    *,
    name: str | None = None,
    split: str = "test",
    corpus: PathLike | None = None,
    queries: PathLike | None = None,
    qrels: PathLike | None = None,
    topic_field: str = "title",
) -> Collection:
    """Load a collection from a folder in the BEIR layout.

    Parameters
    ----------
    path : path
        The folder with ``corpus.jsonl``, ``queries.jsonl`` and ``qrels/SPLIT.tsv``, plain or gzipped.
    name : str, optional
        What to call it; by default what the folder is called.
    split : str
        Which judgments.
    corpus, queries, qrels : path, optional
        Files to read in the place of those in the folder. Queries may be JSON lines, TREC topics or
        ``id<TAB>text``; judgments may be BEIR's or TREC's.
    topic_field : {'title', 'desc', 'narr'}
        Which part of a TREC topic is the query.

    Returns
    -------
    Collection
        Its ``notes`` say what was odd but could be worked with.

    Raises
    ------
    StressragError
        If anything cannot be worked with: the first such thing, how many more, and how to see them all.
    """
    folder = Path(path).expanduser()
    files = {
        k: Path(v).expanduser()
        for k, v in (("corpus", corpus), ("queries", queries), ("qrels", qrels))
        if v is not None
    }
    scan = scan_folder(folder, split=split, topic_field=topic_field, **files)
    if scan.errors:
        raise StressragError(_first_of(scan.errors, folder, split, files))
    collection = as_collection(scan, name or folder.resolve().name, split, str(folder))
    notes = [_note(p, folder) for p in scan.warnings]
    if note := _compare(collection):
        notes.append(note)
    # A copy would lose the hashes that the comparison may have worked out; notes enter none of them.
    object.__setattr__(collection, "notes", tuple(notes))
    return collection


def load_dataset(
    name: str = EMBEDDED,
    *,
    split: str | None = None,
    path: PathLike | None = None,
    corpus: PathLike | None = None,
    queries: PathLike | None = None,
    qrels: PathLike | None = None,
    topic_field: str = "title",
) -> Collection:
    """Load a collection by name, downloading it where that is possible and needed.

    Looks inside the package, for ``$STRESSRAG_DATA/beir/NAME``, ``$STRESSRAG_DATA/NAME`` and in the cache,
    in that order.

    Parameters
    ----------
    name : str
        An exact name of the catalogue or of a folder in one of these places; or ``'folder'``, which
        needs ``path``. By default the embedded collection, which needs no download.
    split : str, optional
        Which judgments; by default the catalogue's, which is ``test`` but for ``msmarco`` (``dev``).
    path : path, optional
        The folder to read, whatever the name.
    corpus, queries, qrels, topic_field
        As in :func:`load_folder`.

    Raises
    ------
    StressragError
        If there is no such name, no copy and no way to get one, or the files cannot be worked with.
    """
    if split is None:
        split = CATALOGUE[name].split if name in CATALOGUE else "test"
    if name == "folder":
        if not path:
            raise StressragError("dataset=folder needs to know which: add dataset.path=PATH")
        title, folder = None, Path(path).expanduser()
    else:
        title = check_name(name)
        folder = Path(path).expanduser() if path else _locate(name)
    return load_folder(
        folder, name=title, split=split, corpus=corpus, queries=queries, qrels=qrels, topic_field=topic_field
    )


def as_collection(scan: Scan, name: str, split: str, origin: str) -> Collection:
    """The collection of a scan without errors."""
    d, q = scan.documents, scan.queries
    return Collection(
        name=name,
        corpus=Corpus(d.ids, d.texts, d.titles, d.metadata),
        queries=Queries(q.ids, q.texts, q.metadata),
        qrels=Qrels(scan.grades),
        split=split,
        origin=origin,
        targets=scan.targets,
        triples=scan.triples,
    )


def _locate(name: str) -> Path:
    """The folder of a named collection, downloaded if need be."""
    if folder := find_local(name):
        return folder
    entry = CATALOGUE.get(name)
    if entry is None:
        known = [*CATALOGUE, *local_names(), "folder"]
        raise StressragError(
            f"there is no dataset {name!r} in the catalogue or on this machine; {nearest(name, known)}"
        )
    from stressrag.collection.fetch import fetch  # the network's modules only where they are needed

    return fetch(name)


def _first_of(errors: list[Problem], folder: Path, split: str, files: dict[str, Path]) -> str:
    more = sum(e.count for e in errors) - 1
    also = f" (and {more} more error{'s' if more > 1 else ''})" if more else ""
    command = ["python", "-m", "stressrag", "data", "check", str(folder)]
    command += ["--split", split] if split != "test" else []
    for option, file in files.items():
        command += [f"--{option}", str(file)]
    return f"{errors[0]}{also}; run: {shlex.join(command)}"


def _note(problem: Problem, folder: Path) -> str:
    """A warning in short, with the file as seen from the folder: notes travel, machine paths do not."""
    file = Path(problem.file)
    short = file.relative_to(folder) if file.is_relative_to(folder) else Path(file.name)
    return str(replace(problem, file=short.as_posix())).replace(" warning:", "", 1)


def _compare(collection: Collection) -> str | None:
    """Hold a collection against the copies its name is known by.

    Raises
    ------
    StressragError
        If it is called nfcorpus and is nfcorpus-normalised: results on the two must never be mixed up.
    """
    if collection.name == "nfcorpus":
        other = CATALOGUE["nfcorpus-normalised"]
        if collection.hashes["corpus"] in {c.corpus for c in other.copies}:
            raise StressragError(
                f"{collection.origin} is called nfcorpus but holds nfcorpus-normalised, which is another "
                "collection; rename the folder and use dataset=nfcorpus-normalised"
            )
    entry = CATALOGUE.get(collection.name)
    if entry is None or not entry.copies:
        return None
    part = "content" if collection.split == entry.split else "corpus"
    if collection.hashes[part] in {getattr(copy, part) for copy in entry.copies}:
        return None
    return f"{part} differs from the known copy ({'; '.join(c.label for c in entry.copies)})"
