"""Markdown: tables stay tables, and a stranger's text stays text."""

from isch.evaluate.markdown import plain, table


def test_a_table() -> None:
    assert table(["a", "b"], [["1", "x|y"], [plain("p|q"), ""]]).splitlines() == [
        "| a | b |",
        "| --- | --- |",
        r"| 1 | x\|y |",
        r"| p\|q |  |",
    ]


def test_text_is_no_link_and_no_html() -> None:
    assert plain("<b>[x](y)") == r"\<b\>\[x\](y)"
    assert plain("CIFAR-10, GIST-512 (5 seeds)") == "CIFAR-10, GIST-512 (5 seeds)"
