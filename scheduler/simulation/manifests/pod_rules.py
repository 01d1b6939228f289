"""
Invalid values of pods, volumes and volume claims, as the API server validates them.

Without these checks the values would silently be read as something else.
"""

import re
from collections.abc import Iterator
from typing import Any, Final, TypeGuard

from scheduler.simulation.manifests.fields import Body, FieldError, entries, mapping, spec, text
from solver.domain import READ_WRITE_ONCE_POD
from solver.domain.quantity import QuantityError, parse

_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"
_WITH_VALUES: Final = frozenset({"In", "NotIn"})
_WITHOUT_VALUES: Final = frozenset({"Exists", "DoesNotExist"})
_OF_LABELS: Final = ("In", "NotIn", "Exists", "DoesNotExist")
_COMPARING: Final = ("Gt", "Lt")
_WHOLE: Final = re.compile(r"0|-?[1-9][0-9]*", re.ASCII)
_EFFECTS: Final = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_LARGEST_WEIGHT: Final = 100
_LARGEST_PORT: Final = 65535


def of_pod_spec(pod: Body, at: str) -> Iterator[FieldError]:
    """Return the errors in a pod's spec; `at` is its path."""
    yield from _choice(pod, "preemptionPolicy", ("PreemptLowerPriority", "Never"), at)
    for index, each in entries(pod.get("topologySpreadConstraints")):
        yield from _of_spread(each, f"{at}.topologySpreadConstraints[{index}]")
    for index, each in entries(pod.get("tolerations")):
        yield from of_toleration(each, f"{at}.tolerations[{index}]")
    yield from _of_affinity(mapping(pod.get("affinity")), f"{at}.affinity")
    yield from _of_claims(pod, at)
    for name in ("initContainers", "containers"):
        for index, each in entries(pod.get(name)):
            yield from _of_container(each, f"{at}.{name}[{index}]")
    for name in ("overhead", "resources"):
        amounts = mapping(pod.get(name))
        yield from _of_amounts(mapping(amounts.get("requests")) if name == "resources" else amounts, f"{at}.{name}")


def of_selector(selector: Any, at: str) -> Iterator[FieldError]:
    """Return the errors in a label selector."""
    for index, each in entries(mapping(selector).get("matchExpressions")):
        yield from _of_requirement(each, f"{at}.matchExpressions[{index}]", _OF_LABELS)


def _choice(holder: Body, name: str, allowed: tuple[str, ...], at: str) -> Iterator[FieldError]:
    value = holder.get(name)
    if isinstance(value, str) and value and value not in allowed:
        yield FieldError(f"{at}.{name}", f"{value} is not known: write {_either(allowed)}")


def _either(words: tuple[str, ...]) -> str:
    return f"{', '.join(words[:-1])} or {words[-1]}"


def _at_least_one(holder: Body, name: str, at: str) -> Iterator[FieldError]:
    value = holder.get(name)
    if _is_number(value) and value < 1:
        yield FieldError(f"{at}.{name}", f"is {value}: write 1 or more")


def _is_number(value: Any) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool)


def _of_spread(constraint: Body, at: str) -> Iterator[FieldError]:
    if "maxSkew" not in constraint:
        yield FieldError(f"{at}.maxSkew", "missing: write 1 or more")
    yield from _at_least_one(constraint, "maxSkew", at)
    yield from _at_least_one(constraint, "minDomains", at)
    ways = ("DoNotSchedule", "ScheduleAnyway")
    if not constraint.get("whenUnsatisfiable"):
        yield FieldError(f"{at}.whenUnsatisfiable", f"missing: write {_either(ways)}")
    yield from _choice(constraint, "whenUnsatisfiable", ways, at)
    if constraint.get("minDomains") is not None and constraint.get("whenUnsatisfiable") == "ScheduleAnyway":
        yield FieldError(f"{at}.minDomains", "goes with whenUnsatisfiable: DoNotSchedule only")
    yield from _choice(constraint, "nodeAffinityPolicy", ("Honor", "Ignore"), at)
    yield from _choice(constraint, "nodeTaintsPolicy", ("Honor", "Ignore"), at)
    yield from _of_key(constraint, at)
    yield from of_selector(constraint.get("labelSelector"), f"{at}.labelSelector")


def _of_key(holder: Body, at: str) -> Iterator[FieldError]:
    if holder.get("topologyKey") == "":
        yield FieldError(f"{at}.topologyKey", "is empty: write the label of nodes that names the domain")


def _of_requirement(requirement: Body, at: str, operators: tuple[str, ...]) -> Iterator[FieldError]:
    operator, values = text(requirement.get("operator")), requirement.get("values") or []
    if operator not in operators:
        message = f"{operator} is not known" if operator else "missing"
        yield FieldError(f"{at}.operator", f"{message}: write {_either(operators)}")
    elif operator in _WITH_VALUES and not values:
        yield FieldError(f"{at}.values", f"missing: operator {operator} compares with at least one")
    elif operator in _WITHOUT_VALUES and values:
        yield FieldError(f"{at}.values", f"operator {operator} takes none: leave them out, or write operator: In")
    elif operator in _COMPARING and not (isinstance(values, list) and len(values) == 1):
        yield FieldError(
            f"{at}.values", f'operator {operator} compares with one whole number: write ["8"], for example'
        )


def of_toleration(toleration: Body, at: str) -> Iterator[FieldError]:
    """Return the errors in a toleration of a pod or of a RuntimeClass; `at` is its place."""
    yield from _choice(toleration, "operator", ("Exists", "Equal", "Lt", "Gt"), at)
    yield from _choice(toleration, "effect", _EFFECTS, at)
    operator = text(toleration.get("operator"))
    if operator == "Exists" and toleration.get("value"):
        yield FieldError(f"{at}.value", "operator Exists takes none: leave it out, or write operator: Equal")
    if operator in _COMPARING and not _WHOLE.fullmatch(text(toleration.get("value"))):
        message = f'operator {operator} compares with one whole number: write "8", for example'
        yield FieldError(f"{at}.value", message)
    if not toleration.get("key") and operator != "Exists":
        yield FieldError(f"{at}.key", "missing: without a key the operator must be Exists, which tolerates every taint")


def _of_affinity(affinity: Body, at: str) -> Iterator[FieldError]:
    nodes = mapping(affinity.get("nodeAffinity"))
    required = nodes.get(_REQUIRED)
    if isinstance(required, dict):
        yield from _of_node_selector(required, f"{at}.nodeAffinity.{_REQUIRED}")
    for index, each in entries(nodes.get(_PREFERRED)):
        field = f"{at}.nodeAffinity.{_PREFERRED}[{index}]"
        yield from _of_weight(each, field)
        yield from _of_node_term(mapping(each.get("preference")), f"{field}.preference")
    for name in ("podAffinity", "podAntiAffinity"):
        yield from _of_pod_affinity(mapping(affinity.get(name)), f"{at}.{name}")


def _of_node_selector(selector: Body, at: str) -> Iterator[FieldError]:
    if not selector.get("nodeSelectorTerms"):
        yield FieldError(f"{at}.nodeSelectorTerms", "missing: write at least one term")
    for index, each in entries(selector.get("nodeSelectorTerms")):
        yield from _of_node_term(each, f"{at}.nodeSelectorTerms[{index}]")


def _of_node_term(term: Body, at: str) -> Iterator[FieldError]:
    for index, each in entries(term.get("matchExpressions")):
        yield from _of_requirement(each, f"{at}.matchExpressions[{index}]", (*_OF_LABELS, *_COMPARING))
    for index, each in entries(term.get("matchFields")):
        field = f"{at}.matchFields[{index}]"
        if each.get("key") != "metadata.name":
            yield FieldError(f"{field}.key", "the only field of nodes that can be asked for is metadata.name")
        yield from _of_requirement(each, field, ("In", "NotIn"))


def _of_pod_affinity(affinity: Body, at: str) -> Iterator[FieldError]:
    for index, each in entries(affinity.get(_REQUIRED)):
        yield from _of_term(each, f"{at}.{_REQUIRED}[{index}]")
    for index, each in entries(affinity.get(_PREFERRED)):
        field = f"{at}.{_PREFERRED}[{index}]"
        yield from _of_weight(each, field)
        yield from _of_term(mapping(each.get("podAffinityTerm")), f"{field}.podAffinityTerm")


def _of_term(term: Body, at: str) -> Iterator[FieldError]:
    yield from _of_key(term, at)
    for name in ("labelSelector", "namespaceSelector"):
        yield from of_selector(term.get(name), f"{at}.{name}")


def _of_weight(preference: Body, at: str) -> Iterator[FieldError]:
    weight = preference.get("weight")
    if _is_number(weight) and not 1 <= weight <= _LARGEST_WEIGHT:
        yield FieldError(f"{at}.weight", f"is {weight}: write 1 to {_LARGEST_WEIGHT}")


def _of_claims(pod: Body, at: str) -> Iterator[FieldError]:
    names: set[str] = set()
    for index, each in entries(pod.get("resourceClaims")):
        field, name = f"{at}.resourceClaims[{index}]", text(each.get("name"))
        sources = [key for key in ("resourceClaimName", "resourceClaimTemplateName") if each.get(key)]
        if not sources and not any(
            key.startswith("resourceClaim") for key in each
        ):  # misspelt fields are reported elsewhere
            yield FieldError(field, "names no claim: write resourceClaimTemplateName: …, or resourceClaimName: …")
        if len(sources) > 1:
            yield FieldError(
                field, "resourceClaimName and resourceClaimTemplateName exclude each other: keep one of them"
            )
        if name in names:
            yield FieldError(f"{field}.name", f"{name} stands twice: write another name")
        names.add(name)
    for kind in ("initContainers", "containers"):
        for index, container in entries(pod.get(kind)):
            yield from _of_uses(container, names, f"{at}.{kind}[{index}]")


def _of_uses(container: Body, names: set[str], at: str) -> Iterator[FieldError]:
    for index, each in entries(mapping(container.get("resources")).get("claims")):
        name = text(each.get("name"))
        if name not in names:
            known = ", ".join(sorted(names)) or "it has none"
            message = f"{name} is no entry of the pod's resourceClaims ({known})"
            yield FieldError(f"{at}.resources.claims[{index}].name", message)


def _of_container(container: Body, at: str) -> Iterator[FieldError]:
    for index, port in entries(container.get("ports")):
        yield from _choice(port, "protocol", ("TCP", "UDP", "SCTP"), f"{at}.ports[{index}]")
        number = port.get("hostPort")
        if _is_number(number) and not 0 <= number <= _LARGEST_PORT:
            yield FieldError(f"{at}.ports[{index}].hostPort", f"is {number}: write 1 to {_LARGEST_PORT}")
    for name in ("requests", "limits"):
        yield from _of_amounts(mapping(mapping(container.get("resources")).get(name)), f"{at}.resources.{name}")


def _of_amounts(amounts: Body, at: str) -> Iterator[FieldError]:
    for name, amount in amounts.items():
        if str(amount).startswith("-"):
            yield FieldError(f"{at}[{name}]", f"is {amount}: write 0 or more")


_MODES: Final = ("ReadWriteOnce", "ReadOnlyMany", "ReadWriteMany", READ_WRITE_ONCE_POD)
_KINDS: Final = ("Filesystem", "Block")


def of_claim_spec(claim: Body, at: str) -> Iterator[FieldError]:
    """Return the errors in the spec of a PersistentVolumeClaim; `at` is its path."""
    requests = mapping(mapping(claim.get("resources")).get("requests"))
    yield from _of_spec(claim, at, requests.get("storage"), f"{at}.resources.requests.storage")


def of_volume(body: Body) -> Iterator[FieldError]:
    """Return the errors in a PersistentVolume."""
    described = spec(body)
    yield from _of_spec(described, "spec", mapping(described.get("capacity")).get("storage"), "spec.capacity.storage")


def of_volumes(pod: Body, at: str) -> Iterator[FieldError]:
    """Return the errors in the claims that a pod's ephemeral volumes make."""
    for index, volume in entries(pod.get("volumes")):
        template = mapping(volume.get("ephemeral")).get("volumeClaimTemplate")
        if isinstance(template, dict):
            field = f"{at}.volumes[{index}].ephemeral.volumeClaimTemplate.spec"
            yield from of_claim_spec(mapping(template.get("spec")), field)


def of_workload(workload: Body) -> Iterator[FieldError]:
    """Return the errors in the claims that a StatefulSet makes."""
    for index, template in entries(workload.get("volumeClaimTemplates")):
        yield from of_claim_spec(spec(template), f"spec.volumeClaimTemplates[{index}].spec")


def _of_spec(described: Body, at: str, size: Any, size_at: str) -> Iterator[FieldError]:
    modes = described.get("accessModes")
    if not modes:
        yield FieldError(f"{at}.accessModes", f"missing: write at least one of {', '.join(_MODES)}")
    for index, mode in enumerate(modes if isinstance(modes, list) else ()):
        if mode not in _MODES:
            yield FieldError(f"{at}.accessModes[{index}]", f"is {mode!r}: write one of {', '.join(_MODES)}")
    if isinstance(modes, list) and READ_WRITE_ONCE_POD in modes and set(map(str, modes)) != {READ_WRITE_ONCE_POD}:
        yield FieldError(f"{at}.accessModes", f"{READ_WRITE_ONCE_POD} stands alone: leave out the others, or it")
    kind = described.get("volumeMode")
    if kind is not None and kind not in _KINDS:
        yield FieldError(f"{at}.volumeMode", f"is {kind!r}: write {' or '.join(_KINDS)}")
    yield from _of_size(size, size_at)


def _of_size(size: Any, at: str) -> Iterator[FieldError]:
    if size is None:
        yield FieldError(at, "missing: write a size, such as 10Gi")
        return
    try:
        is_positive = parse(str(size)).nano > 0
    except QuantityError as error:
        yield FieldError(at, str(error))
        return
    if not is_positive:
        yield FieldError(at, f"is {size}: write a size above 0, such as 10Gi")
