"""Claims that are to be made for extended resources: what is believed of them, and what an earlier attempt left."""

import pytest
from msgspec.structs import replace

from scheduler.cluster import Cluster, Unit, split_plan
from solver import solve
from solver.domain import Budget, Claim, ClaimId, Placement, Plan, Policy
from tests.support import builders as b
from tests.support.cluster_builders import cluster_of, gone, seen
from tests.support.extended_builders import RESOURCE, container, gpu_class, pod

POD = pod("p", container(cpu=1000, gpu=1))
OBJECTS = (b.node("n"), b.gpu_slice("n", count=1), gpu_class())


def _plan() -> Plan:
    return solve(b.snapshot(*OBJECTS), b.batch(POD), Policy(), Budget(seconds=60.0))


UNIT = split_plan(_plan())[0]
STAND_IN = UNIT.stand_ins[0]


def _made(*, is_allocated: bool, name: str = "p-extended-resources-abcde") -> Claim:
    """The claim as the watch shows it once it was made."""
    special = UNIT.placements[0].extended_resource_claim
    assert special is not None
    return replace(
        special.as_claim(POD.uid),
        id=ClaimId(b.NAMESPACE, name),
        uid=f"uid-{name}",
        allocation=UNIT.allocations[0].allocation if is_allocated else None,
        reserved_for=(b.consumer("p"),) if is_allocated else (),
    )


def _written() -> Unit:
    """The unit as it is committed: with the name that the server gave."""
    made = _made(is_allocated=False)
    return Unit(
        placements=(replace(UNIT.placements[0], claims=(made.id,)),),
        allocations=(replace(UNIT.allocations[0], claim=made.id, claim_uid=made.uid),),
    )


def _holders(cluster: Cluster) -> list[str]:
    """Names of the claims that hold something in the cluster's snapshot."""
    return [each.id.name for each in cluster.snapshot().claims if each.allocation is not None]


@pytest.fixture
def assumed() -> Cluster:
    cluster = cluster_of(*OBJECTS, POD)
    cluster.assume(UNIT)
    return cluster


def test_a_unit_may_be_written_although_its_claim_is_not_there_and_its_node_lacks_the_resource() -> None:
    assert cluster_of(*OBJECTS, POD).check(UNIT) == ()


def test_its_own_assumption_does_not_keep_it_from_being_written(assumed: Cluster) -> None:
    assert assumed.check(UNIT) == ()
    assert assumed.compare_after_write(_written()) == ()


def test_its_devices_are_held_before_the_claim_is_there(assumed: Cluster) -> None:
    assert _holders(assumed) == [STAND_IN.name]


def test_a_replica_believes_the_same(assumed: Cluster) -> None:
    replica = cluster_of(*OBJECTS, POD)

    assert replica.snapshot(assumed.assumptions()) == assumed.snapshot()


def test_the_stand_in_stays_until_the_claim_is_seen_allocated(assumed: Cluster) -> None:
    assumed.apply(seen(_made(is_allocated=False)))

    assert _holders(assumed) == [STAND_IN.name]


def test_the_claim_takes_over_when_it_is_seen_allocated(assumed: Cluster) -> None:
    assumed.apply(seen(_made(is_allocated=True)))

    assert _holders(assumed) == ["p-extended-resources-abcde"]
    assert assumed.contested_devices() == ()
    assert assumed.compare_after_write(_written()) == ()


def test_a_claim_of_an_earlier_attempt_does_not_take_over(assumed: Cluster) -> None:
    old = _made(is_allocated=True, name="old")
    allocation = b.allocation(b.result("container-0-request-1", "gpu-9", "n"), node_name="n")
    assumed.apply(seen(replace(old, allocation=allocation)))

    assert STAND_IN.name in _holders(assumed)


def test_what_is_forgotten_is_free_again(assumed: Cluster) -> None:
    transitions = assumed.forget(UNIT)

    assert _holders(assumed) == []
    assert str(STAND_IN) in {each.key for each in transitions}


def test_it_is_forgotten_under_the_name_that_the_server_gave_too(assumed: Cluster) -> None:
    assumed.forget(_written())

    assert _holders(assumed) == []


def test_it_goes_with_its_pod(assumed: Cluster) -> None:
    assumed.settled(UNIT.placements[0])
    assert _holders(assumed) == [STAND_IN.name]
    assumed.apply(gone(POD))

    assert _holders(assumed) == []


def test_it_stays_while_a_commit_may_write_it_though_its_pod_is_gone(assumed: Cluster) -> None:
    """Its allocation may be under way: another claim would get the device as well."""
    assumed.apply(gone(POD))
    assert _holders(assumed) == [STAND_IN.name]
    transitions = assumed.forget(UNIT)

    assert _holders(assumed) == []
    assert [each.key for each in transitions] == [str(STAND_IN)]


def test_it_goes_when_the_commit_of_a_pod_that_is_gone_has_ended(assumed: Cluster) -> None:
    assumed.apply(gone(POD))
    transitions = assumed.settled(UNIT.placements[0])

    assert _holders(assumed) == []
    assert [each.key for each in transitions] == [str(STAND_IN)]


def test_a_pod_of_the_same_name_holds_devices_of_its_own_while_a_commit_may_write_for_the_one_before() -> None:
    """A StatefulSet makes the pod again at once; the allocation of the deleted one may be under way."""
    cluster = cluster_of(b.node("n"), b.gpu_slice("n", count=2), gpu_class(), POD)
    cluster.assume(UNIT)
    anew = replace(POD, uid="anew")
    cluster.apply(seen(anew))
    again = split_plan(solve(cluster.snapshot(), b.batch(anew), Policy(), Budget(seconds=60.0)))[0]
    cluster.assume(again)
    both = {each.device for unit in (UNIT, again) for part in unit.allocations for each in part.allocation.results}
    assert len(both) == 2
    assert len(_holders(cluster)) == 2

    cluster.forget(UNIT)
    assert _holders(cluster) == [again.stand_ins[0].name]
    cluster.forget(again)
    assert _holders(cluster) == []


def test_a_device_that_another_claim_took_is_noticed() -> None:
    cluster = cluster_of(*OBJECTS, POD, b.held("other", b.result("gpu", "gpu-0", "n"), node_name="n"))

    assert [each.message for each in cluster.check(UNIT)] == [
        "device gpu.example.com/n/gpu-0 is held by claim default/other"
    ]


def test_a_node_that_offers_the_resource_itself_by_now_is_noticed() -> None:
    cluster = cluster_of(b.node("n", extended={RESOURCE: 1}), *OBJECTS[1:], POD)

    assert [each.message for each in cluster.check(UNIT)] == [
        f"devices were planned for {RESOURCE} of pod {POD.id}, and serve nothing on node n now"
    ]


def test_a_claim_of_a_pod_that_waits_is_left_behind() -> None:
    left = _made(is_allocated=True)
    cluster = cluster_of(*OBJECTS, POD, left)

    assert cluster.orphaned_special_claims() == ((left, POD),)
    assert cluster.special_claims(POD.id, POD.uid) == (left,)


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda cluster: cluster.assume(UNIT), id="its pod is being placed"),
        pytest.param(lambda cluster: cluster.apply(seen(replace(POD, node_name="n"))), id="its pod is bound"),
        pytest.param(lambda cluster: cluster.apply(gone(POD)), id="its pod is gone"),
        pytest.param(lambda cluster: cluster.apply(gone(_made(is_allocated=True))), id="it is gone"),
        pytest.param(
            lambda cluster: cluster.apply(seen(replace(_made(is_allocated=False), is_deleting=True))),
            id="it is being deleted",
        ),
    ],
)
def test_no_claim_is_left_behind_where(change: object) -> None:
    cluster = cluster_of(*OBJECTS, POD, _made(is_allocated=True))
    assert callable(change)

    change(cluster)

    assert cluster.orphaned_special_claims() == ()


def test_a_claim_that_is_being_deleted_is_left_behind_while_it_holds_devices() -> None:
    """It is reserved for its pod, which may wait for them."""
    left = replace(_made(is_allocated=True), is_deleting=True)

    assert cluster_of(*OBJECTS, POD, left).orphaned_special_claims() == ((left, POD),)


def test_of_the_claims_of_a_bound_pod_those_without_an_allocation_are_left_behind() -> None:
    """A creation arrived late: the pod is bound with another claim, and nothing will allocate this one."""
    bound, late = replace(POD, node_name="n"), _made(is_allocated=False, name="late")
    cluster = cluster_of(*OBJECTS, bound, _made(is_allocated=True), late)

    assert cluster.orphaned_special_claims() == ((late, bound),)


def test_devices_of_a_claim_whose_allocation_may_be_stored_stay_held(assumed: Cluster) -> None:
    made = _made(is_allocated=False)
    assumed.apply(seen(made))
    assumed.forget(_written(), (made.id,))

    assert _holders(assumed) == [made.id.name]
    assert assumed.uncertain_claims() == (made,)
    assumed.acknowledge(replace(made, resource_version="8"))
    assumed.apply(seen(replace(made, resource_version="8")))
    assert _holders(assumed) == []


def test_claims_that_users_made_are_never_left_behind() -> None:
    assert (
        cluster_of(
            *OBJECTS, POD, replace(_made(is_allocated=True), is_extended_resource_claim=False)
        ).orphaned_special_claims()
        == ()
    )


def test_a_placement_without_such_a_claim_has_no_stand_in() -> None:
    assert Unit(placements=(Placement(pod=POD.id, pod_uid=POD.uid, node="n"),)).stand_ins == ()


def test_a_claim_of_another_namespace_is_never_a_pod_s_own_whatever_uid_it_gives() -> None:
    foreign = replace(_made(is_allocated=True), id=ClaimId("other", "p-extended-resources-abcde"))
    cluster = cluster_of(*OBJECTS, POD, foreign)
    assert cluster.orphaned_special_claims() == ()
    assert cluster.special_claims(POD.id, POD.uid) == ()
    cluster.assume(UNIT)
    before = _holders(cluster)

    cluster.apply(seen(replace(foreign, resource_version="9")))

    assert set(before) <= set(_holders(cluster)), "the stand-in of the pod's own claim went with a foreign echo"
