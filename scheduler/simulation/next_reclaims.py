"""
Who would lose what next: the pods that a reclaim would evict, for pods that wait and for teams that may ask for more.

For a quota that holds less than it guarantees and has no pod waiting, it is asked what one more pod would get: a single
device, with the highest priority of the quota's running pods. The solver of the scheduler answers all questions, with
`preemption.reclaim` on, and so by the same least harm.
"""

from collections.abc import Collection, Iterator, Sequence
from typing import Final, NamedTuple

import msgspec

from scheduler.simulation import simulator
from scheduler.worker.recording import Record
from solver import SolverCache
from solver.domain import (
    Batch,
    Claim,
    ClaimId,
    Plan,
    Pod,
    PodClaim,
    PodId,
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
"""So many pods that would ask for a device are tried; the first quotas by name."""


class NextReclaim(NamedTuple):
    """
    What a pod of a quota would get back, and who would lose it.

    Without a `pod` nobody waits: it is one more device of the key that is asked for. `victims` are the pods that would
    be evicted, with the quotas that lose them ("" for pods without one). Without victims it would be `placed` as things
    are, or it would wait.
    """

    quota: str
    key: QuotaKey | None
    pod: PodId | None
    victims: tuple[tuple[PodId, str], ...] = ()
    placed: bool = False

    def concerns(self, quotas: Collection[str]) -> bool:
        """Whether one of these quotas gets or loses something."""
        return self.quota in quotas or any(name in quotas for _, name in self.victims)


def next_reclaims(asked: Record, states: Sequence[QuotaState]) -> tuple[NextReclaim, ...]:
    """Answer for the pods that wait, and then for the other quotas with something left of their guarantees."""
    if not any(state.has_guarantee for state in states):
        return ()
    snapshot, cache = asked.snapshot, SolverCache()
    tree = QuotaTree.of(snapshot.quotas, snapshot.namespaces)
    rules = msgspec.structs.replace(asked.policy.preemption, is_enabled=True, frees_devices=True, reclaims=True)
    asked = msgspec.structs.replace(asked, policy=msgspec.structs.replace(asked.policy, preemption=rules))
    plan = simulator.answer(asked, cache).plan
    found = list(_of_waiting(tree, plan))
    waiting = {tree.quota_of(pod.id.namespace) for pod in asked.batch.pods}
    questions = [each for each in _one_more(asked, tree, states) if each.quota not in waiting]
    for question in questions[:_MOST_QUESTIONS]:
        made = simulator.answer(question.added_to(asked), cache).plan
        victims = tuple(pair for each in made.preemptions for pair in _victims(tree, each.victims))
        found.append(NextReclaim(question.quota, question.key, None, victims, placed=bool(made.placements)))
    return tuple(found)


def _of_waiting(tree: QuotaTree, plan: Plan) -> Iterator[NextReclaim]:
    """Yield what reclaims give the pods that wait: preemptions that take from other quotas."""
    for preemption in plan.preemptions:
        pod = preemption.placements[0].pod
        quota, victims = tree.quota_of(pod.namespace), tuple(_victims(tree, preemption.victims))
        if quota and any(name and name != quota for _, name in victims):
            yield NextReclaim(quota, None, pod, victims)


def _victims(tree: QuotaTree, victims: Sequence[Victim]) -> Iterator[tuple[PodId, str]]:
    return ((victim.pod, tree.quota_of(victim.pod.namespace)) for victim in victims)


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
