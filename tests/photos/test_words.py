import numpy as np
import pytest

from isch.photos import words


def test_there_are_a_thousand_kinds_in_the_order_of_the_network() -> None:
    kinds = words.kinds()
    assert len(kinds) == 1000
    assert all(kind.names and all(kind.names) for kind in kinds)
    assert (kinds[0].names[0], kinds[437].names[:2], kinds[999].names[0]) == (
        "tench",
        ("beacon", "lighthouse"),
        "toilet tissue",
    )


@pytest.mark.parametrize(
    ("word", "kind"),
    [("lighthouse", 437), (" Lighthouse ", 437), ("lighthouses", 437), ("golden retriever", 207), ("Labrador", 208)],
)
def test_a_word_names_its_kind(word: str, kind: int) -> None:
    assert kind in words.numbers(word)


def test_broader_words_name_many_kinds() -> None:
    assert len(words.numbers("dog")) == len(words.numbers("dogs")) == 118
    assert set(words.numbers("cat")) > {281, 282, 283, 284, 285}
    assert 985 in words.numbers("flower")
    assert words.numbers("qwertyuiop") == ()


def test_completions_begin_with_the_text_first() -> None:
    found = words.completions("light")
    assert found[0] == "light"
    assert "lighthouse" in found
    assert found.index("lighthouse") < found.index("traffic light")
    assert words.completions("  ") == []


def test_shares_add_up_and_the_best_are_kept_in_order() -> None:
    rng = np.random.default_rng(0)
    features = rng.random((6, 1280)).astype(np.float32)
    shares = words.shares(features)
    np.testing.assert_allclose(shares.sum(axis=1), 1, rtol=1e-5)
    for row, labels in zip(shares, words.best(features), strict=True):
        values = [share for _, share in labels]
        assert values == sorted(values, reverse=True)
        assert len(labels) <= words.KEPT
        assert all(share >= words.LEAST for share in values)
        assert not labels or labels[0] == (int(row.argmax()), pytest.approx(float(row.max())))
        assert [kind for kind, _ in labels] == [k for k in np.argsort(-row)[: words.KEPT] if row[k] >= words.LEAST]
