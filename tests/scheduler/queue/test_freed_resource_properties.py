"""Waiting pods are placed as if all of them were tried after every event: the same ones, in the same order."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.queue import SchedulingQueue
from solver.domain import Claim, Pod, PodId, Reason, ReasonCode
from tests.support.builders import allocation, claim, consumer, pod, result
from tests.support.cluster_builders import became

NODES = {"n1": (8, 4), "n2": (4, 2), "n3": (2, 1)}
"""Cores and devices of each node."""
KINDS = {"small": (1, 1), "wide": (1, 2), "heavy": (4, 1), "plain": (1, 0), "bulky": (3, 0)}
"""Cores and devices of each kind of pod."""
LONGEST_BACKOFF = 10.0
Event = tuple[str, *tuple[Any, ...]]
"""The name of a method of `World`, and its arguments."""


@dataclass
class Room:
    """What is free: cores by node, and the names of devices by node."""

    cores: Counter[str]
    devices: dict[str, list[str]]

    def copy(self) -> "Room":
        return Room(Counter(self.cores), {node: list(names) for node, names in self.devices.items()})

    def obstacle(self, kind: str, node: str) -> ReasonCode | None:
        cores, devices = KINDS[kind]
        if self.cores[node] < cores:
            return ReasonCode.NODE_RESOURCES
        return ReasonCode.DEVICES_IN_USE if len(self.devices[node]) < devices else None

    def take(self, kind: str) -> tuple[str, list[str]] | None:
        """First fit."""
        for node in NODES:
            if self.obstacle(kind, node) is None:
                cores, devices = KINDS[kind]
                self.cores[node] -= cores
                taken, self.devices[node] = self.devices[node][:devices], self.devices[node][devices:]
                return node, taken
        return None


def kind_of(each: Pod) -> str:
    return dict(each.labels)["kind"]


@dataclass
class World:
    """A queue, and a cluster that decides each batch by first fit in its order."""

    room: Room = field(
        default_factory=lambda: Room(
            Counter({node: cores for node, (cores, _) in NODES.items()}),
            {node: [f"{node}-{number}" for number in range(devices)] for node, (_, devices) in NODES.items()},
        )
    )
    now: float = 0.0
    count: int = 0
    waiting: dict[PodId, Pod] = field(default_factory=dict)
    running: dict[PodId, tuple[Pod, Claim]] = field(default_factory=dict)
    placed: list[PodId] = field(default_factory=list)
    amid: list[Event] = field(default_factory=list)
    """What happens during the next decisions, one of it during each."""

    def __post_init__(self) -> None:
        self.restart()

    def restart(self) -> None:
        """Begin with a queue that knows nothing of what came free before."""
        self.queue = SchedulingQueue(["dovetail"], key_of=lambda terms: (kind_of(terms.pod), terms.pod.priority))
        for each in self.waiting.values():
            self.queue.offer(each, self.now)

    def arrive(self, kind: str, priority: int, count: int) -> None:
        for _ in range(count):
            self.count += 1
            name, cores = f"p-{self.count:04}", KINDS[kind][0]
            each = pod(name, name, priority=priority, labels={"kind": kind}, cpu=cores)
            self.waiting[each.id] = each
            self.queue.offer(each, self.now)

    def end(self, numbers: Iterable[int]) -> None:
        """Let running pods end, with their claims."""
        names = list(self.running)
        for key in {names[number % len(names)] for number in numbers} if names else ():
            each, held = self.running.pop(key)
            self.give_back(each, held)
            self.queue.wake(became(each, None))
            self.queue.wake(became(held, None))

    def give_back(self, each: Pod, held: Claim) -> None:
        self.room.cores[each.node_name] += KINDS[kind_of(each)][0]
        if held.allocation is not None:
            self.room.devices[each.node_name] += [str(one.device.device) for one in held.allocation.results]
            self.room.devices[each.node_name].sort()

    def refuse(self, number: int) -> None:
        """Take the placement of a running pod back, as after a conflict; it waits again."""
        names = list(self.running)
        if not names:
            return
        each, held = self.running.pop(names[number % len(names)])
        self.give_back(each, held)
        self.waiting[each.id] = unbound = msgspec.structs.replace(each, node_name="")
        self.queue.wake(became(each, unbound))
        self.queue.wake(became(held, claim(held.id.name)))
        self.queue.offer(unbound, self.now)

    def delete(self, numbers: Iterable[int]) -> None:
        names = list(self.waiting)
        for key in {names[number % len(names)] for number in numbers} if names else ():
            del self.waiting[key]
            self.queue.remove(key)

    def in_order(self) -> list[Pod]:
        seen = {each.pod.id: each.sort_key for each in self.queue.pods()}
        return sorted(self.waiting.values(), key=lambda each: seen[each.id])

    def would_place(self) -> list[PodId]:
        """Return the pods that would be placed if all were tried now, in order."""
        room = self.room.copy()
        return [each.id for each in self.in_order() if room.take(kind_of(each)) is not None]

    def settle(self) -> None:
        """Decide until nothing is to be done, however long pods back off."""
        until = self.now + 2 * LONGEST_BACKOFF
        while (due := self.queue.next_due(self.now)) is not None and due <= until:
            self.now = max(self.now, due)
            self.decide(self.queue.take_batch(self.now, 1000).pods)
        self.now = until

    def decide(self, batch: Sequence[Pod]) -> None:
        before, seen = self.room.copy(), self.room.copy()
        found = {each.id: seen.take(kind_of(each)) for each in batch}
        if self.amid:
            self.happen(*self.amid.pop(0))
        self.queue.placed(key for key, place in found.items() if place is not None)
        for each in batch:
            if (place := found[each.id]) is not None:
                (self.assume if each.id in self.waiting else self.not_taken)(each, *place)
        for each in batch:
            if found[each.id] is None:
                reasons = [Reason(code=code, message="because") for code in reasons_of(kind_of(each), before, seen)]
                self.queue.put_back(each.id, each.uid, reasons, self.now)

    def not_taken(self, each: Pod, node: str, devices: Sequence[str]) -> None:
        """Tell what a pod does not take that is gone since a decision placed it, as `assume_cache.not_taken` does."""
        self.queue.wake(became(msgspec.structs.replace(each, node_name=node), None))
        self.queue.wake(became(self.held(each, node, devices), claim(each.id.name)))

    def happen(self, name: str, *values: object) -> None:
        getattr(self, name)(*values)

    def held(self, each: Pod, node: str, devices: Sequence[str]) -> Claim:
        name, results = each.id.name, [result("gpu", device, node) for device in devices]
        given = allocation(*results) if results else None
        return claim(name, allocation=given, reserved_for=[consumer(name)])

    def assume(self, each: Pod, node: str, devices: Sequence[str]) -> None:
        self.room.cores[node] -= KINDS[kind_of(each)][0]
        self.room.devices[node] = [device for device in self.room.devices[node] if device not in devices]
        held, bound = self.held(each, node, devices), msgspec.structs.replace(each, node_name=node)
        self.queue.wake(became(claim(each.id.name), held))
        self.queue.wake(became(each, bound))
        self.queue.offer(bound, self.now)
        self.running[each.id] = (bound, held)
        self.placed.append(each.id)
        del self.waiting[each.id]


def reasons_of(kind: str, before: Room, after: Room) -> list[ReasonCode]:
    """Return why a pod was not placed by a decision that left this room of what it found."""
    lacks = {code for node in NODES if (code := after.obstacle(kind, node)) is not None}
    has_lost = any(before.obstacle(kind, node) is None for node in NODES)
    return [*([ReasonCode.OUTRANKED] if has_lost else []), *sorted(lacks)]


NUMBERS = st.lists(st.integers(0, 20), min_size=1, max_size=4)
OF_PODS = st.one_of(
    st.tuples(st.just("end"), NUMBERS),
    st.tuples(st.just("refuse"), st.integers(0, 20)),
    st.tuples(st.just("delete"), NUMBERS),
)


def events(kinds: Iterable[str]) -> st.SearchStrategy[Event]:
    arrivals = st.tuples(
        st.just("arrive"), st.sampled_from(sorted(kinds)), st.integers(0, 1), st.sampled_from([1, 2, 5])
    )
    return st.one_of(arrivals, OF_PODS)


@settings(max_examples=150, deadline=None)
@given(history=st.lists(st.tuples(events(KINDS), st.booleans()), max_size=25))
def test_pods_are_placed_as_if_all_were_tried_after_every_event(history: list[tuple[Event, bool]]) -> None:
    world = World()
    for kind in KINDS:
        world.arrive(kind, 0, 6)
        world.arrive(kind, 1, 3)
    world.settle()
    for event, is_settled in history:
        world.happen(*event)
        if is_settled:
            wanted, world.placed = world.would_place(), []
            world.settle()
            assert sorted(world.placed) == sorted(wanted)
            assert world.would_place() == []


@settings(max_examples=300, deadline=None)
@given(data=st.data(), kinds=st.sampled_from([KINDS, ["plain", "bulky"]]))
def test_no_pod_waits_for_what_came_free_during_a_decision(data: st.DataObject, kinds: Iterable[str]) -> None:
    world = World()
    for kind in kinds:
        world.arrive(kind, 0, 4)
        world.arrive(kind, 1, 2)
    world.settle()
    event = events(kinds)
    for now, is_restarted, amid in data.draw(
        st.lists(st.tuples(event, st.booleans(), st.lists(event, max_size=3)), max_size=12)
    ):
        world.happen(*now)
        if is_restarted:
            world.restart()
        world.amid = list(amid)
        world.settle()
        assert world.would_place() == []
