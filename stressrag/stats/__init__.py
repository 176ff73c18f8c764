"""Intervals, paired tests and corrections; they know numbers and ids, nothing of retrieval."""
