"""`python -m palate` is the same as `palate`."""

from palate.cli import main

main()
