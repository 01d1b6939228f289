"""Which pods cost the same to decide about."""

import pytest
from msgspec.structs import replace

from scheduler.queue import cost_key
from solver.domain import Claim, ClaimId, Pod, PodClaim
from tests.support.builders import allocation, claim, member, pod, request, result

ONE, TWO = claim("one"), claim("two")
LARGE = claim("large", request(count=2))
HELD = claim("one", allocation=allocation(result("gpu", "gpu-0", "n1")))


def kin(each: Pod, *claims: Claim) -> object:
    known: dict[ClaimId, Claim] = {found.id: found for found in claims}
    return cost_key(each, known.get)


def test_the_next_pod_of_a_controller_is_kin() -> None:
    assert kin(pod("a", "one", uid="1"), ONE) == kin(pod("b", "two", uid="2"), TWO)


@pytest.mark.parametrize(
    "other",
    [
        (pod("b", "large"), LARGE),
        (pod("b", "one"), HELD),
        (pod("b", "one", cpu=1), ONE),
        (pod("b", "one", node_selector={"a": "b"}), ONE),
        (pod("b", "one", "two"), ONE, TWO),
        (replace(pod("b", "one"), scheduler_name="other"), ONE),
    ],
    ids=["claim", "allocation", "requests", "nodes", "claims", "profile"],
)
def test_what_a_decision_looks_at_makes_another_kin(other: tuple[Pod, ...]) -> None:
    each, *claims = other
    assert kin(pod("a", "one"), ONE) != kin(each, *claims)  # type: ignore[arg-type]  # claims behind the pod


def test_another_namespace_is_no_kin() -> None:
    assert kin(pod("a", namespace="x")) != kin(pod("a", namespace="y"))


def test_pods_whose_claim_does_not_exist_yet_are_kin_by_its_template() -> None:
    first, second = (PodClaim(entry="gpu", template=name) for name in ("t", "u"))

    assert kin(pod("a", first)) == kin(pod("b", first))
    assert kin(pod("a", first)) != kin(pod("b", second))


def test_the_pods_of_a_gang_are_kin_whatever_they_ask_for() -> None:
    assert kin(member(pod("a", cpu=1), "g")) == kin(member(pod("b", cpu=2), "g"))
    assert kin(member(pod("a"), "g")) != kin(member(pod("a"), "h"))
