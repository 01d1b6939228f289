"""Holders of devices: the results of all allocated claims, with pods, shares and the time of allocation."""

from collections import defaultdict
from collections.abc import Collection, Mapping
from datetime import UTC, datetime

from solver.domain import Claim, ConsumerReference, DeviceId, PodId, Snapshot
from solver.domain.fleet import DeviceHolder, SinceSource

Holders = Mapping[DeviceId, tuple[DeviceHolder, ...]]


def holders_of(snapshot: Snapshot, pod_uids: Collection[str] | None = None) -> Holders:
    """
    Return the holders of every device that some claim has, in the order of the claims.

    `pod_uids` are those of all pods that exist; None where this is not known.
    """
    started = {pod.uid: pod.started for pod in snapshot.pods if pod.started}
    found: defaultdict[DeviceId, list[DeviceHolder]] = defaultdict(list)
    for claim in snapshot.claims:
        if claim.allocation is None:
            continue
        since, source = _since(claim, started)
        uids = {PodId(claim.id.namespace, each.name): each.uid for each in claim.reserved_for if _is_pod(each)}
        gone = tuple(pod for pod, uid in uids.items() if pod_uids is not None and uid not in pod_uids)
        others = tuple(f"{each.resource}/{each.name}" for each in claim.reserved_for if not _is_pod(each))
        for result in claim.allocation.results:
            found[result.device].append(
                DeviceHolder(
                    claim=claim.id,
                    pods=tuple(uids),
                    gone=gone,
                    consumers=others,
                    request=result.request,
                    share_id=result.share_id,
                    consumed=tuple((name, amount.nano) for name, amount in result.consumed_capacity),
                    since=since,
                    since_source=source,
                    admin_access=result.admin_access,
                )
            )
    return {device: tuple(each) for device, each in found.items()}


def _is_pod(consumer: ConsumerReference) -> bool:
    return consumer.resource == "pods" and not consumer.api_group


def _since(claim: Claim, started: Mapping[str, int]) -> tuple[str, SinceSource]:
    """Return when a claim was allocated; without a time stamp, when the first of its pods started at the latest."""
    if claim.allocation is not None and claim.allocation.allocation_timestamp:
        return claim.allocation.allocation_timestamp, SinceSource.ALLOCATION
    seconds = min((started[each.uid] for each in claim.reserved_for if each.uid in started), default=0)
    if not seconds:
        return "", SinceSource.UNKNOWN
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ"), SinceSource.POD
