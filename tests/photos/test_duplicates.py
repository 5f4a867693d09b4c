"""Duplicates of a real library, and what may go to the trash."""

import os
import shutil
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from PIL import Image

pytest.importorskip("onnxruntime", reason="describing pictures needs isch[photos]")

from isch.photos import duplicates
from isch.photos.catalog import Filter
from isch.photos.duplicates import Duplicates, as_csv
from isch.photos.library import Library

N_GROUPS = 20
STRANGE = os.fsdecode(b"caf\xe9 \xff.png")  # no UTF-8


def drawing(seed: int) -> Image.Image:
    values = np.random.default_rng(seed).integers(0, 256, (6, 8, 3), np.uint8)
    return Image.fromarray(values).resize((320, 240), Image.Resampling.BICUBIC)


@pytest.fixture
def bin_(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A trash of the test's own, in the place of that of the desktop."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    folder = tmp_path / "data" / "Trash" / "files"
    folder.mkdir(parents=True)
    fake = SimpleNamespace(send2trash=lambda path: os.rename(path, folder / os.path.basename(path)))
    monkeypatch.setitem(sys.modules, "send2trash", fake)
    return folder


@pytest.fixture
def made(tmp_path: Path) -> Callable[..., Library]:
    """A function from pictures by name to a library of them."""

    def make(**pictures: Image.Image) -> Library:
        folder = tmp_path / "pictures"
        folder.mkdir(exist_ok=True)
        for name, picture in pictures.items():
            picture.save(folder / name.replace("_", "."))
        library = Library(folder, tmp_path / "home")
        library.update()
        return library

    return make


def numbers(library: Library) -> dict[str, int]:
    return {os.path.basename(item.path): item.id for item in library.catalog.page(Filter(), 0, 1000)}


def shown(library: Library, closeness: str = "same") -> list[set[str]]:
    groups = Duplicates(library).groups(closeness)
    return [{os.path.basename(item.path) for item in group.items} for group in groups]


def test_a_hundred_requests_at_once_leave_a_copy_of_each(tmp_path: Path, bin_: Path) -> None:
    """Two libraries with one home stand for two servers; each asks from several threads."""
    folder = tmp_path / "pictures"
    folder.mkdir()
    for group in range(N_GROUPS):
        drawing(group).save(folder / f"{group:02}-0.png")
        drawing(group).save(folder / f"{group:02}-1.png", compress_level=1)
        shutil.copy(folder / f"{group:02}-0.png", folder / f"{group:02}-2.png")
    Library(folder, tmp_path / "home").update()
    servers = [Duplicates(Library(folder, tmp_path / "home")) for _ in range(2)]
    known = numbers(Library(folder, tmp_path / "home"))
    assert sorted(len(group.items) for group in servers[0].groups()) == [3] * N_GROUPS

    def ask(request: int) -> list[Any]:
        group, rng = request % N_GROUPS, Random(request)
        copies = [known[f"{group:02}-{copy}.png"] for copy in range(3)]
        kept = rng.choice(copies)
        give_up = [copy for copy in copies if copy != kept]
        return servers[request % 2].trash([(give_up, [kept])])

    with ThreadPoolExecutor(16) as pool:
        outcomes = [outcome for done in pool.map(ask, range(100)) for outcome in done]
    left = sorted(path.name[:2] for path in folder.iterdir())
    assert left == [f"{group:02}" for group in range(N_GROUPS)]  # one of each, neither none nor two
    assert sum(outcome.moved for outcome in outcomes) == 2 * N_GROUPS == len(list(bin_.iterdir()))
    assert all(outcome.reason for outcome in outcomes if not outcome.moved)
    while servers[0].undo():  # and all of it comes back
        pass
    assert len(list(folder.iterdir())) == 3 * N_GROUPS


def test_only_a_copy_can_take_the_place_of_a_picture(made: Callable[..., Library], bin_: Path) -> None:
    half = drawing(1).resize((160, 120))
    library = made(a_png=drawing(1), b_png=half, c_png=drawing(2), d_png=drawing(1).convert("L"))
    known, found = numbers(library), Duplicates(library)
    a, b, c, d = (known[f"{name}.png"] for name in "abcd")

    def refused(give_up: int, kept: list[int], closeness: str = "same") -> str:
        (outcome,) = found.trash([([give_up], kept)], closeness)
        assert not outcome.moved
        return outcome.reason or ""

    assert refused(a, [c]).endswith("c.png, which is to be kept, is not a copy of it")
    assert "it is the last copy" in refused(a, [])
    assert "it is the last copy" in refused(a, [12345])
    assert "the same file" in refused(a, [a]) or "last copy" in refused(a, [a])
    assert "there is no such picture" in refused(12345, [a])
    found.decide("not duplicates", [a, b])
    assert "is not a copy of it" in refused(b, [a])
    found.decide("forget", [a, b])
    assert list(bin_.iterdir()) == []
    assert [outcome.moved for outcome in found.trash([([d], [a]), ([b], [c, a])], "altered")] == [True, True]
    assert sorted(numbers(library)) == ["a.png", "c.png"]


def test_fewer_pictures_need_no_new_search(
    made: Callable[..., Library], bin_: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    library = made(**{f"{name}{seed}_png": drawing(seed) for name in "ab" for seed in range(3)})
    found = Duplicates(library)
    assert len(found.groups()) == 3
    with monkeypatch.context() as patch:
        patch.setattr(duplicates, "find_copies", None)
        known = numbers(library)
        assert [one.moved for one in found.trash([([known["a1.png"]], [known["b1.png"]])])] == [True]
        assert len(found.groups()) == 2
    assert shown(library) == [{os.path.basename(i.path) for i in group.items} for group in found.groups()]
    found.undo()
    assert len(found.groups()) == 3


def test_an_animation_is_no_copy_of_a_still(made: Callable[..., Library], tmp_path: Path) -> None:
    folder = tmp_path / "pictures"
    folder.mkdir()
    first, *others = [drawing(seed).convert("P") for seed in range(3)]
    first.save(folder / "moving.gif", save_all=True, append_images=others, duration=100)
    shutil.copy(folder / "moving.gif", folder / "same.gif")
    first.save(folder / "other.gif", save_all=True, append_images=others[:1], duration=100)
    first.save(folder / "pages.tif", save_all=True, append_images=others)
    library = made(still_png=first.convert("RGB"), again_gif=first)
    assert {frozenset(group) for group in shown(library, "altered")} == {
        frozenset({"moving.gif", "same.gif"}),
        frozenset({"still.png", "again.gif"}),
    }


def test_a_hard_link_is_not_offered(made: Callable[..., Library], tmp_path: Path) -> None:
    folder = tmp_path / "pictures"
    folder.mkdir()
    for seed in (1, 2):
        drawing(seed).save(folder / f"{seed}.png")
        os.link(folder / f"{seed}.png", folder / f"{seed} again.png")
    library = made(copy_bmp=drawing(2))
    (group,) = Duplicates(library).groups()
    assert {os.path.basename(item.path) for item in group.items} == {"2.png", "copy.bmp"} or len(group.items) == 2


def test_names_that_are_no_utf8_work(made: Callable[..., Library], bin_: Path, tmp_path: Path) -> None:
    folder = tmp_path / "pictures"
    folder.mkdir()
    drawing(1).save(folder / STRANGE)
    library = made(plain_png=drawing(1))
    found, known = Duplicates(library), numbers(library)
    text = as_csv(found.groups())
    assert r"caf\xe9 \xff.png" in text
    assert "udc" not in text
    (outcome,) = found.trash([([known[STRANGE]], [known["plain.png"]])])
    assert outcome.moved
    assert os.listdir(bin_) == [STRANGE]
    (outcome,) = found.undo()
    assert outcome.moved
    assert (folder / STRANGE).exists()
    assert len(found.groups()) == 1
