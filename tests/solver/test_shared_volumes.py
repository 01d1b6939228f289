"""Pods that share a claim without volume, gangs and others, go in one plan where its one volume can be reached."""

from collections.abc import Iterator, Sequence

import pytest
from msgspec.structs import replace

from solver import solve, solve_greedily
from solver.domain import Batch, CSINode, Gang, Plan, Pod, Policy, Snapshot
from solver.rules.volumes import shared_claims
from solver.rules.volumes.nodes import VolumeIndex
from solver.verify import check
from tests.support.builders import batch, gang, member, node, pod, snapshot
from tests.support.solver_problems import PATIENT, inventory
from tests.support.volume_builders import (
    DYNAMIC,
    HOST,
    storage_class,
    using,
    volume,
    volume_claim,
    with_storage,
)

DRIVER = "csi.example.com"
ZONE = "topology.example.com/zone"
NODES = {"a1": "a", "a2": "a", "b1": "b", "b2": "b", "b3": "b"}
EVERY = ("ReadWriteMany",)
MADE = volume_claim("data", storage=DYNAMIC, modes=EVERY)
FOUND = volume_claim("data", modes=EVERY)


def cluster(*objects: object) -> Snapshot:
    """Make five nodes in two zones, each with room for one pod."""
    nodes = (node(name, cpu=1, labels={HOST: name, ZONE: zone}) for name, zone in NODES.items())
    classes = (storage_class(), storage_class(DYNAMIC, DRIVER))
    return with_storage(snapshot(*nodes), *classes, *objects)  # type: ignore[arg-type]  # storage alone


def says(*keys: str) -> list[CSINode]:
    """Let the nodes say which labels decide what they reach of the driver."""
    return [CSINode(node=name, topology_keys=((DRIVER, keys),)) for name in NODES]


def crew(name: str, count: int, *claims: str) -> tuple[Pod, ...]:
    """Make members of a gang that share claims, each with one of its own if `{}` stands in its name."""
    made = (using(pod(f"{name}-{i}", cpu=1), *(each.format(i) for each in claims)) for i in range(count))
    return tuple(member(each, name) for each in made)


def pods(count: int, *claims: str) -> tuple[Pod, ...]:
    return tuple(using(pod(f"p-{i}", cpu=1), *claims) for i in range(count))


def decide(stand: Snapshot, *asked: Pod, gangs: Sequence[Gang] = ()) -> Plan:
    """Solve, and check the plan and the greedy one."""
    both: Batch = batch(*asked, gangs=gangs)
    plan = solve(stand, both, Policy(), PATIENT)
    assert check(stand, both, plan) == ()
    assert check(stand, both, solve_greedily(stand, both, Policy(), PATIENT)) == ()
    return plan


def nodes_of(plan: Plan) -> list[str]:
    return sorted(each.node for each in plan.placements)


def ends(plan: Plan) -> set[tuple[str, str]]:
    """Give volume and selected node of everything that becomes of claims."""
    return {(found.volume, found.made_on(each.node)) for each in plan.placements for found in each.volumes}


def test_a_gang_goes_where_one_of_the_volumes_serves_all_of_it() -> None:
    volumes = [volume("narrow", nodes=["a1", "a2"], modes=EVERY), volume("wide", nodes=["b1", "b2", "b3"], modes=EVERY)]
    plan = decide(cluster(FOUND, *volumes), *crew("g", 3, "data"), gangs=[gang("g", 3)])
    assert nodes_of(plan) == ["b1", "b2", "b3"]
    assert ends(plan) == {("wide", "")}
    assert all(each.volumes for each in plan.placements)


def test_a_gang_that_no_volume_serves_as_a_whole_waits() -> None:
    volumes = [volume(f"v-{name}", nodes=[name], modes=EVERY) for name in NODES]
    plan = decide(cluster(FOUND, *volumes), *crew("g", 2, "data"), gangs=[gang("g", 2)])
    assert plan.placements == ()
    assert "(in nodes of volume claim data: volume v-" in plan.unplaced[0].reasons[0].message


@pytest.mark.parametrize(
    ("keys", "count", "placed"),
    [
        pytest.param((ZONE,), 3, 3, id="as many as a zone has room for"),
        pytest.param((ZONE,), 4, 0, id="more than a zone has room for"),
        pytest.param((), 5, 5, id="a driver that is reached from everywhere"),
        pytest.param((HOST,), 2, 0, id="a driver that is reached from the node alone"),
        pytest.param(("example.com/none",), 2, 0, id="nodes without the label"),
    ],
)
def test_a_gang_goes_where_all_of_it_reaches_what_is_made(keys: tuple[str, ...], count: int, placed: int) -> None:
    plan = decide(cluster(MADE, *says(*keys)), *crew("g", count, "data"), gangs=[gang("g", count)])
    assert len(plan.placements) == placed
    if placed:
        ((name, selected),) = ends(plan)
        assert (name, selected in nodes_of(plan)) == ("", True)


def test_nothing_is_known_of_what_an_unknown_provisioner_makes() -> None:
    plan = decide(cluster(MADE), *crew("g", 2, "data"), gangs=[gang("g", 2)])
    assert plan.placements == ()
    assert "volume claim data: one made for node" in plan.unplaced[0].reasons[0].message


def test_a_node_that_is_selected_already_leads_the_gang_to_its_zone() -> None:
    selected = volume_claim("data", storage=DYNAMIC, modes=EVERY, selected="a1")
    plan = decide(cluster(selected, *says(ZONE)), *crew("g", 2, "data"), gangs=[gang("g", 2)])
    assert nodes_of(plan) == ["a1", "a2"]
    assert ends(plan) == {("", "a1")}
    alone = decide(cluster(selected, *says(ZONE)), using(pod("p", cpu=1), "data"))
    assert nodes_of(alone) == ["a1"]


def test_a_volume_that_is_kept_for_the_claim_leads_the_gang_to_it() -> None:
    kept = replace(volume("kept", nodes=["b1", "b2"], modes=EVERY, claim=FOUND), phase="Available")
    other = volume("other", nodes=["a1", "a2"], modes=EVERY)
    plan = decide(cluster(FOUND, kept, other), *crew("g", 2, "data"), gangs=[gang("g", 2)])
    assert nodes_of(plan) == ["b1", "b2"]
    assert ends(plan) == {("kept", "")}


def test_pods_of_no_gang_that_share_a_claim_come_together_as_far_as_one_volume_goes() -> None:
    plan = decide(cluster(MADE, *says(ZONE)), *pods(4, "data"))
    assert nodes_of(plan) == ["b1", "b2", "b3"]
    assert len(ends(plan)) == 1
    (waiting,) = plan.unplaced
    assert waiting.reasons[0].code == "Outranked"


def test_of_two_gangs_that_share_a_claim_one_goes_first() -> None:
    asked = (*crew("g", 1, "data"), *crew("h", 2, "data"))
    plan = decide(cluster(MADE, *says()), *asked, gangs=[gang("g", 1), gang("h", 2)])
    assert {each.pod.name for each in plan.placements} == {"h-0", "h-1"}
    (waiting,) = plan.unplaced
    assert waiting.reasons[0].code == "Outranked"


def test_a_gang_that_shares_a_claim_with_a_pod_of_none_does_not_wait_for_it() -> None:
    plan = decide(cluster(MADE, *says()), *crew("g", 2, "data"), *pods(1, "data"), gangs=[gang("g", 2)])
    assert {each.pod.name for each in plan.placements} == {"g-0", "g-1"}


def test_members_share_one_volume_and_have_their_own() -> None:
    volumes = [
        volume("shared", "20Gi", nodes=["b1", "b2", "b3"], modes=EVERY),
        *(volume(f"v-{name}", nodes=[name]) for name in NODES),
    ]
    large = volume_claim("data", "20Gi", modes=EVERY)
    own = [volume_claim(f"own-{i}") for i in range(3)]
    plan = decide(cluster(large, *own, *volumes), *crew("g", 3, "data", "own-{}"), gangs=[gang("g", 3)])
    assert nodes_of(plan) == ["b1", "b2", "b3"]
    assert ends(plan) == {("shared", ""), ("v-b1", ""), ("v-b2", ""), ("v-b3", "")}


def test_members_without_the_claim_go_anywhere() -> None:
    asked = (*crew("g", 2, "data"), member(pod("launcher", cpu=1), "g"))
    plan = decide(cluster(FOUND, volume("v", nodes=["a1", "a2"], modes=EVERY)), *asked, gangs=[gang("g", 3)])
    assert nodes_of(plan)[:2] == ["a1", "a2"]
    assert len(plan.placements) == 3


def test_a_shared_claim_takes_one_volume_however_many_pods_share_it() -> None:
    other = volume_claim("other", modes=EVERY)
    volumes = [volume(f"v{i}", nodes=["b1", "b2", "b3"], modes=EVERY) for i in range(2)]
    plan = decide(cluster(FOUND, other, *volumes), *pods(2, "data"), using(pod("q", cpu=1), "other"))
    assert nodes_of(plan) == ["b1", "b2", "b3"]
    assert ends(plan) == {("v0", ""), ("v1", "")}


def test_a_static_volume_is_taken_before_one_is_made_where_it_serves_all() -> None:
    there = volume("there", nodes=["a1", "a2"], storage=DYNAMIC, modes=EVERY)
    plan = decide(cluster(MADE, there, *says(ZONE)), *crew("g", 2, "data"), gangs=[gang("g", 2)])
    assert len(plan.placements) == 2
    assert ends(plan) == {("there", "")} if set(nodes_of(plan)) == {"a1", "a2"} else len(ends(plan)) == 1


def test_of_two_shared_claims_that_want_the_same_volume_one_gets_it() -> None:
    """Also where a group of the basic policy has the pods of both: it does not tie them together."""
    other = volume_claim("other", modes=EVERY)
    rest = tuple(member(using(pod(f"q-{i}", cpu=1), "other"), "g") for i in range(2))
    stand = cluster(FOUND, other, volume("only", nodes=["b1", "b2", "b3"], modes=EVERY))
    plan = decide(stand, *crew("g", 2, "data"), *rest, gangs=[gang("g", 0)])
    assert len(plan.placements) >= 1
    assert ends(plan) == {("only", "")}
    assert {each.reasons[0].code for each in plan.unplaced} >= {"VolumeContended"}


class Looked(dict[str, int]):
    """Nodes by name that count how often one of them is looked at."""

    count = 0

    def items(self) -> Iterator[tuple[str, int]]:  # type: ignore[override]  # only what is iterated over
        for pair in super().items():
            self.count += 1
            yield pair


def test_nodes_that_stand_alone_are_named_without_a_search_for_each() -> None:
    stand = with_storage(snapshot(*(node(f"n{i}") for i in range(40))), storage_class(DYNAMIC, DRIVER), MADE)
    both = batch(*pods(2, "data"))
    store = VolumeIndex.of(stand, both, inventory(stand.nodes).reaches.index)
    assert store is not None
    known = store.supply.node_index = Looked(store.supply.node_index)
    (rule,) = shared_claims.with_shared_claims((), (shared_claims.VolumeSharer(0, 0, 2, None, (MADE.id,)),), store)
    assert sorted(rule.levels[0].names) == sorted(f"one made for node n{i}" for i in range(40))
    assert known.count == len(known)
