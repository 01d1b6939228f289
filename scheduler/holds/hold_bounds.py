"""Why a hold may not be made: the limits of the configuration, and its form."""

from collections.abc import Iterable, Iterator

from scheduler.settings import HoldLimits
from solver.domain import DeviceHold


def refusals(hold: DeviceHold, seconds: float, others: Iterable[DeviceHold], limits: HoldLimits) -> Iterator[str]:
    """Return the limits that a hold would break beside others; `seconds` are those until its deadline."""
    others = tuple(others)
    if not hold.places:
        yield "it has no place: name a node for each pod"
    if unnamed := next((each for each in hold.places if not each.pods.is_set or not each.pods.namespace), None):
        yield f"place {unnamed.index} is for no pods: name their namespace and a uid, labels or the annotation"
    if seconds > limits.max_seconds:
        yield f"it is for {seconds:.0f} s, and deviceHolds.maxSeconds is {limits.max_seconds}"
    if seconds <= 0:
        yield "its deadline has passed"
    yield from _too_many("", hold, others, (limits.max_holds, limits.max_devices))
    most = limits.max_holds_per_namespace, limits.max_devices_per_namespace
    for namespace in dict.fromkeys(each.pods.namespace for each in hold.places):
        yield from _too_many(namespace, hold, others, most)


def _too_many(namespace: str, hold: DeviceHold, others: tuple[DeviceHold, ...], most: tuple[int, int]) -> Iterator[str]:
    """Compare a hold, beside others, with the most holds and devices for the pods of a namespace (of all: empty)."""
    setting, whose = ("PerNamespace", f" for pods of namespace {namespace}") if namespace else ("", "")
    most_holds, most_devices = most
    count = sum(any(namespace in ("", each.pods.namespace) for each in other.open_places) for other in others)
    if count + 1 > most_holds:
        yield f"there are {count} holds{whose}, and deviceHolds.maxHolds{setting} is {most_holds}"
    held, wanted = _devices(others, namespace), _devices((hold,), namespace)
    if wanted and held + wanted > most_devices:
        limit = f"deviceHolds.maxDevices{setting} is {most_devices}"
        yield f"it needs {wanted} devices beside {held} that are held{whose}, and {limit}"


def _devices(holds: Iterable[DeviceHold], namespace: str) -> int:
    places = (place for hold in holds for place in hold.open_places)
    return sum(len(place.devices) for place in places if namespace in ("", place.pods.namespace))
