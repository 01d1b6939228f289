"""
How many objects a page of a list has. The API server bounds pages by their number alone; here their bytes are bounded.

The first page is small, later ones have as many objects of the mean size of the last page as `_PAGE_BYTES` hold. A page
that comes larger than `_LARGEST_PAGE` all the same is given up while it comes, and asked for with fewer objects. So a
list never takes more memory than that, whatever tenants have stored.
"""

from typing import Final

_MOST_OBJECTS: Final = 500
_FIRST_OBJECTS: Final = 100
"""Objects of the first page, whose sizes are not known."""
_PAGE_BYTES: Final = 4 * 1024 * 1024
_LARGEST_PAGE: Final = 4 * _PAGE_BYTES
_FEWER: Final = 8


class PageSize:
    """The size of the next page of one list; it learns from the pages that come."""

    def __init__(self) -> None:
        self.objects = _FIRST_OBJECTS

    @property
    def most_bytes(self) -> int | None:
        """Bytes from which the page is given up; None where it has a single object, which the API server bounds."""
        return _LARGEST_PAGE if self.objects > 1 else None

    def learn(self, objects: int, size: int) -> None:
        """Note how many objects a page had, and its bytes."""
        self.objects = max(1, min(_MOST_OBJECTS, _PAGE_BYTES * max(1, objects) // max(1, size)))

    def give_up(self) -> None:
        """Note that a page was too large."""
        self.objects = max(1, self.objects // _FEWER)
