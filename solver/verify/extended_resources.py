"""Extended resources that devices serve (KEP-5004): which ones on a node, and the claim made for them."""

from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import Final

from solver.domain import ContainerRequests, ExtendedResourceClaim, Node, Placement, Plan, Pod, SubRequest, Violation
from solver.verify.plan_context import PlanContext
from solver.verify.violations import Rule, broken

_BY_CLASS: Final = "deviceclass.resource.kubernetes.io"
"""The domain of the implicit extended resource of every class."""


def served(pod: Pod, node: Node, context: PlanContext) -> dict[str, str]:
    """Return the resources of a pod's containers that devices serve on a node, with their classes."""
    names = {name for each in pod.containers for name, amount in each.requests if amount > 0}
    behind = {name: _class_behind(name, node, context) for name in names if "/" in name}
    return {name: device_class for name, device_class in behind.items() if device_class is not None}


def _class_behind(resource: str, node: Node, context: PlanContext) -> str | None:
    """Name the class whose devices serve a resource on a node; None if the node serves it itself, or no class does."""
    if dict(node.allocatable).get(resource, 0) > 0:
        return None
    named = [each for each in context.classes.values() if each.extended_resource_name == resource]
    if named:
        newest = max(each.creation_timestamp for each in named)
        return min(each.name for each in named if each.creation_timestamp == newest)
    domain, _, name = resource.partition("/")
    return name if domain == _BY_CLASS and name in context.classes else None


def violations(plan: Plan, context: PlanContext) -> Iterator[Violation]:
    """Check the claim of every placement against the node and against the pod's containers."""
    for placement in plan.placements:
        pod, node = context.pods.get(placement.pod), context.nodes.get(placement.node)
        if pod is not None and node is not None:
            yield from _placed(placement, pod, node, context)


def _placed(placement: Placement, pod: Pod, node: Node, context: PlanContext) -> Iterator[Violation]:
    expected = served(pod, node, context)
    claim = placement.extended_resource_claim
    if claim is None:
        if expected:
            names = ", ".join(sorted(expected))
            yield broken(Rule.EXTENDED_RESOURCE_MISSING, pod.id, f"devices have to serve {names} on node {node.name}")
        return
    if claim.resources != set(expected):
        given, wanted = ", ".join(sorted(claim.resources)), ", ".join(sorted(expected)) or "nothing"
        message = f"devices were planned for {given} of pod {pod.id}, and serve {wanted} on node {node.name} now"
        yield broken(Rule.EXTENDED_RESOURCE_RESOURCES, pod.id, message)
        return
    yield from _requests(pod, claim, expected)
    yield from _mappings(pod, claim)


def _requests(pod: Pod, claim: ExtendedResourceClaim, expected: dict[str, str]) -> Iterator[Violation]:
    counts = Counter[str]()
    resources = {mapping.request: mapping.resource for mapping in claim.mappings}
    names = [request.name for request in claim.requests]
    if len(set(names)) != len(names) or set(names) != set(resources):
        yield broken(
            Rule.EXTENDED_RESOURCE_REQUESTS, pod.id, f"it has the requests {names}, mapped are {sorted(resources)}"
        )
        return
    for request in claim.requests:
        resource = resources[request.name]
        count = sum(alternative.count for alternative in request.alternatives)
        plain = SubRequest(device_class=expected[resource], count=count)
        if request.alternatives != (plain,):
            message = f"request {request.name} is not a plain count of class {expected[resource]} for {resource}"
            yield broken(Rule.EXTENDED_RESOURCE_REQUESTS, pod.id, message)
        counts[resource] += count
    for resource in expected:
        needed = _needed(pod.containers, resource)
        if counts[resource] != needed:
            message = f"its claim asks for {counts[resource]} devices for {resource}, its containers need {needed}"
            yield broken(Rule.EXTENDED_RESOURCE_REQUESTS, pod.id, message)


def _needed(containers: tuple[ContainerRequests, ...], resource: str) -> int:
    """Return the most devices at a time: main containers and sidecars, or an init container with earlier sidecars."""
    running = most = 0
    for each in containers:
        amount = dict(each.requests).get(resource, 0)
        most = max(most, running + amount)
        if _runs_on(each):
            running += amount
    return max(most, running)


def _runs_on(container: ContainerRequests) -> bool:
    return not container.is_init or container.is_sidecar


def _mappings(pod: Pod, claim: ExtendedResourceClaim) -> Iterator[Violation]:
    sizes = {request.name: sum(each.count for each in request.alternatives) for request in claim.requests}
    given: defaultdict[tuple[str, str], set[str]] = defaultdict(set)
    for mapping in claim.mappings:
        given[mapping.container, mapping.resource].add(mapping.request)
    asked = {
        (container.name, resource): amount
        for container in pod.containers
        for resource, amount in container.requests
        if amount > 0 and resource in claim.resources
    }
    for container, resource in given.keys() - asked.keys():
        yield broken(Rule.EXTENDED_RESOURCE_MAPPINGS, pod.id, f"container {container} does not ask for {resource}")
    for (container, resource), amount in asked.items():
        count = sum(sizes.get(request, 0) for request in given[container, resource])
        if count < amount:
            message = f"container {container} asks for {amount} of {resource} and gets {count} devices"
            yield broken(Rule.EXTENDED_RESOURCE_MAPPINGS, pod.id, message)
    yield from _meanwhile(pod, claim)


def _meanwhile(pod: Pod, claim: ExtendedResourceClaim) -> Iterator[Violation]:
    """Check that containers that run at the same time share no request."""
    users: defaultdict[str, set[str]] = defaultdict(set)
    for mapping in claim.mappings:
        users[mapping.container].add(mapping.request)
    running: dict[str, str] = {}
    for container in pod.containers:
        for request in sorted(users[container.name]):
            if request in running:
                message = f"containers {running[request]} and {container.name} run together and share {request}"
                yield broken(Rule.EXTENDED_RESOURCE_MAPPINGS, pod.id, message)
            elif _runs_on(container):
                running[request] = container.name
