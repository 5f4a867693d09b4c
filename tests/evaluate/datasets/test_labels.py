"""Files of labels: whole numbers or words; anything else is one sentence."""

import os
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from isch.errors import FileError, FormatError, InputError
from isch.evaluate.datasets.matrices import read_labels


@pytest.mark.parametrize(
    ("name", "content", "numbers", "words"),
    [
        ("x.txt", "3\n-1\n\n3\n", [3, -1, 3], ()),
        ("x.csv", "cat\ndog\ncat\n", [0, 1, 0], ("cat", "dog")),
        ("x.txt", "²\n3\n", [1, 0], ("3", "²")),
        ("x.txt", "9" * 30 + "\n1\n", [1, 0], ("1", "9" * 30)),
        ("x.json", "[2, 0]", [2, 0], ()),
        ("x.json", '["b", "a"]', [1, 0], ("a", "b")),
        ("x.json", "[true, false]", [1, 0], ()),
        ("x.npy", np.array([4.0, 0.0]), [4, 0], ()),
        ("x.npy", np.array(["b", "a"]), [1, 0], ("a", "b")),
    ],
)
def test_numbers_are_kept_and_words_are_numbered(
    tmp_path: Path, name: str, content: Any, numbers: list[int], words: tuple[str, ...]
) -> None:
    path = tmp_path / name
    if isinstance(content, str):
        path.write_text(content)
    else:
        np.save(path, content)
    found, names = read_labels(path)
    assert (found.tolist(), names) == (numbers, words)


@pytest.mark.parametrize(
    "array",
    [
        np.array([1j]),
        np.array([np.nan, 1]),
        np.array([np.inf, 1]),
        np.array([1e300]),
        np.array([0.5]),
        np.array([2**64 - 1], np.uint64),
        np.array(["2020-01-01"], "M8[D]"),
        np.array([(1, 2)], dtype=[("a", "i4"), ("b", "i4")]),
        np.array([b"\xff"]),
        np.zeros((3, 3)),
        np.zeros(0),
    ],
)
def test_other_arrays_are_refused(tmp_path: Path, array: Any) -> None:
    np.save(tmp_path / "x.npy", array)
    with pytest.raises((FormatError, InputError)):
        read_labels(tmp_path / "x.npy")


def header(text: str) -> bytes:
    return b"\x93NUMPY\x01\x00\x76\x00" + text.ljust(0x75).encode() + b"\n"


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("x.npy", b"hello"),
        ("x.npy", b""),
        ("x.npy", pickle.dumps([1, 2])),
        ("x.npy", header("{'descr': '<i8', 'fortran_order': False, 'shape': (10000000000000,), }")),
        ("x.npy", header("{'descr': '<i8', 'fortran_order': False, 'shape': (-5,), }")),
        ("x.npy", header("{'descr': '|O', 'fortran_order': False, 'shape': (1,), }")),
        ("x.npy", header("__import__('os').system('id')")),
        ("x.json", b"[" * 200_000),
        ("x.json", b'{"a": 1}'),
        ("x.json", b'[1, null, "a"]'),
        ("x.json", b"[[1], [2, 3]]"),
        ("x.json", b"null"),
        ("x.json", b"[NaN]"),
        ("x.json", b"[" + b"9" * 5000 + b"]"),
        ("x.json", b'["\xff"]'),
        ("x.txt", b"\xff\xfe\n"),
        ("x.txt", b"\n\n"),
    ],
)
def test_a_crafted_file_is_one_sentence(tmp_path: Path, name: str, content: bytes) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(FormatError) as caught:
        read_labels(tmp_path / name)
    assert "\n" not in str(caught.value)


def test_what_is_not_a_file_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.txt")
    for name, message in (("pipe.txt", "is a pipe"), ("none.txt", "No such file")):
        with pytest.raises(FileError, match=message):
            read_labels(tmp_path / name)
