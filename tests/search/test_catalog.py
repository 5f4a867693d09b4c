import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from isch.errors import FormatError
from isch.search import catalog as catalogs
from isch.search.catalog import Catalog, DeadRow, SegmentRow, decoded, encoded

ROW = SegmentRow("0" * 16, 10, "a" * 64, "b" * 64, "c" * 64, 4096, DeadRow("1" * 16, 3, "d" * 64))
PLAIN = Catalog("e" * 32, 64, 12, "float16", "f" * 64, 7, 20, (ROW, replace(ROW, name="2" * 16, dead=None)))
WHERE = Path("x.isch/catalog.json")


def test_what_is_written_is_read(tmp_path: Path) -> None:
    catalogs.write(tmp_path, PLAIN)
    assert catalogs.read(tmp_path) == PLAIN
    assert PLAIN.n_items == 17
    assert PLAIN.files == {
        *(f"{'0' * 16}.{kind}" for kind in ("codes", "features", "items")),
        *(f"{'2' * 16}.{kind}" for kind in ("codes", "features", "items")),
        f"{'1' * 16}.dead",
    }
    assert [path.name for path in tmp_path.iterdir()] == ["catalog.json"]


def test_no_byte_changes_unnoticed() -> None:
    whole = encoded(PLAIN)
    for place in range(len(whole)):
        for other in (whole[place] ^ 1, whole[place] ^ 32, 0x20, 0):
            if other != whole[place]:
                with pytest.raises(FormatError, match="catalog.json"):
                    decoded(whole[:place] + bytes([other]) + whole[place + 1 :], WHERE)
        with pytest.raises(FormatError, match="catalog.json"):
            decoded(whole[:place], WHERE)
    with pytest.raises(FormatError, match="checksum"):
        decoded(whole + b" ", WHERE)


def sealed(change: Callable[[dict[str, Any]], object]) -> bytes:
    """The bytes of a catalog that somebody changed and gave the right checksum."""
    import hashlib

    content = json.loads(encoded(PLAIN))
    content.pop("checksum")
    change(content)
    text = (json.dumps(content) + "\n").encode()
    return (json.dumps({**content, "checksum": hashlib.sha256(text).hexdigest()}) + "\n").encode()


CRAFTED: dict[str, Callable[[dict[str, Any]], object]] = {
    "no bits": lambda c: c.update(n_bits=0),
    "endless bits": lambda c: c.update(n_bits=2**40),
    "real bits": lambda c: c.update(n_bits=64.0),
    "true bits": lambda c: c.update(n_bits=True),
    "text": lambda c: c.update(n_bits="64"),
    "negative": lambda c: c.update(generation=-1),
    "enormous": lambda c: c.update(added=10**400),
    "unknown type": lambda c: c.update(keep_features="float64"),
    "list for type": lambda c: c.update(keep_features=[]),
    "features without model": lambda c: c.update(model=None),
    "half a model": lambda c: c.update(n_features=None),
    "missing": lambda c: c.pop("added"),
    "further": lambda c: c.update(further=1),
    "segments as object": lambda c: c.update(segments={}),
    "segment as list": lambda c: c["segments"].append([]),
    "segment twice": lambda c: c["segments"].append(c["segments"][1]),
    "dead file twice": lambda c: c["segments"][1].update(dead=c["segments"][0]["dead"]),
    "another folder": lambda c: c["segments"][0].update(name="../../other.isch/segments/0000000000000000"),
    "short name": lambda c: c["segments"][0].update(name="0"),
    "capital name": lambda c: c["segments"][0].update(name="A" * 16),
    "name with newline": lambda c: c["segments"][0].update(name="0" * 16 + "\n"),
    "name of digits elsewhere": lambda c: c["segments"][0].update(name="٠" * 16),
    "dead elsewhere": lambda c: c["segments"][0]["dead"].update(name="/etc/passwd"),
    "no rows": lambda c: c["segments"][0].update(n_rows=0),
    "endless rows": lambda c: c["segments"][0].update(n_rows=2**62),
    "more dead than rows": lambda c: c["segments"][0]["dead"].update(count=11),
    "none dead": lambda c: c["segments"][0]["dead"].update(count=0),
    "no digest": lambda c: c["segments"][0].update(codes=None),
    "features of one only": lambda c: c["segments"][0].update(features=None),
    "another format": lambda c: c.update(format="other"),
    "version 1": lambda c: c.update(version=1),
    "version as text": lambda c: c.update(version="2"),
    "id": lambda c: c.update(id="x"),
}


@pytest.mark.parametrize("case", CRAFTED)
def test_a_crafted_catalog_is_refused(case: str) -> None:
    assert decoded(sealed(lambda c: None), WHERE) == PLAIN
    with pytest.raises(FormatError, match=r"^x.isch/catalog.json: ") as raised:
        decoded(sealed(CRAFTED[case]), WHERE)
    assert "\n" not in str(raised.value)
    assert len(str(raised.value)) < 300


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{}",
        b"[]",
        b"null",
        b"\xff\xfe",
        b"[" * 100_000,
        b'{"format": "ISCH index", "segments": ' + b"[" * 5000 + b"]" * 5000 + b"}",
        b"1" * 10_000,
        b'{"format": "ISCH index", "version": ' + b"9" * 5000 + b"}",
    ],
)
def test_what_is_no_catalog_is_refused(content: bytes) -> None:
    with pytest.raises(FormatError, match=r"^x.isch/catalog.json: "):
        decoded(content, WHERE)


def test_a_newer_version_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(FormatError, match="the index has format version 5; this ISCH reads up to version 4"):
        decoded(sealed(lambda c: c.update(version=5, new="entry")), WHERE)


def test_an_enormous_catalog_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with (tmp_path / "catalog.json").open("wb") as file:
        file.truncate(10 << 30)
    with pytest.raises(FormatError, match="expected a catalog of at most 67108864 bytes"):
        catalogs.read(tmp_path)
