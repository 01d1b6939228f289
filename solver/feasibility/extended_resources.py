"""
Extended resources served by devices (KEP-5004): the class of a resource, and the claim for a pod.

On each node, a resource comes either from the device plugin (allocatable above zero), or from a claim of the class that
the resource is mapped to; never from both.
"""

from collections.abc import Iterable, Iterator, Mapping
from operator import attrgetter
from typing import Final, NamedTuple

from solver.domain import (
    ClaimId,
    ContainerExtendedResourceRequest,
    ContainerRequests,
    DeviceClass,
    ExtendedResourceClaim,
    Pod,
    Request,
    SubRequest,
)

IMPLICIT: Final = "deviceclass.resource.kubernetes.io/"
"""The prefix of the implicit extended resource of every class."""


def explicit_classes(classes: Iterable[DeviceClass]) -> dict[str, str]:
    """Return the classes by spec.extendedResourceName: the newest, of equally new ones the first by name."""
    found: dict[str, str] = {}
    for each in sorted(sorted(classes, key=attrgetter("name"), reverse=True), key=attrgetter("creation_timestamp")):
        if each.extended_resource_name:
            found[each.extended_resource_name] = each.name
    return found


def class_of(resource: str, explicit: Mapping[str, str], classes: Mapping[str, DeviceClass]) -> str | None:
    """Return the class of an extended resource, None if it has none."""
    if resource in explicit:
        return explicit[resource]
    name = resource.removeprefix(IMPLICIT)
    return name if name != resource and name in classes else None


class _ContainerRequest(NamedTuple):
    """A request of one container for devices of one resource."""

    container: int
    request: str
    amount: int


def extended_resource_claim(pod: Pod, served: Mapping[str, str], number: int) -> ExtendedResourceClaim:
    """
    Make the claim of a pod for the resources of `served` (resource → class).

    `number` distinguishes the claims of one pod on different nodes; the uid those of a deleted pod, which may be under
    way, from those of another pod of its name. Mappings are in kube-scheduler's order: by resource, and containers
    before the init containers that share their requests.
    """
    requests: list[Request] = []
    mappings: list[ContainerExtendedResourceRequest] = []
    for resource, device_class in sorted(served.items()):
        made, users = _requests_of(pod.containers, resource)
        requests += [_request(each, device_class) for each in made]
        mappings += [
            ContainerExtendedResourceRequest(container=pod.containers[container].name, resource=resource, request=name)
            for container, name in users
        ]
    return ExtendedResourceClaim(
        id=ClaimId(pod.id.namespace, f"{pod.id.name}-extended-resources-<{pod.uid}/{number}>"),
        requests=tuple(sorted(requests, key=lambda each: each.name)),
        mappings=tuple(mappings),
    )


def _request(asked: _ContainerRequest, device_class: str) -> Request:
    return Request(name=asked.request, alternatives=(SubRequest(device_class=device_class, count=asked.amount),))


def _requests_of(
    containers: tuple[ContainerRequests, ...], resource: str
) -> tuple[list[_ContainerRequest], list[tuple[int, str]]]:
    """
    Return the requests for one resource, and the pairs of container (by position) and request name.

    Main containers and sidecars have requests of their own. An init container uses the requests of containers that
    start later; if these are too few, one more request with the largest shortfall serves all such init containers.
    """
    asking = list(_asking(containers, resource))
    made = [asked for asked in asking if _is_main_or_sidecar(containers[asked.container])]
    users = [(asked.container, asked.request) for asked in made]
    short: list[_ContainerRequest] = []
    for asked in asking:
        if _is_main_or_sidecar(containers[asked.container]):
            continue
        left = asked.amount
        for later in made:
            if left > 0 and later.container > asked.container:
                users.append((asked.container, later.request))
                left -= later.amount
        if left > 0:
            short.append(asked._replace(amount=left))
            users.append((asked.container, asked.request))
    if short:
        most = max(short, key=lambda asked: (asked.amount, -asked.container))
        made.append(most)
        alike = {asked.request for asked in short}
        users = [(container, most.request if request in alike else request) for container, request in users]
    return made, users


def _asking(containers: tuple[ContainerRequests, ...], resource: str) -> Iterator[_ContainerRequest]:
    for index, container in enumerate(containers):
        for position, (name, amount) in enumerate(sorted(container.requests)):
            if name == resource and amount > 0:
                yield _ContainerRequest(index, f"container-{index}-request-{position}", amount)


def _is_main_or_sidecar(container: ContainerRequests) -> bool:
    """Whether a container runs until the pod ends."""
    return container.is_sidecar or not container.is_init
