"""Why a hold may not be made: the limits of the configuration, its form, and what others have of its room."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from scheduler.cluster import Cluster
from scheduler.cluster.holds.held_conflicts import objections
from scheduler.cluster.holds.hold_cache import HoldCache
from scheduler.cluster.holds.seat_index import HeldTotals
from scheduler.loop_turns import LoopTurns
from scheduler.settings import HoldLimits
from solver.domain import DeviceHold


@dataclass(frozen=True, slots=True)
class HoldBounds:
    """The limits of the configuration, beside the holds that are there."""

    others: HoldCache
    limits: HoldLimits

    def refusals(self, hold: DeviceHold, seconds: float, *, has_quota: bool = False) -> Iterator[str]:
        """
        Return the limits that a hold would break beside others; `seconds` are those until its deadline.

        An owner that has quota is bound by it instead of by the limits for each namespace.
        """
        if not hold.places:
            yield "it has no place: name a node for each pod"
        if unnamed := next((each for each in hold.places if not each.pods.is_set or not each.pods.namespace), None):
            yield f"place {unnamed.index} is for no pods: name their namespace and a uid, labels or the annotation"
        if seconds > self.limits.max_seconds:
            yield f"it is for {seconds:.0f} s, and deviceHolds.maxSeconds is {self.limits.max_seconds}"
        if seconds <= 0:
            yield "its deadline has passed"
        places, devices = Counter[str](), Counter[str]()
        for each in hold.places:
            for namespace in ("",) if has_quota else ("", each.pods.namespace):
                places[namespace] += 1
                devices[namespace] += len(each.devices)
        for namespace, count in places.items():
            yield from self._too_many(namespace, HeldTotals(1, count, devices[namespace]))

    def leave(self, needs: HeldTotals) -> bool:
        """Whether the limits on all holds leave so much, whatever namespaces it is for."""
        return not any(self._too_many("", needs))

    def _too_many(self, namespace: str, wanted: HeldTotals) -> Iterator[str]:
        """Compare holds, beside others, with the most that is held for the pods of a namespace (of all: empty)."""
        limits, held = self.limits, self.others.held(namespace)
        most = HeldTotals(limits.max_holds, limits.max_places, limits.max_devices)
        setting = whose = ""
        if namespace:
            setting, whose = "PerNamespace", f" for pods of namespace {namespace}"
            most = HeldTotals(
                limits.max_holds_per_namespace, limits.max_places_per_namespace, limits.max_devices_per_namespace
            )
        if held.holds + wanted.holds > most.holds:
            yield f"there are {held.holds} holds{whose}, and deviceHolds.maxHolds{setting} is {most.holds}"
        for name, asked, has, limit in (
            ("places", wanted.places, held.places, most.places),
            ("devices", wanted.devices, held.devices, most.devices),
        ):
            if asked and has + asked > limit:
                limited = f"deviceHolds.max{name.capitalize()}{setting} is {limit}"
                yield f"it needs {asked} {name} beside {has} that are held{whose}, and {limited}"


async def first_objection(cluster: Cluster, hold: DeviceHold) -> str:
    """Say in turns who has room of a hold that is in the cache already; empty where nobody has."""
    async for found in LoopTurns().each(objections(cluster.store, cluster.holds, hold)):
        if found:
            return found[0]
    return ""
