"""
Which objects of a kind left a snapshot and which came, found by their identity.

From one snapshot to the next, a kind that has not changed keeps its tuple. An object that has not changed stays the
same object in it. So what follows from a whole tuple can be kept, and changed by a few objects only.
"""

from itertools import compress, count
from operator import is_not
from typing import Final, Generic, NamedTuple, TypeVar

Each = TypeVar("Each")
_MOST_DIFFERENCES: Final = 64
"""Differences after which the rest of both tuples is compared as two sets."""
_WINDOW: Final = 16
"""How far after a difference the tuples are searched for the next common object."""


class ChangedObjects(NamedTuple, Generic[Each]):
    """The objects of the old tuple that are not in the new one, and the other way round, each in its tuple's order."""

    gone: tuple[Each, ...]
    added: tuple[Each, ...]


def changed_objects(was: tuple[Each, ...], now: tuple[Each, ...]) -> ChangedObjects[Each]:
    """
    Compare two tuples by the identity of their objects; no object may stand in one of them twice.

    A replaced object is one that is gone and one that is added. The old tuple must have been kept alive until now: else
    a new object may have the identity of an old one. Objects that only moved have not changed.
    """
    if was is now:
        return ChangedObjects((), ())
    gone, added = list[Each](), list[Each]()
    for _ in range(_MOST_DIFFERENCES):
        same = _equal_prefix(was, now)
        was, now = was[same:], now[same:]
        if not was or not now:
            break
        left, right = _next_common(was, now)
        gone += was[:left]
        added += now[:right]
        was, now = was[left:], now[right:]
    gone += was
    added += now
    before, after = set(map(id, gone)), set(map(id, added))
    return ChangedObjects(
        tuple(each for each in gone if id(each) not in after), tuple(each for each in added if id(each) not in before)
    )


def _equal_prefix(was: tuple[Each, ...], now: tuple[Each, ...]) -> int:
    """Count the objects before the first difference."""
    return next(compress(count(), map(is_not, was, now)), min(len(was), len(now)))


def _next_common(was: tuple[Each, ...], now: tuple[Each, ...]) -> tuple[int, int]:
    """Return where the next object of both is, after inserted, removed or replaced ones; the ends if none is near."""
    places = {id(each): right for right, each in enumerate(now[:_WINDOW])}
    pairs = [(left, places[id(each)]) for left, each in enumerate(was[:_WINDOW]) if id(each) in places]
    return min(pairs, key=sum, default=(len(was), len(now)))
