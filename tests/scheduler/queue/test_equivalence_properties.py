"""Pods of one equivalence class are interchangeable: for the queue, and for the decision about one pod."""

import random
from collections.abc import Sequence
from dataclasses import dataclass

from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from scheduler.queue import EquivalenceKeys, SchedulingQueue
from scheduler.queue.equivalence import PodTerms
from scheduler.queue.queueing_hints import POD_SPECIFIC
from solver import solve
from solver.domain import Batch, Budget, ClaimId, Pod, PodId, Policy, Reason, ReasonCode, Snapshot
from tests.support import builders as b
from tests.support.cluster_builders import became
from tests.support.neighbour_situations import Neighbourhood, neighbourhoods

EVENTS = (
    became(b.claim("x", allocation=b.allocation(b.result("gpu", "gpu-0", "n1"))), b.claim("x")),
    became(b.pod("x", node_name="n1"), None),
    became(None, b.node("n9")),
)
CODES = (
    (ReasonCode.DEVICES_IN_USE,),
    (ReasonCode.NODE_RESOURCES,),
    (ReasonCode.OUTRANKED,),
    (ReasonCode.NODE_TAINT, ReasonCode.NODE_RESOURCES),
    (ReasonCode.BUDGET,),
    (ReasonCode.POD_ANTI_AFFINITY,),
)
TEMPLATES = (
    b.pod("t"),
    b.pod("t", priority=1),
    b.pod("t", cpu=2000),
    b.pod("t", node_selector={"zone": "a"}),
)


@dataclass(frozen=True)
class Template:
    """What the pods of a Deployment have in common."""

    pod: Pod
    namespace: str

    def instance(self, number: int) -> Pod:
        """Give a pod, which differs from others in everything that is not in the key."""
        name = f"p-{number:03}"
        return replace(
            self.pod,
            id=PodId(self.namespace, name),
            uid=f"uid-{name}",
            labels=(("index", name),),
            images=(f"image-{number}",),
            creation=f"2026-01-01T00:00:{number % 60:02}Z",
        )


Step = tuple[str, int, int]
STEPS: st.SearchStrategy[list[Step]] = st.lists(
    st.one_of(
        st.tuples(st.just("event"), st.integers(0, len(EVENTS) - 1), st.just(0)),
        st.tuples(st.just("wait"), st.sampled_from([1, 5, 20, 301]), st.just(0)),
        st.tuples(st.just("decide"), st.sampled_from([0, 1, 2, 100]), st.integers(0, len(CODES) - 1)),
        st.tuples(st.just("delete"), st.integers(0, 200), st.just(0)),
    ),
    max_size=25,
)


class Run:
    """A queue, its pods by position, and all that can be seen of it, with positions for names."""

    def __init__(self, pods: Sequence[Pod]) -> None:
        keys = EquivalenceKeys(lambda _: None, lambda _: False, lambda _: False)
        self.queue = SchedulingQueue(["dovetail"], key_of=keys.of)
        self.pods = list(pods)
        self.position = {pod.id: number for number, pod in enumerate(pods)}
        self.now = 0.0
        self.seen: list[object] = []
        for pod in pods:
            self.now += 0.001
            self.queue.offer(pod, self.now)

    def step(self, step: Step, limit: int) -> None:
        match step:
            case ("event", number, _):
                self.queue.wake(EVENTS[number])
            case ("wait", seconds, _):
                self.now += seconds
            case ("decide", placed, codes):
                self.decide(limit, placed, [Reason(code=code, message="") for code in CODES[codes]])
            case (_, number, _):
                self.queue.remove(self.pods[number % len(self.pods)].id)
        self.seen.append((self.queue.next_due(self.now), [self.queue.state(pod.id) for pod in self.pods]))

    def decide(self, limit: int, placed: int, reasons: list[Reason]) -> None:
        batch = self.queue.take_batch(self.now, limit).pods
        self.seen.append([self.position[pod.id] for pod in batch])
        self.queue.placed(pod.id for pod in batch[:placed])
        for pod in batch[placed:]:
            self.queue.put_back(pod.id, pod.uid, reasons, self.now)
        for pod in batch[:placed]:
            self.queue.remove(pod.id)


@settings(max_examples=60, deadline=None)
@given(
    counts=st.lists(
        st.tuples(st.sampled_from(TEMPLATES), st.sampled_from("ab"), st.sampled_from([1, 3, 70])),
        min_size=1,
        max_size=4,
    ),
    steps=STEPS,
    limit=st.sampled_from([5, 100]),
    order=st.randoms(use_true_random=False),
)
def test_swapping_equal_pods_changes_nothing_but_names(
    counts: list[tuple[Pod, str, int]], steps: list[Step], limit: int, order: random.Random
) -> None:
    templates = [Template(pod, namespace) for pod, namespace, count in counts for _ in range(count)]
    order.shuffle(templates)
    numbers = list(range(len(templates)))
    for template in dict.fromkeys(templates):
        mine = [number for number, each in enumerate(templates) if each == template]
        swapped = list(mine)
        order.shuffle(swapped)
        for number, other in zip(mine, swapped, strict=True):
            numbers[number] = other
    one = Run([template.instance(number) for number, template in enumerate(templates)])
    other_run = Run([template.instance(number) for number, template in zip(numbers, templates, strict=True)])

    for step in steps:
        one.step(step, limit)
        other_run.step(step, limit)

    assert one.seen == other_run.seen


def outcome(snapshot: Snapshot, pod: Pod) -> frozenset[ReasonCode]:
    """Give the reasons for which a pod is not placed by itself, none where it is placed."""
    budget = Budget(seconds=60.0, deterministic_seconds=10.0)
    plan = solve(snapshot, Batch(pods=(pod,)), Policy(), budget)
    return frozenset(reason.code for unplaced in plan.unplaced for reason in unplaced.reasons)


def with_own_claims(snapshot: Snapshot, pod: Pod) -> Snapshot:
    """Give a snapshot in which the claims of a pod are its own, as if they were made from templates."""
    claims = (replace(each, owner_pod_uid=pod.uid) if each.id in pod.claim_ids else each for each in snapshot.claims)
    return replace(snapshot, claims=tuple(claims))


def with_twin(snapshot: Snapshot, pod: Pod) -> tuple[Snapshot, Pod]:
    """Give an equal pod, which differs in what decides nothing, and a snapshot with claims for it."""
    is_free = not (pod.affinity or pod.anti_affinity or pod.spread)
    namespace = "elsewhere" if is_free else pod.id.namespace
    names = {each: ClaimId(namespace, f"twin-{each.name}") for each in pod.claim_ids}
    twin = replace(
        pod,
        id=PodId(namespace, "twin"),
        uid="uid-twin",
        labels=(("twin", "yes"),) if is_free else pod.labels,
        images=("other",),
        creation="2020-01-01T00:00:00Z",
        preferred_node_affinity=(),
        preferred_affinity=(),
        preferred_anti_affinity=(),
        claims=tuple(replace(each, claim=names[each.claim]) if each.claim is not None else each for each in pod.claims),
    )
    copies = (
        replace(each, id=names[each.id], uid=f"twin-{each.uid}", owner_pod_uid=twin.uid)
        for each in snapshot.claims
        if each.id in names
    )
    claims = sorted((*snapshot.claims, *copies), key=lambda each: each.id)
    return replace(snapshot, claims=tuple(claims)), twin


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(case=neighbourhoods(with_devices=True, most_pods=1))
def test_a_pod_fails_for_the_reasons_of_its_equals(case: Neighbourhood) -> None:
    (pod,) = case.batch.pods
    snapshot, twin = with_twin(with_own_claims(case.snapshot, pod), pod)
    keys = EquivalenceKeys({each.id: each for each in snapshot.claims}.get, lambda _: False, lambda _: False)
    key = keys.of(PodTerms(pod))
    assume(key is not None)
    assert key == keys.of(PodTerms(twin))

    found, others = outcome(snapshot, pod), outcome(snapshot, twin)

    assert found == others or (found | others) & POD_SPECIFIC
