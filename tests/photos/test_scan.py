"""What a look at the folder finds, what it leaves out, and what it does not take for deleted."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from PIL import Image

from isch.errors import InputError
from isch.photos import scan
from isch.photos.catalog import Filter
from isch.photos.library import Library

from .test_library import draw

NOBODY = 65534


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for i in range(12):
        draw(tmp_path / "pictures" / ("a" if i % 2 else "b") / f"{i}.png", i)
    return tmp_path / "pictures"


@pytest.fixture
def library(folder: Path, tmp_path: Path) -> Library:
    library = Library(folder, tmp_path / "home")
    library.update()
    return library


def names(library: Library) -> set[str]:
    return {item.name for item in library.catalog.page(Filter(), 0, 1000)}


def remove(folder: Path, *numbers: int) -> None:
    for path in folder.rglob("*.png"):
        if int(path.stem) in numbers:
            path.unlink()


def test_an_empty_folder_empties_no_index(library: Library, folder: Path) -> None:
    shutil.move(folder, folder.with_name("elsewhere"))
    folder.mkdir()
    report = library.update()
    assert (report.missing, report.removed, len(library), len(library.index or [])) == (12, 0, 12, 12)
    assert str(report) == "12 missing"
    assert library.notices == report.notes
    assert "12 of 12 pictures are not in" in report.notes[0]
    assert f"isch photos index {folder} --prune" in report.notes[0]
    folder.rmdir()
    shutil.move(folder.with_name("elsewhere"), folder)
    assert str(library.update()) == "12 unchanged"
    assert library.notices == []


def test_what_is_meant_is_done(library: Library, folder: Path) -> None:
    remove(folder, *range(11))
    assert library.update().missing == 11
    report = library.update(prune=True)
    assert (report.removed, report.missing, names(library)) == (11, 0, {"11.png"})


@pytest.mark.parametrize(("gone", "missing"), [(6, 0), (9, 0), (10, 10), (12, 12)])
def test_many_and_more_than_half_are_missing_and_fewer_are_deleted(
    library: Library, folder: Path, gone: int, missing: int
) -> None:
    remove(folder, *range(gone))
    report = library.update()
    assert (report.missing, report.removed) == (missing, gone - missing)


def test_a_folder_that_is_renamed_is_no_missing_drive(library: Library, folder: Path) -> None:
    for name in ("a", "b"):
        (folder / name).rename(folder / f"new {name}")
    (folder / "new a" / "1.png").unlink()
    assert str(library.update()) == "11 moved, 1 gone"


def test_new_pictures_are_found_while_others_are_missing(library: Library, folder: Path) -> None:
    remove(folder, *range(12))
    draw(folder / "50.png", 50)
    report = library.update()
    assert (report.added, report.missing, len(library)) == (1, 12, 13)


def test_what_we_moved_away_ourselves_is_not_missing(library: Library, folder: Path) -> None:
    library.away(str(path) for path in folder.rglob("*.png") if path.stem != "11")
    remove(folder, *range(11))
    report = library.update()
    assert (report.removed, report.missing) == (11, 0)


def test_a_drive_that_was_mounted_before_is_missing(
    library: Library, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The drive holds three of twelve pictures, so that only the place tells."""
    draw(folder / "drive" / "20.png", 20)
    monkeypatch.setattr(os.path, "ismount", lambda path: os.fspath(path).endswith("drive"))
    library.update()
    monkeypatch.undo()
    remove(folder, 20, 0)
    for _ in range(2):
        report = library.update()
        assert report.missing == 1
    assert "20.png" in names(library)
    assert "0.png" not in names(library)
    assert library.update(prune=True).removed == 1


def test_pictures_are_not_forgotten_when_they_have_to_be_looked_at_again(
    library: Library, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A new version makes fingerprints differently, and just then the drive is not there."""
    from isch.photos import fingerprint

    monkeypatch.setattr(fingerprint, "VERSION", 999)
    shutil.move(folder, folder.with_name("elsewhere"))
    folder.mkdir()
    assert library.update().missing == 12
    folder.rmdir()
    shutil.move(folder.with_name("elsewhere"), folder)
    assert library.update().changed == 12


@contextmanager
def somebody() -> Iterator[None]:
    """Without the rights of root, which may read everything."""
    if os.geteuid():
        yield
        return
    os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)


@pytest.mark.parametrize("mode", [0o000, 0o400, 0o444])
def test_pictures_in_a_folder_that_cannot_be_read_are_kept_and_it_is_named(
    library: Library, folder: Path, mode: int
) -> None:
    for place in (library.folder, *library.folder.parents[:3]):
        place.chmod(0o755)
    (folder / "a").chmod(mode)
    try:
        with somebody():
            changes = scan.compare(folder, library.catalog)
    finally:
        (folder / "a").chmod(0o755)
    assert (changes.gone, changes.unchanged) == ({}, 6)
    assert {Path(failure.name).relative_to(folder).parts[0] for failure in changes.unread} == {"a"}
    assert "Permission denied" in changes.unread[0].reason


def test_systems_folders_links_and_caches_are_skipped(library: Library, folder: Path, tmp_path: Path) -> None:
    for number, name in enumerate(("@eaDir", ".thumbnails", ".Trash-1000", "$RECYCLE.BIN", "#recycle", ".hidden"), 100):
        draw(folder / name / f"{number}.png", number)
    draw(folder / "kept by a browser" / "200.png", 200)
    (folder / "kept by a browser" / "CACHEDIR.TAG").write_bytes(scan.CACHE_SIGNATURE + b"\n")
    draw(folder / "named like one" / "201.png", 201)
    (folder / "named like one" / "CACHEDIR.TAG").write_text("no signature")
    draw(tmp_path / "elsewhere" / "202.png", 202)
    (folder / "link").symlink_to(tmp_path / "elsewhere")
    (folder / "loop").symlink_to(folder)
    (folder / "203.png").symlink_to(tmp_path / "elsewhere" / "202.png")
    assert library.update().added == 2
    assert {"201.png", "203.png"} < names(library)


def test_the_home_folder_of_a_user_can_be_indexed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "visible cache"))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "visible data"))
    draw(tmp_path / "Pictures" / "1.png", 1)
    draw(tmp_path / "visible cache" / "browser" / "2.png", 2)
    library = Library(tmp_path)
    library.update()
    small = library.home / "thumbnails" / "x.jpg"
    small.parent.mkdir()
    Image.new("RGB", (8, 8)).save(small)
    assert str(library.update()) == "1 unchanged"
    with pytest.raises(InputError, match="here ISCH keeps its own files"):
        Library(library.home)


def test_a_file_that_is_far_too_large_is_refused_before_it_is_read(library: Library, folder: Path) -> None:
    for name, start in (("huge.jpg", b"\xff\xd8\xff\xe0"), ("zeros.png", b"")):
        with (folder / name).open("wb") as file:
            file.write(start)
            file.truncate(40 << 30)
    draw(folder / "50.png", 50)
    os.mkfifo(folder / "pipe.png")
    report = library.update()
    assert (report.added, report.failures) == (1, 2)
    reasons = {os.path.basename(path): reason for path, (_, reason) in library.catalog.failures().items()}
    assert reasons[b"huge.jpg"].startswith("42,949,672,960 bytes are too many for a picture of format JPEG")
    assert str(library.update()) == "13 unchanged, 2 unusable"


def test_a_file_that_cannot_be_read_is_tried_again(
    library: Library, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A drive with an error keeps its pictures in the index; the file is looked at again by the next update."""
    from isch.errors import FileError
    from isch.photos import describing

    path = folder / "a" / "1.png"
    os.utime(path, (1, 1))
    draw(folder / "50.png", 50)

    def failing(path: str) -> None:
        raise FileError(f"{path}: Input/output error")

    with monkeypatch.context() as context:
        context.setattr(describing, "reading", failing)
        report = library.update()
    assert (len(report.unread), report.failures, len(library)) == (2, 0, 12)
    assert report.unread[0].reason == "Input/output error"
    report = library.update()
    assert (report.changed, report.added, len(library)) == (1, 1, 13)
