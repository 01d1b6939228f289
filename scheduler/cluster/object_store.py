"""
The object store: objects as observed by the watches and as assumed, with the indexes over them.

Also here: which consumers a claim still lacks in status.reservedFor, and the special claims of pods with extended
resources (KEP-5004), which exist under a stand-in id before the scheduler creates them.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

import msgspec

from scheduler.change import Kind, Object, split_key
from scheduler.cluster.devices import AllocatedDevices, SliceIndex
from scheduler.cluster.gangs import GangIndex
from scheduler.cluster.pod_index import PodIndex, holds_node
from scheduler.cluster.quota_usage import QuotaUsage
from scheduler.cluster.table import Table
from solver.domain import (
    UNREADABLE_TAINT,
    Claim,
    ClaimAllocation,
    ClaimId,
    ConsumerReference,
    DeviceClass,
    DeviceQuota,
    DeviceTaintRule,
    ExtendedResourceClaim,
    Namespace,
    Node,
    Placement,
    Pod,
    PodDisruptionBudget,
    PodId,
    ResourceSlice,
    Taint,
    TaintEffect,
    WithdrawnDevice,
)

Owner = tuple[str, str]
"""Namespace and uid of a pod: an owner reference never leaves its namespace, whatever uid it gives."""


TABLES: Final[dict[Kind, type[Object]]] = {
    Kind.NODES: Node,
    Kind.NAMESPACES: Namespace,
    Kind.CLASSES: DeviceClass,
    Kind.BUDGETS: PodDisruptionBudget,
    Kind.TAINT_RULES: DeviceTaintRule,
    Kind.SLICES: ResourceSlice,
    Kind.QUOTAS: DeviceQuota,
}
"""The kinds that are stored in a table without assumptions, with the type of their objects."""


class ObjectStore:
    """
    One table per kind, and indexes that every `set_…` updates at the cost of the changed object only.

    `pods` and `claims` are as observed; `assumed_pods`, `assumed_claims` and all indexes have assumptions applied.
    `placed_pods` are the assumed pods that are bound to a node and have not ended.
    """

    def __init__(self) -> None:
        self.nodes: Table[str, Node] = Table()
        self.namespaces: Table[str, Namespace] = Table()
        self.slices: Table[str, ResourceSlice] = Table()
        self.classes: Table[str, DeviceClass] = Table()
        self.taint_rules: Table[str, DeviceTaintRule] = Table()
        self.budgets: Table[str, PodDisruptionBudget] = Table()
        self.quotas: Table[str, DeviceQuota] = Table()
        self.quota_usage = QuotaUsage()
        """Kept up to date while there are quotas."""
        self.pods: dict[PodId, Pod] = {}
        self.claims: dict[ClaimId, Claim] = {}
        self.assumed_pods: dict[PodId, Pod] = {}
        self.assumed_claims: Table[ClaimId, Claim] = Table()
        self.placed_pods: Table[PodId, Pod] = Table()
        self.nominated: Table[PodId, Pod] = Table()
        """Assumed pods that have a nominated node and are not bound."""
        self.nominated_to: dict[str, dict[PodId, Pod]] = {}
        """The same by the node."""
        self.slice_index = SliceIndex()
        self.allocated_devices = AllocatedDevices(self.slice_index)
        self.gangs = GangIndex()
        self.pod_index = PodIndex()
        self.pods_by_claim: dict[ClaimId, set[PodId]] = {}
        self.special_claims: dict[Owner, dict[ClaimId, Claim]] = {}
        """Special claims as observed, by the pod that owns them."""
        self.unreadable_rules: dict[ClaimId, tuple[DeviceTaintRule, ...]] = {}
        """Taint rules for pools (or whole drivers) of which a claim holds a device that cannot be read."""

    def seen(self, kind: Kind, key: str) -> Object | None:
        """Return an object as the watch last gave it."""
        match kind:
            case Kind.PODS:
                return self.pods.get(PodId(*split_key(key)))
            case Kind.CLAIMS:
                return self.claims.get(ClaimId(*split_key(key)))
            case Kind.SLICES:
                return self.slices.get(key)
            case _:
                return self._tables()[kind].get(key)

    def swap(self, kind: Kind, key: str, after: Object | None) -> Object | None:
        """Set an object of one of `TABLES`; return its previous value."""
        before = self.seen(kind, key)
        if before != after:
            if kind is Kind.SLICES:
                self.set_slice(key, after if isinstance(after, ResourceSlice) else None)
            else:
                is_first = kind is Kind.QUOTAS and not self.quotas
                self._tables()[kind].replace(key, after)
                if is_first:
                    self._count_quotas()
        return before

    def _count_quotas(self) -> None:
        self.quota_usage.forget_missing(self.assumed_claims)
        for claim in self.assumed_claims.values():
            self.quota_usage.replace(claim.id, claim)

    def present_quota_usage(self) -> QuotaUsage:
        """Return what is held, with the tree of the present quotas."""
        self.quota_usage.follow(self.quotas.values(), self.namespaces.values(), self.classes.values())
        return self.quota_usage

    def withdrawn(self) -> tuple[WithdrawnDevice, ...]:
        """Return the allocated devices that no slice publishes any more; none without quotas, which alone ask."""
        return self.allocated_devices.withdrawn() if len(self.quotas) else ()

    def reindexed(self, kind: Kind, key: str, value: Object | None) -> "ObjectStore":
        """
        Return a store of the same objects without assumptions, with one object restored and every index rebuilt.

        Used after an object raised while it was indexed, which leaves the indexes half updated.
        """
        self._restore(kind, key, value)
        fresh = ObjectStore()
        fresh.nodes, fresh.namespaces, fresh.classes = self.nodes, self.namespaces, self.classes
        fresh.taint_rules, fresh.budgets, fresh.pods = self.taint_rules, self.budgets, self.pods
        fresh.quotas, fresh.quota_usage = self.quotas, self.quota_usage
        for each in self.slices.values():
            fresh.set_slice(each.name, each)
        for claim_key, claim in self.claims.items():
            fresh.set_claim(claim_key, claim)
        fresh.gangs.inherit(self.gangs)
        fresh.pod_index.inherit(self.pod_index)
        fresh.allocated_devices.inherit(self.allocated_devices)
        return fresh

    def taint_rules_in_force(self) -> tuple[DeviceTaintRule, ...]:
        """Return the DeviceTaintRules, and our own rules for devices that are allocated but cannot be read."""
        rules = self.taint_rules.values()
        return (
            (*rules, *(rule for own in self.unreadable_rules.values() for rule in own))
            if self.unreadable_rules
            else rules
        )

    def _restore(self, kind: Kind, key: str, value: Object | None) -> None:
        if kind is Kind.PODS:
            self.pods.pop(PodId(*split_key(key)), None)
            if isinstance(value, Pod):
                self.pods[value.id] = value
        elif kind is Kind.CLAIMS:
            self.claims.pop(ClaimId(*split_key(key)), None)
            if isinstance(value, Claim):
                self.claims[value.id] = value
        elif kind is Kind.SLICES:
            self.slices.replace(key, value if isinstance(value, ResourceSlice) else None)
        else:
            self._tables()[kind].replace(key, value)

    def _tables(self) -> dict[Kind, Table[str, Any]]:
        return {
            Kind.NODES: self.nodes,
            Kind.NAMESPACES: self.namespaces,
            Kind.CLASSES: self.classes,
            Kind.TAINT_RULES: self.taint_rules,
            Kind.BUDGETS: self.budgets,
            Kind.QUOTAS: self.quotas,
        }

    def group_uid(self, key: PodId, uid: str) -> str:
        """Return the uid of the PodGroup that has the name which a pod gives, as it is now; empty where none is."""
        pod = self.pods.get(key)
        return self.gangs.group_uid(pod) if pod is not None and pod.uid == uid else ""

    def set_claim(self, key: ClaimId, after: Claim | None) -> None:
        """Set a claim as observed; `set_assumed_claim` follows."""
        before = self.claims.pop(key, None)
        if before is not None and before.is_extended_resource_claim:
            owner = (key.namespace, before.owner_pod_uid)
            self.special_claims[owner].pop(key, None)
            if not self.special_claims[owner]:
                del self.special_claims[owner]
        if after is not None:
            self.claims[key] = after
            if after.is_extended_resource_claim:
                self.special_claims.setdefault((key.namespace, after.owner_pod_uid), {})[key] = after

    def set_slice(self, name: str, after: ResourceSlice | None) -> None:
        """Set a slice."""
        before = self.slices.get(name)
        self.slice_index.replace(before, after)
        self.slices.replace(name, after)
        for each in (before, after):
            if each is not None:
                self.allocated_devices.slice_changed(each)

    def set_assumed_pod(self, key: PodId, after: Pod | None) -> Pod | None:
        """Set a pod with assumptions applied; return its previous value."""
        before = self.assumed_pods.get(key)
        if after is None:
            self.assumed_pods.pop(key, None)
        else:
            self.assumed_pods[key] = after
        self.gangs.replace_pod(before, after)
        seen = self.pods.get(key)
        self.pod_index.replace(key, before, after, is_seen=seen is not None and bool(seen.node_name))
        if after is not None and holds_node(after):
            self.placed_pods.replace(key, after)
        elif before is not None and holds_node(before):
            self.placed_pods.replace(key, None)
        self._index_nomination(key, before, after)
        self._index_claims(key, before, after)
        return before

    def _index_nomination(self, key: PodId, before: Pod | None, after: Pod | None) -> None:
        was, is_now = before is not None and is_nominated(before), after is not None and is_nominated(after)
        if was or is_now:
            self.nominated.replace(key, after if is_now else None)
        if before is not None and was:
            there = self.nominated_to[before.nominated_node_name]
            del there[key]
            if not there:
                del self.nominated_to[before.nominated_node_name]
        if after is not None and is_now:
            self.nominated_to.setdefault(after.nominated_node_name, {})[key] = after

    def set_assumed_claim(self, key: ClaimId, after: Claim | None) -> Claim | None:
        """Set a claim with assumptions applied; return its previous value."""
        before = self.assumed_claims.get(key)
        self.assumed_claims.replace(key, after)
        self.unreadable_rules.pop(key, None)
        if after is not None and after.invalid and (rules := tuple(unreadable_device_rules(after))):
            self.unreadable_rules[key] = rules
        if self.quotas:
            self.quota_usage.replace(key, after)
        self.allocated_devices.replace(
            key, before.allocation if before is not None else None, after.allocation if after is not None else None
        )
        return before

    def _index_claims(self, key: PodId, before: Pod | None, after: Pod | None) -> None:
        old = before.claim_ids if before is not None else ()
        new = after.claim_ids if after is not None else ()
        if old == new:
            return
        for claim in old:
            self.pods_by_claim[claim].discard(key)
            if not self.pods_by_claim[claim]:
                del self.pods_by_claim[claim]
        for claim in new:
            self.pods_by_claim.setdefault(claim, set()).add(key)


def unreadable_device_rules(claim: Claim) -> Iterator[DeviceTaintRule]:
    """Return a taint rule for each device of a claim that cannot be read: no device of its pool is allocated."""
    for result in claim.allocation.results if claim.allocation is not None else ():
        if result.device.driver and not result.device.device and not result.admin_access:
            taint = Taint(key=UNREADABLE_TAINT, effect=TaintEffect.NO_SCHEDULE)
            name = f"{UNREADABLE_TAINT}/{claim.id}"
            yield DeviceTaintRule(name=name, taint=taint, driver=result.device.driver, pool=result.device.pool or None)


def is_nominated(pod: Pod) -> bool:
    """Whether a pod waits with a nominated node."""
    return pod.is_pending and not pod.scheduling_gates and bool(pod.nominated_node_name)


def missing_consumers(
    claim: Claim, consumers: Iterable[ConsumerReference], group_uid: Callable[[PodId, str], str]
) -> tuple[ConsumerReference, ...]:
    """
    Return the consumers to add to reservedFor: not the pods whose PodGroup has reserved the claim (KEP-5729).

    The one entry of a group covers all its pods, which may be more than reservedFor has room for. `group_uid` gives the
    uid of a pod's PodGroup, by key and uid of the pod.
    """
    groups = {each.uid for each in claim.reserved_for if each.resource == "podgroups"}
    if not groups:
        return tuple(consumers)
    return tuple(each for each in consumers if group_uid(PodId(claim.id.namespace, each.name), each.uid) not in groups)


def planned_special_claim(
    placement: Placement, special: ExtendedResourceClaim, allocations: Mapping[ClaimId, ClaimAllocation]
) -> Claim:
    """Return the special claim of a placement under its stand-in id, allocated and reserved for the pod."""
    own = allocations.get(special.id)
    return msgspec.structs.replace(
        special.as_claim(placement.pod_uid),
        allocation=own.allocation if own is not None else None,
        reserved_for=(ConsumerReference.of(placement.pod, placement.pod_uid),),
    )


def special_claims_of(store: ObjectStore, pod: PodId, uid: str) -> tuple[Claim, ...]:
    """Return the observed special claims of a pod: in its namespace, with its uid as controller."""
    return tuple(store.special_claims.get((pod.namespace, uid), {}).values())


def orphaned_special_claims(store: ObjectStore) -> tuple[tuple[Claim, Pod], ...]:
    """
    Return the special claims that an earlier attempt made and no attempt uses, with their pods.

    Of an unbound pod these are all, while no attempt is under way. One that is being deleted stays allocated while it
    is reserved for its pod, which may wait for its devices. Of a bound pod these are the ones without an allocation: a
    lost answer or a late write of a former leader made them.
    """
    if not store.special_claims:
        return ()
    pods = (pod for pod in store.assumed_pods.values() if (pod.id.namespace, pod.uid) in store.special_claims)
    return tuple(
        (claim, pod)
        for pod in pods
        for claim in special_claims_of(store, pod.id, pod.uid)
        if _is_left_over(claim, assumed=pod, observed=store.pods[pod.id])
    )


def _is_left_over(claim: Claim, assumed: Pod, observed: Pod) -> bool:
    if observed.node_name and not claim.is_deleting and claim.allocation is None:
        return True  # the pod was bound without it
    return not holds_node(assumed) and (not claim.is_deleting or claim.allocation is not None)
