"""Builders of holds (DeviceHold) and their places, as `builders` has those of other objects."""

from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from solver.domain import (
    Controller,
    DeviceHold,
    DeviceId,
    HeldPlace,
    HoldOwner,
    HostPort,
    LostPlace,
    PlaceDevice,
    Pod,
    PodMatcher,
    Snapshot,
)
from tests.support import builders as b

OWNER = HoldOwner(
    api_version="batch/v1", resource="jobs", kind="Job", namespace=b.NAMESPACE, name="train", uid="uid-train"
)


def for_pod(name: str, namespace: str = b.NAMESPACE) -> PodMatcher:
    """The matcher of `pod(name)` alone."""
    return PodMatcher(namespace=namespace, pod_uid=f"uid-{namespace}-{name}")


def of_owner(uid: str, labels: Mapping[str, str] | None = None, namespace: str = b.NAMESPACE) -> PodMatcher:
    """The matcher of pods with a controller, and perhaps labels."""
    return PodMatcher(namespace=namespace, owner_uid=uid, labels=tuple(sorted((labels or {}).items())))


def labelled(labels: Mapping[str, str], namespace: str = b.NAMESPACE) -> PodMatcher:
    """The matcher of pods with some labels."""
    return PodMatcher(namespace=namespace, labels=tuple(sorted(labels.items())))


def whole(device_name: str, pool: str, driver: str = b.GPU_DRIVER) -> PlaceDevice:
    """A device that is held as a whole."""
    return PlaceDevice(device=DeviceId(driver, pool, device_name))


def share(device_name: str, pool: str, consumed: Mapping[str, b.Amount], *, number: int, driver: str) -> PlaceDevice:
    """A share of a device."""
    return PlaceDevice(
        device=DeviceId(driver, pool, device_name),
        share_id=b.share_id(number),
        consumed_capacity=b.quantities(consumed),
    )


def place(
    pods: PodMatcher | str,
    node: str,
    *devices: PlaceDevice | str,
    cpu: b.Amount = 0,
    memory: b.Amount = 0,
    host_ports: Sequence[HostPort] = (),
) -> HeldPlace:
    """A place for a pod (by its name) or for pods; devices by name are those of `gpu_slice(node)`."""
    requests = (("cpu", b.whole("cpu", cpu)), ("memory", b.whole("memory", memory)))
    return HeldPlace(
        index=0,
        pods=for_pod(pods) if isinstance(pods, str) else pods,
        node=node,
        requests=tuple(each for each in requests if each[1]),
        host_ports=tuple(host_ports),
        devices=tuple(whole(each, node) if isinstance(each, str) else each for each in devices),
    )


def hold(
    name: str,
    *places: HeldPlace,
    priority: int = 0,
    deadline: int = 0,
    owner: HoldOwner = OWNER,
    used: Sequence[int] = (),
    lost: Sequence[int] = (),
) -> DeviceHold:
    """A hold whose places are numbered as they come."""
    return DeviceHold(
        name=name,
        uid=f"uid-{name}",
        resource_version="1",
        owner=owner,
        priority=priority,
        deadline=deadline,
        places=tuple(replace(each, index=index) for index, each in enumerate(places)),
        used=tuple(used),
        lost=tuple(LostPlace(each, "gone") for each in lost),
    )


def holding(snapshot: Snapshot, *holds: DeviceHold) -> Snapshot:
    """The snapshot with holds."""
    return replace(snapshot, holds=tuple(sorted(holds, key=lambda each: each.name)))


def owned(pod: Pod, uid: str) -> Pod:
    """The pod with a controller."""
    return replace(pod, controller=Controller(kind="Job", uid=uid))
