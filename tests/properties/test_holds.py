"""
Held room, on generated clusters: its pods get exactly what is held, others get none of it, and all that is left.

A hold is made of a plan for some pods. Then pods come in any order. What others may have is known by brute force, in
the cluster where each place is a pod that runs.
"""

from collections import Counter
from collections.abc import Sequence

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from solver import SolverCache, after_plan, places_of, solve, solve_greedily
from solver.domain import (
    Batch,
    Budget,
    Claim,
    ClaimId,
    Device,
    DeviceHold,
    DeviceId,
    Plan,
    Pod,
    PodId,
    Policy,
    Snapshot,
    open_seats,
)
from solver.verify import check
from tests.support import builders as b
from tests.support import hold_builders as h
from tests.support.bruteforce import best
from tests.support.strategies import ALL_FEATURES, Feature, Situation, situations

POLICY = Policy()
PROPERTY = settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large], max_examples=100)
HIGHEST = 2**31 - 1
UNSHARED = ALL_FEATURES - {Feature.SHARED_CLAIMS}


def decided(snapshot: Snapshot, batch: Batch, cache: SolverCache | None = None) -> Plan:
    plan = solve(snapshot, batch, POLICY, Budget(seconds=60.0, deterministic_seconds=10.0), cache)
    assert check(snapshot, batch, plan, POLICY) == ()
    return plan


def part(batch: Batch, pods: Sequence[Pod]) -> Batch:
    return replace(batch, pods=tuple(pods), gangs=batch.gangs_of(pods))


def held_for(situation: Situation, pods: Sequence[Pod], priority: int = HIGHEST) -> tuple[DeviceHold, Plan]:
    """Plan some pods of a situation, and hold the room of the plan for them."""
    batch = part(situation.batch, pods)
    plan = decided(situation.snapshot, batch)
    matchers = {pod.id: h.for_pod(pod.id.name, pod.id.namespace) for pod in pods}
    matchers = {pod.id: replace(matchers[pod.id], pod_uid=pod.uid) for pod in pods}
    places = places_of(batch, plan, matchers)
    return replace(h.hold("h", *places, priority=priority), places=places), plan


def devices(plan: Plan) -> dict[ClaimId, frozenset[DeviceId]]:
    return {
        each.claim: frozenset(result.device for result in each.allocation.results if not result.admin_access)
        for each in plan.allocations
    }


def counts(plan: Plan, batch: Batch) -> tuple[int, ...]:
    priority = {pod.id: pod.priority for pod in batch.pods}
    placed = Counter(priority[placement.pod] for placement in plan.placements)
    return tuple(placed[each] for each in sorted(set(priority.values()), reverse=True))


def with_running_places(snapshot: Snapshot) -> Snapshot:
    """The same cluster as its other pods see it, written down once more: a pod and a claim for each place."""
    pods, claims = list(snapshot.pods), list(snapshot.claims)
    for seat in open_seats(snapshot.holds):
        name, place = f"place-{seat.place.index}", seat.place
        taken = b.pod(name, namespace="held", node_name=place.node, priority=seat.hold.priority)
        pods.append(replace(taken, requests=place.requests, host_ports=place.host_ports))
        results = tuple(
            replace(
                b.result("r", "x", "y", share_id=each.share_id),
                device=each.device,
                consumed_capacity=each.consumed_capacity,
            )
            for each in place.devices
        )
        claims.append(b.claim(name, namespace="held", allocation=b.allocation(*results)))
    return replace(snapshot, holds=(), pods=tuple(sorted(pods, key=_id)), claims=tuple(sorted(claims, key=_id)))


def _id(each: Pod | Claim) -> PodId | ClaimId:
    return each.id


@PROPERTY
@given(situation=situations())
def test_pods_that_come_get_exactly_what_is_held(situation: Situation) -> None:
    hold, plan = held_for(situation, situation.batch.pods)
    again = decided(h.holding(situation.snapshot, hold), situation.batch)
    placed = {each.pod for each in plan.placements}
    assert {each.pod: each.node for each in again.placements if each.pod in placed} == {
        each.pod: each.node for each in plan.placements
    }
    assert all(bool(each.place) == (each.pod in placed) for each in again.placements)


@PROPERTY
@given(situation=situations(UNSHARED))
def test_pods_that_come_get_the_very_devices(situation: Situation) -> None:
    """Of a device that several may share, a pod may get more than its share where that is free."""
    hold, _ = held_for(situation, situation.batch.pods)
    again = decided(h.holding(situation.snapshot, hold), situation.batch)
    taken, places = devices(again), {seat.id: seat.place for seat in open_seats((hold,))}
    for placement in (each for each in again.placements if each.place):
        held = places[placement.place].devices
        found = {device for claim in placement.claims for device in taken.get(claim, ())}
        assert found <= {each.device for each in held}
        assert len(found) == len(held) or any(each.share_id for each in held)


@PROPERTY
@given(situation=situations(UNSHARED), data=st.data())
def test_others_get_all_but_what_is_held(situation: Situation, data: st.DataObject) -> None:
    pods = situation.batch.pods
    mine = data.draw(st.lists(st.sampled_from(pods), unique_by=lambda pod: pod.id)) if pods else []
    hold, _ = held_for(situation, mine)
    snapshot = h.holding(situation.snapshot, hold)
    others = part(situation.batch, [pod for pod in pods if pod not in mine])
    plan = decided(snapshot, others)
    assert counts(plan, others) == best(with_running_places(snapshot), others, POLICY).counts
    held = {each.device for place in hold.places for each in place.devices if not each.share_id}
    assert held.isdisjoint(device for taken in devices(plan).values() for device in taken)


@PROPERTY
@given(situation=situations(UNSHARED), data=st.data())
def test_in_whatever_order_pods_come_a_held_pod_gets_its_place(situation: Situation, data: st.DataObject) -> None:
    """Pods come in groups, each after the one before has its places; equal caches see holds come and go."""
    pods = list(situation.batch.pods)
    mine = data.draw(st.lists(st.sampled_from(pods), unique_by=lambda pod: pod.id)) if pods else []
    hold, planned = held_for(situation, mine)
    node_of = {each.pod: each.node for each in planned.placements}
    snapshot, cache, given_to = h.holding(situation.snapshot, hold), SolverCache(), dict[DeviceId, ClaimId]()
    waiting = data.draw(st.permutations(pods))
    while waiting:
        count = data.draw(st.integers(1, len(waiting)))
        group, waiting = waiting[:count], waiting[count:]
        batch = part(situation.batch, group)
        plan = decided(snapshot, batch, cache)
        placed = {each.pod: each.node for each in plan.placements}
        assert all(placed.get(pod.id) == node_of[pod.id] for pod in group if pod.id in node_of)
        for claim, found in devices(plan).items():
            assert found == devices(planned).get(claim, found)
            for device in found:
                if not any(published.allow_multiple_allocations for published in _published(snapshot, device)):
                    assert given_to.setdefault(device, claim) == claim
        snapshot = after_plan(snapshot, batch, plan)
    assert not open_seats(snapshot.holds)


def _published(snapshot: Snapshot, device: DeviceId) -> list[Device]:
    return [
        each
        for pool in snapshot.slices
        if (pool.driver, pool.pool) == device[:2]
        for each in pool.devices
        if each.name == device.device
    ]


@PROPERTY
@given(situation=situations(), data=st.data())
def test_a_pod_that_is_another_one_than_was_planned_harms_nobody(situation: Situation, data: st.DataObject) -> None:
    """Held pods have other claims and requests than the hold was made for; priorities are of any order."""
    pods = list(situation.batch.pods)
    mine = data.draw(st.lists(st.sampled_from(pods), unique_by=lambda pod: pod.id)) if pods else []
    hold, _ = held_for(situation, mine, data.draw(st.sampled_from((-1, 0, 1, 5))))
    specs = data.draw(st.permutations(pods))
    changed = tuple(
        replace(spec, id=pod.id, uid=pod.uid, gang=pod.gang, claims=pod.claims if pod not in mine else spec.claims)
        for pod, spec in zip(pods, specs, strict=True)
    )
    snapshot, batch = h.holding(situation.snapshot, hold), replace(situation.batch, pods=changed)
    plan = decided(snapshot, batch)
    assert check(snapshot, batch, solve_greedily(snapshot, batch, POLICY, Budget.unbounded()), POLICY) == ()
    kept = {seat.id: seat for seat in open_seats(hold_after(hold, plan))}
    priority = {pod.id: pod.priority for pod in batch.pods}
    takers = {claim: priority[each.pod] for each in plan.placements for claim in each.claims}
    for seat in kept.values():
        held = {each.device for each in seat.place.devices if not each.share_id}
        for claim, taken in devices(plan).items():
            assert takers[claim] > hold.priority or held.isdisjoint(taken)


def hold_after(hold: DeviceHold, plan: Plan) -> tuple[DeviceHold, ...]:
    used = {int(each.place.rpartition("/")[2]) for each in plan.placements if each.place}
    return (hold.with_used(used),)
