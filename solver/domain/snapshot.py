"""What a decision is made from: the cluster as it is believed to be, the pods to place, and how to choose."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field

import msgspec

from solver.domain.claim import Claim
from solver.domain.device import DeviceClass, DeviceTaintRule, ResourceSlice
from solver.domain.ids import CounterId, DeviceId
from solver.domain.node import Node
from solver.domain.pod import Pod
from solver.domain.selection import NodeSelectorTerm


class Snapshot(msgspec.Struct, frozen=True, kw_only=True):
    """
    A frozen picture of the cluster, every tuple sorted by its objects' keys.

    `pods` are those that hold a node: bound or assumed, and not terminal. `claims` are all claims of the cluster;
    allocations and reservations that are assumed but not yet confirmed are already in them. `draws` says, for
    allocated devices whose slice no longer tells (it changed or is gone), what they took of shared counters when
    they were allocated: (counter, nano-units) pairs.
    """

    nodes: tuple[Node, ...] = ()
    slices: tuple[ResourceSlice, ...] = ()
    classes: tuple[DeviceClass, ...] = ()
    taint_rules: tuple[DeviceTaintRule, ...] = ()
    claims: tuple[Claim, ...] = ()
    pods: tuple[Pod, ...] = ()
    draws: tuple[tuple[DeviceId, tuple[tuple[CounterId, int], ...]], ...] = ()


class Batch(msgspec.Struct, frozen=True, kw_only=True):
    """Pods to decide together, in queue order (priority first, then how long they have waited)."""

    pods: tuple[Pod, ...]


class OwnedDevices(msgspec.Struct, frozen=True, kw_only=True):
    """
    What may be allocated (`devices.owned` of the configuration); claims that are allocated already always count.

    Empty `drivers` means every driver; `node_terms` are ORed, empty means every node. Devices that are not
    local to a node are owned by their driver alone.
    """

    drivers: tuple[str, ...] = ()
    node_terms: tuple[NodeSelectorTerm, ...] = ()


class Policy(msgspec.Struct, frozen=True, kw_only=True):
    """
    How to choose among valid plans: the names of the objective's levels, first the most important.

    The levels `placed` (strict by priority) always come first and are not listed.
    """

    name: str = "pack"
    levels: tuple[str, ...] = ("alternatives", "opened-nodes", "opened-devices", "device-value")
    owned: OwnedDevices = OwnedDevices()
    allocates_where_plugins_serve: bool = False
    """Whether devices are allocated on a node whose device plugin offers them as their class's extended resource."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """
    How long a solve may take.

    `seconds` is wall time, a safety net; `deterministic_seconds` is the solver's own measure of work, the same on
    every machine, and what tests and replays are bounded by.
    """

    seconds: float = 2.0
    deterministic_seconds: float = 4.0
    seed: int = 0
    workers: int = 1
    clock: Callable[[], float] = time.monotonic
    started: float = field(default_factory=time.monotonic)

    def remaining_seconds(self) -> float:
        """Wall seconds left, never below zero."""
        return max(0.0, self.started + self.seconds - self.clock())

    def should_stop(self) -> bool:
        """Whether the wall time is used up."""
        return self.remaining_seconds() <= 0.0
