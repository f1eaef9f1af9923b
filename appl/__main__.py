"""``python -m appl``: the command where it is not installed."""

import sys

from appl.cli import main

if __name__ == "__main__":
    sys.exit(main())
