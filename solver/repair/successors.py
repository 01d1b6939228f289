"""The pods that controllers make in place of moved ones, with new claims where they come from templates."""

from collections.abc import Iterable
from typing import Final

from msgspec.structs import replace

from solver.domain import (
    Batch,
    Claim,
    ClaimId,
    DeviceId,
    Node,
    Pod,
    PodClaim,
    PodId,
    RepairGoal,
    ResourceSlice,
    Snapshot,
    consumed_counters,
)
from solver.preemption.what_if import deallocated, without

_SUCCESSOR: Final = "<moved>"
"""Ends the names of successors and their claims; no object can have such a name."""


def with_claims(snapshot: Snapshot, goal: RepairGoal) -> Snapshot:
    """Add the claims of wanted pods that do not exist."""
    if not goal.claims:
        return snapshot
    return replace(snapshot, claims=tuple(sorted((*snapshot.claims, *goal.claims), key=lambda claim: claim.id)))


def avoiding(snapshot: Snapshot, goal: RepairGoal) -> Snapshot:
    """
    Keep all pods away from the devices and the nodes of a goal, whatever they tolerate.

    The devices are not published any more, and the nodes have no more places for pods. What stays there keeps what it
    has.
    """
    closed, failed = frozenset(goal.nodes), frozenset(goal.devices)
    if closed:
        nodes = tuple(_without_places(node) if node.name in closed else node for node in snapshot.nodes)
        snapshot = replace(snapshot, nodes=nodes)
    if not failed:
        return snapshot
    slices: list[ResourceSlice] = []
    draws = dict(snapshot.draws)
    for each in snapshot.slices:
        gone = [device for device in each.devices if DeviceId(each.driver, each.pool, device.name) in failed]
        for device in gone:
            key = DeviceId(each.driver, each.pool, device.name)
            draws.setdefault(key, consumed_counters(key, device))
        kept = tuple(device for device in each.devices if device not in gone)
        slices.append(replace(each, devices=kept) if gone else each)
    return replace(snapshot, slices=tuple(slices), draws=tuple(sorted(draws.items())))


def _without_places(node: Node) -> Node:
    allocatable = tuple((name, 0 if name == "pods" else amount) for name, amount in node.allocatable)
    return replace(node, allocatable=allocatable)


def with_successors(snapshot: Snapshot, moved: Iterable[Pod]) -> tuple[Snapshot, tuple[Pod, ...]]:
    """Take pods away, and return their successors, whose claims are in the snapshot."""
    pods = tuple(moved)
    if not pods:
        return snapshot, ()
    cleared = without(snapshot, [pod.id for pod in pods], frees_devices=True)
    known = {claim.id: claim for claim in cleared.claims}
    made: dict[ClaimId, Claim] = {}
    successors = tuple(_successor(pod, known, made) for pod in pods)
    gone = {claim.id for pod in pods for claim in _own_claims(pod, known)}
    claims = (*(claim for claim in cleared.claims if claim.id not in gone), *made.values())
    return replace(cleared, claims=tuple(sorted(claims, key=lambda claim: claim.id))), successors


def once_left(snapshot: Snapshot, uids: Iterable[str], waiting: Iterable[Pod]) -> Snapshot:
    """
    Return the cluster when pods that are leaving are gone, with their allocations.

    So are allocations that are kept neither by a pod there nor by a waiting one: the claim controller takes them back a
    moment after their pods.
    """
    leaving = frozenset(uids)
    ids = [pod.id for pod in snapshot.pods if pod.uid in leaving]
    return deallocated(without(snapshot, ids, frees_devices=True), waiting)


def with_batch(wanted: Batch, successors: Iterable[Pod], snapshot: Snapshot) -> Batch:
    """Add successors to the pods that want a place, with their gangs."""
    added = tuple(successors)
    known = {gang.id for gang in wanted.gangs}
    named = {pod.gang for pod in added} - known
    gangs = (*wanted.gangs, *(gang for gang in snapshot.gangs if gang.id in named))
    return replace(wanted, pods=(*wanted.pods, *added), gangs=gangs)


def successor_id(pod: PodId) -> PodId:
    """Return the key that the successor of a pod has in plans."""
    return PodId(pod.namespace, f"{pod.name}{_SUCCESSOR}")


def predecessor_claim(claim: ClaimId) -> ClaimId:
    """Return the claim of the moved pod in whose place a successor has a claim."""
    return ClaimId(claim.namespace, claim.name.removesuffix(_SUCCESSOR))


def _is_own(pod: Pod, claim: Claim) -> bool:
    """Whether a claim was made for this pod from a template, so that the successor gets another one."""
    return bool(claim.owner_pod_uid) and claim.owner_pod_uid == pod.uid


def _own_claims(pod: Pod, known: dict[ClaimId, Claim]) -> list[Claim]:
    claims = (known[claim] for claim in pod.claim_ids if claim in known)
    return [claim for claim in claims if _is_own(pod, claim)]


def _successor(pod: Pod, known: dict[ClaimId, Claim], made: dict[ClaimId, Claim]) -> Pod:
    uid = f"{pod.uid}{_SUCCESSOR}"
    entries: list[PodClaim] = []
    for entry in pod.claims:
        claim = known.get(entry.claim) if entry.claim is not None else None
        if claim is None or not _is_own(pod, claim):
            entries.append(entry)
            continue
        new = replace(
            claim,
            id=ClaimId(claim.id.namespace, f"{claim.id.name}{_SUCCESSOR}"),
            uid=f"{claim.uid}{_SUCCESSOR}",
            allocation=None,
            reserved_for=(),
            device_status=(),
            owner_pod_uid=uid,
            is_deleting=False,
        )
        made[new.id] = new
        entries.append(replace(entry, claim=new.id))
    return replace(
        pod, id=successor_id(pod.id), uid=uid, node_name="", nominated_node_name="", started=0, claims=tuple(entries)
    )
