"""Replacing an engine's file: the new one takes the old one's place when it is whole, and not before."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import isch
from isch.errors import LockedError

pytest.importorskip("faiss", reason="the package faiss is not installed")
pytest.importorskip("usearch", reason="the package usearch is not installed")


@pytest.fixture(params=["faiss", "usearch"])
def engine(request: pytest.FixtureRequest) -> Any:
    return isch.connect.engine(request.param)


@pytest.fixture
def path(engine: Any, world: Any, tmp_path: Path) -> Path:
    with engine(tmp_path / "x", world.hasher, create=True) as store:
        store.add(world.keys[:20], world.features[:20])
    return tmp_path / "x"


def files(folder: Path) -> list[str]:
    return sorted(file.name for file in folder.iterdir())


def keys(engine: Any, path: Path) -> set[Any]:
    with engine(path) as store:
        return {key for batch in store.batches() for key in batch.keys}


def test_an_error_leaves_the_old_file(engine: Any, path: Path, world: Any) -> None:
    before = path.read_bytes()
    with pytest.raises(KeyboardInterrupt), engine(path, world.hasher, replace=True) as store:
        store.add(world.keys[30:35], world.features[30:35])
        raise KeyboardInterrupt
    assert path.read_bytes() == before
    assert files(path.parent) == ["x", "x.items"]
    assert keys(engine, path) == set(world.keys[:20])


KILLED = """
import os, sys
import numpy as np
import isch
store = isch.connect.engine(sys.argv[1])(sys.argv[2], n_bits=64, create=True, replace=sys.argv[3] == "replace")
store.add_codes(range(50), np.zeros((50, 8), np.uint8))
os._exit(9)
"""


@pytest.mark.parametrize("way", ["replace", "anew"])
def test_a_killed_process_is_completed_by_the_next(engine: Any, path: Path, world: Any, way: str) -> None:
    target = path if way == "replace" else path.with_name("y")
    name = engine.__name__.lower()
    assert subprocess.run([sys.executable, "-c", KILLED, name, str(target), way], check=False).returncode == 9
    assert keys(engine, path) == set(world.keys[:20])
    with engine(target, world.hasher, replace=way == "replace") as store:
        assert len(store) == (0 if way == "replace" else 50)
        store.add(world.keys[30:35], world.features[30:35])
    assert keys(engine, target) >= set(world.keys[30:35])
    assert len(keys(engine, target)) == (5 if way == "replace" else 55 - len(set(range(50)) & set(world.keys[30:35])))
    assert files(path.parent) == (["x", "x.items"] if way == "replace" else ["x", "x.items", "y", "y.items"])


def test_one_process_at_a_time_replaces(engine: Any, path: Path, world: Any) -> None:
    with engine(path, world.hasher, replace=True) as store:
        with pytest.raises(LockedError, match="is replacing x"):
            engine(path, world.hasher, replace=True)
        store.add(world.keys[30:35], world.features[30:35])
    assert keys(engine, path) == set(world.keys[30:35])


def test_searching_writes_nothing(engine: Any, path: Path, world: Any) -> None:
    before = path.stat().st_mtime_ns
    with engine(path) as store:
        assert store.search(world.codes[3], 1)[0][0].key == world.keys[3]
    assert path.stat().st_mtime_ns == before
