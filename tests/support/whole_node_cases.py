"""Small clusters with limits and guarantees of whole nodes, and the best victims by trying every set of pods."""

from collections.abc import Iterator, Sequence
from itertools import chain, combinations
from random import Random
from typing import NamedTuple

from msgspec.structs import replace

from solver.domain import FINALIZER, Batch, Claim, Plan, Pod, PreemptionRules, QuotaResource, Snapshot
from tests.support import builders as b
from tests.support.bruteforce import best
from tests.support.preemption_cases import NOW, Harm, gone
from tests.support.quota_cases import devices, namespaces, quota, whole_nodes

TEAMS = ("red", "blue", "green")
RULES = PreemptionRules(is_enabled=True, frees_devices=True, scheduler_names=("dovetail",), now=NOW, reclaims=True)
PRIORITY = 1
"""That of the pods that wait; those that run are below it, have it, or are above."""


class Case(NamedTuple):
    """A cluster, and pods of one team that wait, each for devices of one node."""

    snapshot: Snapshot
    batch: Batch


def generated(seed: int, *, pods: int) -> Case:
    """Make a cluster of two or three nodes with two devices each, whose pods hold one device each."""
    rng = Random(seed)  # noqa: S311 - reproducible, no secret
    nodes = [f"n{n}" for n in range(rng.randint(2, 3))]
    running: list[Pod] = []
    held: list[Claim] = []
    for node in nodes:
        for device in range(2):
            if rng.random() < 0.8:
                name, team = f"{node}-{device}", rng.choice(TEAMS)
                pod = b.pod(name, name, namespace=team, node_name=node, priority=rng.choice((0, 1, 1, 1, 2)))
                claim = b.held(name, b.result("r", f"gpu-{device}", node), node_name=node, namespace=team)
                running.append(replace(pod, started=NOW - rng.randint(100, 10_000)))
                held.append(replace(claim, reserved_for=(b.consumer(name, team),), finalizers=(FINALIZER,)))
    names = [f"new-{n}" for n in range(pods)]
    claims = [b.claim(name, b.request("r", count=rng.choice((1, 1, 2))), namespace="red") for name in names]
    waiting = tuple(b.pod(name, name, namespace="red", priority=PRIORITY) for name in names)
    made = [each for node in nodes for each in (b.node(node, cpu=64), b.gpu_slice(node, count=2))]
    snapshot = b.snapshot(made, b.gpu_class(), namespaces(), running, held, claims)
    quotas = tuple(quota(team, *_resources(rng, is_red=team == "red"), team=team) for team in sorted(TEAMS))
    return Case(replace(snapshot, quotas=quotas), Batch(pods=waiting))


def _resources(rng: Random, *, is_red: bool) -> Iterator[QuotaResource]:
    if is_red or rng.random() < 0.8:
        limit = rng.randint(2, 5) if rng.random() < 0.3 else None
        yield devices(limit, guarantee=min(rng.randint(0, 4), 9 if limit is None else limit))
    if rng.random() < (0.9 if is_red else 0.6):
        limit = rng.randint(1, 2) if is_red or rng.random() < 0.3 else None
        guarantee = rng.randint(0, 2 if limit is None else limit) if rng.random() < 0.5 else 0
        yield replace(whole_nodes(limit), guarantee=guarantee)


def served(plan: Plan) -> int:
    """Count the pods that a plan places, at once or when its victims have left."""
    return len(plan.placements) + sum(len(each.placements) for each in plan.preemptions)


def best_by_all_sets(case: Case) -> tuple[int, Harm]:
    """
    Return how many pods can be served, and the least harm that does so, by every set of pods that may go.

    Pods that do not fit once all of these are gone get no victims: of a quota above its limit of nodes, one might fit
    beside a pod that keeps its node in use.
    """
    snapshot, found = case.snapshot, list[tuple[int, Harm]]()
    lower = [pod for pod in snapshot.pods if pod.priority < PRIORITY]
    for count in range(1, len(case.batch.pods) + 1):
        for pods in combinations(case.batch.pods, count):
            may_go = [*lower, *_borrowers(snapshot)] if _is_guaranteed(snapshot, pods) else lower
            (most,) = best(gone(snapshot, frozenset(pod.id for pod in may_go)), Batch(pods=pods)).counts
            sets = chain.from_iterable(combinations(may_go, size) for size in range(len(may_go) + 1))
            for victims in sets:
                (helped,) = best(gone(snapshot, frozenset(pod.id for pod in victims)), Batch(pods=pods)).counts
                found.append((-(min(helped, most) if victims else helped), harm(snapshot, victims)))
    helped, least = min(found)
    return -helped, least


def is_above_a_limit(snapshot: Snapshot) -> bool:
    """Whether a team has more nodes in use than its limit."""
    limits = [(each, team) for team in TEAMS for each in _of(snapshot, team) if each.shape == "wholeNodes"]
    return any(each.limit is not None and _amount(each, team, snapshot.pods) > each.limit for each, team in limits)


def harm(snapshot: Snapshot, victims: Sequence[Pod]) -> Harm:
    """Return what the eviction of pods comes to."""
    tiers = sorted({pod.priority for pod in snapshot.pods}, reverse=True)
    counts = tuple(sum(pod.priority == tier for pod in victims) for tier in tiers)
    return counts, len(victims), sum(NOW - pod.started for pod in victims)


def _is_guaranteed(snapshot: Snapshot, pods: Sequence[Pod]) -> bool:
    """Whether pods of red fit within all that it is guaranteed, each on one more node."""
    own = [each for each in _of(snapshot, "red") if each.guarantee]
    claims = {claim.id: claim for claim in snapshot.claims}
    asked = {
        "devices": sum(claims[pod.claim_ids[0]].requests[0].alternatives[0].count for pod in pods),
        "wholeNodes": len(pods),
    }
    return bool(own) and all(
        _amount(each, "red", snapshot.pods) + asked[each.shape or "devices"] <= each.guarantee for each in own
    )


def _borrowers(snapshot: Snapshot) -> list[Pod]:
    """Return the pods of the same priority that may be taken back: the youngest first, down to each guarantee."""
    keys = {each.key for each in _of(snapshot, "red") if each.guarantee}
    left, found = list(snapshot.pods), list[Pod]()
    for pod in sorted(snapshot.pods, key=lambda pod: (-pod.started, pod.id)):
        team, without = pod.id.namespace, [each for each in left if each is not pod]
        amounts = [
            (_amount(each, team, left), _amount(each, team, without), each.guarantee) for each in _of(snapshot, team)
        ]
        is_covered = all(now == before or now >= guarantee for before, now, guarantee in amounts)
        if pod.priority == PRIORITY and team != "red" and keys and is_covered:
            left = without
            found.append(pod)
    return found


def _of(snapshot: Snapshot, team: str) -> tuple[QuotaResource, ...]:
    return next(each.resources for each in snapshot.quotas if each.name == team)


def _amount(resource: QuotaResource, team: str, pods: Sequence[Pod]) -> int:
    own = [pod for pod in pods if pod.id.namespace == team]
    return len({pod.node_name for pod in own}) if resource.shape == "wholeNodes" else len(own)
