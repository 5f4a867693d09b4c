"""Passes on a Dask cluster: the same bits as here, whatever happens to the workers."""

import os
import pickle
import signal
import socket
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from isch import compute, features
from isch.compute import connection, totals
from isch.compute.cluster import Cluster, active
from isch.compute.rows import RowSum
from isch.errors import ClusterError, FileError, InputError
from isch.features import Block, Features
from isch.hashing import pca

dask = pytest.importorskip("dask.array", reason="Dask is not installed")

ROWS = np.random.default_rng(0).standard_normal((10_000, 12)).astype(np.float32)


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Features:
    path = tmp_path_factory.mktemp("cluster") / "rows.npy"
    np.save(path, ROWS)
    return features.open(path)


@pytest.fixture(autouse=True)
def _short_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """So short that the tree of totals has several levels."""
    monkeypatch.setattr(totals, "RUN_BLOCKS", 1)
    monkeypatch.setattr(totals, "FAN", 3)


def forms(source: Features, folder: Path) -> Iterator[Features]:
    yield source
    yield features.Subset(source, np.arange(0, len(ROWS), 3))
    array = dask.from_array(ROWS, chunks=(3000, 5))
    yield features.open(array)
    yield features.open(array.persist())
    array.to_zarr(str(folder / "rows.zarr"))
    yield features.open(folder / "rows.zarr")
    shards = folder / "shards"
    shards.mkdir()
    for number, part in enumerate(np.array_split(ROWS, 3)):
        np.save(shards / f"{number}.npy", part)
    yield features.open(shards)


def test_totals_and_parts_are_those_of_threads_to_the_last_bit(client: Any, source: Features, tmp_path: Path) -> None:
    shift = ROWS.mean(axis=0, dtype=np.float64)
    for form in forms(source, tmp_path):
        for work in (RowSum(12), pca.Moments(shift)):
            with compute.using(compute.Threads()):
                here = compute.run(work, form)
            with compute.using(Cluster(client)):
                there = compute.run(work, form)
            for one, other in zip(here, there, strict=True):
                np.testing.assert_array_equal(one, other)
        with compute.using(Cluster(client)):
            rows = compute.load(form, np.arange(1000, 3000), shift)
        np.testing.assert_array_equal(rows, compute.load(features.open(_all(form)), np.arange(1000, 3000), shift))


def _all(form: Features) -> NDArray[Any]:
    return np.asarray(form.read(0, len(form)))


@dataclass(frozen=True)
class Where(compute.Reduction[set[int]]):
    """The processes that did the work."""

    def zero(self) -> set[int]:
        return set()

    def block(self, block: Block, start: int) -> set[int]:
        return {os.getpid()}

    def combine(self, total: set[int], part: set[int]) -> set[int]:
        return total | part


def test_an_active_client_does_the_work_of_files_and_arrays_stay_here(client: Any, source: Features) -> None:
    here = {os.getpid()}
    assert compute.run(Where(), source).isdisjoint(here)
    assert compute.run(Where(), features.open(ROWS)) == here
    with compute.using(compute.Threads()):
        assert compute.run(Where(), source) == here


def test_a_task_that_fits_by_itself_does_not_wait_for_other_tasks(client: Any, source: Features) -> None:
    assert client.submit(active).result() is None
    total = client.submit(compute.run, RowSum(12), source).result()
    np.testing.assert_allclose(total[0], ROWS.sum(axis=0, dtype=np.float64))


def test_only_small_results_travel(client: Any, source: Features) -> None:
    """A job on a file of any size is sent as a path."""
    job = compute.Job(RowSum(12), source, 1024)
    assert len(pickle.dumps(job)) < 2000


@dataclass(frozen=True)
class Deadly(compute.Reduction[int]):
    """Counts rows; whoever works on a certain block while a file exists removes the file and dies."""

    bomb: Path

    def zero(self) -> int:
        return 0

    def block(self, block: Block, start: int) -> int:
        if start >= 5000 and self.bomb.exists():
            self.bomb.unlink()
            os.kill(os.getpid(), signal.SIGKILL)
        return block.shape[0]

    def combine(self, total: int, part: int) -> int:
        return total + part


@dataclass(frozen=True)
class Poisoned(Deadly):
    """Counts rows; whoever receives it while a file exists removes the file and dies."""

    home: int

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        if os.getpid() != self.home and self.bomb.exists():
            self.bomb.unlink()
            os.kill(os.getpid(), signal.SIGKILL)


def test_the_loss_of_a_worker_is_survived(own_cluster: Any, source: Features, tmp_path: Path) -> None:
    """The only worker dies, and with it all that was or is being sent to it; the next one is sent it again."""
    bomb = tmp_path / "bomb"
    with compute.using(Cluster(own_cluster)):
        for way in (
            lambda: compute.run(Poisoned(bomb, os.getpid()), source),
            lambda: sum(compute.iterate(Deadly(bomb), source)),
        ):
            bomb.touch()
            assert way() == len(ROWS)
            assert not bomb.exists()


@dataclass(frozen=True)
class AlwaysDeadly(compute.Pass[int]):
    def block(self, block: Block, start: int) -> int:
        os.kill(os.getpid(), signal.SIGKILL)
        return 0


def test_a_task_that_kills_every_worker_is_given_up(
    own_cluster: Any, source: Features, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("isch.compute.cluster.SENDINGS", 1)
    with (
        compute.using(Cluster(own_cluster)),
        pytest.raises(ClusterError, match=r"workers died of the same task|lost all of its workers"),
    ):
        list(compute.iterate(AlwaysDeadly(), source))


def test_what_a_worker_finds_wrong_is_said_as_here(client: Any, tmp_path: Path) -> None:
    bad = ROWS.copy()
    bad[7_000, 3] = np.nan
    np.save(tmp_path / "bad.npy", bad)
    with pytest.raises(InputError, match=r"bad.npy: 1 value is NaN or infinity, the first in row 7000"):
        compute.mean(features.open(tmp_path / "bad.npy"))
    np.save(tmp_path / "gone.npy", ROWS)
    gone = features.open(tmp_path / "gone.npy")
    (tmp_path / "gone.npy").unlink()
    with pytest.raises(FileError, match=r"gone.npy: No such file or directory \(on the worker tcp://.*same files"):
        compute.mean(gone)


def change_file(folder: Path) -> Path:
    np.save(folder / "x.npy", ROWS)
    return folder / "x.npy"


def change_shard(folder: Path) -> Path:
    (folder / "x").mkdir()
    for number in range(2):
        np.save(folder / "x" / f"{number}.npy", ROWS)
    return folder / "x"


def change_zarr(folder: Path) -> Path:
    dask.from_array(ROWS, chunks=(3000, 12)).to_zarr(str(folder / "x.zarr"))
    return folder / "x.zarr"


@pytest.mark.parametrize("place", ["here", "there"])
@pytest.mark.parametrize("form", [change_file, change_shard, change_zarr])
def test_what_changed_between_passes_is_refused(form: Any, place: str, client: Any, tmp_path: Path) -> None:
    path = form(tmp_path)
    opened = features.open(path)
    some = features.Subset(opened, np.arange(0, len(opened), 3))
    with compute.using(compute.Threads() if place == "here" else Cluster(client)):
        compute.mean(some)
        one = path if path.is_file() else max(p for p in path.rglob("*") if p.is_file() and "json" not in p.name)
        one.write_bytes(one.read_bytes())
        with pytest.raises(FileError, match=r"x\S*: has changed since it was opened"):
            compute.mean(some)


@pytest.mark.parametrize("address", ["hello", "http://x:1", "tcp://:x", "tcp://", "tcp://a:99999", "tcp://[::1:8786"])
def test_what_is_no_address_is_said(address: str) -> None:
    with pytest.raises(ClusterError, match=r"expected the address of a Dask scheduler"), connection.connected(address):
        pass


def test_a_scheduler_that_is_not_there_is_said_at_once() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with (
        pytest.raises(ClusterError, match=rf"tcp://127.0.0.1:{port}: no Dask scheduler answers there"),
        connection.connected(f"tcp://127.0.0.1:{port}"),
    ):
        pass


@pytest.mark.parametrize("answer", [b"", b"HTTP/1.1 400 Bad Request\r\n\r\n" * 10], ids=["silent", "another server"])
def test_a_server_that_is_no_scheduler_is_said_within_ten_seconds(answer: bytes) -> None:
    begin = time.monotonic()
    with socket.create_server(("127.0.0.1", 0)) as server:
        threading.Thread(target=_serve, args=(server, answer), daemon=True).start()
        address = f"tcp://127.0.0.1:{server.getsockname()[1]}"
        with pytest.raises(ClusterError, match=r"no Dask scheduler answers there"), connection.connected(address):
            pass
    assert time.monotonic() - begin < 10


def _serve(server: socket.socket, answer: bytes) -> None:
    held = []
    while True:
        try:
            held.append(server.accept()[0])
            held[-1].sendall(answer)
        except OSError:
            return


def test_workers_of_another_version_are_named(client: Any) -> None:
    one = min(client.nthreads())
    client.run(_pretend, "9.9", workers=[one])
    with pytest.raises(ClusterError, match=rf"expected isch \d\S* on every worker, as here; {one} has 9.9$"):
        Cluster(client)
    client.run(_pretend, None, workers=[one])
    Cluster(client)


def _pretend(version: str | None) -> None:
    """Make a worker say that it has another version; None: no longer."""
    import distributed.versions

    module: Any = distributed.versions
    if version is None:
        module._version_cached = module.truth
    else:
        module.truth, module._version_cached = module._version_cached, lambda package: version


def test_a_cluster_without_workers_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    from distributed import Client, LocalCluster

    monkeypatch.setattr(connection, "ANSWER_SECONDS", 0.5)
    with (
        LocalCluster(n_workers=0, dashboard_address=":0", processes=False) as empty,
        Client(empty) as client,
        pytest.raises(ClusterError, match=r"the cluster has no workers"),
    ):
        Cluster(client)
