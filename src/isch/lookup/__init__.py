"""Codes within a small radius, found in tables by multi-index hashing instead of by reading all codes."""
