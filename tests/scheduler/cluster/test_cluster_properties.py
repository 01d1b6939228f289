"""Changes, assumptions and their ends in any order: store and indexes are what a rebuild from scratch gives."""

from collections import defaultdict
from typing import TypeVar

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from scheduler.change import Change, Object
from scheduler.cluster import Assumptions, Cluster, Unit
from scheduler.cluster.devices import ConsumedCounters
from scheduler.cluster.object_store import ObjectStore
from solver.domain import (
    Allocation,
    Claim,
    ClaimAllocation,
    DeviceId,
    Placement,
    Pod,
    PoolId,
    ResourceSlice,
    Snapshot,
    consumed_counters,
)
from tests.support.builders import (
    allocation,
    claim,
    consumer,
    device,
    device_class,
    node,
    pod,
    resource_slice,
    result,
    share_id,
    taint,
    taint_rule,
)
from tests.support.cluster_builders import cluster_of, gone, objects_of, seen, show, unit

DEVICES = ["d0", "d1", "d2"]
NODES = ["n1", "n2"]

nodes = st.builds(
    node, st.sampled_from(NODES), cpu=st.integers(1, 4), is_unschedulable=st.booleans(), pods=st.integers(1, 3)
)


@st.composite
def slices(draw: st.DrawFn) -> ResourceSlice:
    """Devices of two pools; what a device draws from its counters may change from slice to slice."""
    pool = draw(st.sampled_from(NODES))
    listed = draw(st.lists(st.sampled_from(DEVICES), unique=True))
    devices = [
        device(
            name,
            is_shareable=name == "d2",
            capacities={"memory": 8},
            consumes={"card": {"memory": draw(st.integers(1, 2))}},
        )
        for name in listed
    ]
    return resource_slice(
        pool,
        *devices,
        name=draw(st.sampled_from([f"{pool}-x", f"{pool}-y"])),
        generation=draw(st.integers(1, 2)),
        slice_count=draw(st.integers(1, 2)),
        counter_sets={"card": {"memory": 2}} if draw(st.booleans()) else None,
    )


@st.composite
def allocations(draw: st.DrawFn) -> Allocation:
    found = []
    for index in range(draw(st.integers(0, 2))):
        name = draw(st.sampled_from(DEVICES))
        found.append(
            result(
                f"request-{index}",
                name,
                draw(st.sampled_from(NODES)),
                share_id=share_id(draw(st.integers(1, 3))) if name == "d2" else "",
                consumed={"memory": draw(st.integers(1, 4))} if name == "d2" else None,
                is_admin=draw(st.integers(0, 9)) == 0,
            )
        )
    return allocation(*found)


@st.composite
def claims(draw: st.DrawFn) -> Claim:
    found = claim(draw(st.sampled_from(["c1", "c2", "c3"])), is_deleting=draw(st.integers(0, 9)) == 0)
    allocated = draw(st.none() | allocations())
    holders = draw(st.lists(st.sampled_from(["p1", "p2", "p3"]), unique=True)) if allocated is not None else []
    return msgspec.structs.replace(
        found,
        uid=draw(st.sampled_from([found.uid, found.uid, found.uid, "another"])),
        resource_version=str(draw(st.integers(1, 20))),
        allocation=allocated,
        reserved_for=tuple(consumer(each) for each in holders),
    )


@st.composite
def pods(draw: st.DrawFn) -> Pod:
    found = pod(
        draw(st.sampled_from(["p1", "p2", "p3"])),
        *draw(st.lists(st.sampled_from(["c1", "c2", "c3"]), unique=True, max_size=2)),
        node_name=draw(st.sampled_from(["", "", *NODES])),
        cpu=draw(st.integers(0, 3)),
    )
    return msgspec.structs.replace(
        found,
        uid=draw(st.sampled_from([found.uid, found.uid, found.uid, "another"])),
        is_terminal=draw(st.integers(0, 9)) == 0,
    )


others = st.sampled_from([device_class("gpu"), device_class("gpu", "true"), taint_rule("r", taint("k"))])
objects: st.SearchStrategy[Object] = st.one_of(nodes, slices(), claims(), pods(), others)


@st.composite
def units(draw: st.DrawFn) -> Unit:
    placed = [
        pod(name, *draw(st.lists(st.sampled_from(["c1", "c2", "c3"]), unique=True, max_size=2)))
        for name in draw(st.lists(st.sampled_from(["p1", "p2", "p3"]), unique=True, min_size=1, max_size=2))
    ]
    where = draw(st.sampled_from(NODES))
    used = sorted({each for one in placed for each in one.claim_ids})
    new = [each for each in used if draw(st.booleans())]
    return unit(
        *(Placement(pod=one.id, pod_uid=one.uid, node=where, claims=one.claim_ids) for one in placed),
        *(ClaimAllocation(claim=each, claim_uid=claim(each.name).uid, allocation=draw(allocations())) for each in new),
    )


def naive_holdings(store: ObjectStore) -> dict[DeviceId, set[tuple[str, bool]]]:
    held: defaultdict[DeviceId, set[tuple[str, bool]]] = defaultdict(set)
    for each in store.assumed_claims.values():
        for one in each.allocation.results if each.allocation is not None else ():
            if not one.admin_access:
                held[one.device].add((each.id.name, bool(one.share_id)))
    return held


def assert_indexes_are_right(cluster: Cluster, remembered: dict[DeviceId, ConsumedCounters]) -> None:
    """Compare every index with a computation over all believed objects; `remembered` is kept from step to step."""
    store = cluster.store
    held = naive_holdings(store)
    for pool in NODES:
        for name in DEVICES:
            one = DeviceId("gpu.example.com", pool, name)
            holders = store.allocated_devices.holders(one)
            assert set(holders) == {each.id for each in store.assumed_claims.values() if _holds(each, one)}
            _remember(store, one, remembered, is_held=bool(holders))
            assert store.allocated_devices.draws(one) == remembered.get(one)
        assert set(store.allocated_devices.in_pool(PoolId("gpu.example.com", pool))) == {
            each for each in held if each.pool == pool
        }
    assert {device for device, _ in store.allocated_devices.contested()} == {
        each for each, how in held.items() if len({name for name, _ in how}) > 1 and not all(share for _, share in how)
    }
    assert_seats_are_right(store)


def _holds(each: Claim, one: DeviceId) -> bool:
    results = each.allocation.results if each.allocation is not None else ()
    return any(result.device == one and not result.admin_access for result in results)


def _remember(
    store: ObjectStore, one: DeviceId, remembered: dict[DeviceId, ConsumedCounters], *, is_held: bool
) -> None:
    listed = [
        (each.generation, each.name, found)
        for each in store.slices.values()
        for found in each.devices
        if DeviceId(each.driver, each.pool, found.name) == one
    ]
    if not is_held:
        remembered.pop(one, None)
    elif one not in remembered and listed:
        remembered[one] = consumed_counters(one, max(listed, key=lambda entry: entry[:2])[2])


def assert_seats_are_right(store: ObjectStore) -> None:
    seated = [each for each in store.assumed_pods.values() if each.node_name and not each.is_terminal]
    assert list(store.placed_pods.values()) == sorted(seated, key=lambda each: each.id)
    for name in NODES:
        assert store.pod_index.on(name) == {each.id: each for each in seated if each.node_name == name}
    users = {(key, each.id) for each in store.assumed_pods.values() for key in each.claim_ids}
    assert {(key, each) for key, found in store.pods_by_claim.items() for each in found} == users


class Life(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.cluster = Cluster()
        self.last: dict[tuple[str, str], Change] = {}
        self.assumed: list[Unit] = []
        self.remembered: dict[DeviceId, ConsumedCounters] = {}

    def apply(self, change: Change) -> None:
        self.cluster.apply(change)
        self.last[change.kind, change.key] = change

    @rule(each=objects)
    def show(self, each: Object) -> None:
        self.apply(seen(each))

    @rule(each=objects)
    def delete(self, each: Object) -> None:
        self.apply(gone(each))

    @rule(each=units())
    def assume(self, each: Unit) -> None:
        self.assumed.append(each)
        self.cluster.assume(each)

    @precondition(lambda self: self.assumed)
    @rule(data=st.data())
    def forget(self, data: st.DataObject) -> None:
        each = self.assumed.pop(data.draw(st.integers(0, len(self.assumed) - 1)))
        self.cluster.forget(each)

    @precondition(lambda self: self.assumed)
    @rule(data=st.data(), half=st.sampled_from(["pods", "claims"]))
    def echo(self, data: st.DataObject, half: str) -> None:
        """Half of what a unit writes comes back."""
        each = data.draw(st.sampled_from(self.assumed))
        if half == "pods":
            found = [self.cluster.pod(one.pod) for one in each.placements]
        else:
            found = [self.cluster.claim(one) for one in each.claims]  # type: ignore[misc]  # one list for both halves
        for one in found:
            if one is not None:
                self.apply(seen(one))

    @precondition(lambda self: self.assumed)
    @rule(data=st.data(), version=st.integers(1, 20), withdrawn=st.booleans())
    def answer(self, data: st.DataObject, version: int, *, withdrawn: bool) -> None:
        """The server answers a write of a claim, or its withdrawal."""
        each = data.draw(st.sampled_from(self.assumed))
        for key in each.claims:
            found = self.cluster.claim(key)
            if found is not None:
                changes = {"allocation": None, "reserved_for": ()} if withdrawn else {}
                self.cluster.acknowledge(msgspec.structs.replace(found, resource_version=str(version), **changes))

    @invariant()
    def indexes_are_right(self) -> None:
        assert_indexes_are_right(self.cluster, self.remembered)

    @invariant()
    def a_replica_is_the_same(self) -> None:
        replica = Cluster()
        for change in self.last.values():
            replica.apply(change)
        assert replica.snapshot(self.cluster.assumptions()) == self.cluster.snapshot()

    def teardown(self) -> None:
        """Without assumptions, and when the watch has caught up with every answer, only what it gave is left."""
        for each in self.assumed:
            self.cluster.forget(each)
        for change in list(self.last.values()):
            if isinstance(change.value, Claim):
                self.apply(seen(msgspec.structs.replace(change.value, resource_version="99")))
        scratch = Cluster()
        for change in self.last.values():
            scratch.apply(change)
        assert without_draws(self.cluster.assumptions()) == Assumptions()
        assert without_draws(self.cluster.snapshot()) == without_draws(scratch.snapshot())


T = TypeVar("T", Assumptions, Snapshot)


def without_draws(value: T) -> T:
    """Leave out what only the past can tell."""
    return msgspec.structs.replace(value, draws=(), withdrawn=())


Life.TestCase.settings = settings(max_examples=120, stateful_step_count=30)
TestLife = Life.TestCase


@given(st.lists(objects, max_size=20), st.randoms(use_true_random=False))
def test_the_order_in_which_objects_are_shown_does_not_matter(shown: list[Object], random: object) -> None:
    once = list({(type(each), getattr(each, "id", getattr(each, "name", ""))): each for each in shown}.values())
    shuffled = list(once)
    random.shuffle(shuffled)  # type: ignore[attr-defined]  # hypothesis' Random

    assert without_draws(cluster_of(once).snapshot()) == without_draws(cluster_of(shuffled).snapshot())
    assert cluster_of(once).contested_devices() == cluster_of(shuffled).contested_devices()


@given(st.lists(objects, max_size=20), units())
def test_the_check_says_the_same_whether_the_unit_is_assumed_or_not(shown: list[Object], each: Unit) -> None:
    cluster = cluster_of(shown)
    before = cluster.check(each), cluster.compare_after_write(each)
    cluster.assume(each)

    assert (cluster.check(each), cluster.compare_after_write(each)) == before


@given(st.lists(objects, max_size=20), units(), objects)
def test_an_echo_confirms_and_changes_nothing_else(shown: list[Object], each: Unit, later: Object) -> None:
    cluster = cluster_of(shown)
    cluster.assume(each)
    believed = cluster.snapshot()
    for key in each.claims:
        found = cluster.claim(key)
        show(cluster, [found] if found is not None else [])
    for placement in each.placements:
        bound = cluster.pod(placement.pod)
        show(cluster, [bound] if bound is not None else [])
    assert cluster.snapshot() == believed

    show(cluster, later)
    cluster.forget(each)
    direct = cluster_of(objects_of(cluster.snapshot()))

    assert without_draws(cluster.snapshot()) == direct.snapshot()
