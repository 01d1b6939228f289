"""What a process and all that it started use: CPU seconds, and memory with shared pages counted once (Linux: /proc)."""

import contextlib
import os
from pathlib import Path
from typing import Final

_PROC: Final = Path("/proc")
_TICKS_PER_SECOND: Final = os.sysconf("SC_CLK_TCK")
_PARENT, _FIRST_TIME, _AFTER_TIMES = 1, 11, 15
"""Fields of `stat` behind the name: the parent's id; times of the process and of its children that have ended."""


def cpu_seconds(pid: int) -> float:
    """Return the CPU seconds of a process and its descendants, also of those that have ended and were waited for."""
    fields = (_fields(each) for each in family(pid))
    return sum(int(ticks) for each in fields for ticks in each[_FIRST_TIME:_AFTER_TIMES]) / _TICKS_PER_SECOND


def memory_mib(pid: int) -> float:
    """Return the proportional set size of a process and its descendants."""
    return sum(_proportional_kib(each) for each in family(pid)) / 1024


def family(pid: int) -> list[int]:
    """Return a process and its descendants."""
    parents = {int(each.name): _fields(int(each.name)) for each in _PROC.iterdir() if each.name.isdecimal()}
    found = [pid]
    for known in found:
        found += [child for child, fields in parents.items() if fields and int(fields[_PARENT]) == known]
    return found


def _fields(pid: int) -> list[bytes]:
    """Return the fields of `stat` behind the name, none of a process that has ended."""
    with contextlib.suppress(OSError):
        return (_PROC / str(pid) / "stat").read_bytes().rpartition(b") ")[2].split()
    return []


def _proportional_kib(pid: int) -> int:
    with contextlib.suppress(OSError):
        lines = (_PROC / str(pid) / "smaps_rollup").read_text(encoding="ascii").splitlines()
        return sum(int(line.split()[1]) for line in lines if line.startswith("Pss:"))
    return 0
