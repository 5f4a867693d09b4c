"""The registry, and that a new format is one file and one line, by the example of docs/architecture.md."""

import importlib
import pickle
import re
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from isch import features
from isch.errors import FormatError, ParameterError
from isch.features import formats
from isch.features.write import Writer

DOCUMENT = Path(__file__).parents[2] / "docs" / "architecture.md"
X = np.arange(24, dtype=np.float32).reshape(6, 4)


@pytest.mark.parametrize("name", formats.FORMATS)
def test_every_format_keeps_the_contract(name: str) -> None:
    module = importlib.import_module(f"isch.features.{name}")
    assert isinstance(module.KIND, str)
    assert callable(module.open_features)
    assert all(formats.SUFFIXES[suffix] == name for suffix in formats.FORMATS[name])


def test_what_can_be_written_is_listed() -> None:
    with pytest.raises(ParameterError, match=r"known: \.feather, \.h5, \.hdf5, \.npy, \.npz, \.parquet$"):
        formats.writer(Path("x.zarr"))


def test_the_example_of_the_documentation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = DOCUMENT.read_text().partition("## Adding a feature format")[2]
    code = re.search(r"```python\n(.*?)```", text, re.DOTALL)
    line = re.search(r'^    "(\w+)": \("(\.\w+)",\),$', text, re.MULTILINE)
    assert code is not None
    assert line is not None
    name, suffix = line.groups()
    module = ModuleType(f"isch.features.{name}")
    exec(code[1], module.__dict__)
    monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setitem(formats.FORMATS, name, (suffix,))
    monkeypatch.setitem(formats.SUFFIXES, suffix, name)

    with Writer(tmp_path / f"x{suffix}", {}) as writer:
        writer.add(X, list("abcdef"), [""] * 6)
        writer.finish()
    source = pickle.loads(pickle.dumps(features.open(tmp_path / f"x{suffix}")))
    np.testing.assert_array_equal(source.read(0, 6), X)
    np.testing.assert_array_equal(features.open(tmp_path).read(0, 6), X)
    (tmp_path / f"y{suffix}").write_text("1,2\n3\n")
    with pytest.raises(FormatError, match=rf"y\{suffix}: not a readable CSV file, or a damaged one"):
        features.open(tmp_path / f"y{suffix}")
