"""Memory of processes, and the memory limit of the container (Linux: /proc and cgroup v2)."""

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Final

_PROC: Final = Path("/proc")
_CONTAINER_LIMIT: Final = Path("/sys/fs/cgroup/memory.max")


def resident_bytes(pids: Iterable[int]) -> int:
    """Return the resident bytes of processes together; a process that has ended counts 0."""
    return sum(_resident_pages(_PROC / str(pid) / "statm") for pid in pids) * os.sysconf("SC_PAGE_SIZE")


def container_limit_bytes() -> int | None:
    """Return the memory limit of the container; None without a limit or without cgroup v2."""
    try:
        text = _CONTAINER_LIMIT.read_text(encoding="ascii").strip()
    except OSError:
        return None
    return int(text) if text.isdecimal() else None


def _resident_pages(statm: Path) -> int:
    try:
        return int(statm.read_text(encoding="ascii").split()[1])
    except (OSError, IndexError):
        return 0
