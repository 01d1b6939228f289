"""Kinds of pods that a policy expects (`Policy.expected`), in the components of a batch."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from msgspec import structs

from solver.arrays import MOST
from solver.domain import EXPECTED_ROOM, Claim, ClaimId, DeviceClass, ExpectedPod, Policy, PreemptionRules, SubRequest
from solver.feasibility import claims as claim_rules
from solver.problem.requests import demand
from solver.problem.requests.component import Component, components_of
from solver.problem.requests.demand import DemandKey

_TOO_MUCH: Final = MOST + 1
"""More of a resource than any node has."""
_MOST_KEPT: Final = 8
"""Policies: one for each profile."""


class ExpectedKind(NamedTuple):
    """
    Pods that are likely to come: the resources of one, and its components with copies.

    `devices` is its share times the devices that it asks for.
    """

    devices: int
    requests: tuple[tuple[str, int], ...]
    components: tuple[tuple[int, int], ...]


class ExpectedKinds(NamedTuple):
    """Kinds, with the demands and components that they name by number. All batches number these first."""

    kinds: tuple[ExpectedKind, ...] = ()
    demands: tuple[DemandKey, ...] = ()
    components: tuple[Component, ...] = ()


@dataclass(slots=True, eq=False)
class ExpectedKindsCache:
    """The kinds of the last policies: each batch needs them, and they change with policies and device classes only."""

    _known: list[tuple[Policy, tuple[DeviceClass, ...], ExpectedKinds]] = field(default_factory=list)

    def of(self, policy: Policy, classes: tuple[DeviceClass, ...]) -> ExpectedKinds:
        """Return the kinds that a policy expects; none where it does not look at their room."""
        if not policy.expected or EXPECTED_ROOM not in policy.levels:
            return ExpectedKinds()
        policy = structs.replace(policy, preemption=PreemptionRules())  # which say the time
        for known in self._known:
            if known[0] == policy and known[1] == classes:
                return known[2]
        found = _described(policy, {each.name: each for each in classes})
        self._known = [*self._known[-_MOST_KEPT + 1 :], (policy, classes, found)]
        return found


def _described(policy: Policy, classes: Mapping[str, DeviceClass]) -> ExpectedKinds:
    demands, components = dict[DemandKey, int](), dict[Component, int]()

    def demand_of(alternative: SubRequest) -> int:
        return demands.setdefault(demand.key_of(alternative, classes, policy), len(demands))

    def intern(component: Component) -> int:
        return components.setdefault(component, len(components))

    found = tuple(_kinds(policy.expected, classes, demand_of, intern))
    return ExpectedKinds(found, tuple(demands), tuple(components))


def _kinds(
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
        devices = max(1, sum(request.alternatives[0].count for request in each.device_requests))  # 0 of all devices
        yield ExpectedKind(each.share * devices, requests, tuple(copies.items()))
