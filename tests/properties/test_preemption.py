"""On small generated clusters the victims are the cheapest, and every one of them is needed."""

import random
from typing import NamedTuple

from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from solver.domain import (
    Batch,
    Claim,
    Device,
    Gang,
    GangId,
    Plan,
    Pod,
    PodId,
    Policy,
    PreemptionRules,
    ResourceSlice,
    Snapshot,
)
from solver.verify import check
from tests.support import builders as b
from tests.support.bruteforce import best
from tests.support.preemption_cases import (
    DEVICES,
    RULES,
    decide,
    disruption_budget,
    gone,
    harm_of,
    holding,
    least_harm,
    running,
)

Draw = st.DrawFn
PROPERTY = settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large], max_examples=150)
GANG = GangId("default", "g", "dovetail.dev")
APPS = ("web", "db")


class Scene(NamedTuple):
    """A full cluster, a pod that wants in, and the rules."""

    snapshot: Snapshot
    pod: Pod
    rules: PreemptionRules


@st.composite
def scenes(draw: Draw) -> Scene:
    """Two nodes with four devices each, up to seven pods that hold some, in gangs or not, shielded or not."""
    nodes = [b.node(f"n{n}", cpu=4, pods=draw(st.sampled_from((3, 9)))) for n in range(2)]
    slices = [_devices(draw, f"n{n}") for n in range(2)]
    free = {f"n{n}": [device.name for device in each.devices] for n, each in enumerate(slices)}
    room = dict.fromkeys(free, 4)
    costs = {(each.pool, device.name): _slices(device) for each in slices for device in each.devices}
    left = dict.fromkeys(free, 4)
    pods: list[Pod] = []
    claims: list[Claim] = []
    for number in range(draw(st.integers(3, 7))):
        pod, held = _runs(draw, number, free, room)
        cost = sum(costs[device] for device in _devices_of(held))
        if cost > left[pod.node_name]:
            continue
        left[pod.node_name] -= cost
        pods.append(pod)
        claims += held
    shared = _shared(draw, pods, free)
    if all(costs[device] <= left[device[0]] for device in _devices_of(shared)):
        claims += shared
    if claims and claims[-1].id.name == "shared":
        pods = [_joined(each, claims[-1]) for each in pods]
    constraints = [b.match("gpu.example.com/root")] if draw(st.integers(0, 3)) == 0 else []
    asked = b.claim("asked", b.request("gpu", count=draw(st.integers(1, 3))), constraints=constraints)
    wants_devices = draw(st.integers(0, 2)) > 0
    names = ("asked",) if wants_devices else ()
    high = b.pod("high", *names, cpu=draw(st.integers(0, 4)), priority=4)
    budgets = tuple(disruption_budget(app, draw(st.integers(0, 2)), app=app) for app in APPS if draw(st.booleans()))
    rules = draw(st.sampled_from((RULES, DEVICES, DEVICES)))
    rules = replace(rules, most_victims=draw(st.sampled_from((1, 2, 100))))
    snapshot = b.snapshot(nodes, slices, b.gpu_class(), claims, asked, pods)
    gangs = tuple(Gang(id=GANG, min_count=draw(st.integers(0, 4))) for _ in range(draw(st.integers(0, 1))))
    return Scene(replace(snapshot, budgets=budgets, gangs=gangs), high, replace(rules, ceiling=rules.most_victims))


def _devices(draw: Draw, node: str) -> ResourceSlice:
    kind = draw(st.sampled_from(("whole", "whole", "shares", "partitions")))
    if kind == "whole":
        devices = [b.device(f"gpu-{n}", attributes={"gpu.example.com/root": n // 2}) for n in range(4)]
        return b.resource_slice(node, *devices)
    if kind == "shares":
        return b.resource_slice(
            node,
            *(
                b.device(
                    f"gpu-{n}",
                    capacities={"memory": b.capacity(8, default=3)},
                    consumes={"card": {"slices": 2}},
                    is_shareable=True,
                )
                for n in range(3)
            ),
            counter_sets={"card": {"slices": 4}},
        )
    counters = {"card": {"slices": 4}}
    sizes = (4, 2, 2, 1)
    devices = [b.device(f"gpu-{n}", consumes={"card": {"slices": size}}) for n, size in enumerate(sizes)]
    return b.resource_slice(node, *devices, counter_sets=counters)


def _devices_of(claims: list[Claim]) -> list[tuple[str, str]]:
    """Pool and name of every device that claims hold."""
    found = (result for claim in claims if claim.allocation is not None for result in claim.allocation.results)
    return [(each.device.pool, each.device.device) for each in found]


def _slices(device: Device) -> int:
    """What a device draws of its card."""
    return sum(amount.nano for each in device.consumes_counters for _, amount in each.counters) // 10**9


def _runs(draw: Draw, number: int, free: dict[str, list[str]], room: dict[str, int]) -> tuple[Pod, list[Claim]]:
    node = draw(st.sampled_from(sorted(free)))
    cpu = draw(st.integers(0, min(3, room[node])))
    room[node] -= cpu
    held: list[Claim] = []
    if draw(st.integers(0, 3)) > 0 and free[node]:
        device = free[node].pop(draw(st.integers(0, len(free[node]) - 1)))
        held.append(holding(f"c{number}", node, device, consumers=(f"p{number}",)))
        if draw(st.integers(0, 7)) == 0:
            held[0] = replace(held[0], finalizers=())
    pod = running(
        f"p{number}",
        node,
        *(each.id.name for each in held),
        cpu=cpu,
        priority=draw(st.integers(0, 3)),
        seconds=draw(st.sampled_from((10, 20, 40))),
        labels={"app": draw(st.sampled_from(APPS))},
    )
    if draw(st.integers(0, 3)) == 0:
        pod = replace(pod, gang=GANG)
    return replace(pod, is_preemptible=draw(st.integers(0, 7)) != 0), held


def _shared(draw: Draw, pods: list[Pod], free: dict[str, list[str]]) -> list[Claim]:
    node = draw(st.sampled_from(sorted(free)))
    users = [pod.id.name for pod in pods if pod.node_name == node][:2]
    if len(users) < 2 or not free[node] or draw(st.booleans()):
        return []
    return [holding("shared", node, free[node].pop(), consumers=users)]


def _joined(pod: Pod, claim: Claim) -> Pod:
    if all(each.uid != pod.uid for each in claim.reserved_for):
        return pod
    return replace(pod, claims=(*pod.claims, b.entry("shared")))


def evicted(plan: Plan) -> frozenset[PodId]:
    return frozenset(victim.pod for each in plan.preemptions for victim in each.victims)


def shares_as_published(snapshot: Snapshot) -> Snapshot:
    """Give what holds a shareable device a share of it, as an allocation would have."""
    shareable = {
        b.device_id(device.name, each.pool)
        for each in snapshot.slices
        for device in each.devices
        if device.allow_multiple_allocations
    }
    claims = []
    for number, claim in enumerate(snapshot.claims):
        allocation = claim.allocation
        if allocation is not None:
            results = tuple(
                replace(
                    each, share_id=b.share_id(number), consumed_capacity=b.quantities({"memory": 3 + 2 * (number % 2)})
                )
                if each.device in shareable
                else each
                for each in allocation.results
            )
            claims.append(replace(claim, allocation=replace(allocation, results=results)))
        else:
            claims.append(claim)
    return replace(snapshot, claims=tuple(claims))


@PROPERTY
@given(scene=scenes())
def test_victims_are_the_cheapest(scene: Scene) -> None:
    snapshot = shares_as_published(scene.snapshot)
    assume(best(snapshot, Batch(pods=(scene.pod,))).counts == (0,))

    plan = decide(snapshot, scene.pod, rules=scene.rules)
    expected = least_harm(snapshot, scene.pod, scene.rules)

    assert (expected is None) == (plan.preemptions == ())
    if expected is not None:
        assert plan.preemptions[0].is_proven
        assert harm_of(snapshot, plan) == expected


@PROPERTY
@given(scene=scenes(), others=st.integers(0, 2))
def test_every_victim_is_needed_and_every_plan_verifies(scene: Scene, others: int) -> None:
    snapshot = shares_as_published(scene.snapshot)
    more = [b.pod(f"more-{n}", cpu=2, priority=2 + n) for n in range(others)]
    batch = Batch(pods=tuple(sorted((scene.pod, *more), key=lambda pod: -pod.priority)))

    plan = decide(snapshot, *batch.pods, rules=scene.rules)

    assert check(snapshot, batch, plan, Policy(preemption=scene.rules)) == ()
    assert not plan.preemptions or plan.preemptions[0].victims
    if len(plan.preemptions) == 1 and not plan.placements:
        pods = tuple(pod for pod in batch.pods if pod.id == plan.preemptions[0].placements[0].pod)
        for spared in sorted(evicted(plan)):
            gang = {pod.id: pod.gang for pod in snapshot.pods}
            party = {each for each in evicted(plan) if each == spared or (gang[spared] and gang[each] == gang[spared])}
            left = gone(snapshot, evicted(plan) - party)
            left = left if scene.rules.frees_devices else replace(left, claims=snapshot.claims)
            assert best(left, Batch(pods=pods)).counts == (0,)


@settings(PROPERTY, max_examples=30)
@given(scene=scenes(), seed=st.integers(0, 1000))
def test_the_cost_does_not_depend_on_the_order_of_input(scene: Scene, seed: int) -> None:
    snapshot = shares_as_published(scene.snapshot)
    shuffled = list(snapshot.pods)
    random.Random(seed).shuffle(shuffled)  # noqa: S311 - no secret

    one = decide(snapshot, scene.pod, rules=scene.rules)
    other = decide(replace(snapshot, pods=tuple(shuffled)), scene.pod, rules=scene.rules)

    assert harm_of(snapshot, one) == harm_of(snapshot, other)
