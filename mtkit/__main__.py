"""`python -m mtkit` is the command `mtkit`."""

from mtkit.cli import main

if __name__ == "__main__":
    main()
