"""The entry point: `dovetail` and `python -m scheduler`."""

import gc
import sys

from scheduler import cli


def main() -> int:
    """Run the command line; the interpreter ends without a last look at every object of a large cluster."""
    status = cli.main()
    gc.freeze()
    return status


if __name__ == "__main__":
    sys.exit(main())
