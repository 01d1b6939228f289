"""What a batch, a gang or a plan costs on the loop grows with its pods, claims, gangs and priorities, and no faster."""

from collections.abc import Callable

import pytest
from msgspec.structs import replace

from scheduler.cluster import Unit, split_by_held_room
from scheduler.cluster.gangs import GangProgress
from scheduler.commit.claims import operations
from scheduler.queue import GangReplacements, QueuedGangs, SchedulingQueue, StarvationTracker
from scheduler.queue.equivalence import PodTerms
from scheduler.queue.freed_resources import FreedResources
from scheduler.queue.pod_queues import MOST_MOVES
from scheduler.queue.queued_pod import QueuedPod
from scheduler.status.events import EventFactory
from scheduler.status.status_queue import StatusQueue
from solver.domain import Batch, Claim, NodeReservation, Plan, Pod, Reason, ReasonCode
from tests.support import builders as b
from tests.support.cluster_builders import became, cluster_of, gone, seen, unit
from tests.support.neighbour_builders import neighbour, term
from tests.support.waiting_pods import held
from tests.support.work import counted

FEW, MANY = 125, 1000
GROWTH = 1.25
"""A pod among many costs at most so much more than one among few: a logarithm may show."""
WAITS = (Reason(code=ReasonCode.NODE_RESOURCES, message="Insufficient cpu"),)
LACKS = (Reason(code=ReasonCode.GANG_INCOMPLETE, message="one is missing"),)

Scene = Callable[[int], Callable[[], object]]
"""Prepares so many pods, and gives what is measured of all of them."""


def pods(count: int) -> list[Pod]:
    return [b.pod(f"p{number:05}") for number in range(count)]


def in_pairs(count: int) -> Batch:
    """Gangs of two that each lack one of three."""
    members = [b.member(pod, f"g{number // 2:05}") for number, pod in enumerate(pods(count))]
    gangs = [replace(b.gang(f"g{number:05}", 3), running_count=1) for number in range(count // 2)]
    return b.batch(*members, gangs=gangs)


def one_gang(count: int) -> tuple[list[Pod], list[Claim], Unit]:
    """A gang with a claim for each pod, each of a node of its own."""
    claims = [b.claim(f"c{number:05}") for number in range(count)]
    members = [b.member(b.pod(f"p{number:05}", f"c{number:05}"), "g") for number in range(count)]
    given = [
        b.claim_allocation(each, b.result("gpu", "gpu-0", f"n{number:05}"), node_name=f"n{number:05}")
        for number, each in enumerate(claims)
    ]
    placed = [b.placement(each, f"n{number:05}") for number, each in enumerate(members)]
    return members, claims, replace(unit(*placed, *given), gangs=(b.gang("g", count),))


def marking_pods_of_gangs(count: int) -> Callable[[], object]:
    starving, batch = StarvationTracker(60.0), in_pairs(count)
    return lambda: starving.marked(batch, 100.0)


def finding_replacements(count: int) -> Callable[[], object]:
    slots, batch = GangReplacements(), in_pairs(count)
    return lambda: slots.replacements(replace(batch, gangs=tuple(replace(g, running_count=1) for g in batch.gangs)), 1)


def levelling_gangs(count: int) -> Callable[[], object]:
    return in_pairs(count).levelled


class Uid(str):
    """A uid whose comparisons are counted: they execute a line."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return str.__eq__(self, other)

    __hash__ = str.__hash__


def asking_which_have_nodes(count: int) -> Callable[[], object]:
    starving, waiting = StarvationTracker(60.0), pods(count)
    uids = tuple(Uid(each.uid) for each in waiting)
    reservation = NodeReservation(pod=waiting[0].id, uids=uids, priority=0, nodes=("n",))
    plan = replace(Plan(report=b.plan().report), node_reservations=(reservation,))
    starving.decided(b.batch(*waiting), plan, 0.0)
    return lambda: [starving.has_nodes(Uid(each.uid)) for each in waiting]


def deciding_pods_of_many_priorities(count: int) -> Callable[[], object]:
    """Pods of a high priority are placed, again and again, and those of a low one wait: they are not overtaken."""
    starving, every = StarvationTracker(60.0), [replace(each, priority=n) for n, each in enumerate(pods(count))]
    placed, waiting = every[count // 2 :], every[: count // 2]
    plan = b.plan(
        *(b.placement(each, "n") for each in placed), *(b.unplaced(each, ReasonCode.NODE_RESOURCES) for each in waiting)
    )
    starving.decided(b.batch(*every), plan, 0.0)
    return lambda: [starving.decided(b.batch(*every), plan, float(now)) for now in (1, 2)]


def restoring_pods_of_many_priorities(count: int) -> Callable[[], object]:
    waiting = [(replace(each, priority=n), float(n)) for n, each in enumerate(pods(count))]
    running = [(replace(each, priority=n), float(n % 7)) for n, each in enumerate(pods(count))]
    return lambda: StarvationTracker(60.0).restore(waiting, running)


def asking_what_may_be_preempted(count: int) -> Callable[[], object]:
    """Pods of many priorities have taken devices that were freed."""
    takers = [b.pod(f"t{n}", f"t{n}", priority=n) for n in range(count)]
    freed = FreedResources({each.id: QueuedPod(pod=each, terms=PodTerms(each), first_seen=0.0) for each in takers})
    for n, taker in enumerate(takers, start=1):
        freed.see(became(held(f"gpu-{n}"), None), n)
        freed.see(became(b.claim(taker.id.name), held(f"gpu-{n}", by=taker.id.name)), n)
    asking = frozenset({ReasonCode.DEVICES_IN_USE})
    return lambda: [freed.newest(each, asking) for each in takers]


def splitting_by_nominations(count: int) -> Callable[[], object]:
    nominated = [replace(each, nominated_node_name="n") for each in pods(count)]
    return lambda: list(split_by_held_room(b.batch(*nominated), nominated, ()))


def aging_of_nominations(count: int) -> Callable[[], object]:
    """Each pod is nominated for the one node, on which as many run and one is leaving."""
    waiting = [replace(each, nominated_node_name="n", priority=1) for each in pods(count)]
    running = [b.pod(f"r{number}", node_name="n", is_deleting=number == count - 1) for number in range(count)]
    return cluster_of(b.node("n"), waiting, running).nominated


def unblocking_nominated_pods(count: int) -> Callable[[], object]:
    """Each pod is nominated for a node of its own, from which one pod leaves."""
    waiting = [replace(each, nominated_node_name=f"n{n}", priority=1) for n, each in enumerate(pods(count))]
    running = [b.pod(f"r{number}", node_name=f"n{number}") for number in range(count)]
    cluster = cluster_of(waiting, running)

    def leave() -> None:
        for each in running:
            for transition in cluster.apply(gone(each)):
                assert len(cluster.unblocked(transition)) == 1

    return leave


def checking_a_gang(count: int) -> Callable[[], object]:
    members, claims, planned = one_gang(count)
    nodes = [b.node(f"n{number:05}") for number in range(count)]
    slices = [b.gpu_slice(f"n{number:05}", count=1) for number in range(count)]
    cluster = cluster_of(nodes, slices, b.gpu_class(), members, claims)
    cluster.assume(planned)
    return lambda: (cluster.check(planned), cluster.compare_after_write(planned))


def checking_a_gang_of_neighbours(count: int) -> Callable[[], object]:
    members = [
        neighbour(f"p{number:05}", app="web", anti_affinity=[term("kubernetes.io/hostname", app="web")])
        for number in range(count)
    ]
    nodes = [b.node(f"n{number:05}") for number in range(count)]
    planned = unit(*(b.placement(each, f"n{number:05}") for number, each in enumerate(members)))
    cluster = cluster_of(nodes, members)
    cluster.assume(planned)
    return lambda: cluster.check(planned)


def sharing_a_device(count: int) -> Callable[[], object]:
    """A gang that takes one share of each of as many devices."""
    members, claims, _ = one_gang(count)
    parts = [
        b.resource_slice("n", b.device(f"d{n}", is_shareable=True, capacities={"memory": "80Gi"}), name=f"s{n}")
        for n in range(count)
    ]
    slices = [replace(each, slice_count=count) for each in parts]
    given = [
        b.claim_allocation(each, replace(b.result("gpu", f"d{n}", "n"), share_id=b.share_id(n)))
        for n, each in enumerate(claims)
    ]
    planned = unit(*(b.placement(each, "n") for each in members), *given)
    cluster = cluster_of(b.node("n"), slices, members, claims)
    cluster.assume(planned)
    return lambda: cluster.compare_after_write(planned)


def making_the_writes_of_a_gang(count: int) -> Callable[[], object]:
    members, claims, planned = one_gang(count)
    cluster = cluster_of(members, claims)
    return lambda: operations(planned, cluster.observed_claim, cluster.group_uid, cluster.claim)


def reporting_pods_of_many_namespaces(count: int) -> Callable[[], object]:
    queue = StatusQueue(EventFactory("host"))
    for number in range(count):
        queue.report_unschedulable(b.pod("p", namespace=f"ns{number}"), WAITS, 4)

    def write() -> None:
        for _ in range(count):
            found = queue.take(0.0, has_token=False)
            assert found is not None
            assert found.pod is not None
            queue.written(found.pod, 1000, 0.0)
            queue.due_in(0.0, 1.0)

    return write


SCENES: list[Scene] = [
    marking_pods_of_gangs,
    finding_replacements,
    levelling_gangs,
    asking_which_have_nodes,
    deciding_pods_of_many_priorities,
    restoring_pods_of_many_priorities,
    asking_what_may_be_preempted,
    splitting_by_nominations,
    aging_of_nominations,
    unblocking_nominated_pods,
    checking_a_gang,
    checking_a_gang_of_neighbours,
    sharing_a_device,
    making_the_writes_of_a_gang,
    reporting_pods_of_many_namespaces,
]


def lines_for_each(scene: Scene, count: int) -> float:
    measured = scene(count)
    with counted() as work:
        measured()
    return work.lines / count


@pytest.mark.parametrize("scene", SCENES)
def test_one_more_costs_no_more_than_the_one_before(scene: Scene) -> None:
    assert lines_for_each(scene, MANY) <= GROWTH * lines_for_each(scene, FEW)


def test_a_member_moves_a_bounded_number_of_the_pods_of_a_large_gang() -> None:
    """All of them are to be reported again, because other members are missing now: the next calls move the rest."""
    count = 2 * MOST_MOVES
    queue = SchedulingQueue({"dovetail"}, gangs=QueuedGangs(lambda _: GangProgress(missing=1, is_partial=False)))
    members = [b.member(each, "g") for each in pods(count + 1)]
    for each in members[:-1]:
        queue.offer(each, 0.0)
    while taken := queue.take_batch(100.0, count).pods:
        for each in taken:
            queue.put_back(each.id, each.uid, LACKS, 100.0)
    assert queue.next_due(101.0) == 400.0  # reported: only the flush is left

    queue.offer(members[-1], 101.0)
    dues = []
    while (due := queue.next_due(101.0)) == 101.0:
        dues.append(due)

    assert due == 111.0
    assert len(dues) >= count // MOST_MOVES


def test_seen_pods_are_those_of_the_watch() -> None:
    running, assumed = neighbour("old", on="n", app="a"), neighbour("new", app="a")
    cluster = cluster_of(b.node("n"), running, assumed)
    cluster.assume(unit(b.placement(assumed, "n")))
    assert [each.id.name for each in cluster.observed_pods_on("n")] == ["old"]
    cluster.apply(seen(neighbour("new", on="n", app="a")))
    assert sorted(each.id.name for each in cluster.observed_pods_on("n")) == ["new", "old"]
