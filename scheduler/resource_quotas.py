"""
ResourceQuotas: what objects use of them, and why the API server refuses one that is too much.

Amounts are nano-units by resource name, as spec.hard has them. Source: pkg/quota/v1/evaluator/core of Kubernetes.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from solver.domain import AllocationMode, Request
from solver.domain.quantity import NANO, QuantityError, parse, plain

Usage = dict[str, int]
"""Resource name → nano-units."""

CLAIM_COUNT: Final = "count/resourceclaims.resource.k8s.io"
_BY_CLASS: Final = ".deviceclass.resource.k8s.io/devices"
_IMPLICIT: Final = "requests.deviceclass.resource.kubernetes.io/"
_MOST_OF_ALL: Final = 32
"""AllocationResultsMaxSize: what a request with allocationMode All counts as."""


class Quota(msgspec.Struct, frozen=True, kw_only=True):
    """A ResourceQuota; `used` is what is counted in it already."""

    name: str
    hard: Usage
    used: Usage

    def with_usage(self, usage: Mapping[str, int]) -> "Quota":
        """Return the quota after an object; resources that it does not limit are left out."""
        used = {name: self.used.get(name, 0) + usage.get(name, 0) for name in self.hard}
        return msgspec.structs.replace(self, used=used)

    def room_for(self, usage: Mapping[str, int]) -> int | None:
        """Return how many objects of some usage are admitted one after the other; None is any number."""
        limited = ((hard - self.used.get(name, 0), usage.get(name, 0)) for name, hard in self.hard.items())
        return min((max(0, left) // asked for left, asked in limited if asked > 0), default=None)

    def refusal(self, usage: Mapping[str, int]) -> str:
        """Say why an object is too much for the quota; empty if it is not."""
        for name, hard in sorted(self.hard.items()):
            asked, used = usage.get(name, 0), self.used.get(name, 0)
            if asked <= 0 or used + asked <= hard:
                continue
            what = _resource(name)
            if used >= hard:
                return f"quota {self.name} of the namespace is used up: {plain(used)} of {plain(hard)}{what}"
            left = f"{plain(hard - used)} of {plain(hard)}{what} left"
            return f"quota {self.name} of the namespace has {left}, and {plain(asked)} are asked for"
        return ""


def _resource(name: str) -> str:
    device_class = name.removesuffix(_BY_CLASS)
    return f" devices of class {device_class}" if device_class != name else f" {name}"


def amounts(quantities: Any) -> Usage:
    """Read a ResourceList; a quantity that cannot be read is left out."""
    found: Usage = {}
    for name, quantity in quantities.items() if isinstance(quantities, dict) else ():
        try:
            found[str(name)] = parse(str(quantity)).nano
        except QuantityError:
            continue
    return found


def claim_usage(requests: Iterable[Request], extended: Mapping[str, str]) -> Usage:
    """
    Return what a claim uses: itself, and of each class the most devices that it could get.

    `extended` gives the extended resource name of classes that have one.
    """
    by_class = defaultdict[str, int](int)
    for request in requests:
        most = defaultdict[str, int](int)
        for each in request.alternatives:
            count = _MOST_OF_ALL if each.allocation_mode == AllocationMode.ALL else each.count
            most[each.device_class] = max(most[each.device_class], count)
        for name, count in most.items():
            by_class[name] += count
    usage = {CLAIM_COUNT: NANO}
    for name, count in by_class.items():
        usage |= {f"{name}{_BY_CLASS}": count * NANO, f"{_IMPLICIT}{name}": count * NANO}
        if extended.get(name):
            usage[f"requests.{extended[name]}"] = count * NANO
    return usage
