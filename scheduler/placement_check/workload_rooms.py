"""Room for the pods of Workloads: one DeviceHold for each, named after the Workload's uid."""

import time
from collections.abc import Awaitable, Callable, Mapping
from enum import StrEnum
from typing import Final

from scheduler.cluster import Unit
from scheduler.cluster.holds.seat_index import HeldTotals
from scheduler.holds.hold_keeper import HoldKeeper
from scheduler.holds.hold_requests import HoldRequest
from scheduler.placement_check.kueue_objects import GROUP, VERSION, KueueWorkload
from scheduler.placement_check.podset_pods import pod_set_of
from solver import places_of
from solver.domain import (
    Batch,
    DeviceHold,
    HoldOwner,
    Plan,
    Pod,
    PodId,
    PodMatcher,
    SearchReport,
    SearchStatus,
)

WORKLOAD: Final = "kueue.x-k8s.io/workload"
POD_SET: Final = "kueue.x-k8s.io/podset"


class RoomState(StrEnum):
    """Whether room is held for a Workload."""

    NONE = "none"
    HELD = "held"
    """All of it, for long enough."""
    ENDING = "ending"
    """A hold of an earlier admission, or one that has lost a place: it has to go before another one is made."""


def hold_name(workload_uid: str) -> str:
    """Return the name of the DeviceHold of a Workload."""
    return f"workload-{workload_uid}"


def matcher(workload: KueueWorkload, pod: PodId) -> PodMatcher:
    """
    Return which pods the place of an expected pod is for.

    Pods of a Job are known by their controller, and a plain pod by its uid. Those of all other owners are known by what
    Kueue writes on them with its gate TopologyAwareScheduling: the annotation with the Workload, the label with the
    podset.
    """
    owner = workload.owners[0] if len(workload.owners) == 1 else None
    if owner is not None and (owner.api_version, owner.kind) == ("batch/v1", "Job"):
        return PodMatcher(namespace=pod.namespace, owner_uid=owner.uid)
    if owner is not None and (owner.api_version, owner.kind) == ("v1", "Pod"):
        return PodMatcher(namespace=pod.namespace, pod_uid=owner.uid)
    return PodMatcher(
        namespace=pod.namespace,
        labels=((POD_SET, pod_set_of(pod)),),
        annotations=((WORKLOAD, workload.name),),
    )


class WorkloadRooms:
    """The DeviceHolds of Workloads; `hold_seconds` is how long room is held for pods that do not come."""

    def __init__(self, keeper: HoldKeeper, *, hold_seconds: float, now: Callable[[], float] = time.time) -> None:
        self.keeper: Final = keeper
        self._hold_seconds: Final = hold_seconds
        self._now: Final = now
        self._released: Final[set[str]] = set()
        """The uids of holds that were given back and are still shown."""

    def room(self, workload_uid: str) -> RoomState:
        """Return whether room is held for a Workload."""
        found = self._of(workload_uid)
        if found is None:
            return RoomState.NONE
        is_whole = bool(found.uid) and len(found.open_places) == len(found.places) and found.uid not in self._released
        return (
            RoomState.HELD if is_whole and found.deadline - self._now() > self._hold_seconds / 2 else RoomState.ENDING
        )

    def hold(self, workload: KueueWorkload, unit: Unit, pods: Mapping[PodId, Pod]) -> Awaitable[DeviceHold]:
        """
        Hold the room of a unit, at once in the cache; the result is what stores the hold.

        Raises `HoldRefused`, and so does the result.
        """
        return self.keeper.hold(self._request(workload, unit, pods))

    def why_not(self, workload: KueueWorkload, unit: Unit, pods: Mapping[PodId, Pod]) -> str:
        """Say why the room of a unit could not be held now; empty where it could."""
        return self.keeper.why_not(self._request(workload, unit, pods))

    def lacking(self, workload: KueueWorkload, unit: Unit, pods: Mapping[PodId, Pod]) -> HeldTotals | None:
        """Return what the hold of a unit counts where the limits on all holds leave too little; None where enough."""
        places = self._request(workload, unit, pods).places
        needs = HeldTotals(1, len(places), sum(len(each.devices) for each in places))
        return None if self.keeper.bounds.leave(needs) else needs

    def _request(self, workload: KueueWorkload, unit: Unit, pods: Mapping[PodId, Pod]) -> HoldRequest:
        report = SearchReport(status=SearchStatus.FEASIBLE, stages=())
        plan = Plan(placements=unit.placements, allocations=unit.allocations, report=report)
        batch = Batch(pods=tuple(pods[placement.pod] for placement in unit.placements))
        of_pod_set = {pod_set_of(pod.id): pod.id for pod in batch.pods}
        matching = {name: matcher(workload, pod) for name, pod in of_pod_set.items()}
        matchers = {pod.id: matching[pod_set_of(pod.id)] for pod in batch.pods}
        owner = HoldOwner(
            api_version=f"{GROUP}/{VERSION}",
            resource="workloads",
            kind="Workload",
            namespace=workload.namespace,
            name=workload.name,
            uid=workload.uid,
        )
        return HoldRequest(
            name=hold_name(workload.uid),
            owner=owner,
            places=places_of(batch, plan, matchers),
            priority=min(pod.priority for pod in batch.pods),
            seconds=self._hold_seconds,
            has_quota=True,
        )

    def release(self, workload_uid: str) -> None:
        """Give the room of a Workload free; the hold is shown until it is deleted."""
        found = self._of(workload_uid)
        if found is not None and found.uid:
            self._released.add(found.uid)
            self.keeper.release(found.uid)

    def ended(self, hold: DeviceHold) -> None:
        """Forget a hold that is gone."""
        self._released.discard(hold.uid)

    def _of(self, workload_uid: str) -> DeviceHold | None:
        return next(iter(self.keeper.of_owner(workload_uid)), None)
