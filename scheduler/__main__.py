"""The entry point: `dovetail` and `python -m scheduler`."""

import atexit
import os
import sys

from scheduler import cli


class _Ending:
    """Ends the process at once: to free each module and each object of a large cluster takes a while."""

    def __init__(self) -> None:
        self.status = 1

    def end(self) -> None:
        """Write what is buffered, and end."""
        os._exit(cli.flushed(self.status))


def main() -> int:
    """Run the command line; what is written to a closed output is lost."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_WRONLY), "w"))
    ending = _Ending()
    atexit.register(ending.end)  # the first that is registered is the last that runs
    try:
        ending.status = cli.main()
    except SystemExit as raised:
        ending.status = raised.code if isinstance(raised.code, int) else int(raised.code is not None)
        raise
    return ending.status


if __name__ == "__main__":
    sys.exit(main())
