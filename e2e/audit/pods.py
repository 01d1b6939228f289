"""Bound pods have their claims where they run, and their nodes have room for all of them."""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from fractions import Fraction

from e2e.audit.inventory import Inventory, reaches, selects
from e2e.audit.reading import Finding, Json, Key, amount_of, claims_of, device_of, holds_node, key_of, results_of

POD_LEVEL = ("cpu", "memory", "hugepages-")
"""Resources that a pod may request as a whole; they replace the sum of its containers."""


def pod_findings(
    pod: Json, claims: dict[Key, Json], nodes: dict[str, Json], groups: dict[Key, str], inventory: Inventory
) -> Iterator[Finding]:
    """Check one bound pod against its claims and its node; `groups` are the uids of PodGroups."""
    subject, node = str(key_of(pod)), nodes.get(pod["spec"]["nodeName"])
    if node is None:
        yield Finding("node", subject, f"it is bound to {pod['spec']['nodeName']}, which does not exist")
        return
    for name in claims_of(pod):
        claim = claims.get(Key(pod["metadata"]["namespace"], name))
        allocation = (claim or {}).get("status", {}).get("allocation")
        if claim is None or allocation is None:
            yield Finding("allocated", subject, f"it is bound and its claim {name} is not allocated")
            continue
        consumers = {each["uid"] for each in claim["status"].get("reservedFor") or ()}
        group = (pod["spec"].get("schedulingGroup") or {}).get("podGroupName")
        of_group = groups.get(Key(pod["metadata"]["namespace"], group)) if group else None
        if consumers.isdisjoint({pod["metadata"]["uid"], of_group}):
            yield Finding("reserved", subject, f"it is bound and claim {name} is not reserved for it")
        if "nodeSelector" in allocation and not selects(allocation["nodeSelector"], node):
            yield Finding("node", subject, f"claim {name} cannot be used on its node {pod['spec']['nodeName']}")
        for key in map(device_of, results_of(claim)):
            if key in inventory.devices and not reaches(inventory.devices[key].scope, node):
                yield Finding("node", subject, f"{'/'.join(key)} of claim {name} is not on {pod['spec']['nodeName']}")


def node_findings(pods: list[Json], nodes: dict[str, Json]) -> Iterator[Finding]:
    """Check every node against the sum of its pods."""
    taken: defaultdict[str, defaultdict[str, Fraction]] = defaultdict(lambda: defaultdict(Fraction))
    for pod in filter(holds_node, pods):
        by_devices = extended_of(pod)
        requested = {each: amount for each, amount in requests_of(pod).items() if each not in by_devices}
        for resource, amount in {**requested, "pods": Fraction(1)}.items():
            taken[pod["spec"]["nodeName"]][resource] += amount
    for name, resources in taken.items():
        allocatable = nodes.get(name, {}).get("status", {}).get("allocatable") or {}
        for resource, amount in resources.items():
            if amount > amount_of(allocatable.get(resource, "0")):
                message = (
                    f"its pods request {float(amount):g} of {resource}, it has {allocatable.get(resource, 'none')}"
                )
                yield Finding("resources", name, message)


def extended_of(pod: Json) -> set[str]:
    """Name the extended resources that the pod gets as devices of a claim, and not from its node's allocatable."""
    status = pod["status"].get("extendedResourceClaimStatus") or {}
    return {each["resourceName"] for each in status.get("requestMappings") or ()}


def requests_of(pod: Json) -> dict[str, Fraction]:
    """Sum what a pod takes of its node: containers and sidecars, or an init container where that is more; overhead."""
    main = _sum(each for each in pod["spec"]["containers"])
    sidecars: dict[str, Fraction] = {}
    peak: dict[str, Fraction] = {}
    for each in pod["spec"].get("initContainers") or ():
        if each.get("restartPolicy") == "Always":
            sidecars = _add(sidecars, _sum([each]))
        else:
            peak = _most(peak, _add(sidecars, _sum([each])))
    total = _most(_add(main, sidecars), peak)
    for resource, amount in (pod["spec"].get("resources", {}).get("requests") or {}).items():
        if resource.startswith(POD_LEVEL):
            total[resource] = amount_of(amount)
    overhead = {resource: amount_of(amount) for resource, amount in (pod["spec"].get("overhead") or {}).items()}
    return {resource: amount for resource, amount in _add(total, overhead).items() if amount}


def _sum(containers: Iterable[Json]) -> dict[str, Fraction]:
    total: dict[str, Fraction] = {}
    for each in containers:
        requests = (each.get("resources") or {}).get("requests") or {}
        total = _add(total, {resource: amount_of(amount) for resource, amount in requests.items()})
    return total


def _add(one: dict[str, Fraction], other: dict[str, Fraction]) -> dict[str, Fraction]:
    return {each: one.get(each, Fraction()) + other.get(each, Fraction()) for each in (*one, *other)}


def _most(one: dict[str, Fraction], other: dict[str, Fraction]) -> dict[str, Fraction]:
    return {each: max(one.get(each, Fraction()), other.get(each, Fraction())) for each in (*one, *other)}
