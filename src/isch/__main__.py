"""``python -m isch``."""

from isch.cli import main

main()
