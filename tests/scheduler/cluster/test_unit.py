from scheduler.cluster import split_plan
from tests.support.builders import claim, claim_allocation, consumer, placement, plan, pod, result, unplaced

ALONE = claim_allocation(claim("alone"), result("gpu", "gpu-0", "n1"))
SHARED = claim_allocation(claim("shared"), result("gpu", "gpu-1", "n1"))
OTHER = claim_allocation(claim("other"), result("gpu", "gpu-2", "n1"))


def names(units: object) -> list[tuple[list[str], list[str]]]:
    return [
        ([each.pod.name for each in one.placements], [each.claim.name for each in one.allocations])
        for one in units  # type: ignore[attr-defined]  # a tuple of units
    ]


def test_each_pod_without_new_claims_is_a_unit_of_its_own() -> None:
    units = split_plan(plan(placement(pod("a"), "n1"), placement(pod("b"), "n1")))

    assert names(units) == [(["a"], []), (["b"], [])]


def test_pods_that_share_a_new_claim_are_one_unit() -> None:
    units = split_plan(plan(placement(pod("a", "shared"), "n1"), placement(pod("b", "shared"), "n1"), SHARED))

    assert names(units) == [(["a", "b"], ["shared"])]


def test_pods_that_share_a_claim_that_was_allocated_before_are_apart() -> None:
    units = split_plan(plan(placement(pod("a", "old"), "n1"), placement(pod("b", "old"), "n1")))

    assert names(units) == [(["a"], []), (["b"], [])]


def test_a_chain_of_shared_claims_is_one_unit() -> None:
    parts = [
        placement(pod("a", "shared"), "n1"),
        placement(pod("b", "other"), "n1"),
        placement(pod("c", "shared", "other"), "n1"),
    ]

    assert names(split_plan(plan(*parts, SHARED, OTHER))) == [(["a", "b", "c"], ["shared", "other"])]


def test_units_follow_the_batch() -> None:
    parts = [
        placement(pod("z", "shared"), "n1"),
        placement(pod("a", "alone"), "n1"),
        placement(pod("b", "shared"), "n1"),
    ]

    assert names(split_plan(plan(*parts, ALONE, SHARED))) == [(["z", "b"], ["shared"]), (["a"], ["alone"])]


def test_an_allocation_that_no_pod_reserves_is_in_no_unit() -> None:
    assert names(split_plan(plan(placement(pod("a"), "n1"), ALONE))) == [(["a"], [])]


def test_pods_that_stay_are_in_no_unit() -> None:
    assert split_plan(plan(unplaced(pod("a")))) == ()


def test_a_unit_reserves_a_claim_for_each_pod_that_uses_it() -> None:
    parts = [placement(pod("a", "shared", "old"), "n1"), placement(pod("b", "shared"), "n1")]
    (unit,) = split_plan(plan(*parts, SHARED))

    assert unit.reservations() == {
        claim("shared").id: (consumer("a"), consumer("b")),
        claim("old").id: (consumer("a"),),
    }
    assert unit.claims == (claim("shared").id, claim("old").id)
    assert unit.reservations()[claim("old").id] == (consumer("a"),)
    assert claim("unknown").id not in unit.reservations()
