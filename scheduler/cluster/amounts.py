"""Sums by key that keep no zeros, so that equal sums are equal dictionaries."""

from typing import TypeVar

_K = TypeVar("_K")


def add(amounts: dict[_K, int], key: _K, amount: int) -> None:
    """Add to the amount of a key; one that comes to zero is dropped."""
    total = amounts.get(key, 0) + amount
    if total:
        amounts[key] = total
    else:
        amounts.pop(key, None)
