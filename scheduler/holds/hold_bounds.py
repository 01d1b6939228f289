"""Why a hold may not be made: the limits of the configuration, and its form."""

from collections.abc import Iterable, Iterator

from scheduler.settings import HoldLimits
from solver.domain import DeviceHold


def refusals(hold: DeviceHold, seconds: float, others: Iterable[DeviceHold], limits: HoldLimits) -> Iterator[str]:
    """Return the limits that a hold would break beside others; `seconds` are those until its deadline."""
    others, namespace = tuple(others), hold.owner.namespace
    own = [each for each in others if each.owner.namespace == namespace]
    whose = f"of namespace {namespace}" if namespace else "of owners without a namespace"
    if not hold.places:
        yield "it has no place: name a node for each pod"
    if unnamed := next((each for each in hold.places if not each.pods.is_set or not each.pods.namespace), None):
        yield f"place {unnamed.index} is for no pods: name their namespace and a uid, labels or the annotation"
    if seconds > limits.max_seconds:
        yield f"it is for {seconds:.0f} s, and holds.maxSeconds is {limits.max_seconds}"
    if seconds <= 0:
        yield "its deadline has passed"
    for name, count, limit, of_whom in (
        ("maxHolds", len(others), limits.max_holds, ""),
        ("maxHoldsPerNamespace", len(own), limits.max_holds_per_namespace, f" {whose}"),
    ):
        if count + 1 > limit:
            yield f"there are {count} holds{of_whom}, and holds.{name} is {limit}"
    wanted = _devices((hold,))
    for name, count, limit, of_whom in (
        ("maxDevices", _devices(others), limits.max_devices, ""),
        ("maxDevicesPerNamespace", _devices(own), limits.max_devices_per_namespace, f" for holds {whose}"),
    ):
        if wanted and count + wanted > limit:
            yield f"it needs {wanted} devices beside {count} that are held{of_whom}, and holds.{name} is {limit}"


def _devices(holds: Iterable[DeviceHold]) -> int:
    return sum(len(place.devices) for hold in holds for place in hold.open_places)
