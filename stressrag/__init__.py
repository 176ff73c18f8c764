"""stressrag: stress-tests of retrieval and RAG against poisoned corpora."""

__version__ = "0.1.0"
