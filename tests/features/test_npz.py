import zipfile
from io import BytesIO
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse

from isch import features
from isch.errors import FormatError, InputError
from isch.features import checks
from isch.features import npz as module

X = np.arange(24, dtype=np.float32).reshape(6, 4)


def test_only_the_matrix_meant_is_decompressed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    np.savez_compressed(tmp_path / "x.npz", features=X, others=np.zeros((1000, 1000)))
    loaded: list[str] = []
    load = module.Members.load
    monkeypatch.setattr(module.Members, "load", lambda self, name: loaded.append(name) or load(self, name))
    np.testing.assert_array_equal(features.open(tmp_path / "x.npz").read(0, 6), X)
    assert loaded == ["features"]


def test_a_header_costs_no_decompression(tmp_path: Path) -> None:
    """A member of a terabyte beside the one that is meant; reading it would end in a bad checksum at least."""
    with zipfile.ZipFile(tmp_path / "x.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        content = BytesIO()
        np.save(content, X)
        archive.writestr("features.npy", content.getvalue())
        head = BytesIO()
        np.lib.format.write_array_header_1_0(
            head, {"descr": "<f4", "fortran_order": False, "shape": (1 << 20, 1 << 10)}
        )
        info = zipfile.ZipInfo("other.npy")
        info.compress_type = zipfile.ZIP_DEFLATED
        with archive.open(info, "w") as member:
            member.write(head.getvalue() + bytes(5 << 20))
        info.file_size = len(head.getvalue()) + (4 << 30)
        info.compress_size, info.CRC = 5 << 20, 0
    with zipfile.ZipFile(tmp_path / "x.npz") as archive:
        assert archive.getinfo("other.npy").file_size > 4 << 30
    np.testing.assert_array_equal(features.open(tmp_path / "x.npz").read(0, 6), X)


def test_what_cannot_fit_memory_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    np.savez_compressed(tmp_path / "x.npz", features=np.zeros((1000, 1000)))
    monkeypatch.setattr(checks, "physical_memory", lambda: 1 << 20)
    with pytest.raises(InputError, match=r"x\.npz::features: 0\.0 GiB must be in memory at once"):
        features.open(tmp_path / "x.npz")


def test_a_size_that_deflate_cannot_reach(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "x.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("features.npy", b"\x93NUMPY")
        archive.getinfo("features.npy").file_size = 1 << 40
    with pytest.raises(FormatError, match=r"1,099,511,627,776 bytes cannot come from \d+"):
        features.open(tmp_path / "x.npz")


def test_names_of_rows_and_other_names(tmp_path: Path) -> None:
    np.savez(tmp_path / "x.npz", features=X, names=np.array(list("abcdef")))
    assert features.open(tmp_path / "x.npz").names == list("abcdef")
    np.savez(tmp_path / "x.npz", features=X, names=np.array(["cat", "dog"]))
    assert features.open(tmp_path / "x.npz").names is None


@pytest.mark.parametrize("kind", ["csr", "csc", "bsr", "coo", "dia"])
def test_every_sparse_format_of_scipy(tmp_path: Path, kind: str) -> None:
    sparse.save_npz(tmp_path / "x.npz", sparse.csr_array(X).asformat(kind))
    np.testing.assert_array_equal(features.dense(features.open(tmp_path / "x.npz").read(0, 6)), X)


def test_sparse_files_are_named_when_refused(tmp_path: Path) -> None:
    sparse.save_npz(tmp_path / "x.npz", sparse.csr_array(X))
    with np.load(tmp_path / "x.npz") as archive:
        arrays = dict(archive)
    arrays["indices"][3] = 400
    np.savez(tmp_path / "x.npz", **arrays)
    with pytest.raises(InputError, match=r"x\.npz: column index 400 is outside the matrix; expected 0 to 3"):
        features.open(tmp_path / "x.npz")


def test_a_npy_under_the_name_of_a_npz(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", X)
    (tmp_path / "x.npy").rename(tmp_path / "x.npz")
    with pytest.raises(FormatError, match=r"x\.npz: not a readable \.npz file"):
        features.open(tmp_path / "x.npz")


def test_a_directory_that_hides_members(tmp_path: Path) -> None:
    """A comment or extra field that is longer than it was swallows the entries after it."""
    np.savez(tmp_path / "x.npz", features=X, names=np.array(list("abcdef")))
    content = bytearray((tmp_path / "x.npz").read_bytes())
    entry = content.index(b"PK\1\2")
    content[entry + 32] = content.index(b"PK\5\6") - entry - 46 - len("features.npy")
    (tmp_path / "x.npz").write_bytes(content)
    with zipfile.ZipFile(tmp_path / "x.npz") as archive:
        assert len(archive.infolist()) == 1
    with pytest.raises(FormatError, match="1 arrays; expected as many as the end of the file says"):
        features.open(tmp_path / "x.npz")
