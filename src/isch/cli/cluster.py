"""What ``--cluster`` means: the workers of a Dask cluster go over the features."""

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def workers(address: str | None) -> Iterator[None]:
    """Passes over features inside this block are made by the workers of a cluster; without an address, here."""
    from isch import compute

    if address is None:
        yield
        return
    import logging

    from isch.compute.cluster import Cluster
    from isch.compute.connection import connected

    logging.getLogger("distributed").setLevel(logging.CRITICAL)  # what it says of lost workers comes as our errors
    with connected(address) as client, compute.using(Cluster(client)):
        yield
