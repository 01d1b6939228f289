"""A folder on a full disk: a small tmpfs, or a limit of file sizes where a process may not mount one."""

import contextlib
import resource
import subprocess
from collections.abc import Iterator
from pathlib import Path

SMALLEST = 64 * 1024
"""Bytes of the tmpfs."""


@contextlib.contextmanager
def full_disk(folder: Path) -> Iterator[Path]:
    """Give a folder in which no byte can be written for the block."""
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={SMALLEST}", "tmpfs", str(folder)]
    if subprocess.run(command, capture_output=True, check=False).returncode == 0:
        try:
            (folder / "filler").write_bytes(bytes(SMALLEST))
            yield folder
        finally:
            subprocess.run(["umount", str(folder)], check=True)
        return
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, before[1]))
    try:
        yield folder
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
