"""
DeviceQuotas: how much of a fleet's devices the namespaces of a team may hold.

What a quota says is counted against what claims really hold (`solver.rules.quotas`).
"""

from enum import StrEnum
from typing import NamedTuple

import msgspec

from solver.domain.device import Device
from solver.domain.ids import ClaimId, DeviceId
from solver.domain.label_selectors import LabelSelector
from solver.domain.quantity import format_nano


class QuotaError(ValueError):
    """An entry of a quota is of a kind that this version does not know."""


class QuotaShape(StrEnum):
    """What a resource of a quota counts (`spec.resources[].shape`)."""

    DEVICES = "devices"
    """Devices, or with `capacity` what is held of one of their capacities."""
    WHOLE_NODES = "wholeNodes"
    """Nodes on which a device of the class is held: a node counts as a whole as soon as one of its devices is."""


class QuotaKey(NamedTuple):
    """What is counted: devices that meet the selectors of a class, or a capacity of them, or their nodes."""

    device_class: str
    capacity: str = ""
    shape: str = QuotaShape.DEVICES.value

    def __str__(self) -> str:
        """Write it as messages do."""
        if self.shape == QuotaShape.WHOLE_NODES:
            return f"nodes with devices of class {self.device_class}"
        return f"{self.capacity or 'devices'} of class {self.device_class}"

    def amount(self, units: int) -> str:
        """Write an amount: a number of devices or nodes, or a quantity of a capacity."""
        return format_nano(units, like="1Gi") if self.capacity else str(units)


class QuotaResource(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """
    One of `spec.resources`. Amounts are in units of the key: devices, nodes, or nano-units of the capacity.

    `guarantee` is 0 where there is none, `limit` None. `weight` divides what is lent.
    """

    device_class: str
    capacity: str = ""
    shape: str = QuotaShape.DEVICES.value
    guarantee: int = 0
    limit: int | None = None
    weight: int = 1

    @property
    def key(self) -> QuotaKey:
        """What it counts."""
        return QuotaKey(self.device_class, self.capacity, self.shape)


class DeviceQuota(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """
    A DeviceQuota; `selector` is None where it selects no namespace.

    `unknown` names the entries of `spec.resources` that cannot be read (of a newer version, say): the others count.
    `invalid` says why the whole object was never readable. Either way what it allows is not known (`refusal`).
    """

    name: str
    uid: str = ""
    generation: int = 0
    created: str = ""
    parent: str = ""
    selector: LabelSelector | None = None
    resources: tuple[QuotaResource, ...] = ()
    unknown: tuple[str, ...] = ()
    invalid: str = ""

    @property
    def refusal(self) -> str:
        """Why its namespaces get no more devices: part of what it says cannot be read. Empty where all of it can."""
        if not (self.invalid or self.unknown):
            return ""
        what = self.invalid or f"this version cannot read {', '.join(self.unknown)}"
        return f"DeviceQuota {self.name}: {what}; its namespaces get no more devices until it can be read"


class WithdrawnDevice(msgspec.Struct, frozen=True, kw_only=True):
    """A device that a claim holds and no slice publishes any more, as it was published last; `node` is its own node."""

    id: DeviceId
    device: Device
    node: str = ""


class ClaimCharge(msgspec.Struct, frozen=True, kw_only=True):
    """
    What an allocated claim counts for quotas, while it holds these devices (in the order of its results).

    `counts` are keys with amounts, and the node where nodes are counted.
    """

    claim: ClaimId
    devices: tuple[DeviceId, ...]
    counts: tuple[tuple[QuotaKey, int, str], ...] = ()


class QuotaCharges(msgspec.Struct, frozen=True, kw_only=True):
    """What claims count; `keys` are all that was looked at: a claim holds nothing of a key that its charge lacks."""

    keys: tuple[QuotaKey, ...] = ()
    claims: tuple[ClaimCharge, ...] = ()
