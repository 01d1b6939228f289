"""
Defaults and bounds of LimitRanges, as the admission plugin LimitRanger applies them.

Of a container's item, `default` comes from `max`, and `defaultRequest` from `default` and `min`, where they are not
written (SetDefaults_LimitRangeItem).
"""

import operator
from collections.abc import Callable, Iterable, Iterator
from typing import Final, NamedTuple

from scheduler.kube.decode.pod_requests import Amounts
from scheduler.simulation.admission.pod_totals import Which, containers, read_amounts, summed
from scheduler.simulation.manifests.fields import Body, FieldError, entries, mapping, metadata, spec, text
from solver.domain.quantity import plain

_CONTAINER: Final = "Container"


class Bounded(NamedTuple):
    """What an item bounds: a container, the sum of a pod, or a volume claim; `at` is the path of its resources."""

    what: str
    at: str
    requests: Amounts
    limits: Amounts


def fill(pod: Body, limit_ranges: Iterable[Body]) -> None:
    """Set requests and limits that the containers of a pod lack."""
    for limit_range in limit_ranges:
        for _, item in entries(spec(limit_range).get("limits")):
            if item.get("type") != _CONTAINER:
                continue
            limits = {**mapping(item.get("max")), **mapping(item.get("default"))}
            requests = {**mapping(item.get("min")), **limits, **mapping(item.get("defaultRequest"))}
            for part in containers(pod):
                _fill(part.body, {"limits": limits, "requests": requests})


def _fill(container: Body, defaults: dict[str, Body]) -> None:
    resources = container.setdefault("resources", {})
    for which, found in defaults.items():
        if found and isinstance(resources, dict) and isinstance(resources.setdefault(which, {}), dict):
            for name, quantity in found.items():
                resources[which].setdefault(name, str(quantity))


def of_pod(pod: Body, limit_ranges: Iterable[Body]) -> Iterator[FieldError]:
    """Return the bounds that a pod breaks."""
    parts = [
        Bounded("a container", f"{part.at}.resources", part.amounts("requests"), part.amounts("limits"))
        for part in containers(pod)
    ]
    sums = (summed(pod, which, with_overhead=False) for which in ("requests", "limits"))
    whole = Bounded("a pod", "spec.resources", *sums)
    yield from _errors(limit_ranges, {_CONTAINER: parts, "Pod": [whole]})


def of_volume_claim(claim: Body, limit_ranges: Iterable[Body]) -> Iterator[FieldError]:
    """Return the bounds that a PersistentVolumeClaim breaks; only its requests count."""
    requests = read_amounts(mapping(spec(claim).get("resources")).get("requests"))
    bounded = Bounded("a volume claim", "spec.resources", requests, requests)
    yield from _errors(limit_ranges, {"PersistentVolumeClaim": [bounded]})


def _errors(limit_ranges: Iterable[Body], bounded: dict[str, list[Bounded]]) -> Iterator[FieldError]:
    for limit_range in limit_ranges:
        name = f"LimitRange {metadata(limit_range).get('name')}"
        for _, item in entries(spec(limit_range).get("limits")):
            for each in bounded.get(text(item.get("type")), ()):
                least, most = mapping(item.get("min")), mapping(item.get("max"))
                yield from _out_of_bounds(each, least, "requests", f"{name} wants at least", operator.lt)
                yield from _out_of_bounds(each, most, "limits", f"{name} allows at most", operator.gt)
                yield from _above_ratio(each, mapping(item.get("maxLimitRequestRatio")), name)


def _out_of_bounds(
    each: Bounded, bounds: Body, named: Which, wanted: str, is_broken: Callable[[int, int], bool]
) -> Iterator[FieldError]:
    """Return the amounts that break a bound, and those that must be named because of one."""
    amounts = {"requests": each.requests, "limits": each.limits}
    for resource, bound in read_amounts(bounds).items():
        instead = f"{wanted} {bounds[resource]} for {each.what}"
        if resource not in amounts[named]:
            yield FieldError(f"{each.at}.{named}[{resource}]", f"missing: {instead}")
        for which, found in amounts.items():
            if resource in found and is_broken(found[resource], bound):
                message = f"{_amount(found[resource], bounds[resource])}: {instead}"
                yield FieldError(f"{each.at}.{which}[{resource}]", message)


def _above_ratio(each: Bounded, ratios: Body, name: str) -> Iterator[FieldError]:
    for resource, ratio in read_amounts(ratios).items():
        request, limit = each.requests.get(resource, 0), each.limits.get(resource, 0)
        wanted = f"{name} allows at most {ratios[resource]} times the request"
        if not request or not limit:
            missing = "requests" if not request else "limits"
            yield FieldError(f"{each.at}.{missing}[{resource}]", f"missing or 0: {wanted}")
        elif limit * 10**9 > ratio * request:
            yield FieldError(f"{each.at}.limits[{resource}]", f"is too large: {wanted}")


def _amount(nano: int, like: object) -> str:
    return f"is {plain(nano, like=str(like)[-2:])}"
