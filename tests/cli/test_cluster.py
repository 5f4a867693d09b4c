"""isch … --cluster: the same files, made by the workers of a Dask cluster."""

import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

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


SERVER = """
import sys
from distributed import LocalCluster, Security

folder = sys.argv[1]
sides = {f"tls_{side}_{kind}": f"{folder}/one.{kind}" for side in ("scheduler", "worker", "client") for kind in KINDS}
security = Security(require_encryption=True, tls_ca_file=f"{folder}/ca.cert", **sides)
if __name__ == "__main__":
    with LocalCluster(1, threads_per_worker=1, protocol="tls://", security=security, dashboard_address=":0") as cluster:
        print(cluster.scheduler_address, flush=True)
        sys.stdin.read()
""".replace("KINDS", '("cert", "key")')


def openssl(folder: Path, *arguments: str) -> None:
    subprocess.run(["openssl", *arguments], cwd=folder, check=True, capture_output=True)


def certify(folder: Path, name: str, signer: str | None) -> None:
    """Make a key and a certificate, signed by another or by itself."""
    new = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-keyout", f"{name}.key")
    if signer is None:
        openssl(folder, "req", "-x509", *new, "-out", f"{name}.cert", "-days", "2", "-subj", f"/CN={name}")
        return
    openssl(folder, "req", *new, "-out", f"{name}.request", "-subj", f"/CN={name}")
    authority = ("-CA", f"{signer}.cert", "-CAkey", f"{signer}.key", "-CAcreateserial", "-days", "2")
    openssl(folder, "x509", "-req", "-in", f"{name}.request", *authority, "-out", f"{name}.cert")


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if shutil.which("openssl") is None:
        pytest.skip("the program openssl is not installed")
    folder = tmp_path_factory.mktemp("certificates")
    for name, signer in (("ca", None), ("one", "ca"), ("other", None)):
        certify(folder, name, signer)
    return folder


@pytest.fixture(scope="module")
def encrypted(certificates: Path) -> Iterator[str]:
    """The address of a Dask cluster that speaks TLS and trusts the certificates that its own authority signed."""
    pytest.importorskip("distributed", reason="the package distributed is not installed")
    script = certificates / "server.py"
    script.write_text(SERVER)
    command = [sys.executable, str(script), str(certificates)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    with subprocess.Popen(command, text=True, **pipes) as server:
        yield server.stdout.readline().strip()
        server.communicate()


def configured(certificates: Path, ca: str, own: str) -> dict[str, Any]:
    """The settings of Dask for one side."""
    own = certificates / own
    files = {"ca-file": certificates / f"{ca}.cert", "client.cert": f"{own}.cert", "client.key": f"{own}.key"}
    return {f"distributed.comm.tls.{name}": str(path) for name, path in files.items()}


def test_a_cluster_with_tls_is_reached_with_the_certificates_of_the_configuration(
    desk: Path, encrypted: str, certificates: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    import dask

    assert encrypted.startswith("tls://")
    lines = [
        "fit features.npy -o m --bits 16 --method lsh",
        "encode m features.npy -o here.npy",
        f"encode m features.npy -o there.npy --cluster {encrypted}",
    ]
    with dask.config.set(configured(certificates, "ca", "one")):
        for line in lines:
            assert run(line.split()) == 0, capsys.readouterr().err
    assert Path("here.npy").read_bytes() == Path("there.npy").read_bytes()


@pytest.mark.parametrize(
    ("ca", "own", "change", "message"),
    [
        (None, None, {}, "TLS needs certificates; Dask's configuration lacks distributed.comm.tls.ca-file and "),
        ("other", "other", {}, "the TLS connection failed (self-signed certificate in certificate chain); Dask's"),
        ("ca", "other", {}, "ca-file: "),
        ("ca", "one", {"client.key": "nowhere"}, "the certificates cannot be used (No such file or directory); Dask's"),
        ("ca", "one", {"client.key": "-----BEGIN\nSECRET\n"}, "distributed.comm.tls.client.key: (text)"),
        ("ca", "one", {"min-version": 1.0}, "Dask's configuration of distributed.comm.tls cannot be used ("),
    ],
)
def test_tls_that_cannot_work_is_one_sentence(
    ca: str | None,
    own: str | None,
    change: dict[str, Any],
    message: str,
    desk: Path,
    encrypted: str,
    certificates: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    import dask

    settings = {} if ca is None else configured(certificates, ca, own)
    with dask.config.set(settings | {f"distributed.comm.tls.{name}": value for name, value in change.items()}):
        assert run(["fit", "features.npy", "-o", "m", "--cluster", encrypted]) == 2
    errors = capsys.readouterr().err
    assert message in errors
    assert errors.count("\n") == 1
    assert "SECRET" not in errors
    assert not Path("m").exists()


def test_encryption_that_the_configuration_requires(
    desk: Path, cluster: str, capsys: pytest.CaptureFixture[str]
) -> None:
    import dask

    with dask.config.set({"distributed.comm.require-encryption": True}):
        assert run(["fit", "features.npy", "-o", "m", "--cluster", cluster]) == 2
    assert "Dask's configuration requires encryption; expected tls://host:port" in capsys.readouterr().err
