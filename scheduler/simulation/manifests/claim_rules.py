"""
Invalid values of claims and device classes, as the API server validates them.

Sizes are those of resource.k8s.io/v1 (`DeviceRequestsMaxSize` and the like). Fields that the API defaults
(allocationMode, count, operator) may be absent.
"""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Final

from scheduler.simulation.manifests.fields import Body, FieldError, entries, is_number, mapping, text

_MOST: Final = {"requests": 32, "constraints": 32, "config": 32, "selectors": 32, "firstAvailable": 8}
"""Entries of each list; a constraint's or a configuration's `requests` has the same size."""
_LONGEST_EXPRESSION: Final = 10 * 1024
_LARGEST_PARAMETERS: Final = 10 * 1024
_LONGEST_DOMAIN: Final = 63
_LONGEST_ID: Final = 32
_LARGEST_COUNT: Final = 2**63 - 1
_LABEL: Final = re.compile(r"[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?")
_SUBDOMAIN: Final = re.compile(r"(?=.{1,253}\Z)[a-z0-9](?:[-a-z0-9]*[a-z0-9])?(?:\.[a-z0-9](?:[-a-z0-9]*[a-z0-9])?)*")
_IDENTIFIER: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_MODES: Final = ("ExactCount", "All")
_EFFECTS: Final = ("NoSchedule", "NoExecute")
_RELATIONS: Final = ("matchAttribute", "distinctAttribute")

_Names = Mapping[str, set[str]]
"""The requests of a claim with the names of their alternatives."""


def of_claim_spec(claim: Body, at: str) -> Iterator[FieldError]:
    """Return the errors in a claim's spec; `at` is its path."""
    devices = mapping(claim.get("devices"))
    at = f"{at}.devices"
    for kind in ("requests", "constraints", "config"):
        yield from _too_many(devices, kind, at)
    requests = list(entries(devices.get("requests")))
    yield from _of_names(requests, f"{at}.requests")
    for index, request in requests:
        yield from _of_request(request, f"{at}.requests[{index}]")
    names = {
        text(request.get("name")): {text(each.get("name")) for _, each in entries(request.get("firstAvailable"))}
        for _, request in requests
    }
    for kind in ("constraints", "config"):
        for index, each in entries(devices.get(kind)):
            yield from _of_references(each, names, f"{at}.{kind}[{index}]")
    for index, each in entries(devices.get("constraints")):
        yield from _of_constraint(each, f"{at}.constraints[{index}]")
    constraints = [each for _, each in entries(devices.get("constraints"))]
    for index, request in requests:
        yield from _of_derived(request, constraints, f"{at}.requests[{index}]")
    for index, each in entries(devices.get("config")):
        yield from _of_config(each, f"{at}.config[{index}]")


def of_class_spec(device_class: Body) -> Iterator[FieldError]:
    """Return the errors in the spec of a DeviceClass."""
    yield from _of_selectors(device_class, "spec")
    yield from _too_many(device_class, "config", "spec")
    for index, each in entries(device_class.get("config")):
        yield from _of_config(each, f"spec.config[{index}]")


def _too_many(holder: Body, name: str, at: str) -> Iterator[FieldError]:
    found, most = holder.get(name), _MOST[name]
    if isinstance(found, list) and len(found) > most:
        yield FieldError(f"{at}.{name}", f"are {len(found)}: at most {most} are allowed")


def _of_names(named: list[tuple[int, Body]], at: str) -> Iterator[FieldError]:
    """Return the errors in the names of requests, or of alternatives."""
    seen: set[str] = set()
    for index, each in named:
        name, field = text(each.get("name")), f"{at}[{index}].name"
        if not name:
            yield FieldError(field, "missing: write a name")
        elif not _LABEL.fullmatch(name):
            yield FieldError(
                field, f"{name} is no name: write at most 63 small letters, digits and '-', none at an end"
            )
        elif name in seen:
            yield FieldError(field, f"{name} stands twice: write another name")
        seen.add(name)


def _of_request(request: Body, at: str) -> Iterator[FieldError]:
    if isinstance(request.get("exactly"), dict):
        yield from _of_details(request["exactly"], f"{at}.exactly")
    alternatives = list(entries(request.get("firstAvailable")))
    if request.get("firstAvailable") == [] and "exactly" not in request:
        yield FieldError(f"{at}.firstAvailable", "is empty: write at least one alternative, or exactly instead")
    yield from _too_many(request, "firstAvailable", at)
    yield from _of_names(alternatives, f"{at}.firstAvailable")
    for index, each in alternatives:
        field = f"{at}.firstAvailable[{index}]"
        if "adminAccess" in each:
            yield FieldError(f"{field}.adminAccess", "goes with exactly only")
        yield from _of_details(each, field)


def _of_details(details: Body, at: str) -> Iterator[FieldError]:
    mode, count, name = details.get("allocationMode"), details.get("count"), details.get("deviceClassName")
    if name is None or name == "":
        yield FieldError(f"{at}.deviceClassName", "missing: write the name of a DeviceClass")
    elif isinstance(name, str) and not _SUBDOMAIN.fullmatch(name):
        yield FieldError(f"{at}.deviceClassName", f"{name} is no name: write small letters, digits, '-' and '.'")
    if isinstance(mode, str) and mode and mode not in _MODES:
        yield FieldError(f"{at}.allocationMode", f"{mode} is not known: write {' or '.join(_MODES)}")
    if is_number(count) and count < 0:
        yield FieldError(f"{at}.count", f"is {count}: write 1 or more")
    if is_number(count) and count > _LARGEST_COUNT:
        yield FieldError(f"{at}.count", f"is larger than {_LARGEST_COUNT}: a claim holds at most 32 devices")
    if mode == "All" and is_number(count) and count:
        yield FieldError(f"{at}.count", "allocationMode All takes none: leave it out, or write ExactCount")
    yield from _of_selectors(details, at)
    for index, each in entries(details.get("tolerations")):
        yield from _of_toleration(each, f"{at}.tolerations[{index}]")
    for name, amount in mapping(mapping(details.get("capacity")).get("requests")).items():
        if str(amount).startswith("-"):
            yield FieldError(f"{at}.capacity.requests[{name}]", f"is {amount}: write 0 or more")


def _of_selectors(holder: Body, at: str) -> Iterator[FieldError]:
    yield from _too_many(holder, "selectors", at)
    for index, each in entries(holder.get("selectors")):
        field, selector = f"{at}.selectors[{index}].cel", each.get("cel")
        expression = mapping(selector).get("expression")
        if isinstance(selector, dict) and not expression:
            yield FieldError(f"{field}.expression", 'missing: write one such as device.driver == "gpu.example.com"')
        if isinstance(expression, str) and len(expression.encode("utf-8", "replace")) > _LONGEST_EXPRESSION:
            message = f"is longer than {_LONGEST_EXPRESSION} bytes: write a shorter one, or several selectors"
            yield FieldError(f"{field}.expression", message)


def _of_config(config: Body, at: str) -> Iterator[FieldError]:
    if "opaque" not in config:
        yield FieldError(f"{at}.opaque", "missing: write opaque: {driver: …, parameters: {…}}")
        return
    opaque = mapping(config["opaque"])
    driver, parameters = opaque.get("driver"), opaque.get("parameters")
    if not driver or (isinstance(driver, str) and not _is_domain(driver)):
        message = f"{driver} is no driver" if driver else "missing"
        yield FieldError(f"{at}.opaque.driver", f"{message}: write the driver's name, such as gpu.example.com")
    if not isinstance(parameters, dict):
        message = "missing" if parameters is None else "is no mapping"
        yield FieldError(f"{at}.opaque.parameters", f"{message}: write what the driver is to be given, or {{}}")
    elif len(json.dumps(parameters, separators=(",", ":"), default=str)) > _LARGEST_PARAMETERS:
        yield FieldError(f"{at}.opaque.parameters", f"are larger than {_LARGEST_PARAMETERS} bytes of JSON: write less")


def _of_toleration(toleration: Body, at: str) -> Iterator[FieldError]:
    operator, effect = text(toleration.get("operator")), text(toleration.get("effect"))
    if operator and operator not in {"Exists", "Equal"}:
        yield FieldError(f"{at}.operator", f"{operator} is not known: write Exists or Equal")
    if effect and effect not in {*_EFFECTS, "None"}:
        yield FieldError(f"{at}.effect", f"{effect} is not known: write {' or '.join(_EFFECTS)}")
    if operator == "Exists" and toleration.get("value"):
        yield FieldError(f"{at}.value", "operator Exists takes none: leave it out, or write operator: Equal")


def _of_constraint(constraint: Body, at: str) -> Iterator[FieldError]:
    chosen = [name for name in _RELATIONS if constraint.get(name)]
    if len(chosen) != 1:
        both = "are both there, and distinctAttribute would count for nothing: write a constraint for each"
        message = both if chosen else "are both missing: write one of them"
        yield FieldError(at, f"{' and '.join(_RELATIONS)} {message}")
    for name in chosen:
        attribute = constraint[name]
        if not isinstance(attribute, str):
            continue
        domain, _, short = attribute.partition("/")
        if "/" not in attribute:
            yield FieldError(f"{at}.{name}", f"{attribute} lacks its domain: write <driver>/{attribute}")
        elif not _is_domain(domain) or ("/" not in short and not _is_identifier(short)):
            message = f"{attribute} is no attribute: write <domain>/<name>, the name of at most {_LONGEST_ID} letters, "
            yield FieldError(f"{at}.{name}", f"{message}digits and '_'")
        elif domain != domain.lower():
            lower = f"{domain.lower()}/{short}"
            yield FieldError(f"{at}.{name}", f"{attribute} is refused by Kubernetes 1.37 and later: write {lower}")


def _of_derived(request: Body, constraints: list[Body], at: str) -> Iterator[FieldError]:
    """Return the errors in derived attributes: a constraint of the request has to compare each (1.37)."""
    name = text(request.get("name"))
    asked = [({name}, mapping(request.get("exactly")), f"{at}.exactly")]
    asked += [
        ({name, f"{name}/{text(each.get('name'))}"}, each, f"{at}.firstAvailable[{index}]")
        for index, each in entries(request.get("firstAvailable"))
    ]
    for names, details, path in asked:
        seen: set[str] = set()
        for index, each in entries(details.get("derivedAttributes")):
            derived, field = text(each.get("name")), f"{path}.derivedAttributes[{index}].name"
            if derived and not any(_compares(constraint, derived, names) for constraint in constraints):
                yield FieldError(
                    field, f"{derived} is compared by no constraint of the request: write one, or leave it out"
                )
            elif derived in seen:
                yield FieldError(field, f"{derived} stands twice: leave it out")
            seen.add(derived)


def _compares(constraint: Body, attribute: str, names: set[str]) -> bool:
    found = constraint.get("requests")
    is_about = not found or (isinstance(found, list) and not names.isdisjoint(map(str, found)))
    return is_about and any(constraint.get(relation) == attribute for relation in _RELATIONS)


def _of_references(holder: Body, names: _Names, at: str) -> Iterator[FieldError]:
    found = holder.get("requests")
    yield from _too_many(holder, "requests", at)
    seen: set[str] = set()
    for index, each in enumerate(found if isinstance(found, list) else ()):
        field = f"{at}.requests[{index}]"
        if not isinstance(each, str):
            continue
        request, slash, alternative = each.partition("/")
        if request not in names or (slash and alternative not in names[request]):
            known = sorted({*names, *(f"{name}/{sub}" for name, subs in names.items() for sub in subs)})
            yield FieldError(field, f"{each} is no request of the claim ({', '.join(known)})")
        elif each in seen:
            yield FieldError(field, f"{each} stands twice: leave it out")
        seen.add(each)


def _is_domain(domain: str) -> bool:
    """Whether a name is a valid driver or domain; capitals are allowed, as for CSI drivers."""
    return len(domain) <= _LONGEST_DOMAIN and _SUBDOMAIN.fullmatch(domain.lower()) is not None


def _is_identifier(name: str) -> bool:
    return len(name) <= _LONGEST_ID and _IDENTIFIER.fullmatch(name) is not None
