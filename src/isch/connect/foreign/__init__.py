"""Codes that others put into their engines, as sources: one module per engine."""
