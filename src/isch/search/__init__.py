"""Exact search among binary codes: arrays in memory (exact) and indexes on disk (index)."""
