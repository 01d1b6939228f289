"""Limits of quotas as a batch sees them: what is left of each, and which pods it binds."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Final

from solver.domain import Claim, QuotaKey, QuotaShape, Reason, ReasonCode
from solver.rules.quotas.holdings import Charge

UNLIMITED: Final = 1 << 200
"""More than is ever counted of a key that binds nothing now."""


@dataclass(frozen=True, slots=True, eq=False)
class BoundResource:
    """
    A limit that may bind: of `most` units of a key the namespaces below a quota hold `held`.

    `position` is that of the key in `QuotaLimits.keys`. `nodes` are the indices of the nodes in use, where nodes count.
    `namespaces` are those of the quota and of the quotas below it, and the `unknown` ones that hold some. A guarantee
    binds the classes that count within it. `is_leaf` says that the quota has no others below it.
    """

    quota: str
    key: QuotaKey
    position: int
    most: int
    held: int
    nodes: frozenset[int] = frozenset()
    namespaces: frozenset[str] = frozenset()
    unknown: tuple[str, ...] = ()
    is_guarantee: bool = False
    is_leaf: bool = False

    @property
    def left(self) -> int:
        """Units that may be added; none where others hold more than the limit."""
        return max(0, self.most - self.held)

    @property
    def counts_nodes(self) -> bool:
        """Whether it counts nodes."""
        return self.key.shape == QuotaShape.WHOLE_NODES

    def reason(self, asked: int, *, gang: str = "") -> Reason:
        """Return the reason of a pod (or its gang) that needs more than is left."""
        who = f"gang {gang}" if gang else "the pod"
        amounts = f"{self.key.amount(self.held)} of at most {self.key.amount(self.most)} {self.key}"
        message = f"DeviceQuota {self.quota}: {amounts} are held, and {who} needs {self.key.amount(asked)}"
        if self.unknown:
            message += f" (what namespace {self.unknown[0]} holds counts too: the API server does not show it)"
        if not self.is_guarantee:
            message += "; raise the limit" + (", or wait until some are given back" if asked <= self.most else "")
        return Reason(code=ReasonCode.QUOTA_EXCEEDED, message=message)


@dataclass(frozen=True, slots=True, eq=False)
class QuotaShare:
    """
    What a leaf may add before it holds more than its target (`targets`): `left` devices of a key.

    `classes` and `shared` are the classes of pods and the shared claims of the leaf.
    """

    quota: str
    position: int
    left: int
    classes: frozenset[int]
    shared: frozenset[int] = frozenset()


def _nothing(_: Claim) -> Charge:
    return ()


@dataclass(frozen=True, eq=False)
class QuotaLimits:
    """
    The limits that may bind a batch.

    `of_class` and `of_shared` name the limits that the pods of a class, or a shared claim, count for, by position in
    `limits`; those that can count nothing are in neither. `most` is what one pod of a class counts at most, by key.
    `blocked` are the reasons of the classes that need more than is left, whatever else is placed. `meter` gives what an
    allocated claim counts. `shares` are there where pods contend.
    """

    keys: tuple[QuotaKey, ...] = ()
    limits: tuple[BoundResource, ...] = ()
    of_class: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    of_shared: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    most: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    blocked: Mapping[int, Reason] = field(default_factory=dict)
    closed: Mapping[int, Reason] = field(default_factory=dict)
    """Classes that get no devices, whatever is left: their quota cannot be read."""
    alone: frozenset[int] = frozenset()
    """Blocked classes whose own quota has too little left, so that they contend with no other quota."""
    meter: Callable[[Claim], Charge] = _nothing
    shares: tuple[QuotaShare, ...] = ()

    @cached_property
    def count_nodes(self) -> bool:
        """Whether one of the limits counts nodes."""
        return any(each.counts_nodes for each in self.limits)

    @cached_property
    def enough(self) -> tuple[int, ...]:
        """What one pod of any class counts for a limit at most: as long as more is left, no pod sees a difference."""
        most = [0] * len(self.limits)
        for index, numbers in self.of_class.items():
            for number in numbers:
                most[number] = max(most[number], self.most[index][self.limits[number].position])
        return tuple(most)

    def binds(self, index: int) -> bool:
        """Whether the pods of a class depend on what others of a quota get."""
        return index in self.of_class or any(index in each.classes for each in self.shares)

    def units_of(self, claim: Claim) -> tuple[tuple[int, int], ...]:
        """Return what an allocated claim counts for the limits on devices and capacities: limit and units."""
        limits = [
            (number, each)
            for number, each in enumerate(self.limits)
            if claim.id.namespace in each.namespaces and not each.counts_nodes
        ]
        units = {key: amount for key, amount, _ in self.meter(claim)} if limits else {}
        return tuple((number, units[each.key]) for number, each in limits if units.get(each.key))

    def nodes_of(self, claim: Claim) -> tuple[tuple[int, str], ...]:
        """Return the nodes that an allocated claim counts for the limits on nodes: limit and name of the node."""
        limits = [
            (number, each)
            for number, each in enumerate(self.limits if self.count_nodes else ())
            if claim.id.namespace in each.namespaces and each.counts_nodes
        ]
        used = self.meter(claim) if limits else ()
        return tuple((number, node) for number, each in limits for key, _, node in used if key == each.key)

    def with_held(self, added: Mapping[int, int], nodes: Mapping[int, frozenset[int]]) -> "QuotaLimits":
        """
        Return the limits where more is held: by limit, and for those that count nodes also the nodes in use.

        Which classes are blocked then is not known (`solver.problem.quotas.blocking`).
        """
        limits = tuple(
            replace(each, held=each.held + added.get(number, 0), nodes=nodes.get(number, each.nodes))
            for number, each in enumerate(self.limits)
        )
        return replace(self, limits=limits, blocked={}, alone=frozenset())

    def classes_of(self, number: int) -> frozenset[int]:
        """Return the classes that count for a limit."""
        return frozenset(index for index, numbers in self.of_class.items() if number in numbers)


NO_QUOTAS: Final = QuotaLimits()
