"""
Who would lose what next: the pods that a reclaim would evict, for pods that wait and for teams that may ask for more.

For a quota that holds less than it guarantees, and for which no pod that waits reclaims, it is asked what one more pod
would get: a single device, with the highest priority of the quota's running pods. Where no pod would be evicted for it,
and a pod of the quota waits for devices of the class, the answer is about that pod instead. The solver of the scheduler
answers all questions, with `preemption.reclaim` on, and so by the same least harm.
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final, NamedTuple

import msgspec

from scheduler.simulation import simulator
from scheduler.worker.recording import Record
from solver import SolverCache, waiting_pods
from solver.domain import (
    Batch,
    Claim,
    ClaimId,
    GangId,
    Plan,
    Pod,
    PodClaim,
    PodId,
    Preemption,
    QuotaKey,
    QuotaShape,
    QuotaState,
    QuotaTree,
    Request,
    SubRequest,
    Toleration,
    Victim,
    loose_gangs,
)

_MOST_QUESTIONS: Final = 50
"""So many pods that would ask for a device are tried: those of the quotas that are asked about, then by name."""


class LostPod(NamedTuple):
    """
    A pod that would be evicted, with the quota that loses it, "" where it has none.

    `is_reclaimed` says that it goes for what its quota has borrowed, and not because its priority is lower.
    """

    pod: PodId
    quota: str
    is_reclaimed: bool


class YoungPod(NamedTuple):
    """A pod that borrows and has not run for long enough to be evicted for a guarantee, with its quota."""

    pod: PodId
    quota: str
    ran_seconds: int


class NextReclaim(NamedTuple):
    """
    What a pod of a quota, or its gang, would get back, and who would lose it.

    Without a `pod` it is one more device of the key that is asked for. Without victims it would be `placed` as things
    are, or it waits. `workload` is that of the pod (`Pod.workload`). `too_young` would be evicted for a pod that waits
    if they had run for `minimum_run_seconds`.
    """

    quota: str
    key: QuotaKey | None
    pod: PodId | None
    gang: GangId | None = None
    victims: tuple[LostPod, ...] = ()
    placed: bool = False
    workload: str = ""
    too_young: tuple[YoungPod, ...] = ()
    minimum_run_seconds: int = 0

    def concerns(self, quotas: Collection[str]) -> bool:
        """Whether one of these quotas gets or loses something."""
        others = {each.quota for each in self.victims} | {each.quota for each in self.too_young}
        return self.quota in quotas or not others.isdisjoint(quotas)


class NextReclaims(NamedTuple):
    """The answers, and how many devices were not asked for because there are too many."""

    reclaims: tuple[NextReclaim, ...] = ()
    not_asked: int = 0


def next_reclaims(asked: Record, states: Sequence[QuotaState], quotas: Collection[str]) -> NextReclaims:
    """
    Answer for the pods that wait, and for the other quotas with something left of their guarantees.

    Only what concerns some `quotas` is told. What they would get themselves is asked first.
    """
    if not any(state.has_guarantee for state in states):
        return NextReclaims()
    snapshot, cache = asked.snapshot, SolverCache()
    tree = QuotaTree.of(snapshot.quotas, snapshot.namespaces)
    rules = msgspec.structs.replace(asked.policy.preemption, is_enabled=True, frees_devices=True, reclaims=True)
    asked = msgspec.structs.replace(asked, policy=msgspec.structs.replace(asked.policy, preemption=rules))
    plan = simulator.answer(asked, cache).plan
    priorities = {pod.id: pod.priority for pod in asked.snapshot.pods}

    def lost(victims: Sequence[Victim], priority: int) -> tuple[LostPod, ...]:
        return tuple(
            LostPod(each.pod, tree.quota_of(each.pod.namespace), priorities.get(each.pod, priority) >= priority)
            for each in victims
        )

    of_waiting = (_of_waiting(asked.batch, each, tree, lost) for each in plan.preemptions)
    found = [each for each in of_waiting if each is not None and each.concerns(quotas)]
    served = {each.quota for each in found}
    questions = [each for each in _one_more(asked, tree, states) if each.quota not in served]
    questions.sort(key=lambda each: each.quota not in quotas)
    stuck = _StuckPods(asked, plan, tree, lost, cache)
    for question in questions[:_MOST_QUESTIONS]:
        made = simulator.answer(question.added_to(asked), cache).plan
        victims = tuple(one for each in made.preemptions for one in lost(each.victims, question.pod.priority))
        answer = NextReclaim(question.quota, question.key, None, None, victims, placed=bool(made.placements))
        of_pods = () if victims else stuck.reclaims(question.quota, question.key)
        found += (each for each in of_pods or (answer,) if each.concerns(quotas) and each not in found)
    return NextReclaims(tuple(found), max(0, len(questions) - _MOST_QUESTIONS))


_Lost = Callable[[Sequence[Victim], int], tuple[LostPod, ...]]


def _of_waiting(batch: Batch, preemption: Preemption, tree: QuotaTree, lost: _Lost) -> NextReclaim | None:
    """Return what is taken from other quotas for pods that wait; None where nothing is."""
    own = {each.pod for each in preemption.placements}
    first = next(pod for pod in batch.pods if pod.id in own)
    quota, victims = tree.quota_of(first.id.namespace), lost(preemption.victims, first.priority)
    if not quota or all(each.quota in ("", quota) for each in victims):
        return None
    return _for_pod(batch, first, quota, victims)


def _for_pod(batch: Batch, pod: Pod, quota: str, victims: tuple[LostPod, ...] = ()) -> NextReclaim:
    """Say who would lose what for a pod that waits, and for the gang that it cannot start without."""
    gang = None if pod.gang in loose_gangs(batch.gangs) else pod.gang
    return NextReclaim(quota, None, pod.id, gang, victims, workload=pod.workload)


@dataclass
class _StuckPods:
    """The pods that a plan leaves waiting without an eviction, and what keeps back those that would be evicted."""

    asked: Record
    plan: Plan
    tree: QuotaTree
    lost: _Lost
    cache: SolverCache

    def reclaims(self, quota: str, key: QuotaKey) -> tuple[NextReclaim, ...]:
        """Answer for the pods of a quota that wait for devices of a key; none without such pods."""
        pods = [pod for pod in self._pods if self.tree.quota_of(pod.id.namespace) == quota and self._asks(pod, key)]
        if not pods:
            return ()
        own = {pod.id for pod in pods}
        found = [
            each for ids, each in self._with_young if not own.isdisjoint(ids) and each.quota == quota and each.too_young
        ]
        return tuple(found) or (_for_pod(self.asked.batch, pods[0], quota),)

    @cached_property
    def _pods(self) -> tuple[Pod, ...]:
        served = {one.pod for each in self.plan.preemptions for one in each.placements}
        waiting = {each.pod for each in self.plan.unplaced} - served
        return tuple(pod for pod in self.asked.batch.pods if pod.id in waiting)

    def _asks(self, pod: Pod, key: QuotaKey) -> bool:
        counts = waiting_pods((pod,), {pod.id.namespace}, self._claims.get, self.asked.snapshot.classes)
        return any(key.device_class in classes for _, classes in counts)

    @cached_property
    def _claims(self) -> dict[ClaimId, Claim]:
        return {each.id: each for each in self.asked.snapshot.claims}

    @cached_property
    def _with_young(self) -> tuple[tuple[frozenset[PodId], NextReclaim], ...]:
        """What would be reclaimed for which pods if no pod had to run for a minimum time first."""
        rules = self.asked.policy.preemption
        least, started = rules.reclaim_minimum_run_seconds, {pod.id: pod.started for pod in self.asked.snapshot.pods}
        if not least:
            return ()
        at_once = msgspec.structs.replace(rules, reclaim_minimum_run_seconds=0)
        policy = msgspec.structs.replace(self.asked.policy, preemption=at_once)
        plan = simulator.answer(msgspec.structs.replace(self.asked, policy=policy), self.cache).plan
        found = []
        for each in plan.preemptions:
            reclaim = _of_waiting(self.asked.batch, each, self.tree, self.lost)
            ran = {one.pod: rules.now - (started.get(one.pod) or rules.now) for one in each.victims}
            borrowing = () if reclaim is None else (one for one in reclaim.victims if one.is_reclaimed)
            young = tuple(YoungPod(one.pod, one.quota, ran[one.pod]) for one in borrowing if ran[one.pod] < least)
            if reclaim is not None:
                ids = frozenset(one.pod for one in each.placements)
                found.append((ids, reclaim._replace(victims=(), too_young=young, minimum_run_seconds=least)))
        return tuple(found)


class _Question(NamedTuple):
    """One more pod of a quota that asks for one device of a key."""

    quota: str
    key: QuotaKey
    pod: Pod
    claim: Claim

    def added_to(self, asked: Record) -> Record:
        """Return the case of this pod alone."""
        claims = tuple(sorted((*asked.snapshot.claims, self.claim), key=lambda each: each.id))
        return msgspec.structs.replace(
            asked,
            snapshot=msgspec.structs.replace(asked.snapshot, claims=claims),
            batch=Batch(pods=(self.pod,)),
            made_after=(),
            not_made=(),
        )


def _one_more(asked: Record, tree: QuotaTree, states: Sequence[QuotaState]) -> Iterator[_Question]:
    names = {state.quota: state for state in states}
    leaves: dict[str, str] = {}
    for namespace, leaf in sorted(tree.leaf_of.items()):
        leaves.setdefault(tree.quotas[leaf].name, namespace)
    for quota, namespace in sorted(leaves.items()):
        for each in names[quota].resources:
            if each.held >= each.guarantee or each.key.capacity or each.key.shape != QuotaShape.DEVICES:
                continue
            own = frozenset(names[quota].namespaces)
            priority = max((pod.priority for pod in asked.snapshot.pods if pod.id.namespace in own), default=0)
            scheduler = next(iter(asked.policy.preemption.scheduler_names), "")
            # The spaces make it no name of an object.
            name = f"one more {each.key}"
            request = Request(name="devices", alternatives=(SubRequest(device_class=each.key.device_class),))
            claim = Claim(id=ClaimId(namespace, name), uid=name, requests=(request,))
            pod = Pod(
                id=PodId(namespace, name),
                uid=name,
                scheduler_name=scheduler,
                priority=priority,
                claims=(PodClaim(entry="devices", claim=claim.id),),
                tolerations=(Toleration(operator="Exists"),),
            )
            yield _Question(quota, each.key, pod, claim)
