"""What is held of quotas in the shell: sums that need no counting, and nothing left of what is gone."""

from collections.abc import Callable, Iterable

import pytest
from msgspec.structs import replace

from scheduler.change import Change, Kind
from scheduler.cluster import Cluster
from scheduler.cluster.quota_usage import QuotaUsage
from solver.domain import Claim, ClaimCharge, ClaimId, LabelSelector, Namespace, QuotaCharges, QuotaKey, QuotaResource
from solver.domain.quantity import NANO
from tests.support import builders as b
from tests.support.cluster_builders import show
from tests.support.quota_cases import devices, memory, quota, whole_nodes
from tests.support.work import counted

GPU, NODES = QuotaKey("gpu"), QuotaKey("gpu", shape="wholeNodes")
MEMORY = QuotaKey("gpu", capacity="memory")
EVERY = (GPU, MEMORY, NODES)
EVERYBODY = LabelSelector()


def held(namespace: str, name: str, node: str = "n0") -> Claim:
    """A claim with one device, whose request names the class."""
    claim = b.held(name, b.result("r", name, node), node_name=node, namespace=namespace)
    return replace(claim, requests=(b.request("r", "gpu"),))


def charge(claim: Claim, *counts: tuple[QuotaKey, int, str]) -> ClaimCharge:
    """What the worker says of a claim."""
    assert claim.allocation is not None
    return ClaimCharge(claim=claim.id, devices=tuple(each.device for each in claim.allocation.results), counts=counts)


def said(*claims: ClaimCharge, keys: tuple[QuotaKey, ...] = (GPU, NODES)) -> QuotaCharges:
    """An answer of the worker."""
    return QuotaCharges(keys=keys, claims=claims)


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
    usage.learn_unknown(said(*charges))
    usage.forget_unused(cluster.store.assumed_claims)


def work(act: Callable[[], object]) -> int:
    act()
    with counted() as found:
        act()
    return found.lines


def test_what_a_quota_holds_costs_the_same_however_many_namespaces_it_has() -> None:
    costs = []
    for count in (20, 400):
        cluster = cluster_of_namespaces(count)
        usage = cluster.quota_usage()
        assert (usage.held(0, GPU), usage.held(0, NODES)) == (count, 0)  # nodes are known once the worker says them
        usage.learn(said(*(charge(each, (GPU, 1, "")) for each in cluster.store.assumed_claims.values())))

        def compared(usage: QuotaUsage = usage) -> None:
            assert list(usage.exceeded([ClaimId("ns1", "c1")])) == []

        costs.append(work(compared))
    assert costs[0] == costs[1]


def test_sums_follow_the_tree() -> None:
    cluster = cluster_of_namespaces(3)
    usage = cluster.quota_usage()
    usage.learn(said(charge(held("ns0", "c0", "n0"), (GPU, 1, ""), (NODES, 1, "n0"))))
    usage.learn(said(charge(held("ns1", "c1", "n1"), (GPU, 1, ""), (NODES, 1, "n0"))))
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
        usage.learn(said(charge(claim, (GPU, 1, ""), (NODES, 1, f"n{n}"))))
        cluster.apply(Change(kind=Kind.CLAIMS, key=str(claim.id), value=None))
        fleet_counted(cluster, [charge(claim, (GPU, 1, ""))])  # the worker has seen it, and says so late
        usage.learn(said(charge(claim, (GPU, 1, ""))))
    for _ in range(2):
        fleet_counted(cluster)
    assert _size(usage) == size
    assert usage.held(0, GPU) == 5


def test_what_the_worker_says_of_a_claim_that_is_to_be_made_is_kept_until_it_is() -> None:
    cluster = cluster_of_namespaces(1)
    new = held("ns0", "new")
    cluster.quota_usage().learn(said(charge(new, (GPU, 4, ""))))
    fleet_counted(cluster)
    show(cluster, new)
    for _ in range(3):
        fleet_counted(cluster)
    assert cluster.quota_usage().held(0, GPU) == 1 + 4


def one_limit(*resources: QuotaResource) -> tuple[Cluster, Claim]:
    """One namespace, whose quota has limits, and a claim of its own that counts one of each."""
    cluster, own = Cluster(), held("ns0", "own")
    show(cluster, Namespace(name="ns0"))
    cluster.apply(Change(kind=Kind.QUOTAS, key="all", value=replace(quota("all", *resources), selector=EVERYBODY)))
    show(cluster, own)
    cluster.quota_usage().learn(said(charge(own, (GPU, 1, ""), (MEMORY, 1, ""), (NODES, 1, "n0")), keys=EVERY))
    return cluster, own


@pytest.mark.parametrize(
    ("resource", "key", "says"),
    [
        pytest.param(devices(2), GPU, "", id="room for both"),
        pytest.param(devices(1), GPU, "not known yet for devices of class gpu", id="devices"),
        pytest.param(whole_nodes(1), NODES, "not known yet for nodes with devices of class gpu", id="nodes"),
        pytest.param(memory(100), MEMORY, "not known yet for", id="any amount of a capacity"),
    ],
)
def test_a_limit_counts_what_a_claim_may_hold_that_the_worker_has_not_spoken_of(
    resource: QuotaResource, key: QuotaKey, says: str
) -> None:
    """Another scheduler allocates by another class of the same device while a decision is made."""
    cluster, own = one_limit(resource)
    usage = cluster.quota_usage()
    assert list(usage.exceeded((own.id,))) == []
    other = replace(held("ns0", "other", "n1"), requests=(b.request("r", "another-name"),))
    show(cluster, other)
    found = list(usage.exceeded((own.id,)))
    assert [says in each for each in found] == ([True] if says else [])
    usage.learn(said(charge(other), keys=EVERY))
    assert list(usage.exceeded((own.id,))) == []
    usage.learn(said(charge(other, (key, 1000 * NANO, "n1" if key is NODES else "")), keys=EVERY))
    assert len(list(usage.exceeded((own.id,)))) == 1


def test_what_was_said_before_a_quota_counts_something_else_says_nothing_of_that() -> None:
    cluster, own = one_limit(devices(1))
    other = replace(quota("all", devices(1), whole_nodes(0)), selector=EVERYBODY)
    cluster.quota_usage().learn(said(charge(own, (GPU, 1, ""))))
    cluster.quota_usage().learn(said(charge(own, (GPU, 1, "")), keys=(GPU,)))
    cluster.apply(Change(kind=Kind.QUOTAS, key="all", value=other))
    (found,) = cluster.quota_usage().exceeded((own.id,))
    assert "not known yet for nodes with devices of class gpu" in found
    fleet_counted(cluster, [charge(own, (GPU, 1, ""), (NODES, 1, "n0"))])
    (found,) = cluster.quota_usage().exceeded((own.id,))
    assert "its limit is 0" in found


def test_a_namespace_that_comes_costs_its_own_claims_and_no_others() -> None:
    costs = []
    for count in (20, 400):
        cluster = cluster_of_namespaces(4)
        show(cluster, [held("ns0", f"more{n}") for n in range(count)])
        cluster.quota_usage()

        def comes(cluster: Cluster = cluster) -> None:
            cluster.apply(Change(kind=Kind.NAMESPACES, key="new", value=Namespace(name="new")))
            cluster.quota_usage()
            cluster.apply(Change(kind=Kind.NAMESPACES, key="new", value=None))
            cluster.quota_usage()

        costs.append(work(comes))
    assert costs[0] == costs[1]


def test_a_namespace_that_is_not_known_gets_nothing_and_counts_for_every_limit_until_it_is() -> None:
    cluster, own = one_limit(devices(2))
    theirs = [held("new", f"their{n}") for n in range(2)]
    show(cluster, theirs)
    usage = cluster.quota_usage()
    assert [each for each in usage.exceeded((theirs[0].id,)) if "does not show namespace new" in each]
    (found,) = usage.exceeded((own.id,))
    assert "3 devices of class gpu would be held, its limit is 2" in found
    assert usage.held(0, GPU) == 1  # what it says of itself is what is known
    assert usage.sharing("new") == ("ns0",)
    assert usage.quota_of("new") not in {usage.quota_of("ns0"), usage.quota_of("other"), ""}

    show(cluster, Namespace(name="new"))
    assert cluster.quota_usage().held(0, GPU) == 3


def test_where_a_namespace_turns_out_to_have_no_quota_its_claims_count_no_more() -> None:
    cluster, own = one_limit(devices(1))
    cluster.apply(Change(kind=Kind.QUOTAS, key="all", value=quota("all", devices(1), team="red")))
    show(cluster, Namespace(name="ns0", labels=(("team", "red"),)))
    theirs = held("new", "theirs")
    show(cluster, theirs)
    assert len(list(cluster.quota_usage().exceeded((own.id,)))) == 1
    show(cluster, Namespace(name="new"))
    cluster.quota_usage().learn(said(charge(theirs, (GPU, 1, "")), charge(own, (GPU, 1, "")), keys=EVERY))
    assert list(cluster.quota_usage().exceeded((own.id, theirs.id))) == []


def test_what_runs_in_a_namespace_that_is_deleted_counts_for_every_limit_until_it_ends() -> None:
    cluster, own = one_limit(devices(2))
    left = [held("old", f"left{n}") for n in range(2)]
    show(cluster, Namespace(name="old", labels=(("team", "nobody"),)), left)
    other = replace(quota("all", devices(2)), selector=EVERYBODY)
    cluster.apply(Change(kind=Kind.QUOTAS, key="all", value=other))
    cluster.apply(Change(kind=Kind.NAMESPACES, key="old", value=None))
    (found,) = cluster.quota_usage().exceeded((own.id,))
    assert "3 devices" in found
    for each in left:
        cluster.apply(Change(kind=Kind.CLAIMS, key=str(each.id), value=None))
    assert list(cluster.quota_usage().exceeded((own.id,))) == []


def test_nodes_of_a_namespace_that_is_not_known_count() -> None:
    cluster, own = one_limit(whole_nodes(1))
    theirs = held("new", "theirs", "n1")
    show(cluster, theirs)
    assert any("not known yet" in each for each in cluster.quota_usage().exceeded((own.id,)))
    cluster.quota_usage().learn(said(charge(theirs, (NODES, 1, "n1")), keys=EVERY))
    (found,) = cluster.quota_usage().exceeded((own.id,))
    assert found.startswith("DeviceQuota all: 2 nodes")


def test_on_a_node_that_is_in_use_claims_add_no_node_however_many_others_use() -> None:
    """The solver allows it as well: a unit that is refused here would be decided again and again."""
    cluster, own = one_limit(whole_nodes(1))
    others = held("ns0", "beside", "n0"), held("ns0", "elsewhere", "n1")
    show(cluster, list(others))
    usage = cluster.quota_usage()
    usage.learn(said(*(charge(each, (NODES, 1, n)) for each, n in zip(others, ("n0", "n1"), strict=True)), keys=EVERY))
    assert list(usage.exceeded((own.id,))) == []
    assert len(list(usage.exceeded((others[1].id,)))) == 1


def test_a_namespace_that_moves_to_another_quota_before_the_write_counts_for_that_one() -> None:
    cluster, own = one_limit(devices(1))
    full = quota("full", devices(1), team="full")
    cluster.apply(Change(kind=Kind.QUOTAS, key="all", value=quota("all", devices(1), team="own")))
    cluster.apply(Change(kind=Kind.QUOTAS, key="full", value=full))
    show(cluster, Namespace(name="ns0", labels=(("team", "own"),)))
    theirs = held("ns1", "theirs")
    show(cluster, Namespace(name="ns1", labels=(("team", "full"),)), theirs)
    cluster.quota_usage().learn(said(charge(theirs, (GPU, 1, "")), charge(own, (GPU, 1, "")), keys=EVERY))
    assert list(cluster.quota_usage().exceeded((own.id,))) == []

    show(cluster, Namespace(name="ns0", labels=(("team", "full"),)))
    (found,) = cluster.quota_usage().exceeded((own.id,))
    assert found == "DeviceQuota full: 2 devices of class gpu would be held, its limit is 1"


def _size(usage: QuotaUsage) -> int:
    """Count the entries of everything that it keeps."""
    parts = [vars(usage)[name] for name in sorted(vars(usage))]
    return sum(len(each) for each in parts if isinstance(each, dict | set)) + sum(
        len(inner) for each in parts if isinstance(each, dict) for inner in each.values() if isinstance(inner, dict)
    )
