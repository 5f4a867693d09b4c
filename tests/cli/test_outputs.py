"""No command writes over what it reads, and none over what exists without --force."""

import os
from pathlib import Path

import numpy as np
import pytest

from isch.cli.outputs import claim, staged
from isch.errors import FileError

pytestmark = pytest.mark.skipif(os.name == "nt", reason="links need rights there")


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name in ("a.npy", "other.npy", "shards/x.npy", "Photos/cat.jpg"):
        Path(name).parent.mkdir(exist_ok=True)
        Path(name).write_text(name)
    np.save("a.names.npy", ["one"])
    os.symlink("a.npy", "link.npy")
    os.link("a.npy", "hard.npy")
    os.symlink(".", "here")
    os.symlink("../other.npy", "shards/linked.npy")
    return tmp_path


@pytest.mark.parametrize("force", [False, True])
@pytest.mark.parametrize(
    ("output", "source"),
    [
        ("a.npy", "a.npy"),
        ("./a.npy", "a.npy"),
        ("Photos/../a.npy", "a.npy"),
        ("here/a.npy", "a.npy"),
        ("link.npy", "a.npy"),
        ("a.npy", "link.npy"),
        ("hard.npy", "a.npy"),
        ("a.npy", "a.npy::features"),
        ("a.names.npy", "a.npy"),
        ("a.labels.npy", "a.npy"),
        ("a.describer", "a.npy"),
        ("here/a.labels.npy", "./a.npy"),
        ("shards/x.npy", "shards"),
        ("shards/new.npy", "shards"),
        ("shards/deep/new.npy", "shards/"),
        ("here/shards/new.npy", "shards"),
        ("other.npy", "shards"),
    ],
)
def test_an_input_is_never_an_output(desk: Path, output: str, source: str, force: bool) -> None:
    with pytest.raises(FileError, match="^cannot write [^:]*: it "):
        claim(Path(output), ["nothing.npy", source], force)


def test_the_case_of_a_name_is_the_file_systems_affair(desk: Path) -> None:
    """Where A.npy is a.npy it is refused; where it is another file it is not."""
    if Path("A.NPY").exists():
        with pytest.raises(FileError, match="it is also the input"):
            claim(Path("A.NPY"), ["a.npy"], True)
    else:
        assert claim(Path("A.NPY"), ["a.npy"], False).path == Path("A.NPY")


def test_what_exists_is_kept_unless_forced(desk: Path) -> None:
    with pytest.raises(FileError, match="^other.npy exists already; --force replaces it$"):
        claim(Path("other.npy"), ["a.npy"], False)
    assert claim(Path("other.npy"), ["a.npy"], True).path == Path("other.npy")
    with pytest.raises(FileError, match="^other.npy exists already; choose another name$"):
        claim(Path("other.npy"), ["a.npy"], None)


def test_a_link_to_nowhere_exists(desk: Path) -> None:
    os.symlink("nowhere", "dangling")
    with pytest.raises(FileError, match="exists already"):
        claim(Path("dangling"), [], False)


def test_what_cannot_be_written_is_said_before_the_work(desk: Path) -> None:
    with pytest.raises(FileError, match="the folder none does not exist"):
        claim(Path("none/m"), [], False)
    with pytest.raises(FileError, match="it is a folder, not a file"):
        claim(Path("Photos"), [], True)


def test_an_output_that_appears_meanwhile_is_kept(desk: Path) -> None:
    output = claim(Path("m.safetensors"), ["a.npy"], False)
    assert output.path == Path("m.safetensors")
    Path("m.safetensors").write_text("somebody else's")
    assert output.path == Path("m-2.safetensors")
    Path("m-2.safetensors").touch()
    assert output.path == Path("m-3.safetensors")
    assert claim(Path("m.safetensors"), [], True).path == Path("m.safetensors")


def test_staged_files_move_together_or_not_at_all(desk: Path) -> None:
    def write() -> None:
        (folder / "one.svg").write_text("new")
        (folder / "deep").mkdir()
        (folder / "deep" / "two.svg").write_text("new")

    with staged(Path("figures"), force=False) as folder:
        write()
    assert sorted(os.listdir("figures")) == ["deep", "one.svg"]
    Path("figures/one.svg").unlink()
    Path("figures/deep/two.svg").write_text("precious")
    with pytest.raises(FileError, match="figures/deep/two.svg exists already; --force replaces it"):  # noqa: SIM117
        with staged(Path("figures"), force=False) as folder:
            write()
    assert os.listdir("figures") == ["deep"]
    assert Path("figures/deep/two.svg").read_text() == "precious"
    with staged(Path("figures"), force=True) as folder:
        write()
    assert Path("figures/deep/two.svg").read_text() == "new"


def test_a_staged_folder_vanishes_with_an_error(desk: Path) -> None:
    with pytest.raises(KeyError), staged(Path("figures/new"), force=False) as folder:
        (folder / "one.svg").write_text("new")
        raise KeyError
    assert not Path("figures/new").exists()
    with pytest.raises(FileError, match="cannot write a.npy/x: Not a directory"), staged(Path("a.npy/x"), force=False):
        pass
