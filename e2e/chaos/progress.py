"""One line for everything that is done and found, with the seconds since the start."""

import time
from typing import Final

_BEGAN: Final = time.monotonic()


def report(what: str) -> None:
    """Print a line."""
    print(f"{time.monotonic() - _BEGAN:8.1f}  {what}", flush=True)
