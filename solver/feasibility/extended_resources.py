"""
Extended resources that device classes stand for (KEP-5004): which class, on which nodes, and as which claim.

Node by node: what the node itself has (allocatable above zero) is its device plugin's; else, where a class is mapped,
a claim serves it. Never both for one resource on one node.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from solver.domain import (
    ClaimId,
    ContainerRequests,
    DeviceClass,
    ExtendedResourceClaim,
    Pod,
    Request,
    RequestMapping,
    SubRequest,
)

IMPLICIT: Final = "deviceclass.resource.kubernetes.io/"
"""Prefix of the name that every class has as an extended resource."""


def explicit_classes(classes: Iterable[DeviceClass]) -> dict[str, str]:
    """Classes by spec.extendedResourceName: the newest one of a name, the smaller name among equally new ones."""
    found: dict[str, str] = {}
    for each in sorted(sorted(classes, key=_name, reverse=True), key=_creation):
        if each.extended_resource_name:
            found[each.extended_resource_name] = each.name
    return found


def _name(each: DeviceClass) -> str:
    return each.name


def _creation(each: DeviceClass) -> str:
    return each.creation_timestamp


def class_of(resource: str, explicit: Mapping[str, str], classes: Mapping[str, DeviceClass]) -> str | None:
    """Give the class that an extended resource stands for, None where there is none."""
    if resource in explicit:
        return explicit[resource]
    name = resource.removeprefix(IMPLICIT)
    return name if name != resource and name in classes else None


class _Lot(NamedTuple):
    """So many devices of one resource for one container, as a request."""

    container: int
    request: str
    amount: int


def special_claim(pod: Pod, served: Mapping[str, str], number: int) -> ExtendedResourceClaim:
    """
    Make the claim for a pod where the resources of `served` (resource → class) come from devices.

    `number` tells apart the claims that one pod would have on different nodes. Mappings come in kube-scheduler's order:
    by resource, containers before the init containers that use what is theirs.
    """
    requests: list[Request] = []
    mappings: list[RequestMapping] = []
    for resource, device_class in sorted(served.items()):
        lots, users = _lots(pod.containers, resource)
        requests += [_request(each, device_class) for each in lots]
        mappings += [
            RequestMapping(container=pod.containers[container].name, resource=resource, request=name)
            for container, name in users
        ]
    return ExtendedResourceClaim(
        id=ClaimId(pod.id.namespace, f"{pod.id.name}-extended-resources-<{number}>"),
        requests=tuple(sorted(requests, key=lambda each: each.name)),
        mappings=tuple(mappings),
    )


def _request(lot: _Lot, device_class: str) -> Request:
    return Request(name=lot.request, alternatives=(SubRequest(device_class=device_class, count=lot.amount),))


def _lots(containers: tuple[ContainerRequests, ...], resource: str) -> tuple[list[_Lot], list[tuple[int, str]]]:
    """
    Give the requests for one resource, and which container (by position) uses which of them.

    Containers and sidecars have their own. A plain init container takes over what containers that start later will
    have; the largest shortfall of all becomes one request more, which every init container that falls short shares.
    """
    asking = list(_asking(containers, resource))
    lots = [lot for lot in asking if _lasts(containers[lot.container])]
    users = [(lot.container, lot.request) for lot in lots]
    short: list[_Lot] = []
    for lot in asking:
        if _lasts(containers[lot.container]):
            continue
        left = lot.amount
        for later in lots:
            if left > 0 and later.container > lot.container:
                users.append((lot.container, later.request))
                left -= later.amount
        if left > 0:
            short.append(lot._replace(amount=left))
            users.append((lot.container, lot.request))
    if short:
        most = max(short, key=lambda lot: (lot.amount, -lot.container))
        lots.append(most)
        alike = {lot.request for lot in short}
        users = [(container, most.request if request in alike else request) for container, request in users]
    return lots, users


def _asking(containers: tuple[ContainerRequests, ...], resource: str) -> Iterator[_Lot]:
    for index, container in enumerate(containers):
        for position, (name, amount) in enumerate(sorted(container.requests)):
            if name == resource and amount > 0:
                yield _Lot(index, f"container-{index}-request-{position}", amount)


def _lasts(container: ContainerRequests) -> bool:
    """Whether a container runs for as long as the pod does."""
    return container.is_sidecar or not container.is_init
