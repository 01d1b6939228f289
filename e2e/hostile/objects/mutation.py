"""Random changes of valid objects: any leaf, any list, any field."""

from collections.abc import Iterator
from typing import Any

from e2e.hostile.objects.draw import Draw
from e2e.hostile.objects.kinds import Manifest

Place = tuple[Any, Any]
"""A mapping or list, and the key or index in it."""
_SACRED = frozenset(
    {
        "apiVersion",
        "deviceSelector",
        "kind",
        "metadata",
        "name",
        "namespace",
        "priority",
        "priorityClassName",
        "schedulerName",
    }
)
"""Fields that keep an object what it is, where it is, and below the good pods."""
_CLOSED = frozenset({"allocation", "deviceSelector", "nodeName"})
"""
Fields that nothing is changed in: hostile objects could reach what is left to good pods, and what holds devices and
cannot be read, which the API server never has, may hold all of them.
"""
_MOST_PLACES = 2000


def mutate(draw: Draw, manifest: Manifest) -> None:
    """Change one to three places."""
    for _ in range(1 + draw.below(3)):
        places = [each for each in _places(manifest) if each[1] not in _SACRED]
        if places:
            _change(draw, *draw.one(places))


def _change(draw: Draw, holder: Any, key: Any) -> None:
    value = holder[key]
    ways = [lambda: _put(holder, key, draw.leaf()), lambda: _put(holder, key, _like(draw, value))]
    if isinstance(holder, dict):
        ways.append(lambda: holder.pop(key))
        ways.append(lambda: _put(holder, draw.text(50), value))
    if isinstance(value, list):
        ways.append(lambda: value.extend(value * draw.one((1, 20))))
    draw.do(*ways)


def _put(holder: Any, key: Any, value: Any) -> None:
    holder[key] = value


def _like(draw: Draw, value: Any) -> Any:
    """Give another value of the same type."""
    match value:
        case bool():
            return not value
        case int():
            return draw.integer()
        case str():
            return draw.one((draw.text(), draw.quantity(), draw.no_quantity(), draw.digits()))
        case list():
            return []
        case _:
            return {}


def _places(manifest: Manifest) -> Iterator[Place]:
    """Give the first places of an object, in the order of the text."""
    waiting: list[Any] = [manifest]
    count = 0
    while waiting and count < _MOST_PLACES:
        value = waiting.pop()
        pairs = list(value.items() if isinstance(value, dict) else enumerate(value))[:_MOST_PLACES]
        for key, inner in pairs:
            count += 1
            yield value, key
            if isinstance(inner, dict | list) and key not in _CLOSED:
                waiting.append(inner)
