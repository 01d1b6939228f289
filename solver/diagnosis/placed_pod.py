"""Why a bound pod is where it is: what its devices have in common, and on which nodes it could be instead."""

from collections.abc import Iterable, Iterator

from msgspec.structs import replace

from solver.diagnosis.pod_report import explain_pod
from solver.domain import (
    Batch,
    Budget,
    Claim,
    Constraint,
    ConstraintKind,
    Device,
    DeviceId,
    Pod,
    PodDiagnosis,
    Policy,
    RequestName,
    Snapshot,
)
from solver.feasibility.device_attributes import AttributeName, lookup
from solver.preemption.what_if import without


def explain_placed(snapshot: Snapshot, pod: Pod, policy: Policy, budget: Budget) -> PodDiagnosis:
    """
    Report on a bound pod: `node` is its node, and `nodes` and `preferred` are those of a decision about it now.

    The pod is taken away with the devices that only it uses, and decided alone; its gang is left out.
    """
    left = without(snapshot, [pod.id], frees_devices=True)
    group_uid = next((each.uid for each in snapshot.gangs if each.id == pod.gang), "") if pod.pod_group else ""
    waiting = replace(
        pod, node_name="", nominated_node_name="", started=0, gang=None, pod_group="", pod_group_uid=group_uid
    )
    found = explain_pod(left, Batch(pods=(waiting,)), waiting, policy, budget)
    agreed = tuple(dict.fromkeys(_agreed(snapshot, pod)))
    return replace(found, node=pod.node_name, preferred=found.node, is_bound=True, agreed=agreed)


def _agreed(snapshot: Snapshot, pod: Pod) -> Iterator[str]:
    """Name the values that the pod's devices share by a matchAttribute constraint."""
    used = frozenset(pod.claim_ids)
    claims = [claim for claim in snapshot.claims if claim.id in used and claim.constraints]
    devices = _devices(snapshot, claims) if claims else {}
    for claim in claims:
        for each in claim.constraints:
            if each.kind is not ConstraintKind.MATCH or claim.allocation is None:
                continue
            results = (one for one in claim.allocation.results if not each.requests or _is_named(one.request, each))
            ids = (one.device for one in results if one.device in devices)
            values = [set(lookup(one.driver, devices[one], AttributeName.parse(each.attribute))) for one in ids]
            shared = set.intersection(*values) if values else set()
            if shared:
                yield f"{each.attribute} is {' and '.join(sorted(str(value) for _, value in shared))}"


def _is_named(request: str, constraint: Constraint) -> bool:
    return request in constraint.requests or RequestName.parse(request).main in constraint.requests


def _devices(snapshot: Snapshot, claims: Iterable[Claim]) -> dict[DeviceId, Device]:
    """Find the devices of some claims in the slices."""
    results = (each for claim in claims if claim.allocation is not None for each in claim.allocation.results)
    wanted = {each.device for each in results}
    pools = {each.pool_id for each in wanted}
    found = {}
    for each in snapshot.slices:
        for device in each.devices if each.pool_id in pools else ():
            key = DeviceId(each.driver, each.pool, device.name)
            if key in wanted:
                found[key] = device
    return found
