"""What is believed between a decision and its echo."""

import msgspec
import pytest

from scheduler.cluster import Assumptions, Cluster
from solver.domain import Claim, ConsumerReference, Pod
from tests.support.builders import (
    allocation,
    claim,
    claim_allocation,
    consumer,
    device_id,
    held,
    node,
    placement,
    pod,
    result,
)
from tests.support.cluster_builders import cluster_of, gone, seen, show, unit

POD = pod("p", "c", cpu=2)
CLAIM = claim("c")
GPU = result("gpu", "gpu-0", "n1")
ALLOCATED = claim_allocation(CLAIM, GPU, node_name="n1")
UNIT = unit(placement(POD, "n1"), ALLOCATED)


def bound(each: Pod, node_name: str = "n1") -> Pod:
    return msgspec.structs.replace(each, node_name=node_name)


def written(each: Claim = CLAIM, *consumers: ConsumerReference, version: str = "3") -> Claim:
    """The claim as the server has it after the status write: with a timestamp and a new version."""
    return msgspec.structs.replace(
        each,
        resource_version=version,
        allocation=msgspec.structs.replace(ALLOCATED.allocation, allocation_timestamp="2026-11-21T00:00:00Z"),
        reserved_for=consumers or (consumer("p"),),
    )


@pytest.fixture
def assumed() -> Cluster:
    cluster = cluster_of(node("n1"), POD, CLAIM)
    cluster.assume(UNIT)
    return cluster


def believed_claim(cluster: Cluster) -> Claim:
    found = cluster.claim(CLAIM.id)
    assert found is not None
    return found


def test_an_assumed_pod_holds_its_node(assumed: Cluster) -> None:
    assert [(each.id.name, each.node_name) for each in assumed.snapshot().pods] == [("p", "n1")]


def test_an_assumed_claim_is_allocated_and_reserved(assumed: Cluster) -> None:
    (found,) = assumed.snapshot().claims

    assert found.allocation == ALLOCATED.allocation
    assert found.reserved_for == (consumer("p"),)


def test_assuming_gives_the_transitions_of_what_looks_different() -> None:
    transitions = cluster_of(node("n1"), POD, CLAIM).assume(UNIT)

    assert [(each.kind, each.key) for each in transitions] == [
        ("resourceclaims", "default/c"),
        ("pods", "default/p"),
    ]


def test_forgetting_restores_the_cluster_as_it_was(assumed: Cluster) -> None:
    assumed.forget(UNIT)

    assert assumed.snapshot() == cluster_of(node("n1"), POD, CLAIM).snapshot()
    assert assumed.assumptions() == Assumptions()


def test_forgetting_gives_the_transitions_back(assumed: Cluster) -> None:
    claims, pods = assumed.forget(UNIT)

    assert (claims.after, pods.after) == (CLAIM, POD)


def test_what_the_watch_saw_is_told_apart_from_what_is_believed(assumed: Cluster) -> None:
    assert assumed.observed_pod(POD.id) == POD
    assert assumed.observed_claim(CLAIM.id) == CLAIM
    assert assumed.pod(POD.id) == bound(POD)


def test_a_pod_and_its_claim_are_confirmed_separately(assumed: Cluster) -> None:
    show(assumed, written())

    assert [each.pod for each in assumed.assumptions().pods] == [POD.id]
    assert assumed.assumptions().claims == ()

    show(assumed, bound(POD))

    assert assumed.assumptions() == Assumptions()


def test_an_echo_is_no_conflict(assumed: Cluster) -> None:
    echoes = [*assumed.apply(seen(written())), *assumed.apply(seen(bound(POD)))]

    assert [each.conflict for each in echoes] == [None, None]


def test_the_echo_of_the_finalizer_confirms_nothing(assumed: Cluster) -> None:
    show(assumed, msgspec.structs.replace(CLAIM, resource_version="2", finalizers=("f",)))

    assert believed_claim(assumed).allocation == ALLOCATED.allocation
    assert believed_claim(assumed).finalizers == ("f",)


def test_an_echo_with_the_quantity_spelled_otherwise_is_ours() -> None:
    planned = claim_allocation(CLAIM, result("gpu", "gpu-0", "n1", share_id="s", consumed={"memory": "1024Mi"}))
    echoed = allocation(result("gpu", "gpu-0", "n1", share_id="s", consumed={"memory": "1Gi"}))
    cluster = cluster_of(node("n1"), POD, CLAIM)
    cluster.assume(unit(placement(POD, "n1"), planned))
    (echo,) = cluster.apply(seen(msgspec.structs.replace(CLAIM, allocation=echoed, reserved_for=(consumer("p"),))))

    assert echo.conflict is None
    assert cluster.assumptions().claims == ()


def test_a_confirmed_allocation_that_goes_is_gone(assumed: Cluster) -> None:
    show(assumed, written(), msgspec.structs.replace(CLAIM, resource_version="4"))

    assert believed_claim(assumed).allocation is None


def test_an_echo_after_forget_counts(assumed: Cluster) -> None:
    assumed.forget(UNIT)
    show(assumed, written(), bound(POD))

    assert believed_claim(assumed).allocation is not None
    assert [each.id.name for each in assumed.snapshot().pods] == ["p"]


def test_forgetting_what_was_confirmed_keeps_it(assumed: Cluster) -> None:
    show(assumed, written(), bound(POD))
    assumed.forget(UNIT)

    assert believed_claim(assumed).allocation is not None
    assert [each.id.name for each in assumed.snapshot().pods] == ["p"]


def test_another_node_is_a_conflict_and_the_watch_is_right(assumed: Cluster) -> None:
    (transition,) = assumed.apply(seen(bound(POD, "n2")))

    assert transition.conflict is not None
    assert transition.conflict.message == ("pod default/p was bound to node n2 by another client; node n1 was planned")
    assert [each.node_name for each in assumed.snapshot().pods] == ["n2"]


def test_another_allocation_is_a_conflict_and_the_watch_is_right(assumed: Cluster) -> None:
    other = msgspec.structs.replace(CLAIM, allocation=allocation(result("gpu", "gpu-7", "n1")))
    (transition,) = assumed.apply(seen(other))

    assert transition.conflict is not None
    assert transition.conflict.message == (
        "claim default/c was allocated gpu.example.com/n1/gpu-7 by another client; gpu.example.com/n1/gpu-0 was planned"
    )
    assert believed_claim(assumed).allocation == other.allocation


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(result("other", "gpu-0", "n1"), id="another request"),
        pytest.param(result("gpu", "gpu-0", "n2"), id="another pool"),
        pytest.param(result("gpu", "gpu-0", "n1", share_id="s"), id="a share of it"),
        pytest.param(result("gpu", "gpu-0", "n1", is_admin=True), id="admin access to it"),
    ],
)
def test_a_result_that_differs_is_another_allocation(assumed: Cluster, other: object) -> None:
    changed = msgspec.structs.replace(CLAIM, allocation=allocation(other))  # type: ignore[arg-type]  # from the table
    (transition,) = assumed.apply(seen(changed))

    # A plan without share ids leaves them to the write, so that one added to it is the same allocation.
    is_share_added = getattr(other, "share_id", "") != ""
    assert (transition.conflict is None) == is_share_added


def test_a_deleted_pod_drops_its_assumptions_and_keeps_the_allocation_in_flight(assumed: Cluster) -> None:
    assumed.apply(gone(POD))

    assert assumed.snapshot().pods == ()
    assert believed_claim(assumed).allocation == ALLOCATED.allocation
    assert believed_claim(assumed).reserved_for == ()


def test_a_deleted_pod_gives_the_transition_of_its_claim(assumed: Cluster) -> None:
    pods, claims = assumed.apply(gone(POD))

    assert (pods.key, claims.key) == ("default/p", "default/c")


def test_a_deleted_claim_drops_its_assumption(assumed: Cluster) -> None:
    assumed.apply(gone(CLAIM))

    assert assumed.assumptions().claims == ()
    assert assumed.snapshot().claims == ()


def test_a_namesake_is_not_assumed(assumed: Cluster) -> None:
    show(assumed, pod("p", "c", uid="another"), msgspec.structs.replace(CLAIM, uid="another"))

    assert assumed.assumptions() == Assumptions()
    assert assumed.snapshot().pods == ()
    assert believed_claim(assumed).allocation is None


def test_a_pod_that_is_gone_when_it_is_assumed_is_not_believed() -> None:
    cluster = cluster_of(node("n1"))
    cluster.assume(UNIT)

    assert cluster.assumptions() == Assumptions()


def test_an_allocation_seen_before_it_is_assumed_is_confirmed_at_once() -> None:
    cluster = cluster_of(node("n1"), bound(POD), written())
    cluster.assume(UNIT)

    assert cluster.assumptions() == Assumptions()


def test_two_units_reserve_one_claim_and_each_forgets_its_own() -> None:
    shared = msgspec.structs.replace(CLAIM, allocation=ALLOCATED.allocation)
    first, second = pod("a", "c"), pod("b", "c")
    units = [unit(placement(each, "n1")) for each in (first, second)]
    cluster = cluster_of(node("n1"), first, second, shared)
    for each in units:
        cluster.assume(each)
    cluster.forget(units[0])

    assert believed_claim(cluster).reserved_for == (consumer("b"),)


def test_a_second_unit_joins_an_allocation_that_is_only_assumed(assumed: Cluster) -> None:
    second = pod("q", "c")
    show(assumed, second)
    assumed.assume(unit(placement(second, "n1")))

    assert believed_claim(assumed).reserved_for == (consumer("p"), consumer("q"))


def test_a_joined_claim_is_not_reserved_when_its_allocation_is_forgotten(assumed: Cluster) -> None:
    second = pod("q", "c")
    show(assumed, second)
    assumed.assume(unit(placement(second, "n1")))
    assumed.forget(UNIT)

    assert believed_claim(assumed) == CLAIM


def test_reservations_are_confirmed_one_by_one(assumed: Cluster) -> None:
    second = pod("q", "c")
    show(assumed, second)
    assumed.assume(unit(placement(second, "n1")))
    show(assumed, written())

    (left,) = assumed.assumptions().claims
    assert left.consumers == (consumer("q"),)
    assert believed_claim(assumed).reserved_for == (consumer("p"), consumer("q"))


def test_an_acknowledged_allocation_stays_until_its_echo(assumed: Cluster) -> None:
    assumed.acknowledge(written(version="3"))
    show(assumed, msgspec.structs.replace(CLAIM, resource_version="2", finalizers=("f",)))

    assert believed_claim(assumed).allocation is not None


def test_an_acknowledged_allocation_that_a_relist_shows_withdrawn_is_dropped(assumed: Cluster) -> None:
    assumed.acknowledge(written(version="3"))
    show(assumed, msgspec.structs.replace(CLAIM, resource_version="10"))

    assert believed_claim(assumed).allocation is None
    assert assumed.assumptions().claims == ()


def test_the_answer_to_the_finalizer_s_write_acknowledges_nothing(assumed: Cluster) -> None:
    answer = msgspec.structs.replace(CLAIM, resource_version="2", finalizers=("f",))
    assumed.acknowledge(answer)
    show(assumed, answer)
    assert believed_claim(assumed).allocation is not None

    assumed.forget(UNIT)
    assert believed_claim(assumed).allocation is None


def test_forgetting_keeps_an_allocation_that_the_server_has_until_its_echo(assumed: Cluster) -> None:
    assumed.acknowledge(written(version="3"))
    assumed.forget(UNIT)
    assert believed_claim(assumed).allocation == ALLOCATED.allocation
    assert assumed.snapshot().pods == ()

    show(assumed, written(version="3"))
    assert assumed.assumptions() == Assumptions()

    show(assumed, msgspec.structs.replace(CLAIM, resource_version="4"))
    assert believed_claim(assumed).allocation is None


def test_forgetting_drops_an_allocation_whose_withdrawal_was_acknowledged(assumed: Cluster) -> None:
    assumed.acknowledge(written(version="3"))
    assumed.acknowledge(msgspec.structs.replace(CLAIM, resource_version="4"))
    assert believed_claim(assumed).allocation is not None
    assumed.forget(UNIT)

    assert believed_claim(assumed).allocation is None
    assert assumed.assumptions() == Assumptions()


def test_a_kept_allocation_that_a_relist_shows_withdrawn_is_a_transition(assumed: Cluster) -> None:
    assumed.acknowledge(written(version="3"))
    assumed.forget(UNIT)
    (transition,) = assumed.apply(seen(msgspec.structs.replace(CLAIM, resource_version="10")))

    assert isinstance(transition.before, Claim)
    assert transition.before.allocation is not None
    assert transition.after == msgspec.structs.replace(CLAIM, resource_version="10")


def test_an_answer_that_comes_after_the_relist_that_skipped_its_echo_drops_the_assumption(assumed: Cluster) -> None:
    show(assumed, msgspec.structs.replace(CLAIM, resource_version="10"))
    assert believed_claim(assumed).allocation is not None
    assumed.acknowledge(written(version="3"))

    assert believed_claim(assumed).allocation is None


def test_an_answer_about_a_claim_of_which_nothing_is_assumed_is_ignored() -> None:
    cluster = cluster_of(node("n1"), POD, CLAIM)
    cluster.acknowledge(written())

    assert cluster.assumptions() == Assumptions()


def test_a_share_of_another_size_is_another_allocation() -> None:
    planned, other = (
        allocation(result("gpu", "gpu-0", "n1", share_id="s", consumed={"memory": memory})) for memory in ("1Gi", "2Gi")
    )
    cluster = cluster_of(node("n1"), POD, CLAIM)
    cluster.assume(unit(placement(POD, "n1"), msgspec.structs.replace(ALLOCATED, allocation=planned)))
    (transition,) = cluster.apply(seen(msgspec.structs.replace(CLAIM, allocation=other)))

    assert transition.conflict is not None


def test_a_replica_with_the_same_changes_and_assumptions_gives_the_same_snapshot(assumed: Cluster) -> None:
    replica = cluster_of(node("n1"), POD, CLAIM)

    assert replica.snapshot(assumed.assumptions()) == assumed.snapshot()


def test_a_replica_forgets_what_the_original_no_longer_assumes(assumed: Cluster) -> None:
    replica = cluster_of(node("n1"), POD, CLAIM)
    replica.snapshot(assumed.assumptions())
    assumed.forget(UNIT)

    assert replica.snapshot(assumed.assumptions()) == assumed.snapshot()


def test_assumptions_survive_json(assumed: Cluster) -> None:
    sent = msgspec.json.encode(assumed.assumptions())

    assert msgspec.json.decode(sent, type=Assumptions) == assumed.assumptions()


def test_a_replica_that_saw_a_namesake_does_not_believe_what_is_said_of_another(assumed: Cluster) -> None:
    replica = cluster_of(node("n1"), pod("p", "c", uid="another"), msgspec.structs.replace(CLAIM, uid="another"))
    snapshot = replica.snapshot(assumed.assumptions())

    assert snapshot.pods == ()
    assert [each.allocation for each in snapshot.claims] == [None]


def test_a_replica_that_saw_another_allocation_keeps_it(assumed: Cluster) -> None:
    other = msgspec.structs.replace(CLAIM, allocation=allocation(result("gpu", "gpu-7", "n1")))
    snapshot = cluster_of(node("n1"), POD, other).snapshot(assumed.assumptions())

    assert [each.allocation for each in snapshot.claims] == [other.allocation]


def test_forgetting_an_earlier_unit_keeps_what_a_later_one_assumes_of_its_pod(assumed: Cluster) -> None:
    later = unit(placement(POD, "n2"))
    assumed.assume(later)
    assumed.forget(UNIT)

    assert [each.node_name for each in assumed.snapshot().pods] == ["n2"]


def test_forgetting_a_unit_keeps_what_is_assumed_of_a_namesake_of_its_claim(assumed: Cluster) -> None:
    remade, second = msgspec.structs.replace(CLAIM, uid="remade"), pod("q", "c")
    show(assumed, remade, second)
    assumed.assume(unit(placement(second, "n1"), msgspec.structs.replace(ALLOCATED, claim_uid="remade")))
    assumed.forget(UNIT)

    assert believed_claim(assumed).allocation == ALLOCATED.allocation


def test_a_unit_for_a_claim_that_was_remade_is_not_believed(assumed: Cluster) -> None:
    show(assumed, msgspec.structs.replace(CLAIM, uid="remade"))
    assumed.assume(UNIT)

    assert assumed.assumptions().claims == ()


def test_a_claim_without_a_version_is_still_waiting_for_its_echo() -> None:
    unversioned = msgspec.structs.replace(CLAIM, resource_version="")
    cluster = cluster_of(node("n1"), POD, unversioned)
    cluster.assume(UNIT)
    show(cluster, msgspec.structs.replace(unversioned, finalizers=("f",)))

    assert believed_claim(cluster).allocation is not None


def test_an_assumed_device_is_held() -> None:
    cluster = cluster_of(node("n1"), POD, CLAIM, held("other", GPU))
    cluster.assume(UNIT)

    assert cluster.contested_devices() == ((device_id("gpu-0", "n1"), (CLAIM.id, claim("other").id)),)
