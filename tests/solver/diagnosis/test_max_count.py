"""How many copies of some pods fit: node by node, together, and against trying one number after the other."""

import pytest
from msgspec.structs import replace

from solver import max_count
from solver.domain import Batch, Budget, Claim, CopyCount, Pod, Policy, Snapshot
from solver.preemption import what_if
from solver.problem.solver_cache import SolverCache
from tests.support import builders as b

MOST = 1000


def budget() -> Budget:
    """A budget from now on: its clock runs."""
    return Budget(seconds=60.0, deterministic_seconds=5.0)


def own(name: str, pod: str, count: int) -> Claim:
    """A claim that was made for a pod."""
    return replace(b.claim(name, b.request("r", count=count)), owner_pod_uid=f"uid-default-{pod}")


def found(batch: Batch, *objects: object, most: int = MOST) -> CopyCount:
    return max_count(b.snapshot(*objects), batch, Policy(), budget(), most)  # type: ignore[arg-type] # any object


def proven(count: int) -> CopyCount:
    return CopyCount(count=count, bound=count, is_proven=True)


def test_the_nodes_add_up() -> None:
    nodes = (b.node("n1"), b.gpu_slice("n1"), b.node("n2"), b.gpu_slice("n2"), b.node("n3"), b.gpu_slice("n3", count=4))
    held = b.held("h", b.result("gpu", "gpu-0", "n2"), b.result("gpu", "gpu-1", "n2"))
    tainted = (b.node("n4", taints=(b.taint("t"),)), b.gpu_slice("n4"))

    count = found(b.batch(b.pod("p", "c")), *nodes, *tainted, held, b.gpu_class(), own("c", "p", 3))

    assert count == proven(2 + 2 + 1)


def test_room_counts_without_devices() -> None:
    assert found(b.batch(b.pod("p", cpu=5)), b.node("n1"), b.node("n2")) == proven(24)


def test_no_more_than_asked_for() -> None:
    assert found(b.batch(b.pod("p", cpu=5)), b.node("n1"), most=3) == proven(3)


def test_several_pods_count_only_together() -> None:
    pods = b.batch(b.pod("p", "c"), b.pod("q", "d"))

    count = found(pods, b.node("n1"), b.gpu_slice("n1"), b.gpu_class(), own("c", "p", 2), own("d", "q", 1))

    assert count == proven(2)


def test_a_claim_that_is_named_is_shared_by_the_copies() -> None:
    shared = b.claim("c", b.request("r", count=8))

    assert found(b.batch(b.pod("p", "c", cpu=16)), b.node("n1"), b.gpu_slice("n1"), b.gpu_class(), shared) == proven(4)


def test_gangs_are_counted_whole() -> None:
    pods = (b.member(b.pod("p", "c"), "t"), b.member(b.pod("q", "d"), "t"))
    batch = b.batch(*pods, gangs=(b.gang("t", 2, members=2),))

    count = found(batch, b.node("n1"), b.gpu_slice("n1", count=7), b.gpu_class(), own("c", "p", 2), own("d", "q", 2))

    assert count == proven(1)


def test_pods_above_the_minimum_of_a_gang_belong_to_a_copy() -> None:
    pods = (b.member(b.pod("p"), "t"), b.member(b.pod("q"), "t"), b.member(b.pod("big", "d"), "t"))
    batch = b.batch(*pods, gangs=(b.gang("t", 2, members=3),))

    def count(needed: int) -> CopyCount:
        return found(batch, b.node("n1"), b.gpu_slice("n1", count=7), b.gpu_class(), own("d", "big", needed))

    assert (count(8), count(3)) == (proven(0), proven(2))


@pytest.mark.parametrize(("gpus", "count"), [(2, 0), (3, 1), (8, 2), (27, 9), (29, 9), (30, 10)])
def test_copies_of_several_gangs_and_pods_are_placed_to_the_last_pod(gpus: int, count: int) -> None:
    batch = b.batch(
        b.member(b.pod("p", "c"), "t"),
        b.member(b.pod("q", "d"), "u"),
        b.pod("r", "e"),
        gangs=(b.gang("t", 1, members=1), b.gang("u", 1, members=1)),
    )
    claims = [own("c", "p", 1), own("d", "q", 1), own("e", "r", 1)]
    objects = (b.node("n1"), b.gpu_slice("n1", count=gpus), b.gpu_class(), *claims)

    assert found(batch, *objects) == proven(count)
    assert found(batch, *objects, most=2) == proven(min(count, 2))


def test_of_several_gangs_none_counts_where_one_does_not_fit() -> None:
    batch = b.batch(
        b.member(b.pod("p"), "t"),
        b.member(b.pod("q", "d"), "u"),
        gangs=(b.gang("t", 1, members=1), b.gang("u", 1, members=1)),
    )

    count = found(batch, b.node("n1"), b.gpu_slice("n1"), b.gpu_class(), own("d", "q", 9))

    assert count.count == 0


@pytest.mark.parametrize("needs", [1, 2, 3, 5, 8])
@pytest.mark.parametrize("held", [0, 1, 4])
def test_one_more_does_not_fit(needs: int, held: int) -> None:
    pod, claim = b.pod("p", "c", cpu=7), own("c", "p", needs)
    taken = b.held("h", *(b.result("gpu", f"gpu-{number}", "n1") for number in range(held)))
    snapshot = b.snapshot(b.node("n1"), b.gpu_slice("n1"), b.node("n2"), b.gpu_slice("n2"), b.gpu_class(), taken, claim)

    count = max_count(snapshot, b.batch(pod), Policy(), budget(), MOST).count

    assert all_fit(snapshot, pod, claim, count)
    assert not all_fit(snapshot, pod, claim, count + 1)


def all_fit(snapshot: Snapshot, pod: Pod, claim: Claim, number: int) -> bool:
    """Place so many pods, written one by one."""
    pods = tuple(b.pod(f"p{each}", f"c{each}", cpu=7) for each in range(number))
    claims = tuple(replace(claim, id=each.claim_ids[0], uid=each.uid, owner_pod_uid=each.uid) for each in pods)
    others = tuple(each for each in snapshot.claims if each.id != claim.id)
    made = replace(snapshot, claims=tuple(sorted((*others, *claims), key=lambda each: each.id)))
    del pod
    plain = replace(Policy(), levels=())
    return what_if.place_all(made, b.batch(*pods), plain, budget(), SolverCache()) is not None
