"""How numbers are written."""

import pytest

from isch.evaluate import names


@pytest.mark.parametrize(("value", "text"), [(0.8123, ".812"), (0.05, ".050"), (1.0, "1"), (float("nan"), "–")])
def test_numbers(value: float, text: str) -> None:
    assert names.number(value) == text
