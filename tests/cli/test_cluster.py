"""isch … --cluster: the same files, made by the workers of a Dask cluster."""

from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_digits

from isch import features
from isch.cli.program import run

DIGITS = load_digits().data.astype(np.float16)


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    np.save("features.npy", DIGITS)
    return tmp_path


def test_fit_on_a_cluster_writes_the_same_model(desk: Path, cluster: str, capsys: pytest.CaptureFixture[str]) -> None:
    for line in ("fit features.npy -o here --bits 16", f"fit features.npy -o there --bits 16 --cluster {cluster}"):
        assert run(line.split()) == 0, capsys.readouterr().err
    assert Path("here").read_bytes() == Path("there").read_bytes()


def test_encode_on_a_cluster_writes_the_same_codes(
    desk: Path, cluster: str, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = [
        "fit features.npy -o m --bits 16 --method lsh",
        "encode m features.npy -o here.npy",
        f"encode m features.npy -o there.npy --cluster {cluster}",
        f"encode m features.npy -o there.zarr --cluster {cluster}",
        f"encode m features.npy -o there --shards --cluster {cluster}",
    ]
    for line in lines:
        assert run(line.split()) == 0, capsys.readouterr().err
    here = np.load("here.npy")
    for name in ("there.npy", "there.zarr", "there"):
        opened = features.open(name)
        np.testing.assert_array_equal(opened.read(0, len(opened)), here)


def test_search_on_a_cluster_prints_the_same(desk: Path, cluster: str, capsys: pytest.CaptureFixture[str]) -> None:
    for line in ("fit features.npy -o m --bits 16 --method lsh", "index build features.npy --model m -o i"):
        assert run(line.split()) == 0
    capsys.readouterr()
    printed = []
    for line in ("search i features.npy -k 3", f"search i features.npy -k 3 --cluster {cluster}"):
        assert run(line.split()) == 0
        printed.append(capsys.readouterr().out)
    assert printed[0] == printed[1]


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("tcp://127.0.0.1:9", "tcp://127.0.0.1:9: no Dask scheduler answers there; expected one within 10 seconds"),
        ("nonsense", "expected the address of a Dask scheduler, such as tcp://host:8786; got 'nonsense'"),
    ],
)
def test_a_cluster_that_is_not_there_is_one_sentence(
    desk: Path, address: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["fit", "features.npy", "-o", "m", "--cluster", address]) == 2
    assert capsys.readouterr().err == f"isch: {message}\n"
    assert not Path("m").exists()
