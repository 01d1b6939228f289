"""Room for the pods of Workloads: one DeviceHold for each, named after the Workload's uid."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Final

from scheduler.change import Change, Kind
from scheduler.cluster import Cluster, Unit
from scheduler.kube import hold_writes
from scheduler.kube.client import Client
from scheduler.kube.errors import Conflict
from scheduler.kube.writer import Writer
from scheduler.kueue_objects import GROUP, VERSION, KueueWorkload
from scheduler.placement_check.podset_pods import pod_set_of
from solver.domain import (
    ClaimAllocation,
    ClaimId,
    DeviceHold,
    HeldDevice,
    HeldPlace,
    HoldOwner,
    Placement,
    Pod,
    PodId,
    PodMatcher,
)

WORKLOAD: Final = "kueue.x-k8s.io/workload"
POD_SET: Final = "kueue.x-k8s.io/podset"


def hold_name(workload_uid: str) -> str:
    """Return the name of the DeviceHold of a Workload."""
    return f"workload-{workload_uid}"


def places_of(unit: Unit, pods: Mapping[PodId, Pod], workload: str) -> Iterator[HeldPlace]:
    """
    Return the place of each pod of a unit. `pods` are on their nodes, with what devices take of these.

    Devices of a claim that several pods share are in the place of the first of them. Pods are recognised by what Kueue
    writes on them: the annotation with the Workload, and the label with the podset.
    """
    made: dict[ClaimId, ClaimAllocation] = {each.claim: each for each in unit.allocations}
    for index, placement in enumerate(unit.placements):
        pod = pods[placement.pod]
        yield HeldPlace(
            index=index,
            pods=PodMatcher(
                namespace=pod.id.namespace,
                labels=((POD_SET, pod_set_of(pod.id)),),
                annotations=((WORKLOAD, workload),),
            ),
            node=placement.node,
            requests=tuple((name, amount) for name, amount in pod.requests if name not in placement.dra_resources),
            host_ports=pod.host_ports,
            devices=tuple(_devices(placement, made)),
        )


def _devices(placement: Placement, made: dict[ClaimId, ClaimAllocation]) -> Iterator[HeldDevice]:
    """Return the devices of the claims that are allocated for a pod, and take them out of `made`."""
    for claim in placement.claims:
        allocated = made.pop(claim, None)
        for each in allocated.allocation.results if allocated is not None else ():
            if not each.admin_access:
                yield HeldDevice(device=each.device, share_id=each.share_id, consumed_capacity=each.consumed_capacity)


class WorkloadRooms:
    """The DeviceHolds of Workloads; `hold_seconds` is how long room is held for pods that do not come."""

    def __init__(
        self,
        client: Client,
        writer: Writer,
        cluster: Cluster,
        *,
        hold_seconds: float,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._client: Final = client
        self._writer: Final = writer
        self._cluster: Final = cluster
        self._hold_seconds: Final = hold_seconds
        self._now: Final = now

    def is_held(self, workload_uid: str) -> bool:
        """Whether room is held for a Workload."""
        return self._cluster.holds.get(hold_name(workload_uid)) is not None

    async def hold(self, workload: KueueWorkload, unit: Unit, pods: Mapping[PodId, Pod]) -> Sequence[Change]:
        """Store the hold of a unit, and return the change that it is. Raises KubeError."""
        placed = {key: self._cluster.pod(key) or pod for key, pod in pods.items()}
        hold = DeviceHold(
            name=hold_name(workload.uid),
            uid="",
            owner=HoldOwner(
                api_version=f"{GROUP}/{VERSION}",
                resource="workloads",
                kind="Workload",
                namespace=workload.namespace,
                name=workload.name,
                uid=workload.uid,
            ),
            priority=min(pods[placement.pod].priority for placement in unit.placements),
            deadline=int(self._now() + self._hold_seconds),
            places=tuple(places_of(unit, placed, workload.name)),
        )
        try:
            stored = await self._writer.insist(partial(hold_writes.create_hold, self._client, hold))
        except Conflict:  # an earlier try has stored it, or a hold of another decision is still there
            found = await self._writer.read(partial(hold_writes.read_hold, self._client, hold.name))
            if found is None or found.places != hold.places:
                await self.release(workload.uid)
                raise
            stored = found
        return [Change(kind=Kind.HOLDS, key=stored.name, value=stored)]

    async def release(self, workload_uid: str) -> Sequence[Change]:
        """Delete the hold of a Workload, and return the change that it is. Raises KubeError."""
        name = hold_name(workload_uid)
        stored = await self._writer.read(partial(hold_writes.read_hold, self._client, name))
        if stored is not None:
            await self._writer.insist(partial(hold_writes.delete_hold, self._client, name, stored.uid))
        return [Change(kind=Kind.HOLDS, key=name, value=None)]
