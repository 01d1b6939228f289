"""A plan that was made aside is stale where something has changed that its selectors read."""

from collections.abc import Callable

import pytest
from msgspec.structs import replace

from scheduler.change import Object
from scheduler.cluster import Cluster
from scheduler.worker.evaluated_objects import are_selectors_settled
from solver import solve_greedily
from solver.domain import AllocationMode, Node, Policy, Request, SubRequest
from tests.support.builders import batch, claim, device_class, gpu_class, gpu_slice, node, pod
from tests.support.cluster_builders import gone, seen
from tests.support.solver_problems import PATIENT

POD, HERE, ELSEWHERE = pod("p", "c"), gpu_slice("n1", count=2), gpu_slice("n2", count=2)
NODE = node("n1", cpu=8)
Change = Callable[[Cluster], object]


def asked(mode: AllocationMode) -> Request:
    wanted = SubRequest(
        device_class=gpu_class().name, selectors=('device.driver != ""',), allocation_mode=mode, count=1
    )
    return Request(name="gpu", alternatives=(wanted,))


def shows(*objects: Object) -> Change:
    return lambda cluster: [cluster.apply(seen(each)) for each in objects]


def is_settled_after(change: Change, mode: AllocationMode = AllocationMode.EXACT_COUNT) -> bool:
    cluster = Cluster()
    shows(NODE, gpu_class(), claim("c", asked(mode)), POD, HERE, ELSEWHERE)(cluster)
    before = cluster.snapshot()
    plan = solve_greedily(before, batch(POD), Policy(), PATIENT)
    assert plan.allocations
    change(cluster)
    return are_selectors_settled(before, cluster.snapshot(), plan)


OTHER_MODEL = replace(HERE, devices=tuple(replace(each, attributes=()) for each in HERE.devices))
MORE_HERE = replace(gpu_slice("n1", count=1), name="more", pool="more")
MOVED: Node = replace(NODE, labels=(("zone", "b"),))


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda _: None, id="nothing"),
        pytest.param(shows(pod("q")), id="another pod"),
        pytest.param(shows(claim("d")), id="another claim"),
        pytest.param(shows(replace(ELSEWHERE, generation=2)), id="another pool"),
        pytest.param(shows(MORE_HERE), id="more devices there"),
    ],
)
def test_it_stands_while_that_is_the_same(change: Change) -> None:
    assert is_settled_after(change)


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(shows(OTHER_MODEL), id="the device"),
        pytest.param(shows(OTHER_MODEL, replace(HERE)), id="the device, and back"),
        pytest.param(lambda cluster: cluster.apply(gone(HERE)), id="no device"),
        pytest.param(shows(replace(gpu_class(), selectors=("false",))), id="the class"),
        pytest.param(shows(device_class("another")), id="the classes"),
        pytest.param(lambda cluster: cluster.apply(gone(claim("c"))), id="no claim"),
        pytest.param(shows(replace(claim("c", asked(AllocationMode.EXACT_COUNT)), uid="new")), id="a claim made again"),
    ],
)
def test_it_is_stale_where_that_has_changed(change: Change) -> None:
    assert not is_settled_after(change)


@pytest.mark.parametrize("change", [shows(MORE_HERE), shows(MOVED)], ids=["more devices", "another place"])
def test_of_all_devices_there_may_be_others(change: Change) -> None:
    assert not is_settled_after(change, AllocationMode.ALL)
    assert is_settled_after(shows(replace(ELSEWHERE, generation=2)), AllocationMode.ALL)
