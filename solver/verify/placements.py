"""Placed pods fit their nodes: cordons, taints, affinity, and the sums of what runs there.

What devices take of their node's own resources is counted, said, covered, and charged to one pod (KEP-5517).

Every pod of the batch is decided once, as the pod that it is, and the placed ones may be placed.

Nodes that are held for pods which were passed over: nobody who comes later takes what is meant for them.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

import msgspec

from solver.domain import (
    Allocation,
    Batch,
    ClaimId,
    Hold,
    Node,
    NodeAllocatableClaimStatus,
    Placement,
    Plan,
    Pod,
    PodId,
    Taint,
    Violation,
)
from solver.domain.quantity import NANO
from solver.verify import extended_resources, matching
from solver.verify.plan_context import Picture
from solver.verify.violations import Rule, broken


@dataclass(slots=True, eq=False)
class NodeAllocatableCheck:
    """The claims of a plan with their allocations, old and new; `is_needed` where some device takes something."""

    picture: Picture
    allocations: dict[ClaimId, Allocation]
    is_needed: bool
    users: defaultdict[ClaimId, set[str]] = field(default_factory=lambda: defaultdict(set))

    @classmethod
    def of(cls, plan: Plan, picture: Picture) -> "NodeAllocatableCheck":
        """Collect them."""
        is_needed = any(device.node_allocatable for each in picture.snapshot.slices for device in each.devices)
        found = cls(picture, {}, is_needed)
        if is_needed:
            old = {claim.id: claim.allocation for claim in picture.claims.values() if claim.allocation is not None}
            found.allocations = old | {each.claim: each.allocation for each in plan.allocations}
            for placement in plan.placements:
                for claim in placement.claims:
                    found.users[claim].add(placement.pod_uid)
        return found

    def added(self, pod: Pod, placement: Placement) -> Pod:
        """Give a pod with requests that hold what its claims take; pod-level requests hold it already."""
        if not self.is_needed:
            return pod
        more: defaultdict[str, int] = defaultdict(int)
        for claim in placement.claims:
            for resource, nano in self._taken(claim).items():
                more[resource] += nano
        if not more:
            return pod
        requests, inside = dict(pod.requests), {name for name, _ in pod.level_slack}
        for resource, nano in more.items():
            if resource not in inside:
                requests[resource] = requests.get(resource, 0) + _units(resource, nano)
        return msgspec.structs.replace(pod, requests=tuple(sorted(requests.items())))

    def violations(self, pod: Pod, placement: Placement) -> Iterator[Violation]:
        """Check what a placement says of its claims, who else uses them, and that pod-level requests cover them."""
        if not (self.is_needed or placement.node_allocatable or pod.level_slack):
            return
        taken = {claim: self._taken(claim) for claim in placement.claims} if self.is_needed else {}
        taken = {claim: amounts for claim, amounts in taken.items() if amounts}
        said = {each.claim: each for each in placement.node_allocatable}
        for claim in sorted(taken.keys() | said.keys()):
            yield from self._of_claim(pod, claim, taken.get(claim, {}), said.get(claim))
        for resource, slack in pod.level_slack:
            amount = _units(resource, sum(amounts.get(resource, 0) for amounts in taken.values()))
            if amount > slack:
                message = f"its claims take {amount} of {resource}, and its pod-level requests leave {slack}"
                yield broken(Rule.BURDEN_UNCOVERED, pod.id, message)

    def _of_claim(
        self, pod: Pod, claim: ClaimId, taken: dict[str, int], said: NodeAllocatableClaimStatus | None
    ) -> Iterator[Violation]:
        if said is None or dict(said.resources) != taken:
            told = dict(said.resources) if said is not None else {}
            yield broken(Rule.BURDEN_SAID, pod.id, f"claim {claim} takes {taken}, and the placement says {told}")
        entries = {entry.entry for entry in pod.claims if entry.claim == claim}
        containers = tuple(each.name for each in pod.containers if entries & set(each.claims))
        if taken and not containers:
            yield broken(Rule.BURDEN_UNCHARGED, pod.id, f"no container uses claim {claim}, which takes {taken}")
        if said is not None and said.containers != containers:
            yield broken(Rule.BURDEN_SAID, pod.id, f"claim {claim} is for {containers}, not {said.containers}")
        known = self.picture.claims.get(claim)
        others = {each.uid for each in known.reserved_for} if known is not None else set()
        if taken and (others | self.users[claim]) - {pod.uid}:
            yield broken(Rule.BURDEN_SHARED, claim, f"it takes {taken} of its node, and {pod.id} is not its only pod")

    def _taken(self, claim: ClaimId) -> dict[str, int]:
        """Give nano-units by resource; admin access takes nothing."""
        total: defaultdict[str, int] = defaultdict(int)
        allocation = self.allocations.get(claim)
        for result in allocation.results if allocation is not None else ():
            published = None if result.admin_access else self.picture.pools.find(result.device)
            if published is None:
                continue
            device = published.device
            consumed = {name: amount.nano for name, amount in result.consumed_capacity}
            if not (consumed or device.allow_multiple_allocations):  # it is taken whole
                consumed = {name: capacity.value.nano for name, capacity in device.capacities}
            for mapping in device.node_allocatable:
                factor = mapping.allocation_multiplier.nano if mapping.allocation_multiplier is not None else NANO
                if not mapping.capacity_key:
                    total[mapping.resource] += factor
                elif mapping.capacity_key in consumed:
                    total[mapping.resource] += max(0, consumed[mapping.capacity_key]) * factor // NANO
        return dict(total)


def _units(resource: str, nano: int) -> int:
    unit = NANO // 1000 if resource == "cpu" else NANO
    return -(-nano // unit)


CORDON: Final = Taint(key="node.kubernetes.io/unschedulable", effect="NoSchedule")
"""What pods have to tolerate to be placed on a cordoned node."""


def node_violations(plan: Plan, picture: Picture) -> Iterator[Violation]:
    """Check every placement against its node, and every node against all that would run on it."""
    arriving: defaultdict[str, dict[str, Pod]] = defaultdict(dict)
    widened = NodeAllocatableCheck.of(plan, picture)
    for placement in plan.placements:
        pod, node = picture.pods.get(placement.pod), picture.nodes.get(placement.node)
        if node is None:
            yield broken(Rule.NODE_UNKNOWN, placement.pod, f"there is no node {placement.node}")
        elif pod is not None:
            arriving[node.name][pod.uid] = widened.added(pod, placement)
            yield from suits(pod, node)
            yield from widened.violations(pod, placement)
    running: defaultdict[str, list[Pod]] = defaultdict(list)
    for pod in picture.snapshot.pods:
        if pod.node_name in arriving and pod.uid not in arriving[pod.node_name]:
            running[pod.node_name].append(pod)
    for name, pods in arriving.items():
        yield from _has_room(picture.nodes[name], list(pods.values()), running[name], picture)


def suits(pod: Pod, node: Node) -> Iterator[Violation]:
    """Check what does not depend on other pods: cordon, taints, nodeSelector and required affinity."""
    if node.is_unschedulable and any(matching.untolerated((CORDON,), pod.tolerations)):
        yield broken(Rule.NODE_UNSCHEDULABLE, pod.id, f"node {node.name} is cordoned")
    for taint in matching.untolerated(node.taints, pod.tolerations):
        message = f"node {node.name} has the taint {taint}"
        yield broken(Rule.NODE_TAINT, pod.id, message)
    labels = dict(node.labels)
    for key, value in pod.node_selector:
        if labels.get(key) != value:
            yield broken(Rule.NODE_AFFINITY, pod.id, f"node {node.name} does not have the label {key}={value}")
    if pod.required_affinity is not None and not matching.selects(pod.required_affinity, node):
        yield broken(Rule.NODE_AFFINITY, pod.id, f"no term of its required node affinity holds on node {node.name}")


def _has_room(node: Node, arriving: list[Pod], running: list[Pod], picture: Picture) -> Iterator[Violation]:
    """
    Only what an arriving pod asks for has to be there: kube-scheduler ignores what a pod does not request.

    What devices serve is not the node's to give.
    """
    allocatable = dict(node.allocatable)
    names = " and ".join(str(pod.id) for pod in arriving)
    filled = sum(amount for pod in running for resource, amount in pod.requests if resource == "pods")
    if len(arriving) + len(running) + filled > allocatable.get("pods", 0):
        message = f"{names} would be pods {len(running) + 1} to {len(running) + len(arriving)}"
        yield broken(Rule.NODE_PODS, node.name, f"{message}, it runs at most {allocatable.get('pods', 0)}")
    taken: defaultdict[str, int] = defaultdict(int)
    for resource, amount in (pair for pod in (*running, *arriving) for pair in pod.requests):
        taken[resource] += amount
    asked = sorted(
        {
            resource
            for pod in arriving
            for resource, amount in pod.requests
            if amount > 0 and resource not in extended_resources.served(pod, node, picture)
        }
    )
    for resource in asked:
        if taken[resource] > allocatable.get(resource, 0):
            message = f"with {names} its pods request {taken[resource]} of {resource}"
            yield broken(Rule.NODE_RESOURCES, node.name, f"{message}, it has {allocatable.get(resource, 0)}")


def pod_violations(batch: Batch, plan: Plan, picture: Picture) -> Iterator[Violation]:
    """Check totality, identity and whether the placed pods may be placed at all."""
    mentions = [(each.pod, each.pod_uid) for each in plan.placements]
    mentions += [(each.pod, each.pod_uid) for each in plan.unplaced]
    decided = Counter(pod_id for pod_id, _ in mentions)
    for pod in batch.pods:
        if pod.id not in decided:
            yield broken(Rule.POD_UNDECIDED, pod.id, "the plan does not mention it")
    for pod_id, count in decided.items():
        if count > 1:
            yield broken(Rule.POD_TWICE, pod_id, f"the plan decides it {count} times")
    for pod_id, uid in mentions:
        yield from _identity(pod_id, uid, picture)
    for unplaced in plan.unplaced:
        if not unplaced.reasons:
            yield broken(Rule.POD_UNREASONED, unplaced.pod, "it is unplaced without a reason")
    for placement in plan.placements:
        placed = picture.pods.get(placement.pod)
        if placed is not None:
            yield from _placed(placement, placed)


def _identity(pod_id: PodId, uid: str, picture: Picture) -> Iterator[Violation]:
    pod = picture.pods.get(pod_id)
    if pod is None:
        yield broken(Rule.POD_UNKNOWN, pod_id, "the batch has no such pod")
    elif pod.uid != uid:
        yield broken(Rule.POD_UID, pod_id, f"the plan means the pod with uid {uid}, the batch has {pod.uid}")


def _placed(placement: Placement, pod: Pod) -> Iterator[Violation]:
    obstacles = {
        f"it is invalid: {pod.invalid}": bool(pod.invalid),
        f"it waits for its gates {', '.join(pod.scheduling_gates)}": bool(pod.scheduling_gates),
        "it is being deleted": pod.is_deleting,
        "it has finished": pod.is_terminal,
        f"it is bound to node {pod.node_name}": bool(pod.node_name),
    }
    for message in (message for message, holds in obstacles.items() if holds):
        yield broken(Rule.POD_UNSCHEDULABLE, pod.id, message)
    claims = (
        pod.claim_ids
        if placement.extended_resource_claim is None
        else (*pod.claim_ids, placement.extended_resource_claim.id)
    )
    if sorted(placement.claims) != sorted(claims):
        listed = ", ".join(str(each) for each in placement.claims) or "none"
        used = ", ".join(str(each) for each in claims) or "none"
        yield broken(Rule.POD_CLAIMS, pod.id, f"the placement lists the claims {listed}; the pod uses {used}")


def reservation_violations(batch: Batch, plan: Plan, picture: Picture) -> Iterator[Violation]:
    """Look at every pod that a plan puts on a held node."""
    for hold in batch.node_reservations:
        later = _later(batch, plan, hold)
        if later:
            yield from _taken(hold, later, plan, picture)
            yield from _crowded(hold, later, picture)


def _taken(hold: Hold, later: list[tuple[Pod, str]], plan: Plan, picture: Picture) -> Iterator[Violation]:
    """Later pods take no devices of a node that is held for its devices."""
    taking = _taking(plan, picture) if hold.takes_devices else set()
    for pod, node in later:
        if pod.id in taking:
            yield broken(Rule.NODE_RESERVED, pod.id, f"takes devices on node {node}, held for pod {hold.pod}")


def _later(batch: Batch, plan: Plan, hold: Hold) -> list[tuple[Pod, str]]:
    """Pods on the hold's nodes that come after it: of a lower priority, or of the same and not overdue."""
    pods, overdue = {pod.id: pod for pod in batch.pods}, set(batch.overdue)
    found = []
    for placement in plan.placements:
        pod = pods.get(placement.pod)
        if pod is None or placement.node not in hold.nodes or pod.uid in hold.uids:
            continue
        if pod.priority < hold.priority or (pod.priority == hold.priority and pod.id not in overdue):
            found.append((pod, placement.node))
    return found


def _taking(plan: Plan, picture: Picture) -> set[object]:
    """Pods for which the plan allocates devices that nobody else can have beside them."""
    allocated = {
        each.claim for each in plan.allocations if any(not result.admin_access for result in each.allocation.results)
    }
    found: set[object] = set()
    for placement in plan.placements:
        pod = picture.pods.get(placement.pod)
        if pod is not None and allocated & {*pod.claim_ids, *placement.claims}:
            found.add(pod.id)
    return found


def _crowded(hold: Hold, later: list[tuple[Pod, str]], picture: Picture) -> Iterator[Violation]:
    """What the later pods ask for has to be there beside what the hold asks for."""
    for resource, wanted in hold.requests:
        asked: Counter[str] = Counter()
        for pod, node in later:
            asked[node] += dict(pod.requests).get(resource, 0)
        for name, amount in asked.items():
            node_of = picture.nodes.get(name)
            if not amount or node_of is None:
                continue
            held = sum(dict(pod.requests).get(resource, 0) for pod in picture.snapshot.pods if pod.node_name == name)
            free = dict(node_of.allocatable).get(resource, 0) - held
            if amount > max(0, free - wanted):
                yield broken(Rule.NODE_RESERVED, name, f"{resource} is taken that is held for pod {hold.pod}")
