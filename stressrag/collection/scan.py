"""One pass over the files of a collection; loading and checking both start from it."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from stressrag.collection import beir, trec
from stressrag.collection.aligned import Target, Triple, read_aligned
from stressrag.collection.beir import Records
from stressrag.collection.lines import first_line
from stressrag.collection.problems import Problem, ProblemLog


@dataclass(frozen=True)
class Scan:
    """What could be read of a collection, and everything that is wrong with it."""

    documents: Records
    queries: Records
    grades: dict[str, dict[str, int]] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)
    targets: tuple[Target, ...] = ()
    triples: tuple[Triple, ...] = ()

    @property
    def errors(self) -> list[Problem]:
        """The problems that stop the loading."""
        return [p for p in self.problems if p.severity == "error"]

    @property
    def warnings(self) -> list[Problem]:
        """The problems that do not."""
        return [p for p in self.problems if p.severity == "warning"]


def scan_folder(
    path: str | Path,
    *,
    split: str = "test",
    corpus: str | Path | None = None,
    queries: str | Path | None = None,
    qrels: str | Path | None = None,
    topic_field: str = "title",
) -> Scan:
    """Read a folder in the BEIR layout and gather all that is wrong with it.

    Parameters
    ----------
    path : path
        The folder with ``corpus.jsonl``, ``queries.jsonl`` and ``qrels/SPLIT.tsv``; ``aligned.jsonl``
        is read where there is one and the corpus and queries are the folder's own.
    split : str
        Which judgments.
    corpus, queries, qrels : path, optional
        Files to read in the place of those in the folder. Queries may be JSON lines, TREC topics or
        ``id<TAB>text``; judgments may be BEIR's or TREC's; the first line tells.
    topic_field : {'title', 'desc', 'narr'}
        Which part of a TREC topic is the query.
    """
    folder, log = Path(path), ProblemLog()
    if not (folder.is_dir() or (corpus and queries and qrels)):
        reason = "is not a folder" if folder.exists() else "there is no such folder"
        log.error(str(folder), None, f"{reason}; {_expected(split)}")
        return Scan(Records(str(folder)), Records(str(folder)), problems=log.problems())
    corpus_file = _find(folder / "corpus.jsonl", corpus, log, split)
    queries_file = _find(folder / "queries.jsonl", queries, log, split)
    qrels_file = _find(folder / "qrels" / f"{split}.tsv", qrels, log, split)
    documents = beir.read_jsonl(corpus_file, log, "document") if corpus_file else Records("")
    asked = _read_queries(queries_file, log, topic_field) if queries_file else Records("")
    grades = {}
    if qrels_file:
        # Without a corpus or queries every judgment would be a judgment of the unknown.
        grades = _read_qrels(qrels_file, log, asked.lines or None, documents.lines or None)
    _check_whole(documents, asked, grades, log)
    targets: tuple[Target, ...] = ()
    triples: tuple[Triple, ...] = ()
    aligned_file = None if corpus or queries else _present(folder / "aligned.jsonl")
    if aligned_file and asked.ids and documents.ids:
        texts = dict(zip(asked.ids, asked.texts, strict=True))
        targets, triples = read_aligned(aligned_file, log, texts, documents.lines)
    return Scan(documents, asked, grades, log.problems(), targets, triples)


def _expected(split: str) -> str:
    return f"a BEIR folder holds corpus.jsonl, queries.jsonl and qrels/{split}.tsv (each may be gzipped, .gz)"


def _find(default: Path, explicit: str | Path | None, log: ProblemLog, split: str) -> Path | None:
    if explicit is not None:
        if not Path(explicit).is_file():
            log.error(str(explicit), None, "the file is missing")
            return None
        return Path(explicit)
    if present := _present(default):
        return present
    message = f"the file is missing; {_expected(split)}"
    if default.parent.name == "qrels":
        splits = sorted({p.name.split(".tsv")[0] for p in default.parent.glob("*.tsv*")})
        message += f"; splits here: {', '.join(splits)}" if splits else ""
    log.error(str(default), None, message)
    return None


def _present(default: Path) -> Path | None:
    """The file or its gzipped form, whichever there is."""
    candidates = (default, default.with_name(default.name + ".gz"))
    return next((c for c in candidates if c.is_file()), None)


def _read_queries(path: Path, log: ProblemLog, topic_field: str) -> Records:
    first = first_line(path).lstrip()
    if first.startswith("<"):
        return trec.read_topics(path, log, topic_field)
    if first.startswith("{") or ".json" in path.name:
        return beir.read_jsonl(path, log, "query")
    return trec.read_tsv_queries(path, log)


def _read_qrels(
    path: Path, log: ProblemLog, queries: dict[str, int] | None, documents: dict[str, int] | None
) -> dict[str, dict[str, int]]:
    first = first_line(path)
    by_tabs, by_blanks = len(first.split("\t")), len(first.split())
    if by_tabs == 3 or (by_blanks != 4 and ".tsv" in path.name):
        return beir.read_qrels(path, log, queries, documents)
    return trec.read_qrels(path, log, queries, documents)


def _check_whole(
    documents: Records, queries: Records, grades: dict[str, dict[str, int]], log: ProblemLog
) -> None:
    """What no single line shows."""
    for records, what in ((documents, "documents"), (queries, "queries")):
        if records.file and not records.ids:
            log.error(records.file, None, f"holds no {what}")
    for name, line in documents.blank.items():
        log.warn(documents.file, line, "the document has no text", repr(name))
    for name, line in queries.blank.items():
        if name in grades:
            log.error(queries.file, line, f"query {name!r} has no text but is judged")
        else:
            log.warn(queries.file, line, "the query has no text (and no judgments in this split)", repr(name))
