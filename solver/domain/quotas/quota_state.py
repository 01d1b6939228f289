"""
What is to be said of each quota: guaranteed, held, lent and waiting, and what is wrong with it.

The status of DeviceQuotas, `dovetail quota`, the page and the series say the same, made here of the same numbers.
"""

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Final

import msgspec

from solver.domain.quotas.device_quota import QuotaKey, QuotaResource
from solver.domain.quotas.quota_tree import QuotaFinding, QuotaTree
from solver.domain.wording import did_you_mean

UNKNOWN_CLASS: Final = "DeviceClassUnknown"
GUARANTEES_ABOVE_FLEET: Final = "GuaranteesAboveFleet"
"""The reasons of findings about the fleet."""

WaitingPods = Mapping[tuple[str, frozenset[str]], int]
"""Pods that wait, by namespace and the DeviceClasses of which they ask for devices."""


class QuotaFleet(msgspec.Struct, frozen=True, kw_only=True):
    """
    What a fleet has of what quotas count.

    `totals` are in units of the keys, whatever state the devices are in; overlapping partitions count each. `classes`
    are the DeviceClasses that exist and can be read. `serving` are the pairs of a class and a key of which one device
    at least is both: a pod that asks for the class may count for the key.
    """

    totals: tuple[tuple[QuotaKey, int], ...] = ()
    classes: tuple[str, ...] = ()
    serving: tuple[tuple[str, QuotaKey], ...] = ()


class ResourceState(msgspec.Struct, frozen=True, kw_only=True):
    """
    One resource of a quota, in units of its key.

    `guarantee` is at least what its children are guaranteed. `lent` is what is held beyond it. `waiting` are pods that
    wait and may count for it, also those that wait for something else. `fleet` is None where it is not known.
    """

    resource: QuotaResource
    guarantee: int = 0
    held: int = 0
    lent: int = 0
    waiting: int = 0
    fleet: int | None = None

    @property
    def key(self) -> QuotaKey:
        """What it counts."""
        return self.resource.key

    @property
    def is_short(self) -> bool:
        """Whether pods wait while less than the guarantee is held."""
        return bool(self.waiting) and self.held < self.guarantee


class QuotaState(msgspec.Struct, frozen=True, kw_only=True):
    """A quota; `depth` counts those above it, `namespaces` those whose claims count for it."""

    quota: str
    uid: str = ""
    generation: int = 0
    parent: str = ""
    depth: int = 0
    namespaces: tuple[str, ...] = ()
    resources: tuple[ResourceState, ...] = ()
    findings: tuple[QuotaFinding, ...] = ()

    @property
    def has_guarantee(self) -> bool:
        """Whether something is guaranteed."""
        return any(each.guarantee for each in self.resources)


def quota_states(
    tree: QuotaTree, held: Callable[[int, QuotaKey], int], waiting: WaitingPods, fleet: QuotaFleet | None
) -> tuple[QuotaState, ...]:
    """
    Return all quotas, each before its children; `held` gives what a quota, by position, holds of a key.

    Without a `fleet` nothing is said of it, and pods count for the classes that they name.
    """
    totals = dict(fleet.totals) if fleet is not None else {}
    found = (*tree.findings, *(() if fleet is None else _about_fleet(tree, totals, fleet.classes)))
    below: dict[int, list[str]] = {}
    for namespace, leaf in tree.leaf_of.items():
        for index in tree.chains[leaf]:
            below.setdefault(index, []).append(namespace)
    serving = frozenset() if fleet is None else frozenset(fleet.serving)
    counts = _waiting_counts(tree, waiting, serving)
    about: dict[str, list[QuotaFinding]] = {}
    for each in found:
        about.setdefault(each.quota, []).append(each)
    states = []
    for index in tree.parents_first:
        quota, resources = tree.quotas[index], []
        for resource in quota.resources:
            amount, guarantee = held(index, resource.key), tree.guarantee(index, resource.key)
            resources.append(
                ResourceState(
                    resource=resource,
                    guarantee=guarantee,
                    held=amount,
                    lent=max(0, amount - guarantee),
                    waiting=counts.get((index, resource.key), 0),
                    fleet=totals.get(resource.key),
                )
            )
        above = tree.parents[index]
        states.append(
            QuotaState(
                quota=quota.name,
                uid=quota.uid,
                generation=quota.generation,
                parent=tree.quotas[above].name if above >= 0 else "",
                depth=len(tree.chains[index]) - 1,
                namespaces=tuple(sorted(below.get(index, ()))),
                resources=tuple(resources),
                findings=tuple(about.get(quota.name, ())),
            )
        )
    return tuple(states)


def _waiting_counts(
    tree: QuotaTree, waiting: WaitingPods, serving: frozenset[tuple[str, QuotaKey]]
) -> dict[tuple[int, QuotaKey], int]:
    """Count pods for each quota of their namespace and each key for which one of their classes may count."""
    counts: dict[tuple[int, QuotaKey], int] = {}
    for (namespace, classes), pods in waiting.items():
        for index in tree.chain(namespace):
            keys = (each.key for each in tree.quotas[index].resources)
            asked = (
                key for key in keys if key.device_class in classes or any((name, key) in serving for name in classes)
            )
            counts.update({(index, key): counts.get((index, key), 0) + pods for key in asked})
    return counts


def _about_fleet(tree: QuotaTree, totals: Mapping[QuotaKey, int], classes: Collection[str]) -> Iterator[QuotaFinding]:
    known = frozenset(classes)
    for quota in tree.quotas:
        for name in dict.fromkeys(each.device_class for each in quota.resources if each.device_class not in known):
            near = did_you_mean(name, known)
            message = f"spec.resources: no DeviceClass {name} can be read, so nothing counts for it{near}"
            yield QuotaFinding(quota=quota.name, reason=UNKNOWN_CLASS, message=message)
    for key in tree.keys:
        roots = [(index, tree.guarantee(index, key)) for index in tree.children(-1)]
        given, total = sum(amount for _, amount in roots), totals.get(key, 0)
        for index, amount in roots if given > total and key.device_class in known else ():
            if amount:
                message = f"spec.resources: all quotas together guarantee {key.amount(given)} {key}, and the fleet "
                message += f"has {key.amount(total)}; lower the guarantees"
                yield QuotaFinding(quota=tree.quotas[index].name, reason=GUARANTEES_ABOVE_FLEET, message=message)
