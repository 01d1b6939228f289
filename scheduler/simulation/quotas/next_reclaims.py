"""
Who would lose what next: the pods that a reclaim would evict, for pods that wait and for teams that may ask for more.

For a quota that holds less than it guarantees, and for which no pod that waits reclaims, it is asked what one more pod
would get: a single device, with the highest priority of the quota's running pods. The solver of the scheduler answers
all questions, with `preemption.reclaim` on, and so by the same least harm.
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Final, NamedTuple

import msgspec

from scheduler.simulation import simulator
from scheduler.worker.recording import Record
from solver import SolverCache
from solver.domain import (
    Batch,
    Claim,
    ClaimId,
    GangId,
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


class NextReclaim(NamedTuple):
    """
    What a pod of a quota, or its gang, would get back, and who would lose it.

    Without a `pod` it is one more device of the key that is asked for. Without victims it would be `placed` as things
    are, or it would wait. `workload` is that of the pod (`Pod.workload`).
    """

    quota: str
    key: QuotaKey | None
    pod: PodId | None
    gang: GangId | None = None
    victims: tuple[LostPod, ...] = ()
    placed: bool = False
    workload: str = ""

    def concerns(self, quotas: Collection[str]) -> bool:
        """Whether one of these quotas gets or loses something."""
        return self.quota in quotas or any(each.quota in quotas for each in self.victims)


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
    for question in questions[:_MOST_QUESTIONS]:
        made = simulator.answer(question.added_to(asked), cache).plan
        victims = tuple(one for each in made.preemptions for one in lost(each.victims, question.pod.priority))
        answer = NextReclaim(question.quota, question.key, None, None, victims, placed=bool(made.placements))
        found += [answer] if answer.concerns(quotas) else []
    return NextReclaims(tuple(found), max(0, len(questions) - _MOST_QUESTIONS))


def _of_waiting(
    batch: Batch, preemption: Preemption, tree: QuotaTree, lost: Callable[[Sequence[Victim], int], tuple[LostPod, ...]]
) -> NextReclaim | None:
    """Return what is taken from other quotas for pods that wait; None where nothing is."""
    own = {each.pod for each in preemption.placements}
    first = next(pod for pod in batch.pods if pod.id in own)
    quota, victims = tree.quota_of(first.id.namespace), lost(preemption.victims, first.priority)
    if not quota or all(each.quota in ("", quota) for each in victims):
        return None
    is_loose = any(each.is_loose for each in batch.gangs if each.id == first.gang)
    return NextReclaim(quota, None, first.id, None if is_loose else first.gang, victims, workload=first.workload)


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
