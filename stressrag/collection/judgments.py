"""Relevance judgments, row by row, whatever file format the rows come from."""

from __future__ import annotations

import re
from collections.abc import Container

from stressrag.collection.problems import ProblemLog

_INTEGER = re.compile(r"[+-]?[0-9]{1,18}")
_WHOLE_DECIMAL = re.compile(r"([+-]?[0-9]{1,18})\.0*")
_NUMBER = re.compile(r"[+-]?[0-9]*\.?[0-9]+(e[+-]?[0-9]+)?|[+-]?(nan|inf)", re.IGNORECASE)


def looks_like_grade(cell: str) -> bool:
    """Whether a cell is meant as a grade, be it a wrong one; a header cell is not."""
    return _NUMBER.fullmatch(cell.strip()) is not None or _WHOLE_DECIMAL.fullmatch(cell.strip()) is not None


class Judgments:
    """Checks and gathers the rows of one file.

    Parameters
    ----------
    file : str
        The file, for messages.
    log : ProblemLog
        Takes what is wrong.
    queries, documents : container of str, optional
        The known ids; without them unknown ids cannot be told.
    """

    def __init__(
        self,
        file: str,
        log: ProblemLog,
        queries: Container[str] | None = None,
        documents: Container[str] | None = None,
    ) -> None:
        self.file = file
        self.log = log
        self.queries = queries
        self.documents = documents
        self.grades: dict[str, dict[str, int]] = {}
        self._first: dict[str, int] = {}

    def add(self, line: int, query: str, document: str, cell: str) -> None:
        """Take one row; ``cell`` is the grade as written."""
        grade = self._grade(line, cell.strip())
        if not query or not document:
            self.log.error(self.file, line, f"the {'document' if query else 'query'} id is empty")
            return
        if grade is None:
            return
        known = self.grades.setdefault(query, {})
        self._first.setdefault(query, line)
        if document in known:
            self._again(line, query, document, known[document], grade)
            return
        known[document] = grade
        if self.queries is not None and query not in self.queries:
            self.log.warn(
                self.file, line, "the judged query is unknown, its judgments are not used", repr(query)
            )
        if self.documents is not None and document not in self.documents:
            self.log.warn(self.file, line, "the judged document is not in the corpus", repr(document))

    def _grade(self, line: int, cell: str) -> int | None:
        """The grade, negative ones as 0: no metric is to subtract for what TREC marks as unusable."""
        if _INTEGER.fullmatch(cell):
            grade = int(cell)
        elif whole := _WHOLE_DECIMAL.fullmatch(cell):
            self.log.warn(self.file, line, "the grade is written as a decimal, taken as an integer", cell)
            grade = int(whole[1])
        else:
            self.log.error(self.file, line, f"the grade {cell!r} is not an integer")
            return None
        if grade < 0:
            self.log.warn(self.file, line, "a negative grade counts as not relevant", str(grade))
        return max(grade, 0)

    def _again(self, line: int, query: str, document: str, before: int, grade: int) -> None:
        if before == grade:
            self.log.warn(
                self.file, line, "the same judgment again", f"query {query!r}, document {document!r}"
            )
            return
        message = f"query {query!r} and document {document!r} are judged {grade} here and {before} above"
        self.log.error(self.file, line, message)

    def finish(self) -> dict[str, dict[str, int]]:
        """The judgments in file order, after looking at them as a whole."""
        if not self.grades:
            self.log.error(self.file, None, "holds no judgments")
            return self.grades
        queries, documents = self.queries, self.documents
        judged = [q for q in self.grades if queries is None or q in queries]
        if not judged:
            self.log.error(self.file, None, "none of the queries is judged here")
        for query in judged:
            rows = self.grades[query].items()
            if not any(grade > 0 and (documents is None or doc in documents) for doc, grade in rows):
                kind = "the query has no relevant document in the corpus"
                self.log.warn(self.file, self._first[query], kind, repr(query))
        return self.grades
