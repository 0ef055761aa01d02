"""Run the command line as ``python -m sweephand``."""

import sys

from sweephand.cli import main

if __name__ == "__main__":
    sys.exit(main())
