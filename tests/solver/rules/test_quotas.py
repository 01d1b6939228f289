"""Limits of quotas: what counts for which quota, what is said to pods that they keep back, and what counting costs."""

from msgspec.structs import replace

from solver import SolverCache, solve
from solver.domain import (
    AllocationMode,
    Batch,
    Budget,
    ClaimId,
    DeviceClass,
    Plan,
    Policy,
    PreemptionRules,
    QuotaKey,
    QuotaResource,
    ReasonCode,
    Snapshot,
    WithdrawnDevice,
)
from solver.domain.quantity import NANO
from solver.rules.quotas.holdings import Holdings
from solver.verify import check
from tests.support import builders as b
from tests.support.quota_cases import devices, memory, namespaces, quota, whole_nodes

GPUS = QuotaKey("gpu")
A_CLASS = b.device_class("a100", "device.attributes['gpu.example.com'].model == 'H100'")


def cluster(*objects: object, quotas: tuple = (), nodes: int = 2, count: int = 4) -> Snapshot:  # type: ignore[type-arg]
    names = [f"n{index}" for index in range(nodes)]
    fleet = [(b.node(name, cpu=64, pods=64), b.gpu_slice(name, count=count)) for name in names]
    snapshot = b.snapshot(*(each for pair in fleet for each in pair), b.gpu_class(), namespaces(), *objects)  # type: ignore[arg-type]
    return replace(snapshot, quotas=tuple(sorted(quotas, key=lambda each: each.name)))


def decide(snapshot: Snapshot, *pods: object, policy: Policy = Policy(), cache: SolverCache | None = None) -> Plan:  # noqa: B008
    batch = Batch(pods=pods)  # type: ignore[arg-type]
    plan = solve(snapshot, batch, policy, Budget(seconds=60.0, deterministic_seconds=10.0), cache)
    assert check(snapshot, batch, plan, policy) == ()
    return plan


def asking(name: str, count: int = 1, team: str = "red", **other: object) -> tuple[object, object]:
    """A pod and its claim for GPUs."""
    request = b.request("r", count=count, **other)  # type: ignore[arg-type]
    return b.claim(name, request, namespace=team), b.pod(name, name, namespace=team)


def holding(name: str, *results: str, team: str = "red", node: str = "n0") -> object:
    return b.held(name, *(b.result("r", each, node) for each in results), node_name=node, namespace=team)


def test_a_pod_beyond_the_limit_waits_and_is_told_quota_class_held_limit_and_asked() -> None:
    claim, pod = asking("new", 2)
    quotas = (quota("red", devices(3), team="red"),)
    snapshot = cluster(claim, holding("old", "gpu-0", "gpu-1"), quotas=quotas)

    plan = decide(snapshot, pod)

    (reason,) = plan.unplaced[0].reasons
    assert reason.code is ReasonCode.QUOTA_EXCEEDED
    said = "DeviceQuota red: 2 of at most 3 devices of class gpu are held, and the pod needs 2"
    assert reason.message == f"{said}; raise the limit, or wait until some are given back"


def test_a_pod_within_the_limit_is_placed_and_others_are_not_bound() -> None:
    quotas = (quota("red", devices(1), team="red"),)
    one, other = asking("one"), asking("other", 4, team="blue")

    plan = decide(cluster(one[0], other[0], quotas=quotas), one[1], other[1])

    assert len(plan.placements) == 2


def test_of_two_pods_of_a_batch_the_second_is_kept_back_by_what_the_first_takes() -> None:
    first, second = asking("first", 2), asking("second", 2)
    plan = decide(cluster(first[0], second[0], quotas=(quota("red", devices(3), team="red"),)), first[1], second[1])

    assert [each.pod.name for each in plan.placements] == ["first"]
    (reason,) = plan.unplaced[0].reasons
    assert reason.code is ReasonCode.QUOTA_EXCEEDED
    assert "2 of at most 3 devices of class gpu are held, and the pod needs 2" in reason.message


def test_a_parent_binds_the_sum_of_its_children() -> None:
    quotas = (
        quota("red", team="red", parent="root"),
        quota("blue", team="blue", parent="root"),
        quota("root", devices(3)),
    )
    claim, pod = asking("new", 2)
    plan = decide(cluster(claim, holding("old", "gpu-0", "gpu-1", team="blue"), quotas=quotas), pod)

    assert plan.unplaced[0].reasons[0].message.startswith("DeviceQuota root: 2 of at most 3")


def test_a_device_counts_for_every_class_whose_selectors_it_meets() -> None:
    quotas = (quota("red", devices(0, "a100"), team="red"),)
    claim, pod = asking("new")

    plan = decide(cluster(claim, A_CLASS, quotas=quotas), pod)

    assert plan.unplaced[0].reasons[0].code is ReasonCode.QUOTA_EXCEEDED


def test_what_is_chosen_counts() -> None:
    """One alternative is beyond the limit: the other one is taken."""
    other = b.resource_slice("n0", b.device("old-0", attributes={"model": "T4"}), driver="old.example.com")
    old = b.device_class("old", driver="old.example.com")
    first = b.first_available("r", b.alternative("new", "gpu"), b.alternative("old", "old"))
    claims = [b.claim(name, first, namespace="red") for name in ("one", "two")]
    pods = [b.pod(name, name, namespace="red") for name in ("one", "two")]

    plan = decide(cluster(claims, other, old, quotas=(quota("red", devices(1), team="red"),)), *pods)

    assert sorted(each.allocation.results[0].request for each in plan.allocations) == ["r/new", "r/old"]


def test_all_counts_by_its_real_number_and_admin_access_never() -> None:
    every, admin = asking("all", mode=AllocationMode.ALL), asking("admin", is_admin=True)
    quotas = (quota("red", devices(3), team="red"),)

    plan = decide(cluster(every[0], admin[0], quotas=quotas), every[1], admin[1])

    assert [each.pod.name for each in plan.placements] == ["admin"]


def test_a_capacity_counts_what_shares_consume_and_partitions_have() -> None:
    shared = b.resource_slice(
        "n0", b.device("s", capacities={"memory": b.capacity(8, default=1)}, is_shareable=True), driver="s.example.com"
    )
    share = b.device_class("share", driver="s.example.com")
    claims = [b.claim(f"c{i}", b.request("r", "share", capacity={"memory": 3}), namespace="red") for i in range(2)]
    pods = [b.pod(f"p{i}", f"c{i}", namespace="red") for i in range(2)]

    plan = decide(cluster(claims, shared, share, quotas=(quota("red", memory(5, "share"), team="red"),)), *pods)

    assert len(plan.placements) == 1
    assert "3 of at most 5 memory of class share are held, and the pod needs 3" in plan.unplaced[0].reasons[0].message


def test_whole_nodes_count_once_and_a_further_pod_joins_its_own_node() -> None:
    quotas = (quota("red", whole_nodes(1), team="red"),)
    small, large = asking("small", 1), asking("large", 4)
    snapshot = cluster(small[0], large[0], holding("old", "gpu-0", node="n1"), quotas=quotas)

    plan = decide(snapshot, small[1], large[1])

    assert [(each.pod.name, each.node) for each in plan.placements] == [("small", "n1")]
    assert "1 of at most 1 nodes with devices of class gpu are held" in plan.unplaced[0].reasons[0].message


def test_a_gang_that_needs_more_than_is_left_waits_whole() -> None:
    gang = b.gang("g", 3, namespace="red")
    members = [asking(f"m{index}") for index in range(3)]
    pods = tuple(replace(pod, gang=gang.id) for _, pod in members)  # type: ignore[type-var]
    snapshot = cluster(*(claim for claim, _ in members), quotas=(quota("red", devices(2), team="red"),))
    batch = Batch(pods=pods, gangs=(gang,))  # type: ignore[arg-type]

    plan = solve(snapshot, batch, Policy(), Budget(seconds=60.0, deterministic_seconds=10.0))

    assert plan.placements == ()
    assert {each.reasons[0].message for each in plan.unplaced} == {
        "DeviceQuota red: 0 of at most 2 devices of class gpu are held, and gang g needs 3; raise the limit"
    }


def test_where_others_hold_more_than_the_limit_nothing_is_added() -> None:
    free, new = b.pod("free", namespace="red"), asking("new")
    snapshot = cluster(new[0], holding("old", "gpu-0", "gpu-1"), quotas=(quota("red", devices(1), team="red"),))

    plan = decide(snapshot, free, new[1])

    assert [each.pod.name for each in plan.placements] == ["free"]


def test_a_pod_of_lower_priority_of_the_same_quota_is_evicted_wherever_it_runs() -> None:
    quotas = (quota("red", devices(2), team="red"),)
    rules = PreemptionRules(is_enabled=True, frees_devices=True, scheduler_names=("dovetail",), now=10_000)
    running = [
        b.pod(name, name, namespace=team, node_name="n1")
        for name, team in (("low", "red"), ("high", "red"), ("other", "blue"))
    ]
    running[1] = replace(running[1], priority=5)
    held = [
        replace(
            holding(pod.id.name, f"gpu-{index}", team=pod.id.namespace, node="n1"),  # type: ignore[type-var]
            reserved_for=(b.consumer(pod.id.name, pod.id.namespace),),
            finalizers=("resource.kubernetes.io/delete-protection",),
        )
        for index, pod in enumerate(running)
    ]
    claim, pod = asking("new")
    urgent = replace(pod, priority=9, node_selector=(("kubernetes.io/hostname", "n0"),))  # type: ignore[type-var]
    snapshot = cluster(claim, held, running, quotas=quotas)
    snapshot = replace(
        snapshot, nodes=tuple(replace(n, labels=(("kubernetes.io/hostname", n.name),)) for n in snapshot.nodes)
    )

    plan = decide(snapshot, urgent, policy=Policy(preemption=rules))

    assert [victim.pod.name for each in plan.preemptions for victim in each.victims] == ["low"]
    assert plan.preemptions[0].placements[0].node == "n0"


def test_only_what_changed_is_counted_again() -> None:
    held = [holding(f"h{index}", f"gpu-{index}", node="n0") for index in range(4)]
    snapshot = cluster(held, quotas=(quota("red", devices(9), team="red"),))
    holdings = Holdings()
    holdings.follow(snapshot, (GPUS,))
    assert (holdings.held(("red",), GPUS), holdings.counted) == (4, 4)

    holdings.follow(replace(snapshot, pods=(b.pod("other"),)), (GPUS,))
    assert holdings.counted == 4

    fewer = replace(snapshot, claims=snapshot.claims[1:])
    holdings.follow(fewer, (GPUS,))
    assert (holdings.held(("red",), GPUS), holdings.counted) == (3, 5)


def test_a_device_whose_slice_is_gone_counts_as_it_was_published() -> None:
    snapshot = cluster(holding("h", "gpu-0"))
    device = snapshot.slices[0].devices[0]
    gone = replace(snapshot, slices=snapshot.slices[1:])
    key, unknown = snapshot.claims[0].allocation, Holdings()
    assert key is not None
    withdrawn = replace(gone, withdrawn=(WithdrawnDevice(id=key.results[0].device, device=device, node="n0"),))

    a100 = QuotaKey("a100")
    for state, expected in ((replace(snapshot, classes=(A_CLASS, *snapshot.classes)), 1), (withdrawn, 1), (gone, 0)):
        holdings = Holdings()
        holdings.follow(replace(state, classes=(A_CLASS, b.gpu_class())), (a100,))
        assert holdings.held(("red",), a100) == expected
    unknown.follow(gone, (GPUS,))
    assert unknown.held(("red",), GPUS) == 1  # by the class that the request names


def test_a_class_that_changes_counts_all_again() -> None:
    snapshot, holdings = cluster(holding("h", "gpu-0"), A_CLASS), Holdings()
    key = QuotaKey("a100")
    holdings.follow(snapshot, (key,))
    other = DeviceClass(name="a100", selectors=("false",))
    holdings.follow(replace(snapshot, classes=(other, *snapshot.classes[1:])), (key,))
    assert holdings.held(("red",), key) == 0


def test_a_claim_of_another_namespace_of_the_same_name_is_no_part() -> None:
    snapshot, holdings = cluster(holding("h", "gpu-0"), holding("h", "gpu-1", team="blue")), Holdings()
    holdings.follow(snapshot, (GPUS,))
    assert [holdings.held((each,), GPUS) for each in ("red", "blue", "green")] == [1, 1, 0]
    assert {claim.id for claim in snapshot.claims} == {ClaimId("red", "h"), ClaimId("blue", "h")}


def test_amounts_of_capacities_are_written_as_quantities() -> None:
    resource = QuotaResource(device_class="gpu", capacity="memory", limit=80 * 2**30 * NANO)
    assert resource.key.amount(resource.limit or 0) == "80Gi"
