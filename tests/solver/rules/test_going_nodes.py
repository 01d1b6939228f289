"""Nodes that are about to go: no new pod is placed there unless it names the taint or belongs to the node."""

import pytest
from msgspec.structs import replace

from solver import solve, verify
from solver.domain import GOING_TAINTS, Budget, Controller, Node, Pod, Policy, Toleration
from tests.support import builders as b

EVERYTHING = Toleration(operator="Exists")
DAEMON_SET = Controller(kind="DaemonSet", uid="d")


def going(key: str, effect: str = "NoSchedule") -> Node:
    return b.node("going", taints=(b.taint(key, effect=effect),))


def placed(pod: Pod, *nodes: Node) -> list[str]:
    snapshot = b.snapshot(*nodes)
    plan = solve(snapshot, b.batch(pod), Policy(), Budget.unbounded())
    assert verify.check(snapshot, b.batch(pod), plan, Policy()) == ()
    return [each.node for each in plan.placements]


@pytest.mark.parametrize("key", sorted(GOING_TAINTS))
def test_a_toleration_of_everything_does_not_open_a_node_that_goes(key: str) -> None:
    pod = replace(b.pod("p", cpu=1), tolerations=(EVERYTHING,))
    assert placed(pod, going(key)) == []
    assert placed(pod, going("team")) == ["going"]


@pytest.mark.parametrize("key", sorted(GOING_TAINTS))
def test_a_pod_that_names_the_taint_and_a_daemon_set_s_pod_run_there(key: str) -> None:
    named = replace(b.pod("p", cpu=1), tolerations=(b.toleration(key),))
    daemon = replace(b.pod("d", cpu=1), tolerations=(EVERYTHING,), controller=DAEMON_SET)
    assert (placed(named, going(key)), placed(daemon, going(key))) == (["going"], ["going"])


def test_a_daemon_set_s_pod_that_does_not_tolerate_everything_stays_away() -> None:
    daemon = replace(b.pod("d", cpu=1), tolerations=(b.toleration("team"),), controller=DAEMON_SET)
    assert placed(daemon, going("karpenter.sh/disrupted")) == []


def test_a_candidate_of_the_cluster_autoscaler_is_the_last_choice() -> None:
    candidate = going("DeletionCandidateOfClusterAutoscaler", effect="PreferNoSchedule")
    pod = replace(b.pod("p", cpu=1), tolerations=(EVERYTHING,))
    assert placed(pod, candidate, b.node("other")) == ["other"]
    assert placed(pod, candidate) == ["going"]


def test_a_gang_is_not_cut_by_a_node_that_goes() -> None:
    """Two of three nodes are left for three pods that fill a node each: none starts."""
    nodes = [b.node("n1", cpu=2), b.node("n2", cpu=2), replace(going("ToBeDeletedByClusterAutoscaler"), name="n3")]
    pods = [replace(b.member(b.pod(f"p{at}", cpu=2), "g"), tolerations=(EVERYTHING,)) for at in range(3)]
    snapshot, batch = b.snapshot(nodes), b.batch(*pods, gangs=[b.gang("g", 3, members=3)])
    plan = solve(snapshot, batch, Policy(), Budget.unbounded())
    assert plan.placements == ()


def test_the_checker_refuses_a_place_on_a_node_that_has_begun_to_go() -> None:
    """As right before the write: the taint came after the decision."""
    pod = replace(b.pod("p", cpu=1), tolerations=(EVERYTHING,))
    plan = solve(b.snapshot(b.node("going")), b.batch(pod), Policy(), Budget.unbounded())
    (violation,) = verify.check(b.snapshot(going("karpenter.sh/disrupted")), b.batch(pod), plan, Policy())
    assert "karpenter.sh/disrupted" in violation.message
