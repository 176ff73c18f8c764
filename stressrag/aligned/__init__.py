"""Aligned RAG evaluation: answers under four matched conditions, and what a defense prevented and introduced.

After *Prevented is Not Protected: What Attack Success Rate Hides about RAG* (arXiv 2610.40742).
"""
