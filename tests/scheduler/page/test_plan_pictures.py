"""RepairPlans of the map: who has which devices after them, and who may see that."""

from msgspec.structs import replace

from scheduler.kube.repair_plans import MoveState, PlanMetadata, PlanState, PlanStatus, RepairPlan, spec_of
from scheduler.page import plan_pictures
from scheduler.page.plan_pictures import Arrival
from scheduler.visibility import VisibleNamespaces
from solver.domain import ClaimAllocation, ClaimId, Move, Placement, PodId, Relocation, RepairGoal
from tests.support import builders as b
from tests.support.repair_objects import evicted

ALL = VisibleNamespaces(everything=True)


def plan() -> RepairPlan:
    """The pod `a` leaves n1, so that `large` of another namespace gets a place there."""
    old, new, wanted = ClaimId("team", "a-gpu"), b.result("gpu", "gpu-1", "n2"), ClaimId("ml", "large-gpus")
    found = Relocation(
        is_found=True,
        moves=(
            Move(
                pod=PodId("team", "a"),
                pod_uid="uid-a",
                source="n1",
                target="n2",
                step=1,
                allocations=((old, b.allocation(new)),),
            ),
        ),
        placements=(Placement(pod=PodId("ml", "large"), pod_uid="uid-large", node="n1", claims=(wanted,)),),
        allocations=(
            ClaimAllocation(claim=wanted, claim_uid="c", allocation=b.allocation(b.result("gpu", "gpu-0", "n1"))),
        ),
    )
    return RepairPlan(metadata=PlanMetadata(name="repair-1"), spec=spec_of(RepairGoal(), found, {}))


MOVES = Arrival(
    namespace="team", name="a", source="n1", node="n2", devices=(str(b.result("gpu", "gpu-1", "n2").device),)
)
COMES = Arrival(namespace="ml", name="large", node="n1", devices=(str(b.result("gpu", "gpu-0", "n1").device),))


def test_a_plan_shows_what_moves_and_who_comes() -> None:
    picture = plan_pictures.of_plan(plan())

    assert picture is not None
    assert (picture.name, picture.state) == ("repair-1", "Proposed")
    assert picture.arrivals == (MOVES, COMES)


def test_a_move_that_is_made_is_in_the_fleet_already_and_one_under_way_is_not() -> None:
    under_way = replace(plan(), status=PlanStatus(state=PlanState.RUNNING, moves=(evicted("a", 1),)))
    made = replace(plan(), status=PlanStatus(state=PlanState.RUNNING, moves=(evicted("a", 1, MoveState.MOVED),)))

    first, second = plan_pictures.of_plan(under_way), plan_pictures.of_plan(made)
    assert first is not None
    assert second is not None
    assert (first.arrivals, second.arrivals) == ((MOVES, COMES), (COMES,))


def test_a_plan_that_is_over_or_that_cannot_be_read_is_left_out() -> None:
    assert plan_pictures.of_plan(replace(plan(), status=PlanStatus(state=PlanState.DONE))) is None
    assert plan_pictures.of_plan(replace(plan(), spec=replace(plan().spec, plan="?"))) is None


def test_a_plan_is_seen_by_those_who_see_all_of_its_pods_and_claims() -> None:
    picture = plan_pictures.of_plan(plan())
    assert picture is not None

    def seen(claims: VisibleNamespaces, pods: VisibleNamespaces) -> int:
        return len(plan_pictures.seen_by((picture,), claims, pods))

    some, both = VisibleNamespaces(frozenset({"team"})), VisibleNamespaces(frozenset({"team", "ml"}))
    assert (seen(ALL, ALL), seen(both, both), seen(some, ALL), seen(ALL, some)) == (1, 1, 0, 0)
