"""Rules of LimitRanges, ResourceQuotas, RuntimeClasses and storage capacities, as the API server has them."""

from collections.abc import Iterator, Mapping
from typing import Final

from scheduler.simulation.manifests import formats, pod_rules, resource_rules
from scheduler.simulation.manifests.fields import Body, FieldError, entries, mapping, text, texts
from scheduler.simulation.manifests.resource_rules import read_amounts
from solver.domain.quantity import NANO, Quantity

_HUGE: Final = "hugepages-"
_COUNTED: Final = frozenset(
    {
        *("pods", "services", "secrets", "configmaps", "persistentvolumeclaims", "replicationcontrollers"),
        *("resourcequotas", "services.nodeports", "services.loadbalancers"),
    }
)
_COMPUTE: Final = frozenset(
    f"{prefix}{name}" for prefix in ("", "requests.", "limits.") for name in ("cpu", "memory", "ephemeral-storage")
)
_OF_QUOTAS: Final = _COUNTED | _COMPUTE | {"requests.storage"}
_OF_PODS: Final = _COMPUTE - {f"{prefix}ephemeral-storage" for prefix in ("", "requests.", "limits.")} | {"pods"}
_SCOPED: Final[Mapping[str, frozenset[str]]] = {
    **dict.fromkeys(
        ("Terminating", "NotTerminating", "NotBestEffort", "PriorityClass", "CrossNamespacePodAffinity"), _OF_PODS
    ),
    "BestEffort": frozenset({"pods"}),
    "VolumeAttributesClass": frozenset({"persistentvolumeclaims", "requests.storage"}),
}
"""The resources of Kubernetes' own that a quota with a scope may limit."""
_WITHOUT_VALUES: Final = frozenset(_SCOPED) - {"PriorityClass", "VolumeAttributesClass"}
_OPPOSITES: Final = ({"BestEffort", "NotBestEffort"}, {"Terminating", "NotTerminating"})
_TYPES: Final = ("Pod", "Container", "PersistentVolumeClaim")
_AMOUNTS: Final = ("max", "min", "default", "defaultRequest", "maxLimitRequestRatio")


def of_limits(limit_range: Body) -> Iterator[FieldError]:
    """Return the errors in the spec of a LimitRange."""
    types: set[str] = set()
    for index, item in entries(limit_range.get("limits")):
        at, kind = f"limits[{index}]", str(item.get("type") or "")
        if kind in types:
            yield FieldError(f"{at}.type", f"{kind} stands twice: write one entry for each type")
        types.add(kind)
        if kind not in _TYPES and ("/" not in kind or formats.label_key(kind)):
            yield FieldError(f"{at}.type", f"{kind!r}: write {', '.join(_TYPES)}, or a type with a domain")
        yield from (FieldError(f"{at}.{field}", message) for field, message in _limit(item, kind))


def _limit(item: Body, kind: str) -> Iterator[FieldError]:
    amounts = {name: read_amounts(mapping(item.get(name))) for name in _AMOUNTS}
    for name in ("default", "defaultRequest") if kind == "Pod" else ():
        if amounts.pop(name):
            yield FieldError(name, "goes with type Container only: leave it out")
    for name, found in amounts.items():
        for resource in found:
            is_named = resource_rules.of_name if kind in {"Pod", "Container"} else _of_any
            if wrong := is_named(resource):
                yield FieldError(f"{name}[{resource}]", wrong)
    if kind == "PersistentVolumeClaim" and "storage" not in {*amounts["min"], *amounts["max"]}:
        yield FieldError("", "says nothing of storage: write min or max of it")
    if kind == "Container":  # as the API server fills them in, before it compares
        amounts["default"] = amounts["max"] | amounts["default"]
        amounts["defaultRequest"] = amounts["min"] | amounts["default"] | amounts["defaultRequest"]
    for resource in dict.fromkeys(each for found in amounts.values() for each in found):
        yield from _ordered(resource, {name: found[resource] for name, found in amounts.items() if resource in found})


def _ordered(resource: str, amounts: Mapping[str, Quantity]) -> Iterator[FieldError]:
    """Return the amounts of one resource that are not min ≤ defaultRequest ≤ default ≤ max, and ratios they exclude."""
    order = [name for name in ("min", "defaultRequest", "default", "max") if name in amounts]
    for place, low in enumerate(order):
        for high in order[place + 1 :]:
            if amounts[low].nano > amounts[high].nano:
                message = f"is {amounts[low]}, above {high}, which is {amounts[high]}: write at most that"
                yield FieldError(f"{low}[{resource}]", message)
    ratio = amounts.get("maxLimitRequestRatio")
    if ratio is not None and ratio.nano < NANO:
        yield FieldError(f"maxLimitRequestRatio[{resource}]", f"is {ratio}: write 1 or more")
    least, most = amounts.get("min"), amounts.get("max")
    if ratio is not None and least is not None and most is not None and ratio.nano * least.nano > most.nano * NANO:
        yield FieldError(f"maxLimitRequestRatio[{resource}]", f"is {ratio}, above max divided by min")
    limit, request = amounts.get("default"), amounts.get("defaultRequest")
    is_unequal = limit is not None and request is not None and limit.nano != request.nano
    if is_unequal and not formats.is_overcommitted(resource):
        yield FieldError(f"defaultRequest[{resource}]", f"is {request}, and default is {limit}: both must be equal")


def _of_any(name: str) -> str:
    if wrong := formats.label_key(name):
        return wrong
    is_known = "/" in name or name in _OF_QUOTAS or name == "storage" or name.startswith(f"requests.{_HUGE}")
    return "" if is_known else "is no resource of Kubernetes: write storage, cpu, …, or a name with a domain"


def of_quota(quota: Body) -> Iterator[FieldError]:
    """Return the errors in the spec of a ResourceQuota."""
    hard = read_amounts(mapping(quota.get("hard")))
    for resource, amount in hard.items():
        if wrong := _of_hard(resource, amount):
            yield FieldError(f"hard[{resource}]", wrong)
    scopes = texts(quota.get("scopes"))
    yield from _of_scopes(scopes, hard, "scopes")
    selected = list(entries(mapping(quota.get("scopeSelector")).get("matchExpressions")))
    for index, requirement in selected:
        yield from _of_requirement(requirement, f"scopeSelector.matchExpressions[{index}]")
    names = [str(requirement.get("scopeName") or "") for _, requirement in selected]
    yield from _of_scopes(names, hard, "scopeSelector.matchExpressions")


def _of_hard(resource: str, amount: Quantity) -> str:
    if wrong := formats.label_key(resource):
        return wrong
    if "/" not in resource and resource not in _OF_QUOTAS and not resource.startswith((_HUGE, f"requests.{_HUGE}")):
        return "is no resource of Kubernetes: write pods, requests.cpu, …, or a name with a domain"
    if amount.nano < 0:
        return f"is {amount}: write 0 or more"
    is_whole = resource in _COUNTED or formats.is_extended(resource)
    return f"is {amount}: write a whole number" if is_whole and amount.nano % NANO else ""


def _of_scopes(scopes: list[str], hard: Mapping[str, Quantity], field: str) -> Iterator[FieldError]:
    for scope in dict.fromkeys(scopes):
        if scope not in _SCOPED:
            yield FieldError(field, f"{scope!r}: write {', '.join(_SCOPED)}")
            continue
        others = [each for each in hard if each in _OF_QUOTAS and each not in _SCOPED[scope]]
        if others:
            yield FieldError(field, f"{scope} does not go with hard[{others[0]}]: write a quota without it for that")
    for pair in _OPPOSITES:
        if pair <= set(scopes):
            yield FieldError(field, f"{' and '.join(sorted(pair))} exclude each other: keep one of them")


def _of_requirement(requirement: Body, at: str) -> Iterator[FieldError]:
    scope, operator = (text(requirement.get(name)) for name in ("scopeName", "operator"))
    values = requirement.get("values")
    if scope in _WITHOUT_VALUES and operator != "Exists":
        yield FieldError(f"{at}.operator", f"{scope} takes Exists only: write it")
    elif operator in {"In", "NotIn"}:
        if not values:
            yield FieldError(f"{at}.values", f"missing: operator {operator} compares with at least one")
    elif operator not in {"Exists", "DoesNotExist"}:
        yield FieldError(f"{at}.operator", "write In, NotIn, Exists or DoesNotExist")
    elif values:
        yield FieldError(f"{at}.values", f"operator {operator} takes none: leave them out")


def of_overhead(overhead: Body) -> Iterator[FieldError]:
    """Return the errors in the overhead of a RuntimeClass: amounts as a container's limits are."""
    limits = mapping(overhead.get("podFixed"))
    for field, message in resource_rules.of_container({"limits": limits}):
        yield FieldError(field.replace("limits", "podFixed", 1), message)


def of_capacity(capacity: Body) -> Iterator[FieldError]:
    """Return the errors in a CSIStorageCapacity that its fields alone do not show."""
    amount = read_amounts({"capacity": capacity.get("capacity")}).get("capacity")
    if amount is not None and amount.nano < 0:
        yield FieldError("capacity", f"is {amount}: write 0 or more")


def of_scheduling(scheduling: Body) -> Iterator[FieldError]:
    """Return the errors in the scheduling of a RuntimeClass that its fields alone do not show."""
    for index, toleration in entries(scheduling.get("tolerations")):
        yield from pod_rules.of_toleration(toleration, f"tolerations[{index}]")
        if wrong := formats.label_value(toleration.get("value")):
            yield FieldError(f"tolerations[{index}].value", wrong)
        if toleration.get("operator") in ("Lt", "Gt"):
            yield FieldError(f"tolerations[{index}].operator", "a RuntimeClass has only Exists and Equal: write one")
    fields = ("key", "operator", "value", "effect")
    if wrong := formats.unique(*fields)(scheduling.get("tolerations")):
        yield FieldError("tolerations", wrong)
