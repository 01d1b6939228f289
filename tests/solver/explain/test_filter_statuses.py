"""Every node that cannot take a pod counts once, for the first filter of kube-scheduler's profile that fails there."""

from collections import Counter
from collections.abc import Sequence
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from solver.domain import Pod, Reason, ReasonCode
from solver.explain.filter_statuses import FilterPlugin, counted_by_filter, plugin_of
from solver.rules.affinity import nodes as affinity
from solver.rules.node_fit import values as node_fit
from solver.rules.ports import nodes as ports_nodes
from solver.rules.spread import nodes as spread
from solver.rules.taints.values import UNSCHEDULABLE, untolerated
from solver.rules.verdicts import ExcludedNodes
from solver.rules.volumes import values as volumes
from tests.support import builders as b
from tests.support import solver_problems as s
from tests.support.neighbour_builders import term

GPU, CLAIM = b.gpu_class(), b.claim("c")
CANNOT = "cannot allocate all claims"
INVALID = "invalid resource pools were encountered"
REASONS = (
    UNSCHEDULABLE,
    untolerated({b.taint("t"): 1}),
    node_fit.AFFINITY_MISMATCH,
    ports_nodes.TAKEN,
    node_fit.insufficient("cpu"),
    node_fit.insufficient("memory"),
    volumes.DISK_IN_USE,
    volumes.driver_missing("csi.example.com"),
    volumes.TOO_MANY,
    volumes.ELSEWHERE,
    volumes.NONE_TO_BIND,
    volumes.OTHER_ZONE,
    spread.UNLABELLED,
    spread.SKEWED,
    affinity.AFFINITY,
    affinity.ANTI_AFFINITY,
    affinity.EXISTING,
    node_fit.CLAIM_ON_OTHER_NODES,
    node_fit.FEATURES,
)
"""In the order of kube-scheduler's default profile, and of the checks of each plugin."""
_SEVERAL = (
    {"Insufficient cpu", "Insufficient memory"},
    {volumes.ELSEWHERE.message, volumes.NONE_TO_BIND.message},
)


def counted(objects: Sequence[s.Objects], *pods: Pod) -> list[str]:
    """Count the nodes for the last pod, as kube-scheduler writes them."""
    found = s.unplaced(s.plan(*objects, pods=pods), pods[-1].id.name)
    return sorted(f"{each.node_count} {each.counted_as}" for each in found.reasons if each.node_count)


def _expected(failing: set[int]) -> set[str]:
    """What kube-scheduler says of a node where these reasons hold, by hand."""
    if not failing:
        return set()
    first = REASONS[min(failing)]
    together = next((texts for texts in _SEVERAL if first.message in texts), {first.message})
    return {REASONS[each].counted_as for each in failing if REASONS[each].message in together}


@given(st.lists(st.sets(st.integers(0, len(REASONS) - 1)), min_size=1, max_size=6), st.randoms(use_true_random=False))
def test_a_node_has_the_reasons_of_its_first_failing_plugin(nodes: list[set[int]], random: Random) -> None:
    excluded = [
        ExcludedNodes(np.array([index in failing for failing in nodes]), reason) for index, reason in enumerate(REASONS)
    ]
    plugins = sorted({plugin_of(each.reason) for each in excluded})
    random.shuffle(plugins)
    excluded.sort(key=lambda each: plugins.index(plugin_of(each.reason)))
    found = Counter[str]()
    for each in counted_by_filter(excluded):
        found[each.counted_as] += each.node_count
    assert found == Counter(text for failing in nodes for text in _expected(failing))


@pytest.mark.parametrize("code", sorted(ReasonCode))
def test_every_code_has_a_plugin(code: ReasonCode) -> None:
    assert plugin_of(Reason(code=code, message="m")) in FilterPlugin


def test_a_node_without_cpu_and_without_devices_counts_for_its_cpu() -> None:
    objects = (b.node("n1", cpu="1"), b.node("n2"), GPU, CLAIM)
    assert counted(objects, b.pod("p", "c", cpu="4")) == ["1 Insufficient cpu", f"1 {CANNOT}"]


def test_a_node_lacks_several_resources_at_once() -> None:
    objects = (b.node("n1", cpu="1", memory="1Gi"),)
    assert counted(objects, b.pod("p", cpu="4", memory="4Gi")) == ["1 Insufficient cpu", "1 Insufficient memory"]


def test_what_the_node_lacks_goes_before_what_its_pods_forbid() -> None:
    apart = (term(app="x"),)
    runs = b.pod("runs", labels={"app": "x"}, node_name="n1", cpu="2")
    objects = (b.node("n1", cpu="2"), b.node("n2", cpu="1"), runs)
    assert counted(objects, replace(b.pod("p", cpu="2"), anti_affinity=apart)) == ["2 Insufficient cpu"]
    small = replace(b.pod("p"), anti_affinity=apart, node_selector=(("kubernetes.io/hostname", "n1"),))
    assert counted(objects, small) == [
        "1 node(s) didn't match Pod's node affinity/selector",
        "1 node(s) didn't match pod anti-affinity rules",
    ]


def test_the_features_that_a_node_declares_come_after_its_devices() -> None:
    nodes = (replace(b.node("n1"), declared_features=("F",)), b.node("n2"), b.node("n3"))
    objects = (*nodes, b.gpu_slice("n3", count=1), GPU, CLAIM)
    assert counted(objects, replace(b.pod("p", "c"), required_features=("F",))) == [
        "1 node(s) didn't match Pod's required features",
        f"2 {CANNOT}",
    ]


def test_a_node_with_an_invalid_pool_and_no_device_left_counts_for_the_pool() -> None:
    twice = b.resource_slice("n1", b.device("d"), b.device("d"))
    nodes = [b.node(f"n{index}") for index in range(1, 9)]
    objects: tuple[s.Objects, ...] = (nodes, twice, GPU, CLAIM)
    assert counted(objects, b.pod("p", "c")) == [f"1 {INVALID}", f"7 {CANNOT}"]


def test_invalid_pools_of_all_nodes_leave_nothing_else_to_count() -> None:
    slices = [b.resource_slice(f"n{index}", b.device("d"), b.device("d")) for index in range(1, 9)]
    nodes = [b.node(f"n{index}") for index in range(1, 9)]
    objects: tuple[s.Objects, ...] = (nodes, slices, GPU, CLAIM)
    assert counted(objects, b.pod("p", "c")) == [f"8 {INVALID}"]


def test_two_requests_that_fail_on_the_same_nodes_count_them_once() -> None:
    claim = b.claim("c", b.request("one"), b.request("two"))
    objects = (b.node("n1"), b.node("n2"), b.device_class("gpu", "false"), claim)
    assert counted(objects, b.pod("p", "c")) == [f"2 {CANNOT}"]


def test_a_pod_that_lost_counts_the_nodes_as_the_plan_leaves_them() -> None:
    objects = (b.node("n1", cpu="1"), b.node("n2"), b.gpu_slice("n2", count=1), GPU, b.claim("c"), b.claim("d"))
    pods = (b.pod("first", "c", cpu="2", priority=1), b.pod("last", "d", cpu="2"))
    assert counted(objects, *pods) == ["1 Insufficient cpu", f"1 {CANNOT}"]


OF_DEVICES = {
    *(code for code in ReasonCode if code.name.startswith(("CLAIM_", "CLASS_", "SELECTOR_", "DEVICES_", "POOL_"))),
}
OF_THE_POD_OR_THE_DECISION = {
    *(ReasonCode.POD_INVALID, ReasonCode.POD_NOT_CREATED, ReasonCode.NO_NODES, ReasonCode.VOLUME_CONTENDED),
    *(ReasonCode.VOLUME_CLAIM_MISSING, ReasonCode.VOLUME_CLAIM_UNUSABLE, ReasonCode.VOLUME_CLAIM_UNBOUND),
    *(ReasonCode.GANG_INCOMPLETE, ReasonCode.GANG_INVALID, ReasonCode.GANG_UNPLACED, ReasonCode.PREEMPTING),
    *(ReasonCode.GANG_BLOCKED, ReasonCode.NO_SHAPE, ReasonCode.NODE_LIMIT),
    *(
        ReasonCode.NO_VICTIMS,
        ReasonCode.PREEMPTION_DELAYED,
        ReasonCode.RESERVATION_PENDING,
        ReasonCode.OUTRANKED,
        ReasonCode.BUDGET,
    ),
    *(ReasonCode.TOO_COSTLY, ReasonCode.SOLVER_FAILED, ReasonCode.BINDING_FAILED, ReasonCode.VOLUME_BINDING_FAILED),
    *(ReasonCode.CONFLICT, ReasonCode.API_ERROR),
}


@pytest.mark.parametrize("code", sorted(set(ReasonCode) - OF_DEVICES - OF_THE_POD_OR_THE_DECISION))
def test_a_reason_that_is_not_about_devices_names_its_filter(code: ReasonCode) -> None:
    assert plugin_of(Reason(code=code, message="m")) is not FilterPlugin.DYNAMIC_RESOURCES


@pytest.mark.parametrize("code", sorted(OF_DEVICES))
def test_a_reason_about_devices_is_that_of_the_device_plugin(code: ReasonCode) -> None:
    assert plugin_of(Reason(code=code, message="m")) is FilterPlugin.DYNAMIC_RESOURCES
