"""
An audit of what is in an API server: do the allocations and bindings there keep the rules, whoever made them?

Reads pods, claims, slices, classes and nodes as raw JSON and checks them from the API's text alone: it shares no code
with `solver.verify` or the solver, except the door to CEL. Used for Dovetail and for kube-scheduler alike.

    python -m e2e.audit --kubeconfig FILE [--kubectl PATH]      # prints a summary; 1 when something is wrong

    findings = audit.audit(audit.read(plane.request))           # from a program: any (method, path) -> decoded JSON
"""

import argparse
import json
import shutil
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple

from solver.domain import AttributeKind, AttributeValue, Capacity, Device
from solver.domain.quantity import parse
from solver.feasibility.selectors import SelectorError, compile_selector

Json = dict[str, Any]
DeviceKey = tuple[str, str, str]
"""Driver, pool, device."""

PATHS = {
    "pods": "/api/v1/pods",
    "nodes": "/api/v1/nodes",
    "claims": "/apis/resource.k8s.io/v1/resourceclaims",
    "slices": "/apis/resource.k8s.io/v1/resourceslices",
    "classes": "/apis/resource.k8s.io/v1/deviceclasses",
}
KUBECTL_NAMES = {"claims": "resourceclaims", "slices": "resourceslices", "classes": "deviceclasses"}
SUFFIXES = {
    "n": Fraction(1, 10**9), "u": Fraction(1, 10**6), "m": Fraction(1, 1000), "": Fraction(1),
    **{suffix: Fraction(1000**power) for power, suffix in enumerate("kMGTPE", start=1)},
    **{f"{suffix}i": Fraction(1024**power) for power, suffix in enumerate("KMGTPE", start=1)},
}
POD_LEVEL = ("cpu", "memory", "hugepages-")


class Finding(NamedTuple):
    """Something that is wrong: a word for the rule, the object, and what about it."""

    rule: str
    subject: str
    message: str


class Objects(NamedTuple):
    """What is audited, each a list of decoded objects."""

    pods: list[Json]
    nodes: list[Json]
    claims: list[Json]
    slices: list[Json]
    classes: list[Json]


def read(request: Callable[[str, str], Any]) -> Objects:
    """Read everything through `request(method, path)`, which answers with decoded JSON."""
    return Objects(**{name: request("GET", path)["items"] for name, path in PATHS.items()})


def read_with_kubectl(kubectl: str, kubeconfig: Path | None) -> Objects:
    """Read everything through kubectl; subprocess.CalledProcessError where it fails."""
    account = ("--kubeconfig", str(kubeconfig)) if kubeconfig is not None else ()

    def listed(name: str) -> list[Json]:
        kind = KUBECTL_NAMES.get(name, name)
        command = (kubectl, *account, "get", kind, "--all-namespaces", "-o", "json")
        items: list[Json] = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)["items"]
        return items

    return Objects(**{name: listed(name) for name in PATHS})


def audit(objects: Objects) -> list[Finding]:
    """Check everything; empty when nothing is wrong."""
    inventory = Inventory(objects.slices)
    claims = {key_of(claim): claim for claim in objects.claims}
    classes = {each["metadata"]["name"]: each for each in objects.classes}
    nodes = {each["metadata"]["name"]: each for each in objects.nodes}
    found: list[Finding] = []
    for claim in objects.claims:
        if "allocation" in claim.get("status", {}):
            found += _claim(claim, inventory, classes)
    found += _usage(objects.claims, inventory)
    for pod in filter(_holds_node, objects.pods):
        found += _pod(pod, claims, nodes, inventory)
    found += _takes_all(objects, classes, inventory)
    found += _nodes(objects.pods, nodes)
    return found


# Devices


class Published(NamedTuple):
    """A device as the newest generation of its pool publishes it, with the scope that applies to it."""

    device: Json
    scope: Json


class Inventory:
    """Devices and counters of the newest generation of every pool, and which pools are complete."""

    def __init__(self, slices: list[Json]) -> None:
        self.devices: dict[DeviceKey, Published] = {}
        self.counters: dict[tuple[str, str, str, str], Fraction] = {}
        self.incomplete: set[tuple[str, str]] = set()
        pools: defaultdict[tuple[str, str], list[Json]] = defaultdict(list)
        for each in slices:
            pools[each["spec"]["driver"], each["spec"]["pool"]["name"]].append(each["spec"])
        for pool, specs in pools.items():
            newest = max(spec["pool"].get("generation", 0) for spec in specs)
            self._add(pool, [spec for spec in specs if spec["pool"].get("generation", 0) == newest])

    def _add(self, pool: tuple[str, str], specs: list[Json]) -> None:
        if any(spec["pool"]["resourceSliceCount"] != len(specs) for spec in specs):
            self.incomplete.add(pool)
        for spec in specs:
            for device in spec.get("devices") or ():
                scope = device if spec.get("perDeviceNodeSelection") else spec
                self.devices[*pool, device["name"]] = Published(device, scope)
            for counters in spec.get("sharedCounters") or ():
                for name, counter in counters["counters"].items():
                    self.counters[*pool, counters["name"], name] = amount_of(counter["value"])


def reaches(scope: Json, node: Json) -> bool:
    """Say whether a slice's or device's scope includes a node."""
    if scope.get("nodeName"):
        return bool(scope["nodeName"] == node["metadata"]["name"])
    return bool(scope.get("allNodes")) or ("nodeSelector" in scope and selects(scope["nodeSelector"], node))


def selects(selector: Json, node: Json) -> bool:
    """Say whether a core/v1 NodeSelector matches a node."""
    labels = node["metadata"].get("labels") or {}
    fields = {"metadata.name": node["metadata"]["name"]}
    for term in selector.get("nodeSelectorTerms") or ():
        wanted = [(labels, each) for each in term.get("matchExpressions") or ()]
        wanted += [(fields, each) for each in term.get("matchFields") or ()]
        if wanted and all(_holds(values, each) for values, each in wanted):
            return True
    return False


def _holds(values: Json, requirement: Json) -> bool:
    key, wanted, value = requirement["key"], requirement.get("values") or [], values.get(requirement["key"])
    match requirement["operator"]:
        case "In":
            return value in wanted
        case "NotIn":
            return value not in wanted
        case "Exists":
            return key in values
        case "DoesNotExist":
            return key not in values
        case "Gt":
            return value is not None and int(value) > int(wanted[0])
        case _:
            return value is not None and int(value) < int(wanted[0])


# Claims


def _claim(claim: Json, inventory: Inventory, classes: dict[str, Json]) -> Iterator[Finding]:
    subject, results = str(key_of(claim)), results_of(claim)
    if not claim["status"].get("reservedFor"):
        yield Finding("reserved", subject, "it is allocated and reserved for nobody: nothing will ever free it")
    if "resource.kubernetes.io/delete-protection" not in (claim["metadata"].get("finalizers") or ()):
        yield Finding("finalizer", subject, "it is allocated without the finalizer that its deallocation needs")
    requests = {each["name"]: each for each in claim["spec"].get("devices", {}).get("requests") or ()}
    by_request: defaultdict[str, list[Json]] = defaultdict(list)
    for result in results:
        by_request[result["request"]].append(result)
    for name in by_request:
        if name.partition("/")[0] not in requests:
            yield Finding("request", subject, f"it has devices for {name}, which it does not request")
    for name, request in requests.items():
        chosen = [full for full in by_request if full.partition("/")[0] == name]
        if len(chosen) != 1:
            yield Finding("request", subject, f"request {name} is served by {' and '.join(chosen) or 'nothing'}")
        for full in chosen:
            wanted = wanted_by(request, full)
            yield from _served(subject, full, (wanted, by_request[full]), (inventory, classes))
    for constraint in claim["spec"].get("devices", {}).get("constraints") or ():
        yield from _constraint(subject, constraint, results, inventory)


def wanted_by(request: Json, full: str) -> Json:
    """Return what `main` or `main/sub` asks for; empty for an alternative that does not exist."""
    if "exactly" in request:
        exactly: Json = request["exactly"]
        return exactly
    sub = full.partition("/")[2]
    return next((each for each in request.get("firstAvailable") or () if each["name"] == sub), {})


def _served(
    subject: str, name: str, served: tuple[Json, list[Json]], world: tuple[Inventory, dict[str, Json]]
) -> Iterator[Finding]:
    (wanted, results), (inventory, classes) = served, world
    if wanted.get("allocationMode", "ExactCount") == "ExactCount" and len(results) != wanted.get("count", 1):
        yield Finding("count", subject, f"request {name} has {len(results)} devices, not {wanted.get('count', 1)}")
    keys = [device_of(result) for result in results]
    if len(set(keys)) != len(keys):
        yield Finding("count", subject, f"request {name} has a device twice")
    device_class = classes.get(wanted.get("deviceClassName", ""))
    if device_class is None:
        yield Finding("class", subject, f"request {name}: there is no class {wanted.get('deviceClassName')}")
        return
    for result, key in zip(results, keys, strict=True):
        published = inventory.devices.get(key)
        if published is None or key[:2] in inventory.incomplete:
            yield Finding("device", subject, f"{'/'.join(key)} is not in the newest generation of a complete pool")
            continue
        for problem in _mismatches(wanted, device_class, key, published.device):
            yield Finding("selector", subject, f"request {name}, device {'/'.join(key)}: {problem}")
        if bool(result.get("adminAccess")) != bool(wanted.get("adminAccess")):
            yield Finding("admin", subject, f"request {name}, device {'/'.join(key)}: adminAccess differs")
        yield from _shared(subject, result, published.device)


def _mismatches(wanted: Json, device_class: Json, key: DeviceKey, device: Json) -> Iterator[str]:
    for selector in (*(device_class["spec"].get("selectors") or ()), *(wanted.get("selectors") or ())):
        expression = selector["cel"]["expression"]
        try:
            outcome = compile_selector(expression).evaluate(key[0], _for_cel(device))
        except SelectorError as error:
            yield f"{expression} does not compile: {error}"
            continue
        if outcome is not True:
            yield f"{expression} is {outcome if outcome is False else outcome.message}"
    for name, asked in (wanted.get("capacity", {}).get("requests") or {}).items():
        published = (device.get("capacity") or {}).get(name)
        if published is None or amount_of(asked) > amount_of(published["value"]):
            yield f"it does not have {asked} of {name}"


def _for_cel(device: Json) -> Device:
    return Device(
        name=device["name"],
        attributes=tuple(sorted((name, _attribute(value)) for name, value in (device.get("attributes") or {}).items())),
        capacities=tuple(
            sorted(
                (
                    (name, Capacity(value=parse(str(each["value"]))))
                    for name, each in (device.get("capacity") or {}).items()
                ),
                key=lambda pair: pair[0],
            )
        ),
        allow_multiple_allocations=bool(device.get("allowMultipleAllocations")),
    )


def _attribute(value: Json) -> AttributeValue:
    ((kind, content),) = value.items()
    return AttributeValue(kind=AttributeKind(kind), value=tuple(content) if isinstance(content, list) else content)


def _shared(subject: str, result: Json, device: Json) -> Iterator[Finding]:
    """A share says everything that it consumes; a device that is not shared consumes nothing."""
    name, consumed = "/".join(device_of(result)), set(result.get("consumedCapacity") or ())
    if not device.get("allowMultipleAllocations"):
        if result.get("shareID") or consumed:
            yield Finding("share", subject, f"{name} cannot be shared, and its allocation is a share")
    elif not result.get("adminAccess"):
        if not result.get("shareID"):
            yield Finding("share", subject, f"{name} is shared without a shareID")
        if consumed != set(device.get("capacity") or ()):
            yield Finding(
                "share", subject, f"{name}: consumedCapacity names {', '.join(sorted(consumed)) or 'nothing'}"
            )


def _constraint(subject: str, constraint: Json, results: list[Json], inventory: Inventory) -> Iterator[Finding]:
    covered = set(constraint.get("requests") or ())
    devices = [
        device_of(result)
        for result in results
        if not covered or {result["request"], result["request"].partition("/")[0]} & covered
    ]
    attribute = constraint.get("matchAttribute") or constraint.get("distinctAttribute") or ""
    values = [_values(key, inventory.devices[key].device, attribute) for key in devices if key in inventory.devices]
    if any(not each for each in values):
        yield Finding("constraint", subject, f"a device has no {attribute}")
    elif constraint.get("matchAttribute") and values and not set.intersection(*values):
        yield Finding("constraint", subject, f"its devices have no value of {attribute} in common")
    elif constraint.get("distinctAttribute") and sum(map(len, values)) != len(set().union(*values)):
        yield Finding("constraint", subject, f"two of its devices have the same {attribute}")


def _values(key: DeviceKey, device: Json, attribute: str) -> set[tuple[str, Any]]:
    attributes = device.get("attributes") or {}
    domain, _, own = attribute.partition("/")
    found = attributes.get(attribute) or (attributes.get(own) if domain == key[0] else None) or {}
    return {
        (kind.removesuffix("s"), each)
        for kind, content in found.items()
        for each in (content if isinstance(content, list) else [content])
    }


# Usage


def _usage(claims: list[Json], inventory: Inventory) -> Iterator[Finding]:
    alone: defaultdict[DeviceKey, list[str]] = defaultdict(list)
    shares: defaultdict[DeviceKey, list[str]] = defaultdict(list)
    consumed: defaultdict[DeviceKey, Counter[str]] = defaultdict(Counter)
    for claim in claims:
        for result in (each for each in results_of(claim) if not each.get("adminAccess")):
            (shares if result.get("shareID") else alone)[device_of(result)].append(str(key_of(claim)))
            for name, amount in (result.get("consumedCapacity") or {}).items():
                consumed[device_of(result)][name] += amount_of(amount)  # type: ignore[assignment] -- exact fractions
    for key, holders in alone.items():
        if len(holders) > 1 or key in shares:
            yield Finding("twice", "/".join(key), f"it is held by {', '.join((*holders, *shares.get(key, ())))}")
    for key, amounts in consumed.items():
        published = inventory.devices.get(key)
        for name, capacity in ((published.device.get("capacity") or {}) if published is not None else {}).items():
            if amounts[name] > amount_of(capacity["value"]):
                yield Finding("capacity", "/".join(key), f"{name}: more is consumed than {capacity['value']}")
    yield from _counters({*alone, *shares}, inventory)


def _counters(in_use: set[DeviceKey], inventory: Inventory) -> Iterator[Finding]:
    drawn: defaultdict[tuple[str, str, str, str], Fraction] = defaultdict(Fraction)
    for key in in_use & inventory.devices.keys():
        for consumption in inventory.devices[key].device.get("consumesCounters") or ():
            for name, counter in consumption["counters"].items():
                drawn[*key[:2], consumption["counterSet"], name] += amount_of(counter["value"])
    for counter, amount in drawn.items():
        if amount > inventory.counters.get(counter, 0):
            yield Finding("counter", "/".join(counter), f"{float(amount):g} are drawn, more than it has")


# Pods and nodes


def _pod(pod: Json, claims: dict[Any, Json], nodes: dict[str, Json], inventory: Inventory) -> Iterator[Finding]:
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
        groups = {each["name"] for each in claim["status"].get("reservedFor") or () if each["resource"] == "podgroups"}
        group = (pod["spec"].get("schedulingGroup") or {}).get("podGroupName")
        if pod["metadata"]["uid"] not in consumers and group not in groups:
            yield Finding("reserved", subject, f"it is bound and claim {name} is not reserved for it")
        if "nodeSelector" in allocation and not selects(allocation["nodeSelector"], node):
            yield Finding("node", subject, f"claim {name} cannot be used on its node {pod['spec']['nodeName']}")
        for key in map(device_of, results_of(claim)):
            if key in inventory.devices and not reaches(inventory.devices[key].scope, node):
                yield Finding("node", subject, f"{'/'.join(key)} of claim {name} is not on {pod['spec']['nodeName']}")


def _takes_all(objects: Objects, classes: dict[str, Json], inventory: Inventory) -> Iterator[Finding]:
    """A request for all devices has every matching one of a node that a consumer of its claim runs on."""
    homes: defaultdict[Any, set[str]] = defaultdict(set)
    for pod in filter(_holds_node, objects.pods):
        for name in claims_of(pod):
            homes[Key(pod["metadata"]["namespace"], name)].add(pod["spec"]["nodeName"])
    nodes = {each["metadata"]["name"]: each for each in objects.nodes}
    for claim in objects.claims:
        used_on = [nodes[name] for name in sorted(homes[key_of(claim)]) if name in nodes]
        for request in claim["spec"].get("devices", {}).get("requests") or ():
            chosen = {
                each["request"] for each in results_of(claim) if each["request"].partition("/")[0] == request["name"]
            }
            for full in sorted(chosen) if used_on else ():
                wanted = wanted_by(request, full)
                given = {device_of(each) for each in results_of(claim) if each["request"] == full}
                if wanted.get("allocationMode") == "All" and not any(
                    given == _matching(wanted, classes, node, inventory) for node in used_on
                ):
                    yield Finding("all", str(key_of(claim)), f"request {full} does not have all matching devices")


def _matching(wanted: Json, classes: dict[str, Json], node: Json, inventory: Inventory) -> set[DeviceKey]:
    device_class = classes.get(wanted["deviceClassName"], {"spec": {}})
    return {
        key
        for key, published in inventory.devices.items()
        if reaches(published.scope, node) and not any(_mismatches(wanted, device_class, key, published.device))
    }


def _nodes(pods: list[Json], nodes: dict[str, Json]) -> Iterator[Finding]:
    taken: defaultdict[str, defaultdict[str, Fraction]] = defaultdict(lambda: defaultdict(Fraction))
    for pod in filter(_holds_node, pods):
        for resource, amount in {**requests_of(pod), "pods": Fraction(1)}.items():
            taken[pod["spec"]["nodeName"]][resource] += amount
    for name, resources in taken.items():
        allocatable = nodes.get(name, {}).get("status", {}).get("allocatable") or {}
        for resource, amount in resources.items():
            if amount > amount_of(allocatable.get(resource, "0")):
                message = (
                    f"its pods request {float(amount):g} of {resource}, it has {allocatable.get(resource, 'none')}"
                )
                yield Finding("resources", name, message)


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


# JSON


class Key(NamedTuple):
    """Namespace and name."""

    namespace: str
    name: str

    def __str__(self) -> str:
        """Write it as kubectl's users do."""
        return f"{self.namespace}/{self.name}"


def key_of(value: Json) -> Key:
    """Return an object's namespace and name."""
    return Key(value["metadata"]["namespace"], value["metadata"]["name"])


def results_of(claim: Json) -> list[Json]:
    """Return the results of a claim's allocation."""
    results: list[Json] = claim.get("status", {}).get("allocation", {}).get("devices", {}).get("results") or []
    return results


def device_of(result: Json) -> DeviceKey:
    """Return the device that a result names."""
    return result["driver"], result["pool"], result["device"]


def claims_of(pod: Json) -> list[str]:
    """Return the names of a pod's claims, as far as they are known; without those that it turned out not to need."""
    made = {each["name"]: each.get("resourceClaimName") for each in pod["status"].get("resourceClaimStatuses") or ()}
    entries = pod["spec"].get("resourceClaims") or ()
    names = [each.get("resourceClaimName") or made.get(each["name"], f"(entry {each['name']})") for each in entries]
    names.append((pod["status"].get("extendedResourceClaimStatus") or {}).get("resourceClaimName"))
    return list(dict.fromkeys(name for name in names if name))


def amount_of(quantity: str | float) -> Fraction:
    """Read a Kubernetes quantity exactly."""
    text = str(quantity)
    number = text.rstrip("numkMGTPEi")
    if "e" in number or "E" in number:
        return Fraction(number)
    return Fraction(number) * SUFFIXES[text[len(number) :]]


def _holds_node(pod: Json) -> bool:
    return bool(pod["spec"].get("nodeName")) and pod["status"].get("phase") not in {"Succeeded", "Failed"}


def summary(objects: Objects, findings: list[Finding]) -> str:
    """Say in a few lines what was there and what is wrong with it."""
    allocated = [claim for claim in objects.claims if "allocation" in claim.get("status", {})]
    devices = {device_of(result) for claim in allocated for result in results_of(claim)}
    bound = sum(map(_holds_node, objects.pods))
    lines = [
        f"{bound} of {len(objects.pods)} pods are bound, {len(allocated)} of {len(objects.claims)} claims are allocated, "
        f"{len(devices)} devices are in use on {len(objects.nodes)} nodes"
    ]
    lines += [f"  {finding.rule:10} {finding.subject}: {finding.message}" for finding in findings]
    wrong = ", ".join(f"{count} × {rule}" for rule, count in sorted(Counter(each.rule for each in findings).items()))
    return "\n".join((*lines, f"wrong: {wrong}" if wrong else "nothing is wrong"))


def main(arguments: list[str] | None = None) -> int:
    """Audit a cluster; 0 when nothing is wrong, 1 otherwise."""
    parser = argparse.ArgumentParser(
        prog="python -m e2e.audit", description="Check allocations and bindings of a cluster."
    )
    parser.add_argument("--kubeconfig", type=Path, help="as kubectl's")
    parser.add_argument("--kubectl", default=shutil.which("kubectl") or "kubectl", help="the kubectl to read with")
    options = parser.parse_args(arguments)
    objects = read_with_kubectl(options.kubectl, options.kubeconfig)
    findings = audit(objects)
    print(summary(objects, findings))
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
