"""
Choose the PersistentVolume of each claim, and drop the choices that get none.

The limits of volumes are exact in the ordinary case (`rules.volumes.batch`). Where they are not, a choice
whose volumes are not available is dropped here. Its pod comes again with the next batch, and `solve` decides the others
without it.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import msgspec

from solver.domain import (
    PersistentVolume,
    PersistentVolumeClaim,
    Placement,
    Pod,
    Reason,
    ReasonCode,
    VolumeBinding,
    VolumeClaimId,
)
from solver.problem.problem import PodClass, Problem, SharedClaim
from solver.rules.volumes.attachments import Attachable
from solver.rules.volumes.nodes import VolumeIndex
from solver.rules.volumes.topology import VolumeKey
from solver.solution import Solution

CONTENDED: Final = Reason(
    code=ReasonCode.VOLUME_CONTENDED,
    message="other pods of the batch got the volumes or attachments that the pod needs; the scheduler tries again soon",
)
"""The reason of a pod that is dropped here."""
Names = tuple[str, ...]
"""The volume of each claim that waits for a pod, in the order of `Store.waiting`; empty where one is to be made."""


@dataclass(slots=True, eq=False)
class AssignedVolumes:
    """
    A solution whose choices all have their volumes; `losers` are the families that lost choices.

    `made_on` are the nodes for which volumes of shared claims are provisioned.
    """

    solution: Solution
    names: list[Names]
    losers: frozenset[int] = frozenset()
    made_on: Mapping[VolumeClaimId, str] = field(default_factory=dict)


def assign_volumes(problem: Problem, solution: Solution) -> AssignedVolumes:
    """Assign volumes in the order of the choices, to each claim the smallest that fits."""
    if problem.volume_index is None:
        return AssignedVolumes(solution, [()] * len(solution.choices))
    assigner = _VolumeAssigner(problem.volume_index)
    assigner.share(problem, solution)
    served = [(choice, assigner.serve(problem.classes[choice.pod_class], choice.node)) for choice in solution.choices]
    lost = {choice.pod_class for choice, names in served if names is None}
    if not lost:
        return AssignedVolumes(solution, [names for _, names in served if names is not None], made_on=assigner.made_on)
    left = Counter(choice.pod_class for choice, names in served if names is not None)
    bound = _bound(problem, lost, left)
    assigned = [(choice, names) for choice, names in served if names is not None and choice.pod_class not in bound]
    used = {shared for choice, _ in assigned for shared in problem.classes[choice.pod_class].shared}
    shared = {key: each for key, each in solution.shared.items() if key in used}
    losers = frozenset(problem.classes[index].family for index in lost | bound)
    settled = Solution([choice for choice, _ in assigned], shared)
    return AssignedVolumes(settled, [names for _, names in assigned], losers, assigner.made_on)


def _bound(problem: Problem, lost: set[int], left: Counter[int]) -> frozenset[int]:
    """
    Return the classes that are dropped with classes that lost pods; `left` counts the pods of each that have volumes.

    A gang is dropped that misses its minimum. So are all pods that share a claim for all devices: the node of one pod
    decides what all devices are, and that pod may be the one that is dropped.
    """
    together = [(frozenset(rule.classes), rule.need) for rule in problem.rules.gangs]
    for shared in problem.shared:
        if _takes_all(problem, shared):
            users = frozenset(each.index for each in problem.classes if shared.index in each.shared)
            together.append((users, left.total() + 1))
    bound = frozenset[int]()
    while True:
        broken = (
            classes
            for classes, need in together
            if classes & (lost | bound) and sum(left[each] for each in classes - bound) < need
        )
        more = bound.union(*broken)
        if more == bound:
            return bound
        bound = more


def _takes_all(problem: Problem, shared: SharedClaim) -> bool:
    """Whether a claim may ask for all devices."""
    requests = (row for part in shared.parts for row in problem.requests.components[part.component].requests)
    return any(not ask.needed for row in requests for ask in row)


def without_volumes(problem: Problem, settled: AssignedVolumes) -> frozenset[int]:
    """Return the positions of the pods whose volumes other pods got."""
    if not settled.losers:
        return frozenset()
    waiting = _waiting(problem, settled)
    return frozenset(each for family in settled.losers for each in waiting[family])


def waiting(problem: Problem, settled: AssignedVolumes) -> frozenset[int]:
    """Return the positions of all pods without a place."""
    return frozenset(each for members in _waiting(problem, settled).values() for each in members)


def _waiting(problem: Problem, settled: AssignedVolumes) -> dict[int, Sequence[int]]:
    placed = Counter(problem.classes[choice.pod_class].family for choice in settled.solution.choices)
    return {family[0].family: family[0].members[placed[family[0].family] :] for family in problem.families}


def bindings(
    volume_index: VolumeIndex, pod: Pod, node: str, names: Names, made_on: Mapping[VolumeClaimId, str]
) -> tuple[VolumeBinding, ...]:
    """Return the bindings of the unbound claims of a pod on a node."""
    return tuple(
        VolumeBinding(
            claim=claim.id,
            claim_uid=claim.uid,
            volume=name,
            volume_uid=volume_index.volumes[name].uid if name else "",
            node=elsewhere if not name and (elsewhere := made_on.get(claim.id, node)) != node else "",
        )
        for claim, name in zip(volume_index.waiting(pod), names, strict=True)
    )


def classes_after(problem: Problem, placements: Sequence[Placement]) -> Sequence[PodClass]:
    """Return the classes of a problem as their last pods find it after `placements`; for explanations only."""
    if problem.volume_index is None:
        return problem.classes
    bound = {each.claim: (each, placement.node) for placement in placements for each in placement.volumes}
    by_name = {each.volume: each for each, _ in bound.values() if each.volume}
    made = {pod.id: pod for pod in problem.batch.pods}
    snapshot = msgspec.structs.replace(
        problem.snapshot,
        pods=(
            *problem.snapshot.pods,
            *(msgspec.structs.replace(made[each.pod], node_name=each.node) for each in placements),
        ),
        volumes=tuple(_kept(each, by_name.get(each.name)) for each in problem.snapshot.volumes),
        volume_claims=tuple(_selected(each, bound) for each in problem.snapshot.volume_claims),
    )
    volume_index = VolumeIndex.of(snapshot, problem.batch, problem.inventory.reaches.index)
    return [_narrowed(problem, each, volume_index) for each in problem.classes]


def _kept(volume: PersistentVolume, binding: VolumeBinding | None) -> PersistentVolume:
    if binding is None:
        return volume
    return msgspec.structs.replace(volume, claim=binding.claim, claim_uid=binding.claim_uid)


def _selected(
    claim: PersistentVolumeClaim, bound: Mapping[VolumeClaimId, tuple[VolumeBinding, str]]
) -> PersistentVolumeClaim:
    binding, node = bound.get(claim.id, (None, ""))
    if binding is None or binding.volume:
        return claim
    return msgspec.structs.replace(claim, selected_node=binding.made_on(node))


def _narrowed(problem: Problem, pod_class: PodClass, volume_index: VolumeIndex | None) -> PodClass:
    pod_volumes = (
        volume_index.volumes_of(problem.pod(pod_class.members[-1]))
        if volume_index is not None and pod_class.volumes
        else None
    )
    if pod_volumes is None:
        return pod_class
    return replace(pod_class, verdicts=pod_class.verdicts.without(pod_volumes.refusals))


@dataclass(slots=True, eq=False)
class _VolumeAssigner:
    """
    The volumes assigned and attached so far.

    `joint` are the volumes of claims that several pods share; empty where one is provisioned, on the node `made_on`.
    """

    volume_index: VolumeIndex
    joint: dict[VolumeClaimId, str] = field(default_factory=dict)
    made_on: dict[VolumeClaimId, str] = field(default_factory=dict)
    taken: set[str] = field(default_factory=set)
    added: Counter[tuple[str, int]] = field(default_factory=Counter)
    there: set[tuple[str, int]] = field(default_factory=set)
    lists: dict[tuple[int, int], list[str]] = field(default_factory=dict)

    def share(self, problem: Problem, solution: Solution) -> None:
        """Choose the volumes of shared claims, before those of single pods."""
        users: dict[VolumeClaimId, list[int]] = {}
        for choice in solution.choices:
            terms = problem.classes[choice.pod_class].volumes
            for each in terms.shared if terms is not None else ():
                users.setdefault(each, []).append(choice.node)
        for claim_id in sorted(users):
            claim, nodes = self.volume_index.claims[claim_id], users[claim_id]
            shape = self.volume_index.supply.shape_of(claim)
            reached = set(self._on(shape, nodes[0])).intersection(*(self._on(shape, node) for node in nodes[1:]))
            fitting = (name for name in self._on(shape, nodes[0]) if name in reached - self.taken)
            name = next(fitting, "")
            if name or self._is_made(claim, shape, nodes):
                self.joint[claim_id] = name
                self.taken.add(name)
            if not name:
                self.made_on[claim_id] = claim.selected_node or problem.inventory.nodes[nodes[0]].name

    def _is_made(self, claim: PersistentVolumeClaim, shape: int, nodes: Sequence[int]) -> bool:
        """Whether one volume can be provisioned that some nodes reach."""
        supply = self.volume_index.supply
        around = supply.access.around(supply.classes[claim.storage_class].provisioner, nodes[0])
        return bool(supply.supplies[shape].makes[nodes].all()) and set(nodes) <= set(around)

    def serve(self, pod_class: PodClass, node: int) -> Names | None:
        """Assign the volumes of a pod on a node; None, and no volume taken, where they are not available."""
        terms = pod_class.volumes
        if terms is None:
            return ()
        if not self._can_attach(terms, node):
            return None
        names = self._names(terms, node)
        if names is not None:
            self.taken.update(name for name in names if name)
            self._attach(terms, node)
        return names

    def _names(self, terms: VolumeKey, node: int) -> Names | None:
        """Choose volumes: claims that cannot be provisioned choose first; shared claims have their volumes already."""
        supplies = self.volume_index.supply.supplies
        if not all(claim in self.joint for claim in terms.shared):
            return None
        found = ["" if claim is None else self.joint[claim] for claim in terms.joint]
        used = set(found)
        own = (index for index, claim in enumerate(terms.joint) if claim is None)
        for index in sorted(own, key=lambda i: bool(supplies[terms.shapes[i]].makes[node])):
            shape = terms.shapes[index]
            free = (name for name in self._on(shape, node) if name not in self.taken and name not in used)
            found[index] = next(free, "")
            used.add(found[index])
            if not found[index] and not supplies[shape].makes[node]:
                return None
        return tuple(found)

    def _on(self, shape: int, node: int) -> list[str]:
        key = (shape, node)
        if key not in self.lists:
            self.lists[key] = [each.name for each in self.volume_index.supply.supplies[shape].on(node)]
        return self.lists[key]

    def _new(self, terms: VolumeKey, node: int) -> Counter[str]:
        """Count by driver the attachments that a pod adds to a node."""
        attached = self.volume_index.attached
        found = Counter[str]()
        for driver, plugin, count in terms.drivers:
            if attached.counts_on(Attachable(driver, "", plugin), node):
                found[driver] += count
        for each in terms.named:
            is_there = node in attached.nodes_of.get(each.name, ()) or (each.name, node) in self.there
            if attached.counts_on(each, node) and not is_there:
                found[each.driver] += 1
        return found

    def _can_attach(self, terms: VolumeKey, node: int) -> bool:
        left = self.volume_index.attached.left
        return all(
            self.added[driver, node] + count <= left(driver)[node] for driver, count in self._new(terms, node).items()
        )

    def _attach(self, terms: VolumeKey, node: int) -> None:
        for driver, count in self._new(terms, node).items():
            self.added[driver, node] += count
        self.there.update((each.name, node) for each in terms.named)
