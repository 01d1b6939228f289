"""Who has to be added to status.reservedFor, and who may use a claim already."""

from collections.abc import Callable, Iterable

from solver.domain import Claim, ConsumerReference, Pod, PodId


def missing(
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
