"""Evaluation: datasets, splits, measures under ties, experiments as data, figures and the report."""
