"""`placed: devices`: as many devices as possible are given out, and of equally many larger pods go first."""

from collections.abc import Sequence

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from solver import solve, verify
from solver.domain import Plan, Pod, Policy
from tests.support import builders as b
from tests.support import solver_problems as s

DEVICES = Policy(counts_devices=True)


def decided(counts: Sequence[int], free: Sequence[int], policy: Policy = DEVICES, first: int = 0) -> Plan:
    """Pods ask for so many devices; nodes have so many. The first pods have a higher priority; some ask for none."""
    nodes = [each for at, count in enumerate(free) for each in (b.node(f"n{at}"), b.gpu_slice(f"n{at}", count=count))]
    claims = [b.claim(f"c{at}", b.request("gpu", count=count)) for at, count in enumerate(counts) if count]
    pods = [b.pod(f"p{at}", *([f"c{at}"] if count else ()), cpu=1) for at, count in enumerate(counts)]
    pods = [replace(pod, priority=int(at < first)) for at, pod in enumerate(pods)]
    return s.plan(*nodes, b.gpu_class(), *claims, pods=pods, policy=policy)


def placed(plan: Plan, counts: Sequence[int]) -> list[int]:
    return sorted(counts[int(each.pod.name[1:])] for each in plan.placements)


def test_one_pod_of_four_devices_goes_before_two_of_one() -> None:
    assert placed(decided([1, 1, 4], [4]), [1, 1, 4]) == [4]
    assert placed(decided([1, 1, 4], [4], Policy()), [1, 1, 4]) == [1, 1]


def test_of_equally_many_devices_larger_pods_have_them() -> None:
    assert placed(decided([1, 1, 1, 1, 4], [4]), [1, 1, 1, 1, 4]) == [4]
    assert placed(decided([2, 2, 3, 1], [4]), [2, 2, 3, 1]) == [1, 3]


def test_more_devices_go_before_larger_pods() -> None:
    assert placed(decided([3, 2, 2], [4]), [3, 2, 2]) == [2, 2]


def test_priorities_stay_strict_and_pods_without_devices_are_placed() -> None:
    counts = [1, 4, 0]
    plan = decided(counts, [4], first=1)
    assert placed(plan, counts) == [0, 1]
    assert [
        (each.name, each.value, each.proven) for each in plan.report.levels if each.name[:6] in {"placed", "larger"}
    ] == [
        ("placed-devices:1", 1, True),
        ("larger-pods:1", 1, True),
        ("placed:1", 1, True),
        ("placed-devices:0", 0, True),
        ("larger-pods:0", 0, True),
        ("placed:0", 1, True),
    ]


def test_no_reason_says_that_no_plan_places_more_pods() -> None:
    words = {
        policy.counts_devices: " ".join(
            reason.message for each in decided([1, 1, 4], [4], policy).unplaced for reason in each.reasons
        )
        for policy in (Policy(), DEVICES)
    }
    assert "no plan placed more" in words[False]
    assert "no plan placed more" not in words[True]


@settings(max_examples=40, deadline=None)
@given(
    counts=st.lists(st.integers(1, 5), min_size=1, max_size=6), free=st.lists(st.integers(1, 5), min_size=1, max_size=2)
)
def test_no_choice_of_pods_has_more_devices(counts: list[int], free: list[int]) -> None:
    plan = decided(counts, free)
    found = placed(plan, counts)
    assert (sum(found), sum(count * count for count in found), len(found)) == max(
        (sum(each), sum(count * count for count in each), len(each)) for each in fitting(counts, tuple(free))
    )


def fitting(counts: Sequence[int], free: tuple[int, ...]) -> list[tuple[int, ...]]:
    """Go through all choices of pods that fit together."""
    if not counts:
        return [()]
    found = fitting(counts[1:], free)
    for at, room in enumerate(free):
        if room >= counts[0]:
            rest = (*free[:at], room - counts[0], *free[at + 1 :])
            found += [(counts[0], *each) for each in fitting(counts[1:], rest)]
    return found


def test_gangs_stay_whole() -> None:
    nodes = [each for at in range(2) for each in (b.node(f"n{at}"), b.gpu_slice(f"n{at}", count=4))]
    claims = [b.claim(f"c{at}", b.request("gpu", count=4)) for at in range(3)]
    pods: list[Pod] = [b.member(b.pod(f"p{at}", f"c{at}"), "g") for at in range(3)]
    alone = b.pod("alone", "small")
    objects = [*nodes, b.gpu_class(), *claims, b.claim("small", b.request("gpu"))]
    snapshot = b.snapshot(*objects)
    batch = replace(b.batch(*pods, alone), gangs=(b.gang("g", 3),))
    plan = solve(snapshot, batch, DEVICES, s.PATIENT)
    assert [each.pod.name for each in plan.placements] == ["alone"]
    assert verify.check(snapshot, batch, plan, DEVICES) == ()
