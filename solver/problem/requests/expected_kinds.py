"""Kinds of pods that a policy expects (`Policy.expected`), in the components of a batch."""

from collections.abc import Callable, Iterator, Mapping
from typing import Final, NamedTuple

from solver.arrays import MOST
from solver.domain import Claim, ClaimId, DeviceClass, ExpectedPod, SubRequest
from solver.feasibility import claims as claim_rules
from solver.problem.requests.component import Component, components_of

_TOO_MUCH: Final = MOST + 1
"""More of a resource than any node has."""


class ExpectedKind(NamedTuple):
    """
    Pods that are likely to come: the resources of one, and its components with copies.

    `worth` is that of room for one: its share times the devices that it asks for.
    """

    worth: int
    requests: tuple[tuple[str, int], ...]
    components: tuple[tuple[int, int], ...]


def kinds(
    expected: tuple[ExpectedPod, ...],
    classes: Mapping[str, DeviceClass],
    demand_of: Callable[[SubRequest], int],
    intern: Callable[[Component], int],
) -> Iterator[ExpectedKind]:
    """Yield the kinds that a claim could ask for: their device classes exist, their selectors compile."""
    for each in expected:
        wrong = claim_rules.spec_objections("", each.device_requests, classes, each.constraints)
        if each.share <= 0 or not each.device_requests or wrong:
            continue
        claim = Claim(id=ClaimId("", ""), uid="", requests=each.device_requests, constraints=each.constraints)
        copies: dict[int, int] = {}
        for found in components_of(claim, demand_of):
            number = intern(found.component)
            copies[number] = copies.get(number, 0) + 1
        requests = tuple((resource, min(amount, _TOO_MUCH)) for resource, amount in each.requests if amount > 0)
        devices = sum(request.alternatives[0].count for request in each.device_requests)
        yield ExpectedKind(each.share * devices, requests, tuple(copies.items()))
