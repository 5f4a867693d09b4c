"""The connection to a Dask cluster: made in time, checked, and its errors in our own words.

An address that begins with tls:// is reached with the certificates that Dask's own configuration names.
"""

import asyncio
import ssl
from collections.abc import Iterator
from concurrent.futures import CancelledError
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

from isch.errors import ClusterError, IschError, require

ANSWER_SECONDS = 4  # until a scheduler must have answered, and its first worker be there
LISTED = 3  # workers that a message names
TLS = "distributed.comm.tls"  # where Dask's configuration names certificates
TLS_FILES = {"ca-file": "tls_ca_file", "client.cert": "tls_client_cert", "client.key": "tls_client_key"}
REQUIRED = ("ca-file", "client.cert")  # the certificate's file may hold the key, too


@contextmanager
def connected(address: str) -> Iterator[Any]:
    """A client of the scheduler at an address such as tcp://host:8786 or tls://host:8786.

    Raises
    ------
    ClusterError
        Nothing answers there, or not what a scheduler would, or one side does not trust the other's certificate.
    """
    distributed = require("distributed", "cluster")
    _check_address(address)
    security, tls = _configured(address)
    try:
        # A client would wait longer than it is told.
        asyncio.run(asyncio.wait_for(_identity(address, tls), ANSWER_SECONDS))
        client = distributed.Client(address, security=security, timeout=ANSWER_SECONDS, set_as_default=False)
    except Exception as error:  # whatever the other side made of our greeting
        if (reason := _refusal(error)) is not None:
            raise ClusterError(f"{address}: the TLS connection failed ({reason}); {_named(security)}") from error
        if address.startswith("tls://"):  # a scheduler that refuses a certificate only hangs up
            raise ClusterError(
                f"{address}: no Dask scheduler answers there, or it does not trust the certificate; {_named(security)}"
            ) from error
        raise ClusterError(f"{address}: no Dask scheduler answers there; expected one within 10 seconds") from error
    with client:
        yield client


def check_workers(client: Any) -> None:
    """Refuse a cluster without workers, or with another version of isch on one of them."""
    with translate_errors(client):
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
def translate_errors(client: Any) -> Iterator[None]:
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


def _configured(address: str) -> tuple[Any, dict[str, Any]]:
    """Return what Dask's configuration says of security, and the arguments of a connection that follow from it."""
    from distributed import Security

    try:
        security = Security()
    except (ValueError, TypeError) as error:
        raise ClusterError(f"Dask's configuration of {TLS} cannot be used ({error})") from error
    if security.require_encryption and address.startswith("tcp://"):
        raise ClusterError(f"{address}: Dask's configuration requires encryption; expected tls://host:port")
    if address.startswith("tls://"):
        missing = [f"{TLS}.{name}" for name in REQUIRED if not getattr(security, TLS_FILES[name])]
        if missing:
            raise ClusterError(f"{address}: TLS needs certificates; Dask's configuration lacks {' and '.join(missing)}")
    try:
        return security, security.get_connection_args("client")
    except (OSError, ValueError, TypeError) as error:  # which does not say the file that it is about
        words = getattr(error, "strerror", None) or error
        raise ClusterError(f"{address}: the certificates cannot be used ({words}); {_named(security)}") from error


def _named(security: Any) -> str:
    """Name the files of certificates in Dask's configuration, which may hold a certificate or a key itself, too."""
    values = {name: str(getattr(security, field)) for name, field in TLS_FILES.items()}
    listed = [f"{TLS}.{name}: {value if value.isprintable() else '(text)'}" for name, value in values.items()]
    return f"Dask's configuration has {', '.join(listed)}"


def _refusal(error: BaseException | None) -> str | None:
    """Return the words of the TLS error that is behind an error, if there is one."""
    while error is not None:
        if isinstance(error, ssl.SSLError):
            return str(getattr(error, "verify_message", None) or error.reason or error)
        error = error.__cause__ or error.__context__
    return None


async def _identity(address: str, tls: dict[str, Any]) -> None:
    """Ask a scheduler who it is."""
    from distributed.core import rpc

    async with rpc(address, timeout=ANSWER_SECONDS, connection_args=tls) as scheduler:
        await scheduler.identity()


def _version(known: dict[str, Any] | None) -> str:
    """The version of isch in what a process says of its packages."""
    return str((known or {}).get("packages", {}).get("isch") or "none")


def _address(client: Any) -> str:
    return str(getattr(client.scheduler, "address", "the cluster"))
