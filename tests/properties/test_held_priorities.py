"""
Held room among priorities, gangs and pods that leave it, on generated clusters.

The batch is split as the scheduler splits it, and decided part by part; each part is judged by the independent checker.
Two rules are checked here by themselves: a pod of the same or a lower priority takes no held device, and the pods of
places are no worse off than without other pods.
"""

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from scheduler.cluster.batch_parts import split_by_held_room
from solver import SolverCache, after_plan, places_of, solve, solve_greedily
from solver.domain import Batch, Budget, DeviceHold, DeviceId, Plan, Pod, PodId, Policy, Snapshot, open_seats
from solver.verify import check
from tests.support import hold_builders as h
from tests.support.bruteforce import best
from tests.support.strategies import ALL_FEATURES, Feature, Situation, situations

POLICY = Policy()
PROPERTY = settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large], max_examples=50)
UNSHARED = ALL_FEATURES - {Feature.SHARED_CLAIMS}


def decided(snapshot: Snapshot, batch: Batch, cache: SolverCache | None = None) -> Plan:
    plan = solve(snapshot, batch, POLICY, Budget(seconds=60.0, deterministic_seconds=10.0), cache)
    assert check(snapshot, batch, plan, POLICY) == ()
    greedy = solve_greedily(snapshot, batch, POLICY, Budget.unbounded())
    assert check(snapshot, batch, greedy, POLICY) == ()
    return plan


def part(batch: Batch, pods: list[Pod]) -> Batch:
    return replace(batch, pods=tuple(pods), gangs=batch.gangs_of(pods))


def some(data: st.DataObject, situation: Situation) -> list[Pod]:
    """Pods of a situation, gangs whole."""
    pods = situation.batch.pods
    chosen = data.draw(st.lists(st.sampled_from(pods), unique_by=lambda pod: pod.id)) if pods else []
    gangs = {pod.gang for pod in chosen if pod.gang is not None}
    return [pod for pod in pods if pod in chosen or pod.gang in gangs]


def held(batch: Batch, plan: Plan, priority: int) -> DeviceHold:
    """Hold the room of a plan for its pods."""
    matchers = {pod.id: replace(h.for_pod(pod.id.name, pod.id.namespace), pod_uid=pod.uid) for pod in batch.pods}
    places = places_of(batch, plan, matchers)
    return replace(h.hold("h", *places, priority=priority), places=places)


def devices(plan: Plan, pods: set[PodId]) -> set[DeviceId]:
    """What claims of some pods get of devices for themselves."""
    claims = {claim for each in plan.placements if each.pod in pods for claim in each.claims}
    results = (result for each in plan.allocations if each.claim in claims for result in each.allocation.results)
    return {each.device for each in results if not each.admin_access and not each.share_id}


def whole(hold: DeviceHold) -> set[DeviceId]:
    return {each.device for seat in open_seats((hold,)) for each in seat.place.devices if not each.share_id}


@PROPERTY
@given(situation=situations(UNSHARED), data=st.data())
def test_who_comes_first_takes_nothing_that_is_held_for_others(situation: Situation, data: st.DataObject) -> None:
    """All come at once. Only pods of a higher priority than the hold may change where its pods go."""
    mine = some(data, situation)
    own = part(situation.batch, mine)
    alone = decided(situation.snapshot, own)
    priority = data.draw(st.sampled_from((-1, 0, 1, 5)))
    hold = held(own, alone, priority)
    snapshot, cache = h.holding(situation.snapshot, hold), SolverCache()
    node_of = {each.pod: each.node for each in alone.placements}
    is_untouched, placed = True, dict[PodId, str]()
    for batch in split_by_held_room(situation.batch, (), snapshot.holds):
        plan = decided(snapshot, batch, cache)
        lower = {pod.id for pod in batch.pods if pod.priority <= priority and pod.id not in node_of}
        assert devices(plan, lower).isdisjoint(whole(snapshot.holds[0]))
        is_untouched &= not any(pod.priority > priority and pod.id not in node_of for pod in batch.pods)
        placed |= {each.pod: each.node for each in plan.placements}
        snapshot = after_plan(snapshot, batch, plan)
    assert placed.keys() >= node_of.keys() or not is_untouched
    if is_untouched:
        assert {key: node for key, node in placed.items() if key in node_of} == node_of


@PROPERTY
@given(situation=situations(UNSHARED), data=st.data())
def test_what_a_pod_leaves_is_given_to_none_of_the_same_or_a_lower_priority(
    situation: Situation, data: st.DataObject
) -> None:
    """Pods that leave have all of their room until they go, and what is held of it counts once."""
    mine = some(data, situation)
    own, highest = part(situation.batch, mine), max((pod.priority for pod in situation.batch.pods), default=0)
    plan = decided(situation.snapshot, own)
    leaving = tuple(each.pod_uid for each in plan.placements)
    hold = replace(held(own, plan, highest), departing=leaving)
    running = after_plan(situation.snapshot, own, plan)
    others = part(situation.batch, [pod for pod in situation.batch.pods if pod not in mine])

    before = decided(h.holding(running, hold), others)
    assert devices(before, {pod.id for pod in others.pods}).isdisjoint(whole(hold))
    assert not any(each.place for each in before.placements)
    assert {each.pod for each in before.placements} <= {each.pod for each in decided(running, others).placements} or (
        len(others.pods) > 1
    )

    gone = h.holding(situation.snapshot, hold)
    after = decided(gone, others)
    assert devices(after, {pod.id for pod in others.pods}).isdisjoint(whole(hold))
    assert len(after.placements) == sum(best(running, others, POLICY).counts)
