"""
Types of several kinds: metadata, selectors, taints, tolerations, quantities, device configuration.

The wire structs declare only the fields that are read; unknown fields are ignored, and null lists are empty.
"""

import functools
from collections.abc import Mapping, Sequence

import msgspec

from scheduler.kube.decode.legible_json import LegibleJson
from solver.domain import (
    LabelRequirement,
    LabelSelector,
    LabelSelectorOperator,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    OpaqueConfig,
    Quantity,
    QuantityError,
    Taint,
    Toleration,
)
from solver.domain import quantity as quantities


class MalformedError(ValueError):
    """A part of an object cannot be decoded: the path of the field, and the error."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(f"{field}: {message}")
        self.field = field
        self.message = message


class Wire(msgspec.Struct, rename="camel", gc=False, frozen=True):
    """Base of JSON types in the API's spelling; without reference cycles, so that the GC can ignore them."""


class OwnerReference(Wire, frozen=True):
    """metav1.OwnerReference."""

    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool | None = None


class IdentityFields(Wire, frozen=True):
    """What identifies an object and its version, of metav1.ObjectMeta."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""


class Identified(Wire, frozen=True):
    """An object of which only this is read, as in metav1.PartialObjectMetadata."""

    metadata: IdentityFields = IdentityFields()


class Metadata(Wire, frozen=True):
    """metav1.ObjectMeta."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    deletion_grace_period_seconds: int | None = None
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    finalizers: tuple[str, ...] | None = None
    owner_references: list[OwnerReference] | None = None

    @property
    def controller(self) -> OwnerReference | None:
        """The owner that manages the object."""
        return next((owner for owner in self.owner_references or () if owner.controller), None)


class NodeSelectorTermWire(Wire, frozen=True):
    """core/v1 NodeSelectorTerm."""

    match_expressions: tuple[NodeSelectorRequirement, ...] | None = None
    match_fields: tuple[NodeSelectorRequirement, ...] | None = None


class NodeSelectorWire(Wire, frozen=True):
    """core/v1 NodeSelector."""

    node_selector_terms: list[NodeSelectorTermWire] | None = None


class LabelSelectorWire(Wire, frozen=True):
    """meta/v1 LabelSelector."""

    match_labels: dict[str, str] | None = None
    match_expressions: tuple[LabelRequirement, ...] | None = None


class TaintWire(Wire, frozen=True):
    """core/v1 Taint and resource.k8s.io DeviceTaint."""

    key: str
    effect: str
    value: str = ""
    time_added: str | None = None


class TolerationWire(Wire, frozen=True):
    """core/v1 Toleration and resource.k8s.io DeviceToleration."""

    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""
    toleration_seconds: int | None = None


class OpaqueWire(Wire, frozen=True):
    """OpaqueDeviceConfiguration."""

    driver: str
    parameters: msgspec.Raw


class ConfigWire(Wire, frozen=True):
    """DeviceClassConfiguration, DeviceClaimConfiguration and DeviceAllocationConfiguration."""

    opaque: OpaqueWire | None = None
    requests: tuple[str, ...] | None = None
    source: str = ""


class CelWire(Wire, frozen=True):
    """CELDeviceSelector."""

    expression: str


class SelectorWire(Wire, frozen=True):
    """DeviceSelector."""

    cel: CelWire | None = None


@functools.lru_cache(maxsize=2**16)
def quantity(text: str) -> Quantity:
    """Parse a quantity, cached by text. Raises QuantityError."""
    return quantities.parse(text)


def quantity_map(texts: Mapping[str, str] | None, field: str) -> tuple[tuple[str, Quantity], ...]:
    """Parse a map of quantities, sorted by key. Raises MalformedError."""
    if not texts:
        return ()
    try:
        return tuple(sorted((name, quantity(text)) for name, text in texts.items()))
    except QuantityError as error:
        raise MalformedError(field, str(error)) from error


def labels(wire: Mapping[str, str] | None) -> tuple[tuple[str, str], ...]:
    """Sort labels, or any map of texts, by key."""
    return tuple(sorted(wire.items())) if wire else ()


def node_selector(wire: NodeSelectorWire | None) -> NodeSelector | None:
    """Convert a node selector."""
    if wire is None:
        return None
    return NodeSelector(
        terms=tuple(
            NodeSelectorTerm(match_expressions=term.match_expressions or (), match_fields=term.match_fields or ())
            for term in wire.node_selector_terms or ()
        )
    )


def label_selector(wire: LabelSelectorWire | None) -> LabelSelector | None:
    """Convert a label selector: matchLabels, sorted by key, then matchExpressions."""
    if wire is None:
        return None
    equal = (
        LabelRequirement(key=key, operator=LabelSelectorOperator.IN, values=(value,))
        for key, value in labels(wire.match_labels)
    )
    return LabelSelector(requirements=(*equal, *(wire.match_expressions or ())))


def taints(wire: Sequence[TaintWire] | None) -> tuple[Taint, ...]:
    """Convert taints of a node or device."""
    return tuple(taint(each) for each in wire) if wire else ()


def taint(wire: TaintWire) -> Taint:
    """Convert one taint."""
    return Taint(key=wire.key, value=wire.value, effect=wire.effect, time_added=wire.time_added or "")


def tolerations(wire: Sequence[TolerationWire] | None) -> tuple[Toleration, ...]:
    """Convert tolerations; a missing operator is Equal."""
    if not wire:
        return ()
    return tuple(
        Toleration(
            key=each.key,
            operator=each.operator or "Equal",
            value=each.value,
            effect=each.effect,
            toleration_seconds=each.toleration_seconds,
        )
        for each in wire
    )


def configs(wire: Sequence[ConfigWire] | None, field: str, made: LegibleJson | None = None) -> tuple[OpaqueConfig, ...]:
    """
    Convert configurations, with the bytes of their parameters as they were sent.

    `made` is set where they were decoded from a text that was made legible. Raises MalformedError for unknown kinds.
    """
    if not wire:
        return ()
    found = []
    for index, each in enumerate(wire):
        if each.opaque is None:
            raise MalformedError(f"{field}[{index}]", "only configuration under `opaque` is known to this version")
        parameters = (made.sent_part(each.opaque.parameters) if made else bytes(each.opaque.parameters)).decode()
        found.append(
            OpaqueConfig(
                driver=each.opaque.driver, parameters=parameters, requests=each.requests or (), source=each.source
            )
        )
    return tuple(found)


def selectors(wire: Sequence[SelectorWire] | None, field: str) -> tuple[str, ...]:
    """Return the CEL expressions. Raises MalformedError for unknown kinds of selectors."""
    if not wire:
        return ()
    found = []
    for index, each in enumerate(wire):
        if each.cel is None:
            raise MalformedError(f"{field}[{index}]", "only selectors under `cel` are known to this version")
        found.append(each.cel.expression)
    return tuple(found)
