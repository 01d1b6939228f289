"""What is held of quotas in the shell: sums that need no counting, and nothing left of what is gone."""

from collections.abc import Callable, Iterable

from msgspec.structs import replace

from scheduler.change import Change, Kind
from scheduler.cluster import Cluster
from scheduler.cluster.quota_usage import QuotaUsage
from solver.domain import Claim, ClaimCharge, ClaimId, LabelSelector, Namespace, QuotaKey
from tests.support import builders as b
from tests.support.cluster_builders import show
from tests.support.quota_cases import devices, quota, whole_nodes
from tests.support.work import counted

GPU, NODES = QuotaKey("gpu"), QuotaKey("gpu", shape="wholeNodes")
EVERYBODY = LabelSelector()


def held(namespace: str, name: str, node: str = "n0") -> Claim:
    """A claim with one device, whose request names the class."""
    claim = b.held(name, b.result("r", name, node), node_name=node, namespace=namespace)
    return replace(claim, requests=(b.request("r", "gpu"),))


def charge(claim: Claim, *counts: tuple[QuotaKey, int, str]) -> ClaimCharge:
    """What the worker says of a claim."""
    assert claim.allocation is not None
    return ClaimCharge(claim=claim.id, devices=tuple(each.device for each in claim.allocation.results), counts=counts)


def cluster_of_namespaces(count: int) -> Cluster:
    """All namespaces have one quota; each holds one device."""
    cluster = Cluster()
    for n in range(count):
        show(cluster, Namespace(name=f"ns{n}"))
    one = replace(quota("all", devices(10_000), whole_nodes(10_000)), selector=EVERYBODY)
    cluster.apply(Change(kind=Kind.QUOTAS, key="all", value=one))
    show(cluster, [held(f"ns{n}", f"c{n}", f"n{n}") for n in range(count)])
    return cluster


def fleet_counted(cluster: Cluster, charges: Iterable[ClaimCharge] = ()) -> None:
    """The worker has counted the fleet."""
    usage = cluster.quota_usage()
    usage.learn_unknown(charges)
    usage.forget_unused(cluster.store.assumed_claims)


def work(act: Callable[[], object]) -> int:
    act()
    with counted() as found:
        act()
    return found.lines


def test_what_a_quota_holds_costs_the_same_however_many_namespaces_it_has() -> None:
    costs = []
    for count in (20, 400):
        usage = cluster_of_namespaces(count).quota_usage()
        assert (usage.held(0, GPU), usage.held(0, NODES)) == (count, 0)  # nodes are known once the worker says them

        def compared(usage: QuotaUsage = usage) -> None:
            assert list(usage.exceeded([ClaimId("ns1", "c1")])) == []

        costs.append(work(compared))
    assert costs[0] == costs[1]


def test_sums_follow_the_tree() -> None:
    cluster = cluster_of_namespaces(3)
    usage = cluster.quota_usage()
    usage.learn([charge(held("ns0", "c0", "n0"), (GPU, 1, ""), (NODES, 1, "n0"))])
    usage.learn([charge(held("ns1", "c1", "n1"), (GPU, 1, ""), (NODES, 1, "n0"))])
    assert (usage.held(0, GPU), usage.held(0, NODES)) == (3, 1)

    cluster.apply(Change(kind=Kind.QUOTAS, key="all", value=quota("all", devices(9), whole_nodes(9), team="red")))
    assert cluster.quota_usage().held(0, GPU) == 0
    show(cluster, Namespace(name="ns1", labels=(("team", "red"),)))
    usage = cluster.quota_usage()
    assert (usage.held(0, GPU), usage.held(0, NODES)) == (1, 1)
    show(cluster, replace(held("ns1", "c1", "n1"), allocation=None))
    assert (usage.held(0, GPU), usage.held(0, NODES)) == (0, 0)


def test_nothing_is_left_of_claims_and_namespaces_that_are_gone() -> None:
    cluster = cluster_of_namespaces(5)
    usage = cluster.quota_usage()
    size = _size(usage)
    for n in range(100):
        claim = held("ns0", f"later{n}", f"n{n}")
        show(cluster, claim)
        usage.learn([charge(claim, (GPU, 1, ""), (NODES, 1, f"n{n}"))])
        cluster.apply(Change(kind=Kind.CLAIMS, key=str(claim.id), value=None))
        fleet_counted(cluster, [charge(claim, (GPU, 1, ""))])  # the worker has seen it, and says so late
        usage.learn([charge(claim, (GPU, 1, ""))])
    for _ in range(2):
        fleet_counted(cluster)
    assert _size(usage) == size
    assert usage.held(0, GPU) == 5


def test_what_the_worker_says_of_a_claim_that_is_to_be_made_is_kept_until_it_is() -> None:
    cluster = cluster_of_namespaces(1)
    new = held("ns0", "new")
    cluster.quota_usage().learn([charge(new, (GPU, 4, ""))])
    fleet_counted(cluster)
    show(cluster, new)
    for _ in range(3):
        fleet_counted(cluster)
    assert cluster.quota_usage().held(0, GPU) == 1 + 4


def _size(usage: QuotaUsage) -> int:
    """Count the entries of everything that it keeps."""
    parts = [vars(usage)[name] for name in sorted(vars(usage))]
    return sum(len(each) for each in parts if isinstance(each, dict | set)) + sum(
        len(inner) for each in parts if isinstance(each, dict) for inner in each.values() if isinstance(inner, dict)
    )
