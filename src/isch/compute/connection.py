"""The connection to a Dask cluster: made in time, checked, and its errors in our own words."""

import asyncio
from collections.abc import Iterator
from concurrent.futures import CancelledError
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

from isch.errors import ClusterError, IschError, require

ANSWER_SECONDS = 4  # until a scheduler must have answered, and its first worker be there
LISTED = 3  # workers that a message names


@contextmanager
def connected(address: str) -> Iterator[Any]:
    """A client of the scheduler at an address such as tcp://host:8786.

    Raises
    ------
    ClusterError
        Nothing answers there, or not what a scheduler would.
    """
    distributed = require("distributed", "cluster")
    _check_address(address)
    try:
        asyncio.run(asyncio.wait_for(_identity(address), ANSWER_SECONDS))  # a client would wait longer than it is told
        client = distributed.Client(address, timeout=ANSWER_SECONDS, set_as_default=False)
    except Exception as error:  # whatever the other side made of our greeting
        raise ClusterError(f"{address}: no Dask scheduler answers there; expected one within 10 seconds") from error
    with client:
        yield client


def check_workers(client: Any) -> None:
    """Refuse a cluster without workers, or with another version of isch on one of them."""
    with in_our_words(client):
        try:
            client.wait_for_workers(1, timeout=ANSWER_SECONDS)
        except TimeoutError as error:
            raise ClusterError(f"{_address(client)}: the cluster has no workers; expected at least one") from error
        found = client.get_versions(packages=["isch"])
    here = _version(found["client"])
    versions = {worker: _version(known) for worker, known in found["workers"].items()}
    others = [f"{worker} has {version}" for worker, version in versions.items() if version != here]
    if others:
        more = f" and {len(others) - LISTED} more" if len(others) > LISTED else ""
        raise ClusterError(
            f"{_address(client)}: expected isch {here} on every worker, as here; {', '.join(others[:LISTED])}{more}"
        )


@contextmanager
def in_our_words(client: Any) -> Iterator[None]:
    """An error of the cluster itself becomes one sentence; ours, and what tasks raise about their data, stay."""
    from distributed import KilledWorker
    from distributed.comm import CommClosedError

    try:
        yield
    except (IschError, CancelledError):
        raise
    except KilledWorker as error:
        raise ClusterError(
            f"{_address(client)}: {error.allowed_failures + 1} workers died of the same task, the last one being "
            f"{error.last_worker.address}; it probably needs more memory than they have"
        ) from error
    except (CommClosedError, TimeoutError, RuntimeError) as error:
        if client.status == "running" and not isinstance(error, CommClosedError):
            raise
        raise ClusterError(f"{_address(client)}: the connection to the cluster was lost") from error


def _check_address(address: str) -> None:
    try:
        parts = urlsplit(address if "://" in address else f"tcp://{address}")
        fits = parts.scheme in ("tcp", "tls") and parts.hostname and parts.port
    except ValueError:
        fits = False
    if not fits:
        raise ClusterError(f"expected the address of a Dask scheduler, such as tcp://host:8786; got {address!r}")


async def _identity(address: str) -> None:
    """Ask a scheduler who it is."""
    from distributed.core import rpc

    async with rpc(address, timeout=ANSWER_SECONDS) as scheduler:
        await scheduler.identity()


def _version(known: dict[str, Any] | None) -> str:
    """The version of isch in what a process says of its packages."""
    return str((known or {}).get("packages", {}).get("isch") or "none")


def _address(client: Any) -> str:
    return str(getattr(client.scheduler, "address", "the cluster"))
