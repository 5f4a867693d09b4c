from itertools import permutations

import pytest

from isch.describe.decoding.reader import Trait
from isch.errors import InputError, ParameterError
from isch.photos.catalog import Look
from isch.photos.rules import DEFAULT, Choice, Copy, keep

WHOLE = Look(share=1.0, detail=1.0, colour=30.0, quality=0)
SAVED = WHOLE._replace(quality=80)  # of a JPEG of this quality
PHONE = {"camera": "iPhone 12", "traits": Trait.TILED}


def copy(path="/a/x.jpg", width=100, height=100, size=1000, kind="JPEG", date=50.0, **known):
    return Copy(path, width, height, size, kind, date, **known)


@pytest.mark.parametrize(
    ("rule", "better", "worse"),
    [
        ("pixels", copy(width=200), copy(height=150)),
        ("bytes", copy(size=1001), copy()),
        ("format", copy(kind="HEIF", **PHONE), copy(**PHONE)),
        ("format", copy(), copy(kind="HEIF")),
        ("format", copy(**PHONE), copy(kind="HEIF", camera="iPhone 12")),
        ("format", copy(kind="NEF"), copy(kind="HEIC", **PHONE)),
        ("format", copy(quality=90), copy(quality=70)),
        ("format", copy(kind="JPEG"), copy(kind="PNG")),
        ("format", copy(kind="tiff", camera="Q2"), copy(kind="jpeg")),
        ("format", copy(kind="jpeg"), copy(kind="tiff")),
        ("original", copy(kind="DNG", width=10), copy(camera="Q2")),
        ("original", copy(camera="Q2"), copy(width=110)),
        ("original", copy(camera="Q2"), copy(camera="Q2", traits=Trait.EDITED)),
        ("original", copy(camera="Q2"), copy(camera="Q2", width=110, traits=Trait.RESIZED)),
        ("original", copy(date=60.0, traits=Trait.DATED), copy(date=50.0)),
        ("original", copy(date=50.0, traits=Trait.DATED), copy(date=60.0, traits=Trait.DATED)),
        ("original", copy(width=1000), copy(camera="Q2")),  # a small version that kept its EXIF
        ("original", copy(), copy(width=1000, enlarged=True)),
        ("original", copy(look=WHOLE), copy(width=150, look=WHOLE._replace(share=0.7))),
        ("original", copy(look=WHOLE), copy(look=WHOLE._replace(colour=0.0))),
        ("original", copy(quality=80, look=SAVED), copy(kind="PNG", look=SAVED)),
        ("original", copy(quality=80, look=SAVED), copy(quality=95, look=SAVED)),
        ("original", copy(quality=95, look=SAVED), copy(width=20, quality=80, look=SAVED)),
        ("oldest", copy(date=10), copy(date=20)),
        ("oldest", copy(date=10), copy(date=None)),
        ("oldest", copy(date=10), copy(date=float("nan"))),
    ],
)
def test_each_rule_prefers_one(rule, better, worse):
    assert keep([better, worse], [rule]) == Choice(0, rule)
    assert keep([worse, better], [rule]) == Choice(1, rule)


def test_the_next_rule_decides_where_one_sees_no_difference():
    copies = [copy(size=10, date=3), copy(size=10, date=2), copy(size=9, date=1)]
    assert keep(copies, ["bytes", "oldest"]) == Choice(1, "oldest")
    assert keep(copies, ["oldest", "bytes"]) == Choice(2, "oldest")


def test_folders_are_preferred_in_their_order_and_with_all_below_them():
    copies = [copy("/a/x.jpg"), copy("/b/deep/er/x.jpg"), copy("/best of/x.jpg"), copy("/bb/x.jpg")]
    assert keep(copies, ["folder"], folders=["/b", "/a"]) == Choice(1, "folder")
    assert keep(copies, ["folder"], folders=["/best of/", "/a"]) == Choice(2, "folder")
    assert keep(copies, ["folder"], folders=["/"]).rule == "path"


def test_the_order_of_the_copies_never_matters():
    copies = [copy("/c.jpg"), copy("/a.jpg"), copy("/b.jpg"), copy("/0.jpg", width=50)]
    kept = {order[keep(order).index].path for order in permutations(copies)}
    assert kept == {"/a.jpg"}
    assert keep(copies).rule == "path"


def test_the_default_rules_keep_the_largest_and_then_the_best_format():
    heic = {"kind": "HEIC", **PHONE}
    copies = [copy(size=9000, camera="iPhone 12"), copy(**heic, size=3000), copy(**heic, width=99)]
    assert DEFAULT == ("original", "pixels", "format", "oldest", "bytes")
    assert keep(copies) == Choice(1, "format")


def test_one_copy_is_kept():
    assert keep([copy()]) == Choice(0, "only")


def test_what_cannot_be_meant_is_refused():
    with pytest.raises(InputError, match="expected at least one copy"):
        keep([])
    with pytest.raises(
        ParameterError, match="unknown rule 'newest'; known: bytes, folder, format, oldest, original, pixels"
    ):
        keep([copy()], ["newest"])
    with pytest.raises(InputError, match="needs at least one preferred folder"):
        keep([copy()], ["folder"])


def test_a_copy_knows_its_folder():
    assert copy("/a/b/c.jpg").folder == "/a/b"
