"""Certificates: queries that provably no keyword document can enter."""
