"""What the solver's cache counts where claims, pods, nodes and slices change equals what is counted from nothing."""

from collections import Counter
from collections.abc import Callable
from typing import TypeVar

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from solver.arrays import MOST
from solver.domain import (
    Batch,
    Claim,
    CounterId,
    DeviceId,
    HostPort,
    LabelRequirement,
    LabelSelector,
    Pod,
    PodAffinityTerm,
    Policy,
    Snapshot,
    WeightedPodAffinityTerm,
)
from solver.fleet.request_counts import DeviceSupplies
from solver.problem.expected_room import ExpectedRoom
from solver.problem.node_arrays import PODS
from solver.problem.prepare import prepare
from solver.problem.problem import Problem
from solver.problem.solver_cache import SolverCache
from solver.rules.inter_pod.pod_keys import PodSelector, PodSelectorIndex
from solver.rules.inter_pod.running_pods import RunningPods
from tests.support import builders as b
from tests.support.expected_pods import expecting
from tests.support.strategies import DRIVERS, Feature, Situation, situations

PROPERTY = settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large], max_examples=100)
FEATURES = frozenset(
    {Feature.CAPACITY, Feature.COUNTERS, Feature.GROUPS, Feature.WIDE, Feature.USAGE, Feature.NODE_FIT}
)
NODES = (b.node("n0"), b.node("n1"))
SELECTOR = LabelSelector(requirements=(LabelRequirement(key="app", operator="In", values=("x",)),))
AWAY = PodAffinityTerm(topology_key="rack", selector=SELECTOR)
WISH = WeightedPodAffinityTerm(weight=1, term=AWAY)
CHANGES: dict[str, Callable[[Pod], Pod]] = {
    "nothing": lambda pod: pod,
    "requests": lambda pod: replace(pod, requests=(("cpu", 700), ("example.com/none", 1))),
    "more than there can be": lambda pod: replace(pod, requests=(("cpu", 3 * 2**52),)),
    "host port": lambda pod: replace(pod, host_ports=(HostPort(port=80),)),
    "anti-affinity": lambda pod: replace(pod, anti_affinity=(AWAY,)),
    "affinity": lambda pod: replace(pod, preferred_affinity=(WISH,)),
    "label": lambda pod: replace(pod, labels=(("app", "x"),)),
}
Each = TypeVar("Each", Claim, Pod)
T = TypeVar("T")


@st.composite
def _claims(draw: st.DrawFn, devices: list[DeviceId]) -> list[Claim]:
    """Claims that hold devices alone, as shares or as admins; also twice the same device, and devices that are gone."""
    found = []
    for number in range(draw(st.integers(2, 6))):
        device = draw(st.sampled_from(devices))
        share = b.share_id(number) if draw(st.booleans()) else ""
        held = b.result(
            "r0",
            device.device,
            device.pool,
            driver=device.driver,
            is_admin=draw(st.integers(0, 5)) == 0,
            share_id=share,
            consumed={"memory": draw(st.integers(0, 3))} if share else {},
        )
        found.append(b.held(f"held-by-{number}", held))
    return found


@st.composite
def _pods(draw: st.DrawFn, nodes: list[str]) -> list[Pod]:
    made = (
        b.pod(f"on-node-{number}", node_name=draw(st.sampled_from(nodes)), cpu=draw(st.integers(0, 2)))
        for number in range(draw(st.integers(1, 4)))
    )
    return [CHANGES[draw(st.sampled_from(sorted(CHANGES)))](pod) for pod in made]


@st.composite
def histories(draw: st.DrawFn, features: frozenset[Feature] = FEATURES) -> tuple[Situation, list[Snapshot]]:
    """Draw snapshots that have some of the same objects each; some come again, as preemption goes back and forth."""
    situation = draw(situations(features, most_pods=3))
    first = situation.snapshot
    devices = [DeviceId(each.driver, each.pool, device.name) for each in first.slices for device in each.devices]
    devices = draw(st.permutations([*devices, b.device_id("gone", "n0", DRIVERS[0])]))[:3]
    claims = draw(_claims(devices))
    draws = tuple((device, ((CounterId(*device[:2], "card", "slices"), 10**9),)) for device in sorted(devices))
    pods = draw(_pods(["gone", *(node.name for node in first.nodes)]))
    slices = [first.slices, tuple(replace(each, generation=each.generation + 1) for each in first.slices)]
    slices.append(first.slices[1:])
    slices += (
        [(replace(first.slices[0], devices=first.slices[0].devices[1:]), *first.slices[1:])] if first.slices else []
    )
    nodes = [first.nodes, tuple(replace(each, allocatable=(("cpu", 5000), ("pods", 9))) for each in first.nodes)]
    snapshots = [first]
    for _ in range(draw(st.integers(2, 6))):
        if draw(st.integers(0, 3)) == 0:
            snapshots.append(draw(st.sampled_from(snapshots)))
            continue
        snapshots.append(
            replace(
                snapshots[-1],
                claims=_sorted([*first.claims, *draw(_some(claims))]),
                pods=_sorted([*first.pods, *draw(_some(pods))]),
                slices=draw(_mostly(snapshots[-1].slices, slices)),
                nodes=draw(_mostly(snapshots[-1].nodes, nodes)),
                draws=draw(_mostly(snapshots[-1].draws, [(), draws])),
            )
        )
    return situation, snapshots


def _mostly(same: T, others: list[T]) -> st.SearchStrategy[T]:
    """Choose the same in five of six."""
    return st.integers(0, 5).flatmap(lambda number: st.sampled_from(others) if number == 0 else st.just(same))


@st.composite
def _some(draw: st.DrawFn, objects: list[Each]) -> list[Each]:
    """Choose some objects; now and then an equal one in the place of one."""
    chosen = [each for each in objects if draw(st.booleans())]
    return [replace(each) if draw(st.integers(0, 3)) == 0 else each for each in chosen]


def _sorted(objects: list[Each]) -> tuple[Each, ...]:
    return tuple(sorted(objects, key=lambda each: each.id))


def look(problem: Problem, cache: SolverCache | None = None) -> dict[str, object]:
    """Copy everything that is counted, in a form that can be compared."""
    available, ledger, records = problem.available, problem.available.ledger, problem.inventory.records
    found: dict[str, object] = {
        "claims": dict(problem.requests.claims),
        "exclusive": {records[index].id for index in ledger.exclusive},
        "shared": {records[index].id: dict(consumed) for index, consumed in ledger.shared.items()},
        "absent": set(ledger.absent),
        "drawn": dict(ledger.drawn),
        "states": list(available.states),
        "wide state": available.wide_state,
        "whole": available.is_unused.tolist(),
        "kinds": [available.kinds[number] for number in available.kind_of.tolist()],
        "keys": problem.device_keys()[0],
        "room": {resource: amounts.tolist() for resource, amounts in available.room.free.items()},
    }
    if cache is not None:
        found |= _running(cache.inter_pod(problem.inventory, problem.snapshot.pods).running)
    return found


def _running(running: RunningPods) -> dict[str, object]:
    ports = {HostPort(port=80), HostPort(port=80, protocol="UDP")}
    counts = running.counts((PodSelector((b.NAMESPACE,), None, SELECTOR),), PodSelectorIndex({}))
    return {
        "holders": {term: set(nodes) for term, nodes in running.holders.items()},
        "order of terms": list(running.holders),
        "ports": {port: running.ports.nodes((port,)) for port in ports},
        "pulling": list(running.pulling),
        "selected": (counts.all.tolist(), counts.staying.tolist()),
    }


@PROPERTY
@given(histories(), st.data())
def test_what_is_counted_from_changes_equals_what_is_counted_from_nothing(
    case: tuple[Situation, list[Snapshot]], data: st.DataObject
) -> None:
    situation, snapshots = case
    cache, seen = SolverCache(), list[tuple[Problem, dict[str, object]]]()
    for snapshot in snapshots:
        pods = situation.batch.pods[: data.draw(st.integers(1, len(situation.batch.pods)))]
        batch, cold = Batch(pods=pods), SolverCache()
        warm = prepare(snapshot, batch, Policy(), cache)
        assert look(warm, cache) == look(prepare(snapshot, batch, Policy(), cold), cold)
        seen.append((warm, look(warm)))
    for problem, was in seen:
        assert look(problem) == was


def look_at_expected(problem: Problem) -> tuple[list[int], ...]:
    room = ExpectedRoom(problem)
    worth = list(problem.requests.worth)
    return (
        worth,
        *room.counts().by_devices.tolist(),
        *room.counts().values.tolist(),
        room.counts().nodes,
        room.lost_to((("cpu", 1000),)).tolist(),
    )


@PROPERTY
@given(histories())
def test_room_for_expected_pods_counted_from_changes_is_that_counted_from_nothing(
    case: tuple[Situation, list[Snapshot]],
) -> None:
    situation, snapshots = case
    policy, cache = expecting(Policy(), situation), SolverCache()
    assume(snapshots[0].nodes and policy.expected)
    seen = list[tuple[Problem, tuple[list[int], ...]]]()
    for snapshot in snapshots:
        warm = prepare(snapshot, situation.batch, policy, cache)
        cold = prepare(snapshot, situation.batch, policy, SolverCache())
        assume(cold.requests.expected)
        assert look_at_expected(warm) == look_at_expected(cold)
        seen.append((warm, look_at_expected(warm)))
    for problem, was in seen:
        assert look_at_expected(problem) == was


@PROPERTY
@given(histories())
def test_what_is_counted_from_changes_is_what_objects_say(case: tuple[Situation, list[Snapshot]]) -> None:
    situation, snapshots = case
    cache = SolverCache()
    for snapshot in snapshots:
        problem = prepare(snapshot, situation.batch, Policy(), cache)
        _check_usage(problem)
        _check_room(problem)
        kinds = [problem.available.kinds[number] for number in problem.available.kind_of.tolist()]
        assert kinds == list(zip(problem.layout.group_of, problem.available.states, strict=True))
        keys, key_of = problem.device_keys()
        assert [keys[number] for number in key_of.tolist()] == list(map(problem.device_key, range(problem.node_count)))
        assert keys == list(dict.fromkeys(map(problem.device_key, range(problem.node_count))))


@PROPERTY
@given(histories(FEATURES - {Feature.WIDE} | {Feature.TAINTS, Feature.ADMIN}), st.data())
def test_devices_counted_from_changes_are_those_counted_from_nothing(
    case: tuple[Situation, list[Snapshot]], data: st.DataObject
) -> None:
    situation, snapshots = case
    cache, problems = SolverCache(), list[Problem]()
    for snapshot in snapshots:
        problems.append(prepare(snapshot, situation.batch, Policy(), cache))
        check_supplies(problems[-1], data)
    for problem in problems:
        check_supplies(problem, data)


def check_supplies(problem: Problem, data: st.DataObject) -> None:
    nodes = np.array([data.draw(st.booleans()) for _ in range(problem.node_count)], dtype=np.bool_)
    asks = [ask for each in problem.requests.components for asks in each.requests for ask in asks]
    for ask in asks:
        supplies = DeviceSupplies(problem)
        found = supplies.of(ask, nodes)
        assert found == supplies._count(ask, set(np.flatnonzero(nodes).tolist()))  # noqa: SLF001 - the general way
        assert all(found.verdicts.values())
        assert all(found.obstacles.values())
        assert all(found.taints.values())


def _check_usage(problem: Problem) -> None:
    inventory, ledger = problem.inventory, problem.available.ledger
    allocations = (claim.allocation for claim in problem.snapshot.claims if claim.allocation is not None)
    results = [each for allocation in allocations for each in allocation.results if not each.admin_access]
    known = [(inventory.record_of[each.device], each) for each in results if each.device in inventory.record_of]
    assert ledger.exclusive.keys() == {record for record, each in known if not each.share_id}
    assert ledger.shared.keys() == {record for record, each in known if each.share_id}
    assert ledger.absent.keys() == {each.device for each in results if each.device not in inventory.record_of}
    consumed = Counter[tuple[int, str]]()
    for record, each in known:
        for name, amount in each.consumed_capacity if each.share_id else ():
            consumed[record, name] += amount.nano
    assert {(record, name): amount for record, each in ledger.shared.items() for name, amount in each.items()} == {
        key: amount for key, amount in consumed.items() if amount
    }
    homes = {inventory.records[record].home for record, _ in known}
    owning = {record.home for record in inventory.records.values()}
    assert problem.available.is_unused.tolist() == [
        node in owning and node not in homes for node in range(problem.node_count)
    ]


def _check_room(problem: Problem) -> None:
    left = Counter[tuple[str, str]]()
    names = {PODS, *(resource for node in problem.inventory.nodes for resource, _ in node.allocatable)}
    for node in problem.inventory.nodes:
        left.update({(node.name, resource): amount for resource, amount in node.allocatable})
    for pod in problem.snapshot.pods:
        for resource, amount in ((PODS, 1), *pod.requests):
            left[pod.node_name, resource] -= amount
    assert {resource: amounts.tolist() for resource, amounts in problem.available.room.free.items()} == {
        resource: [max(-MOST, min(MOST, left[node.name, resource])) for node in problem.inventory.nodes]
        for resource in names
    }


@pytest.mark.parametrize("is_wide", [False, True])
@pytest.mark.parametrize("groups", [((), (), ()), (("a",), ("b",), ("a", "b"))])
def test_counters_that_claims_draw_are_taken_and_given_back(
    groups: tuple[tuple[str, ...], ...], *, is_wide: bool
) -> None:
    """With groups, two devices in use are not compatible: they shut out all others of their counter set."""
    devices = [
        b.device(f"d{number}", consumes={"card": {"slices": 2}}, groups=each) for number, each in enumerate(groups)
    ]
    at = b.scope(all_nodes=True) if is_wide else None
    slices = (
        b.resource_slice("n0", *devices, slice_count=2, at=at),
        b.resource_slice("n0", slice_count=2, counter_sets={"card": {"slices": 9}}, at=at),
    )
    held = [b.held(f"h{number}", b.result("r0", f"d{number}", "n0")) for number in range(2)]
    cache, batch = SolverCache(), b.batch(b.pod("p", "c"))
    seen = []
    for number in (0, 1, 2, 1, 2, 0):
        snapshot = b.snapshot(b.gpu_class(), b.claim("c"), held[:number])
        snapshot = replace(snapshot, slices=slices, nodes=NODES)
        warm, cold = prepare(snapshot, batch, Policy(), cache), prepare(snapshot, batch, Policy(), SolverCache())
        assert look(warm) == look(cold)
        seen.append((warm.available.states, warm.available.wide_state))
    assert seen[0] == seen[5] != seen[1] == seen[3] != seen[2] == seen[4]
