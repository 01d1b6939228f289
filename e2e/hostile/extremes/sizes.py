"""
The size of an object in etcd, and how many entries fit.

The API server stores built-in kinds as protobuf and custom resources as JSON. etcd admits 1.5 MiB. `stored_bytes`
estimates it from the manifest: each field has a tag and, unless it is a number, a length. `controlplane` tests compare
it with what the API server really admits.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from e2e.hostile.extremes.served import served
from scheduler.change import Kind

LARGEST_STORED: Final = 1_572_864
"""Bytes: `--max-request-bytes` of etcd."""
_RESERVED: Final = 4096
"""Bytes for etcd's own envelope, the key, and what the API server adds."""
_MOST_OF: Final = 0.6
"""An object that has more of the size than this with one entry has no room for a second one."""
_SAMPLE: Final = 1024
_MARGIN: Final = 0.99
_MAPS: Final = frozenset(
    (
        *("labels", "annotations", "matchLabels", "requests", "limits", "overhead", "allocatable", "capacity"),
        *("allocatedResources", "attributes", "counters", "consumedCapacity", "attachmentMetadata"),
    )
)
_OPAQUE: Final = frozenset({"fieldsV1"})
_UNSET: Final = {
    **dict.fromkeys(("containers", "initContainers", "ephemeralContainers"), 26),
    **dict.fromkeys(("env", "volumes"), 2),
    **dict.fromkeys(("ports", "taints"), 4),
    "volumeMounts": 6,
    "tolerations": 8,
    "conditions": 12,
    "containerStatuses": 20,
}
"""Bytes for fields of an entry that protobuf writes although they are empty."""


def stored_bytes(kind: Kind, manifest: Mapping[str, Any]) -> int:
    """Estimate the bytes in etcd."""
    if kind in (Kind.COSCHEDULING_GROUPS, Kind.HOLDS, Kind.QUOTAS):
        return len(msgspec.json.encode(manifest))
    return _bytes(manifest, "") + _RESERVED // 8


def _bytes(value: Any, name: str) -> int:
    if isinstance(value, msgspec.Raw):
        return _framed(len(bytes(value)) + 2)
    if isinstance(value, str):
        return _framed(len(value.encode(errors="surrogatepass")))
    if isinstance(value, Mapping):
        if name in _OPAQUE or (name == "parameters" and value):
            return _framed(len(msgspec.json.encode(value)) + 2)
        of_keys = sum(4 + len(key) for key in value) if name in _MAPS else 0
        return _framed(of_keys + sum(_bytes(each, key) for key, each in value.items()))
    if isinstance(value, list):
        return sum(_bytes(each, name) + _UNSET.get(name, 0) for each in value)
    if value is None:
        return 2
    return 2 if isinstance(value, bool) or value < 128 else 4


def _framed(length: int) -> int:
    """Add a tag and a length."""
    return length + (2 if length < 128 else 3 if length < 16_384 else 4)


def most_that_fits(kind: Kind, make: Callable[[int], Mapping[str, Any]], most: int) -> int:
    """
    Return the largest count of which `make` gives an object that etcd admits, at least 1.

    Names of a list have one length, so that sizes are linear; `_MARGIN` is for numbers that grow longer.
    """
    largest = LARGEST_STORED - _RESERVED

    def size(count: int) -> int:
        return stored_bytes(kind, served(make(count)))

    first = size(1)
    if most < 2 or first > _MOST_OF * largest or first + (each := size(2) - first) > largest:
        return 1
    low = max(2, min(_SAMPLE, most, int(largest / each / 4)))
    average = (size(low) - first) / (low - 1)
    return max(1, min(most, int((largest - first) / average * _MARGIN)))
