"""
Gangs that ask for the same are one gang in a model of victims: only how many of them are served is decided.

In the model each gang has classes of pods of its own, and all ways to give equal gangs equal rooms are different
solutions to it. As one gang their pods are interchangeable, so that many gangs cost what one costs.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from msgspec.structs import replace

from solver.domain import Batch, Gang, GangId, PodId, Snapshot
from solver.preemption.cluster_state import ClusterState
from solver.preemption.dry_run import PreemptionContext, Preemptor
from solver.problem.prepare import prepare

MOST_PODS: Final = 512
"""Pods of equal gangs in one model, where there are more preemptors than a model takes."""


class EqualGangs(NamedTuple):
    """Which gangs of a batch are equal: each has the first of them, which stands for all in a model."""

    first_of: Mapping[GangId, GangId]

    def _kind(self, preemptor: Preemptor) -> object:
        gang = preemptor[0].gang
        return self.first_of.get(gang, preemptor[0].id) if gang is not None else preemptor[0].id

    def kinds(self, preemptors: Iterable[Preemptor]) -> int:
        """Count preemptors, equal gangs once."""
        return len({self._kind(each) for each in preemptors})

    def chosen(self, preemptors: Sequence[Preemptor], most: int) -> Sequence[Preemptor]:
        """Return the first preemptors of `most` kinds; of more than `most` preemptors at most `MOST_PODS` pods."""
        kinds, pods = set[object](), 0
        for number, preemptor in enumerate(preemptors):
            kinds.add(self._kind(preemptor))
            pods += len(preemptor)
            if len(kinds) > most or (number >= most and pods > MOST_PODS):
                return preemptors[:number]
        return preemptors

    def merged(self, batch: Batch) -> tuple[Batch, dict[GangId, int]]:
        """Return a batch in which equal gangs are one without a minimum, and how many each of these stands for."""
        counts = Counter(self.first_of[each.id] for each in batch.gangs if each.id in self.first_of)
        pods = tuple(
            replace(pod, gang=self.first_of[pod.gang]) if pod.gang is not None and pod.gang in self.first_of else pod
            for pod in batch.pods
        )
        others = (each for each in batch.gangs if each.id not in self.first_of)
        stand_ins = (Gang(id=gang) for gang in counts)
        return replace(batch, pods=pods, gangs=(*others, *stand_ins)), dict(counts)


def equal_gangs(
    context: PreemptionContext, cluster: ClusterState, cleared: Snapshot, preemptors: Sequence[Preemptor]
) -> EqualGangs:
    """
    Find the equal gangs that are placed as a whole; `cleared` is the cluster without all candidates.

    Gangs are equal if their pods fall into the same classes once they belong to no gang: the minimum is all that ties
    them together.
    """
    gangs = {each.id: each for each in context.problem.batch.gangs}
    whole = [each for each in preemptors if _is_whole(each, gangs, cluster)]
    if len(whole) < 2:  # noqa: PLR2004 - two may be equal
        return EqualGangs({})
    loose = context.batch([tuple(replace(pod, gang=None) for pod in each) for each in whole])
    problem = prepare(cleared, loose, context.policy, context.cache)
    family_of: dict[PodId, int] = {}
    for each in problem.classes:
        family_of.update((problem.pod(position).id, each.family) for position in each.members)
    by_families: dict[tuple[tuple[int, int], ...], list[GangId]] = {}
    for preemptor in whole:
        families, gang = Counter(family_of.get(pod.id, -1) for pod in preemptor), preemptor[0].gang
        if gang is not None and -1 not in families:
            by_families.setdefault(tuple(sorted(families.items())), []).append(gang)
    return EqualGangs({gang: equal[0] for equal in by_families.values() if len(equal) > 1 for gang in equal})


def _is_whole(preemptor: Preemptor, gangs: Mapping[GangId, Gang], cluster: ClusterState) -> bool:
    """Whether all pods of a preemptor are placed or none, wherever they run."""
    gang = gangs.get(preemptor[0].gang) if preemptor[0].gang is not None else None
    if gang is None or gang.levels or gang.claims or cluster.pods_by_gang.get(gang.id):
        return False
    return gang.min_count == len(preemptor)
