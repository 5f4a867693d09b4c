"""Image loading as real folders are."""

import io
import os
import subprocess
import sys
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image as Pil

from isch.describe import images
from isch.errors import FileError, FormatError, InputError
from isch.files import printable

RED_GREEN = np.zeros((4, 6, 3), np.uint8)  # red on the left, green on the right
RED_GREEN[:, :3, 0] = RED_GREEN[:, 3:, 1] = 255


def saved(path: Path, array: NDArray[Any] = RED_GREEN, mode: str | None = None, **options: Any) -> Path:
    picture = Pil.fromarray(array)
    (picture.convert(mode) if mode else picture).save(path, **options)
    return path


@pytest.mark.parametrize(("name", "mode"), [("a.png", None), ("a.png", "P"), ("a.bmp", None), ("a.tif", None)])
def test_lossless_formats_come_back_exactly(tmp_path: Path, name: str, mode: str | None) -> None:
    np.testing.assert_array_equal(images.decode(saved(tmp_path / name, mode=mode)), RED_GREEN)


@pytest.mark.parametrize("orientation", range(1, 9))
def test_exif_orientation_is_applied(tmp_path: Path, orientation: int) -> None:
    """Store the picture as a camera held in that way would, and get it back upright."""
    stored = {
        1: RED_GREEN,
        2: RED_GREEN[:, ::-1],
        3: RED_GREEN[::-1, ::-1],
        4: RED_GREEN[::-1],
        5: RED_GREEN.transpose(1, 0, 2),
        6: np.rot90(RED_GREEN),
        7: np.rot90(RED_GREEN, 2).transpose(1, 0, 2),
        8: np.rot90(RED_GREEN, -1),
    }[orientation]
    exif = Pil.Exif()
    exif[0x0112] = orientation
    path = saved(tmp_path / "a.png", np.ascontiguousarray(stored), exif=exif)
    np.testing.assert_array_equal(images.decode(path), RED_GREEN)


def test_damaged_exif_is_ignored(tmp_path: Path) -> None:
    path = saved(tmp_path / "a.png", exif=b"Exif\0\0MM\0*\0\0\0\xff\xff\xff\xff")
    np.testing.assert_array_equal(images.decode(path), RED_GREEN)


def test_grey_has_equal_channels(tmp_path: Path) -> None:
    array = np.arange(24, dtype=np.uint8).reshape(4, 6)
    decoded = images.decode(saved(tmp_path / "a.pgm", array))
    np.testing.assert_array_equal(decoded, np.repeat(array[..., None], 3, axis=2))
    np.testing.assert_array_equal(images.grey(decoded), array)


def test_sixteen_bits_keep_the_upper_eight(tmp_path: Path) -> None:
    array = (np.arange(24, dtype=np.uint16) * 2000).reshape(4, 6)
    decoded = images.decode(saved(tmp_path / "a.png", array))
    np.testing.assert_array_equal(decoded[..., 0], array >> 8)


def test_dark_sixteen_bits_stay_dark(tmp_path: Path) -> None:
    decoded = images.decode(saved(tmp_path / "a.png", np.full((4, 6), 200, np.uint16)))
    assert decoded.max() == 0


def test_float_tiff_is_stretched(tmp_path: Path) -> None:
    array = np.linspace(-3, 7, 24, dtype=np.float32).reshape(4, 6)
    decoded = images.decode(saved(tmp_path / "a.tif", array))
    assert (decoded.min(), decoded.max()) == (0, 255)
    assert np.all(np.diff(decoded[..., 0].ravel().astype(int)) >= 0)


def test_cmyk_becomes_rgb(tmp_path: Path) -> None:
    flat = np.full((16, 16, 3), (200, 40, 90), np.uint8)
    decoded = images.decode(saved(tmp_path / "a.jpg", flat, mode="CMYK", quality=95))
    assert np.abs(decoded.astype(int) - flat).max() <= 6


def test_transparency_lies_on_white(tmp_path: Path) -> None:
    rgba = np.zeros((4, 6, 4), np.uint8)
    rgba[:, 3:] = (10, 20, 30, 255)
    decoded = images.decode(saved(tmp_path / "a.png", rgba))
    assert (decoded[:, :3] == 255).all()
    assert (decoded[:, 3:] == (10, 20, 30)).all()
    np.testing.assert_array_equal(images.from_array(rgba), decoded)


def test_palette_transparency_lies_on_white(tmp_path: Path) -> None:
    picture = Pil.new("P", (4, 4), 0)
    picture.putpalette([9, 9, 9, 200, 100, 50])
    picture.putpixel((0, 0), 1)
    picture.save(tmp_path / "a.gif", transparency=0)
    decoded = images.decode(tmp_path / "a.gif")
    assert tuple(decoded[0, 0]) == (200, 100, 50)
    assert tuple(decoded[1, 1]) == (255, 255, 255)


def test_an_animation_gives_its_first_frame(tmp_path: Path) -> None:
    frames = [Pil.new("RGB", (4, 4), colour) for colour in ("red", "blue")]
    frames[0].save(tmp_path / "a.gif", save_all=True, append_images=frames[1:])
    assert tuple(images.decode(tmp_path / "a.gif")[0, 0]) == (255, 0, 0)


def test_a_wrong_suffix_does_not_matter(tmp_path: Path) -> None:
    saved(tmp_path / "a.png").rename(tmp_path / "a.jpg")
    np.testing.assert_array_equal(images.decode(tmp_path / "a.jpg"), RED_GREEN)


def test_bytes_and_pil_and_arrays() -> None:
    buffer = io.BytesIO()
    Pil.fromarray(RED_GREEN).save(buffer, "png")
    for source in (buffer.getvalue(), Pil.fromarray(RED_GREEN), RED_GREEN, RED_GREEN / 255, RED_GREEN > 0):
        np.testing.assert_array_equal(images.decode(source), RED_GREEN)


def test_large_jpegs_are_decoded_at_reduced_size(tmp_path: Path) -> None:
    path = saved(tmp_path / "a.jpg", np.full((512, 1024, 3), 77, np.uint8))
    assert images.decode(path, side=32).shape == (64, 128, 3)
    assert images.decode(path, side=300).shape == (512, 1024, 3)


def bomb(path: Path) -> None:
    """A PNG whose header promises 30,000 × 30,000 pixels."""
    content = bytearray(saved(path, np.zeros((8, 8), np.uint8)).read_bytes())
    content[16:24] = (30_000).to_bytes(4, "big") * 2
    content[29:33] = zlib.crc32(bytes(content[12:29])).to_bytes(4, "big")
    path.write_bytes(bytes(content))


def truncated(path: Path) -> None:
    noise = np.random.default_rng(0).integers(0, 255, (64, 64, 3), dtype=np.uint8)
    path.write_bytes(saved(path, noise).read_bytes()[:3000])


BAD: dict[str, tuple[Callable[[Path], object], str]] = {
    "empty.jpg": (lambda path: path.touch(), "empty"),
    "text.jpg": (lambda path: path.write_text("not a picture"), "not a picture"),
    "truncated.jpg": (truncated, "damaged"),
    "truncated.png": (truncated, "damaged"),
    "bomb.png": (bomb, "million pixels"),
    "dangling.png": (lambda path: path.symlink_to("nowhere"), "No such file"),
    "folder.png": (lambda path: path.mkdir(), "is a folder"),
    "pipe.png": (lambda path: os.mkfifo(path), "is a pipe"),
    "device.jpg": (lambda path: path.symlink_to("/dev/zero"), "is a device"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_files_say_what_is_wrong(tmp_path: Path, name: str) -> None:
    make, reason = BAD[name]
    make(tmp_path / name)
    with pytest.raises(FileError, match=reason) as raised:
        images.decode(tmp_path / name)
    assert str(raised.value).startswith(f"{tmp_path / name}: ")


@pytest.mark.parametrize("seed", range(40))
@pytest.mark.parametrize("name", ["a.png", "a.jpg", "a.gif", "a.tif", "a.webp"])
def test_random_damage_gives_a_picture_or_a_format_error(tmp_path: Path, name: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    noise = rng.integers(0, 255, (24, 24, 3), dtype=np.uint8)
    content = bytearray(saved(tmp_path / name, noise).read_bytes())
    for position in rng.integers(0, len(content), 12):
        content[position] = rng.integers(256)
    (tmp_path / name).write_bytes(bytes(content))
    try:
        decoded = images.decode(tmp_path / name)
    except FormatError:
        return
    assert decoded.dtype == np.uint8
    assert decoded.ndim == 3
    assert decoded.shape[2] == 3


def test_arrays_that_are_no_pictures() -> None:
    for array in (np.zeros((4, 4, 5)), np.zeros(4), np.zeros((0, 4, 3)), np.full((4, 4), 300.0), np.full((4, 4), -1)):
        with pytest.raises(InputError, match="expected a picture"):
            images.from_array(array)
    with pytest.raises(InputError, match="got a set"):
        images.decode(set())


def test_one_colour_array_is_not_mistaken_for_many_grey_ones() -> None:
    with pytest.raises(InputError, match="list of arrays for one picture"):
        images.sources(RED_GREEN)
    assert len(list(images.sources(np.zeros((5, 8, 8))))) == 5
    assert len(list(images.sources([RED_GREEN]))) == 1


def test_finding_skips_hidden_and_other_files_and_ends_in_loops(tmp_path: Path) -> None:
    (tmp_path / "b" / "deep").mkdir(parents=True)
    for name in ("z.JPG", "b/a.png", "b/deep/c.webp", "notes.txt", ".hidden.png", "b/._a.png"):
        (tmp_path / name).write_bytes(b"x")
    (tmp_path / "b" / "deep" / "loop").symlink_to(tmp_path)
    (tmp_path / "again").symlink_to(tmp_path / "b")
    os.mkfifo(tmp_path / "pipe.png")
    (tmp_path / "dangling.png").symlink_to("nowhere")
    listing = images.find(tmp_path)
    found = [os.path.relpath(path, tmp_path) for path in listing.paths]
    assert found == ["dangling.png", "z.JPG", "again/a.png", "again/deep/c.webp"]
    assert listing.states == [None, *((1, os.stat(path).st_mtime_ns) for path in listing.paths[1:])]


def test_files_without_suffix_are_known_by_their_first_bytes(tmp_path: Path) -> None:
    saved(tmp_path / "a.png").rename(tmp_path / "0a1b2c")
    (tmp_path / "README").write_text("hello")
    assert images.find(tmp_path).paths == [str(tmp_path / "0a1b2c")]


def test_names_that_are_not_utf8(tmp_path: Path) -> None:
    name = os.path.join(os.fsencode(tmp_path), b"caf\xe9.png")
    saved(tmp_path / "a.png").rename(os.fsdecode(name))
    (path,) = images.find(tmp_path).paths
    np.testing.assert_array_equal(images.decode(path), RED_GREEN)
    assert printable(path) == f"{tmp_path}/caf\\xe9.png"


def test_unreadable_folders_are_named(tmp_path: Path) -> None:
    """In a process without the rights of root, which reads everything."""
    for folder in (tmp_path, *tmp_path.parents[:-2]):
        folder.chmod(0o755)
    (tmp_path / "closed").mkdir()
    saved(tmp_path / "open.png")
    (tmp_path / "closed").chmod(0)
    code = (
        "import os, sys; sys.path[:0] = eval(sys.argv[2]); from isch.describe import images; "
        "os.geteuid() or os.seteuid(65534); found = images.find(sys.argv[1]); "
        "print(len(found.paths), found.failures[0].name, found.failures[0].reason)"
    )
    command = [sys.executable, "-c", code, str(tmp_path), repr(sys.path)]
    answer = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    (tmp_path / "closed").chmod(0o755)
    assert answer.split(maxsplit=2) == [
        "1",
        str(tmp_path / "closed"),
        "the folder cannot be read (Permission denied)\n",
    ]


def test_no_such_folder(tmp_path: Path) -> None:
    with pytest.raises(FileError, match="no such folder"):
        images.find(tmp_path / "nowhere")


def test_choose_draws_without_replacement_from_sequences_and_iterators() -> None:
    for items in (list(range(100)), iter(range(100))):
        chosen = images.choose(items, 10, np.random.default_rng(0))
        assert len(set(chosen)) == 10
        assert chosen == sorted(chosen)
    assert images.choose(iter("abc"), 10, np.random.default_rng(0)) == ["a", "b", "c"]


def test_choose_from_an_iterator_is_uniform() -> None:
    rng = np.random.default_rng(0)
    counts = np.bincount(np.concatenate([images.choose(iter(range(10)), 3, rng) for _ in range(3000)]))
    assert np.abs(counts / 3000 - 0.3).max() < 0.04


def test_centre_square_takes_the_middle() -> None:
    picture = np.zeros((20, 60, 3), np.uint8)
    picture[:, 20:40] = 200
    assert (images.centre_square(picture, 8)[2:-2, 2:-2] == 200).all()
    picture[:, 26:34] = 100
    inner = images.centre_square(picture, 8, fraction=0.4)
    assert (inner[2:-2, 2:-2] == 100).all()
