"""What one event costs on the loop does not grow with how many pods, claims or shares there are already."""

from collections.abc import Callable, Iterator
from functools import partial

import msgspec
import pytest

from scheduler.change import Change, Kind
from scheduler.cluster import Cluster
from scheduler.queue import QueuedGangs, SchedulingQueue
from solver.domain import GangAnnotations, GangId, Pod, PodGroup, Reason, ReasonCode, VolumeBinding, VolumeClaimId
from tests.support import builders as b
from tests.support.cluster_builders import became, gone, seen, unit
from tests.support.work import counted

MANY = 5000
OURS = frozenset({"dovetail"})
GROUP = GangId(b.NAMESPACE, "g", "scheduling.k8s.io")
ANNOTATED = b.gang_id("g")
WAITS = (Reason(code=ReasonCode.GANG_UNPLACED, message="no room for all of it"),)
FEW = 200
GROWTH = 1.2
"""A logarithm of the number may show; five thousand cost no more than so many times what two hundred do."""


def member(number: int, gang: GangId = ANNOTATED, *, minimum: int = 2, **fields: object) -> Pod:
    note = GangAnnotations(min_count=minimum) if gang == ANNOTATED else None
    return msgspec.structs.replace(b.pod(f"p{number:05}"), gang=gang, gang_note=note, **fields)


class Shell:
    """The mirror and the queue, fed as the cycle feeds them."""

    def __init__(self) -> None:
        self.cluster = Cluster()
        self.pending = SchedulingQueue(OURS, gangs=QueuedGangs(lambda gang: self.cluster.gang_progress(gang, OURS)))

    def see(self, change: Change) -> None:
        for transition in self.cluster.apply(change):
            if isinstance(transition.after, Pod):
                before = transition.before
                self.pending.offer(transition.after, 0.0, before if isinstance(before, Pod) else None)
            elif isinstance(transition.before, Pod):
                self.pending.remove(transition.before.id)
            self.pending.wake(transition)
        self.pending.next_due(0.0)


Scene = Callable[[int], Iterator[Callable[[], object]]]
"""Gives events among so many others."""


def lines(events: Iterator[Callable[[], object]]) -> float:
    """Give the lines that the last hundred of some events take on average."""
    rest = list(events)
    for event in rest[:-100]:
        event()
    with counted() as work:
        for event in rest[-100:]:
            event()
    return work.lines / 100


def costs_the_same(scene: Scene) -> bool:
    few, many = lines(scene(FEW)), lines(scene(MANY))
    assert few > 0
    return many <= GROWTH * few


def arrived(count: int, minimum: int = 2) -> Shell:
    shell = Shell()
    for number in range(count):
        shell.see(seen(member(number, minimum=minimum)))
    return shell


def waiting(count: int) -> Shell:
    """Have a complete gang decided about, and wait for room."""
    shell = arrived(count)
    for pod in shell.pending.take_batch(0.0, count).pods:
        shell.pending.put_back(pod.id, pod.uid, WAITS, 0.0)
    return shell


@pytest.mark.parametrize("gang", [ANNOTATED, GROUP], ids=["annotated", "PodGroup"])
@pytest.mark.parametrize("minimum", [2, 100_000], ids=["complete", "incomplete"])
def test_a_member_that_arrives_costs_the_same_for_any_gang(gang: GangId, minimum: int) -> None:
    def scene(count: int) -> Iterator[Callable[[], object]]:
        shell = Shell()
        if gang == GROUP:
            value = PodGroup(id=GROUP, uid="uid-g", min_count=minimum)
            shell.see(Change(kind=Kind.POD_GROUPS, key=str(GROUP), value=value))
        return (partial(shell.see, seen(member(number, gang, minimum=minimum))) for number in range(count))

    assert costs_the_same(scene)


def test_a_member_that_completes_a_gang_is_heard_by_all() -> None:
    shell = arrived(10, minimum=10)

    assert len(shell.pending.take_batch(0.0, 100).pods) == 10


def test_an_update_storm_of_one_member_costs_the_same_for_any_gang() -> None:
    def scene(count: int) -> Iterator[Callable[[], object]]:
        shell = arrived(count)
        return (partial(shell.see, seen(member(7, labels=(("n", str(number)),)))) for number in range(200))

    assert costs_the_same(scene)


@pytest.mark.parametrize("is_partial", [False, True], ids=["enough of them", "too few"])
def test_a_member_that_is_seen_bound_costs_the_same_for_any_gang(*, is_partial: bool) -> None:
    def scene(count: int) -> Iterator[Callable[[], object]]:
        minimum = count if is_partial else 2
        shell = arrived(count, minimum)
        assert len(shell.pending.take_batch(0.0, count).pods) == count
        return (
            partial(shell.see, seen(member(number, minimum=minimum, node_name="n1"))) for number in range(count - 50)
        )

    assert costs_the_same(scene)


def test_a_member_that_runs_and_changes_wakes_no_pod() -> None:
    shell = waiting(10)
    shell.see(seen(member(10, node_name="n1")))
    for pod in shell.pending.take_batch(100.0, 100).pods:
        shell.pending.put_back(pod.id, pod.uid, WAITS, 100.0)

    shell.see(seen(member(10, node_name="n1", labels=(("n", "1"),))))
    assert shell.pending.take_batch(150.0, 100).pods == ()

    shell.see(seen(member(10, node_name="n1", is_deleting=True)))
    assert len(shell.pending.take_batch(200.0, 100).pods) == 10


def test_an_update_storm_of_a_member_that_runs_costs_the_same_for_any_gang() -> None:
    def scene(count: int) -> Iterator[Callable[[], object]]:
        shell = waiting(count)
        shell.see(seen(member(count, node_name="n1")))
        return (
            partial(shell.see, seen(member(count, node_name="n1", labels=(("n", str(number)),))))
            for number in range(200)
        )

    assert costs_the_same(scene)


def test_a_member_that_goes_costs_the_same_for_any_gang() -> None:
    def scene(count: int) -> Iterator[Callable[[], object]]:
        shell = waiting(count)
        return (partial(shell.see, gone(member(number))) for number in range(count - 10))

    assert costs_the_same(scene)


def test_members_that_all_say_something_else_cost_the_same_for_any_gang() -> None:
    shells: list[Shell] = []

    def scene(count: int) -> Iterator[Callable[[], object]]:
        shells.append(shell := Shell())
        return (partial(shell.see, seen(member(number, minimum=number + 1))) for number in range(count))

    assert costs_the_same(scene)
    (gang,) = shells[-1].cluster.with_gangs(b.batch(member(0))).gangs
    assert gang.invalid == (
        "the minimum of gang g differs: 1 by pod p00000, 2 by pod p00001, 3 by pod p00002 and 4997 other numbers; "
        "write one number"
    )


def test_a_pod_that_changes_costs_the_same_for_any_number_of_volumes_under_way() -> None:
    def scene(count: int) -> Iterator[Callable[[], object]]:
        cluster = Cluster()
        for number in range(count):
            pod = b.pod(f"v{number}")
            cluster.apply(seen(pod))
            binding = VolumeBinding(claim=VolumeClaimId(b.NAMESPACE, f"v{number}"), claim_uid=f"v{number}")
            cluster.assume(unit(msgspec.structs.replace(b.placement(pod, "n1"), volumes=(binding,))))
        changes = (seen(b.pod("other", node_name="n1", labels={"n": str(number)})) for number in range(200))
        return (partial(cluster.apply, change) for change in changes)

    assert costs_the_same(scene)


def test_a_share_of_a_device_costs_the_same_for_any_number_of_shares() -> None:
    def share(number: int) -> Change:
        result = msgspec.structs.replace(b.result("nic", "nic-0", "n1"), share_id=f"s{number}")
        return seen(b.claim(f"c{number}", allocation=b.allocation(result)))

    def scene(count: int) -> Iterator[Callable[[], object]]:
        cluster = Cluster()
        return (partial(cluster.apply, share(number)) for number in range(count))

    assert costs_the_same(scene)


def test_a_device_that_is_freed_and_given_costs_the_same_for_any_number_of_waiting_pods() -> None:
    """Of each of four kinds one pod is tried: one gets the device, the others lose to it."""
    short = (Reason(code=ReasonCode.DEVICES_IN_USE, message="none is free"),)
    lost = (Reason(code=ReasonCode.OUTRANKED, message="others take it"), *short)
    holder = b.claim("old", allocation=b.allocation(b.result("gpu", "gpu-0", "n1")))

    def scene(count: int) -> Iterator[Callable[[], object]]:
        pending = SchedulingQueue(OURS, key_of=lambda terms: int(terms.pod.id.name[1:]) % 4)
        for number in range(count):
            pending.offer(b.pod(f"p{number:05}", f"p{number:05}"), 0.0)
        for pod in pending.take_batch(0.0, count).pods:
            pending.put_back(pod.id, pod.uid, short, 0.0)

        def give(now: float) -> None:
            pending.wake(became(holder, None))
            winner, *others = pending.take_batch(now, 1000).pods
            assert len(others) == 3
            pending.placed([winner.id])
            held = msgspec.structs.replace(holder, id=winner.claim_ids[0], reserved_for=(b.consumer(winner.id.name),))
            pending.wake(became(msgspec.structs.replace(held, allocation=None), held))
            for pod in others:
                pending.put_back(pod.id, pod.uid, lost, now)
            pending.remove(winner.id)
            assert pending.take_batch(now, 1000).pods == ()

        return (partial(give, 10.0 + number) for number in range(150))

    assert costs_the_same(scene)
