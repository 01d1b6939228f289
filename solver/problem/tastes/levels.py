"""Which levels of a policy a batch has something to say about, and the costs behind those of preferences and scores."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from msgspec.structs import replace

from solver.domain import SUSPECT_TAINT, Batch, Pod, PodId, Policy
from solver.feasibility import preferences as rules
from solver.problem.devices import groups
from solver.problem.memory import Engine
from solver.problem.neighbours.surroundings import Memory
from solver.problem.problem import Problem
from solver.problem.tastes import preferences, scores
from solver.problem.tastes.surroundings import Surroundings
from solver.problem.tastes.taste import NOTHING, Tastes

PREFERENCES: Final = "preferences"
SCORES: Final = "scores"


@dataclass(slots=True, eq=False)
class Keys:
    """By what pods of a batch have to be told apart beyond what they demand."""

    policy: Policy
    overdue: frozenset[PodId] = frozenset()
    looked_at: frozenset[str] = frozenset()
    images: frozenset[str] = frozenset()

    @classmethod
    def of(cls, policy: Policy, batch: Batch, around: Memory) -> "Keys":
        """Look through a batch and what runs."""
        keys = cls(policy, frozenset(batch.overdue))
        if PREFERENCES in policy.levels:
            keys.looked_at = preferences.looked_at(batch.pods, around.residents.pulling)
        if SCORES in policy.levels and policy.weights.image_locality:
            wanted = {text for pod in batch.pods if not pod.claims for text in pod.images}
            keys.images = around.judge.images & {rules.image_name(text) for text in wanted} if wanted else frozenset()
        return keys

    def of_pod(self, pod: Pod) -> tuple[object, ...]:
        """Give what tells a pod apart."""
        found: tuple[object, ...] = (pod.priority, pod.id in self.overdue)
        if PREFERENCES in self.policy.levels:
            found = (*found, *preferences.stated(pod))
        if self.looked_at:
            found = (*found, pod.id.namespace, tuple(pair for pair in pod.labels if pair[0] in self.looked_at))
        if SCORES in self.policy.levels and not pod.claims:
            found = (*found, *self._scored(pod))
        return found

    def _scored(self, pod: Pod) -> tuple[object, ...]:
        replicas = scores.replicas_of(pod) if self.policy.weights.topology_spread else ""
        images = tuple(sorted(name for name in map(rules.image_name, pod.images) if name in self.images))
        return (replicas, images) if replicas or images else ()


def applicable(problem: Problem, policy: Policy) -> Policy:
    """Leave out the levels in which all solutions are alike."""
    has_suspects = any(rule.taint.key == SUSPECT_TAINT for rule in problem.inventory.taint_rules.rules)
    says = {
        PREFERENCES: bool(problem.tastes.preferences),
        SCORES: bool(problem.tastes.scores),
        "opened-groups": _is_grouped(problem),
        "spoiled-partitions": bool(problem.layout.counter_place),
        "suspects": has_suspects,
    }
    return replace(policy, levels=tuple(each for each in policy.levels if says.get(each, True)))


def _is_grouped(problem: Problem) -> bool:
    """Whether devices are taken and there are whole groups of nodes that this could break."""
    takes = any(each.parts or each.shared for each in problem.classes)
    return takes and "opened-groups" in problem.policy.levels and bool(groups.node_groups(problem))


def work_out(problem: Problem, engine: Engine) -> None:
    """Give a problem the costs that its policy asks for; levels about which there is nothing to say are left out."""
    policy, weights = problem.policy, problem.policy.weights
    around = Surroundings(engine.neighbours(problem.inventory, problem.snapshot.pods), problem.snapshot)
    pods: Mapping[int, Pod] = {each.index: problem.pod(each.members[0]) for each in problem.classes}
    preferred, scored = NOTHING, NOTHING
    if PREFERENCES in policy.levels:
        preferred = preferences.Preferring(around, weights, engine).taste(problem.classes, pods)
    if SCORES in policy.levels:
        scored = scores.Scoring(around, problem.room, weights, engine).taste(problem.classes, pods)
    problem.tastes = Tastes(preferred, scored)
    problem.policy = applicable(problem, policy)
