"""
The closed list of where we answer otherwise than the real allocator, each with its reason.

Where it gives an allocation that our checker refuses, the rule that is broken names the difference. Where it gives
none and we do, either its error says which, or it is asked once more with what trips it taken out of the way: if it
then finds an allocation too, that was the reason.
"""

from collections.abc import Callable, Iterator
from copy import deepcopy
from enum import StrEnum
from itertools import combinations
from typing import Final

from solver.domain import Violation
from solver.verify import Rule
from tests.support.allocation_cases import Case, Json
from tests.support.allocation_oracle import Allocator, Answer


class Difference(StrEnum):
    """What makes the two answers differ; the real allocator's behaviour comes first."""

    SELECTOR_ERROR = "selector error"
    """An error of a selector on one device ends the attempt; here it makes that device unselectable."""
    ALL_IN_FLUX = "All while a pool is in flux"
    """All is refused for any pool in its view that is not whole, also one that cannot have devices on the node."""
    ALL_CONSTRAINT = "All under a constraint"
    """A device of All that breaks a constraint ends the attempt, also where an alternative is left."""
    SELECTOR_TERMS = "node selector of several terms"
    """A device with such a node selector ends the attempt; here the terms are multiplied out."""
    ADMIN_CHARGED = "admin access charged"
    """Admin access takes counters and capacity, and keeps later requests of the pod from the device."""
    CAPACITY_NAMES = "qualified capacity names"
    """A requested name has to be written as the device writes it, with or without its driver as the domain."""
    CLAIM_ORDER = "order of claims"
    """The claim that comes first decides what later ones find, also where another choice would serve both."""
    NEWER_ELSEWHERE = "newer generation elsewhere"
    """An old generation that is whole on the node is used although the pool has a newer one on another node."""
    NAME_TWICE_ELSEWHERE = "device name twice elsewhere"
    """A pool that names a device twice is refused only where both can be used; here nowhere is it trusted."""
    SHARE_OVERLAPS = "shared before, exclusive now"
    """A device that is not shareable any more is given whole although shares of it are held."""


_BY_ERROR: Final = (
    ("CEL runtime error", Difference.SELECTOR_ERROR),
    ("asks for all devices, but resource pool", Difference.ALL_IN_FLUX),
    ("because a claim constraint would not be satisfied", Difference.ALL_CONSTRAINT),
    ("unsupported ResourceSlice.NodeSelector with", Difference.SELECTOR_TERMS),
)


def of_refusal(allocator: Allocator, case: Case, answer: Answer) -> frozenset[Difference]:
    """Say why it refuses what we place; empty when nothing on the list explains it."""
    if answer.is_error:
        return _of_error(answer)
    for count in range(1, len(_REPAIRS) + 1):
        for repairs in combinations(_REPAIRS, count):
            repaired = deepcopy(case)
            for repair in repairs:
                repaired = _REPAIRS[repair](repaired)
            again = allocator.ask(repaired)
            if repaired != case and (again.allocations is not None or _of_error(again)):
                return frozenset(repairs) | _of_error(again)
    return frozenset()


def _of_error(answer: Answer) -> frozenset[Difference]:
    return frozenset(difference for text, difference in _BY_ERROR if answer.is_error and text in answer.reason)


def of_allocation(allocator: Allocator, case: Case, violations: tuple[Violation, ...]) -> frozenset[Difference] | None:
    """Say why it gives what our checker refuses; None when nothing on the list explains one of the violations."""
    found: set[Difference] = set()
    for rule in {Rule(each.rule) for each in violations}:
        reasons = {difference for difference, holds in _BY_RULE.get(rule, ()) if holds(allocator, case)}
        if not reasons:
            return None
        found |= reasons
    return frozenset(found)


# What would have to be otherwise for it to agree


def _renamed(spec: Json, published: Json, path: tuple[str, str]) -> Json:
    spec[path[0]][path[1]] = f"{spec[path[0]][path[1]]}-{spec['driver']}"
    return published


def _without_admin(case: Case) -> Case:
    claims = []
    for claim in case.claims:
        devices = claim["spec"]["devices"]
        kept = [each for each in devices["requests"] if not each.get("exactly", {}).get("adminAccess")]
        if kept or "status" in claim:
            names = {each["name"] for each in devices["requests"]} - {each["name"] for each in kept}
            devices["requests"] = kept or devices["requests"]
            devices["constraints"] = [
                each for each in devices.get("constraints", ()) if not names & set(each.get("requests", ()))
            ]
            claims.append(claim)
    return case._replace(claims=tuple(claims))


def _with_plain_capacity_names(case: Case) -> Case:
    for claim in case.wanted:
        for each in _asked(claim):
            amounts = each.get("capacity", {}).get("requests", {})
            for name in list(amounts):
                amounts[name.rpartition("/")[2]] = amounts.pop(name)
    return case


def _with_claims_reversed(case: Case) -> Case:
    return case._replace(claims=tuple(reversed(case.claims)))


_REPAIRS: Final[dict[Difference, Callable[[Case], Case]]] = {
    Difference.CAPACITY_NAMES: _with_plain_capacity_names,
    Difference.CLAIM_ORDER: _with_claims_reversed,
    Difference.ADMIN_CHARGED: _without_admin,
}


# What has to be there for it to err


def _has_newer_elsewhere(_: Allocator, case: Case) -> bool:
    pools = [(each["spec"]["driver"], each["spec"]["pool"]) for each in case.slices]
    generations: dict[tuple[str, str], set[int]] = {}
    for driver, pool in pools:
        generations.setdefault((driver, pool["name"]), set()).add(pool["generation"])
    return any(len(each) > 1 for each in generations.values())


def _names_device_twice(_: Allocator, case: Case) -> bool:
    names = [
        (each["spec"]["driver"], each["spec"]["pool"]["name"], device["name"])
        for each in case.slices
        for device in each["spec"].get("devices", ())
    ]
    return len(set(names)) < len(names)


def _asked(claim: Json) -> Iterator[Json]:
    for request in claim["spec"]["devices"]["requests"]:
        yield from request.get("firstAvailable", ()) or (request["exactly"],)


def _has_share_of_exclusive(_: Allocator, case: Case) -> bool:
    exclusive = {
        (each["spec"]["driver"], each["spec"]["pool"]["name"], device["name"])
        for each in case.slices
        for device in each["spec"].get("devices", ())
        if not device.get("allowMultipleAllocations")
    }
    return any(
        (result["driver"], result["pool"], result["device"]) in exclusive and "shareID" in result
        for claim in case.claims
        for result in claim.get("status", {}).get("allocation", {}).get("devices", {}).get("results", ())
    )


_Holds = Callable[[Allocator, Case], bool]
_BY_RULE: Final[dict[Rule, tuple[tuple[Difference, _Holds], ...]]] = {
    Rule.DEVICE_UNKNOWN: ((Difference.NEWER_ELSEWHERE, _has_newer_elsewhere),),
    Rule.DEVICE_POOL: ((Difference.NAME_TWICE_ELSEWHERE, _names_device_twice),),
    Rule.DEVICE_SCOPE: ((Difference.NAME_TWICE_ELSEWHERE, _names_device_twice),),
    Rule.ALLOCATION_NODES: ((Difference.NAME_TWICE_ELSEWHERE, _names_device_twice),),
    Rule.REQUEST_UNSETTLED: ((Difference.NAME_TWICE_ELSEWHERE, _names_device_twice),),
    Rule.DEVICE_TWICE: ((Difference.SHARE_OVERLAPS, _has_share_of_exclusive),),
    Rule.REQUEST_ALL: (
        (Difference.NEWER_ELSEWHERE, _has_newer_elsewhere),
        (Difference.NAME_TWICE_ELSEWHERE, _names_device_twice),
    ),
}
