"""From a corpus to judged answers: attacked queries, contexts, answers under all conditions, files."""
