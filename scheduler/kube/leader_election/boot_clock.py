"""A clock for whatever another process must not outlive: it goes on while this process or its machine is suspended."""

import time


def boot_time() -> float:
    """Seconds of a clock that counts while the process is stopped and, if possible, while the machine sleeps."""
    clock: int | None = getattr(time, "CLOCK_BOOTTIME", None)
    return time.monotonic() if clock is None else time.clock_gettime(clock)
