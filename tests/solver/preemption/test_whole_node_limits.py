"""Limits on whole nodes and victims: a pod that stays keeps its node in use, one that goes gives it back."""

from msgspec.structs import replace

from solver import solve
from solver.domain import FINALIZER, Batch, Budget, Claim, DeviceQuota, Plan, Pod, Policy, Snapshot
from solver.verify import check
from tests.solver.preemption.test_reclaim import NOW, RULES, victims
from tests.support import builders as b
from tests.support.quota_cases import devices, namespaces, quota, whole_nodes

ONE_NODE = quota("red", whole_nodes(1), team="red")


def running(name: str, place: str, team: str, *, priority: int = 0) -> tuple[Pod, Claim]:
    """A pod that holds a GPU, `n0/0`."""
    node, device = place.split("/")
    pod = b.pod(name, name, namespace=team, node_name=node, priority=priority)
    held = b.held(name, b.result("r", f"gpu-{device}", node), node_name=node, namespace=team)
    held = replace(held, reserved_for=(b.consumer(name, team),), finalizers=(FINALIZER,))
    return replace(pod, started=NOW - 1000), held


def cluster(*pairs: tuple[Pod, Claim], quotas: tuple[DeviceQuota, ...] = (ONE_NODE,), nodes: int = 2) -> Snapshot:
    pods, claims = zip(*pairs, strict=True)
    made = [each for n in range(nodes) for each in (b.node(f"n{n}", cpu=64), b.gpu_slice(f"n{n}", count=2))]
    return replace(b.snapshot(*made, b.gpu_class(), namespaces(), pods, claims), quotas=quotas)


def decide(snapshot: Snapshot, team: str = "red", *, count: int = 1, priority: int = 9) -> Plan:
    """Decide one pod that waits."""
    claim = b.claim("new", b.request("r", count=count), namespace=team)
    pod = b.pod("new", "new", namespace=team, priority=priority)
    snapshot = replace(snapshot, claims=tuple(sorted((*snapshot.claims, claim), key=lambda each: each.id)))
    batch, policy = Batch(pods=(pod,)), Policy(preemption=RULES)
    plan = solve(snapshot, batch, policy, Budget(seconds=60.0, deterministic_seconds=10.0))
    assert check(snapshot, batch, plan, policy) == ()
    return plan


def nodes_of(plan: Plan) -> list[str]:
    return [each.node for preemption in plan.preemptions for each in preemption.placements]


def test_a_victim_on_the_node_in_use_is_chosen_and_not_one_on_a_node_too_many() -> None:
    red = running("keeps", "n0/0", "red", priority=9)
    blue = [
        running("there", "n0/1", "blue", priority=5),
        running("cheap", "n1/0", "blue"),
        running("too", "n1/1", "blue"),
    ]
    plan = decide(cluster(red, *blue))
    assert (victims(plan), nodes_of(plan)) == (["there"], ["n0"])


def test_nobody_is_evicted_where_a_pod_that_stays_keeps_its_node_in_use() -> None:
    red = running("keeps", "n0/0", "red", priority=9)
    blue = [
        running("stays", "n0/1", "blue", priority=9),
        running("cheap", "n1/0", "blue"),
        running("too", "n1/1", "blue"),
    ]
    assert victims(decide(cluster(red, *blue))) == []


def test_a_pod_of_its_own_quota_goes_so_that_another_node_can_be_used() -> None:
    red = running("low", "n0/0", "red")
    blue = running("stays", "n0/1", "blue", priority=9)
    plan = decide(cluster(red, blue), count=2)  # two devices are free on n1 only
    assert (victims(plan), nodes_of(plan)) == (["low"], ["n1"])


def test_all_of_its_own_quota_on_a_node_go_before_another_one_can_be_used() -> None:
    red = [running("low", "n0/0", "red"), running("lower", "n0/1", "red", priority=-1)]
    plan = decide(cluster(*red), count=2)
    assert victims(plan) == ["low", "lower"]


def test_a_reclaim_keeps_to_the_nodes_that_a_limit_leaves() -> None:
    quotas = (
        quota("red", devices(guarantee=2), whole_nodes(1), team="red"),
        quota("blue", devices(guarantee=0), team="blue"),
    )
    red = running("keeps", "n0/0", "red")
    blue = [running("there", "n0/1", "blue"), running("cheap", "n1/0", "blue"), running("too", "n1/1", "blue")]
    young = [(replace(pod, started=NOW - 100), claim) for pod, claim in blue[1:]]
    plan = decide(cluster(red, blue[0], *young, quotas=quotas), priority=0)
    assert (victims(plan), nodes_of(plan)) == (["there"], ["n0"])


def test_a_guarantee_of_nodes_is_none_for_pods_on_further_nodes() -> None:
    quotas = (
        quota("red", devices(guarantee=3), replace(whole_nodes(None), guarantee=1), team="red"),
        quota("blue", devices(guarantee=0), team="blue"),
    )
    red = running("keeps", "n0/0", "red")
    blue = [running(f"blue-{each[1]}{each[3]}", each, "blue") for each in ("n0/1", "n1/0", "n1/1")]
    for count in (1, 2):
        assert victims(decide(cluster(red, *blue, quotas=quotas), priority=0, count=count)) == []
    two = (replace(quotas[0], resources=(quotas[0].resources[0], replace(whole_nodes(None), guarantee=2))), quotas[1])
    assert victims(decide(cluster(red, *blue, quotas=two), priority=0, count=2)) == ["blue-10", "blue-11"]


def test_a_quota_keeps_the_nodes_that_it_is_guaranteed_though_it_gives_devices_back() -> None:
    quotas = (
        quota("red", devices(guarantee=4), team="red"),
        quota("blue", replace(whole_nodes(None), guarantee=2), team="blue"),
    )
    blue = [running(f"blue-{each[1]}{each[3]}", each, "blue") for each in ("n0/0", "n0/1", "n1/0", "n1/1")]
    assert len(victims(decide(cluster(*blue, quotas=quotas), priority=0))) == 1
    assert victims(decide(cluster(*blue, quotas=quotas), priority=0, count=2)) == []  # of one node


def test_pods_that_give_up_no_node_are_reclaimed_whatever_nodes_their_quota_lacks() -> None:
    """With a guarantee of three nodes it has one too few, and others of it keep both that it has in use."""
    for guarantee in (2, 3):
        quotas = (
            quota("red", devices(guarantee=4), team="red"),
            quota("blue", replace(whole_nodes(None), guarantee=guarantee), team="blue"),
        )
        blue = [running(f"blue-{each[1]}{each[3]}", each, "blue") for each in ("n0/0", "n0/1", "n1/0", "n1/1")]
        assert victims(decide(cluster(*blue, quotas=quotas), priority=0)) == ["blue-00"]
