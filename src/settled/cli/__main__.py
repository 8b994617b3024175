"""``python -m settled.cli``."""

import sys

from settled.cli import main

if __name__ == "__main__":
    sys.exit(main())
