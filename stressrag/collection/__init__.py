"""Test collections: what they are made of, and how to get them."""

from stressrag.collection.load import load_dataset, load_folder
from stressrag.collection.model import Collection, Corpus, Qrels, Queries

__all__ = ["Collection", "Corpus", "Qrels", "Queries", "load_dataset", "load_folder"]
