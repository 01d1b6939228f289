"""The product that a device is, and the card that it is a part of, from attributes with which drivers name them."""

from functools import lru_cache
from typing import Final, NamedTuple

from solver.domain import Device

_PRODUCTS: Final = ("productName", "model", "type")
"""Attributes with or without a domain; the first that a device has counts."""
_PROFILES: Final = ("profile", "partitionProfile")
_PARENT: Final = "parentUUID"
"""The whole device that a partition was cut from, as NVIDIA's driver publishes it."""


class Product(NamedTuple):
    """A product with the profile of a partition, and the name of the partition's parent; empty where not published."""

    name: str
    parent: str


def product_of(device: Device) -> Product:
    """Return the product that a device publishes."""
    products, profiles, parent = dict[int, str](), dict[int, str](), ""
    for name, value in device.attributes:
        rank = _rank(name)
        if rank >= _RANKS:
            parent = str(value.value)
        elif rank >= 0:
            (products if rank < len(_PRODUCTS) else profiles)[rank] = str(value.value)
    if not products and not profiles:
        return Product("", parent)
    parts = (found[min(found)] for found in (products, profiles) if found)
    return Product(" ".join(parts), parent)


_NAMES: Final = (*_PRODUCTS, *_PROFILES, _PARENT)
_RANKS: Final = len(_NAMES) - 1


@lru_cache(maxsize=4096)
def _rank(name: str) -> int:
    """Return the preference of an attribute among those that name a product, a profile or a parent; -1 for others."""
    bare = name.rpartition("/")[2]
    return _NAMES.index(bare) if bare in _NAMES else -1
