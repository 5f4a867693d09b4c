"""All pairs of codes within a radius, and groups of them."""
