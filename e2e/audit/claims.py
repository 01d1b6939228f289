"""Every allocated claim has what it asks for."""

from collections import defaultdict
from collections.abc import Iterator
from typing import Any

from e2e.audit.inventory import Inventory, reaches
from e2e.audit.reading import (
    DeviceKey,
    Finding,
    Json,
    Key,
    Objects,
    amount_of,
    claims_of,
    device_of,
    holds_node,
    key_of,
    results_of,
)
from solver.domain import AttributeKind, AttributeValue, Capacity, Device
from solver.domain.quantity import parse
from solver.feasibility.selectors import SelectorError, compile_selector


def claim_findings(claim: Json, inventory: Inventory, classes: dict[str, Json]) -> Iterator[Finding]:
    """Check one allocated claim against its own requests and the devices that it has."""
    subject, results = str(key_of(claim)), results_of(claim)
    if not claim["status"].get("reservedFor"):
        yield Finding("reserved", subject, "it is allocated and reserved for no pod: nothing will ever free it")
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


def all_findings(objects: Objects, classes: dict[str, Json], inventory: Inventory) -> Iterator[Finding]:
    """A request for all devices has every matching one of a node that a consumer of its claim runs on."""
    homes: defaultdict[Any, set[str]] = defaultdict(set)
    for pod in filter(holds_node, objects.pods):
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
