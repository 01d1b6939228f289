"""Which pods wait for devices that quotas count, by the classes that they name: no selector is evaluated."""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping

from solver.domain import Claim, ClaimId, DeviceClass, Pod, WaitingPods
from solver.feasibility.extended_resources import class_of, explicit_classes


def waiting_pods(
    pods: Iterable[Pod],
    namespaces: Collection[str],
    claim_of: Callable[[ClaimId], Claim | None],
    classes: Iterable[DeviceClass],
) -> WaitingPods:
    """Count the pods of some namespaces that wait for a node and for no gate, as `quota_states` takes them."""
    known = {each.name: each for each in classes}
    explicit = explicit_classes(known.values())
    counts: Counter[tuple[str, frozenset[str]]] = Counter()
    for pod in pods:
        if pod.scheduling_gates or pod.node_name:
            continue
        if pod.id.namespace in namespaces and (asked := _asked(pod, claim_of, explicit, known)):
            counts[pod.id.namespace, asked] += 1
    return counts


def _asked(
    pod: Pod,
    claim_of: Callable[[ClaimId], Claim | None],
    explicit: Mapping[str, str],
    classes: Mapping[str, DeviceClass],
) -> frozenset[str]:
    """Return the classes of which a pod asks for devices that it does not have yet."""
    names = (class_of(resource, explicit, classes) for resource, amount in pod.requests if amount)
    found = {name for name in names if name is not None}
    for claim_id in pod.claim_ids:
        claim = claim_of(claim_id)
        if claim is not None and claim.allocation is None:
            found |= {
                each.device_class
                for request in claim.requests
                for each in request.alternatives
                if not each.admin_access
            }
    return frozenset(found)
