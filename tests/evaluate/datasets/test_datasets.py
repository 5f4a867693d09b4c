"""Every loader on small files written in the true format of its dataset, and on files that are not."""

import gzip
import pickle
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import isch
from isch.errors import FileError, FormatError, InputError, ParameterError
from isch.evaluate.datasets import DISTRACTOR, load, loaded
from isch.evaluate.datasets.cifar import CLASSES, read_python
from isch.evaluate.datasets.holidays import SIFTGEO, read_siftgeo
from isch.evaluate.datasets.mnist import read_idx
from isch.features import dense

RNG = np.random.default_rng(0)


def idx(array: NDArray[np.uint8]) -> bytes:
    return bytes([0, 0, 8, array.ndim]) + np.array(array.shape, ">i4").tobytes() + array.tobytes()


def write_mnist(folder: Path, zipped: bool) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    images, labels = RNG.integers(0, 256, (7, 28, 28), np.uint8), RNG.integers(0, 10, 7, np.uint8)
    for name, rows in (("train", slice(0, 5)), ("t10k", slice(5, 7))):
        for kind, array in (("images-idx3", images), ("labels-idx1", labels)):
            raw = idx(array[rows])
            path = folder / f"{name}-{kind}-ubyte{'.gz' if zipped else ''}"
            path.write_bytes(gzip.compress(raw) if zipped else raw)
    return images, labels


@pytest.mark.parametrize("zipped", [True, False])
def test_mnist(tmp_path: Path, zipped: bool) -> None:
    images, labels = write_mnist(tmp_path, zipped)
    data = load("mnist", tmp_path)
    assert data.features is not None
    np.testing.assert_array_equal(data.labels, labels)
    np.testing.assert_allclose(dense(data.features.read(0, 7)), images.reshape(7, -1) / 255, rtol=1e-6)


def test_a_truncated_idx_file_is_refused(tmp_path: Path) -> None:
    write_mnist(tmp_path, zipped=False)
    path = tmp_path / "t10k-images-idx3-ubyte"
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(FormatError, match=r"expected 2 × 28 × 28 bytes of data; got 1583 bytes in all"):
        load("mnist", tmp_path)
    path.write_bytes(b"<html>")
    with pytest.raises(FormatError, match="not an IDX file"):
        load("mnist", tmp_path)


@pytest.mark.parametrize(
    "content",
    [
        b"\0\0\x08\x02" + np.array([-2, -1], ">i4").tobytes() + b"ab",
        b"\0\0\x08\xff" + bytes(1020),
        b"\0\0\x08\0",
        b"\0\0\x08\x03" + np.array([65536, 65536, 4], ">i4").tobytes(),
        b"\0\0",
    ],
)
def test_a_crafted_idx_file_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "x").write_bytes(content)
    with pytest.raises(FormatError, match="not an IDX file of bytes|bytes of data"):
        read_idx(tmp_path / "x")


def test_damage_of_a_zipped_idx_file_is_refused(tmp_path: Path) -> None:
    whole = gzip.compress(idx(np.arange(40, dtype=np.uint8).reshape(8, 5)), mtime=0)
    path = tmp_path / "x.gz"
    header = range(4, 10)  # date and system, which nothing depends on
    for place in (i for i in range(len(whole)) if i not in header):
        damaged = bytearray(whole)
        damaged[place] ^= 0x81
        for content in (bytes(damaged), whole[:place]):
            path.write_bytes(content)
            with pytest.raises(FormatError):
                read_idx(path)


def test_images_of_two_sizes_are_refused(tmp_path: Path) -> None:
    write_mnist(tmp_path, zipped=False)
    (tmp_path / "t10k-images-idx3-ubyte").write_bytes(idx(np.zeros((2, 5, 5), np.uint8)))
    with pytest.raises(FormatError, match="hold items of different sizes"):
        load("mnist", tmp_path)


def cifar_batches() -> list[tuple[str, NDArray[np.uint8], NDArray[np.uint8]]]:
    names = [*(f"data_batch_{i}" for i in range(1, 6)), "test_batch"]
    return [(n, RNG.integers(0, 256, (3, 3072), np.uint8), RNG.integers(0, 10, 3, np.uint8)) for n in names]


def test_both_versions_of_cifar_give_the_same(tmp_path: Path) -> None:
    batches = cifar_batches()
    for folder in ("bin/cifar-10-batches-bin", "py/cifar-10-batches-py"):
        (tmp_path / folder).mkdir(parents=True)
    for name, planes, labels in batches:
        rows = np.hstack([labels[:, None], planes])
        (tmp_path / "bin/cifar-10-batches-bin" / f"{name}.bin").write_bytes(rows.tobytes())
        content = {b"data": planes, b"labels": labels.tolist(), b"batch_label": name.encode()}
        (tmp_path / "py/cifar-10-batches-py" / name).write_bytes(pickle.dumps(content, protocol=2))
    binary, python = load("cifar10", tmp_path / "bin"), load("cifar10", tmp_path / "py")
    assert isinstance(binary.images, np.ndarray)
    assert isinstance(python.images, np.ndarray)
    np.testing.assert_array_equal(binary.images, python.images)
    np.testing.assert_array_equal(binary.labels, python.labels)
    planes = batches[0][1]
    assert binary.images[1, 2, 5].tolist() == [planes[1, c * 1024 + 2 * 32 + 5] for c in range(3)]
    assert binary.classes == CLASSES


class Evil:
    def __reduce__(self) -> tuple[object, tuple[str]]:
        return (eval, ("1/0",))


def test_a_pickle_that_wants_more_than_arrays_is_refused(tmp_path: Path) -> None:
    (tmp_path / "data_batch_1").write_bytes(pickle.dumps({b"data": Evil()}, protocol=2))
    with pytest.raises(FormatError, match=r"asks for (builtins|__builtin__)\.eval"):
        load("cifar10", tmp_path)


def picture(path: Path) -> None:
    from PIL import Image

    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(RNG.integers(0, 256, (24, 24, 3), np.uint8)).save(path)


def test_damaged_pickles_are_refused_or_read(tmp_path: Path) -> None:
    content = {b"data": np.zeros((3, 3072), np.uint8), b"labels": [1, 2, 3]}
    whole, rng = pickle.dumps(content, protocol=2), random.Random(0)
    frame = [i for i in range(len(whole)) if i < 300 or i > len(whole) - 100]
    for _ in range(500):
        damaged = bytearray(whole)
        damaged[rng.choice(frame)] ^= 1 << rng.randrange(8)
        (tmp_path / "x").write_bytes(damaged)
        try:
            planes, labels = read_python(tmp_path / "x")
        except FormatError:
            continue
        assert len(planes) == len(labels)


@pytest.mark.parametrize(
    "batch",
    [
        [1],
        {b"data": "x", b"labels": []},
        {b"data": np.zeros((1, 3072), np.uint8), b"labels": [1, 2]},
        {b"data": np.zeros((1, 5), np.uint8), b"labels": [1]},
        {b"data": np.zeros((1, 3072), np.uint8), b"labels": [[1]]},
        {b"data": np.array([{}, 3], object), b"labels": [1]},
    ],
)
def test_pickles_of_something_else_are_refused(tmp_path: Path, batch: object) -> None:
    (tmp_path / "x").write_bytes(pickle.dumps(batch, protocol=2))
    with pytest.raises(FormatError):
        read_python(tmp_path / "x")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"name": "../../outside"}, "unknown option of dataset copies: 'name'; known: scenes, seed"),
        ({"scenes": "2"}, "option 'scenes' must be of type int; got '2'"),
        ({"scenes": True}, "option 'scenes' must be of type int; got True"),
    ],
)
def test_options_are_checked(tmp_path: Path, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        loaded("copies", tmp_path, options)


def test_an_experiment_cannot_name_a_dataset_and_so_its_files(tmp_path: Path) -> None:
    for option in ("name", "path", "folder"):
        with pytest.raises(ParameterError, match=f"unknown option of dataset folders: '{option}'"):
            loaded("folders", tmp_path, {option: "../../outside"})


def test_class_folders(tmp_path: Path) -> None:
    for name in ("cat/1.png", "cat/2.png", "ant/x.png"):
        picture(tmp_path / name)
    data = load("folders", tmp_path)
    assert data.classes == ("ant", "cat")
    assert data.labels is not None
    assert data.labels.tolist() == [0, 1, 1]
    assert data.images is not None
    assert [Path(p).name for p in data.images] == ["x.png", "1.png", "2.png"]
    with pytest.raises(FileError, match="found no images"):
        load("folders", tmp_path / "cat")


def test_ilsvrc2010_as_folders_and_as_features(tmp_path: Path) -> None:
    picture(tmp_path / "a/train/n01440764/n01440764_1.jpg")
    assert load("ilsvrc2010", tmp_path / "a").classes == ("n01440764",)
    (tmp_path / "b").mkdir()
    np.save(tmp_path / "b/features.npy", np.eye(3, dtype=np.float32))
    np.save(tmp_path / "b/labels.npy", [0, 1, 1])
    assert load("ilsvrc2010", tmp_path / "b").n_items == 3
    with pytest.raises(FileError, match=r"expected train/n########/\*\.JPEG.*image-net\.org"):
        load("ilsvrc2010", tmp_path)


def test_features_with_labels_of_words(tmp_path: Path) -> None:
    np.save(tmp_path / "features.npy", np.eye(4, dtype=np.float32))
    (tmp_path / "labels.txt").write_text("dog\nant\n\ndog\nbee\n")
    data = load("features", tmp_path)
    assert data.classes == ("ant", "bee", "dog")
    assert data.labels is not None
    assert data.labels.tolist() == [2, 0, 2, 1]


def test_labels_and_features_of_different_length_are_refused(tmp_path: Path) -> None:
    np.save(tmp_path / "features.npy", np.eye(4, dtype=np.float32))
    np.save(tmp_path / "labels.npy", np.arange(3))
    with pytest.raises(InputError, match=r"labels\.npy: 3 labels; .*features\.npy has 4 rows"):
        load("features", tmp_path)
    (tmp_path / "labels.npy").unlink()
    with pytest.raises(FileError, match=r"missing labels\.npy"):
        load("features", tmp_path)


def test_holidays_scenes_queries_and_distractors(tmp_path: Path) -> None:
    for name in ("holidays/jpg/100000.jpg", "holidays/jpg/100001.jpg", "holidays/jpg/100100.jpg", "flickr1m/0/7.jpg"):
        picture(tmp_path / name)
    data = load("holidays", tmp_path / "holidays")
    assert data.labels is not None
    assert data.queries is not None
    assert data.labels.tolist() == [1000, 1000, 1001, DISTRACTOR]
    assert data.queries.tolist() == [0, 2]
    with pytest.raises(FileError, match=r"siftgeo/100000\.siftgeo.*siftgeo\.tar\.gz"):
        load("holidays", tmp_path / "holidays", descriptors=True)


def test_siftgeo_files(tmp_path: Path) -> None:
    rows = np.zeros(3, SIFTGEO)
    rows["length"], rows["values"] = 128, RNG.integers(0, 256, (3, 128))
    rows["geometry"][:, 0] = [1.5, 2.5, 3.5]
    path = tmp_path / "siftgeo/100000.siftgeo"
    path.parent.mkdir()
    path.write_bytes(rows.tobytes())
    assert path.stat().st_size == 3 * 168
    geometry, values = read_siftgeo(path)
    assert geometry[:, 0].tolist() == [1.5, 2.5, 3.5]
    np.testing.assert_array_equal(values, rows["values"])
    assert load("holidays", tmp_path, descriptors=True).local == [path]
    path.write_bytes(rows.tobytes()[:-1])
    with pytest.raises(FormatError, match="whole number of 168-byte descriptors; got 503 bytes"):
        read_siftgeo(path)


def test_wdref_with_lfw_as_distractors(tmp_path: Path) -> None:
    from scipy.io import savemat

    known, others = RNG.random((5, 8)), RNG.random((3, 8))
    savemat(tmp_path / "lbp_WDRef.mat", {"lbp_WDRef": known})
    savemat(tmp_path / "lbp_lfw.mat", {"lbp_lfw": others})
    savemat(tmp_path / "id_WDRef.mat", {"id_WDRef": np.array([[1], [1], [2], [2], [2]])})
    data = load("wdref", tmp_path, kind="lbp")
    assert data.labels is not None
    assert data.labels.tolist() == [1, 1, 2, 2, 2, DISTRACTOR, DISTRACTOR, DISTRACTOR]
    assert data.features is not None
    unit = known / np.linalg.norm(known, axis=1, keepdims=True)
    np.testing.assert_allclose(dense(data.features.read(0, 5)), unit, rtol=1e-5)
    with pytest.raises(FileError, match=r"expected le_WDRef\.mat, le_lfw\.mat in"):
        load("wdref", tmp_path)


def test_ann_benchmarks_files(tmp_path: Path) -> None:
    import h5py

    with h5py.File(tmp_path / "toy.hdf5", "w") as file:
        file["train"], file["test"] = np.eye(4, dtype=np.float32), np.ones((2, 4), np.float32)
        file["neighbors"] = np.array([[0, 1], [3, 2]])
    data = load("ann", tmp_path / "toy.hdf5")
    assert data.queries is not None
    assert data.neighbours is not None
    assert data.queries.tolist() == [4, 5]
    assert data.neighbours.tolist() == [[0, 1], [3, 2]]
    assert data.features is not None
    assert data.features.shape == (6, 4)
    with h5py.File(tmp_path / "half.hdf5", "w") as file:
        file["train"], file["test"] = np.eye(4, dtype=np.float32), np.ones((2, 4), np.float32)
    with pytest.raises(FormatError, match="no matrix called 'neighbors'"):
        load("ann", tmp_path / "half.hdf5")
    with h5py.File(tmp_path / "floats.hdf5", "w") as file:
        file["train"], file["test"] = np.eye(4, dtype=np.float32), np.ones((2, 4), np.float32)
        file["neighbors"] = np.zeros((2, 2))
    with pytest.raises(FormatError, match="expected true neighbours as row numbers; got values of type float64"):
        load("ann", tmp_path / "floats.hdf5")


def vecs(rows: NDArray[np.generic]) -> bytes:
    return b"".join(np.int32(len(row)).tobytes() + row.tobytes() for row in rows)


def test_texmex_triples(tmp_path: Path) -> None:
    (tmp_path / "toy_base.fvecs").write_bytes(vecs(np.eye(4, dtype="<f4")))
    (tmp_path / "toy_query.fvecs").write_bytes(vecs(np.ones((2, 4), "<f4")))
    with pytest.raises(FileError, match=r"groundtruth\.ivecs.*corpus-texmex"):
        load("texmex", tmp_path)
    (tmp_path / "toy_groundtruth.ivecs").write_bytes(vecs(np.array([[0, 1], [3, 4]], "<i4")))
    with pytest.raises(FormatError, match="outside the 4 rows"):
        load("texmex", tmp_path)
    (tmp_path / "toy_groundtruth.ivecs").write_bytes(vecs(np.array([[0, 1], [3, 2]], "<i4")))
    assert load("texmex", tmp_path).n_items == 6


def test_copies_are_scenes_among_distractors(tmp_path: Path) -> None:
    for i in range(6):
        picture(tmp_path / f"n01/{i}.png")
    data = load("copies", tmp_path, scenes=2)
    assert data.labels is not None
    assert data.queries is not None
    assert data.labels.tolist() == [0] * 5 + [1] * 5 + [DISTRACTOR] * 4
    assert data.queries.tolist() == [0, 5]
    again = load("copies", tmp_path, scenes=2)
    assert data.images is not None
    assert again.images is not None
    for one, other in zip(data.images, again.images, strict=True):
        np.testing.assert_array_equal(one, other)


def test_an_unknown_dataset_lists_the_known() -> None:
    with pytest.raises(ParameterError, match=r"unknown dataset 'mnits' .did you mean mnist.*; known: .*mnist"):
        load("mnits")
    with pytest.raises(ParameterError, match="needs a path"):
        load("features")


def test_a_missing_dataset_says_which_files_and_where(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ISCH_DATA", str(tmp_path))
    with pytest.raises(FileError, match=r"s1/1\.pgm … s40/10\.pgm in .*orl-faces \(set ISCH_DATA"):
        load("orl-faces")


def test_datasets_are_reached_from_the_package() -> None:
    assert isch.datasets.load is load
