"""Kernels that Numba compiles: distances of tiles of codes to queries, and what is kept of them."""
