"""What held room costs on the loop and in a decision: it grows with pods and places, not with their product."""

from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from msgspec.structs import replace

from scheduler.change import Change, Kind, Transition
from scheduler.cluster import Cluster, Unit, split_by_held_room
from scheduler.cluster.holds.held_conflicts import lost_seats, objections, unit_conflicts
from scheduler.cluster.holds.held_releases import heirs
from scheduler.cluster.holds.seat_index import SeatIndex
from scheduler.holds.hold_bounds import HoldBounds
from scheduler.settings import HoldLimits
from solver.domain import DeviceHold, DeviceId, MatcherIndex, Pod, PodMatcher
from solver.holds.seats import assigned
from tests.support import builders as b
from tests.support import hold_builders as h
from tests.support.cluster_builders import cluster_of, seen, show, unit
from tests.support.work import counted

FEW, MANY = 50, 400
GROWTH = 1.3
"""One of many costs at most so much more than one of few: a logarithm may show."""
OTHER_OWNER = replace(h.OWNER, uid="uid-other")
KUEUE = "kueue.x-k8s.io/workload"

Matchers = Callable[[int], PodMatcher]


def of_workload(number: int) -> PodMatcher:
    return PodMatcher(namespace=b.NAMESPACE, annotations=((KUEUE, f"w{number}"),))


def of_label(number: int) -> PodMatcher:
    return h.labelled({"app": f"w{number}"})


def holds(count: int, matcher: Matchers) -> list[DeviceHold]:
    """Each on a node of its own."""
    return [h.hold(f"h{n:04}", h.place(matcher(n), f"n{n:04}", "gpu-0")) for n in range(count)]


def pods(count: int) -> list[Pod]:
    """Pods for which nothing is held: what could be is compared with all of them."""
    made = (b.pod(f"p{n:04}", labels={"app": f"x{n}"}) for n in range(count))
    return [replace(pod, annotations=((KUEUE, f"x{n}"),)) for n, pod in enumerate(made)]


def work(act: Callable[[], object]) -> int:
    act()  # what is kept from the first time is kept in a cluster, too
    with counted() as found:
        act()
    return found.lines


@pytest.mark.parametrize("matcher", [of_workload, of_label])
def test_a_decision_compares_a_pod_with_the_places_of_its_kind_only(matcher: Matchers) -> None:
    costs = [work(partial(assigned, holds(n, matcher), pods(n), {})) / n for n in (FEW, MANY)]
    assert costs[1] <= GROWTH * costs[0]


@pytest.mark.parametrize("matcher", [of_workload, of_label])
def test_a_batch_is_split_without_comparing_each_pod_with_each_place(matcher: Matchers) -> None:
    def parts(count: int) -> None:
        assert len(list(split_by_held_room(b.batch(*pods(count)), (), holds(count, matcher)))) == 1

    costs = [work(partial(parts, n)) / n for n in (FEW, MANY)]
    assert costs[1] <= GROWTH * costs[0]


def on_one_pool(count: int) -> tuple[Cluster, Change]:
    """Places with devices of one pool of the whole cluster, and a pod that has the device of the last one."""
    nodes = [b.node(f"n{n:04}") for n in range(count)]
    devices = [b.device(f"d{n:04}") for n in range(count)]
    cluster = cluster_of(nodes, b.resource_slice("fabric", *devices, at=b.scope(all_nodes=True)))
    for n in range(count):
        show(cluster, h.hold(f"h{n:04}", h.place(of_label(n), f"n{n:04}", h.whole(f"d{n:04}", "fabric"))))
    name = f"d{count - 1:04}"
    return cluster, seen(b.held("taker", b.result("r", name, "fabric")))


def test_a_place_that_is_lost_among_many_of_a_pool_costs_few_comparisons() -> None:
    costs = []
    for count in (FEW, MANY):
        cluster, change = on_one_pool(count)
        cluster.apply(change)
        cluster.apply(seen(b.pod("taker", "taker", node_name="n0000")))
        devices = [b.result("r", f"d{n:04}", "fabric").device for n in range(count)]

        def lost(cluster: Cluster = cluster, count: int = count, devices: list[DeviceId] = devices) -> None:
            (found,) = lost_seats(cluster.store, cluster.holds, (), devices)
            assert found[0].hold.name == f"h{count - 1:04}"

        costs.append(work(lost) / count)
    assert costs[1] <= 2 * costs[0]


def test_a_unit_is_compared_with_the_places_of_its_devices_and_a_freed_device_with_its_own() -> None:
    costs = []
    for count in (FEW, MANY):
        cluster, _ = on_one_pool(count)
        pod, claim = b.pod("p", "c"), b.claim("c")
        show(cluster, pod, claim)
        decided = unit(
            b.placement(pod, "n0000"), b.claim_allocation(claim, b.result("r", f"d{count - 1:04}", "fabric"))
        )
        freed = cluster.assume(decided)[0]

        def compared(cluster: Cluster = cluster, decided: Unit = decided, freed: Transition = freed) -> None:
            assert unit_conflicts(cluster.store, cluster.holds, decided)
            gone = replace(freed, before=freed.after, after=None)
            assert len(heirs(cluster.store, cluster.holds, gone)) == 1

        costs.append(work(compared))
    assert costs[1] == costs[0]


def test_places_of_one_pool_are_compared_some_at_a_time() -> None:
    cluster, _ = on_one_pool(MANY)
    places = [h.place(of_label(n), f"n{n:04}", h.whole(f"d{n:04}", "fabric")) for n in range(MANY)]
    for n in range(1, MANY):
        cluster.apply(Change(kind=Kind.HOLDS, key=f"h{n:04}", value=None))
    found = list(objections(cluster.store, cluster.holds, h.hold("big", *places)))
    assert [bool(each) for each in found] == [True] + [False] * (MANY // FEW - 1)


def test_a_pod_on_a_node_is_compared_with_the_places_of_that_node() -> None:
    costs = []
    for count in (FEW, MANY):
        cluster = cluster_of(
            [b.node(f"n{n:04}") for n in range(count)], [b.gpu_slice(f"n{n:04}") for n in range(count)]
        )
        show(cluster, holds(count, of_label))
        cluster.apply(seen(b.pod("runs", node_name="n0000")))

        def looked_at(cluster: Cluster = cluster) -> None:
            assert list(lost_seats(cluster.store, cluster.holds, ("n0000",), ())) == []

        costs.append(work(looked_at))
    assert costs[1] == costs[0]


def test_a_hold_that_comes_or_goes_costs_what_it_has() -> None:
    costs = []
    for count in (FEW, MANY):
        cluster = Cluster()
        show(cluster, holds(count, of_workload))
        new = h.hold("new", h.place(of_workload(7), "n0001", "gpu-1"))

        def comes_and_goes(cluster: Cluster = cluster, new: DeviceHold = new) -> None:
            cluster.apply(seen(new))
            cluster.apply(Change(kind=Kind.HOLDS, key="new", value=None))

        costs.append(work(comes_and_goes))
    assert costs[1] <= GROWTH * costs[0]


def one_hold(count: int) -> DeviceHold:
    """A hold with so many places, each on a node of its own."""
    return h.hold("big", *(h.place(h.of_owner("job"), f"n{n:04}", "gpu-0") for n in range(count)))


@pytest.mark.parametrize("is_seen", [False, True])
def test_a_pod_that_uses_up_a_place_costs_the_same_however_many_places_its_hold_has(*, is_seen: bool) -> None:
    costs = []
    for count in (FEW, MANY):
        cluster = Cluster()
        show(cluster, one_hold(count))
        pods = [replace(h.owned(b.pod(f"p{n}"), "job"), place=f"uid-big/{n}") for n in range(3)]

        def bound(cluster: Cluster = cluster, pods: list[Pod] = pods) -> None:
            pod = pods.pop()
            cluster.holds.pod_changed(pod.id, pod, is_seen=is_seen)

        costs.append(work(bound))
        assert len(cluster.holds.values()[0].open_places) == count - 2
    assert costs[1] == costs[0]


def test_the_holds_of_an_owner_are_found_among_many() -> None:
    costs = []
    for count in (FEW, MANY):
        cluster = Cluster()
        show(cluster, holds(count, of_label), replace(holds(1, of_label)[0], name="own", uid="u", owner=OTHER_OWNER))

        def found(cluster: Cluster = cluster) -> None:
            assert [each.name for each in cluster.holds.of_owner(OTHER_OWNER.uid)] == ["own"]

        costs.append(work(found))
    assert costs[1] == costs[0]


def test_limits_are_compared_with_what_is_held_without_counting_it_again() -> None:
    costs, limits = [], HoldLimits(max_holds=10_000, max_holds_per_namespace=10_000)
    for count in (FEW, MANY):
        cluster = Cluster()
        show(cluster, holds(count, of_label))

        def none_is_broken(cluster: Cluster = cluster) -> None:
            assert list(HoldBounds(cluster.holds, limits).refusals(one_hold(2), 60.0)) == []

        costs.append(work(none_is_broken))
    assert costs[1] == costs[0]


def test_a_hold_of_many_places_is_compared_some_at_a_time() -> None:
    costs = []
    for count in (FEW, 2 * FEW, MANY):
        cluster = cluster_of(
            [b.node(f"n{n:04}") for n in range(count)], [b.gpu_slice(f"n{n:04}") for n in range(count)]
        )
        *_, last = pieces = list(objections(cluster.store, cluster.holds, one_hold(count)))
        assert set(pieces) == {()}
        assert len(pieces) == count // FEW
        assert last == ()

        def second(cluster: Cluster = cluster, count: int = count) -> None:
            compared = objections(cluster.store, cluster.holds, one_hold(count))
            next(compared)  # divides all of them, which costs little
            with counted() as found:
                next(compared, None)
            costs.append(found.lines)

        second()
        second()
    assert costs[5] <= GROWTH * costs[3]


def test_a_place_is_compared_once_though_it_shares_node_and_pool_with_another() -> None:
    cluster = cluster_of([b.node("n0")], [b.gpu_slice("n0", count=4)])
    places = [h.place(of_label(n), "n0", f"gpu-{n}") for n in range(4)]
    assert list(objections(cluster.store, cluster.holds, h.hold("big", *places))) == [()]


def test_places_of_one_pool_are_compared_together() -> None:
    cluster, _ = on_one_pool(FEW)
    twice = [h.place(of_label(n), f"n{n:04}", h.whole("spare", "fabric")) for n in (0, FEW - 1)]
    apart = [h.place(of_label(n), f"n{n:04}") for n in range(1, FEW - 1)]
    found = list(objections(cluster.store, cluster.holds, h.hold("big", twice[0], *apart, *apart, twice[1])))
    assert sum(map(bool, found)) == 1


def test_a_pod_that_uses_one_of_many_places_of_a_hold_costs_that_place() -> None:
    """A repair of many moves has one hold: its pods come one by one."""
    costs = []
    for count in (FEW, MANY):
        cluster, hold_uid = Cluster(), "one-x"
        places = [h.place(of_label(n), f"n{n:04}", "gpu-0") for n in range(count)]
        show(cluster, replace(h.hold("one", *places), uid=hold_uid))
        pod = replace(b.pod("p", labels={"app": "w7"}, node_name="n0007"), place=f"{hold_uid}/7")

        def used_up(cluster: Cluster = cluster, pod: Pod = pod) -> None:
            cluster.apply(seen(pod))
            assert not cluster.holds.is_open(pod.place)
            cluster.apply(Change(kind=Kind.PODS, key=str(pod.id), value=None))

        costs.append(work(used_up))
    assert costs[1] <= GROWTH * costs[0]


def test_places_that_are_each_for_another_pod_are_counted_together(monkeypatch: pytest.MonkeyPatch) -> None:
    counts: list[str] = []
    count_once = SeatIndex._add  # noqa: SLF001 - the work that is counted

    def counting(index: SeatIndex, hold: str, namespace: str, *amounts: int) -> None:
        counts.append(namespace)
        count_once(index, hold, namespace, *amounts)

    monkeypatch.setattr(SeatIndex, "_add", counting)
    cluster, each_way = Cluster(), []
    made = h.hold("h", *(h.place(f"p{n}", f"n{n}", "gpu-0", "gpu-1") for n in range(300)))
    for value, held in ((made, (1, 300, 600)), (None, (0, 0, 0))):
        cluster.apply(Change(kind=Kind.HOLDS, key="h", value=value))
        assert cluster.holds.held("default") == cluster.holds.held() == held
        each_way.append(sorted(counts))
        counts.clear()
    assert each_way == [["", "default"], ["", "default"]]


@pytest.mark.parametrize("places", [10, 500])
def test_what_the_places_of_a_hold_have_in_common_is_filed_once(places: int, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: Counter[str] = Counter()
    for name in ("add", "discard"):
        act = getattr(MatcherIndex, name)

        def counting(index: MatcherIndex, matcher: PodMatcher, count: int, name: str = name, act: Any = act) -> None:
            calls[name] += 1
            act(index, matcher, count)

        monkeypatch.setattr(MatcherIndex, name, counting)
    cluster, matcher = Cluster(), PodMatcher(namespace="default", owner_uid="job")
    made = h.hold("h", *(h.place(matcher, f"n{n}", "gpu-0") for n in range(places)))
    cluster.apply(Change(kind=Kind.HOLDS, key="h", value=made))
    assert cluster.holds.held("default") == cluster.holds.held() == (1, places, places)
    cluster.apply(Change(kind=Kind.HOLDS, key="h", value=None))
    assert cluster.holds.held("default") == cluster.holds.held() == (0, 0, 0)
    assert calls == {"add": 1, "discard": 1}


def test_a_hold_that_gets_its_uid_is_counted_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster()
    made = h.hold("h", *(h.place(f"p{n}", f"n{n % 7}", "gpu-0") for n in range(300)))
    cluster.holds.make(replace(made, uid=""))
    for name in ("add", "discard"):
        monkeypatch.setattr(MatcherIndex, name, lambda *_: pytest.fail("its places are the same"))
    assert cluster.holds.make(made) == ()
    assert cluster.holds.held("default") == cluster.holds.held() == (1, 300, 300)
    assert [seat.id for seat in cluster.holds.seats_of("uid-default-p5")] == ["uid-h/5"]
    assert cluster.apply(Change(kind=Kind.HOLDS, key="h", value=made))[0].closed == ()
