"""
Which objects of a kind left a snapshot and which came, found by their identity.

From one snapshot to the next, a kind that has not changed keeps its tuple. An object that has not changed stays the
same object in it. So what follows from a whole tuple can be kept, and changed by a few objects only.
"""

from collections import deque
from itertools import compress, count
from operator import is_not
from typing import Any, Final, Generic, NamedTuple, TypeVar

Each = TypeVar("Each")
_MOST_DIFFERENCES: Final = 64
"""Differences after which the rest of both tuples is compared as two sets."""
_WINDOW: Final = 16
"""How far after a difference the tuples are searched for the next common object."""
_STRIDE: Final = 512
"""Objects that are compared at once."""
_MOST_ANSWERS: Final = 4
_answers: Final[deque[tuple[tuple[Any, ...], tuple[Any, ...], "ChangedObjects[Any]"]]] = deque(maxlen=_MOST_ANSWERS)
"""The last tuples that were compared, which are kept alive, and their differences."""


class ChangedObjects(NamedTuple, Generic[Each]):
    """The objects of the old tuple that are not in the new one, and the other way round, each in its tuple's order."""

    gone: tuple[Each, ...]
    added: tuple[Each, ...]


def changed_objects(was: tuple[Each, ...], now: tuple[Each, ...]) -> ChangedObjects[Each]:
    """
    Compare two tuples by the identity of their objects; no object may stand in one of them twice.

    A replaced object is one that is gone and one that is added. The old tuple must have been kept alive until now: else
    a new object may have the identity of an old one. Objects that only moved have not changed. Several indexes follow
    the same tuples: the last answers are kept, with the tuples.
    """
    if was is now:
        return ChangedObjects((), ())
    if not was:
        return ChangedObjects((), now)
    for known_was, known_now, known in tuple(_answers):
        if known_was is was and known_now is now:
            return known
    found = _compared(was, now)
    _answers.append((was, now, found))
    return found


def _compared(was: tuple[Each, ...], now: tuple[Each, ...]) -> ChangedObjects[Each]:
    gone, added = list[Each](), list[Each]()
    at, to = 0, 0
    for _ in range(_MOST_DIFFERENCES):
        same = _equal_run(was, at, now, to)
        at, to = at + same, to + same
        if at == len(was) or to == len(now):
            break
        left, right = _next_common(was[at : at + _WINDOW], now[to : to + _WINDOW])
        gone += was[at : at + left]
        added += now[to : to + right]
        at, to = at + left, to + right
        if not left and not right:
            break
    gone += was[at:]
    added += now[to:]
    before, after = set(map(id, gone)), set(map(id, added))
    return ChangedObjects(
        tuple(each for each in gone if id(each) not in after), tuple(each for each in added if id(each) not in before)
    )


def _equal_run(was: tuple[Each, ...], at: int, now: tuple[Each, ...], to: int) -> int:
    """Count the objects from two places on before the first difference."""
    most = min(len(was) - at, len(now) - to)
    for start in range(0, most, _STRIDE):
        left, right = was[at + start : at + start + _STRIDE], now[to + start : to + start + _STRIDE]
        same = next(compress(count(), map(is_not, left, right)), _STRIDE)
        if same < _STRIDE:
            return start + same
    return most


def _next_common(was: tuple[Each, ...], now: tuple[Each, ...]) -> tuple[int, int]:
    """Return where the next object of both is, after inserted, removed or replaced ones; zeros if none is near."""
    places = {id(each): right for right, each in enumerate(now)}
    pairs = [(left, places[id(each)]) for left, each in enumerate(was) if id(each) in places]
    return min(pairs, key=sum, default=(0, 0))
