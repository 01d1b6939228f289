"""The product that a device is, from the attributes with which drivers name it."""

from functools import lru_cache
from typing import Final

from solver.domain import Device

_PRODUCTS: Final = ("productName", "model", "type")
"""Attributes with or without a domain; the first that a device has counts."""
_PROFILES: Final = ("profile", "partitionProfile")


def product_of(device: Device) -> str:
    """Return the product that a device publishes, with the profile of a partition."""
    products, profiles = dict[int, str](), dict[int, str]()
    for name, value in device.attributes:
        rank = _rank(name)
        if rank >= 0:
            (products if rank < len(_PRODUCTS) else profiles)[rank] = str(value.value)
    if not products and not profiles:
        return ""
    parts = (found[min(found)] for found in (products, profiles) if found)
    return " ".join(parts)


@lru_cache(maxsize=4096)
def _rank(name: str) -> int:
    """Return the preference of an attribute among those that name a product or a profile; -1 for others."""
    bare = name.rpartition("/")[2]
    names = (*_PRODUCTS, *_PROFILES)
    return names.index(bare) if bare in names else -1
