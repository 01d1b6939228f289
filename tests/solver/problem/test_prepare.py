"""Which pods are one class, which claims are shared, and what the batch demands of devices."""

from solver.domain import ClaimId, Pod
from solver.problem.problem import Part, Problem
from tests.support import builders as b
from tests.support import solver_problems as s

ROOT = "x.io/root"


def problem(*objects: s.Objects, pods: list[Pod]) -> Problem:
    return s.problem(b.node("n1"), b.gpu_class(), *objects, pods=pods)


def sizes(found: Problem) -> list[int]:
    return [each.size for each in found.classes]


def claims(number: int) -> list[b.SnapshotObject]:
    return [b.claim(f"c{index}", b.request()) for index in range(number)]


def test_pods_of_one_template_are_one_class() -> None:
    pods = [b.pod(f"p{index}", f"c{index}") for index in range(4)]
    assert sizes(problem(claims(4), pods=pods)) == [4]


def test_members_stand_in_the_order_of_the_batch() -> None:
    pods = [b.pod(name) for name in "zay"]
    assert problem(pods=pods).classes[0].members == (0, 1, 2)


def test_priority_resources_and_node_demands_tell_pods_apart() -> None:
    pods = [b.pod("a"), b.pod("b", priority=1), b.pod("c", cpu=1), b.pod("d", node_selector={"x": "y"})]
    assert sizes(problem(pods=pods)) == [1, 1, 1, 1]


def test_names_and_labels_do_not() -> None:
    assert sizes(problem(pods=[b.pod("a", labels={"x": "y"}), b.pod("b")])) == [2]


def test_equal_requests_of_a_pod_are_copies_of_one_part() -> None:
    claim = b.claim("c", b.request("r"), b.request("t"), b.request("u", count=2))
    assert problem(claim, pods=[b.pod("p", "c")]).classes[0].parts == (Part(0, 2), Part(1, 1))


def test_equal_claims_of_a_pod_are_copies_too() -> None:
    assert problem(claims(3), pods=[b.pod("p", "c0", "c1", "c2")]).classes[0].parts == (Part(0, 3),)


def test_parts_that_need_identity_are_not_counted_together() -> None:
    made = [b.claim(name, b.request(count=2), constraints=(b.distinct(ROOT),)) for name in "cd"]
    assert problem(made, pods=[b.pod("p", "c", "d")]).classes[0].parts == (Part(0, 1), Part(0, 1))


def test_pods_that_need_identity_are_classes_of_their_own() -> None:
    made = [b.claim(name, b.request(count=2), constraints=(b.distinct(ROOT),)) for name in "cd"]
    assert sizes(problem(made, pods=[b.pod("p", "c"), b.pod("q", "d")])) == [1, 1]


def test_a_claim_of_several_pods_is_shared() -> None:
    found = problem(claims(1), pods=[b.pod("p", "c0"), b.pod("q", "c0")])
    assert ([each.claim.id.name for each in found.shared], found.classes[0].shared, sizes(found)) == (["c0"], (0,), [2])


def test_a_claim_of_one_pod_is_not_shared() -> None:
    assert problem(claims(1), pods=[b.pod("p", b.entry("c0", name="a"), b.entry("c0", name="b"))]).shared == []


def test_a_pod_that_is_refused_shares_nothing() -> None:
    found = problem(claims(1), pods=[b.pod("p", "c0"), b.pod("q", "c0", "absent")])
    assert (found.shared, list(found.rejected)) == ([], [1])


def test_an_allocated_claim_is_not_shared() -> None:
    given = b.claim("c", allocation=b.allocation())
    assert problem(given, pods=[b.pod("p", "c"), b.pod("q", "c")]).shared == []


def test_claims_of_one_name_in_two_namespaces_are_two() -> None:
    made = [b.claim("c"), b.claim("c", namespace="other")]
    found = problem(made, pods=[b.pod("p", "c"), b.pod("q", "c", namespace="other")])
    assert (found.shared, ClaimId("other", "c") in found.requests.claims) == ([], True)


def test_requests_that_ask_the_same_are_one_demand() -> None:
    claim = b.claim("c", b.request("r"), b.request("t", count=3), b.request("u", selectors=("true",)))
    assert len(problem(claim, pods=[b.pod("p", "c")]).requests.demands) == 2


def test_only_claims_of_the_batch_are_demanded() -> None:
    assert (
        problem(claims(3), pods=[b.pod("p", "c0")]).requests.components
        == problem(claims(1), pods=[b.pod("p", "c0")]).requests.components
    )


def test_tiers_are_the_priorities_highest_first() -> None:
    pods = [b.pod(f"p{priority}", priority=priority) for priority in (0, 1000, -5)]
    tiers = sorted({each.tier for each in problem(pods=pods).classes}, reverse=True)
    assert tiers == [(1000, False), (0, False), (-5, False)]
