"""Which binding a unit waits for, and what happens when that pod is not bound."""

import asyncio
from types import SimpleNamespace
from typing import cast

import pytest

from scheduler.cluster import Cluster, Unit, split_plan
from scheduler.commit.affinity.affinity_order import AffinityOrder
from scheduler.commit.commit import Commit
from scheduler.commit.local_taints import FailedDevices, LocalTaints
from scheduler.commit.prebind import PreBind, PreemptionBackoff
from scheduler.kube.client import Client
from scheduler.kube.writer import Writer
from scheduler.observe.metrics import Metrics
from scheduler.status.status_writer import StatusWriter
from solver.domain import Pod
from tests.support import builders as b
from tests.support.cluster_builders import cluster_of, seen, unit
from tests.support.idle_loop import until_idle
from tests.support.neighbour_builders import neighbour, term

NODES = [b.node(name, labels={"zone": zone, "host": name}) for name, zone in (("n1", "a"), ("n2", "a"), ("n3", "b"))]
STORE = neighbour("store", app="store")
WEB = neighbour("web", app="web", affinity=[term("zone", app="store")])


def placed(cluster: Cluster, pod: Pod, node: str) -> Unit:
    made = unit(b.placement(pod, node))
    cluster.assume(made)
    return made


async def begun(order: AffinityOrder, *units: Unit) -> list[list[str]]:
    await order.begin(units)
    return [[key.name for key, _ in order.dependencies(each)] for each in units]


async def test_a_pod_waits_for_the_binding_of_the_one_it_has_to_be_with() -> None:
    cluster = cluster_of(NODES, STORE, WEB)
    order = AffinityOrder(cluster)
    store, web = placed(cluster, STORE, "n1"), placed(cluster, WEB, "n2")
    await order.begin([store, web])
    waiting = asyncio.create_task(order.wait(order.dependencies(web), "default"))
    await asyncio.sleep(0)
    assert not waiting.done()

    order.end(store)

    assert await waiting == ()


async def test_it_is_not_bound_where_that_came_to_nothing() -> None:
    cluster = cluster_of(NODES, STORE, WEB)
    order = AffinityOrder(cluster)
    store, web = placed(cluster, STORE, "n1"), placed(cluster, WEB, "n2")
    await order.begin([store])
    await order.begin([web])
    order.end(store)
    cluster.forget(store)

    (reason,) = await order.wait(order.dependencies(web), "default")

    assert reason.message == "pod default/store, which the pod must run beside, was not bound"


@pytest.mark.parametrize(
    ("pod", "store_on", "web_on"),
    [
        pytest.param(WEB, "n3", "n1", id="another domain"),
        pytest.param(neighbour("web", affinity=[term("zone", app="other")]), "n1", "n1", id="another selector"),
        pytest.param(neighbour("web", affinity=[term("rack", app="store")]), "n1", "n1", id="no such label"),
        pytest.param(neighbour("web", app="web"), "n1", "n1", id="no affinity"),
    ],
)
async def test_a_unit_does_not_depend_on_a_pod_that_does_not_satisfy_it(pod: Pod, store_on: str, web_on: str) -> None:
    cluster = cluster_of(NODES, STORE, pod)
    order = AffinityOrder(cluster)
    assert await begun(order, placed(cluster, STORE, store_on), placed(cluster, pod, web_on)) == [[], []]


async def test_a_unit_that_a_running_pod_satisfies_has_no_dependency() -> None:
    running = neighbour("old", on="n2", app="store")
    cluster = cluster_of(NODES, STORE, WEB, running)
    order = AffinityOrder(cluster)
    assert await begun(order, placed(cluster, STORE, "n1"), placed(cluster, WEB, "n2")) == [[], []]


async def test_pods_that_have_to_be_with_each_other_wait_for_the_first_only() -> None:
    pods = [neighbour(name, app="web", affinity=[term("zone", app="web")]) for name in ("w1", "w2", "w3")]
    cluster = cluster_of(NODES, pods)
    order = AffinityOrder(cluster)
    assert await begun(order, *(placed(cluster, each, "n1") for each in pods)) == [[], ["w1"], ["w1"]]


def needs(name: str, on: str) -> Pod:
    return neighbour(name, app=name, affinity=[term("zone", app=on)])


@pytest.mark.parametrize(
    ("pods", "expected"),
    [
        pytest.param([needs("a", "b"), needs("b", "store"), STORE], [["b"], ["store"], []], id="a chain"),
        pytest.param([needs("a", "b"), needs("b", "c"), needs("c", "b")], [["b"], [], ["b"]], id="on a cycle"),
        pytest.param([needs("a", "b"), needs("b", "c"), needs("c", "c")], [["b"], ["c"], []], id="on itself"),
        pytest.param(
            [needs("a", "b"), needs("b", "c"), needs("c", "d"), needs("d", "a"), needs("e", "a")],
            [[], ["c"], ["d"], ["a"], ["a"]],
            id="a cycle",
        ),
    ],
)
async def test_units_begin_after_their_dependencies(pods: list[Pod], expected: list[list[str]]) -> None:
    cluster = cluster_of(NODES, pods)
    assert await begun(AffinityOrder(cluster), *(placed(cluster, each, "n1") for each in pods)) == expected


async def test_of_several_that_do_one_that_began_earlier_is_waited_for() -> None:
    web, late = neighbour("late", app="store", affinity=[term("zone", app="web")]), neighbour("early", app="store")
    cluster = cluster_of(NODES, WEB, web, late)
    order = AffinityOrder(cluster)
    assert await begun(order, placed(cluster, late, "n1")) == [[]]
    assert await begun(order, placed(cluster, web, "n1"), placed(cluster, WEB, "n2")) == [["web"], ["early"]]


async def test_members_of_one_unit_wait_only_for_others() -> None:
    pods = [neighbour(name, app="web", affinity=[term("zone", app="web")]) for name in ("w1", "w2")]
    cluster = cluster_of(NODES, pods)
    both = unit(*(b.placement(each, "n1") for each in pods))
    cluster.assume(both)
    assert await begun(AffinityOrder(cluster), both) == [[]]


async def test_a_unit_that_has_ended_is_no_dependency() -> None:
    cluster = cluster_of(NODES, STORE, WEB)
    order = AffinityOrder(cluster)
    store = placed(cluster, STORE, "n1")
    await order.begin([store])
    order.end(store)
    order.end(store)
    cluster.apply(seen(neighbour("store", on="n1", app="store")))
    assert await begun(order, placed(cluster, WEB, "n2")) == [[]]


def test_units_are_split_in_the_order_of_their_affinity() -> None:
    plan = b.plan(b.placement(WEB, "n1"), b.placement(STORE, "n2"))
    units = split_plan(plan, b.batch(WEB, STORE))
    assert [each.placements[0].pod.name for each in units] == ["store", "web"]


async def test_a_unit_that_waits_for_another_holds_no_slot_and_delays_no_decision() -> None:
    cluster = cluster_of(NODES, STORE, WEB)
    writer, reports = cast("Writer", SimpleNamespace(unit_slots=asyncio.Lock())), cast("StatusWriter", None)
    begun_at = list[int]()
    waits = PreBind(
        cluster,
        reports,
        FailedDevices(LocalTaints(Metrics()), 300.0),
        PreemptionBackoff(300.0),
        timeout_seconds=600.0,
        on_begin=lambda: begun_at.append(waits.count),
    )
    commit = Commit(cast("Client", None), cluster, writer, waits, lambda _: None, pod_groups="")
    async with writer.unit_slots:
        units = [placed(cluster, STORE, "n1"), placed(cluster, WEB, "n2")]
        await commit.begin(units)
        tasks = [asyncio.create_task(commit.commit(each)) for each in reversed(units)]
        await until_idle()
        assert (waits.count, begun_at) == (1, [1])
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    assert waits.count == 0
