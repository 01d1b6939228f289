"""Splits a stream into lines, in time linear in its bytes, however small the pieces are in which it comes."""

from typing import Final

_LONGEST_LINE: Final = 64 << 20
"""Bytes; an event of the largest object has about ten MiB."""


class LineBuffer:
    """The line that has begun."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._size = 0

    def take(self, chunk: bytes) -> list[bytes]:
        """Return the lines that end in a chunk. Raises ConnectionError where a line has no end."""
        first, *others = chunk.split(b"\n")
        self._parts.append(first)
        self._size += len(first)
        if self._size > _LONGEST_LINE:
            raise ConnectionError(f"a line of the stream is longer than {_LONGEST_LINE >> 20} MiB")
        if not others:
            return []
        lines = [b"".join(self._parts), *others[:-1]]
        self._parts, self._size = [others[-1]], len(others[-1])
        return lines

    def end(self) -> bytes:
        """Return what came after the last line."""
        return b"".join(self._parts)
