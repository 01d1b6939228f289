"""
Files with data of the cluster, which only their owner can read, whatever the umask: records and saved decisions.

A file gets its mode when it is made, not afterwards: who opens it in between keeps it open.
"""

import contextlib
import errno
import os
import stat
from pathlib import Path
from typing import IO, Final

MODE: Final = 0o600
"""The rights of such a file: its owner reads and writes it."""
_OTHERS: Final = 0o077
"""The rights of the group and of all users."""


def replace(path: Path, content: bytes) -> None:
    """
    Replace the file at a path atomically by a private one. Raise `OSError`.

    An existing file is replaced, never written into. So a symbolic link that another user placed there (in a temporary
    folder, for example) is not followed. Devices and pipes (`/dev/stdout`) are written to directly.
    """
    if path.is_relative_to("/dev") or (path.exists() and not path.is_file()):
        path.write_bytes(content)
        return
    draft = path.with_name(f".{path.name}.{os.getpid()}.{os.urandom(4).hex()}")
    file = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, MODE)
    try:
        with os.fdopen(file, "wb") as opened:
            opened.write(content)
        draft.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            draft.unlink()
        raise


def append(path: Path) -> IO[bytes]:
    """
    Open a private file to read and to append to. Raise `OSError`.

    A file that is there already loses the rights of other users before the first byte. One of another user cannot, and
    is refused.
    """
    file = os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, MODE), "ab+")
    found = os.fstat(file.fileno()).st_mode
    if not stat.S_ISREG(found) or not found & _OTHERS:
        return file
    try:
        os.fchmod(file.fileno(), stat.S_IMODE(found) & ~_OTHERS)
    except PermissionError:
        file.close()
        why = "it belongs to another user, and others can read it: name a file of your own"
        raise PermissionError(errno.EPERM, why) from None
    return file
