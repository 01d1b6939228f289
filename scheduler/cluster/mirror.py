"""The mirror: objects as the watch gave them and as they are believed to be, with everything indexed from them.

Who has to be added to status.reservedFor, and who may use a claim already.

Claims that are made for the extended resources of pods (KEP-5004): before they are there, and when nobody runs.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

import msgspec

from scheduler.change import Kind, Object
from scheduler.cluster.devices import AllocatedDevices, SliceIndex, device_ids
from scheduler.cluster.gangs import GangIndex
from scheduler.cluster.pod_index import Occupancy, PodIndex, holds_node
from scheduler.cluster.table import Table
from solver.domain import (
    UNREADABLE_TAINT,
    Claim,
    ClaimAllocation,
    ClaimId,
    ConsumerReference,
    DeviceClass,
    DeviceTaintRule,
    DisruptionBudget,
    ExtendedResourceClaim,
    Namespace,
    Node,
    Placement,
    Pod,
    PodId,
    ResourceSlice,
    Taint,
    TaintEffect,
)

Owner = tuple[str, str]
"""Namespace and uid of a pod: an owner reference never leaves its namespace, whatever uid it gives."""


TABLES: Final[dict[Kind, type[Object]]] = {
    Kind.NODES: Node,
    Kind.NAMESPACES: Namespace,
    Kind.CLASSES: DeviceClass,
    Kind.BUDGETS: DisruptionBudget,
    Kind.TAINT_RULES: DeviceTaintRule,
    Kind.SLICES: ResourceSlice,
}
"""The kinds that are tables and nothing more, with what they hold."""


class Mirror:
    """
    One table per kind, and indexes that are kept right with every `see_…`, each at the cost of the changed object.

    `pods` and `claims` hold what the watch gave; `believed_pods`, `believed_claims` and every index hold them with
    assumptions laid over. `seated` are the believed pods that hold a node.
    """

    def __init__(self) -> None:
        self.nodes: Table[str, Node] = Table()
        self.namespaces: Table[str, Namespace] = Table()
        self.slices: Table[str, ResourceSlice] = Table()
        self.classes: Table[str, DeviceClass] = Table()
        self.taint_rules: Table[str, DeviceTaintRule] = Table()
        self.budgets: Table[str, DisruptionBudget] = Table()
        self.pods: dict[PodId, Pod] = {}
        self.claims: dict[ClaimId, Claim] = {}
        self.believed_pods: dict[PodId, Pod] = {}
        self.believed_claims: Table[ClaimId, Claim] = Table()
        self.seated: Table[PodId, Pod] = Table()
        self.nominated: Table[PodId, Pod] = Table()
        """Believed pods without a node that have one nominated."""
        self.inventory = SliceIndex()
        self.holdings = AllocatedDevices(self.inventory)
        self.occupancy = Occupancy()
        self.gangs = GangIndex()
        self.company = PodIndex()
        self.users: dict[ClaimId, set[PodId]] = {}
        self.specials: dict[Owner, dict[ClaimId, Claim]] = {}
        """Claims that are there for the extended resources of pods, by the pod that owns them."""
        self.withheld: dict[ClaimId, tuple[DeviceTaintRule, ...]] = {}
        """Taints on the pools, or all devices of the drivers, of which claims hold devices that cannot be read."""

    def seen(self, kind: Kind, key: str) -> Object | None:
        """Give an object of the kinds that are tables of the mirror, as the watch last gave it."""
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
        """Take an object of one of `TABLES` as the watch gave it; give what it was."""
        before = self.seen(kind, key)
        if before != after:
            if kind is Kind.SLICES:
                self.see_slice(key, after if isinstance(after, ResourceSlice) else None)
            else:
                self._tables()[kind].replace(key, after)
        return before

    def anew(self, kind: Kind, key: str, value: Object | None) -> "Mirror":
        """
        Give a mirror of the same objects, one of them as it was, and nothing believed: every index is made again.

        For an object that raised while it was indexed, so that it is not known how far that came.
        """
        self._put_back(kind, key, value)
        fresh = Mirror()
        fresh.nodes, fresh.namespaces, fresh.classes = self.nodes, self.namespaces, self.classes
        fresh.taint_rules, fresh.budgets, fresh.pods = self.taint_rules, self.budgets, self.pods
        for each in self.slices.values():
            fresh.see_slice(each.name, each)
        for claim_key, claim in self.claims.items():
            fresh.see_claim(claim_key, claim)
        fresh.gangs.recall(self.gangs)
        fresh.company.recall(self.company)
        fresh.holdings.recall(self.holdings)
        return fresh

    def taint_rules_in_force(self) -> tuple[DeviceTaintRule, ...]:
        """Give the DeviceTaintRules, and those that withhold what claims hold of which not all can be read."""
        rules = self.taint_rules.values()
        return (*rules, *(rule for own in self.withheld.values() for rule in own)) if self.withheld else rules

    def _put_back(self, kind: Kind, key: str, value: Object | None) -> None:
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
        }

    def see_claim(self, key: ClaimId, after: Claim | None) -> None:
        """Take a claim as the watch gave it; nothing is believed of it yet."""
        before = self.claims.pop(key, None)
        if before is not None and before.is_extended_resource_claim:
            owner = (key.namespace, before.owner_pod_uid)
            self.specials[owner].pop(key, None)
            if not self.specials[owner]:
                del self.specials[owner]
        if after is not None:
            self.claims[key] = after
            if after.is_extended_resource_claim:
                self.specials.setdefault((key.namespace, after.owner_pod_uid), {})[key] = after

    def see_slice(self, name: str, after: ResourceSlice | None) -> None:
        """Take a slice as it is now."""
        before = self.slices.get(name)
        self.inventory.replace(before, after)
        self.slices.replace(name, after)
        for each in (before, after):
            if each is not None:
                self.holdings.notice(device_ids(each))

    def believe_pod(self, key: PodId, after: Pod | None) -> Pod | None:
        """Take a pod as it is believed to be now; give what it was."""
        before = self.believed_pods.get(key)
        if after is None:
            self.believed_pods.pop(key, None)
        else:
            self.believed_pods[key] = after
        self.occupancy.replace(before, after)
        self.gangs.believe(before, after)
        seen = self.pods.get(key)
        self.company.replace(key, before, after, is_seen=seen is not None and bool(seen.node_name))
        if after is not None and holds_node(after):
            self.seated.replace(key, after)
        elif before is not None and holds_node(before):
            self.seated.replace(key, None)
        if after is not None and _is_nominated(after):
            self.nominated.replace(key, after)
        elif before is not None and _is_nominated(before):
            self.nominated.replace(key, None)
        self._index_claims(key, before, after)
        return before

    def believe_claim(self, key: ClaimId, after: Claim | None) -> Claim | None:
        """Take a claim as it is believed to be now; give what it was."""
        before = self.believed_claims.get(key)
        self.believed_claims.replace(key, after)
        self.withheld.pop(key, None)
        if after is not None and after.invalid and (rules := tuple(withholding(after))):
            self.withheld[key] = rules
        self.holdings.replace(
            key, before.allocation if before is not None else None, after.allocation if after is not None else None
        )
        return before

    def _index_claims(self, key: PodId, before: Pod | None, after: Pod | None) -> None:
        old = before.claim_ids if before is not None else ()
        new = after.claim_ids if after is not None else ()
        if old == new:
            return
        for claim in old:
            self.users[claim].discard(key)
            if not self.users[claim]:
                del self.users[claim]
        for claim in new:
            self.users.setdefault(claim, set()).add(key)


def withholding(claim: Claim) -> Iterator[DeviceTaintRule]:
    """Give a rule for each device that a claim holds and that cannot be read: nothing of its pool is given out."""
    for result in claim.allocation.results if claim.allocation is not None else ():
        if result.device.driver and not result.device.device and not result.admin_access:
            taint = Taint(key=UNREADABLE_TAINT, effect=TaintEffect.NO_SCHEDULE)
            name = f"{UNREADABLE_TAINT}/{claim.id}"
            yield DeviceTaintRule(name=name, taint=taint, driver=result.device.driver, pool=result.device.pool or None)


def split_key(key: str) -> tuple[str, str]:
    """Split `namespace/name`."""
    namespace, _, name = key.partition("/")
    return namespace, name


def _is_nominated(pod: Pod) -> bool:
    is_waiting = not (pod.node_name or pod.is_terminal or pod.is_deleting or pod.scheduling_gates)
    return is_waiting and bool(pod.nominated_node_name)


def missing_consumers(
    claim: Claim, consumers: Iterable[ConsumerReference], find_pod: Callable[[PodId], Pod | None]
) -> tuple[ConsumerReference, ...]:
    """
    Leave out pods whose PodGroup has the claim reserved (KEP-5729).

    One entry covers all pods of a group, more than reservedFor has room for; theirs would be too many.
    """
    is_for_group = any(each.resource == "podgroups" for each in claim.reserved_for)
    return tuple(each for each in consumers if not (is_for_group and _is_covered(claim, each, find_pod)))


def _is_covered(claim: Claim, consumer: ConsumerReference, find_pod: Callable[[PodId], Pod | None]) -> bool:
    pod = find_pod(PodId(claim.id.namespace, consumer.name))
    return pod is not None and pod.uid == consumer.uid and claim.is_reserved_for("", pod.pod_group)


def planned(
    placement: Placement, special: ExtendedResourceClaim, allocations: Mapping[ClaimId, ClaimAllocation]
) -> Claim:
    """Give the claim of a placement as it will be, under its stand-in id: allocated, and reserved for the pod."""
    own = allocations.get(special.id)
    return msgspec.structs.replace(
        special.as_claim(placement.pod_uid),
        allocation=own.allocation if own is not None else None,
        reserved_for=(ConsumerReference.of(placement.pod, placement.pod_uid),),
    )


def of_pod(mirror: Mirror, pod: PodId, uid: str) -> tuple[Claim, ...]:
    """Give the claims of one pod that are there: of its namespace, with its uid as their controller."""
    return tuple(mirror.specials.get((pod.namespace, uid), {}).values())


def left_behind(mirror: Mirror) -> tuple[tuple[Claim, Pod], ...]:
    """Give the claims whose pods are not believed to be bound: an earlier attempt made them, and none is under way."""
    if not mirror.specials:
        return ()
    pods = mirror.believed_pods.values()
    waiting = [pod for pod in pods if (pod.id.namespace, pod.uid) in mirror.specials and not holds_node(pod)]
    return tuple((claim, pod) for pod in waiting for claim in of_pod(mirror, pod.id, pod.uid) if not claim.is_deleting)
