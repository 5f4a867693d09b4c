"""What ``--cluster`` means: the workers of a Dask cluster go over the features, or search."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def client_of(address: str | None) -> Iterator[Any]:
    """A client of the scheduler at an address; None without an address."""
    if address is None:
        yield None
        return
    import logging

    from isch.compute.connection import connected

    logging.getLogger("distributed").setLevel(logging.CRITICAL)  # what it says of lost workers comes as our errors
    with connected(address) as client:
        yield client


@contextmanager
def workers(address: str | None) -> Iterator[None]:
    """Passes over features inside this block are made by the workers of a cluster; without an address, here."""
    with client_of(address) as client:
        if client is None:
            yield
            return
        from isch import compute
        from isch.compute.cluster import Cluster

        with compute.using(Cluster(client)):
            yield
