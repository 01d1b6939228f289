"""A clock for whatever another process must not outlive: it goes on while this process or its machine is suspended."""

import time
from typing import Final

_CLOCK: Final[int | None] = getattr(time, "CLOCK_BOOTTIME", None)


def boot_time() -> float:
    """Seconds of a clock that counts while the process is stopped and, if possible, while the machine sleeps."""
    return time.monotonic() if _CLOCK is None else time.clock_gettime(_CLOCK)
