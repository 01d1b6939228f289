"""Nodes and namespaces (core/v1)."""

from collections.abc import Iterable
from typing import Final

import msgspec

from scheduler.kube.decode.shared_fields import MalformedError, Metadata, TaintWire, Wire, labels, quantity, taints
from solver.domain import Namespace, Node, QuantityError
from solver.domain.quantity import milli_rounded_up, units_rounded_up

_LEAST_IMAGE_BYTES: Final = 23 * 1024 * 1024
"""Smaller images do not count for kube-scheduler's image locality."""


class _NodeSpec(Wire, frozen=True):
    taints: list[TaintWire] | None = None
    unschedulable: bool = False


class _Image(Wire, frozen=True):
    names: tuple[str, ...] | None = None
    size_bytes: int = 0


class _NodeStatus(Wire, frozen=True):
    allocatable: dict[str, str] | None = None
    images: list[_Image] | None = None
    declared_features: list[str] | None = None


class NodeWire(Wire, frozen=True):
    """Node."""

    metadata: Metadata
    spec: _NodeSpec = _NodeSpec()
    status: _NodeStatus = _NodeStatus()


class NamespaceWire(Wire, frozen=True):
    """Namespace."""

    metadata: Metadata


_node = msgspec.json.Decoder(NodeWire)
_namespace = msgspec.json.Decoder(NamespaceWire)


def decode_node(raw: bytes | msgspec.Raw) -> Node:
    """Decode a Node, without images that are too small for image locality, so that it changes less often."""
    wire = _node.decode(raw)
    return Node(
        name=wire.metadata.name,
        uid=wire.metadata.uid,
        labels=labels(wire.metadata.labels),
        taints=taints(wire.spec.taints),
        is_unschedulable=wire.spec.unschedulable,
        allocatable=_allocatable(wire.status.allocatable or {}),
        images=_images(wire.status.images or ()),
        declared_features=tuple(sorted(set(wire.status.declared_features or ()))),
    )


def _images(images: Iterable[_Image]) -> tuple[tuple[str, int], ...]:
    """Return every name of an image with its size in bytes."""
    large = (each for each in images if each.size_bytes >= _LEAST_IMAGE_BYTES)
    return tuple(sorted({name: each.size_bytes for each in large for name in each.names or ()}.items()))


def _allocatable(texts: dict[str, str]) -> tuple[tuple[str, int], ...]:
    """Convert amounts: cpu in millicores, other resources in whole units."""
    found = []
    for name, text in texts.items():
        try:
            amount = quantity(text)
        except QuantityError as error:
            raise MalformedError(f"status.allocatable[{name}]", str(error)) from error
        found.append((name, milli_rounded_up(amount) if name == "cpu" else units_rounded_up(amount)))
    return tuple(sorted(found))


def decode_namespace(raw: bytes | msgspec.Raw) -> Namespace:
    """Decode a Namespace."""
    wire = _namespace.decode(raw)
    return Namespace(name=wire.metadata.name, labels=labels(wire.metadata.labels))
