"""The table of meaning and neighbours, from made-up lines."""

from pathlib import Path

import pytest

from isch.errors import FormatError
from isch.evaluate import meaning
from isch.evaluate.meaning import Line


def lines(data: str) -> list[Line]:
    found = {"2-norm": (64, 1.0, 0.5), "DiffusionHash": (32, 0.3, 0.6), "DistanceHash": (32, 0.7, 0.4)}
    found |= {"RaBitQ 1 bit": (32, 0.65, 0.4), "PQ": (32, 0.6, 0.4), "signs": (2, 0.2, 0.3)}
    return [
        Line(data, 1000, method, size, o, min(1.0, recall + o / 50), 0.5, long, 1.5, 2.5)
        for method, (size, recall, long) in found.items()
        for o in (1, 3, 5, 10)
    ]


def test_lines_come_back_in_order_and_what_is_measured_again_is_replaced(tmp_path: Path) -> None:
    assert meaning.read(tmp_path) == []
    meaning.write(tmp_path, lines("other")[::-1])
    meaning.write(tmp_path, lines("mnist"))
    assert meaning.read(tmp_path) == lines("mnist") + lines("other")
    again = [line._replace(recall=0.25) for line in lines("mnist") if line.method == "PQ"]
    meaning.write(tmp_path, [*again[:2], *(line._replace(n_bytes=8) for line in again)])
    found = meaning.read(tmp_path)
    assert [line for line in found if line.method == "PQ" and line.data == "mnist" and line.n_bytes == 32] == again[:2]
    assert [line.n_bytes for line in found[4:8]] == [8] * 4
    assert [line for line in found if line.method != "PQ" and line.data == "mnist"] == [
        line for line in lines("mnist") if line.method != "PQ"
    ]


def test_the_section_shows_one_size_and_counts_what_it_says() -> None:
    text = meaning.section(lines("mnist") + lines("own set"))
    assert "| DistanceHash | .720 .800 · .400 | .720 .800 · .400 |" in text
    assert "| signs (all features) | .220 .300 · .300 |" in text
    assert "better than the floats on 2 of 2 sets" in text
    assert "RaBitQ 1 bit, PQ" in text
    assert "not below RaBitQ 1 bit on 2 of 2" in text


def test_all_oversamplings_are_side_by_side() -> None:
    row = next(iter(meaning.wide(lines("mnist"))))
    assert row == ["mnist", "2-norm", 64, *["1"] * 4, *[".500"] * 4, ".500", "1.5", "2.5"]


@pytest.mark.parametrize("content", ["", "a,b\n1,2\n", ",".join(Line._fields) + "\nmnist,x\n", "\0"])
def test_a_damaged_table_is_one_sentence(tmp_path: Path, content: str) -> None:
    (tmp_path / meaning.FILE).write_text(content)
    with pytest.raises(FormatError, match=r"meaning.csv: not a table of meaning"):
        meaning.read(tmp_path)
