"""Stub of the label rules; see the next commit."""
