"""What ways to search cost, as planners reckon: nanoseconds on one core."""

READ_COST = 0.6  # to read a word of a code that is not in the cache
SHARED = 8  # queries for which a word is read once
PROBE_COST, CANDIDATE_COST = 30.0, 60.0  # to look up a value, and to compare a row found so


def pair_cost(n_words: int) -> float:
    """To compare two codes in tiles."""
    return min(0.07 + 0.05 * n_words, 0.5)


def scan_cost(n_rows: int, n_words: int, n_queries: int) -> float:
    """To compare a query with all rows, if so many are asked at once."""
    return n_rows * max(pair_cost(n_words), n_words * READ_COST / max(1, min(n_queries, SHARED)))
