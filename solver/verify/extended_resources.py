"""Extended resources: who serves them on a node, and the claim for those that devices serve (KEP-5004)."""

from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import Final

from solver.domain import ContainerRequests, ExtendedResourceClaim, Node, Placement, Plan, Pod, SubRequest, Violation
from solver.verify.plan_context import Picture
from solver.verify.violations import Rule, broken

_BY_CLASS: Final = "deviceclass.resource.kubernetes.io"
"""Domain of the extended resource that every class is by its name."""


def served(pod: Pod, node: Node, picture: Picture) -> dict[str, str]:
    """Give the resources of a pod's containers that devices serve on a node, with their classes."""
    names = {name for each in pod.containers for name, amount in each.requests if amount > 0}
    behind = {name: _class_behind(name, node, picture) for name in names if "/" in name}
    return {name: device_class for name, device_class in behind.items() if device_class is not None}


def _class_behind(resource: str, node: Node, picture: Picture) -> str | None:
    """Name the class whose devices serve a resource on a node; None where the node itself does, or nobody."""
    if dict(node.allocatable).get(resource, 0) > 0:
        return None
    named = [each for each in picture.classes.values() if each.extended_resource_name == resource]
    if named:
        newest = max(each.creation_timestamp for each in named)
        return min(each.name for each in named if each.creation_timestamp == newest)
    domain, _, name = resource.partition("/")
    return name if domain == _BY_CLASS and name in picture.classes else None


def violations(plan: Plan, picture: Picture) -> Iterator[Violation]:
    """Check the claim of every placement against the node and against the pod's containers."""
    for placement in plan.placements:
        pod, node = picture.pods.get(placement.pod), picture.nodes.get(placement.node)
        if pod is not None and node is not None:
            yield from _placed(placement, pod, node, picture)


def _placed(placement: Placement, pod: Pod, node: Node, picture: Picture) -> Iterator[Violation]:
    expected = served(pod, node, picture)
    special = placement.extended_resource_claim
    if special is None:
        if expected:
            names = ", ".join(sorted(expected))
            yield broken(Rule.SPECIAL_MISSING, pod.id, f"devices have to serve {names} on node {node.name}")
        return
    if special.resources != set(expected):
        given, wanted = ", ".join(sorted(special.resources)), ", ".join(sorted(expected)) or "nothing"
        message = f"its claim serves {given}; devices have to serve {wanted} on node {node.name}"
        yield broken(Rule.SPECIAL_RESOURCES, pod.id, message)
        return
    yield from _requests(pod, special, expected)
    yield from _mappings(pod, special)


def _requests(pod: Pod, special: ExtendedResourceClaim, expected: dict[str, str]) -> Iterator[Violation]:
    counts = Counter[str]()
    resources = {mapping.request: mapping.resource for mapping in special.mappings}
    names = [request.name for request in special.requests]
    if len(set(names)) != len(names) or set(names) != set(resources):
        yield broken(Rule.SPECIAL_REQUESTS, pod.id, f"it has the requests {names}, mapped are {sorted(resources)}")
        return
    for request in special.requests:
        resource = resources[request.name]
        count = sum(alternative.count for alternative in request.alternatives)
        plain = SubRequest(device_class=expected[resource], count=count)
        if request.alternatives != (plain,):
            message = f"request {request.name} is not a plain count of class {expected[resource]} for {resource}"
            yield broken(Rule.SPECIAL_REQUESTS, pod.id, message)
        counts[resource] += count
    for resource in expected:
        needed = _needed(pod.containers, resource)
        if counts[resource] != needed:
            message = f"its claim asks for {counts[resource]} devices for {resource}, its containers need {needed}"
            yield broken(Rule.SPECIAL_REQUESTS, pod.id, message)


def _needed(containers: tuple[ContainerRequests, ...], resource: str) -> int:
    """Most devices at a time: all lasting containers, or an init container with the sidecars before it."""
    running = most = 0
    for each in containers:
        amount = dict(each.requests).get(resource, 0)
        most = max(most, running + amount)
        if _runs_on(each):
            running += amount
    return max(most, running)


def _runs_on(container: ContainerRequests) -> bool:
    return not container.is_init or container.is_sidecar


def _mappings(pod: Pod, special: ExtendedResourceClaim) -> Iterator[Violation]:
    sizes = {request.name: sum(each.count for each in request.alternatives) for request in special.requests}
    given: defaultdict[tuple[str, str], set[str]] = defaultdict(set)
    for mapping in special.mappings:
        given[mapping.container, mapping.resource].add(mapping.request)
    asked = {
        (container.name, resource): amount
        for container in pod.containers
        for resource, amount in container.requests
        if amount > 0 and resource in special.resources
    }
    for container, resource in given.keys() - asked.keys():
        yield broken(Rule.SPECIAL_MAPPINGS, pod.id, f"container {container} does not ask for {resource}")
    for (container, resource), amount in asked.items():
        count = sum(sizes.get(request, 0) for request in given[container, resource])
        if count < amount:
            message = f"container {container} asks for {amount} of {resource} and gets {count} devices"
            yield broken(Rule.SPECIAL_MAPPINGS, pod.id, message)
    yield from _meanwhile(pod, special)


def _meanwhile(pod: Pod, special: ExtendedResourceClaim) -> Iterator[Violation]:
    """Containers that run at the same time have no request in common."""
    users: defaultdict[str, set[str]] = defaultdict(set)
    for mapping in special.mappings:
        users[mapping.container].add(mapping.request)
    running: dict[str, str] = {}
    for container in pod.containers:
        for request in sorted(users[container.name]):
            if request in running:
                message = f"containers {running[request]} and {container.name} run together and share {request}"
                yield broken(Rule.SPECIAL_MAPPINGS, pod.id, message)
            elif _runs_on(container):
                running[request] = container.name
