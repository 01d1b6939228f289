"""Values of claims and PodGroups that the API server refuses."""

from collections.abc import Iterator
from typing import Any, Final, TypeGuard

from scheduler.simulation.manifests.fields import Body, entries, mapping, text
from scheduler.simulation.manifests.shapes import Wrong

_MOST_REQUESTS: Final = 32
_MOST_ALTERNATIVES: Final = 8
_MODES: Final = ("ExactCount", "All")
_EFFECTS: Final = ("NoSchedule", "NoExecute")
_RELATIONS: Final = ("matchAttribute", "distinctAttribute")


def of_claim_spec(claim: Body, at: str) -> Iterator[Wrong]:
    """Give what is wrong with a claim's spec that stands at a field."""
    devices = mapping(claim.get("devices"))
    at = f"{at}.devices"
    requests = list(entries(devices.get("requests")))
    if len(requests) > _MOST_REQUESTS:
        yield Wrong(f"{at}.requests", f"are {len(requests)}: at most {_MOST_REQUESTS} are allowed")
    names: set[str] = set()
    for index, request in requests:
        name, field = text(request.get("name")), f"{at}.requests[{index}]"
        if name in names:
            yield Wrong(f"{field}.name", f"{name} stands twice: write another name")
        names |= {name, *(f"{name}/{text(each.get('name'))}" for _, each in entries(request.get("firstAvailable")))}
        yield from _of_request(request, field)
    for kind in ("constraints", "config"):
        for index, each in entries(devices.get(kind)):
            yield from _of_references(each.get("requests"), names, f"{at}.{kind}[{index}].requests")
    for index, each in entries(devices.get("constraints")):
        yield from _of_constraint(each, f"{at}.constraints[{index}]")


def of_group(group: Body) -> Iterator[Wrong]:
    """Give what is wrong with a PodGroup of scheduling.k8s.io or scheduling.x-k8s.io."""
    spec = mapping(group.get("spec"))
    if text(group.get("apiVersion")).startswith("scheduling.x-k8s.io/"):
        yield from _of_minimum(spec, "minMember", "spec")
        return
    policy = mapping(spec.get("schedulingPolicy"))
    chosen = [name for name in ("basic", "gang") if name in policy]
    if not chosen:
        yield Wrong("spec.schedulingPolicy", "missing: write gang: {minCount: …}, or basic: {}")
    if len(chosen) > 1:
        yield Wrong("spec.schedulingPolicy", "basic and gang exclude each other: keep one of them")
    if "gang" in policy:
        gang = mapping(policy["gang"])
        if "minCount" not in gang:
            yield Wrong("spec.schedulingPolicy.gang.minCount", "missing: write 1 or more")
        yield from _of_minimum(gang, "minCount", "spec.schedulingPolicy.gang")


def _of_minimum(holder: Body, name: str, at: str) -> Iterator[Wrong]:
    value = holder.get(name)
    if _is_number(value) and value < 1:
        yield Wrong(f"{at}.{name}", f"is {value}: write 1 or more")


def _of_request(request: Body, at: str) -> Iterator[Wrong]:
    if isinstance(request.get("exactly"), dict):
        yield from _of_details(request["exactly"], f"{at}.exactly")
    alternatives = list(entries(request.get("firstAvailable")))
    if len(alternatives) > _MOST_ALTERNATIVES:
        yield Wrong(
            f"{at}.firstAvailable", f"are {len(alternatives)} alternatives: at most {_MOST_ALTERNATIVES} are allowed"
        )
    for index, each in alternatives:
        field = f"{at}.firstAvailable[{index}]"
        if "adminAccess" in each:
            yield Wrong(f"{field}.adminAccess", "goes with exactly only")
        yield from _of_details(each, field)


def _of_details(details: Body, at: str) -> Iterator[Wrong]:
    mode, count = details.get("allocationMode"), details.get("count")
    if isinstance(mode, str) and mode and mode not in _MODES:
        yield Wrong(f"{at}.allocationMode", f"{mode} is not known: write {' or '.join(_MODES)}")
    if _is_number(count) and count < 0:
        yield Wrong(f"{at}.count", f"is {count}: write 1 or more")
    if mode == "All" and _is_number(count) and count:
        yield Wrong(f"{at}.count", "allocationMode All takes none: leave it out, or write ExactCount")
    for index, each in entries(details.get("tolerations")):
        yield from _of_toleration(each, f"{at}.tolerations[{index}]")
    for name, amount in mapping(mapping(details.get("capacity")).get("requests")).items():
        if str(amount).startswith("-"):
            yield Wrong(f"{at}.capacity.requests[{name}]", f"is {amount}: write 0 or more")


def _of_toleration(toleration: Body, at: str) -> Iterator[Wrong]:
    operator, effect = text(toleration.get("operator")), text(toleration.get("effect"))
    if operator and operator not in {"Exists", "Equal"}:
        yield Wrong(f"{at}.operator", f"{operator} is not known: write Exists or Equal")
    if effect and effect not in {*_EFFECTS, "None"}:
        yield Wrong(f"{at}.effect", f"{effect} is not known: write {' or '.join(_EFFECTS)}")
    if operator == "Exists" and toleration.get("value"):
        yield Wrong(f"{at}.value", "operator Exists takes none: leave it out, or write operator: Equal")
    if not toleration.get("key") and operator != "Exists":
        yield Wrong(f"{at}.key", "missing: without a key the operator must be Exists, which tolerates every taint")


def _of_constraint(constraint: Body, at: str) -> Iterator[Wrong]:
    chosen = [name for name in _RELATIONS if constraint.get(name)]
    if len(chosen) != 1:
        told = "exclude each other: keep one of them" if chosen else "are both missing: write one of them"
        yield Wrong(at, f"{' and '.join(_RELATIONS)} {told}")
    for name in chosen:
        attribute = constraint[name]
        if isinstance(attribute, str) and "/" not in attribute:
            yield Wrong(f"{at}.{name}", f"{attribute} lacks its domain: write <driver>/{attribute}")


def _of_references(references: Any, names: set[str], at: str) -> Iterator[Wrong]:
    for index, each in enumerate(references if isinstance(references, list) else ()):
        if isinstance(each, str) and each not in names:
            yield Wrong(f"{at}[{index}]", f"{each} is no request of the claim ({', '.join(sorted(names))})")


def _is_number(value: Any) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool)
